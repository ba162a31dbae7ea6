"""Functions of each element beyond those of the basis, and other names for these."""

from __future__ import annotations

from .arithmetic import Arithmetic
from .bessel import Bessel
from .incomplete import Incomplete
from .probability import Probability
from .special import Special
from .synonyms import Synonyms

__all__ = ["Functions"]


class Functions(Arithmetic, Bessel, Incomplete, Probability, Special, Synonyms):
    """Functions of each element beyond those of the basis, and other names for these."""

    __slots__ = ()
