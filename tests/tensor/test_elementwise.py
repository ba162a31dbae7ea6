"""Elementwise methods and operators against PyTorch."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

from treadle import Device, Tensor, dtypes, vmap
from treadle.dtype import _to_np_dtype
from treadle.errors import DeviceError, DTypeError, ShapeError

from .oracle import compare

torch = pytest.importorskip("torch")
F = torch.nn.functional
LINE = np.array([-3.5, -2.0, -1.0, -0.5, -0.0, 0.3, 1.0, 2.5, 4.0], np.float32)
POSITIVE = np.array([0.1, 0.5, 1.0, 2.0, 30.0], np.float32)
UNIT = np.array([-0.95, -0.5, -0.01, 0.0, 0.2, 0.6, 0.99], np.float32)
ABOVE_ONE = np.array([1.1, 1.5, 3.0, 100.0], np.float32)

SAME_NAME = [
    ("neg", LINE), ("exp", LINE), ("exp2", LINE), ("sin", LINE), ("cos", LINE), ("tan", LINE),
    ("log", POSITIVE), ("log2", POSITIVE), ("sqrt", POSITIVE), ("rsqrt", POSITIVE),
    ("reciprocal", POSITIVE), ("asin", UNIT), ("acos", UNIT), ("atan", LINE), ("tanh", LINE),
    ("sinh", LINE), ("cosh", LINE), ("asinh", LINE), ("acosh", ABOVE_ONE), ("atanh", UNIT),
    ("erf", LINE), ("trunc", LINE), ("ceil", LINE), ("floor", LINE), ("round", LINE),
    ("sign", LINE), ("abs", LINE), ("square", LINE), ("relu", LINE), ("sigmoid", LINE),
]  # fmt: skip
FUNCTIONAL = [
    ("logsigmoid", F.logsigmoid), ("hardsigmoid", F.hardsigmoid), ("elu", F.elu),
    ("celu", F.celu), ("swish", F.silu), ("silu", F.silu), ("relu6", F.relu6),
    ("hardswish", F.hardswish), ("hardtanh", F.hardtanh), ("gelu", F.gelu),
    ("leaky_relu", F.leaky_relu), ("mish", F.mish), ("softplus", F.softplus),
    ("softsign", F.softsign), ("selu", F.selu),
]  # fmt: skip
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "logaddexp", "copysign"]


@pytest.mark.parametrize(("name", "data"), SAME_NAME, ids=[row[0] for row in SAME_NAME])
def test_a_function_matches_pytorch_in_value_and_gradient(device, name, data):
    compare(device, lambda x: getattr(x, name)(), lambda x: getattr(x, name)(), data)


@pytest.mark.parametrize(("name", "theirs"), FUNCTIONAL, ids=[row[0] for row in FUNCTIONAL])
def test_an_activation_matches_pytorch_in_value_and_gradient(device, name, theirs):
    compare(device, lambda x: getattr(x, name)(), theirs, LINE, rtol=2e-5)


def test_quick_gelu_is_x_times_a_sigmoid(device):
    compare(device, lambda x: x.quick_gelu(), lambda x: x * (1.702 * x).sigmoid(), LINE)


@pytest.mark.parametrize("name", BINARY)
def test_a_binary_function_broadcasts_and_matches_pytorch(device, name):
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(3, 1, 4)), rng.normal(size=(2, 1))
    compare(
        device, lambda x, y: getattr(x, name)(y), lambda x, y: getattr(torch, name)(x, y),
        a.astype(np.float32), b.astype(np.float32),
    )  # fmt: skip


def test_a_power_matches_pytorch_in_value_and_both_gradients(device):
    base = np.array([0.0, 0.0, 0.5, 2.0, 3.0], np.float32)
    exponent = np.array([0.0, 2.0, 1.5, -1.0, 0.5], np.float32)
    compare(device, lambda x, y: x**y, lambda x, y: x**y, base, exponent)


@pytest.mark.parametrize("exponent", [-1, 0, 0.5, 1, 2, 3, 2.5, -2])
def test_a_scalar_power_matches_pytorch(device, exponent):
    compare(device, lambda x: x**exponent, lambda x: x**exponent, POSITIVE)


def test_equal_elements_share_the_gradient_of_a_maximum(device):
    a, b = np.array([1.0, 2.0, 3.0], np.float32), np.array([1.0, 3.0, 2.0], np.float32)
    compare(device, lambda x, y: x.maximum(y), torch.maximum, a, b)
    compare(device, lambda x, y: x.minimum(y), torch.minimum, a, b)


def test_clamp_lerp_and_where_match_pytorch(device):
    compare(device, lambda x: x.clamp(-1, 2), lambda x: x.clamp(-1, 2), LINE)
    compare(device, lambda x: x.clip(max_=0.5), lambda x: x.clip(max=0.5), LINE)
    compare(
        device, lambda x, y: x.lerp(y, 0.3), lambda x, y: x.lerp(y, 0.3), LINE, LINE[::-1].copy()
    )
    compare(
        device, lambda x, y: (x > 0).where(x * 2, y), lambda x, y: torch.where(x > 0, x * 2, y),
        LINE, LINE[::-1].copy(),
    )  # fmt: skip


def test_nan_and_infinity_are_told_apart(device):
    data = np.array([math.nan, math.inf, -math.inf, 1.0], np.float32)
    x = Tensor(data, device=device)
    assert x.isnan().tolist() == [True, False, False, False]
    assert x.isinf().tolist() == [False, True, True, False]
    assert x.isinf(detect_negative=False).tolist() == [False, True, False, False]
    assert x.isfinite().tolist() == [False, False, False, True]
    assert (x <= 1).tolist() == [False, False, True, True]
    assert (x >= x).tolist() == [False, True, True, True]
    np.testing.assert_array_equal(x.maximum(0).numpy(), [math.nan, math.inf, 0, 1])
    np.testing.assert_array_equal(x.relu().numpy(), [math.nan, math.inf, 0, 1])
    assert x.isclose(Tensor(data, device=device)).tolist() == [False, True, True, True]
    assert x.isclose(Tensor(data, device=device), equal_nan=True).tolist() == [True] * 4


def test_saturated_functions_have_finite_gradients(device):
    data = np.array([-1000.0, 1000.0, -90.0, 90.0], np.float32)
    for name in ("sigmoid", "tanh", "softplus", "logsigmoid", "silu", "elu", "mish"):
        compare(device, lambda x, n=name: getattr(x, n)(),
                getattr(torch, name, None) or getattr(F, name), data, atol=1e-5)  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "scalar", "expected"),
    [
        (dtypes.float16, 2.5, dtypes.float16), (dtypes.float16, 2, dtypes.float16),
        (dtypes.int8, 2, dtypes.int8), (dtypes.int8, 2.5, dtypes.float32),
        (dtypes.bool, 1, dtypes.int32), (dtypes.bool, True, dtypes.bool),
        (dtypes.bool, 0.5, dtypes.float32), (dtypes.bfloat16, 1.5, dtypes.bfloat16),
    ],
)  # fmt: skip
def test_a_python_scalar_keeps_the_tensors_kind(dtype, scalar, expected):
    x = Tensor([1, 0]).cast(dtype)
    assert (x + scalar).dtype is expected
    assert (scalar + x).dtype is expected
    assert (x == x).where(x, scalar).dtype is expected


@pytest.mark.parametrize("signed", ["int8", "int16", "int32", "int64"])
def test_uint64_and_a_signed_type_are_float64(signed):
    x, y = np.array([1, 500, 1 << 40], np.uint64), np.array([-1, 100, 7], signed)
    for found, wanted in (
        (Tensor(x) + Tensor(y), x + y), (Tensor(y) * Tensor(x), y * x),
        (Tensor(x).maximum(Tensor(y)), np.maximum(x, y)),
        (Tensor(x).cat(Tensor(y)), np.concatenate([x, y])), (Tensor(x) @ Tensor(y), x @ y),
    ):  # fmt: skip
        assert found.dtype is dtypes.float64
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_two_tensors_promote_by_the_lattice():
    half, byte = Tensor([1.0], dtype=dtypes.float16), Tensor([1], dtype=dtypes.int8)
    assert (half + byte).dtype is dtypes.float16
    assert (byte + Tensor([1], dtype=dtypes.uint8)).dtype is dtypes.int16
    assert (half * Tensor([1.0], dtype=dtypes.bfloat16)).dtype is dtypes.float32


def test_true_division_of_integers_gives_floats_and_floor_division_rounds_down(device):
    a, b = Tensor([-7, 7, -8, 5], device=device), Tensor([2, -2, 3, 5], device=device)
    assert (a / b).dtype is dtypes.float32
    np.testing.assert_allclose((a / b).numpy(), [-3.5, -3.5, -8 / 3, 1])
    assert (a // b).tolist() == [-4, -4, -3, 1]
    assert (a % b).tolist() == [1, -1, 1, 0]
    assert a.div(b, rounding_mode="trunc").tolist() == [-3, -3, -2, 1]
    assert (20 // b).tolist() == [10, -10, 6, 4]
    np.testing.assert_allclose((Tensor([5.5, -5.5], device=device) % 2).numpy(), [1.5, 0.5])


def test_float_modulo_is_exact_at_multiples_too(device):
    rng = np.random.default_rng(0)
    b = np.exp(rng.uniform(-5, 5, 500)).astype(np.float32)
    a = (rng.integers(1, 1000, 500) * b).astype(np.float32)
    a = np.concatenate([a, -a, [6.0, 0.6, 1e6, 5.9999995, 2e7]]).astype(np.float32)
    b = np.concatenate([b, b, [0.2, 0.2, 0.3, 0.2, 3.0]]).astype(np.float32)
    x, y = Tensor(a, device=device), Tensor(b, device=device)
    assert np.array_equal((x % y).numpy(), np.mod(a, b))
    assert np.array_equal(x.fmod(y).numpy(), np.fmod(a, b))
    assert np.array_equal((x // y).numpy(), np.floor_divide(a, b))


_INTEGERS = (dtypes.uint8, dtypes.int8, dtypes.int32, dtypes.uint64, dtypes.int64)


@pytest.mark.parametrize("dtype", _INTEGERS, ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_integers_compare_with_any_python_integer_by_its_value(name, dtype):
    data = np.array([dtype.min, 0, 1, dtype.max], _to_np_dtype(dtype))
    x, compare = Tensor(data), getattr(operator, name)
    for number in (-1, 0, 255, 256, 300, -129, 2**31, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**70)):
        want = [compare(value, number) for value in data.tolist()]
        assert getattr(x, name)(number).tolist() == want
        assert compare(x, number).tolist() == want
    assert vmap(lambda row: compare(row, 2**70))(x.reshape(2, 2)).shape == (2, 2)
    assert (300 in Tensor([1], dtype=dtypes.uint8)) is False


def test_integer_powers_stay_integers(device):
    x = Tensor([-2, 0, 3, 1], device=device)
    assert (x**3).tolist() == [-8, 0, 27, 1]
    assert (x**0).tolist() == [1, 1, 1, 1]
    assert (2 ** Tensor([0, 5, 10], device=device)).tolist() == [1, 32, 1024]
    assert (x ** Tensor([2, 0, 2, -1], device=device)).tolist() == [4, 1, 9, 1]
    with pytest.raises(DTypeError, match=r"\[pow\].*negative"):
        x**-1


def test_bit_operators_work_on_integers_only(device):
    x = Tensor([1, 6, 255], device=device)
    assert (x & 3).tolist() == [1, 2, 3]
    assert (x | 8).tolist() == [9, 14, 255]
    assert (x ^ x).tolist() == [0, 0, 0]
    assert (~x).tolist() == [-2, -7, -256]
    assert (x << 2).tolist() == [4, 24, 1020]
    assert (x >> 1).tolist() == [0, 3, 127]
    assert (1 << Tensor([0, 3], device=device)).tolist() == [1, 8]
    assert (~Tensor([True, False], device=device)).tolist() == [False, True]
    with pytest.raises(DTypeError, match=r"\[bitwise_and\] needs integers, not float32"):
        Tensor([1.0]) & 1


def test_reflected_operators_keep_the_order_of_operands(device):
    x = Tensor([1.0, 2.0, 4.0], device=device)
    np.testing.assert_allclose((1 - x).numpy(), [0, -1, -3])
    np.testing.assert_allclose((8 / x).numpy(), [8, 4, 2])
    np.testing.assert_allclose((2**x).numpy(), [2, 4, 16])
    np.testing.assert_allclose((5 % x).numpy(), [0, 1, 1])
    np.testing.assert_allclose((np.ones(3, np.float32) - x).numpy(), [0, -1, -3])
    assert isinstance(np.ones(3, np.float32) * x, Tensor)


def test_casts_convert_values(device):
    x = Tensor([-1.7, 0.0, 2.9], device=device)
    assert x.int().tolist() == [-1, 0, 2]
    assert x.bool().tolist() == [True, False, True]
    assert x.half().dtype is dtypes.float16
    assert x.cast("int64").dtype is dtypes.int64
    assert (
        x.bitcast(dtypes.int32).tolist() == np.array([-1.7, 0, 2.9], np.float32).view("i4").tolist()
    )


def test_a_bitcast_to_another_width_reinterprets_the_last_axis(device):
    words = np.array([[0x01020304, 0x0A0B0C0D]], np.uint32)
    x = Tensor(words, device=device)
    assert x.bitcast(dtypes.uint8).tolist() == words.view(np.uint8).tolist()
    assert x.bitcast(dtypes.uint64).tolist() == words.view(np.uint64).tolist()
    assert x.bitcast(dtypes.uint8).bitcast(dtypes.float32).tolist() == words.view("f4").tolist()
    with pytest.raises(ShapeError, match=r"\[bitcast\]"):
        Tensor([1, 2, 3], dtype=dtypes.uint8).bitcast(dtypes.float32)


def test_shapes_that_do_not_broadcast_are_shown_aligned():
    with pytest.raises(ShapeError) as caught:
        Tensor.zeros(3, 4) + Tensor.zeros(2, 4)
    message = str(caught.value)
    assert message.startswith("[add] shapes (3, 4) and (2, 4) do not broadcast at axis -2")
    assert "    3  4\n    2  4\n    ^\n" in message


def test_mixing_devices_names_both():
    with pytest.raises(DeviceError, match=r"\[add\] .* on CPU and .* on REF; move one"):
        Tensor([1.0], device="CPU") + Tensor([1.0], device="REF")


def test_an_integer_that_does_not_fit_is_refused():
    with pytest.raises(DTypeError, match=r"\[add\] the integer 300 does not fit uint8"):
        Tensor([1], dtype=dtypes.uint8) + 300


def test_comparison_with_something_else_is_not_an_error():
    assert (Tensor([1]) == "one") is False
    assert (Tensor([1]) != None) is True  # noqa: E711


def test_ten_thousand_operations_in_a_row_work(device):
    if Device.canonicalize(device).startswith("AMD"):
        pytest.skip("LLVM's backend for AMD takes ten minutes for a block of so many instructions")
    x = Tensor([0.0], device=device, requires_grad=True)
    y = x
    for _ in range(10_000):
        y = y + 1
    assert y.item() == 10_000
    y.backward()
    assert x.grad.item() == 1


def test_floor_division_of_floats_is_that_of_the_exact_quotient(device):
    # WGSL's division is exact to 2.5 ulp only, and the rest of 1 by 0.1 is no better
    a = np.array([1.05 if device == "WEBGPU" else 1.0, -1.0, 5.0, 3.0, -6.0, 0.0, 7.0], np.float32)
    b = np.array([0.1, np.inf, 0.0, -np.inf, 0.2, 2.0, np.nan], np.float32)
    with np.errstate(all="ignore"):
        expected = np.where(np.isinf(b), a / b, a // b)  # as the Array API has it
    np.testing.assert_array_equal(
        (Tensor(a, device=device) // Tensor(b, device=device)).numpy(), expected
    )
    half = Tensor([33000.0], device=device).half() // Tensor([-32768.0], device=device).half()
    assert half.tolist() == [-2.0]


@pytest.mark.parametrize("name", ["gelu", "quick_gelu", "tanhshrink"])
def test_activations_of_halves_are_rounded_once(device, name):
    halves = np.linspace(-6, 6, 1001).astype(np.float16)
    made = getattr(Tensor(halves, device=device), name)()
    wide = getattr(Tensor(halves.astype(np.float64), device="CPU"), name)().numpy()
    assert made.dtype is dtypes.float16
    # Float32 of devices may be off by so much itself, near 0 where two terms cancel.
    apart = np.abs(made.numpy().astype(np.float64) - wide)
    assert (apart <= np.spacing(np.abs(wide).astype(np.float16)) + 1e-6).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floor_division_of_the_largest_floats_is_finite(device, dtype):
    if not Device[device].target.supports(getattr(dtypes, dtype)):
        pytest.skip(f"{device} has no float64")
    most = float(np.finfo(dtype).max)
    a = np.array([0.875, -0.875, 1.0, -1.0, 0.75]).astype(dtype) * most
    b = np.array([-0.375, 0.375, -1.0, 0.625, -0.5]).astype(dtype) * most
    made = Tensor(a, device=device) // Tensor(b, device=device)
    np.testing.assert_array_equal(made.numpy(), [-3.0, -3.0, -1.0, -2.0, -2.0])


def test_a_number_that_halves_do_not_hold_divides_and_multiplies_them(device):
    x = Tensor([0.0, 60000.0, 1.0], device=device).half().realize().requires_grad_()
    found = {
        "x / n": x / 70001, "n / x": 70001 / x, "x * n": x * 70001, "x * least": x * 1e-9,
    }  # fmt: skip
    wide = x.detach().numpy().astype(np.float64)
    with np.errstate(all="ignore"):
        wanted = {
            "x / n": wide / 70001, "n / x": 70001 / wide, "x * n": wide * 70001,
            "x * least": wide * 1e-9,
        }  # fmt: skip
        for name, made in found.items():
            assert made.dtype is dtypes.float16
            np.testing.assert_allclose(
                made.numpy().astype(np.float64), wanted[name].astype(np.float16), rtol=1e-3,
                atol=6e-8, err_msg=name,
            )  # fmt: skip
    (x / 70001).sum().backward()
    np.testing.assert_allclose(x.grad.numpy().astype(np.float64), 1 / 70001, rtol=1e-2)


@pytest.mark.parametrize("name", ["elu", "celu", "selu", "softplus", "logsigmoid", "mish"])
def test_activations_keep_their_digits_where_their_value_is_small(name, device):
    torch = pytest.importorskip("torch")
    x = np.array([-1e-20, -1e-6, -1e-3, -30.0, -18.0, 0.0, 18.0, 30.0], np.float32)
    ours = getattr(Tensor(x, device=device), name)().numpy()
    theirs = getattr(torch.nn.functional, name)(torch.tensor(x.astype(np.float64))).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_the_second_derivative_of_softplus_at_0(device):
    x = Tensor([0.0, 1.0], device=device, requires_grad=True)
    (first,) = x.softplus().sum().gradient(x)
    (second,) = first.sum().gradient(x)
    np.testing.assert_allclose(second.numpy(), [0.25, 0.19661193], rtol=1e-6)


def test_integer_powers_are_of_the_common_dtype(device):
    base, exponent = Tensor([100, 3], dtype=dtypes.int8), Tensor([2, 3], dtype=dtypes.int32)
    power = base.to(device) ** exponent.to(device)
    assert power.dtype is dtypes.int32
    assert power.tolist() == [10000, 27]


def test_a_range_beyond_int32_needs_a_wider_dtype():
    with pytest.raises(DTypeError, match=r"2147483649 does not fit int32; give .*int64"):
        Tensor.arange(2**31 - 2, 2**31 + 2)
    last = Tensor.arange(2**31 - 2, 2**31 + 2, dtype=dtypes.int64)[-1]
    assert last.item() == 2**31 + 1


def test_places_beyond_int32_are_int64():
    x = Tensor.zeros(2**31 + 8, dtype=dtypes.int8)
    assert x.argmax().dtype is dtypes.int64
    assert x[: 2**31].argmin().dtype is dtypes.int32
