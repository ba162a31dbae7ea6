"""What is compared with an extreme of its own is stored, where kernels may round it differently."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.schedule.compared import compared_with_extremes
from treadle.schedule.passes import schedule

from ..choices.chains import beside
from ..choices.operations import OfTensor


def memory(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor.rand(*shape).cast(getattr(dtypes, dtype)).realize()


def stored(result: Tensor) -> list[Node]:
    return list(compared_with_extremes([result.node]))


def is_largest(x: Tensor) -> Tensor:
    return x == x.max(-1, keepdim=True)


INEXACT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a product that is added": lambda a, b: a * b + b,
    "a product that is subtracted": lambda a, b: b - a * b,
    "a negated product that is added": lambda a, b: (a * b).neg() + b,
    "a sum": lambda a, b: a.sum(0, keepdim=True),
    "a quotient": lambda a, b: a / b,
    "a function": lambda a, b: (a + b).tanh(),
    "half types": lambda a, b: a.cast(dtypes.bfloat16) * b.cast(dtypes.bfloat16),
}
EXACT: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "memory": lambda a, b: a,
    "a product": lambda a, b: a * b * 0.125,
    "a sum of two": lambda a, b: a + b,
    "the larger": lambda a, b: (a - b).maximum(0.0),
    "what is chosen": lambda a, b: (a < b).where(a, -b).floor(),
    "maxima": lambda a, b: (a + b).max(0, keepdim=True),
    "integers": lambda a, b: (a.cast(dtypes.int32) * 3 + b.cast(dtypes.int32)).cast(dtypes.float32),
    "a copy": lambda a, b: (a * b + b).contiguous(),
}


@pytest.mark.parametrize("name", INEXACT)
def test_what_kernels_may_round_differently_is_stored(name: str) -> None:
    x = INEXACT[name](memory(20, 30), memory(20, 30))
    assert stored(is_largest(x)) == [x.node]


@pytest.mark.parametrize("name", EXACT)
def test_what_all_kernels_round_alike_is_not(name: str) -> None:
    assert not stored(is_largest(EXACT[name](memory(20, 30), memory(20, 30))))


def test_what_it_follows_from_is_stored_if_that_is_no_larger() -> None:
    a = memory(20, 30, dtype="bfloat16")
    narrow = a * a
    assert stored(is_largest(narrow.cast(dtypes.float32).maximum(0.0))) == [narrow.node]
    total = memory(20, 30).sum(-1, keepdim=True)
    assert stored(is_largest((memory(20, 30) + total).maximum(0.0))) == [total.node]
    two = memory(20, 30).tanh() + memory(20, 30).tanh()
    assert stored(is_largest(two)) == [two.node]
    line = memory(1, 30).tanh()
    assert stored(is_largest(line.expand(20, 30))) == [line.node]


def test_of_a_slice_no_more_than_the_slice_is_stored() -> None:
    part = memory(20, 3000).tanh()[:, :5]
    [node] = stored(is_largest(part))
    assert node.shape == (20, 5)


def test_running_maxima_and_maxima_at_places_are_extremes() -> None:
    x = memory(20, 30).tanh()
    assert stored(x == x.cummax(-1)[0]) == [x.node]
    at = Tensor(np.zeros((20, 30), np.int32))
    most = memory(20, 30).scatter_reduce(1, at, x, "amax")
    assert stored(x == most.gather(1, at)) == [x.node]


def test_an_extreme_of_extremes_is_one_of_what_is_below() -> None:
    x = memory(20, 30).tanh()
    assert stored(x == x.max(0, keepdim=True).max(1, keepdim=True)) == [x.node]


def test_other_comparisons_store_nothing() -> None:
    x = memory(20, 30).tanh()
    assert not stored(x == x.mean(-1, keepdim=True))
    assert not stored(x == x.sin().max(-1, keepdim=True))
    assert not stored(x.max(-1))


def test_the_gradient_of_a_maximum_reads_what_the_maximum_read() -> None:
    x = memory(20, 3000, dtype="float32").tanh()
    slope = x.max(-1).sum().gradient(x)[0]
    kernels, _ = schedule([slope.node, x.max(-1).node], "CPU")
    roots = [root.op for kernel in kernels for root in kernel.roots]
    assert roots.count(Op.TANH) == 1
    assert roots.count(Op.REDUCE) <= 3  # the maximum once, how many are largest


@pytest.mark.parametrize("values_first", [False, True])
def test_a_maximum_has_a_gradient_whatever_was_computed_before(values_first: bool) -> None:
    """Each row's gradient was 0: the sum below the maximum was added in another order."""
    program = beside(random.Random(zlib.crc32(b"beside") + 25), 1.0)
    tensors = [Tensor(array).realize() for array in program.inputs]
    tensors[0].requires_grad_()
    results = program.run(OfTensor(), *tensors)
    if values_first:
        Tensor.realize(*results)
    [slope] = results[1].sum().gradient(tensors[0])
    assert (slope.numpy()[1] != 0).sum() == 1


SUMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    **{name: INEXACT[name] for name in ("a product that is added", "half types")},
    "a statistic": lambda a, b: (a - (a * b).mean(-1, keepdim=True)) * b + a,
    "a product of matrices": lambda a, b: (a @ b.transpose() + a[:, : a.shape[0]]).relu(),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("size", [(30, 2000), (300, 517)])
def test_each_row_of_a_large_matrix_has_the_gradient_of_its_extreme(
    name: str, size: tuple[int, int]
) -> None:
    """Whatever was computed before, and beside what: all of it goes to the largest elements."""
    x = SUMS[name](memory(*size).requires_grad_(), memory(*size))
    results = (x.max(-1), x.min(-1), x.cummax(-1)[0], x.mean(-1), x.argmax(-1))
    Tensor.realize(*results[:2], *results[3:])
    for result in results[:3]:
        [slope] = result.sum().gradient(x)
        per_row = slope.cast(dtypes.float32).sum(-1).numpy()
        np.testing.assert_allclose(per_row, result.numel() / size[0], rtol=1e-2)
    assert ((x == x.max(-1, keepdim=True)).sum(-1).numpy() >= 1).all()
