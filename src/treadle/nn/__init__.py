"""Layers, losses, optimisers, state and datasets: the parts that models are made of.

    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    net(x)                                  # (batch, 64) -> (batch, 10)
    nn.state.get_parameters(net)            # four tensors

Layers raise ShapeError for sizes and inputs that do not fit, DTypeError for element types that they
have no meaning for, IndexOutOfRange for an axis that is not there, DeviceError for an input on
another device than their parameters, ArgumentError for an argument of another kind.

There is no Module class: any object, list or dict that holds tensors is a model, and any callable
is a layer: `Tensor.relu` as well as `nn.ReLU()`.
"""

from __future__ import annotations

from . import activations, containers, datasets, functional, losses, optim, pooling, state, utils
from .activations import *
from .attention import MultiheadAttention
from .containers import *
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import Embedding, Linear
from .losses import *
from .norm import (
    BatchNorm,
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LayerNorm2d,
    RMSNorm,
)
from .pooling import *
from .recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from .utils import clip_grad_norm_, clip_grad_value_

__all__ = [
    "GRU", "LSTM", "RNN", "BatchNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Conv1d",
    "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Embedding",
    "GRUCell", "GroupNorm", "InstanceNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
    "LSTMCell", "LayerNorm", "LayerNorm2d", "Linear", "MultiheadAttention", "RMSNorm", "RNNCell",
    "clip_grad_norm_", "clip_grad_value_", "datasets", "functional", "optim", "state", "utils",
]  # fmt: skip
__all__ += activations.__all__
__all__ += containers.__all__
__all__ += losses.__all__
__all__ += pooling.__all__


def __getattr__(name: str) -> object:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ..pytorch_names import of_layers

    raise of_layers(name, __all__)
