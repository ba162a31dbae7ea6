"""One process of a job that `treadle run` starts: `python -m treadle.distributed.process train.py`.

Each line that it prints begins with its number, and is written as a whole: the launcher brings all
processes' lines into one log. Of progress bars, process 0's alone are shown while they go on. It
takes its share of the cores, unless the user says how many.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import runpy
import sys
from collections.abc import Sequence

from ..target import available_cores
from .lines import Lines

__all__ = ["main"]

_RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
_NEIGHBOURS = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")  # processes of this machine
_COUNTS = ("TREADLE_CPU_COUNT", "TREADLE_THREADS", "CPU_COUNT", "THREADS")


class _Marked(io.RawIOBase):
    """Writes whole lines to a file descriptor, each with a mark in front, and progress."""

    def __init__(self, descriptor: int, rank: str) -> None:
        self._descriptor = descriptor
        self._lines = Lines(f"[{rank}] ".encode(), shows_progress=rank == "0")

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: object, /) -> int:
        text = bytes(memoryview(data))  # pyright: ignore[reportArgumentType]
        self._write_out(self._lines.of(text))
        return len(text)

    def end(self) -> None:
        """Write what has not ended."""
        self._write_out(self._lines.rest())

    def _write_out(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


def main(arguments: Sequence[str]) -> None:
    """Run a script, or "-m" and a module, as Python would."""
    rank = next((os.environ[name] for name in _RANKS if name in os.environ), "0")
    neighbours = next((int(os.environ[name]) for name in _NEIGHBOURS if name in os.environ), 1)
    if not any(name in os.environ for name in _COUNTS):
        os.environ[_COUNTS[0]] = str(max(1, available_cores() // neighbours))
    marked = [_Marked(stream.fileno(), rank) for stream in (sys.stdout, sys.stderr)]
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(one, encoding="utf-8", errors="backslashreplace", line_buffering=True)
        for one in map(io.BufferedWriter, marked)
    )
    atexit.register(_end, marked)
    if arguments[0] == "-m":
        sys.argv = [arguments[1], *arguments[2:]]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        if not os.path.exists(arguments[0]):
            raise SystemExit(f"treadle run: there is no file {arguments[0]} in {os.getcwd()}")
        sys.argv = list(arguments)
        if not sys.flags.safe_path:  # as Python does, whose own module is in front now
            sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


def _end(marked: Sequence[_Marked]) -> None:
    """The last lines, after all else that a program prints at its end."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a program may close its own
            stream.flush()
    for one in marked:
        one.end()


if __name__ == "__main__":
    main(sys.argv[1:])
