"""Programs for HIP that AMD's own compiler driver builds, on emulated GPUs, against NumPy.

`.ci/judges --full` fetches hipcc 5.2.3 of Debian with clang 15. The programs include HIP's headers
and are linked with ROCm's device libraries; `hipcc_programs.hip` has them. Neither knows gfx11.
"""

from __future__ import annotations

import os
import platform
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.emulate.amd.foreign import CodeObject, launched, loaded
from tests.emulate.amd.test_hip import ITEMS, Array, Case, assert_holds, drawn, whole
from tests.emulate.judges import judge

SOURCE = Path(__file__).with_name("hipcc_programs.hip")
CHIPS = ("gfx90a", "gfx1030")
LEVELS = ("-O1", "-O3")
LIBRARIES = "usr/lib/x86_64-linux-gnu"


def functions() -> Case:
    x = drawn(500).astype(np.float32)
    v, u = x.astype(float), np.abs(x.astype(float))
    expected = np.sin(v) + np.exp(-u) * np.sqrt(u)
    return Case(2, [np.zeros_like(x), x, np.int32(500)], {0: expected}, 4e-7)


def sum_() -> Case:
    x = whole(-1000, 1000, 1500).astype(np.float32)  # whose sum is exact in any order
    total = np.array([x.sum(dtype=float)])
    return Case(3, [np.zeros(1, np.float32), x, np.int32(1500)], {0: total})


def waves() -> Case:
    x = whole(-100, 100, 2 * ITEMS)

    def of_wave(width: int) -> dict[int, Array]:
        rows = x.reshape(-1, width)
        sums = np.repeat(rows.sum(1), width)
        votes = [sum(1 << lane for lane in np.flatnonzero(row > 0).tolist()) for row in rows]
        return {0: sums, 1: np.repeat(np.array(votes, np.uint64), width)}

    return Case(2, [np.zeros_like(x), np.zeros(len(x), np.uint64), x], {}, of_wave=of_wave)


def bits() -> Case:
    x = whole(0, 1 << 32, 500, kind=np.uint32) >> whole(0, 32, 500, kind=np.uint32, seed=3)
    x[:2] = 0, 0xFFFFFFFF
    numbers = x.tolist()
    rows = [
        [n.bit_count() for n in numbers],
        [32 - n.bit_length() for n in numbers],
        [(n & -n).bit_length() for n in numbers],
        [int(f"{n:032b}"[::-1], 2) for n in numbers],
        [n * 0x9E3779B9 >> 32 for n in numbers],
        [permuted(n, n ^ 0xFFFFFFFF, 0x5140) for n in numbers],
    ]
    out = np.zeros((len(rows), 500), np.uint32)
    return Case(2, [out, x, np.int32(500)], {0: np.array(rows, np.uint32)})


def permuted(low: int, high: int, picks: int) -> int:
    """Four of the eight bytes of two words, each picked by four bits."""
    given = (low | high << 32).to_bytes(8, "little")
    return int.from_bytes([given[picks >> 4 * n & 7] for n in range(4)], "little")


def halves() -> Case:
    x, y = drawn(2, 500, 2).astype(np.float16)
    exact = x.astype(float) * y.astype(float) + x.astype(float)  # float64 has all its bits
    given = [np.zeros_like(x), x, y, np.int32(500)]
    return Case(2, given, {0: exact.astype(np.float16).astype(float)})


def largest() -> Case:
    x = drawn(500)
    return Case(2, [np.full(1, -np.inf), x, np.int32(500)], {0: np.array([x.max()])})


CASES: dict[str, Callable[[], Case]] = {
    one.__name__.rstrip("_"): one for one in (functions, sum_, waves, bits, halves, largest)
}


def chosen() -> list[tuple[str, str, str]]:
    """Chips, levels of optimisation and programs: without --full, two of all."""
    found = [(chip, level, name) for chip in CHIPS for level in LEVELS for name in CASES]
    return found if "FULL_TESTS" in os.environ else random.Random("hipcc").sample(found, 2)


@cache
def environment() -> dict[str, str]:
    """What hipcc is told by its environment, and nothing of this process's own.

    The test is skipped where it, or what it needs of the system, is missing.
    """
    root, headers, device = judge("hipcc"), judge("rocr"), judge("device-libs")
    if platform.machine() != "x86_64" or shutil.which("perl") is None:
        pytest.skip("Debian's hipcc is a program of perl's for x86-64")
    given = {
        "PATH": os.environ["PATH"],
        "LD_LIBRARY_PATH": str(root / LIBRARIES),
        "HIP_PATH": str(headers / "usr"),
        "ROCM_PATH": str(root / "usr"),
        "HIP_CLANG_PATH": str(root / "usr/lib/llvm-15/bin"),
        "DEVICE_LIB_PATH": str(device / LIBRARIES / "amdgcn/bitcode"),
        "HIP_PLATFORM": "amd", "HIP_COMPILER": "clang", "HIP_RUNTIME": "rocclr",
    }  # fmt: skip
    clang = [root / "usr/lib/llvm-15/bin/clang++", "-fsyntax-only", "-x", "c++", "-"]
    ran = subprocess.run(clang, input="#include <cmath>", env=given, capture_output=True, text=True)
    if ran.returncode:
        why = ran.stderr.strip().partition("\n")[0]
        pytest.skip(f"hipcc's clang: {why}: `apt-get install libllvm15 g++` brings what it needs")
    return given


@cache
def compiled(chip: str, level: str) -> CodeObject:
    given = environment()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "programs.co"
        command = [
            judge("hipcc") / "usr/bin/hipcc", "-c", "--cuda-device-only", "--no-gpu-bundle-output",
            f"--offload-arch={chip}", level, "-ffp-contract=off", str(SOURCE), "-o", str(made),
        ]  # fmt: skip
        ran = subprocess.run(command, env=given, cwd=folder, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return loaded(made.read_bytes())


@pytest.mark.parametrize(("chip", "level", "name"), chosen())
def test_programs_of_hipcc_give_what_numpy_gives(machine, chip, level, name):
    code, case = compiled(chip, level), CASES[name]()
    found = launched(machine(chip), code, name, (case.groups, 1, 1), ITEMS, case.arguments)
    assert_holds(case, code.kernels[name].wave, found)


def test_the_code_is_that_of_hipccs_clang():
    """By the section in which a compiler says who it is."""
    assert b"Debian clang version 15.0.6" in compiled("gfx1030", "-O1").elf
