"""A bench held to older instructions: in code, in ceilings, and in the libraries beside treadle."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__

from treadle.bench.instructions import HELD, INSTRUCTIONS, run_held
from treadle.bench.peers import PEERS
from treadle.errors import UserError
from treadle.runtime.probe import fma_peak
from treadle.target import host_target, parse_target

pytestmark = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64"), reason="older instructions of x86-64"
)


def printed(code: str, name: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **INSTRUCTIONS[name]}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.mark.parametrize(("name", "vector_bytes"), [("avx2", "32"), ("sse", "16")])
def test_treadle_makes_code_for_older_instructions(name, vector_bytes):
    code = "from treadle import Device; print(Device['CPU'].target.vector_bytes)"
    assert printed(code, name) == vector_bytes


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_numpy_is_held_to_them(name):
    code = (
        "from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__ as has\n"
        "print(*(name for name in __cpu_dispatch__ if has[name]))"
    )
    if "X86_V3" not in __cpu_dispatch__:
        pytest.skip("NumPy before 2.4 names instructions one by one")
    here = name == "avx2" and host_target().vector_bytes >= 32
    assert printed(code, name).split() == ["X86_V3"] * here


@pytest.mark.parametrize(("name", "capability"), [("avx2", "AVX2"), ("sse", "DEFAULT")])
def test_pytorch_is_held_to_them(name, capability):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    assert printed(code, name) == (capability if host_target().vector_bytes >= 32 else "DEFAULT")


def test_a_held_bench_prints_what_it_made_code_for(capfd):
    if host_target().vector_bytes < 32:
        pytest.skip("this processor has no AVX2")
    assert run_held("avx2", [], ["--quick", "--json", "--only=matmul 50x49"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["machine"]["architecture"] == "x86-64-v3"
    assert [row["name"] for row in found["work"]] == ["matmul 50x49x51"]
    assert not found["work"][0]["failed"]


def test_a_library_that_nothing_holds_is_refused():
    assert set(HELD) <= set(PEERS)
    with pytest.raises(UserError, match="nothing holds the peer 'onnxruntime' to sse"):
        run_held("sse", ["onnxruntime"], [])


def test_the_ceiling_is_that_of_a_targets_instructions():
    if host_target().vector_bytes < 64:
        pytest.skip("this processor has no wider vectors than AVX2's to compare with")
    wide, narrow = fma_peak(1 << 16), fma_peak(1 << 16, parse_target("x86-64-v2"))
    assert wide > 2 * narrow
