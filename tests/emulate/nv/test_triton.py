"""Triton's cubins on emulated GPUs by the NV runtime, against NumPy in float64.

A launch's program address leads to the cubin, and from there to the PTX that Triton made it of.
"""

from __future__ import annotations

import os
import random
import struct
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.emulate.triton_judge import CASES, compiled

from treadle.emulate.nv.programs import pack
from treadle.runtime.base import Entry, Launch, Slot
from treadle.runtime.hardware.cubin import link
from treadle.runtime.hardware.nv.launches import Phase

from .machine import CHIPS, Machine, download, upload

NUMBERS = {"sm_80": 80, "sm_86": 86, "sm_89": 89, "sm_90a": 90, "sm_100a": 100, "sm_120": 120}
# Who has such numbers; those of fp8 without a zero of its own sign are AMD's.
ONLY = {"matmul_fp8": (), "matmul_fp8_ocp": ("sm_89", "sm_90a", "sm_100a", "sm_120")}


def chosen() -> list[tuple[str, str]]:
    """Chips and programs: without --full, on each chip one product or attention, and softmax."""
    cases = {c: [name for name in CASES if c in ONLY.get(name, CHIPS)] for c in CHIPS}
    if "FULL_TESTS" in os.environ:
        return [(chip, name) for chip in CHIPS for name in cases[chip]]
    found = [("sm_80", "softmax")]
    for chip in CHIPS:
        names = [name for name in cases[chip] if name.startswith(("matmul", "attention"))]
        found.append((chip, random.Random(f"Triton {chip}").choice(names)))
    return found


@cache
def code_for(chip: str, folder: Any) -> dict[str, dict[str, Any]]:
    return compiled(f"cuda:{NUMBERS[chip]}", folder, [name for of, name in chosen() if of == chip])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tmp_path_factory.mktemp("triton")


def loaded(device: Any, code: bytes, entry: Entry, given: int) -> Phase:
    """A kernel whose last parameters are none of the program's own: scratch memory that it has
    not asked for.
    """
    device._on_load(code)
    image = link(code)
    memory = device.place(len(image.data), image.placed)
    kernel = image.kernels[entry.symbol]
    assert len(kernel.parameters) == given + 2
    own = replace(kernel, parameters=kernel.parameters[:given])
    return Phase(own, memory, entry, device.machine)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="Triton's wheel is for Python 3.11")
@pytest.mark.parametrize(("chip", "name"), chosen())
def test_programs_give_what_numpy_gives(folder: Any, chip: str, name: str) -> None:
    place = folder / chip
    place.mkdir(exist_ok=True)
    case, facts = CASES[name](), code_for(chip, place)[name]
    assert "failed" not in facts
    cubin, ptx = ((place / f"{name}.{kind}").read_bytes() for kind in ("cubin", "ptx"))
    device = Machine(chip).device()
    arrays = [one for one in case.arguments if one.ndim]
    integers = [struct.unpack("<i", one.tobytes())[0] for one in case.arguments if not one.ndim]
    entry = Entry(
        facts["symbol"], case.groups, facts["workgroup"],
        tuple(Slot(number, one.nbytes, not number) for number, one in enumerate(arrays)),
        tuple(range(len(integers))), shared=facts["shared"],
    )  # fmt: skip
    phase = loaded(device, pack(cubin, ptx), entry, len(case.arguments))
    buffers = [upload(device, np.ascontiguousarray(one).view(np.uint8)) for one in arrays]
    device.run([Launch([phase], [one.argument for one in buffers], integers)])
    case.check(download(device, buffers[0], arrays[0].dtype).reshape(arrays[0].shape))
