"""Python processes beside this one, with the same modules to import, at the ends of two pipes.

    child = Child("treadle.engine.workers")     runs `serve()` of that module
    child.send(job)
    child.receive(seconds=5.0)                  what it sends back; EOFError where it has ended

A fork would inherit threads in the middle of their work, and the pools of `multiprocessing` would
run the user's main module once more: so each is a new Python, which takes 0.15 s to start. A child
ends with its pipes, so none outlives who started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import IO, Any

__all__ = ["Child", "available", "parent"]

_CODE = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).serve()"
)


def available() -> bool:
    """Whether this process can start others that run Python; some programs embed it."""
    name = os.path.basename(sys.executable or "").lower()
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


class Child:
    """A process that runs `serve()` of `module`. Raises OSError where it cannot be started."""

    def __init__(self, module: str) -> None:
        path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
        self.started_by = os.getpid()
        self.expired = False  # whether it was killed for having taken too long
        flags = ["-I", "-B"] if sys.dont_write_bytecode else ["-I"]
        self.process = subprocess.Popen(
            [sys.executable, *flags, "-c", _CODE, path, module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def send(self, value: object) -> None:
        """Write `value`, pickled. Raises OSError where nobody reads any more."""
        _send(self.process.stdin, value)

    def receive(self, seconds: float | None = None) -> Any:
        """What the child sends; it is killed where that takes longer than `seconds`.

        Raises EOFError where it has ended, and what unpickling raises.
        """
        if seconds is None:
            return _receive(self.process.stdout)
        timer = threading.Timer(max(seconds, 0.0), self._expire)
        timer.daemon = True
        timer.start()
        try:
            return _receive(self.process.stdout)
        finally:
            timer.cancel()

    def _expire(self) -> None:
        self.expired = True
        self.process.kill()

    def kill(self) -> int:
        """End the process in whatever it is doing; what it ended with."""
        self.process.kill()
        return self.process.wait()

    def close(self) -> None:
        """Close the pipes of a process that has ended."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what it did not read
                    pipe.close()

    def forget(self) -> None:
        """Let go of a process that is not this one's child: a fork copied this object."""
        self.process.returncode = 0
        self.close()


def _send(pipe: IO[bytes] | None, value: object) -> None:
    assert pipe is not None
    pickle.dump(value, pipe)
    pipe.flush()


def _receive(pipe: IO[bytes] | None) -> Any:
    assert pipe is not None
    return pickle.load(pipe)  # noqa: S301 (from a process that is this one's parent or child)


class Parent:
    """Who started this process, as a child sees it."""

    def __init__(self, back: IO[bytes]) -> None:
        self._back = back

    def send(self, value: object) -> None:
        """Write `value`, pickled."""
        _send(self._back, value)

    def receive(self) -> Any:
        """What the parent sends. Raises EOFError where it has ended, or wants nothing more."""
        return _receive(sys.stdin.buffer)


@contextlib.contextmanager
def parent() -> Iterator[Parent]:
    """In a child: the other ends of its pipes. Whatever prints is not taken for an answer."""
    with os.fdopen(os.dup(1), "wb") as back:
        os.dup2(2, 1)
        yield Parent(back)
