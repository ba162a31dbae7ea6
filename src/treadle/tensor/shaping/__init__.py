"""Axes by name and by pattern; several tensors as one, and one as several."""

from __future__ import annotations

from .arranging import Arranging
from .assembling import Assembling

__all__ = ["Shaping"]


class Shaping(Arranging, Assembling):
    """Axes by name and by pattern; several tensors as one, and one as several."""

    __slots__ = ()
