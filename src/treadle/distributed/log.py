"""What all processes print, on the launcher's own streams, with the progress of process 0.

A process ends each line by a line feed, and process 0 its progress, as it stands, by a carriage
return (`lines`). On a terminal that is one line below all others, which are printed above it. In
a file or a pipe it is a line each ten seconds, so that no line of another process is torn.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable

__all__ = ["Log"]

EACH = 10.0  # seconds between two lines of progress where it is no terminal
_UNITS = re.compile(rb"(\[0\] [^\r\n]*)\r|([^\n]*\n)")
_WIDTH = 80  # columns of a terminal that does not say how many it has
_CLEAR = b"\r\x1b[K"  # ECMA-48: erase to the end of the line


class Log:
    """Copies streams of a launcher to this process's own ones; all are file descriptors."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._home: int | None = None  # the stream that progress is shown on
        self._bar = b""  # the progress, as it stands
        self._told, self._time = b"", 0.0  # what a file had last of it, and when

    def copy(self, source: int, target: int, seen: Callable[[bytes], object]) -> None:
        """Copy lines and progress until `source` ends; each line is `seen`.

        Raises OSError where nobody reads `target` any more.
        """
        left = b""
        while data := os.read(source, 1 << 16):
            left += data
            end = 0
            for unit in _UNITS.finditer(left):
                end = unit.end()
                progress, line = unit.groups()
                with self._lock:
                    if line is None:
                        self._show(progress, target)
                    else:
                        seen(line)
                        self._print(line, target)
            left = left[end:]
        with self._lock:
            if self._home == target:
                self._leave(target)
            _write(target, left)

    def _print(self, line: bytes, target: int) -> None:
        """A line; on a terminal above the bar."""
        home = self._home
        if home is None or not (os.isatty(home) and os.isatty(target)):
            _write(target, line)
            return
        _write(home, _CLEAR)
        _write(target, line)
        self._draw(home)

    def _show(self, progress: bytes, target: int) -> None:
        is_gone = not progress.removeprefix(b"[0]").strip()
        is_new = self._home is None
        self._home, self._bar = (None, b"") if is_gone else (target, progress)
        if os.isatty(target):
            self._draw(target)
        elif is_new:  # what is over soon is told at its end alone
            self._told, self._time = b"", self._clock()
        elif not is_gone and self._clock() - self._time >= EACH:
            self._told, self._time = progress, self._clock()
            _write(target, progress + b"\n")

    def _draw(self, home: int) -> None:
        width = os.get_terminal_size(home).columns or _WIDTH
        text = self._bar.decode(errors="replace")[: width - 1]
        _write(home, _CLEAR + text.encode())

    def _leave(self, home: int) -> None:
        """The progress that a job has ended with is its last line."""
        if os.isatty(home):
            _write(home, b"\n")
        elif self._bar != self._told:
            _write(home, self._bar + b"\n")
        self._home, self._bar = None, b""


def _write(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]
