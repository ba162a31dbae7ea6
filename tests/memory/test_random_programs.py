"""Random programs of writes, views, reads and captured functions: treadle shows what is meant.

Each is run plainly, captured, and captured with more of it realized, dropped or kept; all of them
show what the reference shows, exactly. `--full` runs 20,000. What fails is printed shrunk, as a
program of its own.
"""

from __future__ import annotations

import gc
import os
import random

import pytest

from .programs import program, varied
from .running import difference, shrunk, stand_alone

FULL = bool(os.environ.get("FULL_TESTS"))
COUNT, CHUNK = (16_000, 200) if FULL else (64, 16)
SHARDED, SHARDED_CHUNK = (4_000, 100) if FULL else (16, 8)


def check(text: str, seed: int, jit: bool = True) -> None:
    found = difference(text, jit=jit)
    if found is not None:
        least = shrunk(text, jit)
        pytest.fail(
            f"program {seed}: {found}\n\n{stand_alone(least, jit)}\n\n{difference(least, jit=jit)}",
            pytrace=False,
        )


def check_all(seeds: range, sharded: bool) -> None:
    for seed in seeds:
        text = program(seed, sharded)
        if "@TinyJit" in text:
            check(text, seed, jit=False)
        check(text, seed)
        check(varied(random.Random(seed), text), seed)
        gc.collect(0)


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_random_programs_mean_what_the_reference_does(first: int):
    check_all(range(first, first + CHUNK), sharded=False)


@pytest.mark.parametrize("first", range(0, SHARDED, SHARDED_CHUNK))
def test_random_programs_over_two_devices_mean_what_the_reference_does(first: int):
    check_all(range(first, first + SHARDED_CHUNK), sharded=True)
