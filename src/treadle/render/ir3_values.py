"""Values of linear programs in instructions of Adreno: arithmetic on numbers of up to 32 bits.

    f.emit("add.f", "%3", "%4")  ->  prints `add.f %7, %3, %4`, gives "%7"

A value in registers is a list of lanes. A lane is the text of an operand; of 64-bit integers it is
a pair of them, the low word first (ir3_int64). Bools are 0 or 1. Integers of fewer than 32 bits are
kept wrapped in 32. Halves are in half registers, where nothing is computed with them.
"""

from __future__ import annotations

import struct

from ..dtype import DType, dtypes
from ..errors import InternalError
from ..ir.interval import Bounds
from ..ir.op import Op

__all__ = ["Lane", "Values", "is_pair", "word"]

Lane = str | tuple[str, str]
_FLOAT = {Op.ADD: "add.f", Op.MUL: "mul.f"}
_INTEGER = {
    Op.ADD: "add.u", Op.SUB: "sub.u", Op.AND: "and.b", Op.OR: "or.b", Op.XOR: "xor.b",
    Op.SHL: "shl.b",
}  # fmt: skip
_ROUNDING = {Op.FLOOR: "floor.f", Op.CEIL: "ceil.f", Op.TRUNC: "trunc.f", Op.ROUND: "rndne.f"}
CONDITIONS = {Op.CMPLT: "lt", Op.CMPEQ: "eq", Op.CMPNE: "ne"}
_PRODUCT = 1 << 24  # unsigned factors of a product of 24 bits lie below


def is_pair(dtype: DType) -> bool:
    """Whether a number takes two registers."""
    return dtype.bits == 64


def word(value: int) -> str:
    """A literal of 32 bits."""
    return f"0x{value & 0xFFFFFFFF:x}"


def of_float(value: float) -> str:
    """A float32 literal."""
    return word(struct.unpack("<I", struct.pack("<f", value))[0])


class Values:
    """The lines of a function, as values are printed into them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.counter = 0
        self.depth = 1

    # -- text -----------------------------------------------------------------------------------

    def line(self, code: str) -> None:
        self.lines.append("  " * self.depth + code)

    def open(self, code: str) -> None:
        """Begin an `if` or a `loop`."""
        self.line(code)
        self.depth += 1

    def close(self, code: str = "end") -> None:
        """End it."""
        self.depth -= 1
        self.line(code)

    def new(self, half: bool = False) -> str:
        """A new virtual register."""
        self.counter += 1
        return f"%{'h' if half else ''}{self.counter}"

    def vector(self, count: int, half: bool = False) -> str:
        """New virtual registers side by side."""
        name = self.new(half)
        if count > 1:
            self.line(f"vector {name} {count}")
        return name

    def emit(self, op: str, *srcs: str, half: bool = False) -> str:
        """An instruction with a new result."""
        name = self.new(half)
        self.line(f"{op} {name}, {', '.join(srcs)}")
        return name

    def copy(self, target: Lane, source: Lane) -> None:
        """Change what a register holds."""
        if isinstance(target, str) and isinstance(source, str):
            kind = "u16u16" if target.startswith("%h") else "u32u32"
            self.line(f"mov.{kind} {target}, {source}")
            return
        for one, other in zip(target, source, strict=True):
            self.copy(one, other)

    def fresh(self, dtype: DType) -> Lane:
        """New registers for one number."""
        if is_pair(dtype):
            return self.new(), self.new()
        return self.new(half=dtype.scalar is dtypes.float16)

    # -- constants ------------------------------------------------------------------------------

    def literal(self, dtype: DType, value: float) -> Lane:
        """A scalar constant."""
        if dtype.scalar is dtypes.float16:
            (bits,) = struct.unpack("<H", struct.pack("<e", value))
            return self.emit("mov.u16u16", word(bits), half=True)
        if dtype.is_float:
            return of_float(value)
        if is_pair(dtype):
            return word(int(value)), word(int(value) >> 32)
        return word(int(value))

    # -- integers of 32 bits ----------------------------------------------------------------------

    def wrapped(self, dtype: DType, value: str) -> str:
        """A result cut to its width, where that is less than a register's."""
        if not dtype.is_int or dtype.bits >= 32:
            return value
        if dtype.is_unsigned:
            return self.emit("and.b", value, word((1 << dtype.bits) - 1))
        return self.emit("ashr.b", self.emit("shl.b", value, word(32 - dtype.bits)),
                         word(32 - dtype.bits))  # fmt: skip

    def multiply(self, a: str, b: str, bounds: tuple[Bounds, Bounds] | None = None) -> str:
        """The low 32 bits of a product; `bounds` are those of the factors, where they are known."""
        if bounds is not None:
            if all(0 <= low and high < _PRODUCT for low, high in bounds):
                return self.emit("mul.u24", a, b)
            if all(-_PRODUCT // 2 <= low and high < _PRODUCT // 2 for low, high in bounds):
                return self.emit("mul.s24", a, b)
        low = self.emit("mull.u", a, b)
        return self.emit("madsh.m16", a, b, self.emit("madsh.m16", b, a, low))

    def integer(self, op: Op, dtype: DType, a: str, b: str) -> str:
        """An operation of two integers of up to 32 bits, other than products and quotients."""
        if op in (Op.MAX, Op.MIN):
            name = "max" if op is Op.MAX else "min"
            return self.emit(f"{name}.{'u' if dtype.is_unsigned else 's'}", a, b)
        if op is Op.SHR:
            return self.emit("shr.b" if dtype.is_unsigned else "ashr.b", a, b)
        if op not in _INTEGER:
            raise InternalError(f"Adreno's renderer has no {op.name} of integers")
        value = self.emit(_INTEGER[op], a, b)
        return value if op in (Op.AND, Op.OR, Op.XOR) else self.wrapped(dtype, value)

    # -- floats -----------------------------------------------------------------------------------

    def floating(self, op: Op, a: str, b: str) -> str:
        """An operation of two float32."""
        if op is Op.SUB:
            return self.emit("add.f", a, f"(neg){b}")
        if op is Op.FDIV:
            return self.quotient(a, b)
        if op in (Op.MAX, Op.MIN):
            return self.extreme(op, a, b)
        return self.emit(_FLOAT[op], a, b)

    def quotient(self, a: str, b: str) -> str:
        """a / b by the reciprocal of b, which is made smaller first where that would be too small.

        Behind 2^126 a reciprocal is subnormal, and so it is 0.
        """
        known = _reciprocal(b)
        if known is not None:
            return self.emit("mul.f", a, known)
        is_large = self.emit("cmps.f.gt", f"(abs){b}", of_float(2.0**125))
        scale = self.select(is_large, of_float(2.0**-64), of_float(1.0))
        reciprocal = self.emit("rcp", self.emit("mul.f", b, scale))
        return self.emit("mul.f", self.emit("mul.f", a, reciprocal), scale)

    def extreme(self, op: Op, a: str, b: str) -> str:
        """The larger or smaller; of equals the first, and a NaN on either side wins."""
        wins = self.emit(f"cmps.f.{'lt' if op is Op.MAX else 'gt'}", a, b)
        if not b.startswith("0x") or _is_nan(b):
            wins = self.emit("or.b", wins, self.emit("cmps.f.ne", b, b))
        return self.select(wins, b, a)

    def select(self, condition: str, yes: str, no: str) -> str:
        """`yes` where the condition is not 0, else `no`."""
        if yes.startswith("%h") or no.startswith("%h"):
            condition = self.emit("cov.u32u16", condition, half=True)
            return self.emit("sel.b16", yes, condition, no, half=True)
        return self.emit("sel.b32", yes, condition, no)

    def function(self, op: Op, values: list[str]) -> str:
        """A function of float32."""
        if op is Op.FMA:
            return self.emit("mad.f32", *values)
        return self.emit("sqrt" if op is Op.SQRT else _ROUNDING[op], *values)

    # -- conversions ------------------------------------------------------------------------------

    def converted(self, source: DType, target: DType, value: str) -> str:
        """A number of up to 32 bits converted; one that does not fit saturates."""
        if source.scalar is target.scalar:
            return value
        if source.is_float:
            return self._of_float(source, target, value)
        if target.is_float:
            kind = "s32" if source.is_int and not source.is_unsigned else "u32"
            wide = self.emit(f"cov.{kind}f32.even", value)
            return self._of_float(dtypes.float32, target, wide)
        if target.is_bool:
            return self.emit("cmps.u.ne", value, "0x0")
        fits = source.is_bool or (source.bits <= target.bits and source.is_unsigned)
        widens = source.bits < target.bits and not target.is_unsigned
        return value if fits or widens else self.wrapped(target, value)

    def _of_float(self, source: DType, target: DType, value: str) -> str:
        if source.scalar is dtypes.float16 and target.scalar is not dtypes.float16:
            value = self.emit("cov.f16f32", value)
        if target.scalar is dtypes.float32:
            return value
        if target.scalar is dtypes.float16:
            return self.emit("cov.f32f16.even", value, half=True)
        if target.is_bool:
            return self.emit("cmps.f.ne", value, "0x0")
        return self.to_int32(value)

    def to_int32(self, value: str) -> str:
        """A float32 truncated and saturated; a NaN is 0."""
        number = self.emit("cov.f32s32", value)
        high = self.emit("cmps.f.ge", value, of_float(2.0**31))
        number = self.select(high, word((1 << 31) - 1), number)
        low = self.emit("cmps.f.lt", value, of_float(-(2.0**31)))
        number = self.select(low, word(1 << 31), number)
        return self.select(self.emit("cmps.f.ne", value, value), "0x0", number)

    def same_bits(self, source: DType, target: DType, value: str) -> str:
        """The bits of a number of up to 32 as another type has them."""
        if source.scalar is dtypes.float16:
            wide = value if target.is_float else self.emit("cov.u16u32", value)
            return wide if target.is_float else self.wrapped(target, wide)
        if target.scalar is dtypes.float16:
            return self.emit("cov.u32u16", value, half=True)
        return self.wrapped(target, value)


def _is_nan(literal: str) -> bool:
    return int(literal, 16) & 0x7FFFFFFF > 0x7F800000


def _reciprocal(operand: str) -> str | None:
    """1 / a literal, where both are neither too small nor too large; None of other operands."""
    if not operand.startswith("0x"):
        return None
    (value,) = struct.unpack("<f", int(operand, 16).to_bytes(4, "little"))
    return of_float(1 / value) if 2.0**-126 <= abs(value) <= 2.0**126 else None
