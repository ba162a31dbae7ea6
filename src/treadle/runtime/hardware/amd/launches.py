"""Launches as commands: what is written once for a kernel, and where a launch changes it.

    phase = Phase(kernel, entry)
    phase.pack(arguments, args, variables)       # what the kernel reads
    words, place = pm4_words(pm4, generation, phase, scratch, queue)

`place` is where the address of the arguments goes. Arguments are addresses first, in the order of
the entry's slots, then 32-bit integers.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from treadle.errors import DeviceError
from treadle.runtime.base import Entry
from treadle.runtime.hardware.amd import aql
from treadle.runtime.hardware.amd.generations import Generation
from treadle.runtime.hardware.amd.kernel import Kernel, Wanted
from treadle.runtime.hardware.amd.pm4 import PM4, Register
from treadle.runtime.hardware.amd.scratch import Scratch
from treadle.runtime.hardware.host_memory import round_up

__all__ = ["KERNARG_ALIGN", "Phase", "Words", "aql_words", "pm4_words"]

KERNARG_ALIGN = 64
_LDS_UNIT, _LDS_SHIFT = 512, 15
_PRIV = 1 << 20
_MOST_WORK_ITEMS = (1 << 32) - 1


@dataclass
class Words:
    """Commands of one launch. The address of its arguments goes to word `kernarg` and the next."""

    words: array[int]
    kernarg: int | None


@dataclass(eq=False)
class Phase:
    """One kernel function and what a launch of it takes."""

    kernel: Kernel
    entry: Entry
    cached: tuple[int, Words] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.entry.grid * self.entry.work_items > _MOST_WORK_ITEMS:
            raise DeviceError(f"{self.entry.symbol}: {self.entry.grid} workgroups are too many")
        self._numbers = [slot.number for slot in self.entry.slots]
        self._packer = struct.Struct(f"<{len(self._numbers)}Q{len(self.entry.variables)}i")
        least = max(self.kernel.kernarg_bytes, self._packer.size, 1)
        self.kernarg_bytes = round_up(least, KERNARG_ALIGN)

    @property
    def group_bytes(self) -> int:
        """Memory that the work items of a workgroup share."""
        return self.kernel.group_bytes + self.entry.shared

    def pack(self, block: memoryview, args: Sequence[int], variables: Sequence[int]) -> None:
        """Writes the arguments to where the kernel reads them."""
        self._packer.pack_into(
            block, 0,
            *[args[number] for number in self._numbers],
            *[variables[place] for place in self.entry.variables],
        )  # fmt: skip

    def places(self, is_variable: bool, number: int) -> list[int]:
        """In which words of its arguments an argument or a variable of the launch is."""
        if is_variable:
            first = 2 * len(self._numbers)
            return [first + at for at, one in enumerate(self.entry.variables) if one == number]
        return [2 * at for at, one in enumerate(self._numbers) if one == number]


def pm4_words(
    pm4: PM4, generation: Generation, phase: Phase, scratch: Scratch, queue: int
) -> Words:
    """A launch for a queue of PM4."""
    kernel = phase.kernel
    wave_bytes = _wave_bytes(phase, scratch)
    rsrc1 = kernel.rsrc1 | (_PRIV if generation.is_privileged else 0)
    rsrc2 = kernel.rsrc2 | -(-phase.group_bytes // _LDS_UNIT) << _LDS_SHIFT
    code = kernel.entry >> 8
    words = pm4.set(Register.PGM_LO, [code & 0xFFFFFFFF, code >> 32])
    words += pm4.set(Register.PGM_RSRC1, [rsrc1, rsrc2])
    words += pm4.set(pm4.rsrc3, [kernel.rsrc3])
    words += pm4.set(Register.TMPRING_SIZE, [scratch.ring_size(wave_bytes)])
    if generation.has_architected_scratch:
        base = scratch.base >> 8
        words += pm4.set(Register.SCRATCH_BASE_LO, [base & 0xFFFFFFFF, base >> 32])
    user, kernarg = _user_words(kernel, scratch, queue)
    place = None
    if user:
        place = None if kernarg is None else len(words) + 2 + kernarg
        words += pm4.set(Register.USER_DATA_0, user)
    words += pm4.set(Register.RESOURCE_LIMITS, [0])
    words += pm4.set(Register.START_X, [0, 0, 0])
    words += pm4.set(Register.NUM_THREAD_X, [phase.entry.work_items, 1, 1])
    words += pm4.dispatch((phase.entry.grid, 1, 1), kernel.is_wave32)
    words += pm4.barrier()
    return Words(array("I", words), place)


def _wave_bytes(phase: Phase, scratch: Scratch) -> int:
    kernel = phase.kernel
    return scratch.wave_bytes(kernel.private_bytes, 32 if kernel.is_wave32 else 64)


def _user_words(kernel: Kernel, scratch: Scratch, queue: int) -> tuple[list[int], int | None]:
    """Scalar registers at the start, and which of them are the address of the arguments."""
    if kernel.wants(Wanted.DISPATCH_PACKET):
        raise DeviceError(f"{kernel.name} reads its dispatch packet, which PM4 does not have")
    values = {
        Wanted.SCRATCH_DESCRIPTOR: scratch.descriptor(),
        Wanted.QUEUE: [queue & 0xFFFFFFFF, queue >> 32],
        Wanted.KERNARG: [0, 0],
        Wanted.DISPATCH_ID: [0, 0],
        Wanted.FLAT_SCRATCH: [scratch.base & 0xFFFFFFFF, scratch.base >> 32],
        Wanted.PRIVATE_SIZE: [kernel.private_bytes],
    }
    found: list[int] = []
    kernarg = None
    for what in Wanted.ALL:
        if kernel.wants(what):
            kernarg = len(found) if what == Wanted.KERNARG else kernarg
            found += values[what]
    return found + [0] * (kernel.user_words - len(found)), kernarg


def aql_words(phase: Phase) -> Words:
    """A launch for a queue of AQL."""
    kernel, entry = phase.kernel, phase.entry
    packet = aql.dispatch(
        kernel.descriptor, entry.grid, entry.work_items, phase.group_bytes, kernel.private_bytes
    )
    return Words(packet, aql.KERNARG_WORD)
