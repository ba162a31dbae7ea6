"""What chips differ in as far as machine code shows it.

    chip("gfx1100").generation -> 11

The facts are in LLVM's User Guide for AMDGPU Backend and in AMD's manuals of the instruction sets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from treadle.errors import InternalError

__all__ = ["Chip", "chip"]


@dataclass(frozen=True)
class Chip:
    """A processor: its name, and its generation (9 to 12).

    `packs_ids`: the work item's three numbers are in v0, with 10 bits each. `has_trap_ids`: the
    workgroup's numbers are in TTMP registers, not behind the user SGPRs. `m0` and `null` are the
    numbers of these as operands. `clears_high`: what writes 16 bits of a vector register clears
    the others. `halves_by_number`: bit 7 of a vector register's number says which half of it an
    instruction of 32 bits means.
    """

    name: str
    generation: int
    packs_ids: bool
    has_trap_ids: bool
    has_scratch_register: bool
    m0: int
    null: int | None
    clears_high: bool
    halves_by_number: bool


@cache
def chip(name: str) -> Chip:
    """The facts about a chip. InternalError for a name of another form."""
    found = re.fullmatch(r"gfx(\d+)([0-9a-f]{2})", name)
    if found is None or not 9 <= int(found[1]) <= 12:
        raise InternalError(f"{name!r} is no chip of generations 9 to 12")
    generation = int(found[1])
    is_late_cdna = generation == 9 and found[2] in ("0a", "42", "50")
    return Chip(
        name,
        generation,
        packs_ids=generation >= 11 or is_late_cdna,
        has_trap_ids=generation >= 12,
        has_scratch_register=generation >= 11 or found[2] in ("42", "50"),
        m0=125 if generation >= 11 else 124,
        null={9: None, 10: 125}.get(generation, 124),
        clears_high=generation == 9,
        halves_by_number=generation >= 11,
    )
