"""Layers, optimisers, state and datasets: the parts that models are made of.

    net = [nn.Linear(64, 32), Tensor.relu, nn.Linear(32, 10)]
    x.sequential(net)                       # (batch, 64) -> (batch, 10)
    nn.state.get_parameters(net)            # four tensors

There is no Module class: any object, list or dict that holds tensors is a model.
"""

from . import datasets, optim, state
from .conv import Conv1d, Conv2d, ConvTranspose1d, ConvTranspose2d
from .linear import Embedding, Linear
from .norm import (
    BatchNorm,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    LayerNorm2d,
    RMSNorm,
)
from .recurrent import LSTMCell

__all__ = [
    "BatchNorm",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "Embedding",
    "GroupNorm",
    "InstanceNorm",
    "LSTMCell",
    "LayerNorm",
    "LayerNorm2d",
    "Linear",
    "RMSNorm",
    "datasets",
    "optim",
    "state",
]
