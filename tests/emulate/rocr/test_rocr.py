"""AMD's user space of Debian 12 (ROCr and HIP 5.2.3) on the emulated gfx1030.

It knows nothing of this project: it finds the GPU in sysfs, makes queues by ioctls, and launches
kernels of its own (blits) and those that its compiler makes.
"""

from __future__ import annotations

import ctypes.util
import os
import random
import re

import pytest

from treadle.emulate.kfd.chips import chip

ARCH = "gfx1030"
PROGRAMS = (
    "device", "vectors", "streams", "copies", "registered", "shared", "scratch", "managed", "waits",
)  # fmt: skip
SEEDS = 3
needs_compiler = pytest.mark.skipif(
    ctypes.util.find_library("amd_comgr") is None, reason="libamd_comgr, HIP's compiler, is missing"
)


def chosen() -> list[tuple[int, str, list[str]]]:
    """Seeds, whether copies are SDMA's or kernels of ROCr's, and programs."""
    if "FULL_TESTS" in os.environ:
        return [(seed, sdma, list(PROGRAMS)) for seed in range(SEEDS) for sdma in "10"]
    return [(0, "1", random.Random("HIP").sample(PROGRAMS, 3))]


def test_rocminfo_finds_the_gpu(programs):
    ran = programs.run(ARCH, "rocminfo")
    assert ran.returncode == 0, ran.stdout
    agent = ran.stdout.split("Agent 2")[1]
    found = dict(re.findall(r"^ *([^:\n]+): +(\S+)", agent.split("Pool Info")[0], re.MULTILINE))
    facts = chip(ARCH)
    assert found["Name"] == ARCH
    assert found["Device Type"] == "GPU"
    assert int(found["Compute Unit"]) == facts.units
    assert int(found["SIMDs per CU"]) == facts.simds_per_unit
    assert int(found["Chip ID"].split("(")[0]) == facts.device_id
    assert int(found["Wavefront Size"].split("(")[0]) == facts.wave
    assert [int(found[f"L{level}"].split("(")[0]) for level in (1, 2, 3)] == list(facts.caches)
    pool = re.search(r"COARSE GRAINED *\n *Size: +(\d+)", agent)
    assert pool is not None
    assert int(pool[1]) << 10 == facts.vram


@needs_compiler
@pytest.mark.parametrize(("seed", "sdma", "names"), chosen())
def test_hip_programs_are_right(programs, seed, sdma, names):
    program = programs.hip("programs.c")
    ran = programs.run(ARCH, program, *names, seed=seed, HSA_ENABLE_SDMA=sdma)
    assert ran.returncode == 0, ran.stdout
    assert [name for name in names if f"{name} is right\n" in ran.stdout] == names


@needs_compiler
@pytest.mark.skipif("FULL_TESTS" not in os.environ, reason="a program more: --full runs it")
def test_hip_hears_of_a_page_fault(programs):
    ran = programs.run(ARCH, programs.hip("programs.c"), "wild")
    assert ran.returncode != 0
    assert re.search(
        r"fault by GPU node-1 .* on address 0x123456789000\. Reason: Page not present", ran.stdout
    )
