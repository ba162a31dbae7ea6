"""What one thread works out of nodes while it makes one kernel: each thing once, since most are met
many times.

    with remembered(): ...everything that makes one kernel...

    SIMPLER = Table[Node, Node]()
    SIMPLER.here()              this thread's dict: for what is known of many nodes at once

    @once
    def without_lane(index, vector): ...
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, ParamSpec, TypeVar, cast

__all__ = ["Table", "once", "remembered"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")


class _Memory(threading.local):
    tables: dict[object, object] | None = None  # a dict for each Table that was asked


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


class Table(Generic[K, V]):
    """Something that is remembered by keys."""

    def here(self) -> dict[K, V]:
        """What this thread knows: nothing where no block has begun, and nothing is kept there."""
        if _memory.tables is None:
            return {}
        return cast("dict[K, V]", _memory.tables.setdefault(self, {}))


def once(function: Callable[P, V]) -> Callable[P, V]:
    """A function of hashable arguments that computes each result once in a block of `remembered`.

    Its results are shared, so they may not be changed.
    """
    table = Table[tuple[object, ...], V]()

    @functools.wraps(function)
    def known_or_found(*args: P.args, **kwargs: P.kwargs) -> V:
        assert not kwargs, "arguments by position alone"
        known = table.here()
        if args not in known:
            known[args] = function(*args, **kwargs)
        return known[args]

    return known_or_found
