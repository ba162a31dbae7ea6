"""2.12: dtypes.float32.vec(2) was accepted as a tensor's dtype, and then an assertion failed."""

from __future__ import annotations

import pytest

from treadle import Tensor, dtypes
from treadle.errors import DTypeError


@pytest.mark.parametrize(
    "make",
    [
        lambda t: Tensor.zeros(2, dtype=t), lambda t: Tensor([1.0, 2.0], dtype=t),
        lambda t: Tensor([1.0]).cast(t), lambda t: Tensor.empty(2, dtype=t),
        lambda t: Tensor([1.0]).bitcast(t), lambda t: Tensor([1.0]).sum(dtype=t),
    ],
)  # fmt: skip
def test_2_12_a_vector_is_no_dtype_of_elements(make):
    with pytest.raises(DTypeError, match=r"\[dtype\] elements are scalars, not dtypes.float32.vec"):
        make(dtypes.float32.vec(2))
