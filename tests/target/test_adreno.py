"""Adreno's sub-generations as data."""

import pytest

from treadle import dtypes
from treadle.errors import SettingError
from treadle.target import ADRENO_CHIPS, adreno_chip, adreno_target, parse_target


@pytest.mark.parametrize("name", ADRENO_CHIPS)
def test_a_chip_is_an_architecture(name):
    target = parse_target(name)
    assert target == adreno_target(name)
    assert target.cpu == name
    assert target.workgroup is not None
    assert target.workgroup.subgroup is None
    assert not target.supports(dtypes.float64)
    chip = adreno_chip(name)
    number = int(name[1:])
    assert chip.chip_id >> 24 == number // 100
    assert chip.chip_id >> 16 & 0xFF == number // 10 % 10 or name == "a643"
    waves = -(-target.workgroup.most_work_items // 64)
    assert chip.registers * chip.granularity // waves >= 12  # vec4 of a work item at the least


def test_chips_have_ids_of_their_own():
    assert len({adreno_chip(name).chip_id for name in ADRENO_CHIPS}) == len(ADRENO_CHIPS)
    assert adreno_chip("a643").chip_id == 0x06030500


@pytest.mark.parametrize("name", ["a600", "a730", "adreno"])
def test_other_chips_are_refused_by_name(name):
    with pytest.raises(SettingError, match=f"unknown Adreno '{name}'; known: a610"):
        adreno_target(name)


def test_chips_differ_in_what_a_kernel_may_take():
    assert adreno_target("a610").workgroup.shared_bytes == 16 << 10
    assert adreno_target("a630").workgroup.shared_bytes == 32 << 10
    assert adreno_target("a610").code_key != adreno_target("a630").code_key
