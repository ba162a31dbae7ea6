"""1.10: a reshape that dropped elements, and patterns of rearrange that were misread."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, Variable
from treadle.errors import ShapeError


def test_1_10_reshape_to_a_bound_variable_keeps_every_element():
    size = Variable("i", 1, 10)
    with pytest.raises(ShapeError, match=r"\[reshape\] with i = 4, .* 30 elements, .* have 12"):
        Tensor.arange(30).reshape(3, size.bind(4))
    cut = Tensor.arange(30).reshape(3, 10)[:, : size.bind(4)]
    with pytest.raises(ShapeError, match=r"\[reshape\] with i = 4, .* 12 elements, .* have 13"):
        cut.reshape(13)
    assert cut.reshape(12).tolist() == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]
    assert Tensor.arange(30).reshape(3, size.bind(10)).sum().item() == 435


@pytest.mark.parametrize("formula", ["... -> (...)", "a ... -> a (...)", "a b ... -> (a b ...)"])
def test_1_10_an_ellipsis_in_parentheses_merges_its_axes(formula):
    x = np.arange(24).reshape(2, 3, 4)
    wanted = x.reshape(2, 12) if formula.startswith("a ...") else x.reshape(24)
    assert np.array_equal(Tensor(x).rearrange(formula).numpy(), wanted)


@pytest.mark.parametrize("formula", ["a (...) -> a ...", "(a ...) -> a ...", "(...) -> ..."])
def test_1_10_an_ellipsis_in_parentheses_on_the_left_is_refused(formula):
    with pytest.raises(ShapeError, match=r"\[rearrange\] .* on the left stands alone"):
        Tensor.zeros(2, 3, 4).rearrange(formula)


@pytest.mark.parametrize("formula", ["...pre -> ...pre", "a... -> a...", "12 a -> a", "a.b -> a.b"])
def test_1_10_names_that_run_into_something_else_are_refused(formula):
    with pytest.raises(ShapeError, match=r"\[rearrange\] .* cannot be read at"):
        Tensor.zeros(2, 3, 4).rearrange(formula)
