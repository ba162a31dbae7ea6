"""How long first calls take: of programs as users write them, in fresh processes.

python -m treadle.bench.cold_start [WORD ...]

print(table(measured("char-GPT training")))
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from ..process import said
from .programs import PROGRAMS

__all__ = ["Calls", "measured", "table"]

CALLS = 3

CODE = """
import json, time
from treadle import GlobalCounters
from treadle.bench.cold_start.programs import PROGRAMS
step = PROGRAMS[{name!r}].make()
for _ in range({calls}):
    GlobalCounters.reset()
    start = time.perf_counter()
    step()
    counts = [GlobalCounters.schedule_count, GlobalCounters.compile_count]
    print(json.dumps([time.perf_counter() - start, *counts]))
"""


@dataclass(frozen=True)
class Calls:
    """The first calls of a program in one process: their seconds, and what the first and the second
    one scheduled and compiled.
    """

    name: str
    is_warm: bool
    seconds: tuple[float, ...]
    scheduled: tuple[int, ...]
    compiled: tuple[int, ...]

    @property
    def limit(self) -> float:
        """How many seconds the first call may take."""
        program = PROGRAMS[self.name]
        return program.warm if self.is_warm else program.first


def measured(name: str) -> list[Calls]:
    """The calls of a process with an empty cache, and of one that finds what that has left."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for is_warm in (False, True):
            lines = said(CODE.format(name=name, calls=CALLS), TREADLE_CACHE_DIR=folder)
            seconds, scheduled, compiled = zip(*map(json.loads, lines.splitlines()), strict=True)
            found.append(Calls(name, is_warm, seconds, scheduled, compiled))
    return found


def table(rows: Sequence[Calls]) -> str:
    """Rows as Markdown."""
    lines = ["| program | cache | calls 1 to 3, s | limit of the first, s | kernels compiled |",
             "|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        seconds = ", ".join(f"{s:.2f}" for s in row.seconds)
        compiled = ", ".join(map(str, row.compiled))
        cache = "full" if row.is_warm else "empty"
        lines.append(f"| {row.name} | {cache} | {seconds} | {row.limit} | {compiled} |")
    return "\n".join(lines)
