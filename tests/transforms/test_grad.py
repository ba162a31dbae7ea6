"""Rules of transforms, op by op, in float64 and by the meaning of the IR alone.

Gradients of two orders against finite differences, tangents against gradients (each is the other's
adjoint), batches against one example at a time.
"""

from __future__ import annotations

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.errors import UserError
from treadle.ir.args import BufferRef, GatherArg, ReduceArg, ScanArg, ScatterArg, Token, WindowArg
from treadle.ir.interpret import interpret
from treadle.ir.node import Node, alu
from treadle.ir.op import Op
from treadle.ir.verify import verify_tensor
from treadle.transforms.batch import batch
from treadle.transforms.grad import gradient
from treadle.transforms.jvp import jvp

F64 = dtypes.float64
RNG = np.random.default_rng(17)


class Inputs:
    """BUFFERs with arrays behind them."""

    def __init__(self) -> None:
        self.arrays: dict[BufferRef, np.ndarray] = {}

    def __call__(self, array: np.ndarray) -> Node:
        ref = BufferRef(Token(), array.size, "REF")
        self.arrays[ref] = np.array(array, np.float64).reshape(-1)
        node = Node(Op.BUFFER, F64, (), ref)
        return Node(Op.RESHAPE, F64, (node,), array.shape)

    def value(self, node: Node) -> np.ndarray:
        return interpret(node, lambda ref: self.arrays[ref].copy())


@pytest.fixture
def inputs() -> Inputs:
    return Inputs()


def _index(values: object) -> Node:
    """A constant integer array, as a graph."""
    array = np.array(values)
    iota = Node(Op.IOTA, dtypes.int32, (), array.size)
    node = iota * 0
    for place, value in enumerate(array.reshape(-1)):
        node = node + iota.eq(place).cast(dtypes.int32) * int(value)
    return Node(Op.RESHAPE, dtypes.int32, (node,), array.shape)


def check(inputs: Inputs, function: object, *arrays: np.ndarray, second: bool = True) -> None:
    """The gradient of a random weighting against central differences; and that of the gradient."""
    nodes = [inputs(a) for a in arrays]
    root = function(*nodes)
    weights = inputs(RNG.normal(size=root.shape))
    found = gradient(root, nodes, weights)
    for node, got in zip(nodes, found, strict=True):
        assert got is not None
        assert got.shape == node.shape
        expected = _differences(inputs, root, node, inputs.value(weights))
        np.testing.assert_allclose(inputs.value(got), expected, rtol=1e-5, atol=1e-6)
    _check_tangents(inputs, root, nodes, found, weights)
    _check_batches(inputs, root, nodes)
    if second:
        _check_second(inputs, nodes, found)


def _check_tangents(
    inputs: Inputs, root: Node, nodes: list[Node], found: list[Node], weights: Node
) -> None:
    """weights . tangent = sum of gradient . what moves."""
    moving = {node: inputs(RNG.normal(size=node.shape)) for node in nodes}
    [tangent] = jvp([root], moving)
    actual = 0.0 if tangent is None else (inputs.value(tangent) * inputs.value(weights)).sum()
    pairs = zip(found, moving.values(), strict=True)
    expected = sum((inputs.value(g) * inputs.value(t)).sum() for g, t in pairs)
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


def _check_batches(inputs: Inputs, root: Node, nodes: list[Node]) -> None:
    """With every operand in three examples, and with each one alone."""
    for varied in [nodes, *([node] for node in nodes if len(nodes) > 1)]:
        examples = {n: inputs(np.stack([inputs.value(n) * k for k in (1, 2, 0.5)])) for n in varied}
        [found] = batch([root], examples, 3)
        assert found is not None
        verify_tensor(found)
        for k in range(3):
            own = {node: inputs(inputs.value(many)[k]) for node, many in examples.items()}
            expected = inputs.value(root.substitute(own))
            np.testing.assert_allclose(inputs.value(found)[k], expected, rtol=1e-12, atol=1e-12)


def _check_second(inputs: Inputs, nodes: list[Node], found: list[Node | None]) -> None:
    for first in found:
        weights = inputs(RNG.normal(size=first.shape))
        for node, got in zip(nodes, gradient(first, nodes, weights), strict=True):
            expected = _differences(inputs, first, node, inputs.value(weights))
            actual = np.zeros(node.shape) if got is None else inputs.value(got)
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def _differences(inputs: Inputs, root: Node, node: Node, weights: np.ndarray) -> np.ndarray:
    flat, step = inputs.arrays[node.src[0].arg], 1e-5
    result = np.zeros(flat.size)
    for i in range(flat.size):
        kept = flat[i]
        flat[i] = kept + step
        above = (inputs.value(root) * weights).sum()
        flat[i] = kept - step
        below = (inputs.value(root) * weights).sum()
        flat[i] = kept
        result[i] = (above - below) / (2 * step)
    return result.reshape(node.shape)


A = RNG.normal(size=(3, 4))
B = RNG.normal(size=(3, 4)) + 3
POSITIVE = np.abs(A) + 0.5
EVERY_UNARY = [
    (Op.NEG, A), (Op.RECIP, POSITIVE), (Op.SQRT, POSITIVE), (Op.EXP2, A), (Op.EXP, A),
    (Op.LOG2, POSITIVE), (Op.LOG, POSITIVE), (Op.LOG10, POSITIVE), (Op.LOG1P, POSITIVE),
    (Op.SIN, A), (Op.COS, A), (Op.TAN, A / 2), (Op.TANH, A), (Op.ASINH, A * 3),
    (Op.ACOSH, POSITIVE + 1), (Op.ATANH, A / 4), (Op.ERF, A), (Op.ERFC, A), (Op.ERFINV, A / 4),
]  # fmt: skip
EVERY_BINARY = [Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.MAX, Op.MIN, Op.POW]


@pytest.mark.parametrize(("op", "x"), EVERY_UNARY, ids=[op.name for op, _ in EVERY_UNARY])
def test_a_function_of_one_value_is_differentiated(inputs, op, x):
    check(inputs, lambda a: alu(op, a), x)


@pytest.mark.parametrize("op", EVERY_BINARY, ids=lambda op: op.name)
def test_a_function_of_two_values_is_differentiated(inputs, op):
    check(inputs, lambda a, b: alu(op, a, b), POSITIVE, B)


def test_modulo_selection_and_fused_products_are_differentiated(inputs):
    check(inputs, lambda a, b: alu(Op.MOD, a, b), A * 10, B, second=False)
    check(inputs, lambda a, b: (a < b).where(a * a, b), A, B)
    check(inputs, lambda a, b, c: alu(Op.FMA, a, b, c), A, B, POSITIVE)


@pytest.mark.parametrize("op", [Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND], ids=lambda op: op.name)
def test_a_step_function_has_a_zero_gradient(inputs, op):
    check(inputs, lambda a: alu(op, a), A)


MOVES = [
    (Op.RESHAPE, (2, 6)), (Op.PERMUTE, (1, 0)), (Op.PAD, ((1, 2), (0, 1))),
    (Op.SHRINK, ((1, 3), (0, 2))), (Op.FLIP, (0, 1)), (Op.WINDOW, WindowArg(1, 2, 1, 2, 4)),
    (Op.WINDOW, WindowArg(0, 2, 1, 1, 3)), (Op.WINDOW, WindowArg(1, 2, 2, 1, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "arg"), MOVES, ids=lambda v: v.name if isinstance(v, Op) else "")
def test_a_movement_is_differentiated(inputs, op, arg):
    check(inputs, lambda a: Node(op, F64, (a * a,), arg), A)


def test_expansion_and_its_adjoints_are_differentiated(inputs):
    check(inputs, lambda a: Node(Op.EXPAND, F64, (a * a,), (3, 5)), A[:, :1])
    arg = WindowArg(0, 2, 2, 1, 7)
    check(inputs, lambda a: Node(Op.UNWINDOW, F64, (a * a,), arg), RNG.normal(size=(3, 2)))
    check(inputs, lambda a: Node(Op.WINDOW, F64, (a * a,), arg), RNG.normal(size=7))


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN], ids=lambda op: op.name)
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_a_reduction_is_differentiated(inputs, op, axes):
    check(inputs, lambda a: Node(Op.REDUCE, F64, (a,), ReduceArg(op, axes)), A)


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN], ids=lambda op: op.name)
@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_is_differentiated(inputs, op, axis):
    check(inputs, lambda a: Node(Op.SCAN, F64, (a,), ScanArg(op, axis)), A)


def test_gather_and_scatter_are_differentiated(inputs):
    places = _index([2, 0, 2])
    check(inputs, lambda a: Node(Op.GATHER, F64, (a * a, places), GatherArg(0)), A)
    for op in (None, Op.ADD, Op.MAX, Op.MIN, Op.MUL):
        index, arg = _index([2, 0] if op is None else [2, 2]), ScatterArg(0, op)
        check(
            inputs,
            lambda a, b, i=index, arg=arg: Node(Op.SCATTER, F64, (a * a, i, b * b), arg),
            A,
            RNG.normal(size=(2, 4)),
        )


def test_an_assignment_passes_gradients_to_its_parts(inputs):
    base = RNG.normal(size=6)

    def assigned(a: Node, b: Node) -> Node:
        own = a * a
        view = Node(Op.SHRINK, F64, (own,), ((1, 4),))
        return Node(Op.AFTER, F64, (own, Node(Op.ASSIGN, F64, (view, b * b)))) * 2.0

    check(inputs, assigned, base, RNG.normal(size=3))


def test_gradients_stop_at_detach_and_at_integers(inputs):
    x = inputs(A)
    seed = inputs(np.ones((3, 4)))
    assert gradient(Node(Op.DETACH, F64, (x,)), [x], seed) == [None]
    assert gradient(x.cast(dtypes.int32).cast(F64), [x], seed) == [None]
    assert gradient(x * 2.0, [inputs(B)], seed) == [None]
    assert gradient(x, [x], seed) == [seed]


def test_a_chain_of_ten_thousand_operations_is_differentiated(inputs):
    x = y = inputs(np.ones(1))
    for _ in range(10_000):
        y = y * 1.0001
    [found] = gradient(y, [x], inputs(np.ones(1)))
    assert inputs.value(found)[0] == pytest.approx(1.0001**10_000)


def test_a_product_of_scattered_values_is_differentiated_around_zeros(inputs):
    index, arg = _index([0, 0, 1, 1, 2, 2]), ScatterArg(0, Op.MUL)
    values = np.array([0.0, 2.0, 0.0, 0.0, 3.0, 4.0])
    check(inputs, lambda a, b: Node(Op.SCATTER, F64, (a, index, b), arg),
          np.array([2.0, 3.0, 0.0, 5.0]), values, second=False)  # fmt: skip
    check(inputs, lambda a, b: Node(Op.SCATTER, F64, (a, _index([0, 0, 2, 2]), b), arg),
          np.array([2.0, 3.0, 0.5]), np.array([0.0, 2.0, 3.0, 4.0]))  # fmt: skip


def test_what_has_no_derivative_says_so(inputs):
    x = inputs(A[0])
    node = Node(Op.BITCAST, F64, (x,))
    with pytest.raises(UserError, match=r"\[bitcast\] has no derivative; detach\(\)"):
        gradient(node, [x], x)
    with pytest.raises(UserError, match=r"\[bitcast\] has no derivative; detach\(\)"):
        jvp([node], {x: x})
