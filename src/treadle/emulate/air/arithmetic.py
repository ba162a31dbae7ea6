"""Arithmetic, comparisons and casts of LLVM, and what moves parts of values about.

Division by zero, and of the least number by -1, gives anything in Metal; it must not stop the
process. Halves are computed in float32, as are comparisons of bfloat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.air.emit import Emitter, float_kind
from treadle.emulate.air.handlers import Handlers
from treadle.emulate.air.lexer import signed
from treadle.emulate.air.machine import LANES, splat
from treadle.emulate.air.syntax import (
    AIRError,
    Constant,
    Pointer,
    Scalar,
    Vector,
    bits_of,
    parts,
    type_at,
)

if TYPE_CHECKING:
    from treadle.emulate.air.syntax import Instruction, Type

__all__ = ["HANDLERS", "from_float", "is_float", "saturated", "to_float"]

HANDLERS = Handlers()
_FLOATS = ("half", "bfloat", "float", "double")


def is_float(kind: Type) -> bool:
    element = kind.element if isinstance(kind, Vector) else kind
    return isinstance(element, Scalar) and element.kind in _FLOATS


def _bits(kind: Type) -> int:
    """The bits of each part of a scalar or vector."""
    return bits_of(parts(kind)[0][1])


@HANDLERS.of("add", "sub", "mul", "shl", "lshr", "ashr", "and", "or", "xor")
def _integer(e: Emitter, item: Instruction) -> None:
    shape = e.lanes(f"i{_bits(item.type)}")
    e.elementwise(item, lambda a, b: e.op(f"{item.opcode} {shape} {a}, {b}"))


@HANDLERS.of("udiv", "sdiv", "urem", "srem")
def _divide(e: Emitter, item: Instruction) -> None:
    bits = _bits(item.type)
    shape, flags = e.lanes(f"i{bits}"), e.lanes("i1")

    def divide(a: str, b: str) -> str:
        wrong = e.op(f"icmp eq {shape} {b}, zeroinitializer")
        if item.opcode[0] == "s":
            least = e.op(f"icmp eq {shape} {a}, {splat(bits, 1 << (bits - 1))}")
            minus = e.op(f"icmp eq {shape} {b}, {splat(bits, -1)}")
            wrong = e.op(f"or {flags} {wrong}, {e.op(f'and {flags} {least}, {minus}')}")
        return e.op(f"{item.opcode} {shape} {a}, {e.select(wrong, splat(bits, 1), b, bits)}")

    e.elementwise(item, divide)


@HANDLERS.of("fadd", "fsub", "fmul", "fdiv")
def _float(e: Emitter, item: Instruction) -> None:
    kind = float_kind(item.type)
    wide = "double" if kind == "double" else "float"
    shape = e.lanes(wide)

    def compute(a: str, b: str) -> str:
        x, y = e.widen(a, kind, wide), e.widen(b, kind, wide)
        return e.narrow(e.op(f"{item.opcode} {shape} {x}, {y}"), wide, kind)

    e.elementwise(item, compute)


@HANDLERS.of("fneg")
def _negate(e: Emitter, item: Instruction) -> None:
    bits = _bits(item.type)
    shape = e.lanes(f"i{bits}")
    e.elementwise(item, lambda a: e.op(f"xor {shape} {a}, {splat(bits, 1 << (bits - 1))}"))


@HANDLERS.of("icmp")
def _compare(e: Emitter, item: Instruction) -> None:
    shape = e.lanes(f"i{_bits(item.operands[0].type)}")
    e.elementwise(item, lambda a, b: e.op(f"icmp {item.words[0]} {shape} {a}, {b}"))


@HANDLERS.of("fcmp")
def _compare_floats(e: Emitter, item: Instruction) -> None:
    kind = float_kind(item.operands[0].type)
    wide = "double" if kind == "double" else "float"

    def compare(a: str, b: str) -> str:
        x, y = e.widen(a, kind, wide), e.widen(b, kind, wide)
        return e.op(f"fcmp {item.words[0]} {e.lanes(wide)} {x}, {y}")

    e.elementwise(item, compare)


@HANDLERS.of("select")
def _select(e: Emitter, item: Instruction) -> None:
    condition, yes, no = (e.read(value) for value in item.operands)
    if len(condition) == 1:
        condition *= len(yes)
    kinds = [bits_of(kind) for _, kind in parts(item.type)]
    e.write(item, [e.select(*row) for row in zip(condition, yes, no, kinds, strict=True)])


@HANDLERS.of("freeze")
def _same(e: Emitter, item: Instruction) -> None:
    e.write(item, e.read(item.operands[0]))


# -- casts


@HANDLERS.of("trunc", "zext", "sext", "ptrtoint", "inttoptr")
def _resize(e: Emitter, item: Instruction) -> None:
    source, target = _bits(item.operands[0].type), _bits(item.type)
    opcode = item.opcode
    if opcode in ("ptrtoint", "inttoptr"):
        if (
            opcode == "inttoptr"
            and isinstance(item.type, Pointer)
            and item.type.space not in (1, 2)
        ):
            raise AIRError("an address of threadgroup or thread memory is made of a number")
        opcode = "trunc" if target < source else "zext"
    if source == target:
        _same(e, item)
        return
    shape, other = e.lanes(f"i{source}"), e.lanes(f"i{target}")
    e.elementwise(item, lambda a: e.op(f"{opcode} {shape} {a} to {other}"))


@HANDLERS.of("fpext", "fptrunc")
def _convert_floats(e: Emitter, item: Instruction) -> None:
    source, target = float_kind(item.operands[0].type), float_kind(item.type)
    e.elementwise(item, lambda a: convert_floats(e, a, source, target))


def convert_floats(e: Emitter, value: str, source: str, target: str) -> str:
    """Bits of floats as bits of another kind."""
    if source == target:
        return value
    wide = "double" if "double" in (source, target) else "float"
    return e.narrow(e.widen(value, source, wide), wide, target)


@HANDLERS.of("uitofp", "sitofp")
def _to_float(e: Emitter, item: Instruction) -> None:
    bits, kind = _bits(item.operands[0].type), float_kind(item.type)
    sign = item.opcode[0]
    e.elementwise(item, lambda a: to_float(e, a, bits, sign, kind))


def to_float(e: Emitter, value: str, bits: int, sign: str, kind: str) -> str:
    """Integers ("u" or "s") as bits of floats, rounded once."""
    shape = e.lanes(f"i{bits}")
    if kind in ("float", "double"):
        return e.as_bits(e.op(f"{sign}itofp {shape} {value} to {e.lanes(kind)}"), kind)
    # float64 has all bits of what is below 2^53; above, halves are infinite, and the last bits of
    # what bfloat drops do not matter but for whether there are any.
    if bits == 64 and kind == "bfloat":
        low = e.op(f"and {shape} {value}, {splat(64, (1 << 20) - 1)}")
        some = e.op(f"icmp ne {shape} {low}, zeroinitializer")
        high = e.op(f"and {shape} {value}, {splat(64, -(1 << 20))}")
        rest = e.op(f"zext {e.lanes('i1')} {some} to {shape}")
        sticky = e.op(f"or {shape} {high}, {e.op(f'shl {shape} {rest}, {splat(64, 19)}')}")
        value = e.select(_is_small(e, value, sign), value, sticky, 64)
    double = e.op(f"{sign}itofp {shape} {value} to {e.lanes('double')}")
    return e.narrow(double, "double", kind)


def _is_small(e: Emitter, value: str, sign: str) -> str:
    """Whether float64 has all bits of i64 lanes."""
    shape = e.lanes("i64")
    if sign == "u":
        return e.op(f"icmp ult {shape} {value}, {splat(64, 1 << 52)}")
    moved = e.op(f"add {shape} {value}, {splat(64, 1 << 51)}")
    return e.op(f"icmp ult {shape} {moved}, {splat(64, 1 << 52)}")


@HANDLERS.of("fptoui", "fptosi")
def _from_float(e: Emitter, item: Instruction) -> None:
    bits, kind = _bits(item.type), float_kind(item.operands[0].type)
    sign = item.opcode[4]
    e.elementwise(item, lambda a: from_float(e, a, kind, sign, bits))


def from_float(e: Emitter, value: str, kind: str, sign: str, bits: int) -> str:
    """Bits of floats as integers, towards zero; what is too large is the last number there is."""
    wide = "double" if kind == "double" else "float"
    return saturated(e, e.widen(value, kind, wide), wide, sign, bits)


def saturated(e: Emitter, number: str, wide: str, sign: str, bits: int) -> str:
    """Floats as integers; NaN is 0."""
    letter = {"float": "f32", "double": "f64"}[wide]
    name = f"llvm.fpto{sign}i.sat.v{LANES}i{bits}.v{LANES}{letter}"
    return e.intrinsic(name, e.lanes(f"i{bits}"), f"{e.lanes(wide)} {number}")


@HANDLERS.of("bitcast")
def _bitcast(e: Emitter, item: Instruction) -> None:
    source, target = item.operands[0].type, item.type
    values = e.read(item.operands[0])
    if len(parts(source)) == len(parts(target)):
        e.write(item, values)
        return
    narrow, wide = _bits(source), _bits(target)
    if narrow < wide:
        count = wide // narrow
        rows = [values[i : i + count] for i in range(0, len(values), count)]
        e.write(item, [join(e, row, narrow) for row in rows])
    else:
        e.write(item, [part for value in values for part in split(e, value, narrow, wide)])


def join(e: Emitter, values: list[str], bits: int) -> str:
    """Values side by side, the first lowest."""
    total = bits * len(values)
    shape, small = e.lanes(f"i{total}"), e.lanes(f"i{bits}")
    found = "zeroinitializer"
    for i, value in enumerate(values):
        more = e.op(f"zext {small} {value} to {shape}")
        more = e.op(f"shl {shape} {more}, {splat(total, bits * i)}")
        found = e.op(f"or {shape} {found}, {more}")
    return found


def split(e: Emitter, value: str, bits: int, each: int) -> list[str]:
    """The pieces of a value, the lowest first."""
    shape, small = e.lanes(f"i{bits}"), e.lanes(f"i{each}")
    found = []
    for i in range(bits // each):
        moved = e.op(f"lshr {shape} {value}, {splat(bits, each * i)}")
        found.append(e.op(f"trunc {shape} {moved} to {small}"))
    return found


@HANDLERS.of("addrspacecast")
def _same_place(e: Emitter, item: Instruction) -> None:
    e.write(item, e.read(item.operands[0]))


# -- parts


@HANDLERS.of("extractelement")
def _extract(e: Emitter, item: Instruction) -> None:
    vector, index = item.operands
    values = e.read(vector)
    if isinstance(index, Constant):
        e.write(item, [_at(values, index)])
        return
    bits, number = bits_of(item.type), e.one(index)
    shape = e.lanes(f"i{bits_of(index.type)}")
    found = values[0]
    for i, value in enumerate(values[1:], 1):
        here = e.op(f"icmp eq {shape} {number}, {splat(bits_of(index.type), i)}")
        found = e.select(here, value, found, bits)
    e.write(item, [found])


def _at(values: list[str], index: Constant) -> str:
    number = signed(index)
    return values[number] if 0 <= number < len(values) else "zeroinitializer"


@HANDLERS.of("insertelement")
def _insert(e: Emitter, item: Instruction) -> None:
    vector, element, index = item.operands
    values, new = list(e.read(vector)), e.one(element)
    if isinstance(index, Constant):
        if signed(index) < len(values):
            values[signed(index)] = new
        e.write(item, values)
        return
    bits, number = bits_of(element.type), e.one(index)
    shape = e.lanes(f"i{bits_of(index.type)}")
    for i, value in enumerate(values):
        here = e.op(f"icmp eq {shape} {number}, {splat(bits_of(index.type), i)}")
        values[i] = e.select(here, new, value, bits)
    e.write(item, values)


@HANDLERS.of("shufflevector")
def _shuffle(e: Emitter, item: Instruction) -> None:
    first, second, mask = item.operands
    if not (isinstance(first.type, Vector) and isinstance(mask, Constant)):
        raise AIRError("shufflevector takes a constant mask")
    count = first.type.count
    a, b = e.read(first), e.read(second)
    values = []
    for number in mask.parts[: len(parts(item.type))]:
        place = number if isinstance(number, int) else -1
        source, place = (a, place) if place < count else (b, place - count)
        values.append(source[place] if 0 <= place < len(source) else "zeroinitializer")
    e.write(item, values)


def _range(kind: Type, indices: tuple[str, ...]) -> slice:
    """The parts of a member of a member of a value."""
    first = 0
    for word in indices:
        index = int(word)
        first += sum(len(parts(type_at(kind, i))) for i in range(index))
        kind = type_at(kind, index)
    return slice(first, first + len(parts(kind)))


@HANDLERS.of("extractvalue")
def _extract_member(e: Emitter, item: Instruction) -> None:
    value = item.operands[0]
    e.write(item, e.read(value)[_range(value.type, item.words)])


@HANDLERS.of("insertvalue")
def _insert_member(e: Emitter, item: Instruction) -> None:
    value, member = item.operands
    values = list(e.read(value))
    values[_range(value.type, item.words)] = e.read(member)
    e.write(item, values)
