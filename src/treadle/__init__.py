"""Treadle: one tensor program, every machine.

    from treadle import Tensor
    (Tensor([1.0, 2.0]) * 3).tolist()   -> [3.0, 6.0]

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import fft, nn, windows
    from .config import Context
    from .dtype import dtypes
    from .engine.backends import Device
    from .engine.counters import GlobalCounters
    from .engine.jit import TinyJit, jit
    from .func import grad, hessian, jacfwd, jacrev, jvp, scan, value_and_grad, vjp, vmap
    from .interop import from_dlpack
    from .ir.symbolic import Variable
    from .tensor import Tensor

__all__ = [
    "Context",
    "Device",
    "GlobalCounters",
    "Tensor",
    "TinyJit",
    "Variable",
    "__version__",
    "dtypes",
    "fft",
    "from_dlpack",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "nn",
    "scan",
    "value_and_grad",
    "vjp",
    "vmap",
    "windows",
]

__version__ = "0.1.0"  # the package's metadata is made from this line

_HOMES = {
    "Context": ".config", "Device": ".engine.backends", "GlobalCounters": ".engine.counters",
    "Tensor": ".tensor", "TinyJit": ".engine.jit", "dtypes": ".dtype", "jit": ".engine.jit",
    "Variable": ".ir.symbolic", "from_dlpack": ".interop",
    **dict.fromkeys(
        ("grad", "hessian", "jacfwd", "jacrev", "jvp", "scan", "value_and_grad", "vjp", "vmap"),
        ".func",
    ),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name], __name__), name)
    elif name in ("fft", "nn", "windows"):
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
