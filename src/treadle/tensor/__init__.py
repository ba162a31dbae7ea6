"""The user's tensors: operations become lazy graphs of nodes, with gradients."""

from .tensor import Tensor

__all__ = ["Tensor"]
