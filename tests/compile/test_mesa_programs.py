"""Whole programs through Mesa's compiler: the bits that ours gives, and NumPy's numbers."""

import pytest
from tests.compile.mesa_programs import CHIPS, names, run


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", names())
def test_a_program_gives_what_ours_and_numpy_give(name, chip):
    assert run(name, chip) is None


def test_a_program_that_fails_or_does_not_end_is_told_of():
    told = run("corpus of nothing", "a630")
    assert told.startswith("status 1")
    assert "KeyError: 'of nothing'" in told
    assert run("map", "a630", seconds=0.01) == "no end within 0.01 seconds"
