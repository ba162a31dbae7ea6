"""Where Dawn is: in an installed wheel that carries it, or among the system's libraries.

    find_library()   ->  Library(path="...libwebgpu_dawn_x86_64.so", origin="dawn-python")

Two generations of its C interface are in use. They differ in the names of a few functions and the
layout of a few structures: `is_current` tells them apart, structures.py has both.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from treadle.errors import DeviceError

__all__ = ["Library", "find_library"]

MEND = '`pip install "treadle[webgpu]"` brings it'
_SYSTEM_NAMES = ("webgpu_dawn", "dawn")


@dataclass(frozen=True, eq=False)
class Library:
    """A loaded Dawn. `origin` says what brought it."""

    path: str
    origin: str
    handle: object

    def address(self, name: str) -> int | None:
        """The address of a function; None if this Dawn does not have it."""
        try:
            return ctypes.cast(getattr(self.handle, name), ctypes.c_void_p).value
        except AttributeError:
            return None

    @property
    def is_current(self) -> bool:
        """Whether this is the current interface, not that of 2024."""
        return self.address("wgpuInstanceRequestAdapter2") is None


class _Cffi:
    """Functions of an extension module that exports none, as attributes."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> ctypes.c_void_p:
        try:
            pointer = self._module.ffi.addressof(self._module.lib, name)
        except AttributeError:
            raise AttributeError(name) from None
        return ctypes.c_void_p(int(self._module.ffi.cast("uintptr_t", pointer)))


@functools.cache
def find_library() -> Library:
    """Load Dawn. Raises DeviceError if it is nowhere, or cannot be loaded."""
    refused = []
    for find in (_from_dawn_python, _from_wgpudawn, _from_system):
        try:
            found = find()
        except (OSError, ImportError) as error:
            refused.append(str(error))
            continue
        if found is not None:
            return found
    detail = f" ({'; '.join(refused)})" if refused else ""
    raise DeviceError(f"WEBGPU needs Dawn, which is missing{detail}; {MEND}")


def _package(name: str) -> Path | None:
    """The folder of an installed package, which is not imported."""
    found = importlib.util.find_spec(name)
    places = found.submodule_search_locations if found is not None else None
    return Path(next(iter(places))) if places else None


def _from_dawn_python() -> Library | None:
    folder = _package("pydawn")
    if folder is None:
        return None
    machine = platform.machine().lower()
    arm = machine in ("arm64", "aarch64")
    names = {
        "linux": f"libwebgpu_dawn_{'aarch64' if arm else 'x86_64'}.so",
        "darwin": f"libwebgpu_dawn_{'arm64' if arm else 'x86_64'}.dylib",
        "win32": "libwebgpu_dawn.dll",
    }
    path = folder / "lib" / names.get(sys.platform, "")
    if not path.is_file():
        return None
    return Library(str(path), "dawn-python", ctypes.CDLL(str(path)))


def _from_wgpudawn() -> Library | None:
    folder = _package("wgpudawn")
    if folder is None:
        return None
    from importlib import import_module

    module = import_module("wgpudawn._lib._wgpu_dawn")
    return Library(str(module.__file__), "wgpudawn", _Cffi(module))


def _from_system() -> Library | None:
    for name in _SYSTEM_NAMES:
        path = ctypes.util.find_library(name)
        if path is not None:
            return Library(path, "the system", ctypes.CDLL(path))
    return None
