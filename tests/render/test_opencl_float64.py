"""float64 emulated in integers, bit for bit against NumPy and exact fractions."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.dtype import DType
from treadle.errors import SettingError
from treadle.ir.elementwise import apply_alu, cast_array, numpy_dtype
from treadle.ir.node import Node, alu
from treadle.ir.op import Op
from treadle.lower.math import MATH
from treadle.render.opencl_float64 import _FUNCTIONS, float64_helpers

from .conftest import EMULATED, need
from .kernels import apply, elementwise, source

F64 = dtypes.float64
SPECIAL = [
    0.0, 1.0, 1.5, 0.5, 2.5, 3.0, 1 / 3, 1e300, 1e-300, math.inf, math.nan,
    # subnormals, the borders of what is normal, and of what is finite
    5e-324, 1e-323, 2.0**-1022 / 3, 2.2250738585072009e-308, 2.2250738585072014e-308,
    2.225073858507202e-308, 2.0**-511, 2.0**-537, 2.0**511, 8.98846567431158e307,
    1.7976931348623157e308,
    # halfway, and next to it
    1 - 2.0**-53, 1 + 2.0**-52, 0.5 - 2.0**-54, 0.5 + 2.0**-53, 1.5 - 2.0**-52, 2.0**51 + 0.5,
    2.0**52 - 0.5, 2.0**52 + 1, 2.0**53, 2.0**53 + 2, 2.0**54 + 4, 2.0**-53, 2.0**-54,
    # the ends of float32, and of the integers
    3.4028235677973366e38, 3.4028235677973362e38, 1.401298464324817e-45, 7.006492321624085e-46,
    7.006492321624087e-46, 1.1754943508222875e-38, 2.0**31 - 0.5, 2.0**31, 2.0**63,
    2.0**63 - 1024, 2.0**64, 2.0**64 - 2048,
]  # fmt: skip


@pytest.fixture(scope="module")
def emulated():
    """OpenCL without float64."""
    return need(EMULATED)


def bits(rng: np.random.Generator, count: int) -> np.ndarray:
    """float64 of any bits at all."""
    return rng.integers(0, 1 << 64, count, np.uint64).view(np.float64)


def pairs(seed: int, count: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special values; random bits; near numbers, with halfway cases."""
    rng = np.random.default_rng(seed)
    special = np.array([sign * v for v in SPECIAL for sign in (1, -1)])
    a, b = bits(rng, count), bits(rng, count)
    # The exponent of b within 60 of that of a, and in half of them few bits in both.
    lines = a.view(np.uint64)
    exponent = (lines >> np.uint64(52)) & np.uint64(0x7FF)
    near = np.clip(exponent.astype(np.int64) + rng.integers(-60, 61, count), 0, 2046)
    b = (b.view(np.uint64) & ~np.uint64(0x7FF << 52)) | (near.astype(np.uint64) << np.uint64(52))
    blunt = ~((np.uint64(1) << rng.integers(0, 53, count).astype(np.uint64)) - np.uint64(1))
    b, lines = b & blunt, np.where(rng.random(count) < 0.5, lines & blunt, lines)
    wide = bits(rng, count), bits(rng, count)
    x = np.concatenate([np.repeat(special, special.size), lines.view(np.float64), wide[0]])
    y = np.concatenate([np.tile(special, special.size), b.view(np.float64), wide[1]])
    size = -(-x.size // 4) * 4
    return np.resize(x, size), np.resize(y, size)


def assert_same_bits(ours: np.ndarray, want: np.ndarray, *sources: np.ndarray) -> None:
    """Equal to the sign of zero; any NaN is as good as another."""
    want = want.astype(ours.dtype)
    raw = np.uint64 if ours.dtype == np.float64 else np.uint32
    same = (ours.view(raw) == want.view(raw)) | (np.isnan(ours) & np.isnan(want))
    wrong = np.flatnonzero(~same)[:4]
    shown = [
        ([s[i].hex() for s in sources], float(ours[i]).hex(), float(want[i]).hex()) for i in wrong
    ]
    assert same.all(), shown


BINARY = {
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.FDIV: np.divide,
}  # fmt: skip
UNARY = {
    Op.NEG: np.negative, Op.TRUNC: np.trunc, Op.FLOOR: np.floor, Op.CEIL: np.ceil,
    Op.ROUND: np.rint,
}  # fmt: skip


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
def test_arithmetic_is_rounded_once(emulated, op, lanes):
    a, b = pairs(1)
    (ours,) = apply(emulated, lambda x, y: [alu(op, x, y)], [F64], [(F64, a), (F64, b)], lanes)
    with np.errstate(all="ignore"):
        assert_same_bits(ours, BINARY[op](a, b), a, b)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("op", UNARY, ids=lambda op: op.name)
def test_signs_and_whole_numbers(emulated, op, lanes):
    a, _ = pairs(2)
    places = np.random.default_rng(3).integers(0, 1 << 53, 4000) * 2.0 ** np.arange(-60, 20, 0.02)
    a = np.concatenate([a, places, np.arange(-500, 500) / 8])
    (ours,) = apply(emulated, lambda x: [alu(op, x)], [F64], [(F64, a)], lanes)
    with np.errstate(all="ignore"):
        assert_same_bits(ours, UNARY[op](a), a)


@pytest.mark.parametrize("lanes", [1, 4])
def test_square_roots_are_rounded_once(emulated, lanes):
    a, b = pairs(4)
    exact = np.random.default_rng(5).integers(1, 1 << 26, 4000).astype(np.float64)
    # Squares of 53 bits, and their neighbours: the roots nearest to a tie.
    squares = np.concatenate([exact * exact, *(np.nextafter(exact**2, s) for s in (0, np.inf))])
    a = np.concatenate([a, np.abs(b), squares])
    (ours,) = apply(emulated, lambda x: [alu(Op.SQRT, x)], [F64], [(F64, a)], lanes)
    with np.errstate(all="ignore"):
        assert_same_bits(ours, np.sqrt(a), a)


def rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def fused(a: float, b: float, c: float) -> float:
    """a * b + c by exact arithmetic."""
    if math.isnan(a) or math.isnan(b) or math.isnan(c):
        return math.nan
    if math.isinf(a) or math.isinf(b):
        return a * b + c
    if math.isinf(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact != 0:
        return rounded(exact)
    sign = math.copysign(1, a) * math.copysign(1, b)
    return -0.0 if a * b == 0 == c and sign == math.copysign(1, c) == -1 else 0.0


def triples() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    special = np.array([sign * v for v in SPECIAL for sign in (1, -1)])
    any_three = [rng.choice(special, 6000) for _ in range(3)]
    x, y = (values[-12_000:] for values in pairs(7, 6000))
    with np.errstate(all="ignore"):
        product = x * y
        z = product.copy()
        # Near cancellation: the addend is the product, rounded, moved by a few places, or scaled.
        z[::4] = -product[::4]
        moved = (-product[1::4]).view(np.int64) + rng.integers(-3, 4, z[1::4].size)
        z[1::4] = moved.view(np.float64)
        z[2::4] *= 2.0 ** rng.integers(-120, 121, z[2::4].size)
        z[3::4] = bits(rng, z[3::4].size)
    # Products below the least subnormal beside tiny addends.
    low = np.ldexp(rng.random(2000) + 1, rng.integers(-1022, -1000, 2000))
    factor, tiny = np.exp2(rng.integers(-80, 20, 2000)), rng.integers(-50, 50, 2000) * 5e-324
    a, b, c = map(np.concatenate, zip(any_three, (x, y, z), (low, factor, tiny), strict=True))
    return a, b, c


def test_fused_multiply_and_add_is_rounded_once(emulated):
    a, b, c = triples()
    kinds = [(F64, a), (F64, b), (F64, c)]
    with np.errstate(all="ignore"):
        want = np.array(
            [fused(*row) for row in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
        )
        reference = apply_alu(Op.FMA, F64, (F64,) * 3, (a, b, c))
    for lanes in (1, 4):
        (ours,) = apply(
            emulated, lambda x, y, z: [Node(Op.FMA, x.dtype, (x, y, z))], [F64], kinds, lanes
        )
        assert_same_bits(ours, want, a, b, c)
    assert_same_bits(reference, want, a, b, c)


@pytest.mark.parametrize("lanes", [1, 4])
def test_remainders_are_exact(emulated, lanes):
    a, b = pairs(8, 8000)
    (ours,) = apply(emulated, lambda x, y: [alu(Op.MOD, x, y)], [F64], [(F64, a), (F64, b)], lanes)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(ours, np.remainder(a, b))


@pytest.mark.parametrize("lanes", [1, 4])
def test_order_and_extremes(emulated, lanes):
    a, b = pairs(9, 4000)
    b[::5] = a[::5]
    function = lambda x, y: [x < y, x.eq(y), x.ne(y), x.maximum(y), x.minimum(y)]
    kinds = [dtypes.bool] * 3 + [F64] * 2
    ours = apply(emulated, function, kinds, [(F64, a), (F64, b)], lanes)
    want = [a < b, a == b, a != b, np.maximum(a, b), np.minimum(a, b)]
    for result, expected in zip(ours, want, strict=True):
        np.testing.assert_array_equal(result, expected)


INTEGERS = [*dtypes.ints, dtypes.bool]


def integers(dtype: DType) -> np.ndarray:
    """Integers of every length in bits, and those next to where 53 bits end."""
    rng = np.random.default_rng(10)
    raw = rng.integers(0, 1 << 64, 6000, np.uint64) >> rng.integers(0, 64, 6000).astype(np.uint64)
    ties = [
        (1 << n) + half * (1 << (n - 53)) // 2 + near
        for n in range(53, 64)
        for half in (1, 3, 5)
        for near in (-1, 0, 1)
    ]
    values = np.concatenate([raw, np.array(ties, np.uint64), np.zeros(1, np.uint64)])
    values = np.concatenate([values, np.uint64(0) - values])
    return values.astype(numpy_dtype(dtype))


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_become_float64_rounded_once(emulated, dtype, lanes):
    a = np.resize(integers(dtype), 12_000)
    (ours,) = apply(emulated, lambda x: [x.cast(F64)], [F64], [(dtype, a)], lanes)
    assert_same_bits(ours, cast_array(a, F64), a.astype(np.float64))


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_float64_becomes_integers_by_truncation(emulated, dtype, lanes):
    rng = np.random.default_rng(11)
    scaled = rng.standard_normal(8000) * np.exp2(rng.integers(-3, 70, 8000))
    a = np.concatenate([pairs(12, 2000)[0], scaled])
    (ours,) = apply(emulated, lambda x: [x.cast(dtype)], [dtype], [(F64, a)], lanes)
    np.testing.assert_array_equal(ours, cast_array(a, dtype))


def singles() -> np.ndarray:
    """float32 of any bits, many of them subnormal."""
    values = np.random.default_rng(13).integers(0, 1 << 32, 8000, np.uint64).astype(np.uint32)
    values[::8] &= np.uint32(0x807FFFFF)
    return values.view(np.float32)


@pytest.mark.parametrize("lanes", [1, 4])
def test_narrower_floats_are_rounded_once(emulated, lanes):
    with np.errstate(all="ignore"):
        halfway = (singles().astype(np.float64) + np.nextafter(singles(), np.float32(0))) / 2
    near = [halfway, np.nextafter(halfway, 0), np.nextafter(halfway, np.inf)]
    a = np.concatenate([pairs(14, 4000)[0], *near, np.float64(2.0) ** np.arange(-1074, 1022)])
    for dtype in (dtypes.float32, dtypes.float16, dtypes.bfloat16):
        (ours,) = apply(emulated, lambda x, d=dtype: [x.cast(d)], [dtype], [(F64, a)], lanes)
        with np.errstate(all="ignore"):
            want = cast_array(a, dtype)
        assert_same_bits(ours.astype(np.float32), want.astype(np.float32), a)


@pytest.mark.parametrize("lanes", [1, 4])
def test_float32_becomes_float64_as_it_is(emulated, lanes):
    a = singles()
    (ours,) = apply(emulated, lambda x: [x.cast(F64)], [F64], [(dtypes.float32, a)], lanes)
    with np.errstate(all="ignore"):
        assert_same_bits(ours, a.astype(np.float64), a)


@pytest.mark.parametrize("error", ["0x1.00001p0f", "0x1.ffffep-1f"])
def test_poor_estimates_of_reciprocals_suffice(emulated, monkeypatch, error):
    """2**-20: OpenCL allows 4 units in the last place of a float32."""
    for name, estimate in (("div_f64", "0x1p125f"), ("sqrt_f64", "0x1p93f")):
        needed, text = _FUNCTIONS[name]
        assert estimate in text
        worse = text.replace(estimate, f"{error} * {estimate}")
        monkeypatch.setitem(_FUNCTIONS, name, (needed, worse))
    a, b = pairs(16)
    function = lambda x, y: [x / y, alu(Op.SQRT, x)]
    ours = apply(emulated, function, [F64, F64], [(F64, a), (F64, b)])
    with np.errstate(all="ignore"):
        assert_same_bits(ours[0], a / b, a, b)
        assert_same_bits(ours[1], np.sqrt(a), a)


# -- the text -------------------------------------------------------------------------------------


def everything(x: Node, y: Node) -> list[Node]:
    values = [alu(op, x, y) for op in (*BINARY, Op.MOD, Op.MAX, Op.MIN)]
    values += [alu(op, x) for op in (*UNARY, Op.SQRT, Op.RECIP)]
    values += [alu(op, x, y) if op is Op.POW else alu(op, x) for op in MATH]
    values += [
        Node(Op.FMA, x.dtype, (x, y, x)),
        (x < y).where(x, y.like(0.1)),
        x.cast(dtypes.half).cast(F64),
    ]
    values += [x.cast(d).cast(F64) for d in (*dtypes.ints, dtypes.bool, dtypes.bfloat16)]
    return values


@pytest.mark.parametrize("lanes", [1, 4])
def test_the_text_has_no_double(emulated, lanes):
    count = len(everything(Node.const(F64, 1.0), Node.const(F64, 2.0)))
    text = source(emulated, elementwise([F64] * 2, [F64] * count, everything, 64, lanes))
    assert "_f64(" in text
    assert "double" not in text
    assert "fp64 " not in text
    numbers = re.findall(r"(?<![\w.])(?:0x[\da-f.]+p[+-]?\d+|\d+\.\d*(?:e[+-]?\d+)?)\w?", text)
    assert [n for n in numbers if not n.endswith("f")] == []  # without an f they are doubles


def test_functions_come_only_where_they_are_used(emulated):
    def text(dtype: DType) -> str:
        return source(emulated, elementwise([dtype] * 2, [dtype], lambda x, y: [x + y], 64))

    assert "f64" not in text(dtypes.float32).lower()
    found = re.findall(r"^\w+ (\w+_f64)\(", text(F64), re.MULTILINE)
    assert found == ["shift_f64", "pack_f64", "add_f64"]


def test_every_function_comes_after_what_it_calls():
    for name, (needed, text) in _FUNCTIONS.items():
        called = set(re.findall(r"\b(\w*f64\w*)\(", text)) - {name}
        assert called == set(needed), name
    assert float64_helpers([]) == []


# -- whole tensors --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def doubles(emulated):
    """The name of a device without float64."""
    return EMULATED


@pytest.fixture(params=[EMULATED, "CL:OPENCL:gpu,-fp64"])
def device(request, emulated):
    """The same, scheduled in slices and in workgroups."""
    return request.param


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(15).standard_normal(shape)


@pytest.mark.parametrize("size", [5, 64, 70])
def test_products_of_matrices(device, size):
    a, b = numbers(size, 80), numbers(80, size)
    ours = (Tensor(a, device=device) @ Tensor(b, device=device)).numpy()
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, a @ b, rtol=0, atol=1e-13)


def test_reductions_and_scans(device):
    a = numbers(33, 129)
    x = Tensor(a, device=device).realize()
    np.testing.assert_allclose(x.sum().numpy(), a.sum(), rtol=1e-12)
    np.testing.assert_allclose(x.sum(axis=0).numpy(), a.sum(0), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(x.min(axis=0).numpy(), a.min(0))
    np.testing.assert_array_equal(x.max(axis=1).numpy(), a.max(1))
    np.testing.assert_array_equal(x.argmax(axis=1).numpy(), a.argmax(1))
    np.testing.assert_allclose(x.prod(axis=1).numpy(), a.prod(1), rtol=1e-12)
    np.testing.assert_allclose(x.cumsum(1).numpy(), a.cumsum(1), rtol=0, atol=1e-12)


def test_softmax_and_layer_norm(device):
    a = numbers(20, 65)
    x = Tensor(a, device=device)
    shares = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(
        x.softmax().numpy(), shares / shares.sum(1, keepdims=True), rtol=1e-13
    )
    centred = a - a.mean(1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(x.layernorm().numpy(), want, rtol=1e-11, atol=1e-14)


FUNCTIONS = {
    "exp": (np.exp, -700, 700), "exp2": (np.exp2, -1000, 1000), "log": (np.log, 1e-300, 1e300),
    "log2": (np.log2, 1e-300, 1e300), "sin": (np.sin, -1e3, 1e3), "cos": (np.cos, -1e3, 1e3),
    "tan": (np.tan, -1e3, 1e3), "tanh": (np.tanh, -20, 20),
}  # fmt: skip


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="no wider float to compare with")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_transcendentals_are_within_four_ulp(doubles, name):
    function, low, high = FUNCTIONS[name]
    a = np.geomspace(low, high, 5000) if low > 0 else np.linspace(low, high, 5000)
    ours = getattr(Tensor(a, device=doubles), name)().numpy()
    truth = function(a.astype(np.longdouble))
    errors = np.abs(ours - truth) / np.spacing(np.abs(truth.astype(np.float64)))
    assert errors.max() <= 4


def test_powers_are_within_four_ulp(doubles):
    a, b = np.abs(numbers(5000)) + 1e-3, numbers(5000)[::-1].copy() * 50
    ours = (Tensor(a, device=doubles) ** Tensor(b, device=doubles)).numpy()
    truth = np.power(a.astype(np.longdouble), b)
    assert (np.abs(ours - truth) / np.spacing(truth.astype(np.float64))).max() <= 4


def test_gradients(device):
    a, b = numbers(12, 9), numbers(9, 7)
    x, y = (Tensor(v, device=device, requires_grad=True) for v in (a, b))
    ((x @ y).tanh() * x.sum(axis=1, keepdim=True)).sum().backward()
    inner = np.tanh(a @ b)
    outer = a.sum(1, keepdims=True) * (1 - inner**2)
    assert x.grad.dtype is F64
    np.testing.assert_allclose(
        x.grad.numpy(), outer @ b.T + inner.sum(1, keepdims=True), atol=1e-12
    )
    np.testing.assert_allclose(y.grad.numpy(), a.T @ outer, atol=1e-12)


def test_random_numbers_are_those_of_every_device(doubles):
    Tensor.manual_seed(7)
    ours = Tensor.rand(1000, dtype="float64", device=doubles).numpy()
    normal = Tensor.randn(1000, dtype="float64", device=doubles).numpy()
    Tensor.manual_seed(7)
    np.testing.assert_array_equal(ours, Tensor.rand(1000, dtype="float64", device="REF").numpy())
    want = Tensor.randn(1000, dtype="float64", device="REF").numpy()
    np.testing.assert_allclose(normal, want, rtol=1e-13, atol=1e-15)


def test_memory_holds_doubles_as_every_device_does(doubles):
    a = np.array([*SPECIAL, *(-v for v in SPECIAL)])
    x = Tensor(a, device=doubles).realize()
    assert_same_bits(x.numpy(), a)
    assert_same_bits(x.flip(0).contiguous().to("CPU").numpy(), a[::-1].copy())
    assert_same_bits(Tensor(a, device="CPU").realize().to(doubles).neg().numpy(), -a)
    np.testing.assert_array_equal(x.bitcast(dtypes.uint64).numpy(), a.view(np.uint64))


# -- choosing it ----------------------------------------------------------------------------------


def test_a_device_without_doubles_emulates_them(emulated, monkeypatch):
    from treadle.runtime.cl import platforms

    facts = replace(emulated.runtime.facts, has_double=False)
    target = platforms.target_of(facts, None)
    assert target.emulates_float64
    assert F64 not in target.dtypes
    assert target.supports(F64)
    native = platforms.target_of(replace(facts, has_double=True), None)
    assert native.supports(F64)
    assert native.is_native(F64)
    assert native.code_key != target.code_key
    monkeypatch.setattr(platforms, "find_devices", lambda: (facts,))
    assert "float64 emulated" in platforms.describe()


def test_emulation_is_a_word_of_the_architecture(emulated):
    from treadle.runtime.cl.platforms import target_of

    facts = emulated.runtime.facts
    for arch, has_workgroups in (("gpu,-fp64", True), ("cpu,-fp64", False), ("-fp64", False)):
        target = target_of(replace(facts, is_software=True), arch)
        assert (target.workgroup is not None, target.emulates_float64) == (has_workgroups, True)
    for arch in ("-fp16", "-fp64,gpu", "gpu,fast", "gpu,", ",-fp64", "fp64"):
        with pytest.raises(SettingError, match="cpu, gpu and -fp64, the last also behind"):
            target_of(facts, arch)
