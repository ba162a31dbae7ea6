"""Elementwise functions against the reference, on every dtype and on special values."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, array_api
from treadle.errors import DTypeError, ShapeError

pytestmark = pytest.mark.usefixtures("on_the_interpreter")

INF, NAN = float("inf"), float("nan")
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 7.25, -11.0, 1e-5, 1e-30, 1e30, -1e10,
    INF, -INF, NAN,
]  # fmt: skip
INTS = [0, 1, 2, 3, 5, 7, 100, 127]
REAL = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "exp",
    "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log1p", "log10", "log2", "negative",
    "positive", "reciprocal", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan",
    "tanh", "trunc",
]  # fmt: skip
WHOLE = [
    "abs", "ceil", "floor", "isfinite", "isinf", "isnan", "negative", "positive", "round", "sign",
    "square", "trunc",
]  # fmt: skip
REAL_PAIRS = [
    "add", "atan2", "copysign", "divide", "equal", "greater", "greater_equal", "hypot", "less",
    "less_equal", "logaddexp", "maximum", "minimum", "multiply", "nextafter", "not_equal", "pow",
    "remainder", "subtract",
]  # fmt: skip
WHOLE_PAIRS = [
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "floor_divide", "greater",
    "greater_equal", "less", "less_equal", "maximum", "minimum", "multiply", "not_equal",
    "remainder", "subtract",
]  # fmt: skip
UNSIGNED, SIGNED = ("uint8", "uint16", "uint32", "uint64"), ("int8", "int16", "int32", "int64")
DIGITS = {"float32": 3e-6, "float64": 1e-13}


def run(xp, name, *arrays):
    with np.errstate(all="ignore"):
        return getattr(xp, name)(*(xp.asarray(a) for a in arrays))


def check(strict, name, *arrays):
    got, want = run(array_api, name, *arrays), run(strict, name, *arrays)
    assert isinstance(got, Tensor)
    assert (got.dtype.name, got.shape) == (str(want.dtype).rpartition(".")[2], want.shape), name
    got, want = got.numpy(), np.asarray(want)
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, name)
        return
    digits = DIGITS[want.dtype.name]
    np.testing.assert_allclose(got, want, digits, digits / 10, err_msg=name)
    if name in ("maximum", "minimum"):  # of 0.0 and -0.0 either, by the standard
        return
    zeros = (want == 0) & (got == 0)
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]), f"-0: {name}")


def pairs(values, dtype):
    line = np.array(values, dtype)
    return line[:, None], line[None, :]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", REAL)
def test_functions_of_floats(strict, name, dtype):
    check(strict, name, np.array(FLOATS, dtype))


@pytest.mark.parametrize("name", WHOLE)
def test_functions_of_integers(strict, name):
    for dtype in (*SIGNED, *UNSIGNED):
        values = [*INTS, *(-n for n in INTS)] if dtype in SIGNED else INTS
        check(strict, name, np.array(values, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", REAL_PAIRS)
def test_functions_of_two_floats(strict, name, dtype):
    check(strict, name, *pairs(FLOATS, dtype))


def test_floor_divide_rounds_the_quotient_down():
    # NumPy, and so the reference, has -1 for 1 // -inf, where the standard has -0
    for dtype in ("float32", "float64"):
        a, b = pairs(FLOATS, dtype)
        with np.errstate(all="ignore"):
            want = np.where(np.isinf(a) | np.isinf(b), a / b, a // b)
        np.testing.assert_array_equal(run(array_api, "floor_divide", a, b).numpy(), want)


@pytest.mark.parametrize("name", WHOLE_PAIRS)
def test_functions_of_two_integers(strict, name):
    by_zero = name in ("floor_divide", "remainder")
    for dtype in (*SIGNED, *UNSIGNED):
        values = [*INTS, *(-n for n in INTS)] if dtype in SIGNED else INTS
        a, b = pairs(values, dtype)
        check(strict, name, a, np.where(b == 0, 1, b).astype(dtype) if by_zero else b)


def test_powers_and_shifts_of_integers(strict):
    for dtype in (*SIGNED, *UNSIGNED):
        small = np.arange(6, dtype=dtype)
        check(strict, "pow", np.array(INTS, dtype)[:, None], small)
        for name in ("bitwise_left_shift", "bitwise_right_shift"):
            check(strict, name, np.array(INTS, dtype)[:, None], small)
        check(strict, "bitwise_invert", np.array(INTS, dtype))


def test_functions_of_truth_values(strict):
    a, b = pairs([True, False], "bool")
    for name in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or",
                 "bitwise_xor", "equal", "not_equal"):  # fmt: skip
        check(strict, name, a, b)
    for name in ("logical_not", "bitwise_invert"):
        check(strict, name, a)


@pytest.mark.parametrize("first", [*SIGNED, *UNSIGNED, "float32", "float64", "bool"])
def test_dtypes_promote_as_in_the_standard(strict, first):
    seconds = [*SIGNED, *UNSIGNED] if first[0] in "iu" else ["float32", "float64"]
    seconds = ["bool"] if first == "bool" else seconds
    for second in seconds:
        if {first, second} & {"uint64"} and {first, second} & set(SIGNED):
            continue  # not defined
        got = array_api.result_type(getattr(array_api, first), getattr(array_api, second))
        want = strict.result_type(getattr(strict, first), getattr(strict, second))
        assert got.name == str(want).rpartition(".")[2]
        pair = [array_api.ones(1, dtype=getattr(array_api, t)) for t in (first, second)]
        assert array_api.where(array_api.asarray([True]), *pair).dtype is got
        if first != "bool":
            assert array_api.add(*pair).dtype is (pair[0] + pair[1]).dtype is got


def test_a_scalar_on_either_side_takes_the_dtype_of_the_tensor():
    xp = array_api
    for dtype, scalar in ((xp.int8, 3), (xp.uint64, 3), (xp.float32, 3), (xp.float64, 0.1)):
        x = xp.asarray([1, 2], dtype=dtype)
        for got in (xp.add(x, scalar), xp.add(scalar, x), xp.maximum(scalar, x)):
            assert got.dtype is dtype
        assert xp.result_type(x, scalar) is xp.result_type(scalar, x) is dtype
    np.testing.assert_array_equal(xp.subtract(10, xp.asarray([1, 2])).numpy(), [9, 8])
    np.testing.assert_array_equal(xp.pow(2, xp.asarray([3, 4])).numpy(), [8, 16])
    np.testing.assert_array_equal(xp.less(1, xp.asarray([0, 2])).numpy(), [False, True])
    tenth = xp.logaddexp(xp.asarray([0.0], dtype=xp.float64), 0.1)
    np.testing.assert_array_equal(tenth.numpy(), np.logaddexp([0.0], 0.1))
    with pytest.raises(DTypeError, match="300"):
        xp.add(xp.asarray([1], dtype=xp.uint8), 300)


def test_what_is_no_tensor_is_refused_by_name():
    x = array_api.asarray([1.0])
    for call in (
        lambda: array_api.sin([1.0]), lambda: array_api.add(1.0, 2.0),
        lambda: array_api.add(x, "1"), lambda: array_api.sum([1.0]),
        lambda: array_api.clip(np.ones(2), 0, 1), lambda: array_api.concat([[1.0], x]),
        lambda: array_api.linalg.svd([[1.0]]), lambda: array_api.positive(None),
    ):  # fmt: skip
        with pytest.raises(DTypeError, match=r"^\[\w+\] .*(list|float|str|ndarray|NoneType)"):
            call()
    with pytest.raises(ShapeError, match="add"):
        array_api.add(array_api.ones(2), array_api.ones(3))


def test_clip_keeps_the_dtype_and_a_nan(strict):
    for dtype in ("float32", "int16", "uint8"):
        values = np.array([0, 1, 5, 100], dtype)
        for low, high in ((1, 5), (None, 3), (2, None), (None, None), (-1000, 70000)):
            got = array_api.clip(array_api.asarray(values), low, high)
            want = strict.clip(strict.asarray(values), low, high)
            assert got.dtype.name == dtype
            np.testing.assert_array_equal(got.numpy(), np.asarray(want))
    x = array_api.asarray([NAN, 1.0, 2.0])
    bounds = array_api.asarray([0.0, NAN, 1.0], dtype=array_api.float64)
    got = array_api.clip(x, min=bounds, max=array_api.asarray(1.5))
    assert got.dtype is array_api.float32
    np.testing.assert_array_equal(got.numpy(), np.array([NAN, NAN, 1.5], np.float32))


def test_real_numbers_are_their_own_real_part():
    x = array_api.asarray([1.0, -2.0])
    for name, want in (("real", [1, -2]), ("conj", [1, -2]), ("imag", [0, 0])):
        np.testing.assert_array_equal(getattr(array_api, name)(x).numpy(), want)


def test_complex_numbers_have_parts():
    x = array_api.asarray([1 + 2j, -3.5j])
    assert x.dtype is array_api.complex64
    for name in ("real", "conj", "imag"):
        want = getattr(np, name)(np.array([1 + 2j, -3.5j], np.complex64))
        np.testing.assert_array_equal(getattr(array_api, name)(x).numpy(), want)
    np.testing.assert_allclose(
        array_api.fft.fft(x, norm="ortho").numpy(), np.fft.fft([1 + 2j, -3.5j], norm="ortho"), 1e-6
    )
