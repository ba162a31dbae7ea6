"""Locks that a forked child can use, whatever the parent's other threads were doing.

    lock = fork_safe(threading.RLock())     # held over the moment of os.fork(), free after it

A child has the thread that forked and no other. What another thread held at that moment would be
held for ever, and what it was changing would stay half changed. So whoever forks first waits until
it holds every such lock: a graph that is being computed is finished before. Locks are waited for
in the order in which threads take them. Where two threads block each other all the same, the one
that forks lets go and begins with the lock that it missed.

A thread that computes longer than PATIENCE, or that waits for something that the forking thread
holds, is not waited for: the child finds its locks free, and what it was computing unfinished.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

__all__ = ["all_locks", "before_forks", "fork_safe"]

PATIENCE = 60.0  # seconds
_ATTEMPT = 5.0  # as long, one lock is waited for while others are held


class Lock(Protocol):
    """A lock of `threading`, of either kind."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...


L = TypeVar("L", bound=Lock)
_locks: dict[int, tuple[int, weakref.ref[Lock]]] = {}
_forking = threading.local()

# Called once the locks are held, before the fork: devices finish what they were given.
before_forks: list[Callable[[], None]] = []


def fork_safe(lock: L, rank: int = 9) -> L:
    """`lock`, which no other thread holds when this process forks.

    A thread that holds a lock of a lower `rank` may wait for one of a higher rank.
    """
    key = id(lock)
    known: Lock = lock
    _locks[key] = rank, weakref.ref(known, lambda _: _locks.pop(key, None))
    return lock


def all_locks() -> list[Lock]:
    """Every lock that there is, in the order in which threads take them."""
    rows = sorted(_locks.values(), key=lambda row: row[0])
    return [lock for _, reference in rows if (lock := reference()) is not None]


def _before() -> None:
    _forking.held = held = []
    _take_all(held, time.monotonic() + PATIENCE)
    for call in before_forks:
        call()


def _take_all(held: list[Lock], deadline: float) -> None:
    """Fills `held` with all locks or, at the deadline, with those that are free."""
    missed = None
    while (left := deadline - time.monotonic()) > 0:
        if missed is not None and _taken(missed, held, left):
            left = deadline - time.monotonic()
        others = (lock for lock in all_locks() if lock is not missed)
        missed = next((k for k in others if not _taken(k, held, min(left, _ATTEMPT))), None)
        if missed is None:
            return
        _release(held)
    for lock in all_locks():
        _taken(lock, held, 0)


def _taken(lock: Lock, held: list[Lock], seconds: float) -> bool:
    if not lock.acquire(timeout=max(seconds, 0)):
        return False
    held.append(lock)
    return True


def _release(held: list[Lock]) -> None:
    while held:
        held.pop().release()


def _in_parent() -> None:
    _release(_forking.held)


def _in_child() -> None:
    taken = {id(lock) for lock in _forking.held}
    for lock in all_locks():
        if id(lock) not in taken:  # its holder does not exist here
            _renew(lock)
    _release(_forking.held)


def _renew(lock: Any) -> None:
    lock._at_fork_reinit()  # as Python's own modules do; no stub of `threading` knows of it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
