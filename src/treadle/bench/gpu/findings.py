"""What a part has found: one line of JSON each, written at once.

    findings = Findings("/tmp/graphs.jsonl", seconds=30, emulated=False)
    findings.check("a captured step is replayed", function)      # passed, failed or skipped
    findings.note("table", "| work | ...")

`cut` says that the time was over before something was done. A check is announced before it begins,
with how long it may take at most: whoever watches the file can tell which one hangs. A process that
goes on where another has ended leaves out what stands there already.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = [
    "BROKEN", "Finding", "Findings", "Pending", "Skipped", "is_broken", "pending_check",
    "read_findings",
]  # fmt: skip

BROKEN = 78  # the status of a process that ends since its device is of no more use
PATIENCE = 30.0  # seconds that a check may take
Outcome = Literal["passed", "failed", "skipped", "cut"]
_LONGEST = 600  # characters of a message


class Skipped(Exception):
    """A check that cannot be made here, and why."""


@dataclass(frozen=True)
class Finding:
    """One check."""

    name: str
    outcome: Outcome
    seconds: float = 0.0
    message: str = ""


@dataclass(frozen=True)
class Pending:
    """A check that has begun, and how many seconds it may take."""

    name: str
    patience: float


class Findings:
    """The findings of one part, in a file. `notes` are those of processes before it, too."""

    def __init__(self, path: str, seconds: float, emulated: bool) -> None:
        self._path, self._end, self.emulated = path, time.monotonic() + seconds, emulated
        found, self.notes = read_findings(path)
        self._done = {finding.name for finding in found}

    @property
    def seconds_left(self) -> float:
        """Until the part is to be done."""
        return self._end - time.monotonic()

    def has(self, name: str) -> bool:
        """Whether a process before this one has found it."""
        return name in self._done

    def check(self, name: str, function: Callable[[], object], patience: float = PATIENCE) -> None:
        """Passed if `function` returns; skipped if it raises Skipped, failed for all else.

        Where a failure has broken the GPU's context, which is this process's for good, the process
        ends with status BROKEN.
        """
        if self.has(name):
            return
        self._write({"pending": asdict(Pending(name, patience))})
        start = time.perf_counter()
        try:
            function()
        except Skipped as why:
            self.add(name, "skipped", 0.0, str(why))
        except Exception as error:
            seconds, was_fatal = time.perf_counter() - start, is_broken()
            self.add(name, "failed", seconds, f"{type(error).__name__}: {error}")
            if was_fatal:
                sys.exit(BROKEN)
        else:
            self.add(name, "passed", time.perf_counter() - start)

    def add(self, name: str, outcome: Outcome, seconds: float = 0.0, message: str = "") -> None:
        """Writes one finding down."""
        self._write({"finding": asdict(Finding(name, outcome, seconds, message[:_LONGEST]))})

    def note(self, name: str, value: object) -> None:
        """Writes something else down: a text, numbers."""
        self.notes[name] = value
        self._write({"note": name, "value": value})

    def _write(self, line: dict[str, object]) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def is_broken() -> bool:
    """Whether a GPU that was opened here fails whatever is asked of it."""
    from ... import Device
    from ...errors import DeviceError
    from ...runtime.cuda import CUDADevice
    from ...runtime.hardware.device import HardwareDevice

    try:
        for opened in Device.opened:
            if isinstance(opened.runtime, CUDADevice | HardwareDevice):
                opened.synchronize()
    except DeviceError:
        return True
    return False


def pending_check(path: str) -> Pending | None:
    """The check that has begun and not come to its end."""
    found = None
    for line in _lines(path):
        if "pending" in line:
            found = Pending(**line["pending"])
        elif found is not None and line.get("finding", {}).get("name") == found.name:
            found = None
    return found


def read_findings(path: str) -> tuple[list[Finding], dict[str, Any]]:
    """What a part wrote: its findings and its notes. What two of its processes say counts once."""
    found, notes = [], {}
    for line in _lines(path):
        if "finding" in line:
            found.append(Finding(**line["finding"]))
        elif "note" in line:
            notes[line["note"]] = line["value"]
    return list(dict.fromkeys(found)), notes


def _lines(path: str) -> Iterator[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                with contextlib.suppress(ValueError):  # cut off: its process was killed
                    yield json.loads(line)
    except FileNotFoundError:
        return
