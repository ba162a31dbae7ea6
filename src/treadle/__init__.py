"""Treadle: one tensor program, every machine.

    from treadle import Tensor
    (Tensor([1.0, 2.0]) * 3).tolist()   -> [3.0, 6.0]

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib as _importlib

from .array_namespace import load_by as _load_array_namespace_by

TYPE_CHECKING = False  # as type checkers know it; importing it would cost more than all the rest

if TYPE_CHECKING:
    from typing import Any

    from . import device, dtype, fft, helpers, nn, windows
    from .config import Context
    from .dtype import dtypes
    from .engine.counters import GlobalCounters
    from .engine.devices import Device
    from .engine.jit import TinyJit, jit
    from .func import grad, hessian, jacfwd, jacrev, jvp, scan, value_and_grad, vjp, vmap
    from .helpers import fetch, getenv
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
    "device",
    "dtype",
    "dtypes",
    "fetch",
    "fft",
    "from_dlpack",
    "getenv",
    "grad",
    "helpers",
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
    "Context": ".config", "Device": ".engine.devices", "GlobalCounters": ".engine.counters",
    "Tensor": ".tensor", "TinyJit": ".engine.jit", "dtypes": ".dtype", "jit": ".engine.jit",
    "Variable": ".ir.symbolic", "from_dlpack": ".interop", "fetch": ".helpers",
    "getenv": ".helpers",
    **dict.fromkeys(
        ("grad", "hessian", "jacfwd", "jacrev", "jvp", "scan", "value_and_grad", "vjp", "vmap"),
        ".func",
    ),
}  # fmt: skip


_MODULES = ("device", "dtype", "fft", "helpers", "nn", "windows")


_load_array_namespace_by(lambda: _importlib.import_module(".array_api", __name__))


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(_importlib.import_module(_HOMES[name], __name__), name)
    elif name in _MODULES:
        value = _importlib.import_module(f".{name}", __name__)
    elif name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        from .pytorch_names import of_module
        from .tensor import Tensor

        raise of_module(name, dir(Tensor))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
