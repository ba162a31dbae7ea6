"""Calls of groups of processes that go on while this process computes.

    job = call_in_order(steps)      a call that is made step by step, behind those given before
    job.wait()                      its errors are raised here
    run_in_order(steps)             the same, waited for

A thread takes the steps while this process computes. Who waits for a call takes them in the
thread's place, as waking another thread takes longer than many a call. One call is over before the
next begins, so that all processes of a group make them in the same order.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..errors import DistributedError
from ..forks import fork_safe
from ..runtime.communicator import Call, Channel, Communicator, Pace, finished

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Job", "Steps", "call_in_order", "finish_calls", "in_one_step", "run_in_order",
    "take_part_in_order",
]  # fmt: skip

Steps = Iterator[None]  # each looks once, and the call is over when there are no more


class Job:
    """A call that was put off."""

    def __init__(self, steps: Steps) -> None:
        self.is_in_step = False
        self._steps: Steps | None = steps
        self._error: BaseException | None = None

    def wait(self) -> None:
        """Returns when it is over. Raises what it has failed with, each time."""
        if not self.is_over:
            _calls.take_until(lambda: self.is_over)
        if self._error is not None:
            raise self._error

    @property
    def is_over(self) -> bool:
        """Whether no more steps are left; what they have held has been let go of."""
        return self._steps is None

    def step(self) -> None:
        """Take the next step."""
        assert self._steps is not None
        self.is_in_step = True
        try:
            next(self._steps)
        except StopIteration:
            self._steps = None
        except BaseException as error:
            self._error, self._steps = error, None
        finally:
            self.is_in_step = False


class _Calls:
    """What is left to do, and the thread that does it where nobody waits."""

    def __init__(self) -> None:
        self.waiting: deque[Job] = deque()
        self._turn = fork_safe(threading.RLock())  # who has it takes steps
        self._changed = threading.Condition(fork_safe(threading.Lock()))
        self._in_a_hurry = 0  # how many wait for a job
        self._is_asleep = False  # whether the thread has to be woken
        self._thread: threading.Thread | None = None

    def put(self, job: Job) -> None:
        self.waiting.append(job)
        if self._turn.acquire(blocking=False):  # nobody has another one in hand
            try:  # so that the others hear of it while this process computes
                if self.waiting[0] is job:
                    self._step()
            finally:
                self._turn.release()
            if job.is_over:
                return
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._serve, name="treadle collectives", daemon=True
            )
            self._thread.start()
        elif self._is_asleep:
            with self._changed:
                self._changed.notify()

    def take_until(self, is_over: Callable[[], bool]) -> None:
        with self._changed:
            self._in_a_hurry += 1
        try:
            with self._turn:
                pace = Pace()
                while not is_over():
                    self._step()
                    pace.rest()
        finally:
            with self._changed:
                self._in_a_hurry -= 1

    def _step(self) -> None:
        job = self.waiting[0]
        if job.is_in_step:
            raise DistributedError(
                "[distributed] a result was asked for in the middle of the call that makes it, by "
                "the handler of a signal: let the handler note it, and ask after the call"
            )
        job.step()
        if job.is_over:
            self.waiting.popleft()

    def _serve(self) -> None:
        last = time.monotonic()
        while True:
            if self.waiting and not self._in_a_hurry:
                last = time.monotonic()
                with self._turn:
                    while self.waiting and not self._in_a_hurry:
                        self._step()
                        if time.monotonic() > last + _WORK:
                            break
                time.sleep(_PAUSE)
            elif time.monotonic() < last + _AWAKE:
                time.sleep(_DOZE)
            else:
                with self._changed:
                    self._is_asleep = True
                    while not self.waiting:
                        self._changed.wait()
                    self._is_asleep = False
                last = time.monotonic()


_WORK, _PAUSE = 50e-6, 50e-6  # seconds that the thread looks, and then leaves a core to others
# Waking it takes longer than many a call. So it looks for calls by itself at times, and sleeps
# after some seconds without any.
_DOZE, _AWAKE = 2e-3, 2.0
_calls = _Calls()


def call_in_order(steps: Steps) -> Job:
    """Have a call made."""
    job = Job(steps)
    _calls.put(job)
    return job


def run_in_order(steps: Steps) -> None:
    """Make a call behind all that were given before, and wait. Raises what it raises."""
    if _calls.waiting:
        call_in_order(steps).wait()
    else:
        finished(steps)


def take_part_in_order(
    group: Communicator | Channel,
    call: Call,
    given: np.ndarray | None,
    result: np.ndarray | None,
) -> None:
    """A call of a group, waited for; as `run_in_order` of its steps, and sooner if it is small."""
    if _calls.waiting:
        call_in_order(group.steps(call, given, result)).wait()
    else:
        group.take_part(call, given, result)


def in_one_step(function: Callable[[], None]) -> Steps:
    """A function that waits by itself, as a call; who gives it does not run it."""
    yield
    function()


def finish_calls() -> None:
    """Wait until nothing is left to run. What has failed has been told, or is by its job."""
    if _calls.waiting:
        _calls.take_until(lambda: not _calls.waiting)
