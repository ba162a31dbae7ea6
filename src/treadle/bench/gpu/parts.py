"""The parts: what each is, how long it may take, and how they are run one after the other.

    for result in run_parts(parts, emulated=False): ...

A check that hangs, ends its process or breaks its CUDA context fails by itself: another process
takes the part up behind it.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .findings import BROKEN, Finding, Findings, pending_check, read_findings

__all__ = ["PARTS", "Part", "PartResult", "run_part", "run_parts"]

TOTAL = 580.0  # seconds for all parts of one maker's GPUs
SLOWER = 4.0
_EMULATED = {"CUDA": "CUDA:NVRTC:sm_90a", "AMD": "AMD"}  # the former is what the bars are for
_MARGIN = 0.1  # of its time that a part keeps for writing down what it has
_GLANCE = 0.5  # seconds between looks at what a process is doing


@dataclass(frozen=True)
class Part:
    """`module` of this package has `run(findings, *arguments)`, for GPUs of `device`."""

    name: str
    seconds: float
    module: str
    arguments: tuple[object, ...] = ()
    asked: bool = False  # whether it runs only where it is named
    device: str = "CUDA"


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
        """Whether something passed, nothing failed, and the time was enough."""
        return bool(self.count("passed")) and not self.count("failed") and not self.count("cut")


# The quick ones first: what fails there explains what fails later.
PARTS = {
    part.name: part
    for part in (
        Part("graphs", 30, "graphs"),
        Part("interop", 60, "interop"),
        Part("faults", 60, "faults"),
        Part("NCCL", 30, "nccl"),
        Part("kernel driver", 30, "kernel_driver"),
        Part("record", 40, "record", asked=True),
        Part("NV", 80, "nv"),
        Part("benchmark", 130, "benchmark"),
        Part("suite", 90, "suite", ("CUDA",)),
        Part("suite of PTX", 70, "suite", ("CUDA:PTX",)),
        Part("AMD", 150, "amd", device="AMD"),
        Part("AMD graphs", 60, "graphs", ("AMD",), device="AMD"),
        Part("AMD suite", 300, "suite", ("AMD",), device="AMD"),
    )
}


def run_parts(
    parts: Sequence[Part], emulated: bool, options: Sequence[str] = ()
) -> Iterator[PartResult]:
    """Runs each part in a process of its own; none outlives its time or its maker's total.

    An emulated GPU, on a processor that others may use, has several times as long.
    """
    slower = SLOWER if emulated else 1.0
    ends: dict[str, float] = {}
    for part in parts:
        end = ends.setdefault(part.device, time.monotonic() + slower * TOTAL)
        print(f"{part.name} ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            limit = max(min(slower * part.seconds, end - time.monotonic()), 1.0)
            yield _Run(part, limit, emulated, options, folder).result()


class _Run:
    """One part, by as many processes as it takes."""

    def __init__(
        self, part: Part, limit: float, emulated: bool, options: Sequence[str], folder: str
    ) -> None:
        self._part, self._limit, self._emulated = part, limit, emulated
        self._options = options
        self._lines, self._log = os.path.join(folder, "findings"), os.path.join(folder, "log")
        self._start = time.monotonic()

    @property
    def _left(self) -> float:
        return self._limit - (time.monotonic() - self._start)

    def result(self) -> PartResult:
        """What all processes have found."""
        while self._goes_on(self._process()):
            pass
        found, notes = read_findings(self._lines)
        return PartResult(self._part, time.monotonic() - self._start, found, notes)

    def _goes_on(self, status: int | None) -> bool:
        """Writes down why a process ended, and says whether another is to take its place."""
        pending, findings = pending_check(self._lines), Findings(self._lines, 0.0, self._emulated)
        name = self._part.name if pending is None else pending.name
        if self._left <= 0:
            findings.add(name, "cut", self._limit, f"its {self._limit:.0f} seconds were over")
            return False
        if status in (0, BROKEN):
            return status == BROKEN
        why = f"status {status}: {_last_line(self._log)}"
        if status is None and pending is not None:
            why = f"no end after {self._patience(pending.patience):.0f} seconds"
        findings.add(name, "failed", 0.0, why)
        return pending is not None

    def _patience(self, seconds: float) -> float:
        return seconds * (SLOWER if self._emulated else 1.0)

    def _process(self) -> int | None:
        """The status of one process; None if its time, or that of a check, was over."""
        seconds = self._left * (1 - _MARGIN)
        command = [
            sys.executable, "-m", __package__ or "", "--part", self._part.name, "--findings",
            self._lines, "--seconds", str(seconds), *self._options,
        ]  # fmt: skip
        maker = self._part.device
        device = {"DEV": maker, "EMULATE": "0"}
        if self._emulated:
            device = {"DEV": _EMULATED[maker], "EMULATE": "1"}
        with open(self._log, "w", encoding="utf-8") as output:
            process = subprocess.Popen(
                command,
                env={**os.environ, **device},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                return self._wait(process)
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()

    def _wait(self, process: subprocess.Popen[bytes]) -> int | None:
        watched, since = None, time.monotonic()
        while self._left > 0:
            try:
                return process.wait(min(_GLANCE, max(self._left, 0.01)))
            except subprocess.TimeoutExpired:
                pending = pending_check(self._lines)
            if pending != watched:
                watched, since = pending, time.monotonic()
            if watched and time.monotonic() - since > self._patience(watched.patience):
                return None
        return None


def _last_line(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return ([line.strip() for line in file if line.strip()] or ["it printed nothing"])[-1]


def run_part(name: str, path: str, seconds: float, emulated: bool, *more: object) -> None:
    """One part, in this process."""
    part = PARTS[name]
    module = importlib.import_module(f".{part.module}", __package__)
    module.run(Findings(path, seconds, emulated), *part.arguments, *more)
