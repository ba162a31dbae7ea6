"""Arithmetic of floats, and conversions between them and integers.

Sums and products of 16 bits are computed in 32, of which the rounding to 16 is the right one; fused
products in 64. Functions that hardware approximates are computed in 64 bits and rounded, which is
within any stated error.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.amd.operands import Kind
from treadle.emulate.amd.vector import VCC, join, packed, set_flags, simple
from treadle.emulate.simt.values import bits_of

if TYPE_CHECKING:
    from treadle.emulate.amd.wave import Wave

__all__ = [
    "extreme", "from_integer", "fused", "ieee_extreme", "operation", "rounded", "to_integer",
    "towards_zero", "widened",
]  # fmt: skip

_KINDS = ("f16", "f32", "f64")
_FRACTION = {"f16": 10, "f32": 23, "f64": 52}
_BIAS = {"f16": 15, "f32": 127, "f64": 1023}


def widened(w: Wave, old: str, new: str, value: str) -> str:
    """A float of other bits, to the nearest."""
    if old == new:
        return value
    if (old, new) == ("f64", "f16"):
        return w.x.convert("fptrunc", "f32", "f16", _rounded_to_odd(w, value))
    opcode = "fpext" if bits_of(old) < bits_of(new) else "fptrunc"
    return w.x.convert(opcode, old, new, value)


def _rounded_to_odd(w: Wave, value: str) -> str:
    """A float of 64 bits as 32, of which the last is 1 where others are lost.

    So the next rounding is that of the whole. Processors without halves have no instruction from 64
    bits to 16, and LLVM would call a function that no library has.
    """
    x = w.x
    near = x.convert("fptrunc", "f64", "f32", value)
    back = x.convert("fpext", "f32", "f64", near)
    bits = x.cast("f32", "u32", near)
    over = x.compare("f64", "ogt", *(x.call("f64", "fabs", v) for v in (back, value)))
    short = x.op("u32", "sub", bits, x.from_flag("u32", over))
    lost = x.from_flag("u32", x.compare("f64", "one", back, value))
    return x.cast("u32", "f32", x.op("u32", "or", short, lost))


def _in(wide: str, kind: str, compute: Callable[..., str]) -> Callable[..., str]:
    """Computes in a wider kind, and rounds once."""

    def rounded(w: Wave, *values: str) -> str:
        return widened(w, wide, kind, compute(w, *(widened(w, kind, wide, v) for v in values)))

    return rounded


def operation(opcode: str, kind: str, swapped: bool = False) -> Callable[..., str]:
    wide = "f32" if kind == "f16" else kind

    def compute(w: Wave, a: str, b: str) -> str:
        return w.x.op(wide, opcode, *((b, a) if swapped else (a, b)))

    return _in(wide, kind, compute)


def rounded(name: str, kind: str) -> Callable[..., str]:
    """A float as a whole number: `floor`, `ceil`, `trunc` or `roundeven`."""
    wide = "f32" if kind == "f16" else kind
    return _in(wide, kind, lambda w, a: w.x.call(wide, name, a))


def fused(kind: str) -> Callable[..., str]:
    wide = "f64" if kind == "f16" else kind
    return _in(wide, kind, lambda w, a, b, c: w.x.call(wide, "fma", a, b, c))


def extreme(kind: str, is_max: bool) -> Callable[..., str]:
    """The greater or less of two: what is no number loses, and -0 is less than 0."""

    def compute(w: Wave, a: str, b: str) -> str:
        x, whole = w.x, kind.replace("f", "u")
        first = x.compare(kind, "ogt" if is_max else "olt", a, b)
        equal = x.compare(kind, "oeq", a, b)
        bits = [x.cast(kind, whole, v) for v in (a, b)]
        same = x.cast(whole, kind, x.op(whole, "and" if is_max else "or", *bits))
        found = x.select(kind, equal, same, x.select(kind, first, a, b))
        return x.select(kind, x.compare(kind, "uno", b, b), a, found)

    return compute


def _three(kind: str, how: str) -> Callable[..., str]:
    low, high = extreme(kind, is_max=False), extreme(kind, is_max=True)

    def compute(w: Wave, a: str, b: str, c: str) -> str:
        if how != "med3":
            extreme = low if how == "min3" else high
            return extreme(w, extreme(w, a, b), c)
        middle = high(w, low(w, a, b), low(w, high(w, a, b), c))
        # One that is no number gives the least of all.
        bad = w.x.either(w.x.compare(kind, "uno", a, b), w.x.compare(kind, "uno", c, c))
        return w.x.select(kind, bad, low(w, low(w, a, b), c), middle)

    return compute


for _kind in _KINDS:
    for _name, _op, _swapped in (("add", "fadd", False), ("sub", "fsub", False),
                                 ("subrev", "fsub", True), ("mul", "fmul", False)):  # fmt: skip
        simple(f"v_{_name}_{_kind}", _kind, (_kind,) * 2, operation(_op, _kind, _swapped))
    simple(f"v_fma_{_kind}", _kind, (_kind,) * 3, fused(_kind))
    for _name, _is_max in (("min", False), ("max", True)):
        simple(f"v_{_name}_{_kind}", _kind, (_kind,) * 2, extreme(_kind, _is_max))
    for _name in ("min3", "max3", "med3"):
        if _kind != "f64":
            simple(f"v_{_name}_{_kind}", _kind, (_kind,) * 3, _three(_kind, _name))
    for _name, _op in (("floor", "floor"), ("ceil", "ceil"), ("trunc", "trunc"),
                       ("rndne", "roundeven")):  # fmt: skip
        simple(f"v_{_name}_{_kind}", _kind, (_kind,), rounded(_op, _kind))


def ieee_extreme(kind: str, is_max: bool) -> Callable[..., str]:
    """The same, but what is no number wins."""

    def compute(w: Wave, a: str, b: str) -> str:
        found = extreme(kind, is_max)(w, a, b)
        for value in (b, a):
            found = w.x.select(kind, w.x.compare(kind, "uno", value, value), value, found)
        return found

    return compute


for _kind in _KINDS:
    for _name, _is_max in (("minimum", False), ("maximum", True)):
        simple(f"v_{_name}_{_kind}", _kind, (_kind,) * 2, ieee_extreme(_kind, _is_max))


def _twice(first: Callable[..., str], second: Callable[..., str]) -> Callable[..., str]:
    """`second` of what `first` makes of two sources, and the third."""
    return lambda w, a, b, c: second(w, first(w, a, b), c)


for _kind in ("f16", "f32"):
    _low, _high = (extreme(_kind, _is_max) for _is_max in (False, True))
    _least, _most = (ieee_extreme(_kind, _is_max) for _is_max in (False, True))
    for _name, _first, _second in (
        ("minmax", _low, _high), ("maxmin", _high, _low), ("minimum3", _least, _least),
        ("minimummaximum", _least, _most), ("maximumminimum", _most, _least),
        ("maximum3", _most, _most),
    ):  # fmt: skip
        simple(f"v_{_name}_{_kind}", _kind, (_kind,) * 3, _twice(_first, _second))


def _mad(w: Wave, a: str, b: str, c: str) -> str:
    """A product that is rounded before the sum; denormals are 0 whatever MODE says."""
    flush = w.without_denormals
    product = flush("f32", w.x.op("f32", "fmul", flush("f32", a), flush("f32", b)))
    return flush("f32", w.x.op("f32", "fadd", product, flush("f32", c)))


simple("v_mad_f32", "f32", ("f32",) * 3, _mad)


@MEANINGS.of("v_mac_f32", "v_madmk_f32", "v_madak_f32")
def _mad_short(w: Wave) -> None:
    a, b = w.source("src0", "f32"), w.source("src1", "f32")
    if w.name == "v_mac_f32":
        w.result("f32", _mad(w, a, b, w.destination("f32")))
        return
    k = w.source("imm", "f32")
    w.result("f32", _mad(w, *((a, b, k) if "madak" in w.name else (a, k, b))))


def _no_zero_times(w: Wave, a: str, b: str) -> str:
    """A product that is 0 where one of them is, whatever the other."""
    x, zero = w.x, w.x.const("f32", 0.0)
    either = x.either(x.compare("f32", "oeq", a, zero), x.compare("f32", "oeq", b, zero))
    return x.select("f32", either, zero, x.op("f32", "fmul", a, b))


for _name in ("v_mul_legacy_f32", "v_mul_dx9_zero_f32"):
    simple(_name, "f32", ("f32",) * 2, _no_zero_times)


def _legacy(name: str, is_fused: bool) -> None:
    """A sum with a product that is 0 where one of them is: of three sources, or to itself."""

    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        x, zero = w.x, w.x.const("f32", 0.0)
        a, b = w.source("src0", "f32"), w.source("src1", "f32")
        c = w.source("src2", "f32") if "src2" in w.item.operands else w.destination("f32")
        either = x.either(x.compare("f32", "oeq", a, zero), x.compare("f32", "oeq", b, zero))
        total = (fused("f32") if is_fused else _mad)(w, a, b, c)
        w.result("f32", x.select("f32", either, x.op("f32", "fadd", zero, c), total))


for _name in ("fma_dx9_zero", "fmac_dx9_zero", "fma_legacy", "fmac_legacy"):
    _legacy(f"v_{_name}_f32", is_fused=True)
for _name in ("mad_legacy", "mac_legacy"):
    _legacy(f"v_{_name}_f32", is_fused=False)


# -- fused products that add to their destination, or that have a constant


def _accumulating(name: str, kind: str) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        a, b = w.source("src0", kind), w.source("src1", kind)
        w.result(kind, fused(kind)(w, a, b, w.destination(kind)))


for _kind in _KINDS:
    _accumulating(f"v_fmac_{_kind}", _kind)


def _with_constant(kind: str) -> None:
    @MEANINGS.of(f"v_fmaak_{kind}", f"v_fmamk_{kind}")
    def meaning(w: Wave) -> None:
        a, b = w.source("src0", kind), w.source("src1", kind)
        k = w.source("imm", kind)
        w.result(kind, fused(kind)(w, *((a, b, k) if "fmaak" in w.name else (a, k, b))))


_with_constant("f32")
_with_constant("f16")


def _mixed_source(w: Wave, name: str, at: int) -> str:
    """A source of 32 bits, or a half of one as float of 16, as float of 32."""
    of, m = w.item.operands[name], w.item.modifiers
    if not m.get("op_sel_hi", 0) >> at & 1:
        return w.source(name, "f32")
    value = w.packed_bits(name)
    if m.get("op_sel", 0) >> at & 1:
        value = w.x.op("u32", "lshr", value, w.x.const("u32", 16))
    half = w.signed("f16", w.x.resize("u32", "u16", value), of)
    return widened(w, "f16", "f32", w.flushed("f16", w.x.cast("u16", "f16", half)))


@MEANINGS.of("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16")
def _mix(w: Wave) -> None:
    values = [_mixed_source(w, f"src{i}", i) for i in range(3)]
    value = w.x.call("f32", "fma", *values)
    if w.name.endswith("f32"):
        w.result("f32", value)
        return
    bits = w.x.cast("f16", "u16", w.finished("f16", widened(w, "f32", "f16", value)))
    w.set_half(w.item.operands["vdst"], bits, "mixhi" in w.name, clears=False)


for _name, _op in (("add_f16", "fadd"), ("mul_f16", "fmul")):
    packed(_name, 2, operation(_op, "f16"))
packed("fma_f16", 3, fused("f16"))
packed("min_f16", 2, extreme("f16", is_max=False))
packed("max_f16", 2, extreme("f16", is_max=True))
packed("minimum_f16", 2, ieee_extreme("f16", is_max=False))
packed("maximum_f16", 2, ieee_extreme("f16", is_max=True))


def _packed32(name: str, count: int, compute: Callable[..., str]) -> None:
    """Two floats of 32 bits in two registers each: op_sel chooses the register."""

    @MEANINGS.of(f"v_pk_{name}")
    def meaning(w: Wave) -> None:
        m, results = w.item.modifiers, []
        for select, negate in (("op_sel", "neg_lo"), ("op_sel_hi", "neg_hi")):
            values = []
            for i in range(count):
                of = w.item.operands[f"src{i}"]
                # A constant, or a register that is single, is the same for both.
                is_pair = of.kind in (Kind.VGPR, Kind.AGPR, Kind.SGPR, Kind.SPECIAL, Kind.TTMP)
                part = m.get(select, 0) >> i & 1 if is_pair else 0
                value = w.lanes_of(of, part)
                if m.get(negate, 0) >> i & 1:
                    value = w.x.op("u32", "xor", value, w.x.const("u32", 1 << 31))
                values.append(w.flushed("f32", w.x.cast("u32", "f32", value)))
            results.append(w.x.cast("f32", "u32", w.finished("f32", compute(w, *values))))
        for part, value in enumerate(results):
            w.set_vector(w.item.operands["vdst"], value, part)


_packed32("add_f32", 2, operation("fadd", "f32"))
_packed32("mul_f32", 2, operation("fmul", "f32"))
_packed32("fma_f32", 3, fused("f32"))


@MEANINGS.of("v_pk_mov_b32")
def _packed_move(w: Wave) -> None:
    m, values = w.item.modifiers, []
    for i, name in enumerate(("src0", "src1")):
        values.append(w.lanes_of(w.item.operands[name], m.get("op_sel", 0) >> i & 1))
    for part, value in enumerate(values):
        w.set_vector(w.item.operands["vdst"], value, part)


# -- functions that hardware approximates


def _library(name: str, before: float = 1.0) -> Callable[..., str]:
    """A function of the C library, of float64, whose argument is multiplied first."""

    def compute(w: Wave, a: str) -> str:
        if before != 1.0:
            a = w.x.op("f64", "fmul", a, w.x.const("f64", before))
        w.e.need(name, f"declare double @{name}(double)")
        scalar = f"  %r = call double @{name}(double %x0)"
        return w.x.each(f"lanes_{name}", ("f64",), "f64", scalar, a)

    return compute


def _turns(name: str) -> Callable[..., str]:
    """Sine or cosine of so many turns: exact at quarters of one, as LLVM has them."""
    sine, cosine = _library("sin", math.pi / 2), _library("cos", math.pi / 2)

    def compute(w: Wave, a: str) -> str:
        x = w.x
        quarters = x.op("f64", "fmul", x.const("f64", 4.0), a)
        whole = x.call("f64", "roundeven", quarters)
        rest = x.op("f64", "fsub", quarters, whole)
        # Which quarter of a turn it is: also of numbers that no integer holds.
        turns = x.call("f64", "floor", x.op("f64", "fmul", whole, x.const("f64", 0.25)))
        inside = x.op("f64", "fsub", whole, x.op("f64", "fmul", turns, x.const("f64", 4.0)))
        if name == "cos":
            inside = x.op("f64", "fadd", inside, x.const("f64", 1.0))

        def among(*these: float) -> str:
            flags = [x.compare("f64", "oeq", inside, x.const("f64", one)) for one in these]
            return x.either(*flags)

        found = x.select("f64", among(1.0, 3.0), cosine(w, rest), sine(w, rest))
        minus = w.e.op(f"fneg {x.type('f64')} {found}")
        is_below = among(2.0, 3.0)
        result = x.select("f64", is_below, minus, found)
        # A whole turn is 0, not -0; that of -0 is.
        zero = x.const("f64", 0.0)
        none = x.select("f64", x.compare("f64", "oeq", a, zero), a, zero)
        return x.select("f64", x.compare("f64", "oeq", result, zero), none, result)

    return compute


def _root(w: Wave, a: str) -> str:
    return w.x.call("f64", "sqrt", a)


def _reciprocal(w: Wave, a: str) -> str:
    return w.x.op("f64", "fdiv", w.x.const("f64", 1.0), a)


def _reciprocal_root(w: Wave, a: str) -> str:
    return _reciprocal(w, _root(w, a))


_FUNCTIONS: dict[str, Callable[..., str]] = {
    "exp": _library("exp2"), "log": _library("log2"), "sin": _turns("sin"), "cos": _turns("cos"),
    "sqrt": _root, "rcp": _reciprocal, "rsq": _reciprocal_root,
}  # fmt: skip
for _name, _compute in _FUNCTIONS.items():
    for _kind in _KINDS:
        if _kind != "f64" or _name in ("sqrt", "rcp", "rsq"):
            simple(f"v_{_name}_{_kind}", _kind, (_kind,), _in("f64", _kind, _compute))
simple("v_rcp_iflag_f32", "f32", ("f32",), _in("f64", "f32", _reciprocal))
for _name in ("exp", "log", "rcp", "rsq", "sqrt"):

    @MEANINGS.of(f"v_s_{_name}_f16", f"v_s_{_name}_f32")
    def _scalar_function(w: Wave) -> None:
        """gfx12 has these of scalars."""
        kind = w.name[-3:]
        compute = _in("f64", kind, _FUNCTIONS[w.name.split("_")[2]])
        value = w.finished(kind, compute(w, w.source("src0", kind)))
        bits = w.x.resize(
            kind.replace("f", "u"), "u32", w.x.cast(kind, kind.replace("f", "u"), value)
        )
        found = w.e.op(f"extractelement {w.e.lanes('i32')} {bits}, i32 0")
        w.set_scalar(w.item.operands.get("sdst") or w.item.operands["vdst"], found)


# -- parts of floats


def _exponent(w: Wave, kind: str, value: str) -> str:
    """The bits of a float's exponent, as an integer of 32 bits."""
    whole, fraction = kind.replace("f", "u"), _FRACTION[kind]
    bits = w.x.bits(w.x.cast(kind, whole, value), fraction, bits_of(kind) - 1 - fraction, whole)
    return w.x.resize(whole, "u32", bits)


def _scale(w: Wave, kind: str, value: str, count: int) -> str:
    """value * 2**count, rounded once."""
    return w.x.op(kind, "fmul", value, w.x.const(kind, 2.0**count))


def _ldexp(kind: str, count_kind: str) -> Callable[..., str]:
    def compute(w: Wave, a: str, n: str) -> str:
        count = w.x.resize(count_kind.replace("u", "i"), "i32", n)
        if kind == "f16":
            wide = widened(w, "f16", "f64", a)
            return widened(w, "f64", "f16", _ldexp("f64", "u32")(w, wide, count))
        name = "ldexpf" if kind == "f32" else "ldexp"
        one = "float" if kind == "f32" else "double"
        w.e.need(name, f"declare {one} @{name}({one}, i32)")
        scalar = f"  %r = call {one} @{name}({one} %x0, i32 %x1)"
        return w.x.each(f"lanes_{name}", (kind, "u32"), kind, scalar, a, count)

    return compute


simple("v_ldexp_f32", "f32", ("f32", "u32"), _ldexp("f32", "u32"))
simple("v_ldexp_f64", "f64", ("f64", "u32"), _ldexp("f64", "u32"))
simple("v_ldexp_f16", "f16", ("f16", "u16"), _ldexp("f16", "u16"))


def _frexp(w: Wave, kind: str, value: str) -> tuple[str, str]:
    """A float as a number from 1/2 up to 1 and an exponent; what is not finite stays, with 0."""
    x, whole = w.x, kind.replace("f", "u")
    tiny = x.compare("u32", "eq", _exponent(w, kind, value), x.const("u32", 0))
    larger = x.op(kind, "fmul", value, x.const(kind, 2.0 ** (_FRACTION[kind] + 1)))
    normal = x.select(kind, tiny, larger, value)
    exponent = _exponent(w, kind, normal)
    most = (1 << bits_of(kind) - 1 - _FRACTION[kind]) - 1
    special = x.either(
        x.compare("u32", "eq", exponent, x.const("u32", most)),
        x.compare(kind, "oeq", value, x.const(kind, 0.0)),
    )
    keep = ~(most << _FRACTION[kind]) & (1 << bits_of(kind)) - 1
    bits = x.op(whole, "and", x.cast(kind, whole, normal), x.const(whole, keep))
    half = (_BIAS[kind] - 1) << _FRACTION[kind]
    mantissa = x.cast(whole, kind, x.op(whole, "or", bits, x.const(whole, half)))
    moved = x.select("u32", tiny, x.const("u32", _FRACTION[kind] + 1), x.const("u32", 0))
    number = x.op("u32", "sub", x.op("u32", "sub", exponent, x.const("u32", _BIAS[kind] - 1)),
                  moved)  # fmt: skip
    zero = x.const("u32", 0)
    return x.select(kind, special, value, mantissa), x.select("u32", special, zero, number)


for _kind in _KINDS:
    _count = "i16" if _kind == "f16" else "i32"
    simple(f"v_frexp_mant_{_kind}", _kind, (_kind,),
           lambda w, a, kind=_kind: _frexp(w, kind, a)[0])  # fmt: skip
    simple(f"v_frexp_exp_{_count}_{_kind}", _count, (_kind,),
           lambda w, a, kind=_kind, count=_count: w.x.resize("u32", count, _frexp(w, kind, a)[1]),
           )  # fmt: skip


def _fract(kind: str) -> Callable[..., str]:
    def compute(w: Wave, a: str) -> str:
        x = w.x
        wide = "f32" if kind == "f16" else kind
        b = widened(w, kind, wide, a)
        rest = widened(w, wide, kind, x.op(wide, "fsub", b, x.call(wide, "floor", b)))
        whole = kind.replace("f", "u")
        below = ((_BIAS[kind] - 1) << _FRACTION[kind]) | (1 << _FRACTION[kind]) - 1
        most = x.cast(whole, kind, x.const(whole, below))
        return x.select(kind, x.compare(kind, "ogt", rest, most), most, rest)

    return compute


for _kind in _KINDS:
    simple(f"v_fract_{_kind}", _kind, (_kind,), _fract(_kind))


def _class(kind: str) -> None:
    """Whether a float is of one of the ten classes that the second source's bits name."""

    @MEANINGS.of(f"v_cmp_class_{kind}", f"v_cmpx_class_{kind}")
    def meaning(w: Wave) -> None:
        x, whole, fraction = w.x, kind.replace("f", "u"), _FRACTION[kind]
        of = w.item.operands["src0"]
        value = w.signed(kind, w.raw("src0", kind), of)
        asked = w.raw("src1", "u32")
        exponents = (1 << bits_of(kind) - 1 - fraction) - 1
        exponent = x.bits(value, fraction, bits_of(kind) - 1 - fraction, whole)
        rest = x.bits(value, 0, fraction, whole)
        negative = x.compare(whole, "slt", value, x.const(whole, 0))
        const = lambda n: x.const("u32", n)
        is_zero = x.compare(whole, "eq", rest, x.const(whole, 0))
        by_sign = lambda low, high: x.select("u32", negative, const(low), const(high))
        quiet = x.compare(whole, "ne", x.bits(value, fraction - 1, 1, whole), x.const(whole, 0))
        special = x.select(
            "u32", is_zero, by_sign(2, 9), x.select("u32", quiet, const(1), const(0))
        )
        tiny = x.select("u32", is_zero, by_sign(5, 6), by_sign(4, 7))
        number = by_sign(3, 8)
        low = x.compare(whole, "eq", exponent, x.const(whole, 0))
        high = x.compare(whole, "eq", exponent, x.const(whole, exponents))
        found = x.select("u32", high, special, x.select("u32", low, tiny, number))
        bit = x.op("u32", "and", x.op("u32", "lshr", asked, found), const(1))
        set_flags(w, x.truth("u32", bit))


for _kind in _KINDS:
    _class(_kind)


# -- division: its quotient is corrected by steps that these prepare and finish

_SCALES = {"f32": (96, 64, 23), "f64": (768, 128, 53)}


def _div_scale(kind: str) -> None:
    @MEANINGS.of(f"v_div_scale_{kind}")
    def meaning(w: Wave) -> None:
        x = w.x
        far, step, small = _SCALES[kind]
        a, d, n = (w.source(f"src{i}", kind) for i in range(3))
        zero = x.const(kind, 0.0)
        ed, en = _exponent(w, kind, d), _exponent(w, kind, n)
        flag = lambda value: x.const("u32", value)
        is_tiny = lambda v: x.both(
            x.compare("u32", "eq", _exponent(w, kind, v), flag(0)),
            x.compare(kind, "one", v, zero),
        )
        apart = x.compare("i32", "sge", x.op("u32", "sub", en, ed), flag(far))
        # A quotient that even rounds to 0 is scaled, too: the last step rounds it, and only once.
        least = x.const(kind, 2.0 ** (1 - _BIAS[kind]))
        size = x.call(kind, "fabs", x.op(kind, "fdiv", n, d))
        quotient = x.compare(kind, "olt", size, least)
        reciprocal = is_tiny(x.op(kind, "fdiv", x.const(kind, 1.0), d))
        bad = x.either(x.compare(kind, "oeq", n, zero), x.compare(kind, "oeq", d, zero))
        up, down = _scale(w, kind, a, step), _scale(w, kind, a, -step)
        whole = kind.replace("f", "u")
        same = lambda b: x.compare(whole, "eq", x.cast(kind, whole, a), x.cast(kind, whole, b))
        # From the last case to the first, which wins.
        value = x.select(kind, x.compare("u32", "ule", en, flag(small)), up, a)
        value = x.select(kind, quotient, x.select(kind, same(n), up, a), value)
        out = quotient
        value = x.select(kind, reciprocal, down, value)
        out = x.both(out, x.no(reciprocal))
        both = x.both(reciprocal, quotient)
        value = x.select(kind, both, x.select(kind, same(d), down, a), value)
        out = x.either(out, both)
        tiny = is_tiny(d)
        value = x.select(kind, tiny, up, value)
        out = x.both(out, x.no(tiny))
        value = x.select(kind, apart, x.select(kind, same(d), up, a), value)
        out = x.either(out, apart)
        value = x.select(kind, bad, x.const(kind, math.nan), value)
        out = x.both(out, x.no(bad))
        w.set_mask(w.item.operands.get("sdst", VCC), out)
        w.result(kind, value)


def _div_fmas(kind: str) -> None:
    @MEANINGS.of(f"v_div_fmas_{kind}")
    def meaning(w: Wave) -> None:
        a, b, c = (w.source(f"src{i}", kind) for i in range(3))
        step = _SCALES[kind][1]
        value = w.x.call(kind, "fma", a, b, c)
        # What was scaled tells which way: a quotient that is large was made smaller.
        large = w.x.compare("u32", "ugt", _exponent(w, kind, c), w.x.const("u32", _BIAS[kind]))
        small = _smaller(w, kind, (a, b, c), value, step)
        moved = w.x.select(kind, large, _scale(w, kind, value, step), small)
        w.result(kind, w.x.select(kind, w.mask_lanes(VCC), moved, value))


def _smaller(w: Wave, kind: str, of: tuple[str, str, str], value: str, step: int) -> str:
    """(a * b + c) * 2**-step, rounded once, where c is nearly the sum, as in a division.

    `value` is the sum, rounded. Rounding it again, to a subnormal number, is wrong only where it
    lies in the middle of two of them and the sum itself does not.
    """
    x = w.x
    a, b, c = of
    # The difference is exact, and so is the sign of what the sum was rounded by.
    rounding = x.call(kind, "fma", a, b, x.op(kind, "fsub", c, value))
    found = _scale(w, kind, value, -step)
    distance = x.op(kind, "fsub", value, _scale(w, kind, found, step))
    half = 2.0 ** (step - _BIAS[kind] - _FRACTION[kind])
    middle = x.compare(kind, "oeq", x.call(kind, "fabs", distance), x.const(kind, half))
    zero, least = x.const(kind, 0.0), 2.0 ** (1 - _BIAS[kind] - _FRACTION[kind])
    for how, step_away in (("ogt", least), ("olt", -least)):
        further = x.both(*(x.compare(kind, how, v, zero) for v in (distance, rounding)))
        away = x.op(kind, "fadd", found, x.const(kind, step_away))
        found = x.select(kind, x.both(middle, further), away, found)
    return found


def _div_fixup(kind: str) -> None:
    @MEANINGS.of(f"v_div_fixup_{kind}")
    def meaning(w: Wave) -> None:
        x, whole = w.x, kind.replace("f", "u")
        q, d, n = (w.source(f"src{i}", kind) for i in range(3))
        bits = [x.cast(kind, whole, v) for v in (q, d, n)]
        top = x.const(whole, 1 << bits_of(kind) - 1)
        sign = x.op(whole, "and", x.op(whole, "xor", bits[1], bits[2]), top)
        most = x.const(whole, (1 << bits_of(kind) - 1) - 1)
        size = [x.cast(whole, kind, x.op(whole, "and", b, most)) for b in bits]
        signed = lambda v: x.cast(whole, kind, x.op(whole, "or", x.cast(kind, whole, v), sign))
        inf, zero = x.const(kind, math.inf), x.const(kind, 0.0)
        is_zero = [x.compare(kind, "oeq", v, zero) for v in size]
        is_inf = [x.compare(kind, "oeq", v, inf) for v in size]
        # Of numbers, only steps that overflow make a quotient that is none.
        none = x.compare(kind, "uno", size[0], size[0])
        value = signed(x.select(kind, none, inf, size[0]))
        if kind != "f16":
            least = {"f32": -150, "f64": -1075}[kind]
            apart = x.op("u32", "sub", _exponent(w, kind, n), _exponent(w, kind, d))
            under = x.compare("i32", "slt", apart, x.const("u32", least))
            value = x.select(kind, under, signed(zero), value)
        value = x.select(kind, x.either(is_inf[1], is_zero[2]), signed(zero), value)
        value = x.select(kind, x.either(is_zero[1], is_inf[2]), signed(inf), value)
        wrong = x.either(x.both(is_inf[1], is_inf[2]), x.both(is_zero[1], is_zero[2]))
        value = x.select(kind, wrong, x.const(kind, -math.nan), value)
        for v in (d, n):
            value = x.select(kind, x.compare(kind, "uno", v, v), x.op(kind, "fadd", v, v)
                             if kind != "f16" else v, value)  # fmt: skip
        w.result(kind, value)


for _kind in ("f32", "f64"):
    _div_scale(_kind)
    _div_fmas(_kind)
for _kind in _KINDS:
    _div_fixup(_kind)

# -- conversions


def to_integer(kind: str, integer: str) -> Callable[..., str]:
    """Towards 0; what is too large becomes the nearest, and what is no number 0."""

    def compute(w: Wave, a: str) -> str:
        shape, target = w.x.type(kind), w.x.type(integer)
        name = "fptosi" if integer[0] == "i" else "fptoui"
        lanes = "" if w.x.is_scalar else f"v{w.width}"
        suffix = f"{lanes}i{bits_of(integer)}.{lanes}{kind}"
        return w.e.intrinsic(f"llvm.{name}.sat.{suffix}", target, f"{shape} {a}")

    return compute


def from_integer(integer: str, kind: str) -> Callable[..., str]:
    opcode = "sitofp" if integer[0] == "i" else "uitofp"
    return lambda w, a: w.x.convert(opcode, integer, kind, a)


for _kind in ("f32", "f64"):
    for _integer in ("i32", "u32"):
        simple(f"v_cvt_{_integer}_{_kind}", _integer, (_kind,), to_integer(_kind, _integer))
        simple(f"v_cvt_{_kind}_{_integer}", _kind, (_integer,), from_integer(_integer, _kind))
for _integer in ("i16", "u16"):

    def _from16(w: Wave, a: str, integer: str = _integer) -> str:
        return widened(w, "f32", "f16", from_integer(integer, "f32")(w, a))

    def _to16(w: Wave, a: str, integer: str = _integer) -> str:
        return to_integer("f32", integer)(w, widened(w, "f16", "f32", a))

    simple(f"v_cvt_f16_{_integer}", "f16", (_integer,), _from16)
    simple(f"v_cvt_{_integer}_f16", _integer, ("f16",), _to16)
for _old, _new in (("f32", "f16"), ("f16", "f32"), ("f32", "f64"), ("f64", "f32")):
    simple(f"v_cvt_{_new}_{_old}", _new, (_old,),
           lambda w, a, old=_old, new=_new: widened(w, old, new, a))  # fmt: skip
for _at in range(4):

    def _from_byte(w: Wave, a: str, at: int = _at) -> str:
        return from_integer("u32", "f32")(w, w.x.bits(a, 8 * at, 8))

    simple(f"v_cvt_f32_ubyte{_at}", "f32", ("u32",), _from_byte)


def _floor_to(w: Wave, a: str) -> str:
    return to_integer("f32", "i32")(w, w.x.call("f32", "floor", a))


def _nearest_to(w: Wave, a: str) -> str:
    half = w.x.op("f32", "fadd", a, w.x.const("f32", 0.5))
    return _floor_to(w, half)


for _letter in "iu":
    simple(f"v_cvt_{_letter}32_{_letter}16", f"{_letter}32", (f"{_letter}16",),
           lambda w, a, kind=_letter: w.x.resize(f"{kind}16", f"{kind}32", a))  # fmt: skip
for _name in ("v_cvt_flr_i32_f32", "v_cvt_floor_i32_f32"):
    simple(_name, "i32", ("f32",), _floor_to)
for _name in ("v_cvt_rpi_i32_f32", "v_cvt_nearest_i32_f32"):
    simple(_name, "i32", ("f32",), _nearest_to)


@MEANINGS.of("v_cvt_pkrtz_f16_f32", "v_cvt_pk_rtz_f16_f32")
def _pack_towards_zero(w: Wave) -> None:
    """Two floats to 16 bits, towards 0."""
    halves = [towards_zero(w, w.source(name, "f32")) for name in ("src0", "src1")]
    w.set_bits(32, join(w, *halves))


@functools.cache
def _two_over_pi(bits: int) -> int:
    """The leading bits of 2 / pi, by Machin's formula: pi = 16 atan(1/5) - 4 atan(1/239)."""
    one = 1 << bits + 64

    def arctangent(of: int) -> int:
        total, power, n = 0, one // of, 1
        while power:
            total += (power if n % 4 == 1 else -power) // n
            power, n = power // (of * of), n + 2
        return total

    pi = 16 * arctangent(5) - 4 * arctangent(239)
    return (2 * one << bits) // pi


_KNOWN_BITS, _WORDS = 1201, 38  # of 2 / pi
_LATE, _SCALED = 1077, 1968  # exponents from which on bits are left out, and results are larger


@MEANINGS.of("v_trig_preop_f64")
def _part_of_two_over_pi(w: Wave) -> None:
    """53 bits of 2 / pi, which sines of large numbers are reduced with."""
    known = _two_over_pi(_KNOWN_BITS) << 32 * _WORDS - _KNOWN_BITS
    words = [known >> 32 * n & 0xFFFFFFFF for n in reversed(range(_WORDS))] + [0] * 3
    table = ", ".join(f"i32 {word}" for word in words)
    kind = f"[{len(words)} x i32]"
    w.e.need("amd_two_over_pi", f"@amd_two_over_pi = private constant {kind} [{table}]\n")
    for name, types in (("fshl.i64", "i64, i64, i64"), ("umin.i32", "i32, i32")):
        w.e.need(f"llvm.{name}", f"declare {types[:3]} @llvm.{name}({types})")
    w.e.need("llvm.ldexp.f64.i32", "declare double @llvm.ldexp.f64.i32(double, i32)")
    text = f"""  %bits = bitcast double %x0 to i64
  %top = lshr i64 %bits, 52
  %short = trunc i64 %top to i32
  %exponent = and i32 %short, 2047
  %segment = and i32 %x1, 31
  %whole = mul i32 %segment, 53
  %is_late = icmp ugt i32 %exponent, {_LATE}
  %beyond = sub i32 %exponent, {_LATE}
  %skipped = select i1 %is_late, i32 %beyond, i32 0
  %shift = add i32 %whole, %skipped
  %number = lshr i32 %shift, 5
  %at = call i32 @llvm.umin.i32(i32 %number, i32 {_WORDS})
  %p = getelementptr i32, ptr @amd_two_over_pi, i32 %at
  %q = getelementptr i32, ptr %p, i32 1
  %o = getelementptr i32, ptr %p, i32 2
  %first = load i32, ptr %p
  %second = load i32, ptr %q
  %third = load i32, ptr %o
  %a = zext i32 %first to i64
  %b = zext i32 %second to i64
  %c = zext i32 %third to i64
  %ah = shl i64 %a, 32
  %high = or i64 %ah, %b
  %low = shl i64 %c, 32
  %rest = and i32 %shift, 31
  %by = zext i32 %rest to i64
  %moved = call i64 @llvm.fshl.i64(i64 %high, i64 %low, i64 %by)
  %taken = lshr i64 %moved, 11
  %value = uitofp i64 %taken to double
  %below = sub i32 -53, %shift
  %is_large = icmp uge i32 %exponent, {_SCALED}
  %larger = select i1 %is_large, i32 128, i32 0
  %scale = add i32 %below, %larger
  %part = call double @llvm.ldexp.f64.i32(double %value, i32 %scale)
  %none = fcmp uno double %x0, %x0
  %quiet = fadd double %x0, %x0
  %r = select i1 %none, double %quiet, double %part"""
    a, b = w.source("src0", "f64"), w.source("src1", "u32")
    w.result("f64", w.x.each("amd_trig_preop", ("f64", "u32"), "f64", text, a, b))


def towards_zero(w: Wave, a: str) -> str:
    """A float of 32 bits as 16, towards 0: the nearest, or the one before it."""
    x = w.x
    near = widened(w, "f32", "f16", a)
    back = widened(w, "f16", "f32", near)
    sizes = [x.call("f32", "fabs", v) for v in (back, a)]
    over = x.compare("f32", "ogt", *sizes)
    bits = x.cast("f16", "u16", near)
    less = x.op("u16", "sub", bits, x.const("u16", 1))
    infinite = x.compare("f32", "oeq", sizes[1], x.const("f32", math.inf))
    return x.select("u16", x.both(over, x.no(infinite)), less, bits)
