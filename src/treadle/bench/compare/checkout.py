"""A checkout of treadle and the process that measures with its sources.

with Checkout("../old", cache).process() as process: process.ask("prepare", name="matmul 256")
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import UserError

__all__ = ["Checkout", "Failed", "Process"]

_WORKER = Path(__file__).with_name("worker.py")


class Failed(Exception):
    """What the sources of a checkout made of a request."""


@dataclass(frozen=True)
class Checkout:
    """Sources in `folder`, or in `src` below it, and a folder where their kernels are cached."""

    folder: Path
    cache: Path

    @property
    def sources(self) -> Path:
        """The folder that holds the package. Raises UserError if none does."""
        for place in (self.folder / "src", self.folder):
            if (place / "treadle" / "bench" / "rows").is_dir():
                return place.resolve()
        raise UserError(
            f"{self.folder} is no checkout of treadle: src/treadle/bench/rows is not in it"
        )

    @contextlib.contextmanager
    def process(self) -> Iterator[Process]:
        """A process on these sources, which ends with the block."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.sources), os.environ.get("PYTHONPATH", "")]),
            "TREADLE_CACHE_DIR": str(self.cache),
        }
        with subprocess.Popen(
            [sys.executable, "-P", str(_WORKER)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as started:  # fmt: skip
            try:
                yield Process(started, self.sources)
            finally:
                started.kill()


class Process:
    """What answers requests, one at a time; between them it sleeps."""

    def __init__(self, started: subprocess.Popen[str], sources: Path) -> None:
        self._started, self._sources = started, sources

    def ask(self, do: str, **request: object) -> dict[str, Any]:
        """The answer. Raises Failed with the error of the sources, or if the process has ended."""
        assert self._started.stdin is not None
        assert self._started.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either
            self._started.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._started.stdin.flush()
        line = self._started.stdout.readline()
        if not line:
            raise Failed(f"the process of {self._sources} ended, status {self._started.wait()}")
        answer = json.loads(line)
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer

    def rows(self, quick: bool) -> dict[str, tuple[str, str]]:
        """(group, what it is) of each row by name. Raises UserError where others answer."""
        try:
            answer = self.ask("rows", quick=quick)
        except Failed as error:
            raise UserError(f"{self._sources} cannot be measured: {error}") from error
        if not Path(answer["file"]).resolve().is_relative_to(self._sources):
            raise UserError(f"{answer['file']} was imported in place of {self._sources}")
        return {name: (group, meaning) for name, (group, meaning) in answer["names"].items()}
