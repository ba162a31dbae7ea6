"""Integers wrap, and no shift or division is undefined, in every language."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.dtype import DType, dtypes
from treadle.ir.elementwise import apply_alu, numpy_dtype
from treadle.ir.node import Node, alu
from treadle.ir.op import Op

from .kernels import apply

OPS = [Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.MAX, Op.SHL, Op.SHR]
INTS = [
    dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16,
    dtypes.uint32, dtypes.uint64,
]  # fmt: skip


def edges(dtype: DType) -> list[int]:
    low, high, bits = dtype.min, dtype.max, dtype.bits
    found = {low, low + 1, low // 2, high // 2 + 1, high - 1, high, 0, 1, 2, 3, 7, 100}
    found |= {-1, -2, -7, bits - 1, bits, bits + 1, (1 << bits // 2) - 1, 1 << bits // 2}
    return sorted(v for v in found if low <= v <= high)


def pairs(dtype: DType, multiple: int) -> tuple[np.ndarray, np.ndarray]:
    """Every edge with every edge, and random ones behind, to a size that lanes divide."""
    values = np.array(edges(dtype), numpy_dtype(dtype))
    a, b = (m.reshape(-1) for m in np.meshgrid(values, values))
    size = -(-(a.size + 200) // multiple) * multiple
    rng = np.random.default_rng(dtype.bits)
    raw = rng.integers(0, 256, (2, size, dtype.itemsize), np.uint8)
    x, y = raw.view(numpy_dtype(dtype)).reshape(2, size)
    x[: a.size], y[: b.size] = a, b
    y[a.size + 100 :] %= 9  # small divisors and shifts
    return x, y


def checked(name, results, expected, *arrays):
    wrong = np.flatnonzero(results != expected)[:5]
    found = [(*(x[i] for x in arrays), results[i], expected[i]) for i in wrong]
    assert not found, f"{name}: operands, result, expected: {found}"


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_every_operation_wraps_and_is_defined_everywhere(backend, dtype, lanes):
    a, b = pairs(dtype, lanes)
    results = apply(
        backend, lambda x, y: [alu(op, x, y) for op in OPS], [dtype] * len(OPS),
        [(dtype, a), (dtype, b)], lanes,
    )  # fmt: skip
    for op, result in zip(OPS, results, strict=True):
        checked(op.name, result, apply_alu(op, dtype, (dtype, dtype), (a, b)), a, b)


def others(x: Node, y: Node) -> list[Node]:
    size = (x < 0).where(-x, x)
    return [-x, size, x < y, x.eq(y), x.ne(y), x & y, x | y, x ^ y]


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_negatives_comparisons_and_bits_are_those_of_numpy(backend, dtype, lanes):
    a, b = pairs(dtype, lanes)
    kinds = [dtype, dtype, *[dtypes.bool] * 3, *[dtype] * 3]
    results = apply(backend, others, kinds, [(dtype, a), (dtype, b)], lanes)
    zero = a.dtype.type(0)
    with np.errstate(over="ignore"):
        size = np.where(a < 0, zero - a, a)
        expected = [zero - a, size, a < b, a == b, a != b, a & b, a | b, a ^ b]
    for number, (result, want) in enumerate(zip(results, expected, strict=True)):
        checked(number, result, want, a, b)


def by_constants(x: Node) -> list[Node]:
    """A chain that a compiler may shorten if it takes the integers for unbounded."""
    low, high = x.dtype.min, x.dtype.max
    return [
        x + high, x * high - x, (x + 1 < x).where(x.like(1), x.like(0)), x // -1, x % -1, x // 0,
        x // low, x % high,
    ]  # fmt: skip


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.int32, dtypes.int64], ids=str)
def test_operations_with_constants_wrap(backend, dtype, lanes):
    a, _ = pairs(dtype, lanes)
    results = apply(backend, by_constants, [dtype] * 8, [(dtype, a)], lanes)
    with np.errstate(all="ignore"):
        high, low, one = (a.dtype.type(v) for v in (dtype.max, dtype.min, 1))
        expected = [
            a + high, a * high - a, (a + one < a).astype(a.dtype), a // -one, a % -one,
            np.zeros_like(a), a // low, a % high,
        ]  # fmt: skip
    for number, (result, want) in enumerate(zip(results, expected, strict=True)):
        checked(number, result, want, a)


@pytest.mark.parametrize("name", ["int32", "int64", "uint16", "int8"])
def test_sums_and_products_wrap(device, name):
    from treadle import Tensor

    array = np.array([0x7FFF_FFF0, 3, 0x1234_5678, 99] * 25).astype(name)
    for axis_array in (array, array.reshape(10, 10).T.copy()):
        ours = Tensor(axis_array, device=device)
        total, product = ours.sum(axis=0).numpy(), ours.prod(axis=0).numpy()
        assert total.dtype == product.dtype
        expected = axis_array.sum(axis=0, dtype=total.dtype)
        np.testing.assert_array_equal(total, expected, strict=True)
        expected = axis_array.prod(axis=0, dtype=product.dtype)
        np.testing.assert_array_equal(product, expected, strict=True)
