"""Processes that compile beside this one, for as long as one program is being compiled.

    share(translator, jobs, here, processes)  ->  {key: (description, code)}

LLVM lets one thread in at a time, and what is before it is Python: further cores need further
processes. Each is a new Python with the same modules to import, fed through its standard input: a
fork would inherit threads in the middle of their work. This process compiles meanwhile, from the
other end of the list; a worker that is slow to start finds less to do, one that fails or dies
leaves its kernel to this process. They end with their pipes, so none outlives its program.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import IO, Any

from .translation import Job, Translator

__all__ = ["available", "serve", "share"]

Result = tuple[dict[str, Any], bytes]

# A worker takes 0.3 s of its core to start, as much as compiling two kernels.
LEAST_JOBS = 6

_SERVE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from treadle.engine.workers import serve; serve()"
)


def available() -> bool:
    """Whether this process can start others that run Python; some programs embed it."""
    name = os.path.basename(sys.executable or "").lower()
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


def share(
    translator: Translator,
    jobs: Mapping[str, Job],
    here: Callable[[str], object],
    processes: int,
) -> dict[str, Result]:
    """Compile all `jobs`: `here(key)` one after the other, and in up to `processes` workers.

    Returns what the workers made, by key. Theirs that failed are in neither: compile them again.
    What `here` raises ends the workers and goes on.
    """
    pending = deque(jobs)
    count = min(processes, len(jobs) // (LEAST_JOBS // 2) - 1)
    workers = [_Worker(translator, jobs, pending) for _ in range(count)]
    try:
        for worker in workers:
            with contextlib.suppress(RuntimeError):  # no further thread: one worker less
                worker.start()
        while True:
            try:
                key = pending.popleft()
            except IndexError:
                break
            here(key)
        for worker in workers:
            worker.wait()
    finally:
        pending.clear()
        for worker in workers:
            worker.end()
    return {key: result for worker in workers for key, result in worker.results.items()}


class _Worker(threading.Thread):
    """The thread that feeds one process from the end of the list."""

    def __init__(
        self, translator: Translator, jobs: Mapping[str, Job], pending: deque[str]
    ) -> None:
        super().__init__(name="treadle compile", daemon=True)
        self.results: dict[str, Result] = {}
        self._translator, self._jobs, self._pending = translator, jobs, pending
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._busy = self._ended = False

    def run(self) -> None:
        """Send jobs until none is left, or until the process fails in any way."""
        # A broken pipe, an unreadable answer, no such program: the rest is compiled here.
        with contextlib.suppress(Exception):
            with self._lock:
                if self._ended:
                    return
                self._process = _started()
            to, back = self._process.stdin, self._process.stdout
            assert to is not None
            assert back is not None
            _send(to, self._translator)
            _receive(back)
            while (key := self._next()) is not None:
                _send(to, self._jobs[key])
                result = _receive(back)
                if result is not None:
                    self.results[key] = result

    def _next(self) -> str | None:
        with self._lock:
            self._busy = bool(self._pending)
            try:
                return self._pending.pop()
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
            process = self._process
        if process is not None:
            process.kill()
            process.wait()
        if self.ident is not None:
            self.join()
        for pipe in (process.stdin, process.stdout) if process is not None else ():
            if pipe is not None:
                with contextlib.suppress(OSError):  # what it did not read
                    pipe.close()


def _started() -> subprocess.Popen[bytes]:
    path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _SERVE, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _send(pipe: IO[bytes], value: object) -> None:
    pickle.dump(value, pipe)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    return pickle.load(pipe)  # noqa: S301 (from a process that is this one's parent or child)


def serve() -> None:
    """What a worker runs: a Translator from its standard input, then Jobs until that ends."""
    with os.fdopen(os.dup(1), "wb") as back:
        os.dup2(2, 1)  # whatever prints must not be taken for an answer
        asked = sys.stdin.buffer
        translator: Translator = _receive(asked)
        _send(back, None)
        while True:
            try:
                job: Job = _receive(asked)
            except EOFError:
                return
            try:
                result = translator.translate(job)
            except Exception:  # the same happens to who asked, who tells the user
                result = None
            _send(back, result)
