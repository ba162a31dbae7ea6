"""Symbolic sizes that are equal are one size, whatever made them and whatever they are bound to."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from treadle import GlobalCounters, Tensor, Variable
from treadle.ir.node import Node
from treadle.ir.shape import simple_size
from treadle.ir.symbolic import unbind


def test_products_of_sizes_are_one_size_in_either_order() -> None:
    a, b = Variable("a", 1, 9).bind(4), Variable("b", 1, 9).bind(3)
    values = np.arange(9 * 9 * 5, dtype=np.float32).reshape(9, 9, 5)
    cut = Tensor(values)[:a, :b]
    one, other = cut.reshape(a * b, 5), cut.reshape(b * a, 5)
    assert one.shape == other.shape
    right = values[:4, :3].reshape(12, 5)
    found = Tensor.cat(one, other * 2, dim=1)[:12]
    np.testing.assert_array_equal(found.numpy(), np.concatenate([right, right * 2], axis=1))
    expanded = Tensor(values[0, 0]).reshape(1, 5).expand(b * a, 5)
    np.testing.assert_array_equal((one + expanded)[:12].numpy(), right + values[0, 0])


A, B = Variable("a", 1, 9), Variable("b", 1, 9)
MADE = {  # ways to a tensor that has an axis of a * b, the size written otherwise
    "reshape": lambda a, b: Tensor.zeros(a, b).reshape(b * a),
    "expand": lambda a, b: Tensor.zeros(1).expand(b * a),
    "full": lambda a, b: Tensor.full((b * a,), 2.0),
    "arange": lambda a, b: Tensor.arange(b * a),
    "slice": lambda a, b: Tensor.zeros(81)[: b * a],
    "shrink": lambda a, b: Tensor.zeros(81).shrink(((0, b * a),)),
    "pad": lambda a, b: Tensor.zeros(1).pad(((0, b * a - 1),)),
    "pad_to": lambda a, b: Tensor.zeros(1).pad_to(b * a),
    "infer": lambda a, b: Tensor.zeros(a, b).reshape(-1),
    "flatten": lambda a, b: Tensor.zeros(b, a).flatten(),
    "divide": lambda a, b: Tensor.zeros(2 * b, a).reshape(2, -1)[0],
    "cat": lambda a, b: Tensor.cat(Tensor.zeros(a * (b * 1)), Tensor.zeros(0)),
    "repeat": lambda a, b: Tensor.zeros(a).expand(b, a).transpose(0, 1).reshape(a * b),
}


@pytest.mark.parametrize("bound", [True, False])
@pytest.mark.parametrize("name", MADE)
def test_every_way_makes_sizes_in_one_form(name: str, bound: bool) -> None:
    a, b = (A.bind(4), B.bind(3)) if bound else (A, B)
    made = MADE[name](a, b)
    wanted = Tensor.zeros(a, b).reshape(a * b)
    assert made.shape == wanted.shape
    assert (made + wanted).shape == wanted.shape


def test_the_form_of_a_size_does_not_depend_on_values() -> None:
    a, b = Variable("a", 1, 9), Variable("b", 1, 9)
    makers: list[Callable[[Node, Node], Node | int]] = [
        lambda a, b: b * a, lambda a, b: (b * a + a * 2) // 3, lambda a, b: (a // 2) * b,
        lambda a, b: a % 5 + b, lambda a, b: a.maximum(b), lambda a, b: b.minimum(4) * a,
    ]  # fmt: skip
    for make in makers:
        free = simple_size(make(a, b))
        for m, n in itertools.product((1, 4, 8), (1, 3, 9)):
            bound = simple_size(make(a.bind(m), b.bind(n)))
            assert isinstance(bound, Node)
            assert unbind([bound])[0][0] is free


def test_sizes_that_values_change_are_compiled_once() -> None:
    n = Variable("n", 2, 64)
    row, one = Tensor([2.0]).realize(), Tensor([1.0]).realize()
    counts = []
    for number in (10, 6, 24, 2):
        before = GlobalCounters.schedule_count
        padded = row.pad(((0, n.bind(number) // 2),)) + one
        assert padded.sum().item() == 3 + number // 2
        counts.append(GlobalCounters.schedule_count - before)
    assert counts[0] > 0
    assert counts[1:] == [0, 0, 0]
