"""A Measurer in a process of its own: a schedule that crashes or hangs costs that process.

    with RemoteMeasurer(task) as measurer:
        measurer.own(schedule, seconds=5.0)               ->  Verdict
        measurer.attempt(schedule, best, seconds=2.0)     ->  Verdict; raises Ended

Each request has so many seconds: whoever takes longer is killed, and what it was doing is lost with
it. The next request starts another. A start takes as long as trying several schedules, so one
process serves all kernels; it ends when it has had nothing to do for a while, or with its parent.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import queue
import signal
import threading
from typing import Any, Self

from ..child import Child, Parent, available, parent
from ..config import Context
from ..optimize.moves import Schedule
from .devices import Device
from .measure import Measurer, SearchTask, Verdict

__all__ = ["Ended", "NotStarted", "RemoteMeasurer", "serve"]

START_SECONDS = 30.0  # at most, on a machine that is busy
AWAKE_SECONDS = 5.0  # until one that has been started before must have answered
IDLE_SECONDS = 10.0  # behind which a process that nobody asks ends itself

_module = __name__  # whose `serve` runs there
_idle: list[Child] = []  # at most one, for the next kernel


class Ended(Exception):
    """The process was ended by what it ran (`crashed`), or for having taken too long."""

    def __init__(self, reason: str, crashed: bool) -> None:
        super().__init__(reason)
        self.crashed = crashed


class NotStarted(Exception):
    """There can be no process for trials here; the message says why."""


class RemoteMeasurer:
    """The schedules of one kernel. Ctrl-C ends the process that is at it."""

    def __init__(self, task: SearchTask) -> None:
        self._task = task
        self._child: Child | None = None
        self._own, self._opening = Schedule(), START_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        if self._child is None:
            return
        if kind is None:
            _put_back(self._child)
        else:  # it may be about to answer
            _end(self._child)

    def own(self, schedule: Schedule, seconds: float) -> Verdict:
        """As `Measurer.own`. Raises Ended, and NotStarted."""
        self._own, self._opening = schedule, seconds
        self._child = _awake() or _started()
        return self._ask(seconds, "own", self._task, schedule)

    def attempt(self, schedule: Schedule, best: float, seconds: float) -> Verdict:
        """As `Measurer.attempt`. Raises Ended, and NotStarted."""
        return self._ask_again(seconds, "attempt", schedule, best)

    def compare(self, schedule: Schedule, seconds: float) -> Verdict:
        """As `Measurer.compare`. Raises Ended, and NotStarted."""
        return self._ask_again(seconds, "compare", schedule)

    def _ask_again(self, seconds: float, *request: object) -> Verdict:
        if self._child is None:  # the one before has ended
            self.own(self._own, self._opening)
        return self._ask(seconds, *request)

    def _ask(self, seconds: float, *request: object) -> Verdict:
        assert self._child is not None
        try:
            self._child.send(request)
            return self._child.receive(seconds)
        except (EOFError, OSError, pickle.UnpicklingError):
            child, self._child = self._child, None
            raise _reason(child, _end(child), seconds) from None


def _awake() -> Child | None:
    """The process that served another kernel, if it is still there."""
    while _idle:
        child = _idle.pop()
        if child.started_by != os.getpid():
            child.forget()
            continue
        try:
            child.send(("hello",))
            child.receive(AWAKE_SECONDS)
        except (EOFError, OSError, pickle.UnpicklingError):
            _end(child)
        except BaseException:
            _end(child)
            raise
        else:
            return child
    return None


def _started() -> Child:
    if not available():
        raise NotStarted("this program embeds Python")
    child = None
    try:
        child = Child(_module)
        child.send(("hello",))
        child.receive(START_SECONDS)
    except BaseException as error:  # Ctrl-C leaves no process behind, either
        code = _end(child) if child is not None else None
        if isinstance(error, (EOFError, OSError, RuntimeError, pickle.UnpicklingError)):
            ended = "" if code is None else f" ({code})"
            raise NotStarted(f"{str(error) or 'it ended'}{ended}") from None
        raise
    return child


def _put_back(child: Child) -> None:
    if _idle:
        _end(child)
    else:
        _idle.append(child)


def _end(child: Child) -> int:
    """End a process in whatever it is doing; its exit status, that of a crash if there was one."""
    code = child.kill()
    child.close()
    return code


def _reason(child: Child, code: int, seconds: float) -> Ended:
    """What it means that the process has ended with `code`."""
    if child.expired:
        return Ended(f"it took more than {seconds:.1f} s", False)
    if code == -9:
        return Ended("its process was killed, perhaps for the memory that it took", False)
    name = f"signal {-code}" if code < 0 else f"exit status {code:#x}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-code).name
    return Ended(f"it crashed: {name}", True)


@atexit.register
def _end_idle() -> None:
    while _idle:
        child = _idle.pop()
        if child.started_by == os.getpid():
            _end(child)
        else:
            child.forget()


# -- in the process -------------------------------------------------------------------------------


def serve() -> None:
    """What the process runs: requests, until there are none for a while, or no parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it decides what Ctrl-C ends
    with contextlib.suppress(ImportError):
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash here is nobody's to look at
    with parent() as asker:
        requests: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        threading.Thread(target=_listen, args=(asker, requests), daemon=True).start()
        measurer = None
        while True:
            try:
                name, *args = requests.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                os._exit(0)  # an orderly end would wait for the input that a thread reads
            if name == "hello":
                asker.send(None)
                continue
            if name == "own":
                measurer = None  # its memory goes before there is any other
                for opened in Device.opened:
                    opened.allocator.trim()
                task, *args = args
                options = task.options
            try:
                with Context(**options):
                    measurer = measurer or Measurer(task)
                    verdict = getattr(measurer, name)(*args)
            except Exception as error:  # memory, above all: there are other schedules
                verdict = Verdict("failed", reason=f"{type(error).__name__}: {error}")
            asker.send(verdict)


def _listen(asker: Parent, requests: queue.SimpleQueue[tuple[Any, ...]]) -> None:
    """Pass requests on. Without a parent there is nobody to end what runs: so it ends here."""
    while True:
        try:
            requests.put(asker.receive())
        except BaseException:
            os._exit(0)
