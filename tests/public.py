"""What users meet: public names of the modules that they import, and those of their classes."""

import importlib
import inspect

import treadle
from treadle import array_api, errors, fft, func, interop, io, nn, windows
from treadle.nn import optim
from treadle.runtime import cuvid, hevc_annexb

__all__ = ["NAMES"]

MODULES = [treadle, array_api, array_api.linalg, array_api.fft, cuvid, errors, fft, func,
           hevc_annexb, interop, io, nn, nn.datasets, nn.state, optim, windows,
           importlib.import_module("treadle.config"),
           importlib.import_module("treadle.dtype"),
           importlib.import_module("treadle.helpers")]  # fmt: skip


def public_names():
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            ours = getattr(value, "__module__", "").startswith("treadle")  # not ctypes' functions
            if ours and (inspect.isclass(value) or inspect.isfunction(value)):
                yield f"{module.__name__}.{name}", value
            if inspect.isclass(value):
                yield from members(f"{module.__name__}.{name}", value)


def members(path, kind):
    """The functions and properties of a class that have public names, inherited ones included."""
    for name, value in inspect.getmembers_static(kind):
        if name.startswith("_") or name in vars(object):
            continue
        value = getattr(value, "__func__", value)
        value = value.fget if isinstance(value, property) else value
        ours = getattr(value, "__module__", None) or ""
        if inspect.isfunction(value) and ours.startswith("treadle"):
            yield f"{path}.{name}", value


NAMES = dict(public_names())
