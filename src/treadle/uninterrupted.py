"""Work that Ctrl-C does not cut in two: it is finished first, and the interrupt raised then.

    uninterrupted(lambda: library.wait(callback))   ->  what that gives

Python handles signals in the main thread, between two of its steps. That may be inside of a
callback, where ctypes drops what is raised, or while other threads use memory that an exception
would free. So the main thread has one beside it do the work, and waits. Other threads get no
signals, and do it themselves.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

__all__ = ["uninterrupted"]

T = TypeVar("T")


class _Job:
    """Something to do, and what became of it."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._pending = threading.Lock()  # cheaper than an Event, and held until it is done
        self._pending.acquire()
        self._result: Any = None
        self._error: BaseException | None = None

    def do(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        self._pending.release()

    def outcome(self) -> Any:
        """The result, or what was raised. An interrupt is raised once the work is done."""
        interrupt: BaseException | None = None
        is_done = False
        while not is_done:
            try:
                with self._pending:
                    is_done = True
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt
        if self._error is not None:
            raise self._error
        return self._result


@functools.cache
def _jobs() -> SimpleQueue[_Job]:
    """What the thread beside the main one does, in order. It is made at the first use."""
    jobs: SimpleQueue[_Job] = SimpleQueue()

    def work() -> None:
        while True:
            jobs.get().do()

    # A daemon: at exit, work is done for as long as the main thread has some.
    threading.Thread(target=work, name="treadle-uninterrupted", daemon=True).start()
    return jobs


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_jobs.cache_clear)  # threads do not live on in a child


def uninterrupted(work: Callable[[], T]) -> T:
    """What `work` gives or raises, whatever signals come meanwhile."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    job = _Job(work)
    _jobs().put(job)
    return job.outcome()
