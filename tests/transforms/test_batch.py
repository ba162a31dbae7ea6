"""Batches of what has places, effects or calls of the host: against one example at a time."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.errors import UserError
from treadle.ir.args import BufferRef, GatherArg, ScatterArg, ShardArg, SortArg, Token
from treadle.ir.interpret import interpret
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.verify import verify_tensor
from treadle.transforms import matrices
from treadle.transforms.batch import batch
from treadle.transforms.jvp import jvp

RNG = np.random.default_rng(3)
SIZE = 3


class Memory:
    """BUFFERs with arrays behind them."""

    def __init__(self) -> None:
        self.arrays: dict[BufferRef, np.ndarray] = {}

    def __call__(self, array: np.ndarray) -> Node:
        array = np.asarray(array)
        ref = BufferRef(Token(), array.size, "REF")
        self.arrays[ref] = array.reshape(-1).copy()
        dtype = getattr(dtypes, array.dtype.name)
        return Node(Op.RESHAPE, dtype, (Node(Op.BUFFER, dtype, (), ref),), array.shape)

    def value(self, node: Node) -> np.ndarray:
        return interpret(node, lambda ref: self.arrays[ref].copy())


def check(function, *arrays: np.ndarray) -> None:
    """`function` of nodes on batched arrays, all of them and each alone."""
    memory = Memory()
    for varied in [range(len(arrays)), *([i] for i in range(len(arrays)) if len(arrays) > 1)]:
        ones = [memory(array[0]) for array in arrays]
        [found] = batch([function(*ones)], {ones[i]: memory(arrays[i]) for i in varied}, SIZE)
        assert found is not None
        verify_tensor(found)
        for k in range(SIZE):
            own = [memory(array[k if i in varied else 0]) for i, array in enumerate(arrays)]
            expected = memory.value(function(*own))
            np.testing.assert_allclose(memory.value(found)[k], expected, rtol=1e-12)


X = RNG.normal(size=(SIZE, 4, 5, 2))
PLACES = np.array([[3, 0, 9], [1, 1, -1], [0, 4, 2]], np.int32)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_reads_each_examples_own_places(axis):
    check(lambda x, i: Node(Op.GATHER, x.dtype, (x, i), GatherArg(axis)), X, PLACES)
    grid = RNG.integers(-1, 5, (SIZE, 2, 3)).astype(np.int64)
    check(lambda x, i: Node(Op.GATHER, x.dtype, (x, i), GatherArg(axis)), X, grid)
    one = np.array([2, 7, 0], np.uint8)
    check(lambda x, i: Node(Op.GATHER, x.dtype, (x, i), GatherArg(axis)), X, one)


def test_gather_along_an_axis_reads_each_examples_own_places():
    lines = RNG.integers(-1, 6, (SIZE, 4, 3, 2)).astype(np.int32)
    check(lambda x, i: Node(Op.GATHER, x.dtype, (x, i), GatherArg(1, along=True)), X, lines)


@pytest.mark.parametrize("op", [None, Op.ADD, Op.MAX])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_scatter_writes_to_each_examples_own_places(axis, op):
    shape = (*X.shape[1 : axis + 1], 3, *X.shape[axis + 2 :])
    values = RNG.normal(size=(SIZE, *shape))
    arg = ScatterArg(axis, op)
    check(lambda x, i, v: Node(Op.SCATTER, x.dtype, (x, i, v), arg), X, PLACES, values)


def test_scatter_along_an_axis_writes_to_each_examples_own_places():
    lines = RNG.integers(-1, 6, (SIZE, 4, 3, 2)).astype(np.int32)
    values, arg = RNG.normal(size=(SIZE, 4, 3, 2)), ScatterArg(1, Op.ADD, along=True)
    check(lambda x, i, v: Node(Op.SCATTER, x.dtype, (x, i, v), arg), X, lines, values)


def test_each_example_is_sorted():
    keys = RNG.integers(0, 9, (SIZE, 2, 6)).astype(np.uint32)
    check(lambda x: Node(Op.SORT, dtypes.int32, (x,), SortArg(1, 4)), keys)


def test_decompositions_are_batched_by_their_first_axes():
    a = RNG.normal(size=(SIZE, 3, 3)) + 3 * np.eye(3)
    check(matrices.inv, a)
    check(matrices.solve, a, RNG.normal(size=(SIZE, 3, 2)))
    check(lambda x: matrices.slogdet(x)[1], a)


def test_an_assignment_is_a_value_of_each_example():
    def assigned(base: Node, value: Node) -> Node:
        base = base * 2.0
        for begin in (1, 2):
            view = Node(Op.SHRINK, base.dtype, (base,), ((begin, begin + 2), (0, 5)))
            write = Node(Op.ASSIGN, base.dtype, (view, value + base.like(begin)))
            base = Node(Op.AFTER, base.dtype, (base, write))
        return base

    check(assigned, X[..., 0], RNG.normal(size=(SIZE, 2, 5)))


def test_what_is_the_same_for_all_examples_is_left_alone():
    memory = Memory()
    x, y = memory(X[0]), memory(X[1])
    shared = y * y
    assert batch([shared, x], {x: memory(X)}, SIZE)[0] is None
    [found] = batch([x * shared], {x: memory(X)}, SIZE)
    assert shared in found.toposort()


def test_shards_inside_of_one_example_are_refused():
    memory = Memory()
    x = memory(X[0])
    parts = Node(Op.MULTI, x.dtype, (x, x), ShardArg(("CPU:0", "CPU:1"), 0))
    with pytest.raises(UserError, match="spread over several devices"):
        batch([parts], {x: memory(X)}, SIZE)


def test_tangents_pass_through_assignments():
    memory = Memory()
    base, value = memory(X[0, :, 0, 0]), memory(X[1, 0, 0])
    view = Node(Op.SHRINK, base.dtype, (base,), ((1, 3),))
    write = Node(Op.ASSIGN, base.dtype, (view, value * value))
    after = Node(Op.AFTER, base.dtype, (base, write))
    moving = np.array([1.0, 2, 3, 4]), np.array([5.0, 6.0])
    [found] = jvp([after * 2.0], {base: memory(moving[0]), value: memory(moving[1])})
    inner = 2 * memory.value(value) * moving[1]
    expected = 2 * np.array([1.0, inner[0], inner[1], 4.0])
    np.testing.assert_allclose(memory.value(found), expected, rtol=1e-12)
