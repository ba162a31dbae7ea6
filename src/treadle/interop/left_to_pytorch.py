"""What graphs of `torch.compile` leave to PyTorch, and why: `treadle.interop.report()`."""

from __future__ import annotations

import threading
from collections import Counter
from typing import NamedTuple

from ..forks import fork_safe

__all__ = ["Left", "note", "report"]


class Left(NamedTuple):
    """An operator that PyTorch computes in `nodes` places of the graphs compiled so far."""

    operator: str
    reason: str
    nodes: int


_left: Counter[tuple[str, str]] = Counter()
_lock = fork_safe(threading.RLock())


def note(operator: str, reason: str) -> None:
    """A node of that operator stays with PyTorch."""
    with _lock:
        _left[operator, reason] += 1


def report() -> list[Left]:
    """What `torch.compile(..., backend="treadle")` has left to PyTorch so far, most nodes first.

    An operator with a reason is one row. What graphs never show, such as code between them, is not
    in it. Empty if nothing was left, or nothing compiled.
    """
    with _lock:
        return [Left(*key, nodes) for key, nodes in _left.most_common()]
