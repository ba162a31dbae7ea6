"""What rows are made of: a call of a method under PyTorch's parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle import Tensor

__all__ = ["axes", "listed", "method"]


def method(name: str) -> Callable[..., Any]:
    """The arguments are PyTorch's as they are."""
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def listed(name: str) -> Callable[..., Any]:
    """PyTorch's list of tensors are arguments here."""
    return lambda tensors: getattr(Tensor, name)(*tensors)


def axes(dim: Any) -> Any:
    """Of no axis in particular PyTorch reduces all."""
    return None if dim in ((), []) else dim
