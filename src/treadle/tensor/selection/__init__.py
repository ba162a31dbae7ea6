"""Reading and writing at lists of places; what is where, and how often."""

from __future__ import annotations

from .counting import Counting
from .selecting import Selecting

__all__ = ["Selection"]


class Selection(Counting, Selecting):
    """Reading and writing at lists of places; what is where, and how often."""

    __slots__ = ()
