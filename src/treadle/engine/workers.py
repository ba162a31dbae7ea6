"""Processes that compile beside this one, for as long as one program is being made.

    with Workers(translator, count) as workers:      they start
        workers.share(jobs, here)  ->  {key: (description, code)}

LLVM lets one thread in at a time, and what is before it is Python: further cores need further
processes (see child.py). This process compiles meanwhile, from the other end of the list; a worker
that is slow to start finds less to do, one that fails or dies leaves its kernel to this process.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self

from .child import Child, parent
from .program import Description
from .translation import Job, Translator

__all__ = ["LEAST_JOBS", "Workers", "how_many", "serve"]

Result = tuple[Description, bytes]

# A worker takes 0.3 s of its core to start, as much as compiling two kernels.
LEAST_JOBS = 6


def how_many(jobs: int, processes: int) -> int:
    """How many of up to `processes` workers so many jobs are worth."""
    return 0 if jobs < LEAST_JOBS else min(processes, jobs // (LEAST_JOBS // 2) - 1)


def _longest_outside(jobs: Mapping[str, Job]) -> list[str]:
    """The keys of jobs, those of long kernels at both ends: nobody begins one last."""
    order = sorted(jobs, key=lambda key: -len(jobs[key].text))
    return order[::2] + order[1::2][::-1]


@dataclass
class _Board:
    """What is to be done: nothing is known of it until it is `given`."""

    translator: Translator
    jobs: Mapping[str, Job] = field(default_factory=dict)
    pending: deque[str] = field(default_factory=deque)
    given: threading.Event = field(default_factory=threading.Event)


class Workers:
    """So many processes, which start at once and end with the block."""

    def __init__(self, translator: Translator, count: int) -> None:
        self._board = _Board(translator)
        self._workers = [_Worker(self._board) for _ in range(count)]

    def __enter__(self) -> Self:
        for worker in self._workers:
            with contextlib.suppress(RuntimeError):  # no further thread: one worker less
                worker.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._board.pending.clear()
        self._board.given.set()
        for worker in self._workers:
            worker.end()

    def share(self, jobs: Mapping[str, Job], here: Callable[[str], object]) -> dict[str, Result]:
        """Compile all `jobs`: `here(key)` one after the other, and in the workers.

        Returns what the workers made, by key. Theirs that failed are in neither: compile them
        again. What `here` raises goes on.
        """
        board = self._board
        board.jobs = jobs
        board.pending.extend(_longest_outside(jobs))
        board.given.set()
        while True:
            try:
                key = board.pending.popleft()
            except IndexError:
                break
            here(key)
        for worker in self._workers:
            worker.wait()
        return {key: result for worker in self._workers for key, result in worker.results.items()}


class _Worker(threading.Thread):
    """The thread that feeds one process from the end of the list."""

    def __init__(self, board: _Board) -> None:
        super().__init__(name="treadle compile", daemon=True)
        self.results: dict[str, Result] = {}
        self._board = board
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._busy = self._ended = False

    def run(self) -> None:
        """Send jobs until none is left, or until the process fails in any way."""
        # A broken pipe, an unreadable answer, no such program: the rest is compiled here.
        with contextlib.suppress(Exception):
            with self._lock:
                if self._ended:
                    return
                child = self._child = Child(__name__)
            child.send(self._board.translator)
            child.receive()
            self._board.given.wait()
            while (key := self._next()) is not None:
                child.send(self._board.jobs[key])
                result = child.receive()
                if result is not None:
                    self.results[key] = result

    def _next(self) -> str | None:
        with self._lock:
            self._busy = bool(self._board.pending)
            try:
                return self._board.pending.pop()
            except IndexError:
                return None

    def wait(self) -> None:
        """Until the kernel is there that it compiles; not for a process that only starts."""
        with self._lock:
            busy = self._busy
        if busy:
            self.join()

    def end(self) -> None:
        """End the process, in whatever it is doing."""
        with self._lock:
            self._ended = True
            child = self._child
        if child is not None:
            child.kill()
        if self.ident is not None:
            self.join()
        if child is not None:
            child.close()


def serve() -> None:
    """What a worker runs: it gets a Translator, then Jobs until there are no more."""
    with parent() as asker:
        translator: Translator = asker.receive()
        asker.send(None)
        while True:
            try:
                job: Job = asker.receive()
            except EOFError:
                return
            try:
                result = translator.translate(job)
            except Exception:  # the same happens to who asked, who tells the user
                result = None
            asker.send(result)
