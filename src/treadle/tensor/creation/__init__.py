"""New tensors: constants, ranges, random numbers."""

from __future__ import annotations

from .ranges import Ranges
from .sampling import Sampling

__all__ = ["Creation"]


class Creation(Ranges, Sampling):
    """New tensors: constants, ranges, random numbers."""

    __slots__ = ()
