"""Gradients, what is computed when, and on which devices."""

from __future__ import annotations

from .autograd import Autograd
from .scheduling import Scheduling
from .sharding import Sharding

__all__ = ["Execution"]


class Execution(Autograd, Scheduling, Sharding):
    """Gradients, what is computed when, and on which devices."""

    __slots__ = ()
