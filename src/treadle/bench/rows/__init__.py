"""Every row, one module a family.

matmul    matrix products, square and awkward
conv      convolutions, and both of their gradients
attention forward, and with its gradients
memory    bound by reading: matrix times vector, sums, copies
normal    rows, losses and chains that fuse
moving    transposes, slices, gathers and scatters
linalg    decompositions and systems of equations, and a Fourier transform
programs  whole networks, inference and training
video     decoded frames to RGB
"""

from __future__ import annotations

from ..work import Work
from . import attention, conv, linalg, matmul, memory, moving, normal, programs, video

__all__ = ["works"]


def works(quick: bool) -> list[Work]:
    """Every row; `quick` shrinks the sizes until each takes about a millisecond."""
    families = (matmul, conv, attention, memory, normal, moving, linalg, programs, video)
    return [work for family in families for work in family.rows(quick)]
