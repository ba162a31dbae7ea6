"""Arguments of another kind: what Python raises inside of a method is told as the call's error."""

import inspect

import numpy as np
import pytest

from treadle import Tensor, nn
from treadle.errors import ArgumentError, IndexOutOfRange, ShapeError, UserError

X = Tensor(np.ones((2, 3), np.float32))

MESSAGES = {
    "a text": (lambda: X.histc("a"), ArgumentError, "[histc] bins is 'a', not a whole number"),
    "a number": (
        lambda: Tensor.uniform(3, low="a"), ArgumentError, "[uniform] low is 'a', not a number",
    ),
    "or None": (lambda: X.pinv("a"), ArgumentError, "[pinv] rtol is 'a', not a number or None"),
    "a tensor": (lambda: X.mse_loss("a"), ArgumentError, "[mse_loss] target is 'a', not a tensor"),
    "a kind by the name": (
        lambda: Tensor.arange("a"), ArgumentError, "[arange] start is 'a', not a number",
    ),
    "all fit by themselves": (
        lambda: X.softplus(0), ArgumentError,
        ("[softplus] does not take a tensor of float32 and shape (2, 3) and beta = 0; its "
         "parameters are beta: a number"),
    ),
    "called by way of the class": (
        lambda: Tensor.exp(3.0), ArgumentError,
        "[exp] is called on 3.0, not on a tensor; Tensor(...) makes one",
    ),
    "a list of tensors": (
        lambda: Tensor.softmax([X, X]), ArgumentError,
        ("[softmax] is called on [a tensor of float32 and shape (2, 3), a tensor of float32 and "
         "shape (2, 3)], not on a tensor; give them one by one, with a * before the sequence"),
    ),
    "a layer": (
        lambda: nn.Linear("a", 4), ShapeError,
        "[Linear] in_features is a whole number of 0 or more, not 'a'",
    ),
    "a negative size": (
        lambda: nn.Linear(-1, 4), ShapeError,
        "[Linear] in_features is a whole number of 0 or more, not -1",
    ),
    "a layer's input": (
        lambda: nn.Linear(3, 4)("a"), ArgumentError, "[Linear] x is 'a', not a tensor",
    ),
    "a size": (lambda: Tensor.ones("a"), ShapeError, "[ones] a size is an integer, not 'a'"),
    "a random size": (
        lambda: Tensor.rand(-1), ShapeError, "[rand] sizes must not be negative: (-1,)",
    ),
    "a subscript inside": (
        lambda: X.select(0, 9), IndexOutOfRange,
        "[select] index 9 is out of range for axis 0 of size 2: -2 to 1 are there",
    ),
    "a choice": (
        lambda: X.mse_loss(X, reduction="a"), ArgumentError,
        "[mse_loss] reduction is one of ('none', 'mean', 'sum'), not 'a'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MESSAGES)
def test_the_call_and_the_argument_are_named(name):
    mistake, kind, text = MESSAGES[name]
    with pytest.raises(kind) as caught:
        mistake()
    assert str(caught.value) == text
    assert isinstance(caught.value, UserError)


def test_the_cause_is_kept_and_the_outermost_call_is_named():
    with pytest.raises(ArgumentError, match=r"^\[addr\] ") as caught:
        X.addr("a", X)
    assert isinstance(caught.value.__cause__, AttributeError)


def test_what_a_users_function_raises_passes_through():
    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        X.sequential([broken])


def test_a_call_that_python_refuses_is_pythons():
    with pytest.raises(TypeError, match="unexpected keyword argument 'foo'") as caught:
        X.histc(foo=3)
    assert not isinstance(caught.value, UserError)


def test_signatures_and_docstrings_stay():
    assert next(iter(inspect.signature(X.histc).parameters)) == "bins"
    assert (inspect.getdoc(Tensor.histc) or "").strip()


def test_a_method_of_the_class_can_be_replaced_and_is_then_that(monkeypatch):
    """`Tensor.relu` explains, `x.relu()` is the method itself: a replacement is both."""
    explaining = Tensor.relu
    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "relu", lambda self: "mine")
        assert (X.relu(), Tensor.relu(X)) == ("mine", "mine")
    assert X.relu().tolist() == Tensor.relu(X).tolist() == explaining(X).tolist()
