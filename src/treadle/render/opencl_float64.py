"""float64 for OpenCL devices that have none: IEEE 754 on the 64 bits, in integer arithmetic.

    float64_helpers({"mul_f64"})   ->  the text of mul_f64 and of what it needs, in order

A float64 is a `ulong`, in registers as in memory. Every result is rounded once, to nearest even;
subnormals, infinities and signed zeros are those of IEEE 754, every NaN that is made is the same.

Significands are computed with their leading bit at the top of a word, and the lowest bit set where
anything was lost below it: `pack_f64` rounds from there. Quotients and roots come from a float32
estimate of the reciprocal, two steps of Newton's iteration on integers (21, 42, 59 bits), and the
exact remainder, which mends the last place and says whether anything is left.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..dtype import DType, dtypes
from ..ir.op import Op
from .prelude import Functions, with_needed

__all__ = ["FLOAT64_CALLS", "float64_cast", "float64_helpers"]

_CONSTANTS = """\
#define F64_SIGN 0x8000000000000000UL
#define F64_SIZE 0x7fffffffffffffffUL
#define F64_FRACTION 0x000fffffffffffffUL
#define F64_HIDDEN 0x0010000000000000UL
#define F64_ONE 0x3ff0000000000000UL
#define F64_INFINITY 0x7ff0000000000000UL
#define F64_NAN 0x7ff8000000000000UL
"""

FLOAT64_CALLS = {
    Op.ADD: "add_f64", Op.SUB: "sub_f64", Op.MUL: "mul_f64", Op.FDIV: "div_f64", Op.FMA: "fma_f64",
    Op.MOD: "mod_f64", Op.SQRT: "sqrt_f64", Op.NEG: "neg_f64", Op.MAX: "max_f64", Op.MIN: "min_f64",
    Op.CMPLT: "lt_f64", Op.CMPEQ: "eq_f64", Op.CMPNE: "ne_f64", Op.TRUNC: "trunc_f64",
    Op.FLOOR: "floor_f64", Op.CEIL: "ceil_f64", Op.ROUND: "round_f64",
}  # fmt: skip
"""The function that computes each op. What is not here works on the bits: WHERE, BITCAST."""


def float64_cast(source: DType, target: DType) -> str:
    """The function that casts to or from float64; integers widen to 64 bits on the way in."""
    if target.scalar is not dtypes.float64:
        return {"float32": "f32_from_f64", "int32": "i32_from_f64", "int64": "i64_from_f64"}[
            target.scalar.name
        ]
    if source.is_float:
        return "f64_from_f32"
    return "f64_from_u64" if source.is_unsigned or source.is_bool else "f64_from_i64"


_FUNCTIONS: Functions = {
    # Right by n, the last bit set if a bit was lost.
    "shift_f64": ((), """\
ulong shift_f64(ulong x, int n) {
  n = n < 63 ? n : 63;
  return (x >> n) | ((x & ((1UL << n) - 1)) != 0);
}
"""),
    # The number leading / 2**63 * 2**(exponent - 1023), rounded; the top bit of `leading` is set.
    "pack_f64": (("shift_f64",), """\
ulong pack_f64(ulong sign, int exponent, ulong leading) {
  if (exponent > 2046) return sign | F64_INFINITY;
  if (exponent < 1) {
    leading = shift_f64(leading, 1 - exponent);
    exponent = 1;
  }
  ulong kept = leading >> 11;
  kept += ((leading & 0x7ff) + 0x3ff + (kept & 1)) >> 11;
  return sign | (((ulong)(exponent - 1) << 52) + kept);
}
"""),
    # The other way round, for what is finite and above 0: the exponent, and `leading`.
    "unpack_f64": ((), """\
int unpack_f64(ulong size, ulong *leading) {
  int exponent = (int)(size >> 52);
  if (exponent != 0) {
    *leading = (size << 11) | F64_SIGN;
    return exponent;
  }
  int zeros = (int)clz(size);
  *leading = size << zeros;
  return 12 - zeros;
}
"""),
    "add_f64": (("shift_f64", "pack_f64"), """\
ulong add_f64(ulong a, ulong b) {
  if ((a & F64_SIZE) < (b & F64_SIZE)) {
    ulong larger = b;
    b = a;
    a = larger;
  }
  ulong x = a & F64_SIZE, y = b & F64_SIZE;
  if (x >= F64_INFINITY) {
    return x > F64_INFINITY || (y == F64_INFINITY && a != b) ? F64_NAN : a;
  }
  int exponent = (int)(x >> 52), other = (int)(y >> 52);
  x = (x & F64_FRACTION) | (exponent != 0 ? F64_HIDDEN : 0);
  y = (y & F64_FRACTION) | (other != 0 ? F64_HIDDEN : 0);
  exponent += exponent == 0;
  other += other == 0;
  x <<= 10;
  y = shift_f64(y << 10, exponent - other);
  ulong sum = (a ^ b) >> 63 ? x - y : x + y;
  if (sum == 0) return a & b & F64_SIGN;
  int zeros = (int)clz(sum);
  return pack_f64(a & F64_SIGN, exponent + 1 - zeros, sum << zeros);
}
"""),
    "sub_f64": (("add_f64",), """\
ulong sub_f64(ulong a, ulong b) { return add_f64(a, b ^ F64_SIGN); }
"""),
    "neg_f64": ((), """\
ulong neg_f64(ulong a) { return a ^ F64_SIGN; }
"""),
    "mul_f64": (("unpack_f64", "pack_f64"), """\
ulong mul_f64(ulong a, ulong b) {
  ulong sign = (a ^ b) & F64_SIGN;
  a &= F64_SIZE;
  b &= F64_SIZE;
  if (a >= F64_INFINITY || b >= F64_INFINITY) {
    bool is_nan = a > F64_INFINITY || b > F64_INFINITY || a == 0 || b == 0;
    return is_nan ? F64_NAN : sign | F64_INFINITY;
  }
  if (a == 0 || b == 0) return sign;
  ulong x, y;
  int exponent = unpack_f64(a, &x) + unpack_f64(b, &y) - 1022;
  ulong high = mul_hi(x, y) | (x * y != 0);
  int is_small = (high >> 63) == 0;
  return pack_f64(sign, exponent - is_small, high << is_small);
}
"""),
    # 53-bit significands, whose quotient has 56 or 57 bits.
    "div_f64": (("unpack_f64", "pack_f64"), """\
ulong div_f64(ulong a, ulong b) {
  ulong sign = (a ^ b) & F64_SIGN;
  a &= F64_SIZE;
  b &= F64_SIZE;
  if (a >= F64_INFINITY || b >= F64_INFINITY) {
    if (a > F64_INFINITY || b > F64_INFINITY || a == b) return F64_NAN;
    return a == F64_INFINITY ? sign | F64_INFINITY : sign;
  }
  if (b == 0) return a == 0 ? F64_NAN : sign | F64_INFINITY;
  if (a == 0) return sign;
  ulong x, y;
  int exponent = unpack_f64(a, &x) - unpack_f64(b, &y) + 1023;
  ulong inverse = (ulong)(0x1p125f / (float)y);
  for (int i = 0; i < 2; i++) {
    long error = (long)((1UL << 61) - mul_hi(y, inverse));
    inverse += (ulong)mul_hi((long)inverse, (long)((ulong)error << 3));
  }
  ulong quotient = mul_hi(x, inverse) >> 5;
  x >>= 11;
  y >>= 11;
  long rest = (long)((x << 56) - quotient * y);
  if (rest < 0) {
    quotient--;
    rest += (long)y;
  } else if (rest >= (long)y) {
    quotient++;
    rest -= (long)y;
  }
  int zeros = (int)clz(quotient);
  return pack_f64(sign, exponent + 7 - zeros, (quotient << zeros) | (rest != 0));
}
"""),
    # a - b * floor(a / b): long division of 53-bit significands, 11 bits of quotient at a time.
    "mod_f64": (("unpack_f64", "pack_f64", "add_f64"), """\
ulong mod_f64(ulong a, ulong b) {
  ulong sign = a & F64_SIGN, size = a & F64_SIZE, divisor = b & F64_SIZE;
  if (size >= F64_INFINITY || divisor > F64_INFINITY || divisor == 0) return F64_NAN;
  if (size >= divisor) {
    ulong rest, y;
    int steps = unpack_f64(size, &rest), exponent = unpack_f64(divisor, &y);
    steps -= exponent;
    y >>= 11;
    rest = (rest >> 11) % y;
    for (; steps > 0 && rest != 0; steps -= 11) rest = (rest << (steps < 11 ? steps : 11)) % y;
    if (rest == 0) return b & F64_SIGN;
    int zeros = (int)clz(rest);
    size = pack_f64(0, exponent + 11 - zeros, rest << zeros);
  }
  if (size == 0) return b & F64_SIGN;
  a = sign | size;
  return ((a ^ b) & F64_SIGN) != 0 ? add_f64(a, b) : a;
}
"""),
    # x is the significand in [1, 4) times 2**62, the root has 55 bits.
    "sqrt_f64": (("unpack_f64", "pack_f64"), """\
ulong sqrt_f64(ulong a) {
  if ((a & F64_SIZE) == 0 || a == F64_INFINITY) return a;
  if (a > F64_INFINITY) return F64_NAN;
  ulong x;
  int exponent = unpack_f64(a, &x) - 1023;
  x >>= (exponent & 1) == 0;
  ulong inverse = (ulong)(rsqrt((float)x) * 0x1p93f);
  for (int i = 0; i < 2; i++) {
    ulong square = mul_hi(inverse << 1, inverse << 1);
    long error = (long)((1UL << 60) - mul_hi(x, square));
    inverse += (ulong)mul_hi((long)inverse, (long)((ulong)error << 3));
  }
  ulong root = mul_hi(x, inverse) >> 6;
  long rest = (long)((x << 46) - root * root);
  if (rest < 0) {
    root--;
    rest += (long)(2 * root + 1);
  } else if (rest > (long)(2 * root)) {
    rest -= (long)(2 * root + 1);
    root++;
  }
  return pack_f64(0, (exponent >> 1) + 1023, (root << 9) | (rest != 0));
}
"""),
    # Two words, as `shift_f64` shifts one.
    "shift_wide_f64": (("shift_f64",), """\
void shift_wide_f64(ulong *high, ulong *low, int n) {
  if (n >= 64) {
    *low = shift_f64(*high, n - 64) | (*low != 0);
    *high = 0;
  } else if (n > 0) {
    ulong lost = (*low << (64 - n)) != 0;
    *low = (*low >> n) | (*high << (64 - n)) | lost;
    *high >>= n;
  }
}
"""),
    # Product and addend have two words each, their leading bit at 125 or 126: room for a carry.
    "fma_f64": (("unpack_f64", "pack_f64", "shift_wide_f64"), """\
ulong fma_f64(ulong a, ulong b, ulong c) {
  ulong sign = (a ^ b) & F64_SIGN, other_sign = c & F64_SIGN, z = c & F64_SIZE;
  a &= F64_SIZE;
  b &= F64_SIZE;
  if (a >= F64_INFINITY || b >= F64_INFINITY || z >= F64_INFINITY) {
    if (a > F64_INFINITY || b > F64_INFINITY || z > F64_INFINITY) return F64_NAN;
    if (a < F64_INFINITY && b < F64_INFINITY) return c;
    bool is_nan = a == 0 || b == 0 || (z == F64_INFINITY && sign != other_sign);
    return is_nan ? F64_NAN : sign | F64_INFINITY;
  }
  if (a == 0 || b == 0) return z == 0 ? sign & other_sign : c;
  ulong x, y;
  int exponent = unpack_f64(a, &x) + unpack_f64(b, &y) - 1022;
  ulong high = mul_hi(x, y), low = x * y;
  low = (low >> 1) | (high << 63);
  high >>= 1;
  if (z != 0) {
    ulong top, rest = 0;
    int other = unpack_f64(z, &top);
    top >>= 1;
    if (exponent >= other) {
      shift_wide_f64(&top, &rest, exponent - other);
    } else {
      shift_wide_f64(&high, &low, other - exponent);
      exponent = other;
    }
    if (sign == other_sign) {
      low += rest;
      high += top + (low < rest);
    } else {
      if (high < top || (high == top && low < rest)) {
        ulong larger = top;
        top = high;
        high = larger;
        larger = rest;
        rest = low;
        low = larger;
        sign = other_sign;
      }
      high -= top + (low < rest);
      low -= rest;
      if ((high | low) == 0) return 0;
    }
  }
  if (high == 0) {
    high = low;
    low = 0;
    exponent -= 64;
  }
  int zeros = (int)clz(high);
  if (zeros > 0) {
    high = (high << zeros) | (low >> (64 - zeros));
    low <<= zeros;
  }
  return pack_f64(sign, exponent + 1 - zeros, high | (low != 0));
}
"""),
    "is_nan_f64": ((), """\
bool is_nan_f64(ulong a) { return (a & F64_SIZE) > F64_INFINITY; }
"""),
    # Integers in the order of the numbers that they stand for; both zeros are 0.
    "order_f64": ((), """\
long order_f64(ulong a) {
  long size = (long)(a & F64_SIZE);
  return a >> 63 ? -size : size;
}
"""),
    "lt_f64": (("is_nan_f64", "order_f64"), """\
bool lt_f64(ulong a, ulong b) {
  return !is_nan_f64(a) && !is_nan_f64(b) && order_f64(a) < order_f64(b);
}
"""),
    "eq_f64": (("is_nan_f64", "order_f64"), """\
bool eq_f64(ulong a, ulong b) { return !is_nan_f64(a) && order_f64(a) == order_f64(b); }
"""),
    "ne_f64": (("eq_f64",), """\
bool ne_f64(ulong a, ulong b) { return !eq_f64(a, b); }
"""),
    "max_f64": (("is_nan_f64", "lt_f64"), """\
ulong max_f64(ulong a, ulong b) { return is_nan_f64(b) || lt_f64(a, b) ? b : a; }
"""),
    "min_f64": (("is_nan_f64", "lt_f64"), """\
ulong min_f64(ulong a, ulong b) { return is_nan_f64(b) || lt_f64(b, a) ? b : a; }
"""),
    "trunc_f64": ((), """\
ulong trunc_f64(ulong a) {
  int exponent = (int)((a & F64_SIZE) >> 52);
  if (exponent < 1023) return a & F64_SIGN;
  return exponent > 1074 ? a : a & ~(F64_FRACTION >> (exponent - 1023));
}
"""),
    # Away from 0 where `up` is the sign of the other direction: carries run into the exponent.
    "outward_f64": ((), """\
ulong outward_f64(ulong a) {
  int exponent = (int)((a & F64_SIZE) >> 52);
  if ((a & F64_SIZE) == 0 || exponent > 1074) return a;
  if (exponent < 1023) return (a & F64_SIGN) | F64_ONE;
  ulong below = F64_FRACTION >> (exponent - 1023);
  return (a + below) & ~below;
}
"""),
    "floor_f64": (("trunc_f64", "outward_f64"), """\
ulong floor_f64(ulong a) { return a >> 63 ? outward_f64(a) : trunc_f64(a); }
"""),
    "ceil_f64": (("trunc_f64", "outward_f64"), """\
ulong ceil_f64(ulong a) { return a >> 63 ? trunc_f64(a) : outward_f64(a); }
"""),
    # 1023 is odd, as the leading bit is: for numbers in [1, 2) the exponent's last bit serves.
    "round_f64": ((), """\
ulong round_f64(ulong a) {
  int exponent = (int)((a & F64_SIZE) >> 52);
  if (exponent > 1074) return a;
  if (exponent < 1023) {
    bool is_above_half = (a & F64_SIZE) > F64_ONE - F64_HIDDEN;
    return (a & F64_SIGN) | (is_above_half ? F64_ONE : 0);
  }
  ulong below = F64_FRACTION >> (exponent - 1023), is_odd = (a >> (1075 - exponent)) & 1;
  return (a + (below >> 1) + is_odd) & ~below;
}
"""),
    "f64_from_u64": (("pack_f64",), """\
ulong f64_from_u64(ulong a) {
  if (a == 0) return 0;
  int zeros = (int)clz(a);
  return pack_f64(0, 1086 - zeros, a << zeros);
}
"""),
    "f64_from_i64": (("f64_from_u64",), """\
ulong f64_from_i64(long a) {
  ulong bits = (ulong)a;
  return a < 0 ? f64_from_u64(-bits) | F64_SIGN : f64_from_u64(bits);
}
"""),
    "f64_from_f32": ((), """\
ulong f64_from_f32(float a) {
  uint bits = as_uint(a), size = bits & 0x7fffffff;
  ulong sign = (ulong)(bits >> 31) << 63;
  if (size > 0x7f800000) return F64_NAN;
  if (size == 0x7f800000) return sign | F64_INFINITY;
  if (size >= 0x00800000) return sign | (((ulong)size << 29) + (896UL << 52));
  if (size == 0) return sign;
  int zeros = (int)clz(size);
  return sign | (((ulong)(904 - zeros) << 52) + ((ulong)size << (21 + zeros)));
}
"""),
    "f32_from_f64": (("shift_f64",), """\
float f32_from_f64(ulong a) {
  ulong size = a & F64_SIZE, fraction = (size & F64_FRACTION) | F64_HIDDEN;
  uint sign = (uint)(a >> 32) & 0x80000000;
  int exponent = (int)(size >> 52) - 896;
  if (size > F64_INFINITY) return as_float(0x7fc00000);
  if (exponent > 254) return as_float(sign | 0x7f800000);
  if (exponent < 1) {
    fraction = shift_f64(fraction, 1 - exponent);
    exponent = 1;
  }
  uint kept = (uint)(fraction >> 29), rest = (uint)fraction & 0x1fffffff;
  kept += (rest + 0x0fffffff + (kept & 1)) >> 29;
  return as_float(sign | (((uint)(exponent - 1) << 23) + kept));
}
"""),
    # Both saturate; NaN gives 0.
    "i64_from_f64": ((), """\
long i64_from_f64(ulong a) {
  ulong size = a & F64_SIZE;
  int exponent = (int)(size >> 52);
  if (exponent < 1023 || size > F64_INFINITY) return 0;
  if (exponent > 1085) return a >> 63 ? LONG_MIN : LONG_MAX;
  long whole = (long)(((size << 11) | F64_SIGN) >> (1086 - exponent));
  return a >> 63 ? -whole : whole;
}
"""),
    "i32_from_f64": (("i64_from_f64",), """\
int i32_from_f64(ulong a) {
  long whole = i64_from_f64(a);
  return whole > INT_MAX ? INT_MAX : whole < INT_MIN ? INT_MIN : (int)whole;
}
"""),
}  # fmt: skip


def float64_helpers(names: Iterable[str]) -> list[str]:
    """The text of the functions `names` and of all that they call, each after what it needs."""
    found = with_needed(_FUNCTIONS, names)
    return [_CONSTANTS, *found] if found else []
