"""Columns of blocks of vectors, whole ones and of fewer rows than there are lanes."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.dtype import DType, dtypes
from treadle.ir.evaluate import evaluate
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.lower.register_transpose import transposed

HEIGHTS = [(lanes, 1 << n) for lanes in (2, 4, 8, 16, 32) for n in range(lanes.bit_length())]


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64])
@pytest.mark.parametrize(("lanes", "height"), HEIGHTS)
def test_each_lane_gets_its_elements_of_all_rows(dtype: DType, lanes: int, height: int):
    numbers = np.arange(height)[:, None] * 37 % 101 + np.arange(lanes) % 23
    rows = [
        Node(Op.STACK, dtype.vec(lanes), tuple(Node.const(dtype, int(n)) for n in row))
        for row in numbers
    ]
    columns = [np.atleast_1d(evaluate(column, {})) for column in transposed(rows)]
    np.testing.assert_array_equal(np.stack(columns), numbers.T)
