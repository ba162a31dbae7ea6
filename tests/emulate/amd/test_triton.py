"""Triton's code for AMD's GPUs on emulated ones, against NumPy in float64."""

from __future__ import annotations

import os
import random
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.emulate.amd.foreign import launched, loaded
from tests.emulate.triton_judge import CASES, compiled

CHIPS = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
# Chips that have units for products of these, where Triton makes them.
ONLY = {
    "matmul_f64": ("gfx90a",), "matmul_xf32": ("gfx942",), "matmul_fp8": ("gfx942",),
    "matmul_fp8_ocp": ("gfx1201",), "matmul_bf8_ocp": ("gfx1201",),
}  # fmt: skip


def chosen() -> list[tuple[str, str]]:
    """Chips and programs: without --full, two of all."""
    found = [(c, name) for c in CHIPS for name in CASES if c in ONLY.get(name, CHIPS)]
    return found if "FULL_TESTS" in os.environ else random.Random("Triton").sample(found, 2)


@cache
def code_for(chip: str, folder: Path) -> dict[str, dict[str, Any]]:
    return compiled(f"hip:{chip}", folder, [name for of, name in chosen() if of == chip])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("triton")


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="Triton's wheel is for Python 3.11")
@pytest.mark.parametrize(("chip", "name"), chosen())
def test_programs_give_what_numpy_gives(machine, folder, chip, name):
    place = folder / chip
    place.mkdir(exist_ok=True)
    case, facts = CASES[name](), code_for(chip, place)[name]
    assert "failed" not in facts
    code = loaded((place / f"{name}.hsaco").read_bytes())
    (symbol,) = code.kernels
    # Behind the program's own arguments are two places for profiles and for scratch memory.
    found = launched(
        machine(chip), code, symbol, (case.groups, 1, 1), facts["workgroup"],
        [*case.arguments, 0, 0], facts["shared"],
    )[0]  # fmt: skip
    case.check(found)
