"""The count of what emulated GPUs execute."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_instructions_of_a_program_are_counted():
    """A sum of 512,000 numbers adds each of them once, 32 at a time."""
    command = [sys.executable, "-m", "tests.emulate.executed", "sm_80", "--only", "sum of all"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (kernels, executed) = re.findall(r"[\d,]+", done.stdout.splitlines()[-1])
    assert kernels == "1"
    assert 16_000 < int(executed.replace(",", "")) < 1_000_000
