"""Windows that reach only some places: summed close together, with the same values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle import Tensor
from treadle.dtype import dtypes
from treadle.ir.args import BufferRef, Token, WindowArg
from treadle.ir.interpret import interpret
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.schedule.passes import schedule
from treadle.schedule.spread_windows import spread_windows

I32 = dtypes.int32


def memory(*shape: int) -> Node:
    size = math.prod(shape)
    flat = Node(Op.BUFFER, I32, (), BufferRef(Token(), size, "CPU"))
    return Node(Op.RESHAPE, I32, (flat,), shape)


def values(node: Node) -> np.ndarray:
    return interpret(node, lambda ref: np.arange(1, ref.size + 1, dtype=np.int32))


def added_up(source: Node, *args: WindowArg) -> Node:
    """The windows of the last axes of `source` added up, the last ones first."""
    for arg in reversed(args):
        source = Node(Op.UNWINDOW, I32, (source,), arg)
    return source


def sums(node: Node) -> list[Node]:
    return [n for n in node.toposort() if n.op is Op.UNWINDOW]


def arg_of(axis: int, size: int, stride: int, dilation: int, count: int, more: int) -> WindowArg:
    extent = (count - 1) * stride + dilation * (size - 1) + 1 + more
    return WindowArg(axis, size, stride, dilation, extent)


SHARED = [(s, d) for s in (2, 3, 4, 6) for d in (2, 3, 4, 6, 9) if math.gcd(s, d) > 1]


@pytest.mark.parametrize("more", [0, 1, 5])
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(("stride", "dilation"), SHARED)
def test_windows_are_summed_close_together_and_spread(stride, dilation, size, more):
    node = added_up(memory(2, 5, size), arg_of(1, size, stride, dilation, 5, more))
    (spread,) = spread_windows([node], None)
    np.testing.assert_array_equal(values(spread), values(node))
    (close,) = sums(spread)
    assert math.gcd(close.arg.stride, close.arg.dilation) == 1
    assert close.shape[1] == -(-node.shape[1] // math.gcd(stride, dilation))


@pytest.mark.parametrize("stride", [2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("more", [0, 2])
def test_a_window_of_one_element_reaches_every_stride_whatever_its_dilation(stride, dilation, more):
    node = added_up(memory(4, 1), arg_of(0, 1, stride, dilation, 4, more))
    (spread,) = spread_windows([node], None)
    np.testing.assert_array_equal(values(spread), values(node))
    (close,) = sums(spread)
    assert (close.arg.stride, close.arg.dilation) == (1, 1)


@pytest.mark.parametrize(
    "steps",
    [((2, 2), (2, 2)), ((2, 1), (2, 2)), ((2, 2), (2, 1)), ((3, 6), (1, 1)), ((1, 2), (4, 2))],
)
def test_zeros_come_after_the_sums_of_all_axes(steps: tuple[tuple[int, int], ...]):
    """Sums of sums stay one: zeros between them would be added up."""
    first, second = (arg_of(axis, 3, *steps[axis], 4, 1) for axis in (0, 1))
    node = added_up(memory(4, 4, 3, 3), first, second)
    (spread,) = spread_windows([node], None)
    np.testing.assert_array_equal(values(spread), values(node))
    one, other = sums(spread)
    assert other.src == (one,)


@pytest.mark.parametrize("piece", [(0, 9), (3, 12), (4, 7), (1, 2), (5, 13)])
def test_zeros_come_after_a_shrink(piece):
    node = added_up(memory(5, 3), arg_of(0, 3, 2, 2, 5, 1))
    shrunk = Node(Op.SHRINK, I32, (node,), (piece,))
    (spread,) = spread_windows([shrunk], None)
    np.testing.assert_array_equal(values(spread), values(shrunk))


def test_what_shares_no_factor_stays():
    node = added_up(memory(5, 3), arg_of(0, 3, 2, 3, 5, 0))
    assert spread_windows([node], None) == [node]


def test_a_product_is_not_computed_for_the_zeros_between_its_results():
    image, weight = Tensor.rand(1, 16, 12, 12), Tensor.rand(16, 16, 3, 3)
    for values in (image, weight):
        values.realize()
    seen = image.conv2d(weight, stride=2, dilation=2, padding=2)
    (gradient,) = seen.gradient(image, gradient=Tensor.rand(*seen.shape).realize())
    kernels, _ = schedule([gradient.node], "CPU")
    sums = [n for k in kernels for n in k.ast.toposort() if n.op is Op.REDUCE]
    assert len(kernels) == 2
    assert len(sums) == 1
    assert kernels[0].roots[0].shape[-2:] == (6, 6)
