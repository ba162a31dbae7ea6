"""The two floats of 8 bits, e4m3 (no infinity, one NaN) and e5m2, from and to float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from treadle.emulate.ptx.emit import lanes, splat

if TYPE_CHECKING:
    from treadle.emulate.ptx.emit import Emitter

__all__ = ["EIGHT_BITS", "from_byte", "from_eight_bits", "to_eight_bits"]


class _Format(NamedTuple):
    """Bits of the fraction, exponent's bias, largest finite number, and NaN."""

    fraction: int
    bias: int
    largest: int
    nan: int


EIGHT_BITS = {"e4m3": _Format(3, 7, 0x7E, 0x7F), "e5m2": _Format(2, 15, 0x7B, 0x7F)}


def from_eight_bits(e: Emitter, pair: str, i: int, kind: str) -> str:
    """One of two bytes in 16 bits as float32 lanes."""
    moved = e.op(f"lshr {lanes(16)} {pair}, {splat(16, 8)}") if i else pair
    wide = e.op(f"zext {lanes(16)} {moved} to {lanes(32)}")
    return from_byte(e, e.op(f"and {lanes(32)} {wide}, {splat(32, 255)}"), kind)


def from_byte(e: Emitter, byte: str, kind: str) -> str:
    """A byte in 32 bits as float32 lanes."""
    shape, form = lanes(32), EIGHT_BITS[kind]
    size = e.op(f"and {shape} {byte}, {splat(32, 0x7F)}")
    # The bits where float32 has them, with an exponent that is too small by the biases' difference.
    moved = e.as_float(e.op(f"shl {shape} {size}, {splat(32, 23 - form.fraction)}"), "f32")
    scale = e.as_float(splat(32, (127 + 127 - form.bias) << 23), "f32")
    number = e.as_bits(e.op(f"fmul <32 x float> {moved}, {scale}"), "f32")
    if kind == "e4m3":
        wrong = e.op(f"icmp eq {shape} {size}, {splat(32, form.nan)}")
        special = splat(32, 0x7FFFFFFF)
    else:
        wrong = e.op(f"icmp uge {shape} {size}, {splat(32, 0x7C)}")
        fraction = e.op(f"shl {shape} {size}, {splat(32, 21)}")
        special = e.op(f"or {shape} {fraction}, {splat(32, 0x7F800000)}")
    number = e.op(f"select {lanes(1)} {wrong}, {shape} {special}, {shape} {number}")
    sign = e.op(f"shl {shape} {e.op(f'and {shape} {byte}, {splat(32, 0x80)}')}, {splat(32, 24)}")
    return e.as_float(e.op(f"or {shape} {number}, {sign}"), "f32")


def to_eight_bits(e: Emitter, numbers: list[str], kind: str, relu: bool) -> str:
    """Two float32 lanes as 16 bits, to nearest even, no further than the largest number."""
    low, high = (_to_byte(e, number, kind, relu) for number in numbers)
    both = e.op(f"or {lanes(32)} {e.op(f'shl {lanes(32)} {high}, {splat(32, 8)}')}, {low}")
    return e.op(f"trunc {lanes(32)} {both} to {lanes(16)}")


def _to_byte(e: Emitter, number: str, kind: str, relu: bool) -> str:
    shape, form = lanes(32), EIGHT_BITS[kind]
    bits = e.as_bits(number, "f32")
    size = e.op(f"and {shape} {bits}, {splat(32, 0x7FFFFFFF)}")
    sign = e.op(
        f"lshr {shape} {e.op(f'and {shape} {bits}, {splat(32, 1 << 31)}')}, {splat(32, 24)}"
    )
    # Normal numbers: rounding to nearest even in place, then the other bias.
    cut = 23 - form.fraction
    odd = e.op(f"and {shape} {e.op(f'lshr {shape} {size}, {splat(32, cut)}')}, {splat(32, 1)}")
    more = e.op(f"add {shape} {odd}, {splat(32, (1 << (cut - 1)) - 1)}")
    near = e.op(f"lshr {shape} {e.op(f'add {shape} {size}, {more}')}, {splat(32, cut)}")
    normal = e.op(f"sub {shape} {near}, {splat(32, (127 - form.bias) << form.fraction)}")
    # Subnormal ones: adding a power of two whose last bit is theirs makes the processor round.
    magic = splat(32, (127 + 23 + 1 - form.bias - form.fraction) << 23)
    total = e.op(f"fadd <32 x float> {e.as_float(size, 'f32')}, {e.as_float(magic, 'f32')}")
    small = e.op(f"sub {shape} {e.as_bits(total, 'f32')}, {magic}")
    least = splat(32, (127 + 1 - form.bias) << 23)
    is_small = e.op(f"icmp ult {shape} {size}, {least}")
    value = e.op(f"select {lanes(1)} {is_small}, {shape} {small}, {shape} {normal}")
    value = e.intrinsic(
        "llvm.umin.v32i32", shape, f"{shape} {value}", f"{shape} {splat(32, form.largest)}"
    )
    wrong = e.op(f"icmp ugt {shape} {size}, {splat(32, 0x7F800000)}")
    if relu:
        negative = e.op(f"icmp ne {shape} {sign}, zeroinitializer")
        value = e.op(f"select {lanes(1)} {negative}, {shape} zeroinitializer, {shape} {value}")
        sign = "zeroinitializer"
    value = e.op(f"or {shape} {value}, {sign}")
    return e.op(f"select {lanes(1)} {wrong}, {shape} {splat(32, form.nan)}, {shape} {value}")
