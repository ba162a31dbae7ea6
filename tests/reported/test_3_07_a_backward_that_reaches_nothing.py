"""A backward pass that fills no gradient says so, and says what to do."""

import warnings

import pytest

from treadle import Tensor, nn
from treadle.errors import NoGradientWarning


def test_3_07_a_layer_without_an_optimiser_is_told_how_to_train():
    layer = nn.Linear(3, 2)
    with pytest.warns(NoGradientWarning, match="give the parameters to an optimiser") as found:
        layer(Tensor.ones(1, 3)).sum().backward()
    assert found[0].filename == __file__
    assert layer.weight.grad is None


def test_3_07_a_loss_of_plain_tensors_is_told_about():
    with pytest.warns(NoGradientWarning, match="requires_grad=True"):
        Tensor([1.0, 2.0]).sum().backward()


def test_3_07_parameters_of_an_optimiser_are_reached_in_silence():
    layer = nn.Linear(3, 2)
    nn.optim.SGD(nn.state.get_parameters(layer))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(Tensor.ones(1, 3)).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0] * 3] * 2
