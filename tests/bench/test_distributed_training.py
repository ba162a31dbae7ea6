"""Steps of data-parallel training beside their parts: what is printed and measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.distributed.network import NEEDS_HOSTS

from treadle.bench.distributed_training import as_text, rows

ROOT = Path(__file__).parent.parent.parent
NEEDS_MPI = pytest.mark.skipif(
    find_spec("mpi4py") is None, reason='needs mpi4py: pip install "treadle[mpi]"'
)


def test_a_step_is_printed_beside_the_sum_of_its_parts():
    times = {"compute": 3e-3, "bare": 1e-3, "step": 5e-3, "PyTorch": 6e-3}
    lines = as_text({"demo CNN": times}, 2).splitlines()
    assert lines[0].startswith("a step of 2 processes")
    assert lines[1].split("   ")[-4:] == [
        "bare 1.00 ms", "step 5.00 ms", "80% of the sum", "PyTorch 6.00 ms"
    ]  # fmt: skip


def test_the_decoder_has_the_layers_of_gpt_2():
    net, _ = rows(quick=False)["GPT-2's layers"]
    assert net.weights["0.qkv"].shape == (3 * 768, 768)
    assert net.weights["1.narrow"].shape == (768, 4 * 768)


@NEEDS_MPI
def test_hosts_that_are_not_there_are_told(tmp_path):
    ended = _bench("--hosts", str(tmp_path / "none"))
    assert ended.returncode == 2
    assert "cannot be read" in ended.stderr


@NEEDS_MPI
@pytest.mark.skipif("FULL_TESTS" not in os.environ, reason="takes a minute: --full")
@pytest.mark.parametrize("hosts", [False, pytest.param(True, marks=NEEDS_HOSTS)])
def test_all_ways_are_measured(hosts):
    ended = _bench("--quick", "--json", hosts=hosts)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert list(found) == list(rows(quick=True))
    for times in found.values():
        assert [*times][:3] == ["compute", "bare", "step"]
        assert all(seconds > 0 for seconds in times.values())


def _bench(*words: str, hosts: bool = False) -> subprocess.CompletedProcess[str]:
    before = [sys.executable, str(ROOT / "scripts" / "two_hosts.py")] if hosts else []
    command = [*before, sys.executable, "-m", "treadle.bench.distributed_training", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)
