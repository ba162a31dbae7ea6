"""1.14: dtypes that were too narrow, or refused where NumPy and PyTorch accept."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import DTypeError


def test_1_14_copysign_promotes_both_operands():
    got = Tensor([1.0]).copysign(Tensor([-1.0], dtype=dtypes.float64))
    assert (got.dtype, got.tolist()) == (dtypes.float64, [-1.0])
    assert Tensor([1], dtype=dtypes.int8).copysign(Tensor([-2])).dtype is dtypes.float32


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ("float32", "float64"),
        ("float16", "float32"),
        ("int8", "int32"),
        ("complex64", "complex128"),
    ],
)
def test_1_14_in_place_a_wider_dtype_of_the_same_kind_is_converted(own, other):
    x, y = Tensor([1, 2], dtype=own), Tensor([3, 4], dtype=other)
    x += y
    assert (x.dtype.name, x.tolist()) == (own, [4, 6])
    x -= y
    assert (x.dtype.name, x.tolist()) == (own, [1, 2])


@pytest.mark.parametrize(("own", "other"), [("int32", "float32"), ("float32", "complex64")])
def test_1_14_in_place_another_kind_is_refused(own, other):
    x = Tensor([1, 2], dtype=own)
    with pytest.raises(DTypeError, match=rf"\[add_\] the result is {other} .* {own}"):
        x += Tensor([3, 4], dtype=other)


def test_1_14_numpys_scalars_keep_their_dtype():
    for scalar in (np.float64(1.5), np.float32(1.5), np.complex128(1.5j), np.int64(3)):
        x = Tensor(scalar)
        assert (x.dtype.name, x.shape, x.item()) == (scalar.dtype.name, (), scalar)
    assert Tensor(1.5).dtype is dtypes.float32


@pytest.mark.parametrize(
    ("dtype", "wide"),
    [("int8", "int32"), ("uint8", "uint32"), ("bool", "int32"), ("int64", "int64"),
     ("float16", "float16")],
)  # fmt: skip
def test_1_14_products_have_the_dtypes_of_sums(dtype, wide, device):
    x = Tensor([1, 1], dtype=dtype, device=device)
    assert x.prod().dtype.name == x.cumprod(0).dtype.name == x.sum().dtype.name == wide
    if dtype == "int8":
        x = Tensor([100, 100, -3], dtype=dtype, device=device)
        assert x.prod().item() == -30000
        assert x.cumprod(0).tolist() == [100, 10000, -30000]
