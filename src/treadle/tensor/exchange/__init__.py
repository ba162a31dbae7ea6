"""Memory of other libraries as tensors, and the other way round; bytes of files, and hashes."""

from __future__ import annotations

from .bytes import Bytes
from .interop import Interop

__all__ = ["Exchange"]


class Exchange(Bytes, Interop):
    """Memory of other libraries as tensors, and the other way round; bytes of files, and hashes."""

    __slots__ = ()
