"""cvt against NumPy, ml_dtypes and exact arithmetic."""

import ml_dtypes
import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
FLOATS = np.array(
    [0.0, -0.0, 0.49, 0.5, 0.51, 1.5, 2.5, -0.5, -1.5, -2.5, 127.5, 128.0, 255.0, 256.0, -129.0,
     32768.0, 65535.7, 65536.0, 2147483520.0, 2147483648.0, 4294967296.0, -2147483648.0, 1e10,
     9.3e18, 1.9e19, -1e19, 1e38, np.inf, -np.inf, np.nan, 1e-40, 0.1, 3.14159], "f4",
)  # fmt: skip
ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@pytest.mark.parametrize("target", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("how", ROUND)
def test_floats_to_integers_are_clamped(run, how, target):
    bits = int(target[1:])
    low, high = (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if target[0] == "s" else (0, (1 << bits) - 1)
    )
    for kind in ("f32", "f64"):
        x = FLOATS.astype(DTYPES[kind])
        code = f"cvt.{how}.{target}.{kind} %d, %a;"
        found = run(code, x.view(f"u{x.itemsize}"), out=f"u{max(2, bits // 8)}")
        for value, got in zip(x.tolist(), found.tolist(), strict=True):
            if np.isnan(value):
                wanted = (1 << (bits - 1)) if kind == "f64" or bits == 64 else 0
                got &= (1 << bits) - 1
            elif np.isinf(value):
                wanted = high if value > 0 else low
            else:
                wanted = min(max(int(ROUND[how](value)), low), high)
            assert got & ((1 << bits) - 1) == wanted & ((1 << bits) - 1), (code, value)


@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("source", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
def test_integers_to_floats_round_to_nearest(run, source, target):
    bits = int(source[1:])
    if (target, bits) == ("bf16", 8):
        pytest.skip("PTX has no bfloat16 from integers of 8 bits")
    kind = np.dtype(f"{'i' if source[0] == 's' else 'u'}{max(2, bits // 8)}")
    edges = [0, 1, 2, 3, (1 << (bits - 1)) - 1, 1 << (bits - 1), (1 << bits) - 1, 77 % (1 << bits),
             (1 << bits) - 77]  # fmt: skip
    if bits >= 32:
        edges += [16777217, 16777219, 0x7FFFFF80, 65519, 65520, 2049, 2051, 257, 259]
    values = [v - (1 << bits) if source[0] == "s" and v >> (bits - 1) else v for v in edges]
    x = np.array(edges, f"u{kind.itemsize}")
    found = run(f"cvt.rn.{target}.{source} %d, %a;", x, out=f"u{np.dtype(DTYPES[target]).itemsize}")
    expected = np.array([float(v) if abs(v) < 1 << 53 else v for v in values], "f8")
    if target == "f32":
        expected = np.array([np.float32(v) for v in values])  # NumPy rounds Python's integers once
    assert found.view(DTYPES[target]).tolist() == expected.astype(DTYPES[target]).tolist()


@pytest.mark.parametrize("source", ["s64", "u64"])
def test_wide_integers_are_rounded_once(run, source):
    """To bfloat16 over float64 the last bit of a tail would be lost: a tie would be seen."""
    x = np.array([(1 << 60) + (1 << 52) + 1, (1 << 60) + (1 << 52), (1 << 60) + 3 * (1 << 52) - 1,
                  (1 << 62) + (1 << 54) + 3], "u8")  # fmt: skip
    found = run(f"cvt.rn.bf16.{source} %d, %a;", x, out="u2").view(DTYPES["bf16"]).astype("f8")
    unit = float(1 << 53)
    assert found.tolist() == [2.0**60 + unit, 2.0**60, 2.0**60 + unit, 2.0**62 + 4 * unit]
    if source == "s64":
        found = run("neg.s64 %a, %a; cvt.rn.bf16.s64 %d, %a;", x, out="u2").view(DTYPES["bf16"])
        assert found.astype("f8")[0] == -(2.0**60 + unit)


def test_directed_rounding_of_integers(run):
    x = np.array([16777217, 16777219, -16777217, 2147483647], "i4")
    found = {r: run(f"cvt.{r}.f32.s32 %d, %a;", x.view("u4"), out="f4").astype("i8").tolist()
             for r in ("rz", "rm", "rp")}  # fmt: skip
    assert found["rz"] == [16777216, 16777218, -16777216, 2147483520]
    assert found["rm"] == [16777216, 16777218, -16777218, 2147483520]
    assert found["rp"] == [16777218, 16777220, -16777216, 2147483648]


@pytest.mark.parametrize("target", ["u8", "s8", "u16", "s16", "u32", "s32"])
def test_integers_saturate_where_asked(run, target):
    bits = int(target[1:])
    low, high = (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if target[0] == "s" else (0, (1 << bits) - 1)
    )
    x = np.array([0, 1, -1, 127, 128, 255, 256, -128, -129, 65536, 1 << 40, -(1 << 40)], "i8")
    found = run(f"cvt.sat.{target}.s64 %d, %a;", x.view("u8"), out="u4")
    assert (
        found.view("i4").tolist()
        == np.array([min(max(int(v), low), high) for v in x], "i8")
        .astype("u4" if target[0] == "u" else "i4")
        .view("i4")
        .tolist()
    )


def test_integers_are_extended_by_the_sign_of_their_source(run):
    x = np.array([0x80, 0x7F, 0xFFFF, 0x8001], "u2")
    assert run("cvt.s32.s8 %d, %a;", x, out="i4").tolist() == [-128, 127, -1, 1]
    assert run("cvt.u32.s8 %d, %a;", x, out="u4").tolist() == [2**32 - 128, 127, 2**32 - 1, 1]
    assert run("cvt.u64.u16 %d, %a;", x, out="u8").tolist() == x.tolist()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_every_half_widens(run, kind):
    x = np.arange(1 << 16, dtype="u2")[::67]
    found = run(f"cvt.f32.{kind} %d, %a;", x[:900], out="f4")
    np.testing.assert_array_equal(found, x[:900].view(DTYPES[kind]).astype("f4"))


def around_halves(kind):
    """Numbers at and beside the middles between neighbouring halves."""
    rng = np.random.default_rng(6)
    a = rng.integers(0, 1 << 16, 250, dtype="u2").view(DTYPES[kind]).astype("f8")
    b = np.nextafter(a.astype(DTYPES[kind]), DTYPES[kind](np.inf)).astype("f8")
    middle = (a + b) / 2
    return np.concatenate([a, middle, middle * (1 + 2.0**-50), middle * (1 - 2.0**-50)])


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_halves_are_rounded_once(run, source, kind):
    x = around_halves(kind).astype(DTYPES[source])
    found = run(f"cvt.rn.{kind}.{source} %d, %a;", x.view(f"u{x.itemsize}"), out="u2")
    expected = nearest(x.astype("f8"), kind)
    found = found.view(DTYPES[kind]).astype("f8")
    np.testing.assert_array_equal(found, expected)


def nearest(x, kind, how=np.rint):
    """Float64 rounded to a half in one step."""
    bits, least, most = {"f16": (11, -24, 65504.0), "bf16": (8, -133, 3.3895313892515355e38)}[kind]
    exponent = np.maximum(np.frexp(x)[1] - bits, least)
    found = np.ldexp(how(np.ldexp(x, -exponent)), exponent)
    step = np.ldexp(1.0, np.frexp(most)[1] - bits)
    return np.where(np.abs(found) > most, np.sign(found) * np.where(how is np.trunc, most, np.inf),
                    found) if step else found  # fmt: skip


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_halves_towards_zero(run, kind):
    x = around_halves(kind).astype("f4")
    x = x[np.isfinite(x)]
    found = run(f"cvt.rz.{kind}.f32 %d, %a;", x.view("u4"), out="u2").view(DTYPES[kind])
    np.testing.assert_array_equal(found.astype("f8"), nearest(x.astype("f8"), kind, np.trunc))


def test_doubles_to_floats_in_every_rounding(run):
    x = np.array([1 + 2.0**-30, -1 - 2.0**-30, 1e300, -1e300, 1e-46, 0.1])
    f = lambda *v: [np.float32(n) for n in v]
    up, down = np.nextafter(np.float32(1), np.float32(2)), np.float32(3.4028235e38)
    tenth = np.float32(0.1)
    under = np.nextafter(tenth, np.float32(0))
    expected = {
        "rn": f(1, -1, np.inf, -np.inf, 0, tenth),
        "rz": f(1, -1, down, -down, 0, under),
        "rm": f(1, -up, down, -np.inf, 0, under),
        "rp": f(up, -1, np.inf, -down, 1e-45, tenth),
    }
    for how, wanted in expected.items():
        found = run(f"cvt.{how}.f32.f64 %d, %a;", x.view("u8"), out="f4")
        assert found.tolist() == [float(v) for v in wanted], how


def test_two_floats_become_a_pair_with_the_first_on_top(run):
    a, b = (np.array(v, "f4") for v in ([1.5, -2.0, 1e9], [0.25, np.nan, 3.0]))
    for kind in ("f16", "bf16"):
        found = run(f"cvt.rn.{kind}x2.f32 %d, %a, %b;", a.view("u4"), b.view("u4"), out="u4")
        halves = found.view("u2").reshape(-1, 2)
        for half, expected in ((1, a), (0, b)):
            np.testing.assert_array_equal(
                halves[:, half].view(DTYPES[kind]).astype("f4"),
                expected.astype(DTYPES[kind]).astype("f4"),
            )


def test_floats_are_rounded_to_whole_ones(run):
    for how, function in ROUND.items():
        found = run(f"cvt.{how}.f32.f32 %d, %a;", FLOATS.view("u4"), out="f4")
        np.testing.assert_array_equal(found, function(FLOATS))


def test_saturation_to_the_unit_interval(run):
    found = run("cvt.sat.f32.f32 %d, %a;", FLOATS.view("u4"), out="f4")
    np.testing.assert_array_equal(found, np.where(FLOATS > 0, np.minimum(FLOATS, 1), 0))


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_floats_of_eight_bits(run, kind):
    dtype = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[kind]
    every = np.arange(256, dtype="u1").view(dtype).astype("f4")
    pairs = np.arange(256, dtype="u2") | np.arange(256, dtype="u2")[::-1] << 8
    found = run(f"cvt.rn.f16x2.{kind}x2 %d, %a;", pairs, out="u4").view("f2").reshape(-1, 2)
    np.testing.assert_array_equal(found[:, 0], every.astype("f2"))
    np.testing.assert_array_equal(found[:, 1], every[::-1].astype("f2"))
    finite = np.sort(every[np.isfinite(every)])
    x = np.concatenate([every, (finite[1:] + finite[:-1]) / 2, [1e9, -1e9, np.inf, -np.inf, 1e-9]])
    x = np.concatenate([x, x * np.float32(1 + 2.0**-20)]).astype("f4")[:1024]
    code = f"cvt.rn.satfinite.{kind}x2.f32 %d, %a, %a;"
    found = run(code, x.view("u4"), out="u2")
    most = finite[-1]
    expected = np.clip(x, -most, most).astype(dtype)
    bits = found.astype("u1").view(dtype).astype("f4")
    np.testing.assert_array_equal(bits, expected.astype("f4"))
    assert (found >> 8 == found & 255).all()


def test_tf32_keeps_ten_bits(run):
    x = np.random.default_rng(7).standard_normal(100).astype("f4")
    nan = run("cvt.rna.tf32.f32 %d, %a;", np.full_like(x.view("u4"), 0x7FFFFFFF), out="u4")
    assert np.isnan(nan.view("f4")).all()
    found = run("cvt.rna.tf32.f32 %d, %a;", x.view("u4"), out="u4")
    assert (found & 0x1FFF == 0).all()
    assert (np.abs(found.view("f4") - x) <= np.abs(x) * 2.0**-11).all()
