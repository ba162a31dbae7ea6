"""Signs, extremes and classes of floats: what looks at their bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx import integer
from treadle.emulate.ptx.emit import Handlers, lanes, splat
from treadle.emulate.ptx.floating import EXPONENT, NAN, SIGN, elementwise, is_float
from treadle.emulate.ptx.syntax import WIDTHS

if TYPE_CHECKING:
    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = ["HANDLERS"]

HANDLERS = Handlers()


@HANDLERS.of("abs", "neg")
def _sign(e: Emitter, item: Instruction, m: Modifiers) -> None:
    if not is_float(item):
        integer.integer_unary(e, item, m)
        return
    kind = m.type()

    def compute(single: str, a: str) -> str:
        bits = WIDTHS[single]
        if item.opcode == "neg":
            return e.op(f"xor {lanes(bits)} {a}, {splat(bits, SIGN[single])}")
        return e.op(f"and {lanes(bits)} {a}, {splat(bits, SIGN[single] - 1)}")

    elementwise(e, item, m, kind, compute)


@HANDLERS.of("copysign")
def _copy_sign(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type(("f32", "f64"))
    bits, shape = WIDTHS[kind], lanes(WIDTHS[kind])
    sign, size = e.read(item.operands[1], bits), e.read(item.operands[2], bits)
    sign = e.op(f"and {shape} {sign}, {splat(bits, SIGN[kind])}")
    size = e.op(f"and {shape} {size}, {splat(bits, SIGN[kind] - 1)}")
    e.write(item.operands[0], e.op(f"or {shape} {sign}, {size}"), bits)


@HANDLERS.of("min", "max")
def _extreme(e: Emitter, item: Instruction, m: Modifiers) -> None:
    if not is_float(item):
        integer.integer_extremes(e, item, m)
        return
    kind = m.type()
    keeps_nan = kind != "f64" and m.flag("NaN")
    xorsign = m.flag("xorsign")
    if xorsign and not m.flag("abs"):
        raise m.fail()
    compute = _min_or_max(e, item.opcode, keeps_nan, xorsign)
    if len(item.operands) == 4:
        pair = compute
        compute = lambda kind, a, b, c: pair(kind, pair(kind, a, b), c)
    elementwise(e, item, m, kind, compute)


def _min_or_max(e: Emitter, name: str, keeps_nan: bool, xorsign: bool):
    def compute(single: str, a: str, b: str) -> str:
        bits, shape = WIDTHS[single], lanes(WIDTHS[single])
        sign = ""
        if xorsign:
            both = e.op(f"xor {shape} {a}, {b}")
            sign = e.op(f"and {shape} {both}, {splat(bits, SIGN[single])}")
            a, b = (e.op(f"and {shape} {v}, {splat(bits, SIGN[single] - 1)}") for v in (a, b))
        # Among numbers the order of the bits as sign and magnitude is the order: -0 < +0.
        keys = [_order(e, value, bits) for value in (a, b)]
        how = "slt" if name == "min" else "sgt"
        first = e.op(f"icmp {how} {shape} {keys[0]}, {keys[1]}")
        value = e.op(f"select {lanes(1)} {first}, {shape} {a}, {shape} {b}")
        wrong = [_is_nan(e, v, single) for v in (a, b)]
        nan = splat(bits, NAN[single])
        if keeps_nan:
            either = e.op(f"or {lanes(1)} {wrong[0]}, {wrong[1]}")
            value = e.op(f"select {lanes(1)} {either}, {shape} {nan}, {shape} {value}")
        else:
            value = e.op(f"select {lanes(1)} {wrong[0]}, {shape} {b}, {shape} {value}")
            value = e.op(f"select {lanes(1)} {wrong[1]}, {shape} {a}, {shape} {value}")
            both = e.op(f"and {lanes(1)} {wrong[0]}, {wrong[1]}")
            value = e.op(f"select {lanes(1)} {both}, {shape} {nan}, {shape} {value}")
        return e.op(f"or {shape} {value}, {sign}") if sign else value

    return compute


def _order(e: Emitter, value: str, bits: int) -> str:
    shape = lanes(bits)
    sign = e.op(f"ashr {shape} {value}, {splat(bits, bits - 1)}")
    flip = e.op(f"and {shape} {sign}, {splat(bits, (1 << (bits - 1)) - 1)}")
    return e.op(f"xor {shape} {value}, {flip}")


def _is_nan(e: Emitter, value: str, kind: str) -> str:
    bits, shape = WIDTHS[kind], lanes(WIDTHS[kind])
    size = e.op(f"and {shape} {value}, {splat(bits, SIGN[kind] - 1)}")
    return e.op(f"icmp ugt {shape} {size}, {splat(bits, EXPONENT[kind])}")


@HANDLERS.of("testp")
def _test(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type(("f32", "f64"))
    what = m.one_of(("finite", "infinite", "number", "notanumber", "normal", "subnormal"))
    bits, shape = WIDTHS[kind], lanes(WIDTHS[kind])
    value = e.read(item.operands[1], bits)
    size = e.op(f"and {shape} {value}, {splat(bits, SIGN[kind] - 1)}")
    infinity = splat(bits, EXPONENT[kind])
    least = splat(bits, EXPONENT[kind] & -EXPONENT[kind])
    compare = {
        "finite": ("ult", infinity), "infinite": ("eq", infinity), "number": ("ule", infinity),
        "notanumber": ("ugt", infinity), "normal": ("ult", infinity), "subnormal": ("ult", least),
    }.get(what)  # fmt: skip
    if compare is None:
        raise m.fail()
    found = e.op(f"icmp {compare[0]} {shape} {size}, {compare[1]}")
    if what == "normal":
        big = e.op(f"icmp uge {shape} {size}, {least}")
        found = e.op(f"and {lanes(1)} {found}, {big}")
    elif what == "subnormal":
        some = e.op(f"icmp ne {shape} {size}, zeroinitializer")
        found = e.op(f"and {lanes(1)} {found}, {some}")
    e.write_predicate(item.operands[0], found)
