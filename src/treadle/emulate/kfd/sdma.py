"""SDMA: the packets of a copy queue, in the forms 4.4, 5.2 and 6.0 (which 7.0 uses, too).

What the engine does it does in order. A fence is written when all before it has been done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from treadle.emulate.kfd import tables
from treadle.emulate.kfd.dispatch import KernelFault
from treadle.emulate.kfd.queue import GPU, QueueFacts
from treadle.emulate.kfd.word_ring import Handler, WordQueue
from treadle.emulate.machine.work import After

__all__ = ["SDMAQueue"]

_ATOMIC_ADD64 = 0x2F  # TC_OP_ATOMIC_ADD_RTN_64

# (opcode, sub-opcode) by their names in AMD's headers, and the packet that they begin.
_PACKETS = {
    ("nop", 0): "NOP", ("copy", 0): "COPY_LINEAR", ("write", 0): "WRITE_UNTILED",
    ("fence", 0): "FENCE", ("trap", 0): "TRAP", ("poll_regmem", 0): "POLL_REGMEM",
    ("const_fill", 0): "CONSTANT_FILL", ("timestamp", 2): "TIMESTAMP_GET_GLOBAL",
    ("indirect", 0): "INDIRECT", ("atomic", 0): "ATOMIC", ("gcr_req", 1): "GCR_REQ",
    ("copy", 4): "COPY_LINEAR_SUBWIN",
}  # fmt: skip


class SDMAQueue(WordQueue):
    """A copy queue. Its pointers count bytes."""

    kind = "copy queue"

    def __init__(self, gpu: GPU, facts: QueueFacts) -> None:
        self._packets = tables.sdma(gpu.chip.sdma)
        super().__init__(gpu, facts)

    def ring(self, value: int) -> None:
        if value % 4:
            raise KernelFault(f"the write pointer of a copy queue is {value}, no multiple of 4")
        self.submit(self._written)
        self._written = value // 4

    def report(self, read: int) -> None:
        self.gpu.space.write64(self.facts.read_pointer, 4 * read)

    def _kind(self, word: int) -> str:
        head = self._packets.decode("NOP", [word])
        name = self._packets.names.get(head["op"])
        sub_op = head["sub_op"] if name != "atomic" else 0
        found = _PACKETS.get((name or "", sub_op))
        if found is None:
            raise KernelFault(f"SDMA opcode {head['op']:#x}.{head['sub_op']:#x} is not emulated")
        return found

    def length(self, word: int) -> int:
        kind = self._kind(word)
        if kind == "NOP":
            return 1 + self._packets.decode(kind, [word])["count"]
        return 0 if kind == "WRITE_UNTILED" else self._packets.length(kind)

    def measure(self, words: Sequence[int]) -> int:
        count = self.length(words[0])
        if count:
            return count
        if len(words) < 4:
            return len(words) + 1  # the count comes later
        return 4 + self._packets.decode("WRITE_UNTILED", words[:4])["count"] + 1

    def handler(self, word: int) -> Handler:
        return getattr(self, f"_do_{self._kind(word).lower()}")

    def _do_gcr_req(self, words: Sequence[int]) -> None:
        pass  # it writes back and invalidates caches, and there are none

    def _add(self, run: Callable[[], None], what: str) -> None:
        self.work.add(run, After.ALL, what=what)

    # -- packets ----------------------------------------------------------------------------------

    def _do_nop(self, words: Sequence[int]) -> None:
        pass

    def _do_copy_linear(self, words: Sequence[int]) -> None:
        given = self._packets.decode("COPY_LINEAR", words)
        source = given["src_addr_31_0"] | given["src_addr_63_32"] << 32
        target = given["dst_addr_31_0"] | given["dst_addr_63_32"] << 32
        nbytes = given["count"] + 1
        what = f"copies {nbytes} bytes to {target:#x}"
        self._add(partial(self._copy, target, source, nbytes), what)

    def _copy(self, target: int, source: int, nbytes: int) -> None:
        self.gpu.space.write(target, self.gpu.space.read(source, nbytes))

    def _do_copy_linear_subwin(self, words: Sequence[int]) -> None:
        given = self._packets.decode("COPY_LINEAR_SUBWIN", words)
        if given["src_sw"] or given["dst_sw"]:
            raise KernelFault("SDMA copies that swap bytes are not emulated")
        nbytes = (given["rect_x"] + 1) << given["elementsize"]
        targets, sources = _rows(given, "dst"), _rows(given, "src")
        what = f"copies rows of {nbytes} bytes to {targets[0]:#x}"
        self._add(partial(self._copy_rows, targets, sources, nbytes), what)

    def _copy_rows(self, targets: list[int], sources: list[int], nbytes: int) -> None:
        for target, source in zip(targets, sources, strict=True):
            self._copy(target, source, nbytes)

    def _do_write_untiled(self, words: Sequence[int]) -> None:
        given = self._packets.decode("WRITE_UNTILED", words)
        data = b"".join(word.to_bytes(4, "little") for word in words[4:])
        target = given["dst_addr_31_0"] | given["dst_addr_63_32"] << 32
        self._add(partial(self.gpu.space.write, target, data), f"writes {len(data)} bytes")

    def _do_constant_fill(self, words: Sequence[int]) -> None:
        given = self._packets.decode("CONSTANT_FILL", words)
        size = {0: 1, 1: 2, 2: 4}.get(given["fillsize"])
        nbytes = given["count"] + 1 if size == 1 else given["count"] + 4
        if size is None or nbytes % size:
            raise KernelFault(f"SDMA fills {nbytes} bytes in pieces of {given['fillsize']}")
        data = given["src_data_31_0"].to_bytes(4, "little")[:size] * (nbytes // size)
        target = given["dst_addr_31_0"] | given["dst_addr_63_32"] << 32
        self._add(partial(self.gpu.space.write, target, data), f"fills {nbytes} bytes")

    def _do_timestamp_get_global(self, words: Sequence[int]) -> None:
        given = self._packets.decode("TIMESTAMP_GET_GLOBAL", words)
        address = given["write_addr_31_3"] << 3 | given["write_addr_63_32"] << 32
        self._add(lambda: self.signal(address, 8, self.gpu.clock()), "writes the time")

    def _do_fence(self, words: Sequence[int]) -> None:
        if self.gpu.drops("signal"):
            return
        given = self._packets.decode("FENCE", words)
        address = given["addr_31_0"] | given["addr_63_32"] << 32
        write = partial(self.signal, address, 4, given["data"])
        after = After.NOTHING if self.gpu.drops("release") else After.ALL
        self.work.add(write, after, is_urgent=True)

    def _do_trap(self, words: Sequence[int]) -> None:
        event = self._packets.decode("TRAP", words)["int_context"]
        self.work.add(partial(self.gpu.interrupt, event), After.ALL, is_urgent=True)

    def _do_atomic(self, words: Sequence[int]) -> None:
        given = self._packets.decode("ATOMIC", words)
        if given["atomic_op"] != _ATOMIC_ADD64:
            raise KernelFault(f"the SDMA atomic {given['atomic_op']:#x} is not emulated")
        address = given["addr_31_0"] | given["addr_63_32"] << 32
        number = given["src_data_31_0"] | given["src_data_63_32"] << 32
        space = self.gpu.space
        self.work.add(
            lambda: self.signal(address, 8, space.read64(address) + number),
            After.ALL, is_urgent=True,
        )  # fmt: skip

    def _do_poll_regmem(self, words: Sequence[int]) -> Iterator[bool]:
        given = self._packets.decode("POLL_REGMEM", words)
        if not given["mem_poll"]:
            raise KernelFault("SDMA polls of registers are not emulated")
        address = given["addr_31_0"] | given["addr_63_32"] << 32
        return self.until(address, 4, given["mask"], given["value"], given["func"])

    def _do_indirect(self, words: Sequence[int]) -> Iterator[bool]:
        given = self._packets.decode("INDIRECT", words)
        address = given["ib_base_31_0"] | given["ib_base_63_32"] << 32
        return self.do_all(self.words(address, given["ib_size"]))


def _rows(given: dict[str, int], side: str) -> list[int]:
    """Where each row of a rectangle begins. Sizes are one less than they mean, in elements."""
    start = given[f"{side}_addr_31_0"] | given[f"{side}_addr_63_32"] << 32
    pitch, plane = given[f"{side}_pitch"] + 1, given[f"{side}_slice_pitch"] + 1
    x, y, z = (given[f"{side}_{axis}"] for axis in "xyz")
    return [
        start + (x + (y + row) * pitch + (z + depth) * plane << given["elementsize"])
        for depth in range(given["rect_z"] + 1)
        for row in range(given["rect_y"] + 1)
    ]
