"""Processes that compile beside this one, while programs are being made.

    with Workers(translator, count) as workers:      they start
        batch = workers.give(jobs)                   they compile
        batch.finish(here)  ->  {key: (description, code)}

LLVM lets one thread in at a time, and what is before it is Python: further cores need further
processes (see child.py). This process may do something else meanwhile. Then it compiles, too, from
the other end of the list; a worker that is slow to start finds less to do, one that fails or dies
leaves its kernel to this process.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Self

from ..child import Child, parent
from .program import Description
from .translation import Job, Translator

__all__ = ["LEAST_JOBS", "Batch", "Workers", "how_many", "serve"]

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


class Batch:
    """Jobs that workers take from one end of a list, and this process from the other."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = jobs
        self._pending = deque(_longest_outside(jobs))
        self._results: dict[str, Result] = {}
        self._busy = 0  # workers that have begun with a job and not ended it
        self._changed = threading.Condition()

    def finish(self, here: Callable[[str], object]) -> dict[str, Result]:
        """Compile what is left: `here(key)` one after the other, and in the workers.

        Returns what the workers made, by key. Theirs that failed are in neither: compile them
        again. What `here` raises goes on.
        """
        while True:
            try:
                key = self._pending.popleft()
            except IndexError:
                break
            here(key)
        with self._changed:  # nobody waits for a process that only starts
            self._changed.wait_for(lambda: not self._busy)
        return self._results

    def compile_in(self, child: Child) -> None:
        """Send jobs to a worker's process until none is left. Raises what that fails with."""
        while (key := self._next()) is not None:
            try:
                child.send(self._jobs[key])
                result: Result | None = child.receive()
                if result is not None:
                    self._results[key] = result
            finally:
                with self._changed:
                    self._busy -= 1
                    self._changed.notify_all()

    def _next(self) -> str | None:
        with self._changed:
            try:
                key = self._pending.pop()
            except IndexError:
                return None
            self._busy += 1
            return key

    def drop(self) -> None:
        """No job that has not been begun is wanted any more."""
        self._pending.clear()


class Workers:
    """So many processes, which start with the block and end with it."""

    def __init__(self, translator: Translator, count: int) -> None:
        self.translator = translator
        self._workers: list[_Worker] = []
        self._batches: list[Batch] = []
        self._count = count

    def __enter__(self) -> Self:
        self.at_least(self._count)
        return self

    def at_least(self, count: int) -> None:
        """Start further processes until there are so many."""
        while len(self._workers) < count:
            self._workers.append(worker := _Worker(self.translator))
            with contextlib.suppress(RuntimeError):  # no further thread: one worker less
                worker.start()

    def give(self, jobs: Mapping[str, Job]) -> Batch:
        """Have `jobs` compiled, after what the workers have to do already."""
        self._batches.append(batch := Batch(jobs))
        for worker in self._workers:
            worker.batches.put(batch)
        return batch

    def __exit__(self, *error: object) -> None:
        for batch in self._batches:
            batch.drop()
        for worker in self._workers:
            worker.end()


class _Worker(threading.Thread):
    """The thread that feeds one process from the ends of the lists."""

    def __init__(self, translator: Translator) -> None:
        super().__init__(name="treadle compile", daemon=True)
        self.batches: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._translator = translator
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._ended = False

    def run(self) -> None:
        """Send jobs until there are no more batches, or until the process fails in any way."""
        # A broken pipe, an unreadable answer, no such program: the rest is compiled here.
        with contextlib.suppress(Exception):
            with self._lock:
                if self._ended:
                    return
                child = self._child = Child(__name__)
            child.send(self._translator)
            child.receive()
            while (batch := self.batches.get()) is not None:
                batch.compile_in(child)

    def end(self) -> None:
        """End the process, in whatever it is doing."""
        with self._lock:
            self._ended = True
            child = self._child
        self.batches.put(None)
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
