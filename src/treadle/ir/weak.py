"""Tables of what is alive, looked up and added to without a call of Python's for each.

    table = weakref.WeakValueDictionary()
    references, forget = inside(table)
    references[key] = reference = Reference(value, forget)
    reference.key = key

The same as `table[key] = value`; the entry goes with its value.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Reference", "inside"]


K = TypeVar("K")
T = TypeVar("T")


class Reference(weakref.ref[T]):
    """What `weakref.KeyedRef` is, made without a call of Python's."""

    # `born`: the first key of several; `thread`: that made what is referred to.
    __slots__ = ("born", "key", "thread")
    born: int
    thread: int
    key: Any


def inside(
    table: weakref.WeakValueDictionary[K, T],
) -> tuple[dict[K, Reference[T]], Callable[[Reference[T]], None]]:
    """The dictionary behind `table`, and what takes a dead reference out of it."""
    return table.data, table._remove  # pyright: ignore[reportAttributeAccessIssue]
