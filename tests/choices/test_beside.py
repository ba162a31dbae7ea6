"""Outputs and reductions in one pass: generated programs, at sizes where that happens."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from treadle import Context
from treadle.ir.choices import observing

from .beside import beside_of, output_and_reductions
from .running import compared, small_device
from .scenarios import opens

COUNT = {"CPU": 25, "CPU:LLVM:x86-64-v2": 6, "CL": 3}
FULL = {"CPU": 1500, "CPU:LLVM:x86-64-v2": 300, "CL": 100}
LARGE = [(1100, 1031), (1300000,), (3, 400009), (8, 40, 56, 56), (20, 30, 47, 49)]


@pytest.mark.parametrize("device", COUNT)
def test_programs_are_right_where_caches_are_small(device: str) -> None:
    if (why := opens(device)) is not None:
        pytest.skip(f"{device}: {why}")
    counts = FULL if os.environ.get("FULL_TESTS") else COUNT
    fused = 0
    for seed in range(counts[device]):
        recipe = output_and_reductions(random.Random(seed), 1.0)
        with observing() as seen, Context(CHECK_KERNELS=1), small_device(device):
            compared(recipe, device, np.random.default_rng(seed))
        fused += "fused_reduction_output" in seen.reached()
    assert fused * 3 > counts[device]  # a few programs: of 24 with SSE 14


@pytest.mark.parametrize("number", range(len(LARGE)))
def test_programs_are_right_at_full_size(number: int) -> None:
    with observing() as seen, Context(CHECK_KERNELS=1):
        for seed in range(20 if os.environ.get("FULL_TESTS") else 1):
            recipe = beside_of(random.Random(number + 100 * seed), LARGE[number])
            compared(recipe, "CPU", np.random.default_rng(seed))
    assert seen.reached()
