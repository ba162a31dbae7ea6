"""Where elements of views are in what they view: beside NumPy's views, element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.ir.args import BufferRef, GatherArg, ScatterArg, Token, WindowArg
from treadle.ir.evaluate import evaluate
from treadle.ir.interpret import interpret
from treadle.ir.node import Node
from treadle.ir.op import MOVEMENT, Op
from treadle.ir.rules.index import simplify
from treadle.schedule.index import (
    TRUE,
    flat_index,
    gathered_index,
    places_index,
    source_index,
    unwindow_index,
    unwindow_steps,
)

I32 = dtypes.int32
RANDOM = np.random.default_rng(15)


def memory(*shape: int) -> Node:
    size = math.prod(shape)
    flat = Node(Op.BUFFER, I32, (), BufferRef(Token(), size, "CPU"))
    return view(Op.RESHAPE, flat, shape) if len(shape) != 1 else flat


def view(op: Op, node: Node, arg: object) -> Node:
    return Node(op, I32, (node,), arg)


def loops(shape: tuple[int, ...]) -> list[Node]:
    return [Node.range(size, number) for number, size in enumerate(shape)]


def values(node: Node) -> np.ndarray:
    """The elements of a graph over memory that holds 1, 2, 3 ..."""
    return interpret(node, lambda ref: np.arange(1, ref.size + 1, dtype=np.int32))


def read(node: Node) -> np.ndarray:
    """The same, by the index of each element in memory."""
    ranges, valid, shape = loops(node.shape), TRUE, node.shape
    index = tuple(ranges)
    while node.op in MOVEMENT:
        index, inside = source_index(node, index)
        valid, node = valid & inside, node.src[0]
    at = dict(zip(ranges, np.indices(shape), strict=True))
    places = np.broadcast_to(evaluate(flat_index(index, node.shape), at), shape)
    there = np.broadcast_to(evaluate(valid, at), shape)
    size = math.prod(node.shape)
    assert np.all((places[there] >= 0) & (places[there] < size))
    return np.where(there, places + 1, 0)


def window(axis: int, size: int, stride: int, dilation: int, extent: int) -> WindowArg:
    return WindowArg(axis, size, stride, dilation, extent)


VIEWS = {
    "merged": lambda: view(Op.RESHAPE, memory(4, 6, 5), (24, 5)),
    "split": lambda: view(Op.RESHAPE, memory(24, 5), (2, 3, 4, 5)),
    "regrouped": lambda: view(Op.RESHAPE, memory(4, 6, 5), (8, 3, 5)),
    "mixed": lambda: view(Op.RESHAPE, memory(4, 6), (3, 8)),
    "axes of one element": lambda: view(Op.RESHAPE, memory(4, 1, 6), (1, 4, 6, 1)),
    "a scalar": lambda: view(Op.RESHAPE, memory(1, 1), ()),
    "expanded": lambda: view(Op.EXPAND, memory(4, 1, 3), (4, 5, 3)),
    "permuted": lambda: view(Op.PERMUTE, memory(4, 5, 3), (2, 0, 1)),
    "padded": lambda: view(Op.PAD, memory(4, 5), ((1, 2), (0, 3))),
    "shrunk": lambda: view(Op.SHRINK, memory(6, 5), ((1, 4), (2, 5))),
    "flipped": lambda: view(Op.FLIP, memory(4, 5, 3), (0, 2)),
    "windows": lambda: view(Op.WINDOW, memory(3, 12), window(1, 3, 2, 1, 12)),
    "dilated windows": lambda: view(Op.WINDOW, memory(12, 2), window(0, 3, 1, 2, 12)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_each_movement_finds_its_elements(name):
    node = VIEWS[name]()
    np.testing.assert_array_equal(read(node), values(node))


def test_only_padding_asks_whether_there_is_an_element():
    for name, make in VIEWS.items():
        node = make()
        _, valid = source_index(node, tuple(loops(node.shape)))
        assert (valid is TRUE) == (name != "padded")


def test_a_side_without_padding_is_not_asked_for():
    node = view(Op.PAD, memory(4, 5), ((1, 0), (0, 0)))
    _, valid = source_index(node, tuple(loops(node.shape)))
    assert {n.op for n in valid.toposort()} & {Op.AND, Op.OR} == set()


def test_axes_that_a_reshape_leaves_are_their_loops():
    node = view(Op.RESHAPE, memory(4, 6, 5), (4, 2, 3, 5))
    ranges = loops(node.shape)
    (first, middle, last), _ = source_index(node, tuple(ranges))
    assert first is ranges[0]
    assert last is ranges[3]
    assert middle is ranges[1] * 3 + ranges[2]


def some_view(node: Node, random: np.random.Generator) -> Node:
    """A movement of a kind and by amounts that are random."""
    shape, axis = node.shape, int(random.integers(len(node.shape)))
    kind = random.integers(5)
    if kind == 0:
        return view(Op.PERMUTE, node, tuple(int(n) for n in random.permutation(len(shape))))
    if kind == 1:
        return view(Op.FLIP, node, (axis,))
    if kind == 2:
        return view(Op.PAD, node, tuple((1, 2) if n == axis else (0, 0) for n in range(len(shape))))
    if kind == 3 and shape[axis] > 2:
        whole = ((1, size) if n == axis else (0, size) for n, size in enumerate(shape))
        return view(Op.SHRINK, node, tuple(whole))
    size = math.prod(shape)
    factor = next(n for n in (2, 3, 5, 1) if size % n == 0)
    return view(Op.RESHAPE, node, (factor, size // factor))


@pytest.mark.parametrize("seed", range(40))
def test_views_of_views_find_their_elements(seed):
    random = np.random.default_rng(seed)
    node = memory(4, 3, 5)
    for _ in range(5):
        node = some_view(node, random)
    np.testing.assert_array_equal(read(node), values(node))


def each_window(arg: WindowArg, place: Node, at: int) -> list[tuple[int, int]]:
    """The windows, and the offsets into them, that an UNWINDOW adds at position `at` of a loop."""
    (loop,) = (n for n in place.toposort() if n.op is Op.RANGE)
    found = []
    for step in range(unwindow_steps(arg)):
        pair = unwindow_index(arg, place, Node.index(step))
        number, offset = (int(evaluate(n, {loop: at})) for n in pair)
        if 0 <= offset < arg.size:
            found.append((number, offset))
    return found


APART = [(s, d) for s in (1, 2, 3, 4, 6) for d in (1, 2, 3, 4, 5, 6) if math.gcd(s, d) == 1]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize(("stride", "dilation"), APART)
def test_windows_that_overlap_add_up_where_they_did(size, stride, dilation):
    extent = dilation * (size - 1) + 1 + 4 * stride + 1
    arg = window(0, size, stride, dilation, extent)
    windows = view(Op.WINDOW, memory(extent), arg)
    parts = memory(*windows.shape)
    expected = values(view(Op.UNWINDOW, parts, arg))
    place = Node.range(extent, 0)
    step = Node.range(unwindow_steps(arg), 1)
    at = dict(zip((place, step), np.indices((extent, step.src[0].arg)), strict=True))
    number, offset = (
        np.broadcast_to(evaluate(n, at), at[place].shape) for n in unwindow_index(arg, place, step)
    )
    there = (number >= 0) & (number < windows.shape[0]) & (offset >= 0) & (offset < size)
    found = np.where(there, number * size + offset + 1, 0).sum(1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("ahead", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("size", "stride", "dilation"),
    [(6, 3, 1), (5, 2, 1), (3, 1, 4), (4, 2, 3), (4, 3, 2), (5, 4, 3), (3, 6, 5)],
)
def test_a_place_that_is_so_much_further_on_has_the_same_windows(size, stride, dilation, ahead):
    arg = window(0, size, stride, dilation, 40)
    moved = Node.range(18, 0) + ahead
    for at in range(18):
        here = {
            ((at + ahead - dilation * offset) // stride, offset)
            for offset in range(size)
            if (at + ahead - dilation * offset) % stride == 0
        }
        found = each_window(arg, moved, at)
        assert len(found) == len(set(found))
        assert {*found} == here


@pytest.mark.parametrize("stride", [2, 3, 4])
def test_places_between_two_strides_read_the_same_windows(stride):
    arg = window(0, 5, stride, 1, 40)
    outer, inner = Node.range(6, 0), Node.range(stride, 1)
    number, _ = unwindow_index(arg, outer * stride + inner, Node.range(2, 2))
    assert inner not in simplify(number).toposort()


def test_strides_leave_no_steps_for_offsets_of_other_windows():
    assert unwindow_steps(window(0, 6, 3, 1, 12)) == 2
    assert unwindow_steps(window(0, 6, 1, 1, 12)) == 6
    assert unwindow_steps(window(0, 6, 3, 2, 16)) == 2


def test_a_gather_replaces_its_axis_by_a_place():
    source, where = memory(4, 5, 6), memory(2, 3)
    node = Node(Op.GATHER, I32, (source, where), GatherArg(1))
    assert node.shape == (4, 2, 3, 6)
    a, b, c, d = loops(node.shape)
    place = Node.index(3)
    assert places_index(node, (a, b, c, d)) == (b, c)
    assert gathered_index(node, (a, b, c, d), place) == (a, place, d)


def test_a_gather_along_its_axis_has_a_place_for_each_element():
    source, where = memory(4, 5), memory(4, 3)
    node = Node(Op.GATHER, I32, (source, where), GatherArg(1, along=True))
    a, b = loops(node.shape)
    assert places_index(node, (a, b)) == (a, b)
    assert gathered_index(node, (a, b), Node.index(2)) == (a, Node.index(2))


def test_a_scatter_writes_where_a_gather_reads():
    arg = ScatterArg(0, op=None, along=True)
    node = Node(Op.SCATTER, I32, (memory(4, 5), memory(2, 5), memory(2, 5)), arg)
    a, b = Node.range(2, 0), Node.range(5, 1)
    assert places_index(node, (a, b)) == (a, b)
    assert gathered_index(node, (a, b), Node.index(3)) == (Node.index(3), b)
