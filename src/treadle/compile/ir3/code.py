"""Instructions of Adreno as the compiler holds them: operands, instructions, blocks, kernels.

    add.f %3, %1, (neg)%2     ->  Instruction("add.f", [Value(3)], [Value(1), Value(2, neg=True)])

A Value is a virtual register: one of several lanes that stand side by side where `vector` says so.
A Register is the machine's, by its number in units of its own width: `r1.y` and `hr1.y` are 5. One
surprise: `Literal` may stand for any operand until `operands` finds a place for its bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.ir3_object import ImageSlot

__all__ = [
    "FIRST_SHARED", "PREDICATE", "Block", "Constant", "Instruction",
    "Kernel", "Lane", "Literal", "Operand", "Register", "Value", "name_of",
]  # fmt: skip

FIRST_SHARED = 4 * 48  # from here on registers are the wave's
PREDICATE = 4 * 62  # p0.x
_SWIZZLE = "xyzw"

Lane = tuple[int, int]  # a virtual register, and which of its lanes


@dataclass(frozen=True, slots=True)
class Value:
    """Lanes `lane` to `lane + count - 1` of virtual register `number`."""

    number: int
    lane: int = 0
    count: int = 1
    half: bool = False
    neg: bool = False
    abs: bool = False

    @property
    def lanes(self) -> list[Lane]:
        """Each lane by itself."""
        return [(self.number, self.lane + n) for n in range(self.count)]


@dataclass(frozen=True, slots=True)
class Register:
    """Registers `number` to `number + count - 1`, all of one width."""

    number: int
    count: int = 1
    half: bool = False
    neg: bool = False
    abs: bool = False

    @property
    def units(self) -> range:
        """The halves of full registers that it covers, numbered as half registers are."""
        if self.half:
            return range(self.number, self.number + self.count)
        return range(2 * self.number, 2 * (self.number + self.count))


@dataclass(frozen=True, slots=True)
class Constant:
    """Word `index` of the constants."""

    index: int
    neg: bool = False
    abs: bool = False


@dataclass(frozen=True, slots=True)
class Literal:
    """These 32 bits, or a small number that the instruction itself holds."""

    bits: int
    neg: bool = False
    abs: bool = False

    @property
    def signed(self) -> int:
        """The bits as a signed number."""
        return self.bits - (1 << 32) if self.bits >> 31 else self.bits


Operand = Value | Register | Constant | Literal


@dataclass(slots=True)
class Instruction:
    """`nop` are the cycles that it waits afterwards, `repeat` how often a nop is repeated.

    `target` is the block that a branch goes to.
    """

    op: str
    dsts: list[Value | Register]
    srcs: list[Operand]
    target: int | None = None
    inverted: bool = False
    ss: bool = False
    sy: bool = False
    jp: bool = False
    nop: int = 0
    repeat: int = 0

    @property
    def is_branch(self) -> bool:
        """Whether another instruction than the next one may follow."""
        return self.op == "br"


@dataclass(slots=True)
class Block:
    """Instructions that run one after the other; a branch can only be the last one.

    `meets`: work items that went different ways meet here again.
    """

    code: list[Instruction] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    meets: bool = False


@dataclass(slots=True)
class Kernel:
    """One entry point, with what its text says of it.

    `widths` are the lanes of the virtual registers that have several; `depth` is how many branches
    may be open at once; `literals` are words that the code reads behind its parameters.
    """

    name: str
    work_items: int
    buffers: int
    variables: int
    shared: int
    blocks: list[Block]
    widths: dict[int, int]
    values: int
    depth: int = 0
    private: int = 0
    literals: list[int] = field(default_factory=list)
    images: list[ImageSlot] = field(default_factory=list)

    @property
    def first_literal(self) -> int:
        """Where the literals begin: the first whole vec4 behind the parameters."""
        return -(-(2 * self.buffers + self.variables) // 4) * 4

    def new(self) -> int:
        """The number of a new virtual register."""
        self.values += 1
        return self.values - 1

    def __iter__(self) -> Iterator[Instruction]:
        for block in self.blocks:
            yield from block.code


def name_of(number: int, half: bool = False) -> str:
    """What the assembler calls a register: 5 is r1.y."""
    if number == PREDICATE:
        return "p0.x"
    return f"{'h' if half else ''}r{number // 4}.{_SWIZZLE[number % 4]}"
