"""Each program for a pair of choices makes the two meet, as its kernels are made for some target.

Nothing is compiled and nothing runs, so all targets are looked at on any machine. What the programs
compute is compared in test_choices.py. Textures alone need a device that has some.
"""

from __future__ import annotations

import itertools
import os
import zlib
from dataclasses import fields

import pytest
from tests.replay.recording import record_one
from tests.replay.workloads import run_unfilled

from treadle.ir.choices import Observed, observing
from treadle.target import parse_target

from .meetings import MEETINGS
from .recipes import Recipe
from .running import changed_target, run_program, small_device
from .scenarios import opens

FULL = bool(os.environ.get("FULL_TESTS"))
PART = 12  # one of so many runs
PROCESSORS = {
    "with vectors of 64 bytes": ["llvm avx512"],
    "with vectors of 32 bytes": ["llvm avx2", "opencl cpu"],
    "with vectors of 16 bytes": ["llvm sse"],
}
_ZEN_4 = parse_target("x86-64,znver4")  # which computes with halves of such vectors
ZEN_4 = {field.name: getattr(_ZEN_4, field.name) for field in fields(_ZEN_4)}
GPUS = ["opencl gpu", "wgsl", "cuda sm_80", "cuda sm_90a"]
TEXTURED = ["CL", "CL:0:OPENCL:gpu"]


def _part(names: list[str]) -> list[str]:
    return [name for name in names if FULL or zlib.crc32(name.encode()) % PART == 0]


def _made_for(renderer: str, program: Recipe) -> Observed:
    """The choices of its kernels for small caches."""

    def run(device: str) -> None:
        for facts in ({}, ZEN_4) if renderer == "llvm avx512" else ({},):
            with changed_target(device, **facts), small_device(device):
                run_unfilled(program, device)

    with observing() as seen:
        _, failed = record_one(renderer, run)
    assert not failed, f"{renderer}: {failed}"
    return seen


def _made_on(device: str, program: Recipe) -> Observed:
    """The same on a device that there is; nothing on one that does not open."""
    if opens(device) is not None:
        return Observed()
    with small_device(device):
        return run_program(program, 0, device)


@pytest.mark.parametrize("name", _part([*MEETINGS]))
def test_a_program_for_a_pair_makes_it_meet(name: str) -> None:
    pair, _, where = name.partition(", ")
    one, other = sorted(pair.split(" and "))
    program = MEETINGS[name]()
    if program.images and all(opens(device) is not None for device in TEXTURED):
        pytest.skip("no device here has textures")
    made, places = (_made_on, TEXTURED) if program.images else (_made_for, _renderers(where))
    assert any((one, other) in made(place, program).pairs() for place in places)


def _renderers(where: str) -> list[str]:
    """Those that a name speaks of, or all."""
    return PROCESSORS.get(where) or [*itertools.chain(*PROCESSORS.values()), *GPUS]
