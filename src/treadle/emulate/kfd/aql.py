"""AQL: packets of 64 bytes that HSA defines, with barriers and completion signals.

A kernel is named by the address of its descriptor. What PM4 sets by registers, the queue finds out
by itself: registers of the program from the descriptor, scratch memory from `amd_queue_t`, scalar
registers by the descriptor's bits. Offsets are those of hsa.h and amd_hsa_queue.h.

Work without the barrier bit may run beside the work before it, in either order. Where a packet asks
for no release, its completion signal says nothing of its writes.

Packets of AMD's own kind are PM4 commands in an indirect buffer, or wait for a signal's value.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Iterator
from functools import partial

from treadle.emulate.kfd.dispatch import Dispatch, KernelFault
from treadle.emulate.kfd.pm4 import PM4Queue
from treadle.emulate.kfd.queue import GPU, Queue, QueueFacts
from treadle.emulate.machine.work import After

__all__ = ["AQLQueue"]

_PACKET = 64
_VENDOR, _INVALID, _DISPATCH, _BARRIER_AND, _BARRIER_OR = 0, 1, 2, 3, 5
_RELEASE_SHIFT, _ACQUIRE_SHIFT, _BARRIER_SHIFT = 11, 9, 8
_PM4, _BARRIER_VALUE = 1, 2  # formats of vendor packets
_REST_OF_PM4 = 10  # words of the packet behind the command that jumps to the buffer

# What a barrier compares a signal with its value by.
_CONDITIONS = (operator.eq, operator.ne, operator.lt, operator.ge)

# amd_queue_t, from its beginning: write id, read id, where the read id is, scratch.
_WRITE_ID, _READ_ID, _READ_ID_OFFSET = 0x38, 0x80, 0x88
_TMPRING, _DESCRIPTOR, _SCRATCH, _PROPERTIES = 0x8C, 0x90, 0xA0, 0xB4
_PROFILES = 1 << 3

# amd_signal_t: value, mailbox and number of an event, two times.
_VALUE, _MAILBOX, _EVENT, _START, _END = 8, 16, 24, 32, 40

# Scalar registers that a descriptor asks for, in their order: (bit, registers, what it is).
_USER_SGPRS = (
    (0, 4, "scratch descriptor"), (1, 2, "packet"), (2, 2, "queue"), (3, 2, "kernarg"),
    (4, 2, "dispatch id"), (5, 2, "flat scratch"), (6, 1, "private size"),
)  # fmt: skip
_IS_WAVE32 = 1 << 10
_PRELOADS = ("gfx90a", "gfx942")
_LDS_UNIT = 512


class AQLQueue(Queue):
    """A queue of AQL packets. `facts.write_pointer` lies in an amd_queue_t."""

    kind, has_caches = "AQL queue", True

    def __init__(self, gpu: GPU, facts: QueueFacts) -> None:
        self._read = self._rung = 0
        self._queue = facts.write_pointer - _WRITE_ID
        super().__init__(gpu, facts)
        self._pm4 = PM4Queue(gpu, facts)  # what reads PM4 commands that packets lead to
        self._pm4.work = self.work

    def ring(self, value: int) -> None:
        self.submit(self._rung)
        self._rung = max(self._rung, value + 1)

    def front(self) -> Iterator[bool]:
        while True:
            there = self._rung > self._read and self.work.has_room()
            there = there and self.gpu.space.read64(self._queue + _WRITE_ID) > self._read
            address = self.facts.ring + self._read * _PACKET % self.facts.ring_bytes
            packet = self.gpu.space.read(address, _PACKET) if there else b"\1\0"
            (header,) = struct.unpack_from("<H", packet)
            if header & 0xFF == _INVALID:
                yield False  # the program may write it later
                continue
            self.begin(self._read)
            yield from self._do(header, packet, address)
            self.gpu.space.write(address, _INVALID.to_bytes(2, "little"))
            self._read += 1
            self.gpu.space.write64(self._queue + _READ_ID, self._read)
            yield True

    def _do(self, header: int, packet: bytes, address: int) -> Iterator[bool]:
        if header >> _BARRIER_SHIFT & 1 and not self.gpu.drops("barrier"):
            self.work.barrier()
        kind = header & 0xFF
        signal = int.from_bytes(packet[56:64], "little")
        if kind in (_BARRIER_AND, _BARRIER_OR):
            yield from self._wait(kind, packet)
            self._acquire(header)
            self.work.add(partial(self._complete, signal, 0), is_urgent=True)
        elif kind == _DISPATCH:
            self._launch(header, packet, address, signal)
        elif kind == _VENDOR:
            yield from self._vendor(header, packet, signal)
        else:
            raise KernelFault(f"AQL packets of type {kind} are not emulated")

    def _acquire(self, header: int) -> None:
        """Invalidates caches, where a packet asks for it, before its work begins."""
        if header >> _ACQUIRE_SHIFT & 3 and not self.gpu.drops("acquire"):
            self.work.stream.acquire()

    def _vendor(self, header: int, packet: bytes, signal: int) -> Iterator[bool]:
        (form,) = struct.unpack_from("<H", packet, 2)
        if form == _PM4:
            *command, rest = struct.unpack_from("<5I", packet, 4)
            if rest != _REST_OF_PM4:
                raise KernelFault(f"an AQL packet of PM4 has {rest} more words")
            yield from self._pm4.do(command)
        elif form & 0xFF == _BARRIER_VALUE:
            yield from self._wait_for_value(packet)
        else:
            raise KernelFault(f"AMD's AQL packets of format {form} are not emulated")
        self._acquire(header)
        self.work.add(partial(self._complete, signal, 0), After.ALL, is_urgent=True)

    def _wait_for_value(self, packet: bytes) -> Iterator[bool]:
        signal, value, mask, condition = struct.unpack_from("<QqqI", packet, 8)
        if condition >= len(_CONDITIONS):
            raise KernelFault(f"a barrier has condition {condition}, which is none")
        while signal and not self.gpu.drops("wait"):
            (found,) = struct.unpack("<q", self.gpu.space.read(signal + _VALUE, 8))
            if _CONDITIONS[condition](found & mask, value):
                self.hear(signal + _VALUE)
                return
            yield False

    def _wait(self, kind: int, packet: bytes) -> Iterator[bool]:
        """Until all signals that the packet names are 0, or any."""
        signals = [one for one in struct.unpack_from("<5Q", packet, 8) if one]
        if not signals or self.gpu.drops("wait"):
            return
        is_met = all if kind == _BARRIER_AND else any
        while not is_met(self._is_zero(one) for one in signals):
            yield False
        for one in signals:
            if self._is_zero(one):
                self.hear(one + _VALUE)

    def _is_zero(self, signal: int) -> bool:
        return self.gpu.space.read64(signal + _VALUE) == 0

    # -- dispatches -------------------------------------------------------------------------------

    def _launch(self, header: int, packet: bytes, address: int, signal: int) -> None:
        dispatch = self._dispatch(packet, address)
        self._acquire(header)
        what = f"runs the code at {dispatch.program:#x}"
        releases = header >> _RELEASE_SHIFT & 3 and not self.gpu.drops("release")
        if not releases:
            self.work.add(partial(self.gpu.execute, dispatch), what=what)
            self.work.add(partial(self._complete, signal, 0), After.NOTHING, is_urgent=True)
            return
        run = partial(self._run, dispatch, signal)
        self.work.add(run, is_urgent=bool(signal), what=what)

    def _run(self, dispatch: Dispatch, signal: int) -> None:
        started = self.gpu.clock()
        self.gpu.execute(dispatch)
        if not self.gpu.is_halted:
            self._complete(signal, started, is_kernel=True)

    def _complete(self, signal: int, started: int, is_kernel: bool = False) -> None:
        """What the end of a packet does to its signal; `is_kernel`: of the kernel that has run."""
        space = self.gpu.space
        if not signal or self.gpu.drops("signal"):
            return
        if space.read32(self._queue + _PROPERTIES) & _PROFILES:
            self.signal(signal + _START, 8, started or self.gpu.clock())
            self.signal(signal + _END, 8, self.gpu.clock())
        left = space.read64(signal + _VALUE) - 1
        self.signal(signal + _VALUE, 8, left, covers_itself=is_kernel)
        mailbox, event = space.read64(signal + _MAILBOX), space.read32(signal + _EVENT)
        if mailbox:
            self.signal(mailbox, 8, event)
            self.gpu.interrupt(event)

    def _dispatch(self, packet: bytes, address: int) -> Dispatch:
        chip, space = self.gpu.chip, self.gpu.space
        setup, wx, wy, wz, _, gx, gy, gz, private, group, kernel, kernarg = struct.unpack_from(
            "<HHHHHIIIIIQQ", packet, 2
        )
        if not 1 <= setup & 3 <= 3 or 0 in (wx, wy, wz, gx, gy, gz):
            raise KernelFault(f"an AQL dispatch of {(gx, gy, gz)} by {(wx, wy, wz)} work items")
        descriptor = space.read(kernel, 64)
        (fixed_group, fixed_private) = struct.unpack_from("<II", descriptor)
        (entry,) = struct.unpack_from("<q", descriptor, 16)
        rsrc3, rsrc1, rsrc2 = struct.unpack_from("<III", descriptor, 44)
        properties, preload = struct.unpack_from("<HH", descriptor, 56)
        if group < fixed_group or private < fixed_private:
            raise KernelFault("an AQL dispatch has less memory than its kernel asks for")
        user = self._user_sgprs(properties, address, kernarg, private)
        user += self._preloaded(preload, kernarg)
        has_scratch = bool(rsrc2 & 1)
        scratch, wave_bytes, waves = self._scratch() if has_scratch else (0, 0, 0)
        return Dispatch(
            chip=chip.arch,
            program=kernel + entry,
            rsrc1=rsrc1,
            rsrc2=rsrc2,
            rsrc3=rsrc3,
            user_sgprs=tuple(user),
            workgroup=(wx, wy, wz),
            work_items=(gx, gy, gz),
            lds=-(-group // _LDS_UNIT) * _LDS_UNIT,
            scratch=scratch,
            scratch_wave=wave_bytes,
            scratch_waves=waves,
            wave=32 if properties & _IS_WAVE32 else 64,
            space=space,
        )

    def _scratch(self) -> tuple[int, int, int]:
        chip, space = self.gpu.chip, self.gpu.space
        ring = space.read32(self._queue + _TMPRING)
        waves, size = ring & 0xFFF, ring >> 12
        if not waves or not size:
            raise KernelFault("a kernel uses scratch memory, and its queue has none")
        where = space.read64(self._queue + _SCRATCH) if chip.has_architected_scratch else 0
        return where, size * chip.scratch_unit, waves

    def _user_sgprs(self, properties: int, packet: int, kernarg: int, private: int) -> list[int]:
        values = {
            "packet": packet, "queue": self._queue, "kernarg": kernarg, "dispatch id": self._read,
            "flat scratch": self.gpu.space.read64(self._queue + _SCRATCH), "private size": private,
        }  # fmt: skip
        found: list[int] = []
        for bit, count, what in _USER_SGPRS:
            if not properties >> bit & 1:
                continue
            if what == "scratch descriptor":
                data = self.gpu.space.read(self._queue + _DESCRIPTOR, 16)
                found += memoryview(data).cast("I").tolist()
            else:
                found += [values[what] >> 32 * word & 0xFFFFFFFF for word in range(count)]
        return found

    def _preloaded(self, preload: int, kernarg: int) -> list[int]:
        """Words of the arguments that the hardware puts into scalar registers itself."""
        length, offset = preload & 0x7F, preload >> 7
        if not length or self.gpu.chip.arch not in _PRELOADS:
            return []
        return self.words(kernarg + 4 * offset, length)
