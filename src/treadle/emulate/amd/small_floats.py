"""Floats of eight bits: what each byte means, and the byte that is nearest to a number.

    E4M3.value(0x38)  ->  1.0

gfx942 has formats of its own, of which the bias is one more and 0x80 is the only NaN: there are no
infinities and there is no zero with a sign. gfx950 and gfx12 have those of the Open Compute
Project: E5M2 is like the floats of IEEE 754, E4M3 has no infinities, and a NaN of each sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.simt.values import float_bits

if TYPE_CHECKING:
    from treadle.emulate.amd.chips import Chip
    from treadle.emulate.amd.wave import Wave
    from treadle.emulate.simt.emit import Emitter

__all__ = ["SmallFloat", "decoded", "small_float", "table_of", "table_of_e2m1"]

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # Open Compute Project's; the fourth bit is a sign


@dataclass(frozen=True)
class SmallFloat:
    """A format: bits of the fraction, the exponent's bias, and the bytes of the special numbers.

    `most` is the byte of the largest number. What is larger becomes `beyond`, and no number `nan`.
    """

    name: str
    fraction: int
    bias: int
    most: int
    beyond: int
    nan: int
    has_signed_specials: bool

    def value(self, byte: int) -> float:
        """The number that a byte means."""
        sign, code = -1.0 if byte & 0x80 else 1.0, byte & 0x7F
        if not self.has_signed_specials and byte == self.nan:
            return math.nan
        if code > self.most:
            is_infinite = code == self.beyond != self.nan
            return math.copysign(math.inf, sign) if is_infinite else math.nan
        exponent, rest = code >> self.fraction, code & (1 << self.fraction) - 1
        whole = rest + (1 << self.fraction if exponent else 0)
        return sign * math.ldexp(whole, max(exponent, 1) - self.bias - self.fraction)


_OF_GFX942 = {
    "fp8": SmallFloat("e4m3fnuz", 3, 8, 0x7F, 0x80, 0x80, has_signed_specials=False),
    "bf8": SmallFloat("e5m2fnuz", 2, 16, 0x7F, 0x80, 0x80, has_signed_specials=False),
}
_OF_OTHERS = {
    "fp8": SmallFloat("e4m3fn", 3, 7, 0x7E, 0x7F, 0x7F, has_signed_specials=True),
    "bf8": SmallFloat("e5m2", 2, 15, 0x7B, 0x7C, 0x7F, has_signed_specials=True),
}


def small_float(chip: Chip, kind: str) -> SmallFloat:
    """What a chip's instructions call `fp8` or `bf8`."""
    return (_OF_GFX942 if chip.name == "gfx942" else _OF_OTHERS)[kind]


def table_of(e: Emitter, of: SmallFloat) -> str:
    """A table of what all bytes mean, as floats."""
    name = f"amd_{of.name}"
    numbers = (float_bits(of.value(byte), 64) for byte in range(256))
    values = ", ".join(f"float 0x{number:016X}" for number in numbers)
    return e.need(name, f"@{name} = private constant [256 x float] [{values}]\n")


def table_of_e2m1(e: Emitter) -> str:
    """A table of what 4 bits mean, as floats."""
    numbers = (float_bits(sign * x, 64) for sign in (1.0, -1.0) for x in _E2M1)
    values = ", ".join(f"float 0x{number:016X}" for number in numbers)
    return e.need("amd_e2m1", f"@amd_e2m1 = private constant [16 x float] [{values}]\n")


def decoded(w: Wave, of: SmallFloat, value: str) -> str:
    """The number that the low byte of a word means, in each lane."""
    text = f"""  %low = and i32 %x0, 255
  %at = getelementptr float, ptr {table_of(w.e, of)}, i32 %low
  %r = load float, ptr %at"""
    return w.x.each(f"amd_from_{of.name}", ("u32",), "f32", text, value)


def _encoded(w: Wave, of: SmallFloat, value: str) -> str:
    """The byte that is nearest to a number, in each lane: of two, the even one."""
    shift = 23 - of.fraction
    # Below the least normal number steps are equal: adding this makes the sum count them.
    steps = float_bits(math.ldexp(1.0, 23 - (of.bias - 1 + of.fraction)), 32)
    w.e.need("llvm.fabs.f32", "declare float @llvm.fabs.f32(float)")
    zero = "%sign" if of.has_signed_specials else "0"
    special = f"or i32 {of.beyond}, %sign" if of.has_signed_specials else f"or i32 {of.beyond}, 0"
    nothing = f"or i32 {of.nan}, %sign" if of.has_signed_specials else f"or i32 {of.nan}, 0"
    text = f"""  %bits = bitcast float %x0 to i32
  %top = lshr i32 %bits, 24
  %sign = and i32 %top, 128
  %a = call float @llvm.fabs.f32(float %x0)
  %ab = bitcast float %a to i32
  %magic = bitcast i32 {steps} to float
  %counted = fadd float %a, %magic
  %cb = bitcast float %counted to i32
  %tiny = sub i32 %cb, {steps}
  %moved = sub i32 %ab, {(127 - of.bias) << 23}
  %last = lshr i32 %moved, {shift}
  %odd = and i32 %last, 1
  %half = add i32 %odd, {(1 << shift - 1) - 1}
  %up = add i32 %moved, %half
  %normal = lshr i32 %up, {shift}
  %is_tiny = icmp ult i32 %ab, {(128 - of.bias) << 23}
  %code = select i1 %is_tiny, i32 %tiny, i32 %normal
  %is_zero = icmp eq i32 %code, 0
  %zero = or i32 {zero}, 0
  %signed = or i32 %code, %sign
  %finite = select i1 %is_zero, i32 %zero, i32 %signed
  %is_large = icmp ugt i32 %code, {of.most}
  %large = {special}
  %number = select i1 %is_large, i32 %large, i32 %finite
  %is_nan = fcmp uno float %x0, %x0
  %nan = {nothing}
  %r = select i1 %is_nan, i32 %nan, i32 %number"""
    return w.x.each(f"amd_to_{of.name}", ("f32",), "u32", text, value)


def _from_byte(kind: str) -> None:
    @MEANINGS.of(f"v_cvt_f32_{kind}")
    def meaning(w: Wave) -> None:
        value = w.raw("src0", "u32")
        byte = w.item.modifiers.get("byte_sel", 0)
        value = w.x.bits(value, 8 * byte, 8)
        found = w.finished("f32", decoded(w, small_float(w.chip, kind), value))
        w.set_bits(32, w.x.cast("f32", "u32", found))


def _from_two(kind: str) -> None:
    @MEANINGS.of(f"v_cvt_pk_f32_{kind}")
    def meaning(w: Wave) -> None:
        value = w.x.resize("u16", "u32", w.raw("src0", "u16"))
        for part in range(2):
            byte = w.x.bits(value, 8 * part, 8)
            found = w.finished("f32", decoded(w, small_float(w.chip, kind), byte))
            w.set_vector(w.item.operands["vdst"], w.x.cast("f32", "u32", found), part)


def _to_two(kind: str) -> None:
    @MEANINGS.of(f"v_cvt_pk_{kind}_f32")
    def meaning(w: Wave) -> None:
        """The other half of the destination stays."""
        low, high = (
            _encoded(w, small_float(w.chip, kind), w.source(name, "f32"))
            for name in ("src0", "src1")
        )
        both = w.x.op("u32", "or", low, w.x.op("u32", "shl", high, w.x.const("u32", 8)))
        value, to = w.x.resize("u32", "u16", both), w.item.operands["vdst"]
        w.set_half(to, value, w.selects_high_result, clears=False)


for _kind in ("fp8", "bf8"):
    _from_byte(_kind)
    _from_two(_kind)
    _to_two(_kind)
