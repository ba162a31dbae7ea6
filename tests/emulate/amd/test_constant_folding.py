"""Single operations on emulated GPUs, against LLVM's constant folding."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from tests.emulate.amd.conftest import compile_for
from tests.emulate.amd.constant_folding import (
    COUNT,
    OPERATIONS,
    SCALAR,
    SLOT,
    Operation,
    bits_of,
    folded,
    source,
)  # fmt: skip

CHIPS = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
TOGETHER = 12  # operations that a kernel computes
FLOATS = {"half": np.float16, "float": np.float32, "double": np.float64}


def chosen() -> list[tuple[str, bool, tuple[str, ...]]]:
    """Chips, whether all items have the same arguments, and operations: without --full, a few."""
    found = []
    for chip in CHIPS:
        for is_uniform in (False, True):
            names = [
                name for name, one in OPERATIONS.items()
                if chip in (one.chips or CHIPS) and (is_uniform or name not in SCALAR)
            ]  # fmt: skip
            random.Random(f"folding {chip} {is_uniform}").shuffle(names)
            groups = [tuple(names[n : n + TOGETHER]) for n in range(0, len(names), TOGETHER)]
            if "FULL_TESTS" not in os.environ:
                groups = groups[: 0 if is_uniform and chip != "gfx1201" else 1]
            found += [(chip, is_uniform, group) for group in groups]
    return found


def computed(machine, chip: str, operations: list[Operation], is_uniform: bool) -> np.ndarray:
    """The bits of the results: a row for each operation."""
    gpu = machine(chip)
    slots = np.zeros((len(operations), 4, COUNT), np.uint64)
    for number, one in enumerate(operations):
        slots[number, : len(one.types)] = np.array(one.arguments, np.uint64).T
    assert slots.itemsize == SLOT
    place = gpu.put(slots.tobytes())
    loaded = gpu.load(compile_for(chip, source(operations, is_uniform)))
    groups, items = (COUNT, 1) if is_uniform else (1, COUNT)
    gpu.launch(loaded, "k", (groups, 1, 1), (items, 1, 1), np.uint64(place).tobytes())
    return np.frombuffer(gpu.space.read(place, slots.nbytes), np.uint64).reshape(slots.shape)[:, 3]


def differing(one: Operation, found: int, expected: int) -> bool:
    """Whether a result is another one than LLVM's: what is no number may have any bits."""
    if found == expected:
        return False
    element = one.result.strip("<>").split()[-1]
    if element not in FLOATS:
        return True
    kind, bits = FLOATS[element], bits_of(one.result)
    values = [
        np.frombuffer(int(value).to_bytes(bits // 8, "little"), kind) for value in (found, expected)
    ]
    unlike = ~(np.isnan(values[0]) & np.isnan(values[1]))
    near = np.abs(values[0] - values[1]) <= one.most * np.spacing(np.abs(values[1]))
    whole = [value.view(f"u{value.itemsize}") for value in values]
    return bool((unlike & (whole[0] != whole[1]) & ~(near & (one.most > 0))).any())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("chip", "is_uniform", "names"), chosen())
def test_operations_give_what_llvm_folds(machine, chip, is_uniform, names):
    operations = [OPERATIONS[name] for name in names]
    results = computed(machine, chip, operations, is_uniform)
    wrong = []
    for one, row, expected in zip(operations, results, folded(chip, operations), strict=True):
        known = [item for item in range(COUNT) if expected[item] is not None]
        assert len(known) >= COUNT // 3, f"LLVM folds hardly any {one.name}"
        wrong += [
            (one.name, tuple(map(hex, one.arguments[item])), hex(row[item]), hex(expected[item]))
            for item in known if differing(one, int(row[item]), expected[item])
        ]  # fmt: skip
    assert not wrong
