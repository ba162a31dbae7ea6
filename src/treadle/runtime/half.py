"""The half-precision conversions that LLVM calls where a processor lacks the instruction.

    half_ir()  ->  "define half @__truncsfhf2(float %x) ..."

Which names an object needs depends on the target: AVX2 machines convert float to half natively,
but not double to half, nor anything to bfloat16. All round to nearest, ties to even, as the
hardware does; NaN stays NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HALF_SYMBOLS", "half_ir"]


@dataclass(frozen=True)
class _Narrowing:
    """One conversion: LLVM type, bits, fraction bits and exponent bias of both sides."""

    symbol: str
    source: tuple[str, int, int, int]
    target: tuple[str, int, int]


_DOUBLE, _FLOAT = ("double", 64, 52, 1023), ("float", 32, 23, 127)
_HALF, _BFLOAT = ("half", 10, 15), ("bfloat", 7, 127)
_NARROWINGS = (
    _Narrowing("__truncsfhf2", _FLOAT, _HALF),
    _Narrowing("__truncdfhf2", _DOUBLE, _HALF),
    _Narrowing("__truncsfbf2", _FLOAT, _BFLOAT),
    _Narrowing("__truncdfbf2", _DOUBLE, _BFLOAT),
)
HALF_SYMBOLS = (*(row.symbol for row in _NARROWINGS), "__extendhfsf2")

# %a is |x| as bits. Too small for a normal result: shift the fraction, with its leading one, to
# where the subnormal result has it. Otherwise: change the bias, which lies above the fraction.
# Either way the bits that fall off round the rest, and a carry into the exponent is right.
_NARROW = """
define TYPE @SYMBOL(FROM %x) {
  %bits = bitcast FROM %x to iW
  %a = and iW %bits, ABS
  %nan = icmp ugt iW %a, INF
  %small = icmp ult iW %a, SMALLEST
  %exp = lshr iW %a, FRACTION
  %deep = sub iW DEEPEST, %exp
  %far = call iW @llvm.umin.iW(iW %deep, iW FARTHEST)
  %frac = and iW %a, FRACTIONMASK
  %full = or iW %frac, ONE
  %moved = sub iW %a, REBIAS
  %value = select i1 %small, iW %full, iW %moved
  %shift = select i1 %small, iW %far, iW SHIFT
  %kept = lshr iW %value, %shift
  %odd = and iW %kept, 1
  %below = sub iW %shift, 1
  %half = shl iW 1, %below
  %up = sub iW %half, 1
  %bias = add iW %up, %odd
  %sum = add iW %value, %bias
  %rounded = lshr iW %sum, %shift
  %bounded = call iW @llvm.umin.iW(iW %rounded, iW OUTINF)
  %payload = lshr iW %frac, SHIFT
  %quiet = or iW %payload, QUIET
  %magnitude = select i1 %nan, iW %quiet, iW %bounded
  %top = lshr iW %bits, TOP
  %sign = and iW %top, 32768
  %all = or iW %magnitude, %sign
  %short = trunc iW %all to i16
  %result = bitcast i16 %short to TYPE
  ret TYPE %result
}
"""

# Multiplying by 2**112 changes the exponent's bias and normalises subnormals, exactly.
_WIDEN = """
define float @__extendhfsf2(half %x) {
  %bits = bitcast half %x to i16
  %wide = zext i16 %bits to i32
  %a = and i32 %wide, 32767
  %signbit = and i32 %wide, 32768
  %sign = shl i32 %signbit, 16
  %moved = shl i32 %a, 13
  %special = icmp uge i32 %a, 31744
  %infinite = or i32 %moved, 2139095040
  %quiet = or i32 %infinite, 4194304
  %nan = icmp ugt i32 %a, 31744
  %top = select i1 %nan, i32 %quiet, i32 %infinite
  %normal = add i32 %moved, 939524096
  %tiny = icmp ult i32 %a, 1024
  %above = add i32 %moved, 947912704
  %abovef = bitcast i32 %above to float
  %lessf = fsub float %abovef, 0x3F10000000000000
  %less = bitcast float %lessf to i32
  %finite = select i1 %tiny, i32 %less, i32 %normal
  %magnitude = select i1 %special, i32 %top, i32 %finite
  %all = or i32 %magnitude, %sign
  %result = bitcast i32 %all to float
  ret float %result
}
declare i32 @llvm.umin.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
"""


def half_ir() -> str:
    """The module that defines HALF_SYMBOLS, for any target."""
    return "".join(map(_narrow, _NARROWINGS)) + _WIDEN


def _narrow(row: _Narrowing) -> str:
    source, bits, fraction, bias = row.source
    target, out_fraction, out_bias = row.target
    rebias, shift = bias - out_bias, fraction - out_fraction
    numbers = {
        "FRACTIONMASK": (1 << fraction) - 1,
        "FARTHEST": fraction + 3,  # from here on every value rounds to zero
        "SMALLEST": (rebias + 1) << fraction if rebias else 0,
        "DEEPEST": shift + rebias + 1,
        "REBIAS": rebias << fraction,
        "OUTINF": (2 * out_bias + 1) << out_fraction,
        "QUIET": (2 * out_bias + 1) << out_fraction | 1 << (out_fraction - 1),
        "FRACTION": fraction,
        "SHIFT": shift,
        "ABS": (1 << (bits - 1)) - 1,
        "INF": (2 * bias + 1) << fraction,
        "ONE": 1 << fraction,
        "TOP": bits - 16,
    }
    text = _NARROW.replace("SYMBOL", row.symbol).replace("FROM", source).replace("TYPE", target)
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    return text.replace("iW", f"i{bits}")
