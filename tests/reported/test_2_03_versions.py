"""Old versions of memory that somebody still reads."""

import numpy as np

from treadle import Tensor, nn

DEVICES = ("CPU", "CPU:1")


def _losses(devices):
    Tensor.manual_seed(0)
    layer = nn.Linear(4, 2)
    parameters = nn.state.get_parameters(layer)
    for parameter in parameters:
        if devices:
            parameter.shard_(devices)
    optimizer, losses = nn.optim.SGD(parameters, lr=0.1), []
    with Tensor.train():
        for n in range(4):
            x = Tensor(np.full((8, 4), n + 1, np.float32))
            x = x.shard(devices, axis=0) if devices else x
            optimizer.zero_grad()
            losses.append((layer(x) ** 2).mean().backward())
            optimizer.step()
    return [loss.item() for loss in losses]


def test_2_03_losses_of_data_parallel_training_may_be_read_after_the_steps():
    np.testing.assert_allclose(_losses(DEVICES), _losses(None), rtol=1e-4)


def test_2_03_what_was_computed_of_a_lazy_tensor_outlives_a_write_to_it(device):
    a = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3), device=device).realize()
    x = -a
    v = x + 10
    x.realize()
    x[0].assign(Tensor([1.0, 1.0, 1.0], device=device)).realize()
    assert v.tolist() == [[10, 9, 8], [7, 6, 5]]
    assert x.tolist() == [[1, 1, 1], [-3, -4, -5]]
