"""Layers, optimisers, state and datasets: the parts that models are made of.

    net = [nn.Linear(64, 32), Tensor.relu, nn.Linear(32, 10)]
    x.sequential(net)                       # (batch, 64) -> (batch, 10)
    nn.state.get_parameters(net)            # four tensors

Layers raise ShapeError for sizes and inputs that do not fit, DTypeError for element types that they
have no meaning for, IndexOutOfRange for an axis that is not there, DeviceError for an input on
another device than their parameters, ArgumentError for an argument of another kind.

There is no Module class: any object, list or dict that holds tensors is a model.
"""

from . import datasets, optim, state
from .attention import MultiheadAttention
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .linear import Embedding, Linear
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
from .recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Embedding",
    "GRUCell",
    "GroupNorm",
    "InstanceNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LSTMCell",
    "LayerNorm",
    "LayerNorm2d",
    "Linear",
    "MultiheadAttention",
    "RMSNorm",
    "RNNCell",
    "datasets",
    "optim",
    "state",
]
