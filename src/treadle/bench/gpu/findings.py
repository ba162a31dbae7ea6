"""What a part has found: one line of JSON each, written at once.

    findings = Findings("/tmp/graphs.jsonl", seconds=30, emulated=False)
    findings.check("a captured step is replayed", function)      # passed, failed or skipped
    findings.note("table", "| work | ...")

`cut` says that the time was over before something was done.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Finding", "Findings", "Skipped", "read_findings"]

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


class Findings:
    """The findings of one part, in a file."""

    def __init__(self, path: str, seconds: float, emulated: bool) -> None:
        self._path, self._end, self.emulated = path, time.monotonic() + seconds, emulated

    @property
    def seconds_left(self) -> float:
        """Until the part is to be done."""
        return self._end - time.monotonic()

    def check(self, name: str, function: Callable[[], object]) -> None:
        """Passed if `function` returns; skipped if it raises Skipped, failed for all else."""
        start = time.perf_counter()
        try:
            function()
        except Skipped as why:
            self.add(name, "skipped", 0.0, str(why))
        except Exception as error:
            seconds = time.perf_counter() - start
            self.add(name, "failed", seconds, f"{type(error).__name__}: {error}")
        else:
            self.add(name, "passed", time.perf_counter() - start)

    def add(self, name: str, outcome: Outcome, seconds: float = 0.0, message: str = "") -> None:
        """Writes one finding down."""
        self._write({"finding": asdict(Finding(name, outcome, seconds, message[:_LONGEST]))})

    def note(self, name: str, value: Any) -> None:
        """Writes something else down: a text, numbers."""
        self._write({"note": name, "value": value})

    def _write(self, line: dict[str, Any]) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read_findings(path: str) -> tuple[list[Finding], dict[str, Any]]:
    """What a part wrote: its findings and its notes. A last line that was cut off is left out."""
    found, notes = [], {}
    for line in _lines(path):
        if "finding" in line:
            found.append(Finding(**line["finding"]))
        else:
            notes[line["note"]] = line["value"]
    return found, notes


def _lines(path: str) -> Iterator[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    yield json.loads(line)
    except FileNotFoundError:
        return
