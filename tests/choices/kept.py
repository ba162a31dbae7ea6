"""What runs of programs on one device reached, in a file, so that several runs make one report.

A line is a run: the device, the sources that ran, how many kernels and elements were compared, what
failed, and the sets of choices that were met in kernels, each with its number of kernels.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from treadle.ir.choices import Observed

__all__ = ["Run", "read_runs"]


@dataclass(frozen=True)
class Run:
    device: str
    sources: str
    kernels: int
    elements: int
    failed: list[str]
    met: list[tuple[list[str], int]]

    @staticmethod
    def of(
        device: str, sources: str, counts: tuple[int, int], failed: list[str], seen: Observed
    ) -> Run:
        """`counts` are of the kernels and the elements that were compared."""
        met = sorted((sorted(names), count) for names, count in seen.kernels.items())
        return Run(device, sources, *counts, failed, met)

    def append_to(self, path: Path) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(self)) + "\n")

    def observed(self) -> Observed:
        seen = Observed()
        seen.kernels.update({frozenset(names): count for names, count in self.met})
        return seen


def read_runs(paths: Iterable[Path]) -> list[Run]:
    """The runs of all files. Raises ValueError where they are of more than one device."""
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    runs = [Run(**json.loads(line)) for line in lines]
    if len(devices := {run.device for run in runs}) > 1:
        raise ValueError(f"one report is about one device, not about {sorted(devices)}")
    return runs
