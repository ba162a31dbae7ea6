"""What the comparisons of layers with PyTorch share."""

import numpy as np

from treadle import Tensor, nn


def seeded(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def copy_parameters(layer, twin):
    """Give both the same random parameters, by the names of the state dict."""
    import torch

    ours, generator = nn.state.get_state_dict(layer), np.random.default_rng(3)
    theirs = {k: v for k, v in twin.state_dict().items() if not k.startswith(("running", "num"))}
    assert set(theirs) == {k for k in ours if not k.startswith(("running", "num"))}
    for name, value in theirs.items():
        assert ours[name].shape == tuple(value.shape)
        fresh = generator.uniform(0.5, 1.5, value.shape).astype(np.float32)
        value.copy_(torch.from_numpy(fresh))
        with Tensor.no_grad():
            ours[name].assign(Tensor(fresh)).realize()
        ours[name].requires_grad = True
