"""What works on this machine, and what would mend the rest: the lines of `treadle doctor`.

    inventory()   ->  [Row("CPU", "LLVM", "", True, "the embedded LLVM", ""), ...]

Each backend's record says how it is looked for. Nothing stays open: a driver or a library is loaded
where that is the only way to know. A compiler for processors works once a function that it
compiled has run.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..backends import BACKENDS, Backend, Toolchain
from ..errors import DeviceError
from .devices import request_of
from .selection import Choice

__all__ = ["Row", "inventory"]


@dataclass(frozen=True)
class Row:
    """One line of `treadle doctor`: whether a way to run works here, and what mends it if not."""

    runtime: str
    compiler: str
    interface: str
    usable: bool
    reason: str
    fix: str


def inventory() -> list[Row]:
    """Every runtime, compiler and interface, whether it can be used here, and what to do if not."""
    found = [
        _row(backend, toolchain, interface)
        for backend in BACKENDS
        if backend.is_here
        for toolchain in backend.toolchains
        for interface in backend.interfaces or ("",)
    ]
    absent = [one.name for one in BACKENDS if not one.is_here]
    why = "not part of this version of treadle"
    return found + [Row(name, "", "", False, why, "") for name in absent]


def _row(backend: Backend, toolchain: Toolchain, interface: str) -> Row:
    assert backend.describe is not None
    choice = Choice(backend.name, 0, toolchain.name, None, interface or None)
    try:
        about = backend.describe(request_of(backend, toolchain, choice))
    except DeviceError as error:
        reason, _, fix = str(error).partition("; ")
        return Row(backend.name, toolchain.name, interface, False, reason, fix)
    return Row(backend.name, toolchain.name, interface, True, about, "")
