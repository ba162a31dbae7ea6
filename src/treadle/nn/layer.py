"""What layers have in common: how they print, and what they say of names that are PyTorch's.

A layer is any callable; these classes only make its errors better. There is no Module: what holds
tensors is a model.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ..explained import explained
from ..pytorch_names import of_layer
from ..tensor import Tensor

__all__ = ["Elementwise", "Layer", "Method"]


class Layer:
    """A callable from tensors to tensors, of any shapes and dtypes."""

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith("treadle."):  # not what users derive from it
            explained(cls)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise of_layer(type(self).__name__, name, dir(self))


class Method(Layer):
    """A layer without parameters: one method of its input, with the arguments it was made with.

    Shapes and dtypes are those of the method.
    """

    method: ClassVar[str] = ""

    def __init__(self, **arguments: object) -> None:
        self._arguments = arguments

    def __call__(self, x: Tensor) -> Tensor:
        return getattr(x, self.method)(**self._arguments)

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self._arguments.items())
        return f"{type(self).__name__}({given})"


class Elementwise(Method):
    """A `Method` of each element without arguments; shape and dtype stay, integers give floats.

    `inplace` is taken for the sake of programs that give it: results are always new values.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
