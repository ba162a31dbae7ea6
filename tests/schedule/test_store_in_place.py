"""What is made only to be assigned is made where it is assigned to."""

import numpy as np
import pytest

from treadle import GlobalCounters, Tensor, nn
from treadle.engine.run import scheduled

SIZES = [(3, 5), (257, 130)]


def kernels(tensor):
    return scheduled([(tensor.node, "CPU")])


@pytest.mark.parametrize("shape", SIZES)
def test_a_random_weight_is_one_kernel(shape):
    weight = Tensor.uniform(*shape, low=-2, high=3, device="CPU").contiguous().requires_grad_()
    wide = [k for k in kernels(weight) if k.roots[0].shape not in ((3,), (1,))]
    assert len(wide) == 1
    values = weight.numpy()
    assert values.shape == shape
    assert -2 <= values.min() < values.max() < 3


@pytest.mark.parametrize("shape", SIZES)
def test_what_a_tensor_holds_keeps_memory_of_its_own(shape):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    held = (Tensor(x, device="CPU") * 2).contiguous()
    owner = (held + 0).contiguous().requires_grad_()
    owner.realize()
    GlobalCounters.reset()
    np.testing.assert_array_equal(held.numpy(), x * 2)
    assert GlobalCounters.kernel_count == 0  # it was computed on the way
    np.testing.assert_array_equal(owner.numpy(), x * 2)


@pytest.mark.parametrize("shape", SIZES)
def test_memory_that_is_read_on_the_way_is_not_overwritten_meanwhile(shape):
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    tensor = Tensor(x, device="CPU").realize()
    tensor.assign((tensor.flip(0) + tensor).contiguous()).realize()
    np.testing.assert_array_equal(tensor.numpy(), x[::-1] + x)


@pytest.mark.parametrize("shape", SIZES)
def test_gradients_of_weights_made_in_place_are_right(shape):
    rows, columns = shape
    layer = nn.Linear(columns, rows)
    for tensor in (layer.weight, layer.bias):
        tensor.requires_grad_()
    x = np.random.default_rng(3).standard_normal((4, columns)).astype(np.float32)
    loss = (layer(Tensor(x)) ** 2).sum()
    loss.backward()
    w, b = (t.numpy().astype(np.float64) for t in (layer.weight, layer.bias))
    slopes = 2 * (x @ w.T + b)
    np.testing.assert_allclose(layer.weight.grad.numpy(), slopes.T @ x, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(layer.bias.grad.numpy(), slopes.sum(0), rtol=1e-3, atol=1e-4)
