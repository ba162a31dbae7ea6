"""What an instruction reads and writes: registers, constants, numbers.

    item = Instruction(decode(word))
    item.category, item.repeat, item.destination, item.sources

Registers are counted by components: r1.x is 4. Full registers have 32 bits in each lane, half ones
16: hr0.x is the low half of r0.x, and hr0.y its high half.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.emulate.ir3.decode import Decoded

__all__ = [
    "A0", "A1", "ADDRESSES", "PREDICATES", "SHARED", "SHARED_END", "TYPES", "UNUSED", "Instruction",
    "Kind", "Operand", "Unsupported", "component",
]  # fmt: skip

# Components of registers: r48.x to r55.w are the same in all lanes, a0 and p0 are no numbers. Of
# those that lanes share, hr48.x and hr48.y are halves of r48.x, hr48.z and hr48.w of r48.y.
SHARED, SHARED_END, A0, A1, PREDICATES, UNUSED = 48 * 4, 56 * 4, 61 * 4, 61 * 4 + 1, 62 * 4, 63 * 4
ADDRESSES = (A0, A1)
# Constants that operands name by a number, as float32.
_TABLE = (
    0.0, 0.5, 1.0, 2.0, math.e, math.pi, 1 / math.pi, math.log(2), 1 / math.log(2), math.log10(2),
    math.log2(10), 4.0,
)  # fmt: skip
_HALF_TYPES = (0, 2, 4, 6)  # f16, u16, s16, u8: of cat5 and cat6
TYPES = ("f16", "f32", "u16", "u32", "i16", "i32", "u8", "u8_32")


class Unsupported(Exception):
    """An instruction that is decoded and that has no meaning here."""


class Kind(Enum):
    GPR = "r"
    CONSTANT = "c"
    NUMBER = ""
    RELATIVE_GPR = "r<a0.x>"
    RELATIVE_CONSTANT = "c<a0.x>"


@dataclass(frozen=True)
class Operand:
    """`number` is a register's or a constant's component, an offset from a0.x, or bits.

    `steps` says that an instruction which repeats goes on to the next one. `is_float` is of numbers
    that are float32 or half, whatever the instruction does.
    """

    kind: Kind
    number: int
    is_half: bool
    negated: bool = False
    absolute: bool = False
    steps: bool = False
    is_float: bool = False

    @property
    def is_register(self) -> bool:
        """A register that is a number in each lane."""
        return self.kind is Kind.GPR and self.number < A0

    @property
    def is_shared(self) -> bool:
        """A register that all lanes share."""
        return self.kind is Kind.GPR and SHARED <= self.number < SHARED_END


def component(register: Decoded) -> int:
    """The component that a register's form names."""
    return register.number("GPR") * 4 + register.number("SWIZ")


def _multi(of: Decoded, is_half: bool, steps: bool) -> Operand:
    """A source of cat2 and cat4."""
    sign = of.number("ABSNEG")
    flags = {"negated": bool(sign & 1), "absolute": bool(sign & 2), "steps": steps}
    if of.name == "#mulitsrc-immed":
        return Operand(Kind.NUMBER, of.number("IMMED"), is_half, **flags)
    if of.name.startswith("#multisrc-immed-flut"):
        is_half = of.name.endswith("half")
        return Operand(Kind.NUMBER, _float_bits(of.number("IMMED"), is_half), is_half, **flags,
                       is_float=True)  # fmt: skip
    source = of.operand("SRC")
    if of.name == "#multisrc-gpr":
        return Operand(Kind.GPR, component(source), is_half, **flags)
    if of.name == "#multisrc-const":
        return Operand(Kind.CONSTANT, _constant(source), is_half, **flags)
    kind = Kind.RELATIVE_GPR if of.name.endswith("gpr") else Kind.RELATIVE_CONSTANT
    return Operand(kind, _offset(source), is_half, **flags)


def _constant(of: Decoded) -> int:
    return of.number("CONST") * 4 + of.number("SWIZ")


def _offset(of: Decoded) -> int:
    offset = of.number("OFFSET")
    return offset - (1 << 10) if offset >> 9 & 1 else offset


def _float_bits(index: int, is_half: bool) -> int:
    if index >= len(_TABLE):
        raise Unsupported(f"the float number {index} of the table, which has {len(_TABLE)}")
    return int.from_bytes(struct.pack("<e" if is_half else "<f", _TABLE[index]), "little")


class Instruction:
    """A decoded instruction's operands and flags."""

    def __init__(self, decoded: Decoded) -> None:
        self.decoded, self.name = decoded, decoded.name
        self.category = decoded.word >> 61

    def number(self, name: str) -> int:
        return self.decoded.number(name)

    def __str__(self) -> str:
        return self.decoded.text

    # -- flags

    @property
    def repeat(self) -> int:
        """How many times more it does what it does, each time with the next registers."""
        return self.number("REPEAT") if self.name != "movmsk" else 0

    @property
    def more_cycles(self) -> int:
        """Cycles that it takes behind its first: one for each further value that it makes."""
        moved = {"swz": 1, "gat": 3, "sct": 3}  # values of cat1 that moves several
        return moved.get(self.name, self.repeat)

    @property
    def nops(self) -> int:
        """Cycles in which nothing begins behind it."""
        return self.number("NOP")

    @property
    def saturates(self) -> bool:
        return bool(self.number("SAT"))

    @property
    def waits_short(self) -> bool:
        """(ss): for what cat4 and shared memory write or read."""
        return bool(self.number("SS"))

    @property
    def waits_long(self) -> bool:
        """(sy): for what textures and other memory write."""
        return bool(self.number("SY"))

    @cached_property
    def is_scalar(self) -> bool:
        """Whether it is computed once for all lanes, from what they share into what they share."""
        if not 1 <= self.category <= 3 or self.name == "movmsk":
            return False
        alike = (Kind.CONSTANT, Kind.NUMBER, Kind.RELATIVE_CONSTANT)
        return self.destination.is_shared and all(
            of.is_shared or of.kind in alike for of in self.sources
        )

    # -- operands

    @cached_property
    def destination(self) -> Operand:
        """What cat1 to cat4 set. Raises KeyError where there is nothing."""
        if self.name in ("swz", "gat", "sct"):
            return self.destinations[0]
        of = self.decoded.operand("DST")
        is_half = bool(self.number("DST_HALF"))
        if self.category == 1 and self.number("DST_REL"):
            return Operand(Kind.RELATIVE_GPR, of.number("OFFSET"), is_half, steps=True)
        if self.category == 1:
            of = of.operand("DST")
        return Operand(Kind.GPR, component(of), is_half, steps=True)

    @cached_property
    def destinations(self) -> tuple[Operand, ...]:
        """What an instruction that moves several values sets."""
        is_half = bool(self.number("DST_HALF"))
        first = component(self.decoded.operand("DST0").operand("REG"))
        if self.name == "gat":
            return tuple(Operand(Kind.GPR, first + i, is_half) for i in range(4))
        count = 2 if self.name == "swz" else 4
        named = (component(self.decoded.operand(f"DST{i}").operand("REG")) for i in range(count))
        return tuple(Operand(Kind.GPR, number, is_half) for number in named)

    @cached_property
    def sources(self) -> tuple[Operand, ...]:
        """What cat1 to cat4 read."""
        if self.category == 1:
            return self._moved()
        if self.category == 3:
            return self._three()
        is_half = not self.number("FULL")
        if self.category == 4:
            steps = bool(self.number("SRC_R"))
            return (_multi(self.decoded.operand("SRC"), is_half, steps),)
        repeats = self.repeat > 0  # else these bits count cycles
        return tuple(
            _multi(self.decoded.operand(name), is_half, repeats and bool(self.number(f"{name}_R")))
            for name in ("SRC1", "SRC2")
            if name in self.decoded.fields
        )

    def _moved(self) -> tuple[Operand, ...]:
        is_half = bool(self.number("HALF"))
        if self.name == "movmsk":
            return ()
        if self.name in ("swz", "gat", "sct"):
            first = component(self.decoded.operand("SRC0").operand("REG"))
            if self.name == "sct":
                return tuple(Operand(Kind.GPR, first + i, is_half) for i in range(4))
            count = 2 if self.name == "swz" else 4
            named = (
                component(self.decoded.operand(f"SRC{i}").operand("REG")) for i in range(count)
            )
            return tuple(Operand(Kind.GPR, number, is_half) for number in named)
        of, steps = self.decoded.operand("SRC"), bool(self.number("SRC_R"))
        if self.name == "mov-immed":
            return (Operand(Kind.NUMBER, of.word & 0xFFFFFFFF, is_half),)
        if self.name == "mov-const":
            number = _constant(of.operand("CONST"))
            return (Operand(Kind.CONSTANT, number, is_half, steps=steps),)
        if self.name == "mov-gpr":
            return (Operand(Kind.GPR, component(of.operand("SRC")), is_half, steps=steps),)
        kind = Kind.RELATIVE_GPR if self.name == "mov-relgpr" else Kind.RELATIVE_CONSTANT
        return (Operand(kind, _offset(of.operand("SRC")), is_half, steps=steps),)

    def _three(self) -> tuple[Operand, ...]:
        is_half, repeats = not self.number("FULL"), self.repeat > 0
        found = []
        for i in (1, 2, 3):
            flags = {
                "negated": bool(self.number(f"SRC{i}_NEG")),
                "steps": bool(self.number(f"SRC{i}_R")) and (repeats or i == 3),
            }
            of = self.decoded.operand(f"SRC{i}")
            found.append(
                Operand(Kind.GPR, component(of), is_half, **flags)
                if i == 2
                else self._small(of, is_half, flags)
            )
        return tuple(found)

    def _small(self, of: Decoded, is_half: bool, flags: dict[str, bool]) -> Operand:
        """The first or third source of cat3."""
        if of.name == "#cat3-src-gpr":
            return Operand(Kind.GPR, component(of.operand("SRC")), is_half, **flags)
        if of.name == "#cat3-src-const-or-immed":
            if self.number("IMMED_ENCODING"):
                return Operand(Kind.NUMBER, of.number("IMMED"), is_half, **flags)
            return Operand(Kind.CONSTANT, _constant(of), is_half, **flags)
        kind = Kind.RELATIVE_GPR if of.name.endswith("gpr") else Kind.RELATIVE_CONSTANT
        return Operand(kind, _offset(of), is_half, **flags)

    # -- of cat6

    @property
    def type(self) -> str:
        """The type of an element in memory."""
        return TYPES[self.number("TYPE")]

    @property
    def type_is_half(self) -> bool:
        return self.number("TYPE") in _HALF_TYPES

    def register(self, name: str, is_half: bool = False) -> Operand:
        """A field that is a register, or a number or a constant in its place."""
        of = self.decoded.operand(name)
        if "IMMED" in of.fields and of.number("SRC_IM"):
            return Operand(Kind.NUMBER, of.number("IMMED"), is_half)
        kind = Kind.CONSTANT if of.number("SRC_CONST") else Kind.GPR
        return Operand(kind, component(of), is_half)
