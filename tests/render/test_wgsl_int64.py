"""64-bit integers as pairs of words in WGSL, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.ir.elementwise import apply_alu, cast_array, numpy_dtype
from treadle.ir.node import alu
from treadle.ir.op import Op
from treadle.render.wgsl_int64 import _FUNCTIONS, int64_helpers

from .kernels import apply

OPS = [Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.SHL, Op.SHR]
BORDERS = [0, 1, 2**16, 2**31, 2**32, 2**33, 2**48, 2**62, 2**63, 2**64]


def samples(dtype, seed):
    """Numbers of every length in bits, and those next to where a word or half of one ends."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 1 << 64, 3000, np.uint64) >> rng.integers(0, 64, 3000).astype(np.uint64)
    near = [(b + d) % (1 << 64) for b in BORDERS for d in (-2, -1, 0, 1, 2)]
    values = np.concatenate([raw, np.array(near * 2, np.uint64)])
    values = np.where(rng.random(values.size) < 0.5, values, np.uint64(0) - values)
    rng.shuffle(values)
    return values.view(numpy_dtype(dtype))


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", [dtypes.int64, dtypes.uint64], ids=str)
def test_arithmetic_on_numbers_of_every_length(webgpu, dtype, lanes):
    a, b = samples(dtype, 1), samples(dtype, 2)
    b[::5] &= b.dtype.type(63)  # shifts within the width
    arrays = [(dtype, a), (dtype, b)]
    results = apply(webgpu, lambda x, y: [alu(op, x, y) for op in OPS], [dtype] * 7, arrays, lanes)
    for op, result in zip(OPS, results, strict=True):
        expected = apply_alu(op, dtype, (dtype, dtype), (a, b))
        np.testing.assert_array_equal(result, expected, err_msg=op.name)


@pytest.mark.parametrize("dtype", [dtypes.int64, dtypes.uint64], ids=str)
def test_orders_and_extremes(webgpu, dtype):
    a, b = samples(dtype, 3), samples(dtype, 4)
    b[::3] = a[::3]
    b[1::3] ^= b.dtype.type(1) << b.dtype.type(32)
    results = apply(
        webgpu,
        lambda x, y: [x < y, x.eq(y), x.ne(y), x.maximum(y), x.minimum(y)],
        [dtypes.bool] * 3 + [dtype] * 2, [(dtype, a), (dtype, b)],
    )  # fmt: skip
    expected = [a < b, a == b, a != b, np.maximum(a, b), np.minimum(a, b)]
    for result, want in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("dtype", [dtypes.int64, dtypes.uint64], ids=str)
def test_conversions_to_floats_round_once(webgpu, dtype):
    a = samples(dtype, 5)
    ties = np.array([(1 << 40) + (1 << 16) + d for d in (-1, 0, 1)] * 2, numpy_dtype(dtype))
    a = np.concatenate([a, ties])
    results = apply(
        webgpu, lambda x: [x.cast(dtypes.float32), x.cast(dtypes.bool)],
        [dtypes.float32, dtypes.bool], [(dtype, a)],
    )  # fmt: skip
    np.testing.assert_array_equal(results[0], a.astype(np.float32))
    np.testing.assert_array_equal(results[1], a != 0)


def test_conversions_from_floats_of_every_size(webgpu):
    rng = np.random.default_rng(6)
    x = np.ldexp(rng.standard_normal(4000), rng.integers(-5, 70, 4000)).astype(np.float32)
    kinds = [dtypes.int64, dtypes.uint64, dtypes.uint32]
    results = apply(
        webgpu, lambda v: [v.cast(k) for k in kinds], kinds, [(dtypes.float32, x)], lanes=4
    )
    for kind, result in zip(kinds, results, strict=True):
        np.testing.assert_array_equal(result, cast_array(x, kind), err_msg=str(kind))


def test_every_helper_comes_after_what_it_calls():
    for name in _FUNCTIONS:
        text = int64_helpers([name])
        defined = [part.split("fn ", 1)[1].split("(", 1)[0] for part in text]
        assert defined[-1] == name
        assert len(set(defined)) == len(defined)
        for number, part in enumerate(text):
            body = part.split("{", 1)[1]
            assert all(f"{later}(" not in body for later in defined[number + 1 :])
