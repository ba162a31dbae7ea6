"""`treadle demo` on an emulated AMD GPU: to its end, and as good as on the processor."""

import os
import re
import subprocess
import sys

import pytest

from treadle import Device

IS_FULL = "FULL_TESTS" in os.environ
EPOCHS = 20 if IS_FULL else 1  # all of them take three minutes of one core
GOAL = 97.0

if sys.platform != "linux" or Device["CPU"].target.arch != "x86_64":
    pytest.skip("emulated AMD GPUs are for Linux on x86-64", allow_module_level=True)


def accuracy(device, **environment):
    """What the demo says of the digits that it never saw, in percent; 1 is its status below 97."""
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "demo", "--device", device, "--epochs", str(EPOCHS)],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = re.search(r"accuracy +([\d.]+)% of 359", done.stdout)
    assert found, done.stdout + done.stderr
    assert done.returncode == (float(found[1]) < GOAL)
    return float(found[1])


def test_the_demo_is_as_accurate_as_on_the_processor():
    pytest.importorskip("sklearn")
    emulated = accuracy("AMD", EMULATE="1")
    assert abs(emulated - accuracy("CPU")) < 1.5  # five images of 359
    if IS_FULL:
        assert emulated >= GOAL
