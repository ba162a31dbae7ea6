"""Arithmetic with two and three sources (cat2 and cat3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from treadle.emulate.ir3.meanings import MEANINGS
from treadle.emulate.ir3.operands import Unsupported

if TYPE_CHECKING:
    from treadle.emulate.ir3.wave import Wave

__all__: list[str] = []

_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def _kind(w: Wave, letter: str) -> str:
    """The kind of sources: by whether they are half registers."""
    return f"{letter}{32 if w.item.number('FULL') else 16}"


def _define(name: str, letter: str, write: Callable[[Wave, str], str], result: str = "") -> None:
    """`write(w, kind)` makes the value, which is of `result` if that is another kind."""

    def meaning(w: Wave) -> None:
        kind = _kind(w, letter)
        value = write(w, kind)
        w.result(_kind(w, result) if result else kind, value)

    MEANINGS.of(name)(meaning)


# -- floats


def _float(opcode: str) -> Callable[[Wave, str], str]:
    return lambda w, kind: w.x.op(kind, opcode, w.source(0, kind), w.source(1, kind))


def _unary(intrinsic: str) -> Callable[[Wave, str], str]:
    return lambda w, kind: w.x.call(kind, intrinsic, w.source(0, kind))


def _sign(w: Wave, kind: str) -> str:
    x, a = w.x, w.source(0, kind)
    zero = x.const(kind, 0.0)
    own = x.select(kind, x.compare(kind, "uno", a, a), zero, a)  # a zero keeps its sign
    below = x.select(kind, x.compare(kind, "olt", a, zero), x.const(kind, -1.0), own)
    return x.select(kind, x.compare(kind, "ogt", a, zero), x.const(kind, 1.0), below)


def _extreme(name: str) -> Callable[[Wave, str], str]:
    return lambda w, kind: w.x.call(kind, name, w.source(0, kind), w.source(1, kind))


_define("add.f", "f", _float("fadd"))
_define("mul.f", "f", _float("fmul"))
_define("min.f", "f", _extreme("minimumnum"))
_define("max.f", "f", _extreme("maximumnum"))
_define("absneg.f", "f", lambda w, kind: w.source(0, kind))
_define("sign.f", "f", _sign)
_define("floor.f", "f", _unary("floor"))
_define("ceil.f", "f", _unary("ceil"))
_define("trunc.f", "f", _unary("trunc"))
_define("rndne.f", "f", _unary("roundeven"))
_define("rndaz.f", "f", _unary("round"))


def _compare_floats(w: Wave, kind: str) -> str:
    how = _COMPARISONS[w.item.number("COND")]
    code = "une" if how == "ne" else f"o{how}"
    flag = w.x.compare(kind, code, w.source(0, kind), w.source(1, kind))
    return w.x.from_flag(_kind(w, "u"), flag)


_define("cmps.f", "f", _compare_floats, "u")


# -- integers


def _compare(w: Wave, kind: str) -> str:
    how = _COMPARISONS[w.item.number("COND")]
    code = how if how in ("eq", "ne") else f"{'s' if kind[0] == 'i' else 'u'}{how}"
    flag = w.x.compare(kind, code, w.source(0, kind), w.source(1, kind))
    return w.x.from_flag(kind, flag)


def _sum(opcode: str) -> Callable[[Wave, str], str]:
    """A sum or difference; with (sat) one that stays in range, with (ei) a half of a sum."""

    def write(w: Wave, kind: str) -> str:
        x, a, b = w.x, w.source(0, kind), w.source(1, kind)
        sign = "s" if kind[0] == "i" else "u"
        if w.item.number("EI"):
            if opcode != "add" or w.item.saturates:
                raise Unsupported("(ei) of this sum")
            return _half_of_sum(w, kind, a, b)
        if w.item.saturates:
            return x.call(kind, f"{sign}{opcode}.sat", a, b)
        return x.op(kind, opcode, a, b)

    return write


def _half_of_sum(w: Wave, kind: str, a: str, b: str) -> str:
    """(a + b) >> 1 without losing the carry: what is alike, and half of what is not."""
    x, shift = w.x, "ashr" if kind[0] == "i" else "lshr"
    apart = x.op(kind, shift, x.op(kind, "xor", a, b), x.const(kind, 1))
    return x.op(kind, "add", x.op(kind, "and", a, b), apart)


for _letter, _name in (("u", "u"), ("i", "s")):
    _define(f"add.{_name}", _letter, _sum("add"))
    _define(f"sub.{_name}", _letter, _sum("sub"))
    _define(f"min.{_name}", _letter, _extreme(f"{_name}min"))
    _define(f"max.{_name}", _letter, _extreme(f"{_name}max"))
    _define(f"cmps.{_name}", _letter, _compare)
_define("absneg.s", "i", lambda w, kind: w.source(0, kind))


def _narrow(w: Wave, kind: str, value: str, bits: int) -> str:
    """The low bits of a value, with their sign where the kind has one."""
    if bits >= int(kind[1:]):
        return value
    x, away = w.x, w.x.const(kind, int(kind[1:]) - bits)
    shift = "ashr" if kind[0] == "i" else "lshr"
    return x.op(kind, shift, x.op(kind, "shl", value, away), away)


def _product(bits: int, signs: str = "") -> Callable[[Wave, str], str]:
    """The product of the low bits of both."""

    def write(w: Wave, kind: str) -> str:
        a, b = (_narrow(w, kind, w.source(i, kind, signs), bits) for i in range(2))
        return w.x.op(kind, "mul", a, b)

    return write


_define("mul.u24", "u", _product(24))
_define("mul.s24", "i", _product(24))
_define("mull.u", "u", _product(16))


# -- bits


def _bitwise(opcode: str) -> Callable[[Wave, str], str]:
    return lambda w, kind: w.x.op(kind, opcode, w.source(0, kind, "not"), w.source(1, kind, "not"))


def _shift(opcode: str) -> Callable[[Wave, str], str]:
    def write(w: Wave, kind: str) -> str:
        x, a, b = w.x, w.source(0, kind, "none"), w.source(1, kind, "none")
        return x.op(kind, opcode, a, _amount(w, kind, b))

    return write


def _amount(w: Wave, kind: str, value: str) -> str:
    """By how much is shifted: the low bits of a source."""
    return w.x.op(kind, "and", value, w.x.const(kind, int(kind[1:]) - 1))


def _reversed(w: Wave, kind: str) -> str:
    return w.x.call(kind, "bitreverse", w.source(0, kind, "none"))


def _leading(w: Wave, kind: str) -> str:
    """Zeros above the highest 1; -1 where there is none. Signed: above what is not the sign."""
    x, a = w.x, w.source(0, kind, "none")
    if kind[0] == "i":
        a = x.op(kind, "xor", a, x.op(kind, "ashr", a, x.const(kind, int(kind[1:]) - 1)))
    count = x.call(kind, "ctlz", a, more="i1 false")
    return x.select(kind, x.truth(kind, a), count, x.const(kind, -1))


def _count_bits(w: Wave, kind: str) -> str:
    if kind == "u32":
        raise Unsupported("cbits.b of 32 bits")
    return w.x.call(kind, "ctpop", w.source(0, kind, "none"))


_define("and.b", "u", _bitwise("and"))
_define("or.b", "u", _bitwise("or"))
_define("xor.b", "u", _bitwise("xor"))
_define("not.b", "u", lambda w, k: w.x.op(k, "xor", w.source(0, k, "none"), w.x.const(k, -1)))
_define("shl.b", "u", _shift("shl"))
_define("shr.b", "u", _shift("lshr"))
_define("ashr.b", "i", _shift("ashr"))
_define("bfrev.b", "u", _reversed)
_define("clz.b", "u", _leading)
_define("clz.s", "i", _leading)
_define("cbits.b", "u", _count_bits)


# -- three sources


def _three(w: Wave, kind: str, signs: str = "") -> tuple[str, str, str]:
    return w.source(0, kind, signs), w.source(1, kind, signs), w.source(2, kind, signs)


def _mad_float(w: Wave, kind: str) -> str:
    """Rounded twice."""
    a, b, c = _three(w, kind)
    product = w.flushed(kind, w.x.op(kind, "fmul", a, b))
    return w.x.op(kind, "fadd", product, c)


def _mad(bits: int) -> Callable[[Wave, str], str]:
    def write(w: Wave, kind: str) -> str:
        a, b, c = _three(w, kind, "none")
        product = w.x.op(kind, "mul", *(_narrow(w, kind, v, bits) for v in (a, b)))
        return w.x.op(kind, "add", product, c)

    return write


def _mad_mixed(w: Wave, kind: str) -> str:
    """The low half of the first times the high one of the second, moved up, plus the third."""
    a, b, c = _three(w, kind, "none")
    x, sixteen = w.x, w.x.const(kind, 16)
    high = x.op(kind, "lshr", b, sixteen)
    product = x.op(kind, "mul", _narrow(w, kind, a, 16), high)
    return x.op(kind, "add", x.op(kind, "shl", product, sixteen), c)


def _choose(w: Wave, kind: str) -> str:
    """The first where the second is not 0, else the third."""
    a, b, c = _three(w, kind, "none")
    return w.x.select(kind, w.x.truth(kind, b), a, c)


def _sum_of_three(w: Wave, kind: str) -> str:
    a, b, c = _three(w, kind)
    return w.x.op(kind, "add", w.x.op(kind, "add", a, b), c)


def _shift_and(shift: str, then: str) -> Callable[[Wave, str], str]:
    def write(w: Wave, kind: str) -> str:
        a, b, c = _three(w, kind, "none")
        return w.x.op(kind, then, w.x.op(kind, shift, b, _amount(w, kind, a)), c)

    return write


def _and_or(w: Wave, kind: str) -> str:
    a, b, c = _three(w, kind, "none")
    return w.x.op(kind, "or", w.x.op(kind, "and", b, a), c)


def _dot(count: int) -> Callable[[Wave, str], str]:
    """Products of bytes of the first two plus the third; those of the second have no sign."""

    def write(w: Wave, kind: str) -> str:
        x, item = w.x, w.item
        a, b, c = (w.source(i, kind) for i in range(3))
        first = 0 if count == 4 or not item.number("SRC_PACK") else 2
        is_signed = item.number("SRC_SIGN")
        total = x.const(kind, 0)
        for i in range(first, first + count):
            one = x.bits(a, 8 * i, 8, kind)
            if is_signed:
                one = _narrow(w, "i32", one, 8)
            total = x.op(kind, "add", total, x.op(kind, "mul", one, x.bits(b, 8 * i, 8, kind)))
        if item.saturates:
            return x.call(kind, f"{'s' if is_signed else 'u'}add.sat", total, c)
        return x.op(kind, "add", total, c)

    return write


for _letter in ("f16", "f32"):
    _define(f"mad.{_letter}", "f", _mad_float)
for _bits in ("16", "32"):
    _define(f"sel.b{_bits}", "u", _choose)
    _define(f"sad.s{_bits}", "i", _sum_of_three)
_define("mad.u16", "u", _mad(16))
_define("mad.s16", "i", _mad(16))
_define("mad.u24", "u", _mad(24))
_define("mad.s24", "i", _mad(24))
_define("madsh.m16", "u", _mad_mixed)
_define("shrm", "u", _shift_and("lshr", "and"))
_define("shlm", "u", _shift_and("shl", "and"))
_define("shrg", "u", _shift_and("lshr", "or"))
_define("shlg", "u", _shift_and("shl", "or"))
_define("andg", "u", _and_or)
_define("dp2acc", "u", _dot(2))
_define("dp4acc", "u", _dot(4))
