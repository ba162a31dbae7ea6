"""The text that render/ir3 prints becomes machine code of Adreno 6xx, in this process.

    IR3Compiler(adreno_target("a630")).compile(text)   ->  an object (see ir3_object)

The steps are in `machine_code`, in order. Nothing but Python is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compile.report import save_rejected
from treadle.errors import InternalError
from treadle.ir3_object import KernelCode, pack
from treadle.target import AdrenoChip, adreno_chip

from .code import FIRST_SHARED, Kernel, Register
from .conditions import join_conditions
from .encode import encode_kernel
from .hazards import insert_waits
from .loops import hoist
from .operands import place_operands, propagate_copies, remove_dead
from .registers import allocate, fits
from .schedule import schedule
from .text import parse
from .vectors import join_accesses

if TYPE_CHECKING:
    from treadle.target import Target

__all__ = ["IR3Compiler", "machine_code"]

VERSION = "2"
MOST_REGISTERS = 48  # vec4 of one work item
AIM = 20  # vec4 that leave room for several waves, which hide what is waited for
SINGLE_WAVE = 64


class IR3Compiler:
    """Compiles text for one Adreno. All threads may call it."""

    name = "ADRENO"
    travels = True

    def __init__(self, target: Target) -> None:
        self.target = target

    @property
    def version(self) -> str:
        """This compiler's own number, and the chip."""
        return f"ir3 {VERSION} {self.target.cpu}"

    def available(self) -> str | None:
        """None: there is nothing to miss."""
        return None

    def compile(self, source: str) -> bytes:
        """The object of a text.

        Raises DeviceError if a kernel takes more registers than there are, InternalError, naming
        the file where the text was saved, if the text is rejected.
        """
        chip = adreno_chip(self.target.cpu)
        try:
            return pack([machine_code(kernel, chip) for kernel in parse(source)])
        except InternalError as error:
            path = save_rejected(source, ".ir3")
            raise InternalError(
                f"generated ir3 text was rejected (saved as {path}): {error}"
            ) from error


def machine_code(kernel: Kernel, chip: AdrenoChip) -> KernelCode:
    """The code of one kernel, and its figures."""
    # Before copies are gone: tests of one value are the same instruction.
    join_conditions(kernel)
    # What was only copied is dead then, and constants reach the operands.
    propagate_copies(kernel)
    remove_dead(kernel)
    hoist(kernel)
    join_accesses(kernel)
    # Before registers are given, since it needs some.
    place_operands(kernel)
    _allocate(kernel, _registers(kernel, chip))
    # Last, when it is known which registers are one.
    insert_waits(kernel)
    return _entry(kernel, chip)


def _allocate(kernel: Kernel, registers: int) -> None:
    """Registers for instructions in the quickest order; in the given one where that is too wide."""
    given = [list(block.code) for block in kernel.blocks]
    schedule(kernel, min(registers, AIM))
    if not fits(kernel, registers):
        for block, code in zip(kernel.blocks, given, strict=True):
            block.code = code
    allocate(kernel, registers)


def _registers(kernel: Kernel, chip: AdrenoChip) -> int:
    """The vec4 that a work item can take so that all waves of a workgroup have room at once."""
    waves = -(-kernel.work_items // SINGLE_WAVE)
    return min(MOST_REGISTERS, chip.registers * chip.granularity // waves)


def _entry(kernel: Kernel, chip: AdrenoChip) -> KernelCode:
    last = max(
        (
            operand.units[-1]
            for one in kernel
            for operand in (*one.dsts, *one.srcs)
            if isinstance(operand, Register) and operand.number < FIRST_SHARED
        ),
        default=0,
    )
    registers = last // 8 + 1
    first = kernel.first_literal // 4
    doubles = chip.wave > SINGLE_WAVE and kernel.work_items > SINGLE_WAVE
    doubles = doubles and 2 * registers <= chip.registers
    return KernelCode(
        name=kernel.name,
        work_items=kernel.work_items,
        buffers=kernel.buffers,
        variables=kernel.variables,
        registers=registers,
        branches=kernel.depth,
        wave=chip.wave if doubles else SINGLE_WAVE,
        private=kernel.private,
        shared=kernel.shared,
        constants=first + -(-len(kernel.literals) // 4),
        first_literal=first,
        has_barrier=any(one.op.startswith("bar") for one in kernel),
        literals=tuple(kernel.literals),
        code=tuple(encode_kernel(kernel)),
        images=tuple(kernel.images),
    )
