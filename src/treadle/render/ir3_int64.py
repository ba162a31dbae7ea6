"""64-bit integers for Adreno, which has none: pairs of 32-bit words, the low one first.

    arithmetic(values, Op.ADD, dtypes.int64, ("%1", "%2"), ("%3", "%4"))   ->  ("%6", "%8")

Signed and unsigned share what two's complement makes alike. Division truncates, as lower/decompose
leaves it, and is never by zero.
"""

from __future__ import annotations

from ..dtype import DType, dtypes
from ..errors import InternalError
from ..ir.op import Op
from .ir3_division import divide as divide32
from .ir3_values import Lane, Values, of_float, word

__all__ = ["Pair", "arithmetic", "compare", "convert", "select"]

Pair = tuple[str, str]
_BITWISE = {Op.AND: "and.b", Op.OR: "or.b", Op.XOR: "xor.b"}
ZERO: Pair = ("0x0", "0x0")


def arithmetic(f: Values, op: Op, dtype: DType, a: Pair, b: Pair) -> Pair:
    """An operation of two 64-bit integers."""
    if op in _BITWISE:
        low, high = (f.emit(_BITWISE[op], x, y) for x, y in zip(a, b, strict=True))
        return low, high
    if op in (Op.MAX, Op.MIN):
        less = compare(f, Op.CMPLT, dtype, a, b)
        return select(f, less, b, a) if op is Op.MAX else select(f, less, a, b)
    if op in (Op.IDIV, Op.MOD):
        return _division(f, dtype, a, b)[op is Op.MOD]
    if op is Op.SHR:
        return _shift_right(f, a, b[0], "shr.b" if dtype.is_unsigned else "ashr.b")
    made = {Op.ADD: _add, Op.SUB: _subtract, Op.MUL: _multiply}.get(op)
    if made is not None:
        return made(f, a, b)
    if op is Op.SHL:
        return _shift_left(f, a, b[0])
    raise InternalError(f"Adreno's renderer has no {op.name} of 64-bit integers")


def select(f: Values, condition: str, yes: Pair, no: Pair) -> Pair:
    """`yes` where the condition is not 0, else `no`."""
    return f.select(condition, yes[0], no[0]), f.select(condition, yes[1], no[1])


def compare(f: Values, op: Op, dtype: DType, a: Pair, b: Pair) -> str:
    """A comparison: 0 or 1."""
    if op is Op.CMPEQ:
        return f.emit("and.b", *(f.emit("cmps.u.eq", x, y) for x, y in zip(a, b, strict=True)))
    if op is Op.CMPNE:
        return f.emit("or.b", *(f.emit("cmps.u.ne", x, y) for x, y in zip(a, b, strict=True)))
    high = f.emit(f"cmps.{'u' if dtype.is_unsigned else 's'}.lt", a[1], b[1])
    equal = f.emit("cmps.u.eq", a[1], b[1])
    low = f.emit("and.b", equal, f.emit("cmps.u.lt", a[0], b[0]))
    return f.emit("or.b", high, low)


def _add(f: Values, a: Pair, b: Pair) -> Pair:
    low = f.emit("add.u", a[0], b[0])
    carry = f.emit("cmps.u.lt", low, a[0])
    return low, f.emit("add.u", f.emit("add.u", a[1], b[1]), carry)


def _subtract(f: Values, a: Pair, b: Pair) -> Pair:
    borrow = f.emit("cmps.u.lt", a[0], b[0])
    high = f.emit("sub.u", f.emit("sub.u", a[1], b[1]), borrow)
    return f.emit("sub.u", a[0], b[0]), high


def _multiply(f: Values, a: Pair, b: Pair) -> Pair:
    """By halves of 16 bits, whose products mull.u and mul.u24 give whole."""
    (a0, a1), (b0, b1) = (_halves(f, x[0]) for x in (a, b))
    cross = f.emit("add.u", f.emit("mul.u24", a1, b0),
                   f.emit("shr.b", f.emit("mul.u24", a0, b0), word(16)))  # fmt: skip
    middle = f.emit("add.u", f.emit("mul.u24", a0, b1), f.emit("and.b", cross, word(0xFFFF)))
    high = f.emit("add.u", f.emit("mul.u24", a1, b1), f.emit("shr.b", cross, word(16)))
    high = f.emit("add.u", high, f.emit("shr.b", middle, word(16)))
    outer = f.emit("add.u", f.multiply(a[0], b[1]), f.multiply(a[1], b[0]))
    return f.multiply(a[0], b[0]), f.emit("add.u", high, outer)


def _halves(f: Values, value: str) -> Pair:
    return f.emit("and.b", value, word(0xFFFF)), f.emit("shr.b", value, word(16))


def _shift_left(f: Values, a: Pair, amount: str) -> Pair:
    low, high = a
    if amount.startswith("0x"):
        n = int(amount, 16)
        if n == 0:
            return a
        if n >= 32:
            return "0x0", f.emit("shl.b", low, word(n - 32))
        crossing = f.emit("shr.b", low, word(32 - n))
        return f.emit("shl.b", low, word(n)), f.emit(
            "or.b", f.emit("shl.b", high, word(n)), crossing
        )
    # The bits that cross: by 32 - n, in two steps since no step may be by 32.
    rest = f.emit("and.b", amount, word(31))
    crossing = f.emit("shr.b", f.emit("shr.b", low, word(1)), f.emit("sub.u", word(31), rest))
    near = f.emit("shl.b", low, rest)
    far = f.emit("or.b", f.emit("shl.b", high, rest), crossing)
    beyond = f.emit("cmps.u.ge", amount, word(32))
    return f.select(beyond, "0x0", near), f.select(beyond, near, far)


def _shift_right(f: Values, a: Pair, amount: str, shift: str) -> Pair:
    low, high = a
    fill = "0x0" if shift == "shr.b" else f.emit("ashr.b", high, word(31))
    if amount.startswith("0x"):
        n = int(amount, 16)
        if n == 0:
            return a
        if n >= 32:
            return f.emit(shift, high, word(n - 32)), fill
        crossing = f.emit("shl.b", high, word(32 - n))
        return f.emit("or.b", f.emit("shr.b", low, word(n)), crossing), f.emit(shift, high, word(n))
    rest = f.emit("and.b", amount, word(31))
    crossing = f.emit("shl.b", f.emit("shl.b", high, word(1)), f.emit("sub.u", word(31), rest))
    near = f.emit(shift, high, rest)
    far = f.emit("or.b", f.emit("shr.b", low, rest), crossing)
    beyond = f.emit("cmps.u.ge", amount, word(32))
    return f.select(beyond, near, far), f.select(beyond, fill, near)


def _negated_if(f: Values, value: Pair, sign: str) -> Pair:
    """`value`, or its negative where `sign` is -1 and not 0."""
    flipped = f.emit("xor.b", value[0], sign), f.emit("xor.b", value[1], sign)
    return _subtract(f, flipped, (sign, sign))


def _division(f: Values, dtype: DType, a: Pair, b: Pair) -> tuple[Pair, Pair]:
    """The quotient and the remainder."""
    if dtype.is_unsigned:
        return _unsigned_division(f, a, b)
    sign_a, sign_b = (f.emit("ashr.b", x[1], word(31)) for x in (a, b))
    quotient, rest = _unsigned_division(f, _negated_if(f, a, sign_a), _negated_if(f, b, sign_b))
    sign = f.emit("xor.b", sign_a, sign_b)
    return _negated_if(f, quotient, sign), _negated_if(f, rest, sign_a)


def _unsigned_division(f: Values, a: Pair, b: Pair) -> tuple[Pair, Pair]:
    """By 32 bits where that is enough; else a bit at a time."""
    quotient, rest = (f.new(), f.new()), (f.new(), f.new())
    for target in (quotient, rest):
        f.copy(target, ZERO)
    is_wide = f.emit("cmps.u.ne", f.emit("or.b", a[1], b[1]), "0x0")
    is_narrow = f.emit("xor.b", is_wide, word(1))
    f.open(f"if {is_narrow}")
    low, left = divide32(f, a[0], b[0], signed=False)
    f.copy(quotient[0], low)
    f.copy(rest[0], left)
    f.close()
    f.open(f"if {is_wide}")
    _long_division(f, a, b, quotient, rest)
    f.close()
    return quotient, rest


def _long_division(f: Values, a: Pair, b: Pair, quotient: Pair, rest: Pair) -> None:
    """The dividend moves bit by bit into the remainder, and the quotient's bits follow it."""
    left, count = (f.new(), f.new()), f.new()
    f.copy(left, a)
    f.copy(count, word(64))
    f.open("loop")
    carry = f.emit("shr.b", rest[1], word(31))
    longer = _shift_left(f, rest, word(1))
    longer = f.emit("or.b", longer[0], f.emit("shr.b", left[1], word(31))), longer[1]
    fits = f.emit("xor.b", compare(f, Op.CMPLT, dtypes.uint64, longer, b), word(1))
    fits = f.emit("or.b", carry, fits)
    f.copy(left, _shift_left(f, left, word(1)))
    bits = _shift_left(f, quotient, word(1))
    f.copy(quotient, (f.emit("or.b", bits[0], fits), bits[1]))
    f.copy(rest, select(f, fits, _subtract(f, longer, b), longer))
    f.copy(count, f.emit("sub.u", count, word(1)))
    f.close(f"while {count}")


def convert(f: Values, source: DType, target: DType, value: Lane) -> Lane:
    """A number converted to or from a 64-bit integer."""
    if isinstance(value, str):
        return _widened(f, source, value)
    if target.bits == 64 and not target.is_float:
        return value
    if target.is_bool:
        return f.emit("cmps.u.ne", f.emit("or.b", *value), "0x0")
    if target.is_float:
        wide = _to_float(f, value) if source.is_unsigned else _signed_to_float(f, value)
        return f.converted(dtypes.float32, target, wide)
    return f.wrapped(target, value[0])


def _widened(f: Values, source: DType, value: str) -> Pair:
    if source.is_float:
        return _of_float(f, f.converted(source, dtypes.float32, value))
    if source.is_bool or source.is_unsigned:
        return value, "0x0"
    return value, f.emit("ashr.b", value, word(31))


def _to_float(f: Values, value: Pair) -> str:
    """The leading 32 bits, the last of them set if anything follows: rounded once, by cov."""
    low, high = value
    narrow = f.emit("cov.u32f32.even", low)
    is_wide = f.emit("cmps.u.ne", high, "0x0")
    zeros = f.emit("clz.b", high)
    zeros = f.select(is_wide, zeros, "0x0")
    shifted = _shift_left(f, value, zeros)
    follows = f.emit("cmps.u.ne", shifted[0], "0x0")
    leading = f.emit("cov.u32f32.even", f.emit("or.b", shifted[1], follows))
    exponent = f.emit("shl.b", f.emit("sub.u", word(127 + 32), zeros), word(23))
    return f.select(is_wide, f.emit("mul.f", leading, exponent), narrow)


def _signed_to_float(f: Values, value: Pair) -> str:
    sign = f.emit("ashr.b", value[1], word(31))
    size = _to_float(f, _negated_if(f, value, sign))
    return f.emit("or.b", size, f.emit("and.b", sign, word(1 << 31)))


def _of_float(f: Values, value: str) -> Pair:
    """A float32 truncated and saturated to int64; a NaN is 0."""
    size = f.emit("and.b", value, word(0x7FFFFFFF))
    sign = f.emit("ashr.b", value, word(31))
    exponent = f.emit("sub.u", f.emit("shr.b", size, word(23)), word(127))
    fraction = f.emit("or.b", f.emit("and.b", size, word(0x7FFFFF)), word(0x800000))
    below = f.emit("min.s", f.emit("max.s", f.emit("sub.u", word(23), exponent), "0x0"), word(31))
    above = f.emit("max.s", f.emit("sub.u", exponent, word(23)), "0x0")
    above = f.emit("min.s", above, word(63))
    whole = _shift_left(f, (f.emit("shr.b", fraction, below), "0x0"), above)
    whole = _negated_if(f, whole, sign)
    most = f.emit("xor.b", word(0xFFFFFFFF), sign), f.emit("xor.b", word(0x7FFFFFFF), sign)
    is_large = f.emit("cmps.u.ge", size, of_float(2.0**63))
    whole = select(f, is_large, most, whole)
    is_small = f.emit("cmps.u.lt", size, of_float(1.0))
    is_nan = f.emit("cmps.u.gt", size, word(0x7F800000))
    return select(f, f.emit("or.b", is_small, is_nan), ZERO, whole)
