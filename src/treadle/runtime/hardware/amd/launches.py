"""Launches as commands: what is written once for a kernel, and where a launch changes it.

    phase = Phase(kernel, code, entry)
    phase.arguments.pack(block, args, variables)     # what the kernel reads
    words, place = pm4_words(pm4, generation, phase, scratch, queue)

`place` is where the address of the arguments goes.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from treadle.errors import DeviceError
from treadle.runtime.base import Entry
from treadle.runtime.hardware.amd import aql
from treadle.runtime.hardware.amd.generations import Generation
from treadle.runtime.hardware.amd.pm4 import PM4, Register
from treadle.runtime.hardware.amd.scratch import Scratch
from treadle.runtime.hardware.arguments import Arguments
from treadle.runtime.hardware.buffers import DeviceBuffer
from treadle.runtime.hardware.codeobject import Descriptor, KernelCode
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
    """One kernel function in a GPU's memory, and what a launch of it takes.

    `code` is the memory of the kernel's image. Raises DeviceError for a grid that is too large,
    InternalError where the kernel takes other arguments than the entry gives.
    """

    kernel: KernelCode
    code: DeviceBuffer
    entry: Entry
    cached: tuple[int, Words] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.entry.grid * self.entry.work_items > _MOST_WORK_ITEMS:
            raise DeviceError(
                f"{self.entry.symbol}: {self.entry.grid} workgroups of {self.entry.work_items}, "
                f"and a launch has at most {_MOST_WORK_ITEMS} work items: split the tensor"
            )
        self.arguments = Arguments(self.kernel.name, self.kernel.arguments, self.entry)
        least = max(self.descriptor.kernarg_bytes, self.arguments.nbytes, 1)
        self.kernarg_bytes = round_up(least, KERNARG_ALIGN)

    @property
    def descriptor(self) -> Descriptor:
        """What a command processor is told."""
        return self.kernel.descriptor

    @property
    def descriptor_address(self) -> int:
        """Where that is, for the GPU."""
        return self.code.argument + self.kernel.at

    @property
    def program(self) -> int:
        """The address of the first instruction."""
        return self.code.argument + self.kernel.entry

    @property
    def group_bytes(self) -> int:
        """Memory that the work items of a workgroup share."""
        return self.descriptor.group_bytes + self.entry.shared


def pm4_words(
    pm4: PM4, generation: Generation, phase: Phase, scratch: Scratch, queue: int
) -> Words:
    """A launch for a queue of PM4."""
    kernel = phase.descriptor
    wave_bytes = scratch.wave_bytes(kernel.private_bytes, kernel.wave)
    rsrc1 = kernel.rsrc1 | (_PRIV if generation.is_privileged else 0)
    rsrc2 = kernel.rsrc2 | -(-phase.group_bytes // _LDS_UNIT) << _LDS_SHIFT
    code = phase.program >> 8
    words = pm4.set(Register.PGM_LO, [code & 0xFFFFFFFF, code >> 32])
    words += pm4.set(Register.PGM_RSRC1, [rsrc1, rsrc2])
    words += pm4.set(pm4.rsrc3, [kernel.rsrc3])
    words += pm4.set(Register.TMPRING_SIZE, [scratch.ring_size(wave_bytes)])
    if generation.has_architected_scratch:
        base = scratch.base >> 8
        words += pm4.set(Register.SCRATCH_BASE_LO, [base & 0xFFFFFFFF, base >> 32])
    user, kernarg = _user_words(phase.entry.symbol, kernel, scratch, queue)
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


def _user_words(
    name: str, kernel: Descriptor, scratch: Scratch, queue: int
) -> tuple[list[int], int | None]:
    """Scalar registers at the start, and which of them are the address of the arguments."""
    values = {
        "private_segment_buffer": scratch.descriptor(32 if kernel.is_wave32 else 64),
        "queue_ptr": [queue & 0xFFFFFFFF, queue >> 32],
        "kernarg_segment_ptr": [0, 0],
        "dispatch_id": [0, 0],
        "flat_scratch_init": [scratch.base & 0xFFFFFFFF, scratch.base >> 32],
        "private_segment_size": [kernel.private_bytes],
    }
    found: list[int] = []
    kernarg = None
    for what, _ in kernel.user_sgprs:
        if what not in values:
            raise DeviceError(f"{name} reads its dispatch packet, which PM4 does not have")
        kernarg = len(found) if what == "kernarg_segment_ptr" else kernarg
        found += values[what]
    return found + [0] * (kernel.user_sgpr_count - len(found)), kernarg


def aql_words(phase: Phase) -> Words:
    """A launch for a queue of AQL."""
    entry, private_bytes = phase.entry, phase.descriptor.private_bytes
    packet = aql.dispatch(
        phase.descriptor_address, entry.grid, entry.work_items, phase.group_bytes, private_bytes
    )
    return Words(packet, aql.KERNARG_WORD)
