"""Modes of the running thread: whether gradients are recorded, whether layers train.

with Tensor.no_grad(): y = x * w      -> y does not lead gradients back to w
with Tensor.train(): x.dropout()      -> drops; outside, it does nothing
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

from ..config import settings

__all__ = ["Modes", "NoGrad", "no_grad"]

F = TypeVar("F", bound=Callable[..., object])

_scoped: contextvars.ContextVar[bool | None] = contextvars.ContextVar("no_grad", default=None)


class NoGrad:
    """A switch: true where gradients are off; called, a context manager and decorator."""

    def __init__(self) -> None:
        self.default = False

    def __bool__(self) -> bool:
        scoped = _scoped.get()
        return self.default if scoped is None else scoped

    def __call__(self, mode: bool = True) -> _Scope:
        return _Scope(mode)


class _Scope:
    def __init__(self, mode: bool) -> None:
        self._mode = mode
        self._tokens: list[contextvars.Token[bool | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_scoped.set(self._mode))
        return self

    def __exit__(self, *exc_info: object) -> None:
        _scoped.reset(self._tokens.pop())

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def run(*args: object, **kwargs: object) -> object:
            with _Scope(self._mode):
                return function(*args, **kwargs)

        return cast("F", run)


no_grad: NoGrad = NoGrad()


class Modes(type):
    """The metaclass that lets `Tensor.training = True` and `Tensor.no_grad = True` be set."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type object 'Tensor' has no attribute {name!r}")
        from ..pytorch_names import of_tensor

        raise of_tensor(name, dir(cls))

    @property
    def training(cls) -> bool:
        """Whether layers behave as in training: the setting TRAINING."""
        return settings.TRAINING

    @training.setter
    def training(cls, mode: bool) -> None:
        settings.TRAINING = mode

    @property
    def no_grad(cls) -> NoGrad:
        """`with Tensor.no_grad():` records no gradients; its truth value is the current mode."""
        return no_grad

    @no_grad.setter
    def no_grad(cls, mode: bool) -> None:
        no_grad.default = bool(mode)
