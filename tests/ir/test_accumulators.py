"""Tuples are combined in any order alike, and an identity changes nothing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from treadle import dtypes
from treadle.dtype import DType
from treadle.errors import InternalError
from treadle.ir.accumulators import (
    combined,
    identity_of,
    is_in_order,
    items,
    start_of,
    tuple_of,
    where_inside,
)  # fmt: skip
from treadle.ir.args import ReduceArg
from treadle.ir.node import Node, item
from treadle.ir.op import Op
from treadle.ir.text import parse, render
from treadle.ir.verify import verify_kernel
from treadle.ir.views import Reduce

VALUES = {
    dtypes.float32: [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.0],
    dtypes.float64: [math.nan, -math.inf, -0.0, 0.0, 3.0],
    dtypes.int8: [-128, -1, 0, 127],
    dtypes.uint64: [0, 1, (1 << 64) - 1],
}
PLACE = dtypes.int32


def pair(dtype: DType, value: float, place: int) -> Node:
    return tuple_of([Node.const(dtype, value), Node.const(PLACE, place)])


def known(node: Node) -> tuple[str, int]:
    """Its items, where all bits of the value count."""
    value, place = items(node)
    return repr(value.arg), place.arg


def both(op: Op, one: Node, other: Node) -> Node:
    return combined(op, one, other)


@pytest.mark.parametrize("dtype", VALUES, ids=str)
@pytest.mark.parametrize("op", [Op.MAX, Op.MIN])
def test_an_extreme_and_its_place_are_those_of_numpy_in_every_order(op, dtype):
    find = np.argmax if op is Op.MAX else np.argmin
    for values in itertools.product(VALUES[dtype], repeat=3):
        one, two, three = (pair(dtype, value, place) for place, value in enumerate(values))
        found = known(both(op, both(op, one, two), three))
        place = int(find(np.array(values, dtype.name)))
        assert found == (repr(values[place]), place)
        assert known(both(op, one, both(op, two, three))) == found
        assert known(both(op, three, both(op, two, one))) == found
        in_order = combined(op, combined(op, one, two, True), three, True)
        assert known(in_order) == found


@pytest.mark.parametrize("dtype", VALUES, ids=str)
@pytest.mark.parametrize("op", [Op.MAX, Op.MIN])
def test_the_identity_changes_nothing(op, dtype):
    for value in VALUES[dtype]:
        one = pair(dtype, value, 7)
        none = identity_of(op, one)
        assert known(both(op, one, none)) == known(both(op, none, one)) == known(one)
        assert where_inside(Node.const(dtypes.bool, False), one, op) is none


def test_steps_come_in_order_where_places_grow_with_them():
    loop, other = Node.range(9, 1), Node.range(9, 2)
    value = Node(Op.LOAD, dtypes.float32, (Node(Op.PARAM, dtypes.float32), loop))
    grows = [loop, loop * 4 + 3, loop * 4 + other]
    for place in grows:
        assert is_in_order(Op.MAX, tuple_of([value, place.cast(PLACE)]), (loop,))
    for place in (other, loop * -1 + 9, (loop < 3).where(loop, 9)):
        assert not is_in_order(Op.MAX, tuple_of([value, place.cast(PLACE)]), (loop,))
    two_loops = tuple_of([value, loop.cast(PLACE)])
    assert not is_in_order(Op.MAX, two_loops, (loop, other))
    assert not is_in_order(Op.ADD, value, (loop,))


def test_what_begins_before_steps_in_order_has_the_first_place():
    loop = Node.range(9, 1)
    value = Node(Op.LOAD, dtypes.float32, (Node(Op.PARAM, dtypes.float32), loop))
    both = tuple_of([value, (loop * 4 + 3).cast(PLACE)])
    assert [part.arg for part in items(start_of(Op.MAX, both, (loop,)))] == [-math.inf, 3]
    assert [part.arg for part in items(start_of(Op.MIN, both, ()))] == [math.inf, PLACE.max]
    assert start_of(Op.ADD, value, (loop,)).arg == 0


def test_a_tuple_has_items_wherever_it_goes_and_no_dtype():
    loop = Node.range(9, 1)
    both = tuple_of([Node.const(dtypes.float32, 1.0), loop.cast(PLACE)])
    reduce = Reduce(both, (loop,), ReduceArg(Op.MAX)).node()
    assert (reduce.dtype, [part.dtype for part in items(reduce)]) == (
        dtypes.void,
        [dtypes.float32, PLACE],
    )
    assert item(both, 1) is both.src[1]
    place = item(reduce, 1)
    assert place.substitute({reduce: both}) is both.src[1]
    assert parse(render(place)) is place
    verify_kernel(place)
    for broken in (Node(Op.ITEM, PLACE, (loop,), 0), Node(Op.TUPLE, PLACE, (loop, loop))):
        with pytest.raises(InternalError):
            verify_kernel(broken)
