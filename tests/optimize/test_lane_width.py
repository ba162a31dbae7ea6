"""How wide the values are that a kernel computes with."""

from __future__ import annotations

import pytest

from treadle import Tensor, dtypes
from treadle.engine.run import scheduled
from treadle.ir.widths import widest_itemsize
from treadle.optimize.lane_width import lanes_of
from treadle.optimize.nest import nests_of
from treadle.target import parse_target

TARGET = parse_target("x86-64-v4")


def nest_of(tensor):
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    (nest,) = nests_of(kernel.ast)
    return nest


def given(dtype):
    return Tensor([[1, 2], [3, 4]], device="CPU").cast(dtype).realize()


@pytest.mark.parametrize(
    ("narrow", "wide", "factor"),
    [
        (dtypes.uint16, dtypes.uint32, 65_535),
        (dtypes.int16, dtypes.int32, -32_768),
        (dtypes.int16, dtypes.int32, 32_767),
    ],
)
def test_a_product_of_which_the_upper_half_is_kept_does_not_count(narrow, wide, factor):
    x, y = given(narrow), given(narrow)
    constant = ((x.cast(wide) * factor) >> 16).cast(narrow)
    variable = ((x.cast(wide) * y.cast(wide)) >> 16).cast(narrow)
    for made in (constant, variable, constant + variable):
        assert widest_itemsize(nest_of(made).nodes) == 2
    assert lanes_of(nest_of(constant), TARGET, 2) == 32


def test_a_product_that_somebody_else_reads_counts():
    x = given(dtypes.uint16)
    product = x.cast(dtypes.uint32) * 3
    made = (product >> 16).cast(dtypes.uint16) + (product & 255).cast(dtypes.uint16)
    assert widest_itemsize(nest_of(made).nodes) == 4


@pytest.mark.parametrize("factor", [65_536, 100_000])
def test_a_factor_of_more_than_16_bits_makes_the_product_count(factor):
    made = ((given(dtypes.uint16).cast(dtypes.uint32) * factor) >> 16).cast(dtypes.uint16)
    assert widest_itemsize(nest_of(made).nodes) == 4


def test_another_shift_makes_the_product_count():
    made = ((given(dtypes.uint16).cast(dtypes.uint32) * 3) >> 15).cast(dtypes.uint16)
    assert widest_itemsize(nest_of(made).nodes) == 4


def test_what_does_not_depend_on_the_loop_has_no_lanes():
    x = given(dtypes.uint16)
    made = x + (Tensor.arange(2, device="CPU") < 1).where(1, 2).cast(dtypes.uint16).reshape(2, 1)
    nest = nest_of(made)
    assert lanes_of(nest, TARGET, 2, nest.loops[-1]) == 32
