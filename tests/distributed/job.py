"""Programs of several processes, as a user starts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from .network import TwoHosts

__all__ = ["NEEDS_MPI", "Ended", "ended", "run", "start"]

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


def run(
    count: int,
    program: str,
    *arguments: str,
    hosts: TwoHosts | None = None,
    options: Sequence[str] = (),
    **variables: str,
) -> Ended:
    """`treadle run` on a program of this folder, on `hosts` if there are such."""
    return ended(start(count, program, *arguments, hosts=hosts, options=options, **variables))


def start(
    count: int,
    program: str,
    *arguments: str,
    hosts: TwoHosts | None = None,
    options: Sequence[str] = (),
    **variables: str,
) -> subprocess.Popen[str]:
    """The same, while it runs."""
    where = [] if hosts is None else ["--hosts", str(hosts.file), "--ssh", str(hosts.ssh)]
    command = [sys.executable, "-m", "treadle", "run", "-n", str(count), *where, *options]
    return subprocess.Popen(
        [*([] if hosts is None else hosts.on_first()), *command, str(PROGRAMS / program),
         *arguments],
        env={**os.environ, **variables}, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def ended(started: subprocess.Popen[str]) -> Ended:
    """Wait for a job."""
    try:
        text, _ = started.communicate(timeout=_LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        raise
    return Ended(started.returncode, text)
