"""Subscripts that do not fit raise IndexError, as everywhere; a scalar has no length: TypeError."""

import numpy as np
import pytest

from treadle import Tensor
from treadle.errors import ArgumentError, IndexOutOfRange, SubscriptError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    "items", [0.0, "a", ([0, 1], [0, 1, 1]), (0, 0, 0), 7, True, (..., ...), [0.5], {0}], ids=repr
)
def test_3_13_what_is_no_subscript_is_an_index_error(items, device):
    x = Tensor(X, device=device)
    with pytest.raises(IndexError) as read:
        x[items]
    assert isinstance(read.value, (SubscriptError, IndexOutOfRange))
    with pytest.raises(IndexError):
        x[items] = 1.0


@pytest.mark.parametrize("ask", [len, iter, list])
def test_3_13_a_scalar_has_no_length(ask):
    with pytest.raises(TypeError) as found:
        ask(Tensor(1.0))
    assert isinstance(found.value, ArgumentError)


def test_3_13_numpy_sees_that_a_scalar_is_not_iterable():
    assert not np.iterable(Tensor(1.0))
    assert np.iterable(Tensor([1.0]))
