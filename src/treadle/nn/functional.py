"""Nothing: functions of tensors are methods, `F.relu(x)` is `x.relu()`.

Each name of PyTorch's module of this name says what to write instead.
"""

from __future__ import annotations

from typing import NoReturn

from ..pytorch_names import of_function
from ..tensor import Tensor

__all__: list[str] = []


def __getattr__(name: str) -> NoReturn:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise of_function(name, dir(Tensor))
