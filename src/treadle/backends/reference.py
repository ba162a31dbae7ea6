"""REF: the meaning of every operation, interpreted in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .record import Backend, Request, Toolchain

if TYPE_CHECKING:
    from ..runtime.reference import ReferenceDevice

__all__ = ["REF"]


def _open(request: Request) -> ReferenceDevice:
    from ..runtime.reference import ReferenceDevice

    return ReferenceDevice(request.name)


def _describe(request: Request) -> str:
    return "the reference interpreter"


REF = Backend(
    "REF",
    "the meaning of every operation: slow, and the standard that others are tested against",
    (Toolchain("NUMPY", "interprets"),),
    _open,
    _describe,
    has_architectures=False,
)
