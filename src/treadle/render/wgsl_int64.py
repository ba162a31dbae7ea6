"""64-bit integers for WGSL, which has none: pairs of 32-bit words, the low one first.

    int64_helpers({"mul_i64"})   ->  the text of mul_i64 and of what it needs, in order

Signed and unsigned share what two's complement makes alike. Division truncates, as lower/decompose
leaves it, and is never by zero.
"""

from __future__ import annotations

from collections.abc import Iterable

from .prelude import Functions, with_needed

__all__ = ["int64_helpers"]

_FUNCTIONS: Functions = {
    "add_i64": ((), """\
fn add_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
"""),
    "sub_i64": ((), """\
fn sub_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}
"""),
    "mul_i64": ((), """\
fn mul_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let a0 = a.x & 0xffffu;
  let a1 = a.x >> 16u;
  let b0 = b.x & 0xffffu;
  let b1 = b.x >> 16u;
  let cross = a1 * b0 + ((a0 * b0) >> 16u);
  let middle = a0 * b1 + (cross & 0xffffu);
  let high = a1 * b1 + (cross >> 16u) + (middle >> 16u);
  return vec2<u32>(a.x * b.x, high + a.x * b.y + a.y * b.x);
}
"""),
    "shl_i64": ((), """\
fn shl_i64(a: vec2<u32>, amount: vec2<u32>) -> vec2<u32> {
  let n = amount.x;
  if (n == 0u) { return a; }
  if (n >= 32u) { return vec2<u32>(0u, a.x << (n - 32u)); }
  return vec2<u32>(a.x << n, (a.y << n) | (a.x >> (32u - n)));
}
"""),
    "shr_u64": ((), """\
fn shr_u64(a: vec2<u32>, amount: vec2<u32>) -> vec2<u32> {
  let n = amount.x;
  if (n == 0u) { return a; }
  if (n >= 32u) { return vec2<u32>(a.y >> (n - 32u), 0u); }
  return vec2<u32>((a.x >> n) | (a.y << (32u - n)), a.y >> n);
}
"""),
    "shr_i64": ((), """\
fn shr_i64(a: vec2<u32>, amount: vec2<u32>) -> vec2<u32> {
  let n = amount.x;
  let high = bitcast<i32>(a.y);
  if (n == 0u) { return a; }
  if (n >= 32u) { return bitcast<vec2<u32>>(vec2<i32>(high >> (n - 32u), high >> 31u)); }
  return vec2<u32>((a.x >> n) | (a.y << (32u - n)), bitcast<u32>(high >> n));
}
"""),
    "lt_u64": ((), """\
fn lt_u64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return a.y < b.y || (a.y == b.y && a.x < b.x);
}
"""),
    "lt_i64": ((), """\
fn lt_i64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return bitcast<i32>(a.y) < bitcast<i32>(b.y) || (a.y == b.y && a.x < b.x);
}
"""),
    "abs_i64": (("sub_i64",), """\
fn abs_i64(a: vec2<u32>) -> vec2<u32> {
  return select(a, sub_i64(vec2<u32>(0u, 0u), a), bitcast<i32>(a.y) < 0);
}
"""),
    # Long division, a bit at a time: the quotient and, in the last two words, the remainder.
    "divide_u64": (("lt_u64", "sub_i64"), """\
fn divide_u64(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
  if (a.y == 0u && b.y == 0u) { return vec4<u32>(a.x / b.x, 0u, a.x % b.x, 0u); }
  var quotient = vec2<u32>(0u, 0u);
  var rest = vec2<u32>(0u, 0u);
  for (var i: i32 = 63; i >= 0; i--) {
    let bit = select(a.x >> u32(i & 31), a.y >> u32(i & 31), i >= 32) & 1u;
    let carry = rest.y >> 31u;
    rest = vec2<u32>((rest.x << 1u) | bit, (rest.y << 1u) | (rest.x >> 31u));
    if (carry == 1u || !lt_u64(rest, b)) {
      rest = sub_i64(rest, b);
      let one = 1u << u32(i & 31);
      quotient |= select(vec2<u32>(one, 0u), vec2<u32>(0u, one), i >= 32);
    }
  }
  return vec4<u32>(quotient, rest);
}
"""),
    "div_u64": (("divide_u64",), """\
fn div_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return divide_u64(a, b).xy; }
"""),
    "mod_u64": (("divide_u64",), """\
fn mod_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return divide_u64(a, b).zw; }
"""),
    "div_i64": (("divide_u64", "abs_i64", "sub_i64"), """\
fn div_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let size = divide_u64(abs_i64(a), abs_i64(b)).xy;
  return select(size, sub_i64(vec2<u32>(0u, 0u), size), ((a.y ^ b.y) >> 31u) == 1u);
}
"""),
    "mod_i64": (("divide_u64", "abs_i64", "sub_i64"), """\
fn mod_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let size = divide_u64(abs_i64(a), abs_i64(b)).zw;
  return select(size, sub_i64(vec2<u32>(0u, 0u), size), (a.y >> 31u) == 1u);
}
"""),
    # The leading 32 bits, the last of them set if anything follows: rounded once, by f32().
    "f32_from_u64": (("shl_i64",), """\
fn f32_from_u64(a: vec2<u32>) -> f32 {
  if (a.y == 0u) { return f32(a.x); }
  let zeros = countLeadingZeros(a.y);
  let shifted = shl_i64(a, vec2<u32>(zeros, 0u));
  let leading = shifted.y | select(0u, 1u, shifted.x != 0u);
  return f32(leading) * bitcast<f32>((127u + 32u - zeros) << 23u);
}
"""),
    "f32_from_i64": (("f32_from_u64", "abs_i64"), """\
fn f32_from_i64(a: vec2<u32>) -> f32 {
  let size = f32_from_u64(abs_i64(a));
  return select(size, -size, bitcast<i32>(a.y) < 0);
}
"""),
    # Saturates; NaN gives 0.
    "i64_from_f32": (("shl_i64", "sub_i64"), """\
fn i64_from_f32(x: f32) -> vec2<u32> {
  let bits = bitcast<u32>(x);
  let size = bits & 0x7fffffffu;
  let negative = (bits >> 31u) == 1u;
  if (size > 0x7f800000u) { return vec2<u32>(0u, 0u); }
  if (size >= 0x5f000000u) {
    return select(vec2<u32>(0xffffffffu, 0x7fffffffu), vec2<u32>(0u, 0x80000000u), negative);
  }
  if (size < 0x3f800000u) { return vec2<u32>(0u, 0u); }
  let exponent = (size >> 23u) - 127u;
  let fraction = (size & 0x7fffffu) | 0x800000u;
  var whole = vec2<u32>(fraction >> (23u - min(exponent, 23u)), 0u);
  if (exponent > 23u) {
    whole = shl_i64(vec2<u32>(fraction, 0u), vec2<u32>(exponent - 23u, 0u));
  }
  return select(whole, sub_i64(vec2<u32>(0u, 0u), whole), negative);
}
"""),
}  # fmt: skip


def int64_helpers(names: Iterable[str]) -> list[str]:
    """The text of the functions `names` and of all that they call, each after what it needs."""
    return with_needed(_FUNCTIONS, names)
