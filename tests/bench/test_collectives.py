"""Sums of all processes beside bare MPI's: what is printed, and what is over a limit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from treadle.bench.collectives import as_text

BARE = {"4 B": 4e-6, "4 KB": 10e-6, "1 MB": 1e-3, "64 MB": 64.004e-3}
NEEDS_MPI = pytest.mark.skipif(
    find_spec("mpi4py") is None, reason='needs mpi4py: pip install "treadle[mpi]"'
)


def _found(**more: float):
    """As the bare calls, and so much more for each way."""
    return {
        size: {"bare": t, **{way: t + seconds for way, seconds in more.items()}}
        for size, t in BARE.items()
    }


def test_ratios_and_the_transport_are_printed():
    text = as_text(_found(captured=2e-6, eager=40e-6, Gloo=4e-6), 2)
    assert "4 B  bare 4.0 µs   captured 6.0 µs (1.50x)" in text
    assert "Gloo 8.0 µs (2.00x)" in text
    assert "over its limit" not in text
    assert text.endswith("bare: 4.0 µs for a call, then 1.05 GB/s")


def test_what_is_over_its_limit_is_marked():
    lines = as_text(_found(captured=4e-6, eager=0.0), 2).splitlines()
    assert "captured 8.0 µs (2.00x, over its limit)   eager 4.0 µs (1.00x)" in lines[1]
    assert "over its limit" not in lines[3]  # 15 % of a millisecond are more
    assert "eager" in as_text(_found(captured=0.0, eager=1.0), 2)


@NEEDS_MPI
def test_a_launcher_that_is_not_there_is_told(tmp_path):
    ended = _bench("--hosts", str(tmp_path / "none"))
    assert ended.returncode == 2
    assert "cannot be read" in ended.stderr


@NEEDS_MPI
@pytest.mark.skipif("FULL_TESTS" not in os.environ, reason="takes a minute: --full")
def test_all_ways_are_measured():
    ended = _bench("--quick", "--json")
    assert ended.returncode in (0, 1), ended.stderr  # of a busy machine
    found = json.loads(ended.stdout)
    assert list(found) == list(BARE)
    for times in found.values():
        assert {"bare", "captured", "eager"} <= times.keys()
        assert all(seconds > 0 for seconds in times.values())


def _bench(*words: str):
    return subprocess.run(
        [sys.executable, "-m", "treadle.bench.collectives", *words], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
