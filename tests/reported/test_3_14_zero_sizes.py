"""3.14: tensors without elements, and arguments that were taken for something else."""

from __future__ import annotations

import math

import pytest

from treadle import Tensor
from treadle.errors import ArgumentError, DTypeError, ShapeError


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular", "constant"])
def test_3_14_padding_may_cut_an_axis_to_nothing(mode):
    x = Tensor.arange(6).reshape(2, 3)
    assert x.pad(((0, 0), (-1, -2)), mode=mode).shape == (2, 0)
    assert x.pad(((-2, 0), (0, 0)), mode=mode).numpy().shape == (0, 3)
    assert Tensor.zeros(0, 3).pad(((0, 0), (1, 1)), mode=mode).shape == (0, 5)
    with pytest.raises(ShapeError):
        x.pad(((0, 0), (-2, -2)), mode=mode)


def test_3_14_nothing_has_no_edge_to_repeat():
    with pytest.raises(ShapeError, match=r"\[pad\] replicate .* size 0"):
        Tensor.zeros(0).pad((1, 0), mode="replicate")


def test_3_14_windows_may_be_empty():
    assert Tensor.zeros(3).unfold(0, 0, 1).shape == (4, 0)
    assert Tensor.zeros(2, 5).unfold(1, 0, 2).numpy().shape == (2, 3, 0)
    assert Tensor(3.0).unfold(0, 0, 1).shape == (0,)
    assert Tensor.zeros(0).unfold(0, 0, 1).shape == (1, 0)
    with pytest.raises(ShapeError, match=r"\[unfold\]"):
        Tensor.zeros(3).unfold(0, -1, 1)


def test_3_14_the_logarithm_of_no_exponentials_is_minus_infinity(device):
    assert Tensor.zeros(0, device=device).logsumexp().item() == -math.inf
    got = Tensor.zeros(2, 0, device=device).logsumexp(1, keepdim=True)
    assert got.tolist() == [[-math.inf], [-math.inf]]
    assert Tensor.zeros(0, 2, device=device).logsumexp(1).shape == (0,)


def test_3_14_the_condition_of_an_empty_matrix_is_0():
    for p in (None, 2, -2, 1, "fro"):
        assert Tensor.zeros(0, 0).cond(p).item() == 0.0
        assert Tensor.zeros(3, 0, 0).cond(p).tolist() == [0.0] * 3


def test_3_14_a_shape_is_given_once():
    for make in (Tensor.zeros, Tensor.ones, Tensor.empty, Tensor.rand):
        with pytest.raises(ShapeError, match=r"the shape is \(2, 2\) or \(3,\), not both"):
            make((2, 2), 3)


def test_3_14_randint_takes_whole_numbers():
    for bounds in ({"low": 0.1}, {"high": 2.5}, {"low": "a"}):
        with pytest.raises(ArgumentError, match=r"\[randint\] low and high are whole numbers"):
            Tensor.randint(3, **bounds)


def test_3_14_truth_values_are_not_evenly_apart():
    with pytest.raises(DTypeError, match=r"\[linspace\] gives numbers, not bool"):
        Tensor.linspace(0, 1, 3, dtype="bool")
