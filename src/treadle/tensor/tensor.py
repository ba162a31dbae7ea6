"""`Tensor`: the class that users meet, all of its parts together.

x = Tensor([[1.0, 2.0], [3.0, 4.0]])
(x @ x.T).relu().sum().item()
"""

from __future__ import annotations

from typing import Any

from ..config import Context
from ..explained import Unbound, explained
from .modes import Modes
from .spectrograms import Spectrograms

__all__ = ["Tensor"]


class Tensor(Spectrograms):
    """An n-dimensional array that is computed when its values are asked for.

        >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> (x @ x.T).relu().sum().item()
        52.0

    Operations build a graph and check shapes and dtypes at once; `realize`, `numpy`, `item`,
    `tolist` compute. Usable from several threads.

    Unless a method says otherwise, its result has the shape and dtype of the tensor, operands
    broadcast and promote as in NumPy, and it raises ShapeError for shapes and sizes that do not
    fit, IndexOutOfRange for an axis or a place that is not there, DTypeError for element types
    that it has no meaning for, DeviceError for tensors on different devices, and ArgumentError
    for an argument of another kind.
    """

    __slots__ = ()

    @staticmethod
    def train(mode: Any = True) -> Context:
        """A context manager and decorator inside which layers behave as in training.

        Raises SettingError.
        """
        return Context(TRAINING=mode)

    def replace(self, x: Tensor, allow_shape_mismatch: bool = False) -> Tensor:
        """Become another tensor of this shape and any dtype: its graph, nothing is written.

        `allow_shape_mismatch` takes any shape. Raises ShapeError.
        """
        from ..errors import ShapeError

        if not allow_shape_mismatch and x.shape != self.shape:
            raise ShapeError(f"[replace] shape {x.shape} does not fit {self.shape}")
        self._take(x)
        return self


# What every result is made of is called too often for a call more, and has checks of its own.
_OFTEN = frozenset(
    (
        "add", "sub", "mul", "div", "neg", "maximum", "cast", "float", "bool", "eq", "ne", "lt",
        "where", "reshape", "permute", "unsqueeze", "relu", "exp", "log", "sqrt",
        "square", "sum", "max", "matmul", "dot", "numel", "detach", "realize", "numpy", "item",
    )
)  # fmt: skip

for _part in Tensor.__mro__[:-1]:
    explained(_part, _OFTEN)
for _name in _OFTEN:
    setattr(Modes, _name, Unbound(_name, getattr(Tensor, _name)))
