"""Functions of Metal's language against NumPy, through our metal_stdlib and clang."""

import numpy as np
import pytest
from ml_dtypes import bfloat16
from tests.thinning import chosen

from .conftest import launch

N = 96
_NAMES = {
    "float": np.float32, "half": np.float16, "bfloat": bfloat16, "int": np.int32,
    "uint": np.uint32, "long": np.int64, "ulong": np.uint64, "short": np.int16,
    "ushort": np.uint16, "char": np.int8, "uchar": np.uint8, "bool": np.bool_,
}  # fmt: skip


def numbers(kind, seed, low=-4.0, high=4.0):
    dtype = np.dtype(_NAMES[kind])
    random = np.random.default_rng(seed)
    if dtype == np.bool_:
        return random.integers(0, 2, N).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        edges = np.array([info.min, info.max, 0, 1, info.max // 2, info.min // 2], dtype)
        drawn = random.integers(info.min, info.max, N, dtype, endpoint=True)
        drawn[: len(edges)] = random.permutation(edges)
        return drawn
    return random.uniform(low, high, N).astype(np.float32).astype(dtype)


class Case:
    """An expression of x, y, z and what NumPy makes of the same numbers."""

    def __init__(self, code, kinds, expected, bits=0, out="", low=-4.0, high=4.0):
        self.code, self.kinds, self.expected, self.bits = code, kinds.split(), expected, bits
        self.out = out or self.kinds[0]
        self.inputs = [numbers(kind, i, low, high) for i, kind in enumerate(self.kinds)]

    def text(self, name):
        places = "".join(
            f"device const {kind} *{letter}s [[buffer({i + 1})]], "
            for i, (kind, letter) in enumerate(zip(self.kinds, "xyz", strict=False))
        )
        loads = "".join(
            f"{kind} {letter} = {letter}s[i]; "
            for kind, letter in zip(self.kinds, "xyz", strict=False)
        )
        return (
            f"kernel void {name}(device {self.out} *out [[buffer(0)]], {places}"
            f"uint i [[thread_position_in_grid]]) {{ {loads} out[i] = {self.code}; }}\n"
        )

    def check(self, program, name):
        out = np.zeros(N, _NAMES[self.out])
        buffers = {0: out, **{i + 1: array for i, array in enumerate(self.inputs)}}
        launch(program, name, N // 32, 32, buffers)
        wide = [
            array.astype(np.float64) if self.kinds[i] in ("float", "half", "bfloat") else array
            for i, array in enumerate(self.inputs)
        ]
        with np.errstate(all="ignore"):
            wanted = np.asarray(self.expected(*wide))
        if self.out not in ("float", "half", "bfloat"):
            np.testing.assert_array_equal(out, wanted.astype(out.dtype), self.code)
            return
        exact = wanted.astype(np.float32).astype(out.dtype).astype(np.float64)
        step = {"float": 2.0**-23, "half": 2.0**-10, "bfloat": 2.0**-7}[self.out]
        bound = self.bits * step * np.abs(np.nan_to_num(exact)) + 1e-45
        found = out.astype(np.float64)
        same = (found == exact) | (np.isnan(found) & np.isnan(exact))
        with np.errstate(invalid="ignore"):
            near = np.abs(found - exact) <= bound
        assert (same | near).all(), (self.code, found, exact)


FLOATS = ("float", "half", "bfloat")
# By the C library in float64 and rounded: half a bit, and another one where rounding is twice.
CASES = {
    f"{kind} {name}": Case(code, kind, function, 1, low=low, high=high)
    for kind in FLOATS
    for name, code, function, low, high in [
        ("sqrt", "sqrt(x)", np.sqrt, 0, 9), ("rsqrt", "rsqrt(x)", lambda x: 1 / np.sqrt(x), 0.1, 9),
        ("exp2", "exp2(x)", np.exp2, -9, 9), ("log2", "log2(x)", np.log2, 0.1, 9),
        ("exp", "exp(x)", np.exp, -5, 5), ("log", "log(x)", np.log, 0.1, 9),
        ("sin", "sin(x)", np.sin, -9, 9), ("cos", "precise::cos(x)", np.cos, -9, 9),
        ("tanh", "metal::precise::tanh(x)", np.tanh, -3, 3), ("floor", "floor(x)", np.floor, -9, 9),
        ("ceil", "ceil(x)", np.ceil, -9, 9), ("trunc", "trunc(x)", np.trunc, -9, 9),
        ("rint", "rint(x * 2) / 2", lambda x: np.rint(x * 2) / 2, -9, 9),
        ("abs", "abs(x)", np.abs, -9, 9), ("sign", "sign(x)", np.sign, -9, 9),
    ]
}  # fmt: skip
CASES |= {
    f"{kind} {name}": Case(code, f"{kind} {kind}", function, bits)
    for kind in FLOATS
    for name, code, function, bits in [
        ("add", "x + y", np.add, 0), ("sub", "x - y", np.subtract, 0),
        ("mul", "x * y", np.multiply, 0), ("div", "x / y", np.divide, 1),
        ("fmin", "fmin(x, y)", np.minimum, 0), ("max", "max(x, y)", np.maximum, 0),
        ("select", "select(x, y, x < y)", np.maximum, 0),
        ("fmod", "fmod(x, y)", np.fmod, 0),
    ]
}  # fmt: skip
CASES |= {
    f"{kind} fma": Case("fma(x, y, z)", f"{kind} {kind} {kind}", lambda x, y, z: x * y + z, 1)
    for kind in FLOATS
}
INTEGERS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
CASES |= {
    f"{kind} {name}": Case(code, f"{kind} {kind}", function)
    for kind in INTEGERS
    for name, code, function in [
        ("add", "x + y", np.add), ("mul", "x * y", np.multiply), ("xor", "x ^ y", np.bitwise_xor),
        ("min", "min(x, y)", np.minimum), ("max", "max(x, y)", np.maximum),
        ("shift", "x >> 3", lambda x, y: x >> 3),
        ("div", "y ? x / y : 0", lambda x, y: _quotient(x, y)),
        ("rem", "y ? x % y : 0", lambda x, y: np.where(y == 0, 0, x - y * _quotient(x, y))),
        ("clamp", f"clamp(x, ({kind})3, ({kind})90)", lambda x, y: np.clip(x, 3, 90)),
        ("select", "select(x, y, x < y)", np.maximum),
    ]
}  # fmt: skip


def _quotient(x, y):
    """Towards zero, by Python's integers."""
    found = []
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        size = abs(a) // abs(b) if b else 0
        found.append(size if (a < 0) == (b < 0) else -size)
    info = np.iinfo(x.dtype)
    return np.array([v if v <= info.max else info.min for v in found], x.dtype)


def _rotated(x, y):
    """To the left, by Python's integers."""
    bits = 8 * x.itemsize
    ones = (1 << bits) - 1
    found = []
    for value, count in zip(x.tolist(), y.tolist(), strict=True):
        given, left = value & ones, count % bits
        found.append((given << left | given >> (bits - left)) & ones)
    return np.array(found, f"u{x.itemsize}").view(x.dtype)


def _counts(function):
    return lambda x: np.array([function(int(v) & ((1 << 8 * x.itemsize) - 1), 8 * x.itemsize)
                               for v in x])  # fmt: skip


CASES |= {
    f"{kind} {name}": Case(f"{name}(x)", kind, _counts(function))
    for kind in ("uchar", "ushort", "int", "uint", "ulong")
    for name, function in [
        ("popcount", lambda v, n: v.bit_count()), ("clz", lambda v, n: n - v.bit_length()),
        ("ctz", lambda v, n: (v & -v).bit_length() - 1 if v else n),
    ]
}  # fmt: skip
CASES |= {
    f"{kind} rotate": Case("rotate(x, y)", f"{kind} {kind}", _rotated)
    for kind in ("char", "ushort", "int", "uint", "long")
}  # fmt: skip
CASES["rotate of vectors"] = Case(
    "rotate(uint3(x, y, 1), uint3(y, 33, 4)).x + rotate(uint3(x, y, 1), uint3(y, 33, 4)).z",
    "uint uint", lambda x, y: _rotated(x, y) + np.uint32(16)
)  # fmt: skip
CASES |= {
    "mulhi int": Case("mulhi(x, y)", "int int", lambda x, y: (x.astype(object) * y) >> 32),
    "mulhi uint": Case("mulhi(x, y)", "uint uint", lambda x, y: (x.astype(object) * y) >> 32),
    "as_type": Case("as_type<uint>(x)", "float", lambda x: x.astype("f4").view("u4"), out="uint"),
    "as_type back": Case("as_type<half>(x)", "ushort", lambda x: x.view("f2"), out="half"),
    "to int": Case("int(x)", "float", np.trunc, out="int"),
    "to char": Case("char(x)", "half", np.trunc, out="char"),
    "to uchar": Case("uchar(x)", "float", np.trunc, out="uchar", low=0, high=255),
    "to ulong": Case("ulong(x)", "float", np.trunc, out="ulong", low=0, high=1e9),
    "from long": Case("float(x)", "long", lambda x: x.astype("f4"), out="float"),
    "from ulong": Case("half(x)", "ushort", lambda x: x.astype("f2"), out="half"),
    "bfloat of float": Case("bfloat(x)", "float", lambda x: x, out="bfloat"),
    "half of bfloat": Case("half(float(x))", "bfloat", lambda x: x, out="half"),
    "bool": Case("x && !y", "bool bool", lambda x, y: x & ~y),
    "bool of float": Case("bool(int(x))", "float", lambda x: np.trunc(x) != 0, out="bool"),
    "compare": Case("x < y ? 1 : x > y ? 2 : 3", "half half",
                    lambda x, y: np.where(x < y, 1, np.where(x > y, 2, 3)), out="int"),
    "vector": Case("float4(x, float2(y, 2.0), 1).zyxw.y + half4(half(3)).w", "float float",
                   lambda x, y: y + 3, out="float"),
    "with a scalar": Case("max(min(uchar4(x), y), (uchar)3).z", "uchar uchar",
                          lambda x, y: np.maximum(np.minimum(x, y), 3)),
    "swizzle": Case("(uint4(x, y, 7, 9).wz * 2).y", "uint uint", lambda x, y: 14 + 0 * x),
    "isnan": Case("isnan(x / y)", "float float", lambda x, y: np.isnan(x / y), out="bool"),
}  # fmt: skip


# Without --full, one in so many.
CASES = {name: case for name, case in CASES.items() if chosen(name, 6)}


@pytest.fixture(scope="session")
def program(msl):
    return msl("".join(case.text(f"k{i}") for i, case in enumerate(CASES.values())))


@pytest.mark.parametrize("name", CASES)
def test_a_function_gives_what_numpy_does(program, name):
    CASES[name].check(program, f"k{list(CASES).index(name)}")


def test_subnormal_numbers_of_float_are_zeros_and_those_of_half_are_not(msl):
    """As in modules of Apple's compiler, which says so of them with safe math, too."""
    program = msl("""
    kernel void k(device float *out [[buffer(0)]], device const float *in [[buffer(1)]],
                  device half *small [[buffer(2)]], device bfloat *wide [[buffer(3)]]) {
      out[0] = in[0] * 0.5f;
      out[1] = in[1] + in[1];
      out[2] = in[2] / 4.0f;
      out[3] = in[1] == 0.0f;
      out[4] = in[1];
      out[5] = float(wide[0]) + 0.0f;
      small[1] = small[0] * 0.5h;
    }""")
    least = np.finfo(np.float32).tiny
    numbers, out = np.array([least, least / 8, -least], np.float32), np.ones(6, np.float32)
    halves = np.array([2.0**-20, 0], np.float16)
    launch(program, "k", 1, 1, {0: out, 1: numbers, 2: halves, 3: np.array([1], np.uint16)})
    assert out.tolist() == [0, 0, 0, 1, least / 8, 0]  # what is copied stays as it is
    assert np.signbit(out).tolist() == [False, False, True, False, False, False]
    assert halves[1] == 2.0**-21
