"""Bounds of floats that comparisons prove, and casts that rely on them."""

import math

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.ir.float_ranges import clamped
from treadle.ir.node import Node
from treadle.ir.op import Op

X = Node(Op.LOAD, dtypes.float32, (Node(Op.PARAM, dtypes.float32, (), None), Node.index(0)))


def number(value):
    return Node.const(dtypes.float32, value)


def test_nothing_is_known_of_what_may_be_nan():
    assert clamped(X) is None
    assert clamped(X + 1) is None
    assert clamped(number(math.nan)) is None
    assert clamped((X < 1).where(number(1), X)) is None  # X where it is not below: or a NaN


def test_a_comparison_with_itself_bounds_a_value():
    above = (number(0) < X).where(X, number(0))
    assert clamped(above) == (0.0, math.inf)
    assert clamped((above < 255).where(above, number(255))) == (0.0, 255.0)
    assert clamped((X < 3).where(X, number(7))) == (-math.inf, 7.0)


def test_another_value_is_not_bounded_by_it():
    assert clamped((X < 3).where(X + 1, number(7))) is None


def test_integers_have_the_bounds_of_their_type():
    small = Node(Op.LOAD, dtypes.uint8, (Node(Op.PARAM, dtypes.uint8, (), None), Node.index(0)))
    assert clamped(small.cast(dtypes.float32)) == (0.0, 255.0)


def test_sums_and_products_have_bounds_with_room_for_rounding():
    byte = Node(Op.LOAD, dtypes.uint8, (Node(Op.PARAM, dtypes.uint8, (), None), Node.index(0)))
    value = byte.cast(dtypes.float32)
    low, high = clamped(value * -2.0 + 1.0)
    assert -520 < low <= -509
    assert 1 <= high < 12
    assert clamped(value * X) is None
    assert clamped(value * 1e30 * 1e30) is None  # may overflow


@pytest.mark.parametrize("dtype", [dtypes.uint8, dtypes.int8, dtypes.int32, dtypes.int64])
def test_casts_are_those_of_numpy_inside_and_outside_of_the_bounds(dtype, device):
    x = np.array([-1e30, -5.5, -0.4, 0.0, 0.9, 254.999, 255.0, 300.0, 1e30] * 8, np.float32)
    t = Tensor(x, device=device)
    t = (t > 0).where(t, 0.0)
    made = (t < 100.5).where(t, 100.5).cast(dtype)
    assert made.tolist() == np.clip(x, 0, 100.5).astype(np.int64).tolist()
    nan = Tensor(np.full(16, np.nan, np.float32), device=device)
    assert (nan > 0).where(nan, 0.0).cast(dtypes.int32).tolist() == [0] * 16
    assert (nan < 100).where(nan, 7.0).cast(dtypes.int32).tolist() == [7] * 16
    assert (t * 1e30).cast(dtypes.int32).tolist()[8] == 2**31 - 1  # saturates as ever
