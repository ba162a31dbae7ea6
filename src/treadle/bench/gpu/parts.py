"""The parts: what each is, how long it may take, and how they are run one after the other."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .findings import Finding, Findings, read_findings

__all__ = ["PARTS", "Part", "PartResult", "run_part", "run_parts"]

TOTAL = 580.0  # seconds for all parts
SLOWER = 4.0
_MARGIN = 0.1  # of its time that a part keeps for writing down what it has


@dataclass(frozen=True)
class Part:
    """`module` of this package has `run(findings, *arguments)`."""

    name: str
    seconds: float
    module: str
    arguments: tuple[Any, ...] = ()
    asked: bool = False  # whether it runs only where it is named


@dataclass
class PartResult:
    """What a part has found, and how long it took."""

    part: Part
    seconds: float
    findings: list[Finding]
    notes: dict[str, Any] = field(default_factory=dict)

    def count(self, outcome: str) -> int:
        return sum(finding.outcome == outcome for finding in self.findings)

    @property
    def passed(self) -> bool:
        """Whether there is something, nothing failed, and the time was enough."""
        return bool(self.findings) and not self.count("failed") and not self.count("cut")


# The quick ones first: what fails there explains what fails later.
PARTS = {
    part.name: part
    for part in (
        Part("graphs", 30, "graphs"),
        Part("interop", 40, "interop"),
        Part("faults", 60, "faults"),
        Part("record", 40, "record", asked=True),
        Part("benchmark", 190, "benchmark"),
        Part("suite", 130, "suite", ("CUDA",)),
        Part("suite of PTX", 110, "suite", ("CUDA:PTX",)),
    )
}


def run_parts(
    parts: Sequence[Part], emulated: bool, options: Sequence[str] = ()
) -> list[PartResult]:
    """Runs each part in a process of its own; none outlives its time or the total.

    An emulated GPU, on a processor that others may use, has several times as long.
    """
    slower = SLOWER if emulated else 1.0
    end, results = time.monotonic() + slower * TOTAL, []
    for part in parts:
        print(f"{part.name} ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            limit = max(min(slower * part.seconds, end - time.monotonic()), 1.0)
            results.append(_run_process(part, limit, emulated, options, folder))
    return results


def _run_process(
    part: Part, limit: float, emulated: bool, options: Sequence[str], folder: str
) -> PartResult:
    lines, log = os.path.join(folder, "findings"), os.path.join(folder, "log")
    command = [sys.executable, "-m", __package__ or "", "--part", part.name, "--findings", lines,
               "--seconds", str(limit * (1 - _MARGIN)), *options]  # fmt: skip
    variables = {**os.environ, "DEV": "CUDA", "EMULATE": "1" if emulated else "0"}
    start = time.monotonic()
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command, env=variables, stdout=output, stderr=output, start_new_session=True
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
    found, notes = read_findings(lines)
    if status is None:
        found.append(Finding(part.name, "cut", limit, f"its {limit:.0f} seconds were over"))
    elif status:
        found.append(Finding(part.name, "failed", 0.0, f"status {status}: {_last_line(log)}"))
    return PartResult(part, time.monotonic() - start, found, notes)


def _last_line(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return ([line.strip() for line in file if line.strip()] or ["it printed nothing"])[-1]


def run_part(name: str, path: str, seconds: float, emulated: bool, *more: Any) -> None:
    """One part, in this process."""
    part = PARTS[name]
    module = importlib.import_module(f".{part.module}", __package__)
    module.run(Findings(path, seconds, emulated), *part.arguments, *more)
