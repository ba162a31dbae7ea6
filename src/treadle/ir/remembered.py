"""What one thread works out of nodes while it makes one kernel: each thing once, since most are met
many times.

    with remembered(): ...everything that makes one kernel...

    @once
    def ranges_of(node): ...
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

__all__ = ["once", "remembered", "table_of"]

P = ParamSpec("P")
R = TypeVar("R")


class _Memory(threading.local):
    tables: dict[object, dict[Any, Any]] | None = None  # by what they are of


_memory = _Memory()


@contextlib.contextmanager
def remembered() -> Iterator[None]:
    """A block in which this thread remembers. What is inside of another such block shares it."""
    if _memory.tables is not None:
        yield
        return
    _memory.tables = {}
    try:
        yield
    finally:
        _memory.tables = None


def table_of(owner: object) -> dict[Any, Any]:
    """What is remembered for `owner`: nothing yet where no block has begun."""
    return {} if _memory.tables is None else _memory.tables.setdefault(owner, {})


def once(function: Callable[P, R]) -> Callable[P, R]:
    """A function of hashable arguments that computes each result once in a block of `remembered`.

    Its results are shared, so they may not be changed.
    """

    @functools.wraps(function)
    def known_or_found(*args: P.args, **kwargs: P.kwargs) -> R:
        assert not kwargs, "arguments by position alone"
        known: dict[object, R] = table_of(function)
        if args not in known:
            known[args] = function(*args, **kwargs)
        return known[args]

    return known_or_found
