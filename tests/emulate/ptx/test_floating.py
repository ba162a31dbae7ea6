"""Floating-point instructions against NumPy and mpmath, special values and roundings included."""

import itertools
import math

import ml_dtypes
import mpmath
import numpy as np
import pytest

F32 = np.array(
    [0.0, -0.0, 1.0, -1.0, 1.5, 3.0, -2.75, 1e-45, -1e-40, 1.17549435e-38, 3.4028235e38, 1e30,
     np.inf, -np.inf, np.nan, 0.1, 1 / 3, 16777217.0], "f4",
)  # fmt: skip
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
BITS = {"f16": "u2", "bf16": "u2", "f32": "u4", "f64": "u8"}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def values(kind):
    if kind in ("f32", "f64"):
        return F32.astype(DTYPES[kind])
    return np.array([0.0, -0.0, 1.0, -1.5, 0.1, 3.25, 6e-8, 1e-5, 60000.0, 65504.0, -2.0, np.inf,
                     -np.inf, np.nan, 1 / 3, 1025.0]).astype(DTYPES[kind])  # fmt: skip


def grid(kind, count=2):
    rows = list(itertools.product(range(len(values(kind))), repeat=count))
    if len(rows) > 1024:
        rows = rows[:: len(rows) // 1000]
    return [values(kind)[list(column)] for column in zip(*rows, strict=True)]


def same(found, expected):
    """Equal bits, or both NaN."""
    kind = f"u{expected.dtype.itemsize}"
    found = found.view(expected.dtype)
    alike = (found.view(kind) == expected.view(kind)) | (
        np.isnan(found.astype("f8")) & np.isnan(expected.astype("f8"))
    )
    assert alike.all(), (found[~alike][:8], expected[~alike][:8])


def launch(run, code, kind, *arrays, out=None):
    return run(code, *(a.view(BITS[kind]) for a in arrays), out=out or BITS[kind])


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_arithmetic_rounds_to_nearest(run, name, kind):
    a, b = grid(kind)
    wide = [x.astype("f4") if x.dtype.itemsize == 2 else x for x in (a, b)]
    expected = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name](*wide)
    same(launch(run, f"{name}.rn.{kind} %d, %a, %b;", kind, a, b), expected.astype(a.dtype))


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_quotients_and_roots_round_to_nearest(run, kind):
    a, b = grid(kind)
    same(launch(run, f"div.rn.{kind} %d, %a, %b;", kind, a, b), a / b)
    same(launch(run, f"sqrt.rn.{kind} %d, %a;", kind, a), np.sqrt(a))
    same(launch(run, f"rcp.rn.{kind} %d, %a;", kind, a), (1 / a).astype(a.dtype))


def exactly(function, arrays, kind, rounding):
    """A function of exact numbers, rounded once to f32 or f64 by mpmath."""
    bits = {"f32": 24, "f64": 53}[kind]
    letter = {"rn": "n", "rz": "d", "rm": "f", "rp": "c"}[rounding]
    found = []
    for row in zip(*(a.astype("f8").tolist() for a in arrays), strict=True):
        with mpmath.workprec(3000):
            exact = function(*map(mpmath.mpf, row))
        with mpmath.workprec(bits):
            number = mpmath.mpf(exact, prec=bits, rounding=letter)
        found.append(float(number))
    return np.array(found).astype(DTYPES[kind])


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("rounding", ["rz", "rm", "rp"])
def test_directed_rounding(run, rounding, kind):
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(100).astype(DTYPES[kind]) for _ in range(3))
    check = lambda code, f, *xs: same(launch(run, code, kind, *xs), exactly(f, xs, kind, rounding))
    check(f"add.{rounding}.{kind} %d, %a, %b;", lambda x, y: x + y, a, b)
    check(f"mul.{rounding}.{kind} %d, %a, %b;", lambda x, y: x * y, a, b)
    check(f"div.{rounding}.{kind} %d, %a, %b;", lambda x, y: x / y, a, b)
    check(f"fma.{rounding}.{kind} %d, %a, %b, %c;", lambda x, y, z: x * y + z, a, b, c)
    check(f"sqrt.{rounding}.{kind} %d, %a;", mpmath.sqrt, np.abs(a))


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_fma_rounds_once(run, kind):
    rng = np.random.default_rng(4)
    a = rng.standard_normal(300).astype(DTYPES[kind])
    b = rng.standard_normal(300).astype(DTYPES[kind])
    c = (-a.astype("f8") * b.astype("f8")).astype(DTYPES[kind])
    expected = exactly(lambda x, y, z: x * y + z, (a, b, c), kind, "rn")
    same(launch(run, f"fma.rn.{kind} %d, %a, %b, %c;", kind, a, b, c), expected)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_fma_of_halves_rounds_once(run, kind):
    rng = np.random.default_rng(5)
    bits = [rng.integers(0, 1 << 16, 1024, dtype="u2") for _ in range(3)]
    a, b, c = (x.view(DTYPES[kind]) for x in bits)
    # Ties that only the third operand decides.
    a[:4], b[:4], c[:4] = [1 + 2**-7] * 4, [1 + 2**-7] * 4, [1e-6, -1e-6, 0, 1]
    exact = [np.float64(x) * np.float64(y) + np.float64(z) if not np.isfinite([x, y, z]).all()
             else _fma_exact(x, y, z, kind) for x, y, z in
             zip(*(v.astype("f8") for v in (a, b, c)), strict=True)]  # fmt: skip
    expected = np.array(exact).astype(DTYPES[kind])
    same(launch(run, f"fma.rn.{kind} %d, %a, %b, %c;", kind, a, b, c), expected)


MIXED = {
    "add": lambda a, b, c: a + c, "sub": lambda a, b, c: a - c,
    "fma": lambda a, b, c: (a.astype("f8") * b + c).astype("f4"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("name", MIXED)
def test_sums_of_float32_take_halves(run, name, kind):
    """What comes last is a float32 (PTX ISA 8.6, from sm_100 on)."""
    rng = np.random.default_rng(5)
    a, b = (np.resize(x, 300) for x in grid(kind))
    c = np.resize(rng.permutation(F32), 300)
    c[50:] = rng.standard_normal(250).astype("f4")
    c[200:] = -(a.astype("f4") * b.astype("f4"))[200:]
    operands = "%a, %b, %c" if name == "fma" else "%a, %c"
    wide = [x.astype("f4") for x in (a, b, c)]
    expected = MIXED[name](*wide)
    arrays = (a.view("u2"), b.view("u2"), c.view("u4"))
    same(run(f"{name}.rn.f32.{kind} %d, {operands};", *arrays, out="u4"), expected)
    within = np.where(expected > 0, np.minimum(expected, np.float32(1)), np.float32(0))
    found = run(f"{name}.rn.sat.f32.{kind} %d, {operands};", *arrays, out="u4")
    same(found, within.astype("f4"))


def _fma_exact(x, y, z, kind):
    """The sum rounded to the half's precision, subnormal ones at their fixed place."""
    bits, least = {"f16": (11, -24), "bf16": (8, -133)}[kind]
    with mpmath.workprec(3000):
        exact = mpmath.mpf(x) * mpmath.mpf(y) + mpmath.mpf(z)
        if exact == 0:
            return x * y + z
        exponent = max(int(mpmath.floor(mpmath.log(abs(exact), 2))) - bits + 1, least)
        scaled = mpmath.nint(mpmath.ldexp(exact, -exponent))
        return float(mpmath.ldexp(scaled, exponent))


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_know_nan_and_signed_zeroes(run, name, kind):
    a, b = grid(kind)
    x, y = a.astype("f8"), b.astype("f8")
    less = (x < y) | ((x == y) & np.signbit(x) & ~np.signbit(y))
    pick = less if name == "min" else ~less
    plain = np.where(np.isnan(x), y, np.where(np.isnan(y), x, np.where(pick, x, y)))
    same(launch(run, f"{name}.{kind} %d, %a, %b;", kind, a, b), plain.astype(a.dtype))
    if kind == "f64":
        return
    strict = np.where(np.isnan(x) | np.isnan(y), np.nan, plain)
    same(launch(run, f"{name}.NaN.{kind} %d, %a, %b;", kind, a, b), strict.astype(a.dtype))


def test_flush_to_zero_and_saturation(run):
    a, b = grid("f32")
    flush = lambda v: np.where(np.abs(v) < 2.0**-126, np.copysign(np.float32(0), v), v)
    expected = flush((flush(a) * flush(b)).astype("f4")).astype("f4")
    same(launch(run, "mul.ftz.f32 %d, %a, %b;", "f32", a, b), expected)
    total = a + b
    clamped = np.where(total > 0, np.minimum(total, 1), 0).astype("f4")
    same(launch(run, "add.sat.f32 %d, %a, %b;", "f32", a, b), clamped)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_both_halves_of_a_register(run, kind):
    a, b = grid(kind)
    a, b = a[: len(a) // 2 * 2], b[: len(b) // 2 * 2]
    found = run(f"add.rn.{kind}x2 %d, %a, %b;", a.view("u4"), b.view("u4"), out="u4")
    same(found.view("u2"), (a.astype("f4") + b.astype("f4")).astype(a.dtype))
    found = run(f"fma.rn.relu.{kind}x2 %d, %a, %b, %a;", a.view("u4"), b.view("u4"), out="u4")
    wide = a.astype("f8") * b.astype("f8") + a.astype("f8")
    expected = np.where(wide > 0, wide, np.where(np.isnan(wide), np.nan, 0)).astype(a.dtype)
    same(found.view("u2"), expected)


def test_exponentials_and_logarithms(run):
    x = np.concatenate([np.linspace(-160, 140, 900), F32]).astype("f4")
    expected = np.exp2(x.astype("f8")).astype("f4")
    found = launch(run, "ex2.approx.f32 %d, %a;", "f32", x).view("f4")
    assert_within(found, expected, 1)
    x = np.concatenate([np.geomspace(1e-44, 3e38, 900), np.linspace(0.9, 1.1, 80), F32]).astype(
        "f4"
    )
    expected = np.log2(x.astype("f8")).astype("f4")
    assert_within(launch(run, "lg2.approx.f32 %d, %a;", "f32", x).view("f4"), expected, 1)


def assert_within(found, expected, ulps):
    special = ~np.isfinite(expected)
    same(found[special], expected[special])
    apart = np.abs(found[~special].astype("f8") - expected[~special])
    assert (apart <= ulps * np.spacing(np.abs(expected[~special])).astype("f8")).all()


@pytest.mark.parametrize("name", ["sin", "cos", "tanh", "rsqrt", "sqrt", "rcp"])
def test_approximate_functions(run, name):
    x = np.concatenate([np.linspace(-10, 10, 300), F32]).astype("f4")
    wide = x.astype("f8")
    expected = {
        "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "rsqrt": lambda v: 1 / np.sqrt(v),
        "sqrt": np.sqrt, "rcp": lambda v: 1 / v,
    }[name](wide).astype("f4")  # fmt: skip
    assert_within(launch(run, f"{name}.approx.f32 %d, %a;", "f32", x).view("f4"), expected, 1)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_classes_of_numbers(run, kind):
    a = values(kind)
    size, least = np.abs(a), np.finfo(a.dtype).smallest_normal
    classes = {
        "finite": np.isfinite(a), "infinite": np.isinf(a), "number": ~np.isnan(a),
        "notanumber": np.isnan(a), "normal": np.isfinite(a) & (size >= least),
        "subnormal": (size > 0) & (size < least),
    }  # fmt: skip
    for name, expected in classes.items():
        code = f"testp.{name}.{kind} %p0, %a; selp.u32 %d, 1, 0, %p0;"
        assert launch(run, code, kind, a, out="u4").astype(bool).tolist() == expected.tolist(), name


COMPARISONS = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: ~(x == y) & ~(np.isnan(x) | np.isnan(y)),
    "lt": lambda x, y: x < y, "ge": lambda x, y: x >= y,
    "equ": lambda x, y: (x == y) | np.isnan(x) | np.isnan(y), "neu": lambda x, y: x != y,
    "ltu": lambda x, y: ~(x >= y), "gtu": lambda x, y: ~(x <= y),
    "num": lambda x, y: ~(np.isnan(x) | np.isnan(y)), "nan": lambda x, y: np.isnan(x) | np.isnan(y),
}  # fmt: skip


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_of_floats(run, name, kind):
    a, b = grid(kind)
    found = launch(
        run, f"setp.{name}.{kind} %p0, %a, %b; selp.u32 %d, 1, 0, %p0;", kind, a, b, out="u4"
    )
    expected = COMPARISONS[name](a.astype("f8"), b.astype("f8"))
    assert found.astype(bool).tolist() == expected.tolist()


def test_signs(run):
    a, b = grid("f32")
    same(launch(run, "neg.f32 %d, %a;", "f32", a), -a)
    same(launch(run, "abs.f32 %d, %a;", "f32", a), np.abs(a))
    same(launch(run, "copysign.f32 %d, %a, %b;", "f32", a, b), np.copysign(b, a))


def test_constants_are_patterns_of_bits(run):
    a = np.zeros(4, "f4")
    assert launch(run, "mov.f32 %d, 0f40490FDB;", "f32", a).view("f4")[0] == np.float32(math.pi)
    found = run("mov.f64 %d, 0d400921FB54442D18;", a.view("u4"), out="u8")
    assert found.view("f8")[0] == math.pi
    assert launch(run, "add.f32 %d, %a, 1.25;", "f32", a).view("f4")[0] == 1.25
