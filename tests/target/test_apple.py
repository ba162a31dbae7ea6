"""Apple's GPU families, and the maps of simdgroup_matrix against the lanes that MLX relies on."""

import numpy as np
import pytest

from treadle import dtypes
from treadle.errors import SettingError
from treadle.target import APPLE_FAMILIES, SIMDGROUP, VARIABLES_AT, apple_target, parse_target

LANES, SIZE = 32, 8


def place(lane, element):
    """Where a lane's element is in a matrix, as MLX's kernels compute it."""
    quad = lane // 4
    return (quad & 4) + lane // 2 % 4, (quad & 2) * 2 + lane % 2 * 2 + element


def matrix(held):
    """The matrix of which each lane holds two elements."""
    found = np.full((SIZE, SIZE), np.nan)
    for lane in range(LANES):
        for element in range(2):
            found[place(lane, element)] = held[lane][element]
    return found


@pytest.mark.parametrize("unit", SIMDGROUP.values(), ids=SIMDGROUP)
def test_a_unit_is_one_multiplication_for_each_step_of_a_register(unit):
    random = np.random.default_rng(0)
    x = random.integers(-8, 8, (unit.rows, unit.steps)).astype(float)
    y = random.integers(-8, 8, (unit.columns, unit.steps)).astype(float)
    each = 4 // unit.dtype.itemsize  # elements of a register
    registers = range(2)
    total = np.zeros((SIZE, SIZE))
    for step in range(each):
        factors = []
        for values, held in ((x, unit.x), (y, unit.y)):
            factors.append(matrix([
                [values[held.place(lane, each * word + step)] for word in registers]
                for lane in range(LANES)
            ]))  # fmt: skip
        total += factors[0] @ factors[1]
    assert (total == x @ y.T).all()
    for lane in range(LANES):
        assert [unit.out.place(lane, n) for n in range(2)] == [place(lane, n) for n in range(2)]


def test_registers_hold_neighbours_along_the_sum():
    of_halves, of_floats = SIMDGROUP["float16"], SIMDGROUP["float32"]
    assert (of_halves.steps, of_floats.steps) == (16, 8)
    for unit in SIMDGROUP.values():
        of_x, of_y, out = unit.held
        assert (of_x.count, of_y.count, out.count) == (2, 2, 2)


@pytest.mark.parametrize("family", APPLE_FAMILIES)
def test_families_are_targets_by_name(family):
    target = parse_target(family)
    assert target == apple_target(family)
    assert not target.supports(dtypes.float64)
    assert target.is_native(dtypes.bfloat16)
    assert target.max_buffers == VARIABLES_AT == 30
    assert {unit.name for unit in target.matrix_units} == {"float16", "bfloat16", "float32"}


def test_other_families_are_refused_by_name():
    with pytest.raises(SettingError, match="unknown Apple GPU family 'apple6'; known: apple7"):
        apple_target("apple6")
