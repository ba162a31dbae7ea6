"""Graphs as loops: each kernel has the meaning of the graph that it was made from."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.ir.accumulators import identity
from treadle.ir.args import BufferRef, GatherArg, ReduceArg, ScanArg, ScatterArg, Token, WindowArg
from treadle.ir.evaluate import evaluate
from treadle.ir.interpret import interpret
from treadle.ir.interpret_kernel import KernelMeaning
from treadle.ir.loops import closed_ranges, loop_size
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.rules.index import simplify
from treadle.ir.verify import verify_kernel
from treadle.schedule.passes import schedule
from treadle.schedule.ranges import reduce_over, storage_of

F32, I32 = dtypes.float32, dtypes.int32
RANDOM = np.random.default_rng(16)


class Data:
    """The memory behind the buffers of a graph: small integers, so that sums are exact."""

    def __init__(self) -> None:
        self.arrays: dict[Token, np.ndarray] = {}

    def __call__(self, *shape: int, dtype=F32, below: int = 9) -> Node:
        token, size = Token(), math.prod(shape)
        low = 0 if dtype is I32 else -below
        kind = np.int32 if dtype is I32 else np.float32
        self.arrays[token] = RANDOM.integers(low, below, size).astype(kind)
        flat = Node(Op.BUFFER, dtype, (), BufferRef(token, size, "CPU"))
        return Node(Op.RESHAPE, dtype, (flat,), shape)

    def read(self, ref: BufferRef) -> np.ndarray:
        return self.arrays[ref.token]


def view(op: Op, node: Node, arg: object) -> Node:
    return Node(op, node.dtype, (node,), arg)


def total(node: Node, *axes: int, op: Op = Op.ADD) -> Node:
    return view(Op.REDUCE, node, ReduceArg(op, axes))


def where(x: Node, y: Node) -> Node:
    return (x < y).where(x, y * 2)


def relu(x: Node) -> Node:
    return x.maximum(view(Op.EXPAND, view(Op.RESHAPE, Node.const(F32, 0), (1, 1)), x.shape))


def padded(node: Node, *sides: tuple[int, int]) -> Node:
    return view(Op.PAD, node, sides)


def windows(node: Node, size: int, stride: int, dilation: int = 1) -> Node:
    return view(Op.WINDOW, node, WindowArg(1, size, stride, dilation, node.shape[1]))


def unwound(node: Node) -> Node:
    each = windows(node, 3, 2)
    return view(Op.UNWINDOW, each * 2, each.arg)


def row_less_its_sum(node: Node) -> Node:
    return node - view(Op.EXPAND, total(node, 1), node.shape)


GRAPHS = {
    "elementwise": lambda new: where(new(4, 6), new(4, 6)),
    "constants": lambda new: relu(new(4, 6)),
    "views": lambda new: view(Op.FLIP, view(Op.PERMUTE, new(4, 6), (1, 0)), (0,)) * 2,
    "padding": lambda new: padded(new(4, 6) + 1, (1, 2), (0, 3)),
    "padding of padding": lambda new: padded(padded(new(4, 6), (1, 0), (0, 1)) + 1, (0, 1), (2, 0)),
    "sums of rows": lambda new: total(new(4, 6), 1),
    "sums of all": lambda new: total(new(4, 6), 0, 1),
    "products": lambda new: total(new(3, 4), 0, op=Op.MUL),
    "largest": lambda new: total(new(4, 6), 0, op=Op.MAX),
    "a sum of sums": lambda new: total(total(new(4, 6, 5), 2), 1),
    "sums of padding": lambda new: total(padded(new(4, 6) + 1, (1, 1), (2, 0)), 1),
    "padded sums": lambda new: padded(total(new(4, 6), 1), (1, 1), (0, 2)),
    "rows and their sums": lambda new: row_less_its_sum(new(4, 6)),
    "windows": lambda new: total(windows(new(4, 9), 3, 2), 2),
    "windows that overlap": lambda new: unwound(new(4, 9)),
    "a gather": lambda new: Node(
        Op.GATHER, F32, (new(5, 6) + 1, new(3, 2, dtype=I32, below=5)), GatherArg(0)
    ),
    "a gather of some places that are none": lambda new: Node(
        Op.GATHER, F32, (new(5, 6), new(8, dtype=I32, below=9)), GatherArg(0)
    ),
    "a scan": lambda new: view(Op.SCAN, new(4, 6) * 2, ScanArg(Op.ADD, 1)),
    "a scan down": lambda new: view(Op.SCAN, new(4, 6), ScanArg(Op.MAX, 0)),
    "a scatter that adds": lambda new: Node(
        Op.SCATTER, F32, (new(5, 6), new(8, dtype=I32, below=7), new(8, 6) * 2),
        ScatterArg(0, op=Op.ADD),
    ),
    "a scatter along": lambda new: Node(
        Op.SCATTER, F32, (new(5, 6), new(3, 6, dtype=I32, below=5), new(3, 6)),
        ScatterArg(0, op=Op.ADD, along=True),
    ),
}  # fmt: skip


def stored(data: Data, *roots: Node) -> list[np.ndarray]:
    """What the kernels of a graph leave in memory, by the meaning of each."""
    kernels, nodes = schedule(roots, "CPU")
    made: dict[Node, np.ndarray] = {}
    for kernel in kernels:
        verify_kernel(kernel.ast)
        arrays = {}
        for slot, buffer in enumerate(kernel.buffers):
            if buffer.op is Op.BUFFER:
                arrays[slot] = data.read(buffer.arg)
            else:
                arrays[slot] = made.setdefault(buffer, np.full(math.prod(buffer.shape), 99, "f4"))
        found = list(KernelMeaning(kernel.ast, arrays, {}).stores(1 << 20))
        assert {store.slot for store in found} <= set(kernel.writes)
        for store in found:
            arrays[store.slot][store.places] = store.value.value
    return [made[node].reshape(node.shape) for node in nodes]


@pytest.mark.parametrize("name", GRAPHS)
def test_kernels_mean_what_their_graph_does(name):
    data = Data()
    root = GRAPHS[name](data)
    (found,) = stored(data, root)
    np.testing.assert_array_equal(found, interpret(root, data.read))


def test_outputs_over_the_same_loops_mean_what_their_graphs_do():
    data = Data()
    x, y = data(4, 6), data(4, 6)
    roots = [x + y, (x + y) * 2, total(x, 1)]
    for root, found in zip(roots, stored(data, *roots), strict=True):
        np.testing.assert_array_equal(found, interpret(root, data.read))


def the_kernel(root: Node) -> Node:
    (kernel,), _ = schedule([root], "CPU")
    return kernel.ast


def of(root: Node, op: Op) -> list[Node]:
    return [node for node in root.toposort() if node.op is op]


def test_a_view_leaves_nothing_but_an_index():
    data = Data()
    ast = the_kernel(view(Op.PERMUTE, data(4, 6), (1, 0)) * 2)
    (read,), (end,) = of(ast, Op.LOAD), of(ast, Op.END)
    row, column = closed_ranges(end)
    assert [loop_size(r) for r in (row, column)] == [6, 4]
    assert read.src[1] is simplify(column * 6 + row)


def test_padding_guards_the_loads_below_it():
    ast = the_kernel(padded(Data()(4, 6) + 1, (1, 2), (0, 0)))
    (read,) = of(ast, Op.LOAD)
    assert len(read.src) == 4
    assert read.src[3].value == 0
    (store,) = of(ast, Op.STORE)
    assert store.src[2].op is Op.WHERE  # what is added is no padding


def test_padding_of_memory_is_the_guard_alone():
    assert not of(the_kernel(padded(Data()(4, 6), (1, 2), (0, 0))), Op.WHERE)


def test_the_guard_of_a_sum_is_about_its_own_loops():
    data = Data()
    sums = view(Op.EXPAND, total(data(4, 6), 1), (4, 5))
    ast = the_kernel(padded(sums, (0, 0), (1, 1)))
    (reduce,) = of(ast, Op.REDUCE)
    assert not [n for n in of(reduce, Op.LOAD) if len(n.src) == 4]


def test_axes_of_one_element_have_no_loops():
    ast = the_kernel(Data()(4, 1, 6) + 1)
    (end,) = of(ast, Op.END)
    assert [loop_size(r) for r in closed_ranges(end)] == [4, 6]


def test_a_scan_begins_at_what_changes_nothing():
    (register,) = of(the_kernel(GRAPHS["a scan down"](Data())), Op.REGISTER)
    assert register.src[0] is identity(Op.MAX, F32)


def test_a_scatter_writes_nothing_outside_of_its_axis():
    ast = the_kernel(GRAPHS["a scatter that adds"](Data()))
    (store,) = (n for n in of(ast, Op.STORE) if len(n.src) == 4)
    (place,) = (n for n in of(store.src[3], Op.LOAD))
    held = [bool(evaluate(store.src[3], {place: n})) for n in range(-2, 8)]
    assert held == [0 <= n < 5 for n in range(-2, 8)]


K, L = Node.range(4, 0), Node.range(5, 1)
ADD, MAX = ReduceArg(Op.ADD), ReduceArg(Op.MAX)
VALUE = (K * 5 + L).cast(F32)


def test_a_reduction_of_a_reduction_is_one():
    inner = reduce_over(ADD, VALUE, (L,))
    assert reduce_over(ADD, inner, (K,)).src == (VALUE, K, L)
    assert reduce_over(MAX, inner, (K,)).src == (inner, K)


def test_a_guarded_sum_is_a_sum_of_guarded_terms():
    inner = reduce_over(ADD, VALUE, (L,))
    guarded = (K < 2).where(inner, 0)
    assert reduce_over(ADD, guarded, (K,)).src == ((K < 2).where(VALUE, 0), K, L)
    assert reduce_over(MAX, guarded, (K,)).src == (guarded, K)
    largest = (K < 2).where(reduce_over(MAX, VALUE, (L,)), 0)
    assert reduce_over(MAX, largest, (K,)).src == (largest, K)
    assert reduce_over(ADD, (K < 2).where(inner, 1), (K,)).src[1:] == (K,)


def test_nothing_to_reduce_over_leaves_the_value():
    assert reduce_over(ADD, VALUE, ()) is VALUE


def test_an_assignment_is_stored_in_what_it_is_assigned_to():
    data = Data()
    x = data(4, 6)
    part = view(Op.SHRINK, x, ((1, 3), (0, 6)))
    write = Node(Op.ASSIGN, F32, (part, data(2, 6) * 2))
    assert storage_of(write) is x.src[0]
    (kernel,), _ = schedule([write], "CPU")
    (store,) = of(kernel.ast, Op.STORE)
    assert kernel.buffers[store.src[0].arg.slot] is x.src[0]
    before = data.read(x.src[0].arg).copy()
    arrays = {slot: data.read(buffer.arg) for slot, buffer in enumerate(kernel.buffers)}
    (found,) = KernelMeaning(kernel.ast, arrays, {}).stores(1 << 20)
    assert sorted(found.places) == list(range(6, 18))
    np.testing.assert_array_equal(before, data.read(x.src[0].arg))
