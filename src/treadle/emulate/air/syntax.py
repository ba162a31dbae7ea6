"""LLVM IR as data: types with their places in memory, values, instructions.

    parts(Vector(3, Scalar("half")))        # ((0, half), (2, half), (4, half))
    size_of(Vector(3, Scalar("half")))      # 8: Metal's vectors of three take the room of four

A value of any type is a row of scalars, its parts. A constant part is an int (the bits), a Symbol,
or None where any value will do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from treadle.errors import DeviceError

__all__ = [
    "CONSTANT", "DEVICE", "GENERIC", "THREAD", "THREADGROUP", "AIRError", "Array", "Constant",
    "Function", "Global", "Instruction", "Local", "Parameter", "Part", "Pointer", "Scalar",
    "Struct", "Symbol", "Type", "Value", "Vector", "align_of", "bits_of", "offset_of", "parts",
    "size_of", "type_at",
]  # fmt: skip

THREAD, DEVICE, CONSTANT, THREADGROUP, GENERIC = range(5)  # numbers of address spaces
_FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


class AIRError(DeviceError):
    """A module that cannot be read, or asks for what is not emulated."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """`kind` is LLVM's: i1 to i64, half, bfloat, float, double; void for nothing."""

    kind: str


@dataclass(frozen=True, slots=True)
class Pointer:
    space: int


@dataclass(frozen=True, slots=True)
class Vector:
    count: int
    element: Type


@dataclass(frozen=True, slots=True)
class Array:
    count: int
    element: Type


@dataclass(frozen=True, slots=True)
class Struct:
    members: tuple[Type, ...]
    packed: bool = False


Type = Scalar | Pointer | Vector | Array | Struct


@lru_cache(4096)
def bits_of(kind: Type) -> int:
    """Of a scalar or pointer, as a register has them."""
    match kind:
        case Pointer():
            return 64
        case Scalar(name) if name in _FLOAT_BITS:
            return _FLOAT_BITS[name]
        case Scalar(name) if name[0] == "i":
            return int(name[1:])
    raise AIRError(f"a value of type {kind} is not emulated")


@lru_cache(4096)
def size_of(kind: Type) -> int:
    """Bytes from one element of an array to the next."""
    match kind:
        case Vector(count, element):
            nbytes = count * size_of(element)
            return 1 << (nbytes - 1).bit_length()
        case Array(count, element):
            return count * size_of(element)
        case Struct():
            return -(-_end(kind, len(kind.members)) // align_of(kind)) * align_of(kind)
    return 1 << max(0, (bits_of(kind) - 1).bit_length() - 3)


@lru_cache(4096)
def align_of(kind: Type) -> int:
    match kind:
        case Array(_, element):
            return align_of(element)
        case Struct(members, packed):
            return 1 if packed else max((align_of(member) for member in members), default=1)
    return size_of(kind)


def _end(kind: Struct, count: int) -> int:
    """Where the first `count` members end."""
    at = 0
    for member in kind.members[:count]:
        align = 1 if kind.packed else align_of(member)
        at = -(-at // align) * align + size_of(member)
    return at


def offset_of(kind: Type, index: int) -> int:
    """Where a member or element lies."""
    if isinstance(kind, Struct):
        align = 1 if kind.packed else align_of(kind.members[index])
        return -(-_end(kind, index) // align) * align
    return index * size_of(type_at(kind, index))


def type_at(kind: Type, index: int) -> Type:
    """The type of a member or element."""
    match kind:
        case Struct(members):
            return members[index]
        case Vector(_, element) | Array(_, element):
            return element
    raise AIRError(f"{kind} has no elements")


Part = tuple[int, Scalar | Pointer]


@lru_cache(4096)
def parts(kind: Type) -> tuple[Part, ...]:
    """The scalars of a value, with their places in memory.

    Of the 64 elements of a simdgroup's matrix a thread has the first two.
    """
    match kind:
        case Scalar("void"):
            return ()
        case Vector(64, Scalar(name) as element) if name in _FLOAT_BITS:
            return ((0, element), (size_of(element), element))
        case Scalar() | Pointer():
            return ((0, kind),)
        case Struct(members):
            count = len(members)
        case Vector(count) | Array(count):
            pass
    return tuple(
        (offset_of(kind, i) + at, part)
        for i in range(count)
        for at, part in parts(type_at(kind, i))
    )


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address `offset` bytes behind a global variable."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Local:
    """What an instruction or a parameter is called."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Constant:
    type: Type
    parts: tuple[int | Symbol | None, ...]


Value = Local | Constant


@dataclass(slots=True)
class Instruction:
    """`words` are what an opcode has beside its operands: a predicate, labels, indices, a callee.

    `source` is the type that getelementptr and alloca name, `number` the line in the function.
    """

    opcode: str
    result: str
    type: Type
    operands: tuple[Value, ...]
    words: tuple[str, ...] = ()
    source: Type | None = None
    align: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: Type


@dataclass(slots=True)
class Function:
    name: str
    parameters: tuple[Parameter, ...]
    blocks: dict[str, list[Instruction]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Global:
    """A variable of the module. Without `value` its bytes are anything."""

    name: str
    space: int
    type: Type
    align: int
    value: Constant | None
