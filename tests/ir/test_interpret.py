"""The interpreter is the oracle, so it is compared with NumPy and PyTorch written out by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.errors import InternalError, UserError
from treadle.ir.args import (
    BufferRef,
    ButterflyArg,
    GatherArg,
    ReduceArg,
    ScanArg,
    ScatterArg,
    SortArg,
    Token,
    WindowArg,
)
from treadle.ir.elementwise import cast_array, numpy_dtype
from treadle.ir.fold import fold_scalar
from treadle.ir.interpret import evaluate, interpret, interpret_many
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.verify import verify_tensor


class Memory:
    """Arrays as BUFFER nodes, and the function that gives them back."""

    def __init__(self) -> None:
        self.arrays: dict[Token, np.ndarray] = {}

    def __call__(self, ref: BufferRef) -> np.ndarray:
        return self.arrays[ref.token]

    def buffer(self, array: np.ndarray, dtype=dtypes.float32) -> Node:
        token = Token()
        self.arrays[token] = array.reshape(-1)
        return Node(Op.BUFFER, dtype, (), BufferRef(token, array.size, "CPU"))

    def tensor(self, array: np.ndarray, dtype=dtypes.float32) -> Node:
        return Node(Op.RESHAPE, dtype, (self.buffer(array, dtype),), array.shape)

    def value(self, node: Node) -> np.ndarray:
        verify_tensor(node)
        return interpret(node, self)


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def move(op: Op, source: Node, arg) -> Node:
    return Node(op, source.dtype, (source,), arg)


def grid(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_movement_is_numpys(memory):
    a = grid(2, 3)
    x = memory.tensor(a)
    assert np.array_equal(memory.value(move(Op.PERMUTE, x, (1, 0))), a.T)
    assert np.array_equal(memory.value(move(Op.FLIP, x, (1,))), a[:, ::-1])
    assert np.array_equal(memory.value(move(Op.SHRINK, x, ((0, 2), (1, 3)))), a[:, 1:])
    padded = memory.value(move(Op.PAD, x, ((1, 0), (0, 2))))
    assert np.array_equal(padded, np.pad(a, ((1, 0), (0, 2))))
    column = move(Op.SHRINK, x, ((0, 2), (0, 1)))
    expanded = memory.value(move(Op.EXPAND, column, (2, 4)))
    assert np.array_equal(expanded, np.broadcast_to(a[:, :1], (2, 4)))


@pytest.mark.parametrize(("size", "stride", "dilation"), [(3, 1, 1), (2, 3, 2), (3, 2, 3)])
def test_windows_and_their_adjoint_follow_the_definition(memory, size, stride, dilation):
    a = grid(2, 11, 2)
    arg = WindowArg(1, size, stride, dilation, 11)
    window = move(Op.WINDOW, memory.tensor(a), arg)
    got = memory.value(window)
    outputs = got.shape[1]
    back = np.zeros_like(a)
    for o in range(outputs):
        for k in range(size):
            place = o * stride + k * dilation
            assert np.array_equal(got[:, o, :, k], a[:, place, :])
            back[:, place, :] += got[:, o, :, k]
    assert np.array_equal(memory.value(move(Op.UNWINDOW, window, arg)), back)


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN])
def test_reductions_and_scans_are_numpys(memory, op):
    a = grid(2, 3, 2) - 5
    x = memory.tensor(a)
    ufunc = {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum, Op.MIN: np.minimum}[op]
    reduced = memory.value(Node(Op.REDUCE, x.dtype, (x,), ReduceArg(op, (0, 2))))
    assert np.array_equal(reduced, ufunc.reduce(a, axis=(0, 2), keepdims=True))
    scanned = memory.value(Node(Op.SCAN, x.dtype, (x,), ScanArg(op, 1)))
    assert np.array_equal(scanned, ufunc.accumulate(a, axis=1))


def test_reducing_nothing_gives_the_neutral_element(memory):
    x = memory.tensor(np.zeros((0, 2), np.float32))
    for op, neutral in ((Op.ADD, 0), (Op.MUL, 1), (Op.MAX, -np.inf), (Op.MIN, np.inf)):
        got = memory.value(Node(Op.REDUCE, x.dtype, (x,), ReduceArg(op, (0,))))
        assert got.tolist() == [[neutral, neutral]]


def test_sums_keep_their_dtype(memory):
    for dtype, wanted in ((dtypes.uint8, 144), (dtypes.bool, True), (dtypes.bfloat16, 400.0)):
        x = memory.tensor(np.full(4, 100).astype(numpy_dtype(dtype)), dtype)
        got = memory.value(Node(Op.REDUCE, dtype, (x,), ReduceArg(Op.ADD, (0,))))
        assert got.dtype == numpy_dtype(dtype)
        assert got[0] == wanted


def test_gather_reads_zero_outside(memory):
    a, index = grid(2, 3), np.array([[2, 0], [-1, 3]], np.int32)
    places = memory.tensor(index, dtypes.int32)
    got = memory.value(Node(Op.GATHER, dtypes.float32, (memory.tensor(a), places), GatherArg(1)))
    assert got.tolist() == [[[2, 0], [0, 0]], [[5, 3], [0, 0]]]


def test_scatter_combines_or_keeps_the_last_write(memory):
    base, places = memory.tensor(grid(4)), memory.tensor(np.array([1, 1, 9, 0]), dtypes.int64)
    new = memory.tensor(np.array([10, 20, 30, 40], np.float32))
    for op, wanted in ((None, [40, 20, 2, 3]), (Op.ADD, [40, 31, 2, 3]), (Op.MAX, [40, 20, 2, 3])):
        got = memory.value(Node(Op.SCATTER, dtypes.float32, (base, places, new), ScatterArg(0, op)))
        assert got.tolist() == wanted


def test_an_assign_writes_through_views_and_old_readers_see_the_old_values(memory):
    array = grid(2, 3).copy()
    base = memory.buffer(array)
    view = move(Op.FLIP, move(Op.SHRINK, move(Op.RESHAPE, base, (2, 3)), ((1, 2), (0, 3))), (1,))
    old = base + 1.0
    write = Node(Op.ASSIGN, dtypes.float32, (view, view * 10.0))
    new = Node(Op.AFTER, dtypes.float32, (base, write))
    after, before = interpret_many([new, old], memory)
    assert after.tolist() == [0, 1, 2, 30, 40, 50]
    assert before.tolist() == [1, 2, 3, 4, 5, 6]
    assert array.reshape(-1).tolist() == [0, 1, 2, 30, 40, 50]


def test_assigns_follow_one_another(memory):
    base = memory.buffer(grid(3).copy())
    first = Node(Op.ASSIGN, dtypes.float32, (base, base + 1.0))
    middle = Node(Op.AFTER, dtypes.float32, (base, first))
    second = Node(Op.ASSIGN, dtypes.float32, (middle, middle * middle))
    last = Node(Op.AFTER, dtypes.float32, (middle, second))
    values = interpret_many([last, middle, base], memory)
    assert [v.tolist() for v in values] == [[1, 4, 9], [1, 2, 3], [0, 1, 2]]


def test_an_assign_to_a_computed_value_needs_no_buffer(memory):
    value = move(Op.CONTIGUOUS, memory.tensor(grid(2, 2)) + 1.0, None)
    row = move(Op.SHRINK, value, ((0, 1), (0, 2)))
    write = Node(Op.ASSIGN, dtypes.float32, (row, Node.const(dtypes.float32, 7)))
    assert memory.value(Node(Op.AFTER, dtypes.float32, (value, write))).tolist() == [[7, 7], [3, 4]]


def test_symbolic_sizes_take_the_bound_value(memory):
    n = Node.variable("n", 1, 6)
    bound = Node(Op.BIND, dtypes.index, (n, Node.index(4)))
    x = move(Op.SHRINK, memory.buffer(grid(6)), ((0, n),))
    total = Node(Op.REDUCE, dtypes.float32, (x,), ReduceArg(Op.ADD, (0,)))
    assert interpret(total, memory, {"n": 3}).tolist() == [3]
    assert [v.tolist() for v in interpret_many([total, bound], memory)] == [[6], 4]
    with pytest.raises(UserError, match="variable n has no value"):
        interpret(total, memory)


EDGES = {
    "int": [0, 1, -1, 2, -2, 7, -7, 100, -128, 127, 2**31 - 1, -(2**31)],
    "float": [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.1, 7.0, 1e30, np.inf, -np.inf, np.nan],
}
INT_OPS = (
    Op.ADD, Op.SUB, Op.MUL, Op.IDIV, Op.MOD, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR,
    Op.CMPLT, Op.CMPEQ, Op.CMPNE,
)  # fmt: skip
FLOAT_OPS = (Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.CMPLT, Op.CMPEQ, Op.CMPNE)
UNARY_FLOAT = (
    Op.NEG, Op.RECIP, Op.SQRT, Op.EXP2, Op.EXP, Op.LOG2, Op.LOG, Op.LOG10, Op.LOG1P, Op.TANH,
    Op.ASINH, Op.ACOSH, Op.ATANH, Op.ERF, Op.ERFC, Op.ERFINV, Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND,
)  # fmt: skip


def agree(got, wanted) -> bool:
    wanted = np.asarray(wanted).astype(got.dtype)
    return bool(np.array_equal(got, wanted, equal_nan=got.dtype.kind == "f"))


@pytest.mark.parametrize("dtype", [*dtypes.ints, dtypes.float32, dtypes.float64])
def test_elementwise_ops_agree_with_constant_folding(dtype):
    values = [dtype.as_const(v) for v in EDGES["float" if dtype.is_float else "int"]]
    if dtype is dtypes.float32:
        values = [float(np.float32(v)) for v in values]
    x, y = (Node(Op.WILDCARD, dtype, (), (name, False)) for name in "xy")
    known = np.array(values, numpy_dtype(dtype))
    a, b = (m.reshape(-1) for m in np.meshgrid(known, known))
    for op in FLOAT_OPS if dtype.is_float else INT_OPS:
        node = x.alu(op, y)
        got = evaluate(node, {x: a, y: b})
        for p, q, r in zip(a.tolist(), b.tolist(), got, strict=True):
            folded = fold_scalar(op, node.dtype, (dtype, dtype), (p, q))
            assert agree(r, folded), (op, p, q, r, folded)


@pytest.mark.parametrize("op", UNARY_FLOAT)
def test_unary_ops_agree_with_constant_folding(op):
    x = Node(Op.WILDCARD, dtypes.float32, (), ("x", False))
    values = np.array(EDGES["float"], np.float32)
    got = evaluate(x.alu(op), {x: values})
    folded = [fold_scalar(op, x.dtype, (x.dtype,), (v,)) for v in values.tolist()]
    assert np.allclose(got, np.array(folded, np.float32), rtol=1.2e-7, atol=0, equal_nan=True)


@pytest.mark.parametrize("target", dtypes.all)
def test_casts_agree_with_constant_folding(target):
    values = [*EDGES["float"], 300.7, -300.7, 4e9, -4e9, 3e38]
    x = Node(Op.WILDCARD, dtypes.float32, (), ("x", False))
    values = [float(np.float32(v)) for v in values]
    got = evaluate(x.cast(target), {x: np.array(values, np.float32)})
    with np.errstate(all="ignore"):
        folded = [fold_scalar(Op.CAST, target, (x.dtype,), (v,)) for v in values]
        wanted = np.array(folded, numpy_dtype(target)).astype(np.float64)
        assert np.array_equal(got.astype(np.float64), wanted, equal_nan=True)


def test_maximum_and_minimum_propagate_nan(memory):
    x = memory.tensor(np.array([1, np.nan, 3], np.float32))
    y = memory.tensor(np.array([np.nan, 2, 2], np.float32))
    top, least = memory.value(x.maximum(y)), memory.value(x.minimum(y))
    assert np.array_equal(top, [np.nan, np.nan, 3], equal_nan=True)
    assert np.array_equal(least, [np.nan, np.nan, 2], equal_nan=True)


def test_a_fused_multiply_add_rounds_once():
    for dtype, eps in ((dtypes.float32, 2.0**-12), (dtypes.float64, 2.0**-30)):
        x = Node(Op.WILDCARD, dtype, (), ("x", False))
        fused = Node(Op.FMA, dtype, (x, x, Node.const(dtype, -1.0)))
        kind = numpy_dtype(dtype).type
        got = evaluate(fused, {x: np.array([kind(1 + eps)])})
        assert got[0] == kind(2 * eps + eps * eps)


def test_a_cast_from_float64_to_bfloat16_rounds_once():
    values = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 1e300])
    got = cast_array(values, dtypes.bfloat16).astype(np.float64)
    assert got.tolist() == [1 + 2.0**-7, 1.0, np.inf]


def test_vectors_have_their_lanes_last():
    x = Node(Op.WILDCARD, dtypes.float32, (), ("x", False))
    four = dtypes.float32.vec(4)
    lanes = Node(Op.LANES, dtypes.float32.vec(4))
    shifted = Node(Op.BROADCAST, four, (x,)) + lanes
    a = np.array([10, 20], np.float32)
    assert evaluate(shifted, {x: a}).tolist() == [[10, 11, 12, 13], [20, 21, 22, 23]]
    total = Node(Op.HREDUCE, dtypes.float32, (shifted,), Op.ADD)
    last = Node(Op.EXTRACT, dtypes.float32, (shifted,), 3)
    pair = Node(Op.STACK, dtypes.float32.vec(2), (total, last))
    assert evaluate(pair, {x: a}).tolist() == [[46, 13], [86, 23]]


def test_the_work_items_of_a_subgroup_all_get_what_they_combine():
    x = Node(Op.WILDCARD, dtypes.float32, (), ("x", False))
    a = np.array([[1, 2, 4, 8], [3, np.nan, 5, 1]], np.float32)
    total = Node(Op.SUBGROUP, dtypes.float32, (x,), Op.ADD)
    most = Node(Op.SUBGROUP, dtypes.float32, (x,), Op.MAX)
    assert evaluate(total * 2.0, {x: a[:1]}).tolist() == [[30, 30, 30, 30]]
    np.testing.assert_array_equal(evaluate(most, {x: a}), [[8] * 4, [np.nan] * 4])
    some = Node(Op.BUTTERFLY, dtypes.float32, (x,), ButterflyArg(Op.ADD, (2,)))
    assert evaluate(some, {x: a[:1]}).tolist() == [[5, 10, 5, 10]]
    held = Node(Op.WILDCARD, dtypes.bool, (), ("b", False))
    every = Node(Op.SUBGROUP, dtypes.bool, (held,), Op.MUL)
    assert evaluate(every, {held: np.array([True, False, True])}).tolist() == [False] * 3


def test_ten_thousand_ops_need_no_recursion(memory):
    x = memory.tensor(grid(2))
    for _ in range(10_000):
        x = x + 1.0
    assert interpret(x, memory).tolist() == [10_000, 10_001]


def test_kernel_ops_have_no_meaning_in_a_tensor_graph(memory):
    with pytest.raises(InternalError, match="range"):
        interpret(Node.range(4, 0), memory)
    with pytest.raises(InternalError, match="no value"):
        evaluate(Node.range(4, 0) + 1, {})


def test_sort_gives_the_first_places_of_the_stable_order(memory):
    keys = np.array([[3, 1, 1, 0], [2, 2, 9, 2]], np.uint32)
    for axis, count in ((1, 4), (1, 2), (0, 1)):
        source = memory.tensor(keys, dtypes.uint32)
        got = memory.value(Node(Op.SORT, dtypes.int32, (source,), SortArg(axis, count)))
        expected = np.take(np.argsort(keys, axis, kind="stable"), np.arange(count), axis)
        np.testing.assert_array_equal(got, expected)


def test_distribute_takes_the_next_place_of_each_bin(memory):
    arrays = np.array([[5, 6, 7]]), np.array([[1, 0, 1]]), np.array([[0, 1]])
    sources = tuple(memory.tensor(a.astype(np.int32), dtypes.int32) for a in arrays)
    got = memory.value(Node(Op.DISTRIBUTE, dtypes.int32, sources, (3,)))
    np.testing.assert_array_equal(got, [6, 5, 7])
