"""The command that times first calls."""

from treadle.bench.cold_start import Calls, measured, table
from treadle.bench.cold_start.programs import PROGRAMS


def test_a_program_is_timed_from_an_empty_cache_and_from_a_full_one():
    [cold, warm] = measured("small U-Net training")
    assert (cold.is_warm, warm.is_warm) == (False, True)
    assert cold.compiled[0] > 0
    assert cold.scheduled[0] > 0
    assert cold.compiled[1:] == warm.compiled[1:] == (0, 0)
    assert warm.compiled == warm.scheduled == (0, 0, 0)
    assert min(cold.seconds + warm.seconds) > 0


def test_the_table_says_what_was_measured_beside_its_limit():
    name = "char-GPT training"
    row = Calls(name, True, (0.5, 0.25, 0.125), (1, 0, 0), (2, 0, 0))
    assert row.limit == PROGRAMS[name].warm
    line = table([row]).splitlines()[-1]
    assert line == "| char-GPT training | full | 0.50, 0.25, 0.12 | 1.5 | 2, 0, 0 |"
