"""What training makes smaller."""

from __future__ import annotations

from .entropies import CrossEntropies
from .margins import Margins
from .pointwise import PointwiseLosses

__all__ = ["Losses"]


class Losses(CrossEntropies, Margins, PointwiseLosses):
    """What training makes smaller."""

    __slots__ = ()
