"""cvt: between all types, in every rounding, and with every saturation.

Integers from floats are clamped to their range, as PTX says; a NaN becomes 0, or the least number
where one of the types has 64 bits. Small floats are rounded once: what must pass through float32
on its way is rounded to odd there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx.eight_bits import EIGHT_BITS, from_eight_bits, to_eight_bits
from treadle.emulate.ptx.emit import FLOATS, Handlers, float_lanes, lanes, splat
from treadle.emulate.ptx.floating import (
    NAN,
    ROUNDINGS,
    clamp,
    directed,
    flush,
    half_of_pair,
    join_pair,
    narrow,
    to_double,
    to_odd,
    widen,
)
from treadle.emulate.ptx.floating import (
    relu as clip_relu,
)
from treadle.emulate.ptx.syntax import WIDTHS

if TYPE_CHECKING:
    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = ["HANDLERS"]

HANDLERS = Handlers()
_TYPES = (
    *(f"{kind}{bits}" for kind in "us" for bits in (8, 16, 32, 64)), "f16", "bf16", "f32", "f64",
    "f16x2", "bf16x2", "tf32", *(f"{kind}x2" for kind in EIGHT_BITS),
)  # fmt: skip
_TO_INTEGER = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@HANDLERS.of("cvt")
def _convert(e: Emitter, item: Instruction, m: Modifiers) -> None:
    source, target = m.type(_TYPES), m.type(_TYPES)
    if target.endswith("x2") or source.endswith("x2"):
        _convert_pair(e, item, m, target, source)
        return
    value = e.read(item.operands[1], WIDTHS[source])
    if target == "tf32":
        e.write(item.operands[0], _to_tf32(e, m, value), 32)
        return
    if {"bf16"} < {source, target} and 8 in (WIDTHS[source], WIDTHS[target]):
        raise m.fail()  # PTX has it for wider integers only
    is_float = source in FLOATS, target in FLOATS
    convert = {
        (False, False): _integer_to_integer, (False, True): _integer_to_float,
        (True, False): _float_to_integer, (True, True): _float_to_float,
    }[is_float]  # fmt: skip
    result = convert(e, m, value, source, target)
    e.write(item.operands[0], result, WIDTHS[target], target[0] == "s")


# -- integers


def _integer_to_integer(e: Emitter, m: Modifiers, value: str, source: str, target: str) -> str:
    bits, wide = WIDTHS[source], WIDTHS[target]
    if m.flag("sat"):
        return _saturate(e, value, source, target)
    if wide == bits:
        return value
    if wide < bits:
        return e.op(f"trunc {lanes(bits)} {value} to {lanes(wide)}")
    return e.op(f"{'sext' if source[0] == 's' else 'zext'} {lanes(bits)} {value} to {lanes(wide)}")


def _range(kind: str) -> tuple[int, int]:
    bits = WIDTHS[kind]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def _saturate(e: Emitter, value: str, source: str, target: str) -> str:
    """Clamps to the target's range, in 128 bits less work: only limits inside the source's."""
    bits, (low, high), (least, most) = WIDTHS[source], _range(target), _range(source)
    shape, sign = lanes(bits), source[0]
    for name, limit in (("max", max(low, least)), ("min", min(high, most))):
        value = e.intrinsic(
            f"llvm.{sign}{name}.v32i{bits}", shape, f"{shape} {value}",
            f"{shape} {splat(bits, limit)}",
        )  # fmt: skip
    wide = WIDTHS[target]
    if wide == bits:
        return value
    how = "trunc" if wide < bits else "sext" if sign == "s" else "zext"
    return e.op(f"{how} {shape} {value} to {lanes(wide)}")


def _integer_to_float(e: Emitter, m: Modifiers, value: str, source: str, target: str) -> str:
    rounding = m.one_of(ROUNDINGS)
    saturates = m.flag("sat")
    bits, name = WIDTHS[source], f"{source[0]}itofp"
    kind = target if target in ("f32", "f64") else "f64"
    shape, result = lanes(bits), float_lanes(kind)
    if kind != target and bits == 64:
        number = _odd_double(e, value, name)
    elif rounding in ("rn", "") or kind != target:
        number = e.op(f"{name} {shape} {value} to {result}")
    else:
        function = directed(e, name, rounding, shape, result, 1, f"v32{kind}.v32i{bits}")
        number = e.op(f"call {result} {function}({shape} {value})")
    if kind == target:
        found = e.as_bits(number, kind)
    else:
        found = _small(e, m, number, target, rounding or "rn")
    return clamp(e, found, target) if saturates else found


def _odd_double(e: Emitter, value: str, name: str) -> str:
    """Integers of 64 bits as float64 lanes, rounded to odd: what rounds them again sees a tail."""
    shape, result = lanes(64), float_lanes("f64")
    function = directed(e, name, "rz", shape, result, 1, "v32f64.v32i64")
    cut = e.op(f"call {result} {function}({shape} {value})")
    back = e.op(f"{'fptosi' if name == 'sitofp' else 'fptoui'} {result} {cut} to {shape}")
    tail = e.op(f"zext {lanes(1)} {e.op(f'icmp ne {shape} {back}, {value}')} to {shape}")
    return e.as_float(e.op(f"or {shape} {e.as_bits(cut, 'f64')}, {tail}"), "f64")


def _small(e: Emitter, m: Modifiers, double: str, target: str, rounding: str) -> str:
    """float64 lanes as bits of a half or bfloat16, rounded once."""
    odd = to_odd(e, double)
    return (
        narrow(e, odd, target) if rounding == "rn" else _directed_small(e, m, odd, target, rounding)
    )


def _directed_small(e: Emitter, m: Modifiers, number: str, target: str, rounding: str) -> str:
    """float32 lanes as bits of a half or bfloat16: to nearest, then a step where that is wrong."""
    near = narrow(e, number, target)
    back, _ = widen(e, near, target)
    shape, bits = float_lanes("f32"), WIDTHS[target]
    above = e.op(f"fcmp ogt {shape} {back}, {number}")
    below = e.op(f"fcmp olt {shape} {back}, {number}")
    negative = e.op(f"fcmp olt {shape} {number}, zeroinitializer")
    positive = e.op(f"xor {lanes(1)} {negative}, {splat(1, 1)}")
    if rounding == "rz":
        too_big = e.op(f"and {lanes(1)} {above}, {positive}")
        too_small = e.op(f"and {lanes(1)} {below}, {negative}")
        inwards, outwards = e.op(f"or {lanes(1)} {too_big}, {too_small}"), None
    else:
        wrong = above if rounding == "rm" else below
        toward = positive if rounding == "rm" else negative
        away = negative if rounding == "rm" else positive
        inwards = e.op(f"and {lanes(1)} {wrong}, {toward}")
        outwards = e.op(f"and {lanes(1)} {wrong}, {away}")
    step = e.op(f"zext {lanes(1)} {inwards} to {lanes(bits)}")
    value = e.op(f"sub {lanes(bits)} {near}, {step}")
    if outwards:
        value = e.op(
            f"add {lanes(bits)} {value}, {e.op(f'zext {lanes(1)} {outwards} to {lanes(bits)}')}"
        )
    return value


# -- floats


def _float_to_integer(e: Emitter, m: Modifiers, value: str, source: str, target: str) -> str:
    how = m.one_of(_TO_INTEGER)
    if not how:
        raise m.fail("needs .rni, .rzi, .rmi or .rpi")
    m.flag("sat")  # it always is
    if m.flag("ftz"):
        value = flush(e, value, source)
    number, kind = widen(e, value, source)
    shape, bits = float_lanes(kind), WIDTHS[target]
    whole = e.intrinsic(f"llvm.{_TO_INTEGER[how]}.v32{kind}", shape, f"{shape} {number}")
    sign = "s" if target[0] == "s" else "u"
    name = f"llvm.fpto{sign}i.sat.v32i{bits}.v32{kind}"
    found = e.intrinsic(name, lanes(bits), f"{shape} {whole}")
    if source == "f64" or bits == 64:
        wrong = e.op(f"fcmp uno {shape} {number}, {number}")
        found = e.op(f"select {lanes(1)} {wrong}, {lanes(bits)} {splat(bits, 1 << (bits - 1))}, "
                     f"{lanes(bits)} {found}")  # fmt: skip
    return found


def _float_to_float(e: Emitter, m: Modifiers, value: str, source: str, target: str) -> str:
    to_whole = m.one_of(_TO_INTEGER)
    rounding = m.one_of(ROUNDINGS) or "rn"
    ftz, saturates, relu = m.flag("ftz"), m.flag("sat"), m.flag("relu")
    finite = m.flag("satfinite")
    value = flush(e, value, source) if ftz and source == "f32" else value
    number, kind = widen(e, value, source)
    if to_whole:
        shape = float_lanes(kind)
        number = e.intrinsic(f"llvm.{_TO_INTEGER[to_whole]}.v32{kind}", shape, f"{shape} {number}")
        found = narrow(e, number, source) if source == target else None
        if found is None:
            raise m.fail()
    elif source == target:
        found = value
    else:
        found = _resize(e, m, number, kind, target, rounding)
    found = flush(e, found, target) if ftz and target == "f32" else found
    found = clip_relu(e, found, target) if relu else found
    found = _finite(e, found, target) if finite else found
    return clamp(e, found, target) if saturates else found


def _resize(e: Emitter, m: Modifiers, number: str, kind: str, target: str, rounding: str) -> str:
    """float32 or float64 lanes as bits of another type."""
    if target == "f64":
        return e.as_bits(to_double(e, number) if kind == "f32" else number, "f64")
    if target == "f32":
        if kind == "f32":
            return e.as_bits(number, "f32")
        if rounding != "rn":
            function = directed(
                e, "fptrunc", rounding, float_lanes("f64"), float_lanes("f32"), 1, "v32f32.v32f64"
            )
            call = f"call {float_lanes('f32')} {function}({float_lanes('f64')} {number})"
            return e.as_bits(e.op(call), "f32")
        narrower = e.op(f"fptrunc {float_lanes('f64')} {number} to {float_lanes('f32')}")
        return e.as_bits(narrower, "f32")
    if kind == "f64":
        return _small(e, m, number, target, rounding)
    if rounding == "rn":
        return narrow(e, number, target)
    return _directed_small(e, m, number, target, rounding)


_LARGEST = {"f16": 0x7BFF, "bf16": 0x7F7F}


def _finite(e: Emitter, value: str, kind: str) -> str:
    """.satfinite: infinities become the largest numbers of their sign."""
    if kind not in _LARGEST:
        return value
    shape, bits = lanes(16), 16
    size = e.op(f"and {shape} {value}, {splat(bits, 0x7FFF)}")
    infinite = e.op(f"icmp eq {shape} {size}, {splat(bits, _LARGEST[kind] + 1)}")
    sign = e.op(f"and {shape} {value}, {splat(bits, 0x8000)}")
    most = e.op(f"or {shape} {sign}, {splat(bits, _LARGEST[kind])}")
    return e.op(f"select {lanes(1)} {infinite}, {shape} {most}, {shape} {value}")


def _to_tf32(e: Emitter, m: Modifiers, value: str) -> str:
    """10 bits behind the point; the bits that tf32 does not have are 0."""
    rounding = m.one_of(("rna", "rn", "rz"))
    relu = m.flag("relu")
    m.flag("satfinite")
    shape, given = lanes(32), value
    if rounding == "rna":
        value = e.op(f"add {shape} {value}, {splat(32, 0x1000)}")
    elif rounding == "rn":
        odd = e.op(f"and {shape} {e.op(f'lshr {shape} {value}, {splat(32, 13)}')}, {splat(32, 1)}")
        value = e.op(f"add {shape} {value}, {e.op(f'add {shape} {odd}, {splat(32, 0xFFF)}')}")
    elif not rounding:
        raise m.fail("needs a rounding")
    value = e.op(f"and {shape} {value}, {splat(32, ~0x1FFF)}")
    single = float_lanes("f32")
    number = e.op(f"bitcast {shape} {given} to {single}")
    is_nan = e.op(f"fcmp uno {single} {number}, {number}")
    nan = splat(32, NAN["f32"] & ~0x1FFF)
    value = e.op(f"select {lanes(1)} {is_nan}, {shape} {nan}, {shape} {value}")
    return clip_relu(e, value, "f32") if relu else value


# -- pairs


def _convert_pair(e: Emitter, item: Instruction, m: Modifiers, target: str, source: str) -> None:
    result, *sources = item.operands
    rounding = m.one_of(ROUNDINGS) or "rn"
    relu, finite = m.flag("relu"), m.flag("satfinite")
    if source == "f32" and len(sources) == 2:
        # The first operand becomes the upper half.
        numbers = [e.as_float(e.read(operand, 32), "f32") for operand in reversed(sources)]
    elif source.removesuffix("x2") in EIGHT_BITS:
        value = e.read(sources[0], 16)
        numbers = [from_eight_bits(e, value, i, source[:-2]) for i in range(2)]
    elif source in ("f16x2", "bf16x2"):
        value = e.read(sources[0], 32)
        numbers = [widen(e, half_of_pair(e, value, i), source[:-2])[0] for i in range(2)]
    else:
        raise m.fail()
    kind = target.removesuffix("x2")
    if kind in EIGHT_BITS:
        if not finite:
            raise m.fail("needs .satfinite")
        e.write(result, to_eight_bits(e, numbers, kind, relu), 16)
        return
    if kind not in ("f16", "bf16"):
        raise m.fail()
    halves = []
    for number in numbers:
        half = _resize(e, m, number, "f32", kind, rounding)
        half = clip_relu(e, half, kind) if relu else half
        halves.append(_finite(e, half, kind) if finite else half)
    e.write(result, join_pair(e, *halves), 32)
