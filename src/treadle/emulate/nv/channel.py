"""A channel: a ring of pushbuffers that is read, and the work that their methods start.

It is a queue whose front reads entries and methods. A fault ends all channels of its group, and
the driver tells the program by error notifiers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from treadle.emulate.machine.queue import Queue
from treadle.emulate.machine.work import After
from treadle.emulate.nv import tables
from treadle.emulate.nv.compute import ComputeEngine
from treadle.emulate.nv.copy import CopyEngine
from treadle.emulate.nv.engines import GPU
from treadle.emulate.nv.faults import ChannelFault

if TYPE_CHECKING:
    from treadle.emulate.machine.faults import EngineFault
    from treadle.emulate.machine.knowledge import Knowledge
    from treadle.emulate.machine.memory import AddressSpace, MemoryFault
    from treadle.emulate.nv.group import ChannelGroup

__all__ = ["Channel", "ChannelFacts"]

_HOST_CLASS = 0xC56F  # whose methods all later ones have, too
_HOST_METHODS = 0x100  # methods below this are the host's
_INCREASING, _NOT_INCREASING, _IMMEDIATE, _ONE_INCREASING = 1, 3, 4, 5  # bits 31:29 of a header
_FAILED = 0xFFFF


@dataclass(frozen=True)
class ChannelFacts:
    """What the program said when it made the channel. The ring is at an address of the GPU's, USERD
    and the notifier are in this process.
    """

    ring: int
    entries: int
    userd: int
    notifier: int
    space: AddressSpace
    group: ChannelGroup
    release: int


class Channel(Queue[GPU]):
    """One channel, by its work submission token."""

    def __init__(self, gpu: GPU, token: int, facts: ChannelFacts) -> None:
        super().__init__(gpu, f"channel {token} of GPU {gpu.gpu_id:#x}")
        self.token, self.facts = token, facts
        self.space = facts.space
        self.is_scheduled = self.is_registered = False
        control = tables.structure("Nvc56fControl", facts.release).fields
        self._get = facts.userd + control["GPGet"][0]
        self._put = facts.userd + control["GPPut"][0]
        self._notification = tables.structure("NvNotification", facts.release)
        self._is_rung = False
        self._submitted: list[Knowledge] = []  # what the host knew at each doorbell
        self._offered: dict[int, str] = {}
        self.bound: dict[int, ComputeEngine | CopyEngine] = {}
        self._semaphore: dict[str, int] = {}

    @property
    def is_halted(self) -> bool:
        """Whether its group, or all of the GPU, has stopped."""
        return self.gpu.is_halted or self.facts.group.is_halted

    def fail(self, fault: MemoryFault | EngineFault) -> None:
        """The group ends, and the program is told."""
        self.facts.group.fail(fault)

    def offer(self, kind: str, number: int) -> None:
        """An object of a class below the channel: "compute" or "copy"."""
        self._offered[number] = kind

    def ring(self) -> None:
        """The program has stored the token to the doorbell."""
        self._submitted.append(self.ordering.submitted())
        self._is_rung = True

    def stop(self) -> None:
        """Nothing that it has not done is ever done."""
        self.work.stream.is_over = True

    def notify(self, number: int) -> None:
        """Writes an error into the channel's notifier."""
        block = bytearray(self._notification.nbytes)
        self._notification.put(block, "info32", number)
        self._notification.put(block, "status", _FAILED)
        ctypes.memmove(self.facts.notifier, bytes(block), len(block))

    # -- engines ----------------------------------------------------------------------------------

    def front(self) -> Iterator[bool]:
        """Reads the entries of the ring."""
        while True:
            if not self._is_rung or not self.is_scheduled:
                yield False
                continue
            while self._submitted:
                self.work.stream.hear(self._submitted.pop())
            get, put = (ctypes.c_uint32.from_address(at).value for at in (self._get, self._put))
            if put >= self.facts.entries:
                raise _wrong(f"GPPut is {put}, and there are {self.facts.entries} entries")
            if get == put:
                self._is_rung = False
                yield False
                continue
            if not self.is_registered:
                raise _wrong("the channel is not registered with UVM")
            entry = self.space.read64(self.facts.ring + 8 * get)
            yield from self._segment(entry)
            following = (get + 1) % self.facts.entries
            ctypes.c_uint32.from_address(self._get).value = following
            yield True

    # -- pushbuffers ------------------------------------------------------------------------------

    def _segment(self, entry: int) -> Iterator[bool]:
        """One piece of the pushbuffer: GP_ENTRY0 and GP_ENTRY1."""
        address, high = entry & 0xFF_FFFF_FFFC, entry >> 32
        length = high >> 10 & (1 << 21) - 1
        if entry & 3 or high >> 31 or high & 0x100:
            raise _wrong(f"a GPFIFO entry {entry:#x} of a kind that is not emulated")
        if not length:
            return
        data = self.gpu.changed("word", self.space.read(address, 4 * length))
        words = memoryview(data).cast("I")
        at = 0
        while at < len(words):
            header = words[at]
            operation, count = header >> 29, header >> 16 & 0x1FFF
            subchannel, method = header >> 13 & 7, (header & 0xFFF) << 2
            if header & 0x1000:
                raise _wrong(f"a method header {header:#x} with a bit that is none's")
            if operation == _IMMEDIATE:
                yield from self._method(subchannel, method, count)
                at += 1
                continue
            if operation not in (_INCREASING, _NOT_INCREASING, _ONE_INCREASING):
                raise _wrong(f"a method header {header:#x} of a kind that is not emulated")
            if at + count >= len(words):
                raise _wrong(f"{count} values of a method go beyond the pushbuffer")
            for n in range(count):
                step = {_INCREASING: n, _NOT_INCREASING: 0, _ONE_INCREASING: min(n, 1)}[operation]
                yield from self._method(subchannel, method + 4 * step, words[at + 1 + n])
            at += 1 + count

    def _method(self, subchannel: int, method: int, value: int) -> Iterator[bool]:
        if method == 0:
            self._bind(subchannel, value)
        elif method < _HOST_METHODS:
            yield from self._host(method, value)
        else:
            engine = self.bound.get(subchannel)
            if engine is None:
                raise _wrong(f"method {method:#x} on subchannel {subchannel}, which has no class")
            while not self.work.has_room():
                yield False
            engine.method(method, value)
        yield True

    def _bind(self, subchannel: int, number: int) -> None:
        kind = self._offered.get(number)
        if kind is None:
            raise _wrong(f"class {number:#x} is no object of the channel")
        make = ComputeEngine if kind == "compute" else CopyEngine
        self.bound[subchannel] = make(self.gpu, self.space, self.work, number)

    # -- the host class ---------------------------------------------------------------------------

    def _host(self, method: int, value: int) -> Iterator[bool]:
        found = tables.methods("host", _HOST_CLASS).get(method)
        if found is None or not found.name.startswith("SEM_"):
            raise _wrong(f"host method {method:#x} is not emulated")
        try:
            fields = found.decode(value)
        except ValueError as error:
            raise _wrong(str(error)) from error
        if found.name != "SEM_EXECUTE":
            self._semaphore[found.name] = value
            return
        state = self._semaphore
        missing = {"SEM_ADDR_LO", "SEM_ADDR_HI", "SEM_PAYLOAD_LO", "SEM_PAYLOAD_HI"} - {*state}
        if missing:
            raise _wrong(f"a semaphore without {', '.join(sorted(missing))}")
        address = state["SEM_ADDR_LO"] | state["SEM_ADDR_HI"] << 32
        payload = state["SEM_PAYLOAD_LO"] | state["SEM_PAYLOAD_HI"] << 32
        nbytes = 8 if fields["PAYLOAD_SIZE"] else 4
        if address % (16 if fields["RELEASE_TIMESTAMP"] else nbytes):
            raise _wrong(f"a semaphore at {address:#x}")
        payload &= (1 << 8 * nbytes) - 1
        if fields["OPERATION"] == 0:
            yield from self._acquire(address, payload, nbytes)
        elif fields["OPERATION"] == 1:
            self._release(address, payload, nbytes, fields)
        else:
            raise _wrong(f"a semaphore's operation {fields['OPERATION']} is not emulated")

    def _acquire(self, address: int, payload: int, nbytes: int) -> Iterator[bool]:
        if self.gpu.drops("acquire"):
            return
        while int.from_bytes(self.space.read(address, nbytes), "little") != payload:
            yield False
        self.work.stream.hear(self.space.heard_at(address))

    def _release(self, address: int, payload: int, nbytes: int, fields: dict[str, int]) -> None:
        if self.gpu.drops("release"):
            return
        is_ordered = fields["RELEASE_WFI"] and not self.gpu.drops("order")
        run = partial(self._write, address, payload, nbytes, bool(fields["RELEASE_TIMESTAMP"]))
        after = After.ALL if is_ordered else After.NOTHING
        self.work.add(run, after, is_urgent=True)

    def _write(self, address: int, payload: int, nbytes: int, is_timed: bool) -> None:
        if is_timed:
            self.space.signal(address + 8, self.gpu.clock().to_bytes(8, "little"))
        self.space.signal(address, payload.to_bytes(nbytes, "little"))


def _wrong(told: str) -> ChannelFault:
    return ChannelFault("PBDMA_ERROR", told)
