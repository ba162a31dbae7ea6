"""The command processor: packets of types 4 and 7, for one context.

Packets are read in order. A kernel runs beside what follows, until CP_WAIT_FOR_IDLE. Kernels share
their caches: what others wrote they read behind a CACHE_INVALIDATE, and others what they wrote
behind a CACHE_FLUSH_TS, or when the driver says that their submission has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from treadle.emulate.kgsl import tables
from treadle.emulate.kgsl.accesses import Accesses
from treadle.emulate.kgsl.faults import KernelFault
from treadle.emulate.kgsl.packets import Packet, packets
from treadle.emulate.kgsl.state import State
from treadle.emulate.machine import queue
from treadle.emulate.machine.knowledge import Knowledge
from treadle.emulate.machine.work import After

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.emulate.kgsl.chips import Chip
    from treadle.emulate.kgsl.dispatch import Dim, Execute
    from treadle.emulate.machine.memory import AddressSpace, MemoryFault

__all__ = ["GPU", "Context", "Submission"]

_DEPTH = 3  # of buffers that lead to others
_COMPARISONS: tuple[Callable[[int, int], bool], ...] = (
    lambda value, reference: True,
    lambda value, reference: value < reference,
    lambda value, reference: value <= reference,
    lambda value, reference: value == reference,
    lambda value, reference: value != reference,
    lambda value, reference: value >= reference,
    lambda value, reference: value > reference,
)
_POLL_REGISTER, _POLL_MEMORY = 0, 1
_SIGN = 1 << 31


class GPU(queue.GPU, Protocol):
    """What a context asks of its GPU, an EmulatedGPU."""

    chip: Chip
    space: AddressSpace
    execute: Execute

    def explain(self, why: str) -> None: ...


class Submission(NamedTuple):
    """Command buffers, each an address and bytes, and the timestamp of their end.

    `known` is what the host knew to have ended.
    """

    buffers: tuple[tuple[int, int], ...]
    timestamp: int
    known: Knowledge


class Context(queue.Queue[GPU]):
    """One context. After a fault it is `is_invalid`, and does nothing more.

    `ended` is what is known to have ended since `retired` is what it is.
    """

    has_caches = True

    def __init__(self, gpu: GPU, number: int) -> None:
        self.queued = self.retired = 0  # timestamps
        self.is_invalid = False
        self._submissions: deque[Submission] = deque()
        self._state = State(gpu.chip)
        super().__init__(gpu, f"context {number}")
        stream = self.work.stream
        self._accesses = Accesses(gpu.space, stream, f"the command processor of context {number}")
        self.ended = Knowledge()

    @property
    def is_halted(self) -> bool:
        return self.is_invalid or self.gpu.is_halted

    def submit(self, buffers: Sequence[tuple[int, int]]) -> int:
        """Takes command buffers on, and gives their timestamp."""
        self.queued += 1
        known = self.ordering.submitted()
        self._submissions.append(Submission(tuple(buffers), self.queued, known))
        return self.queued

    def fail(self, fault: MemoryFault | queue.EngineFault) -> None:
        self.is_invalid = True
        self.stop()
        self.gpu.explain(str(fault))

    def stop(self) -> None:
        """What it has not done is never done."""
        self.work.stream.is_over = True
        self._accesses.stop()

    def front(self) -> Iterator[bool]:
        while True:
            if not self._submissions:
                yield False
                continue
            submission = self._submissions.popleft()
            self._state = State(self.gpu.chip)
            self._accesses.hear(submission.known)
            for address, nbytes in submission.buffers:
                yield from self._run(address, nbytes, 0)
            self.ended = self.work.before(After.ALL)
            yield from self._until_idle()
            self.retired = submission.timestamp
            yield True

    def _until_idle(self) -> Iterator[bool]:
        """Waits until all work is done."""
        done: list[bool] = []
        self.work.add(lambda: done.append(True), After.ALL, is_urgent=True)
        while not done:
            yield False

    # -- packets

    def _run(self, address: int, nbytes: int, depth: int) -> Iterator[bool]:
        """The packets of a buffer."""
        if depth >= _DEPTH:
            raise KernelFault(f"command buffers lead to others more than {_DEPTH} deep")
        if address % 4 or nbytes % 4:
            raise KernelFault(f"a command buffer of {nbytes} bytes at {address:#x}")
        data = self._accesses.read(address, nbytes, "reads packets")
        for packet in packets(memoryview(data).cast("I")):
            while not self.work.has_room():
                yield False
            yield from self._do(packet, depth)
            yield True

    def _do(self, packet: Packet, depth: int) -> Iterator[bool]:
        if packet.opcode is None:
            for address, value in enumerate(packet.words, packet.register):
                self._state.write(address, value)
            return
        name, words = tables.opcode(packet.opcode), packet.words
        if name == "CP_INDIRECT_BUFFER":
            yield from self._run(_address(words, 0), 4 * words[2], depth + 1)
            return
        found = getattr(self, f"_do_{name}".lower(), None)
        if found is None:
            raise KernelFault(f"opcode {packet.opcode:#x} ({name}) is not emulated")
        waiting = found(words)
        if waiting is not None:
            yield from waiting

    def _do_cp_nop(self, words: Sequence[int]) -> None:
        pass

    _do_cp_wait_mem_writes = _do_cp_nop  # writes are seen at once
    _do_cp_wait_for_me = _do_cp_nop

    def _do_cp_set_marker(self, words: Sequence[int]) -> None:
        given = tables.packet("CP_SET_MARKER", words)
        if not given["MARKER_MODE"] and given["MODE"] != _COMPUTE:
            raise KernelFault(f"mode {given['MODE']} is not emulated")

    def _do_cp_load_state6(self, words: Sequence[int]) -> None:
        self._state.load(words)

    _do_cp_load_state6_frag = _do_cp_load_state6

    # -- kernels

    def _dispatch(self, groups: Dim) -> None:
        run = partial(self._launch, self._state.copy(), groups)
        self.work.add(run, what=f"runs the code at {self._state.program:#x}")

    def _launch(self, state: State, groups: Dim) -> None:
        """A kernel and what it is started with: constants and images are read by then."""
        dispatch = state.dispatch(self.gpu.space, groups)
        if all(groups):
            self.gpu.execute(dispatch)

    def _do_cp_run_opencl(self, words: Sequence[int]) -> None:
        self._dispatch(self._state.groups())

    def _do_cp_exec_cs(self, words: Sequence[int]) -> None:
        given = tables.packet("CP_EXEC_CS", words)
        self._dispatch((given["NGROUPS_X"], given["NGROUPS_Y"], given["NGROUPS_Z"]))

    def _do_cp_exec_cs_indirect(self, words: Sequence[int]) -> None:
        given = tables.packet("CP_EXEC_CS_INDIRECT", words)
        data = self._accesses.read(given["ADDR_LO"] | given["ADDR_HI"] << 32, 12)
        x, y, z = memoryview(data).cast("I")
        self._dispatch((x, y, z))

    # -- order

    def _do_cp_wait_for_idle(self, words: Sequence[int]) -> Iterator[bool]:
        if self.gpu.drops("idle"):
            return
        yield from self._until_idle()
        self.work.barrier()
        stream = self.work.stream
        stream.acquire(Knowledge().with_first(stream.number, self.work.count))
        self._accesses.idle()

    def _do_cp_event_write(self, words: Sequence[int]) -> None:
        given = tables.packet("CP_EVENT_WRITE", words)
        name = tables.event(given["EVENT"])
        if name not in _EVENTS:
            raise KernelFault(f"event {given['EVENT']} ({name}) is not emulated")
        if name == "CACHE_INVALIDATE" and not self.gpu.drops("invalidate"):
            self.work.stream.acquire()
        if len(words) == 1:
            return
        if len(words) != 4 or not name.endswith("_TS"):
            raise KernelFault(f"event {name} of {len(words)} words")
        address = given["ADDR_0_LO"] | given["ADDR_0_HI"] << 32
        if address % (8 if given["TIMESTAMP"] else 4):
            raise KernelFault(f"event {name} writes to {address:#x}")
        if self.gpu.drops("event"):
            return
        write = partial(self._write_event, address, words[3], bool(given["TIMESTAMP"]))
        flushes = name == "CACHE_FLUSH_TS" and not self.gpu.drops("flush")
        if flushes:
            self._accesses.flush(self.work.before(After.ALL))
        self.work.add(write, After.ALL if flushes else After.NOTHING, is_urgent=True)

    def _write_event(self, address: int, value: int, has_clock: bool) -> None:
        if has_clock:
            value, nbytes = self.gpu.clock(), 8
        else:
            nbytes = 4
        self.gpu.space.signal(address, value.to_bytes(nbytes, "little"))

    def _do_cp_wait_reg_mem(self, words: Sequence[int]) -> Iterator[bool]:
        given = tables.packet("CP_WAIT_REG_MEM", words)
        if given["POLL"] != _POLL_MEMORY:
            raise KernelFault(f"waiting for what is polled by {given['POLL']} is not emulated")
        if given["FUNCTION"] >= len(_COMPARISONS):
            raise KernelFault(f"a wait has comparison {given['FUNCTION']}, which is none")
        address = given["POLL_ADDR_LO"] | given["POLL_ADDR_HI"] << 32
        flip = _SIGN if given["SIGNED_COMPARE"] else 0
        compare = _COMPARISONS[given["FUNCTION"]]
        return self._until(
            address, lambda value: compare(value & given["MASK"] ^ flip, given["REF"] ^ flip)
        )

    def _do_cp_wait_mem_gte(self, words: Sequence[int]) -> Iterator[bool]:
        given = tables.packet("CP_WAIT_MEM_GTE", words)
        address = given["POLL_ADDR_LO"] | given["POLL_ADDR_HI"] << 32
        return self._until(address, lambda value: value ^ _SIGN >= given["REF"] ^ _SIGN)

    def _until(self, address: int, holds: Callable[[int], bool]) -> Iterator[bool]:
        if self.gpu.drops("wait"):
            return
        while not holds(self.gpu.space.read32(address)):
            yield False
        self._accesses.hear(self.gpu.space.heard_at(address))

    # -- memory and registers

    def _do_cp_mem_write(self, words: Sequence[int]) -> None:
        data = b"".join(word.to_bytes(4, "little") for word in words[2:])
        self._accesses.write(_address(words, 0), data)

    def _do_cp_reg_to_mem(self, words: Sequence[int]) -> None:
        given = tables.packet("CP_REG_TO_MEM", words)
        if given["ACCUMULATE"]:
            raise KernelFault("adding a register to memory is not emulated")
        address = given["DEST"] | given["DEST_HI"] << 32
        count = 2 if given["64B"] else max(given["CNT"], 1)
        clock = self.gpu.clock()
        for i in range(count):
            name = tables.register(given["REG"] + i)
            if name in ("CP_ALWAYS_ON_COUNTER", "CP_ALWAYS_ON_COUNTER_HI"):
                value = clock >> 32 if name.endswith("HI") else clock
            else:
                value = self._state.read(given["REG"] + i)
            self._accesses.write_number(address + 4 * i, 4, value)

    def _do_cp_mem_to_reg(self, words: Sequence[int]) -> None:
        given = tables.packet("CP_MEM_TO_REG", words)
        address = given["SRC"] | given["SRC_HI"] << 32
        shift = 2 if given["SHIFT_BY_2"] else 0
        for i in range(max(given["CNT"], 1)):
            value = self._accesses.read_number(address + 4 * i, 4) << shift & 0xFFFFFFFF
            self._state.write(given["REG"] + i, value)

    def _do_cp_mem_to_mem(self, words: Sequence[int]) -> None:
        """The sum of numbers in memory, some of them with the other sign."""
        given = tables.packet("CP_MEM_TO_MEM", words)
        nbytes, read = 8 if given["DOUBLE"] else 4, self._accesses.read_number
        target, *sources = (_address(words, at) for at in range(1, len(words), 2))
        signs = (given[f"NEG_{letter}"] for letter in "ABC")
        total = sum(
            -read(at, nbytes) if sign else read(at, nbytes)
            for at, sign in zip(sources, signs, strict=False)
        )
        self._accesses.write_number(target, nbytes, total)


_COMPUTE = 8
# Those of which something is known: kernels' caches are neither of the color's nor of the depth's.
_EVENTS = {"CACHE_FLUSH_TS", "RB_DONE_TS", "CACHE_INVALIDATE", "PC_CCU_INVALIDATE_COLOR",
           "PC_CCU_INVALIDATE_DEPTH", "PC_CCU_FLUSH_COLOR_TS", "PC_CCU_FLUSH_DEPTH_TS", "LABEL",
           "START_COMPUTE_CTRS", "STOP_COMPUTE_CTRS"}  # fmt: skip


def _address(words: Sequence[int], at: int) -> int:
    return words[at] | words[at + 1] << 32
