"""Programs of several processes, as a user starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

__all__ = ["NEEDS_MPI", "Ended", "run"]

PROGRAMS = Path(__file__).parent / "programs"
NEEDS_MPI = pytest.mark.skipif(
    find_spec("mpi4py") is None, reason='needs mpi4py: pip install "treadle[mpi]"'
)
_LIMIT = 240  # seconds


@dataclass(frozen=True)
class Ended:
    """How a job has ended: its exit code, and what its processes and the launcher have printed."""

    status: int
    text: str

    def lines_of(self, process: int) -> list[str]:
        """What one process has printed."""
        mark = f"[{process}] "
        return [line.removeprefix(mark) for line in self.text.splitlines() if line.startswith(mark)]


def run(count: int, program: str, *arguments: str, **variables: str) -> Ended:
    """`treadle run` on a program of this folder."""
    command = [sys.executable, "-m", "treadle", "run", "-n", str(count), str(PROGRAMS / program)]
    started = subprocess.Popen(
        [*command, *arguments], env={**os.environ, **variables}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        text, _ = started.communicate(timeout=_LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        raise
    return Ended(started.returncode, text)
