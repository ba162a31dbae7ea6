"""Calls of groups of processes that run while this process computes.

    job = call_in_order(function)          it runs on a thread, after those that were given before
    job.wait()                             its errors are raised here
    run_in_order(function)                 the same at once, on this thread where nothing is waiting

There is one such thread. It takes one call after the other, so that all processes of a group make
them in the same order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from ..forks import fork_safe

__all__ = ["Job", "call_in_order", "finish_calls", "run_in_order"]


class Job:
    """A call that was put off."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function: Callable[[], None] | None = function
        self._done = threading.Event()
        self._error: BaseException | None = None

    def wait(self) -> None:
        """Returns when it has run. Raises what it has failed with, each time."""
        self._done.wait()
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        """Run it, once, on whatever thread this is; what it holds is let go of."""
        function, self._function = self._function, None
        assert function is not None
        try:
            function()
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()


class _Calls:
    """What is waiting, and the thread that takes it; a job stays in front while it runs."""

    def __init__(self) -> None:
        self.changed = threading.Condition(fork_safe(threading.Lock()))
        self.waiting: deque[Job] = deque()
        self.thread: threading.Thread | None = None

    def put(self, job: Job) -> None:
        with self.changed:
            self.waiting.append(job)
            if self.thread is None:
                self.thread = threading.Thread(
                    target=self._serve, name="treadle collectives", daemon=True
                )
                self.thread.start()
            self.changed.notify()

    def _serve(self) -> None:
        while True:
            with self.changed:
                while not self.waiting:
                    self.changed.wait()
                job = self.waiting[0]
            job.run()
            with self.changed:
                self.waiting.popleft()


_calls = _Calls()


def call_in_order(function: Callable[[], None]) -> Job:
    """Have `function` called on the thread."""
    job = Job(function)
    _calls.put(job)
    return job


def run_in_order(function: Callable[[], None]) -> None:
    """Call `function` after all that were given before, and wait. Raises what it raises."""
    if _calls.waiting:
        call_in_order(function).wait()
    else:
        function()


def finish_calls() -> None:
    """Wait until nothing is left to run. What has failed has been told, or is by its job."""
    if _calls.waiting:
        call_in_order(lambda: None).wait()
