"""What each of the user's lines took, added up while DEBUG=2, and shown when the process ends.

    line_totals.add("CPU", origins, tally)
    print(line_totals.table(80))

    *** 1.23 s in 4200 kernels, by line           time share  kernels ...
        train.py:12 Model.fc1                 512.3 ms   42%      200 ...

A kernel's time is the line's with most of its work, though other lines may have a part in it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from ..forks import fork_safe
from ..ir.origin import Origin

__all__ = ["WIDTH", "LineTotals", "Tally", "figures", "label", "line_totals"]

WIDTH = 40  # characters of a line's name
_LEAST_NAME = 12  # characters of a layer's
_MOST_ROWS = 30
_UNKNOWN = "no line of the program"
_UNITS = (("s", 1), ("ms", 1e-3), ("us", 1e-6))


@dataclass(frozen=True)
class Tally:
    """Kernels with their time, operations and bytes.

    Of `judged` seconds ceilings are known: `best` is what would have been enough, and `limit` the
    ceiling of one kernel.
    """

    kernels: int = 0
    seconds: float = 0.0
    ops: int = 0
    moved: int = 0
    best: float = 0.0
    judged: float = 0.0
    limit: str = ""

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.kernels + other.kernels,
            self.seconds + other.seconds,
            self.ops + other.ops,
            self.moved + other.moved,
            self.best + other.best,
            self.judged + other.judged,
        )


def label(origins: Sequence[Origin]) -> str:
    """The first line and its layer or operation, in WIDTH characters, and how many lines more."""
    if not origins:
        return _UNKNOWN
    file, number = origins[0].line
    others = len({origin.line for origin in origins}) - 1
    more = f" +{others}" if others else ""
    layer = origins[0].layer
    place = f"{_near(file)}:{number}"
    room = WIDTH - len(more) - 1
    if len(place) + len(layer) > room:
        place = f"{os.path.basename(file)}:{number}"
    layer = _cut(layer, max(room - len(place), _LEAST_NAME))
    return f"{_cut(place, room - len(layer), at_end=False)} {layer}{more}"


def figures(tally: Tally) -> str:
    """The columns of numbers: those that are known."""
    seconds = tally.seconds
    text = f"{seconds * 1e6:10.1f} us"
    if tally.moved:
        text += (
            f" {tally.ops / seconds * 1e-9:9.2f} GFLOP/s {tally.moved / seconds * 1e-9:8.2f} GB/s"
        )
    if tally.judged:
        share = tally.best / tally.judged
        notes = [tally.limit] if tally.limit else []
        notes += ["ceiling too low"] if share > 1 else []
        text += f" {share:5.0%} of the roofline" + (f" ({', '.join(notes)})" if notes else "")
    return text


class LineTotals:
    """Tallies by device, line and layer."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, int, str], tuple[str, Tally]] = {}
        self._process = 0  # whose they are: a fork has its parent's
        self._lock = fork_safe(threading.Lock())

    def add(self, device: str, origins: Sequence[Origin], tally: Tally) -> None:
        """Add what a kernel took that was made for `origins`."""
        first = origins[:1]
        key = (device, *(first[0].line if first else ("", 0)), first[0].layer if first else "")
        with self._lock:
            if self._process != os.getpid():
                self._process = os.getpid()
                self._rows.clear()
                atexit.unregister(self.show)
                atexit.register(self.show)
            name, known = self._rows.get(key) or (label(first), Tally())
            self._rows[key] = name, known + tally

    def show(self) -> None:
        """Write the table to standard error, where it was this process that added to it."""
        if self._rows and self._process == os.getpid():
            print(self.table(shutil.get_terminal_size((160, 24)).columns), file=sys.stderr)

    def table(self, columns: int) -> str:
        """The lines in the order of their time, the longest first, in so many columns."""
        rows = sorted(self._rows.items(), key=lambda row: row[1][1].seconds, reverse=True)
        whole = sum((tally for _, (_, tally) in rows), Tally())
        devices = {device for (device, *_), _ in rows}
        head = _HEAD if whole.judged else _HEAD.removesuffix(" roofline")
        lines = [
            head.format(f"*** {_time(whole.seconds).strip()} in {whole.kernels} kernels, by line")
        ]
        for (device, *_), (name, tally) in rows[:_MOST_ROWS]:
            lines.append(_row(name, tally, whole, device if len(devices) > 1 else ""))
        if rest := rows[_MOST_ROWS:]:
            left = sum((tally for _, (_, tally) in rest), Tally())
            lines.append(_row(f"{len(rest)} more lines", left, whole, ""))
        return "\n".join(line[:columns].rstrip() for line in lines)


line_totals = LineTotals()

_HEAD = f"{{:{WIDTH + 4}}}       time share  kernels  GFLOP/s     GB/s roofline"


def _row(name: str, tally: Tally, whole: Tally, device: str) -> str:
    seconds = tally.seconds or 1e-9
    rates = " " * 18
    if tally.moved:
        rates = f" {tally.ops / seconds * 1e-9:8.2f} {tally.moved / seconds * 1e-9:8.2f}"
    share = f"{tally.best / tally.judged:8.0%}" if tally.judged else " " * 8
    part = tally.seconds / (whole.seconds or 1e-9)
    time = f"{_time(tally.seconds)} {part:5.0%} {tally.kernels:8}"
    return f"    {name:{WIDTH}} {time}{rates} {share} {device}"


def _time(seconds: float) -> str:
    unit, size = next((u for u in _UNITS if seconds >= u[1]), _UNITS[-1])
    return f"{seconds / size:7.2f} {unit:2}"


def _near(file: str) -> str:
    """The path from the working directory, if the file is below it."""
    try:
        found = os.path.relpath(file)
    except ValueError:  # on another drive
        return file
    return os.path.basename(file) if found.startswith(os.pardir) else found


def _cut(text: str, length: int, at_end: bool = True) -> str:
    """At most so many characters of a text: its beginning, or its end."""
    if len(text) <= length:
        return text
    return text[: length - 1] + "…" if at_end else "…" + text[len(text) - length + 1 :]
