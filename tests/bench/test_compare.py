"""`python -m treadle.bench.compare`: noise is no loss of speed, and a loss of speed is found."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import treadle
from treadle.bench.compare.__main__ import as_json, as_text, main
from treadle.bench.compare.bounds import bounds
from treadle.bench.compare.checkout import Checkout
from treadle.bench.compare.turns import Row

SOURCES = Path(treadle.__file__).parents[1]
ONE_ROW = ["--quick", "--only", "matmul 50x49x51"]


# -- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "low", "high"), [(5, 0, 4), (8, 1, 6), (15, 3, 11), (31, 10, 20)]
)
def test_bounds_are_order_statistics_of_the_sign_test(count, low, high):
    found = bounds([float(i) for i in reversed(range(count))])
    assert (found.low, found.median, found.high) == (low, (count - 1) / 2, high)


def test_a_bound_is_wrong_once_in_twenty_at_most():
    """For times that are spread unevenly, with some that are far out."""
    generator = np.random.default_rng(0)
    samples = generator.lognormal(0.0, 0.3, (4000, 15)) * generator.choice([1, 1, 1, 5], (4000, 15))
    truth = np.median(generator.lognormal(0.0, 0.3, 10**6) * generator.choice([1, 1, 1, 5], 10**6))
    found = [bounds(sample) for sample in samples.tolist()]
    assert np.mean([b.high < truth for b in found]) < 0.05
    assert np.mean([b.low > truth for b in found]) < 0.05


def test_too_few_pairs_are_refused(capsys):
    with pytest.raises(ValueError, match="take 5 ratios or more, not 4"):
        bounds([1.0] * 4)
    with pytest.raises(SystemExit):
        main(["a", "b", "--pairs", "4"])
    assert "argument --pairs: must be a whole number of 5 or more, not 4" in capsys.readouterr().err


# -- verdicts -------------------------------------------------------------------------------------


def run(ratio, spread=0.0):
    """Pairs whose ratios lie around `ratio`."""
    return [(1.0, 1.0 / (ratio + spread * (i - 7) / 7)) for i in range(15)]


@pytest.mark.parametrize(
    ("runs", "decided", "short"),
    [
        ([run(0.9)], False, False),
        ([run(0.9), run(0.9)], True, True),
        ([run(0.9), run(1.0)], False, False),
        ([run(0.9), run(1.0), run(0.9)], True, True),
        ([run(0.9), run(1.0), run(1.0)], True, False),
        ([run(1.0), run(1.0)], True, False),
        ([run(0.95, spread=0.2)] * 3, True, False),
    ],
)
def test_a_row_falls_short_in_two_of_three_runs(runs, decided, short):
    row = Row("a row", 0.97, runs)
    assert (row.decided, row.falls_short) == (decided, short)


def test_the_table_and_the_json_say_what_was_measured():
    rows = [Row("slow", 0.97, [run(0.5), run(0.5)]), Row("broken", 0.97, failed="it ended")]
    text = as_text(rows)
    assert "| slow | 1000.000 | 2000.000 | 0.500 (0.500 to 0.500); 0.500" in text
    assert text.splitlines()[2].endswith("| below 0.97 |")
    assert "| broken | | | it ended | failed |" in text
    assert text.endswith("2 rows: 1 fall short, 1 failed")
    first, second = as_json(rows)
    assert (first["falls short"], len(first["runs"]), len(first["runs"][0]["seconds"])) == (
        True,
        2,
        15,
    )
    assert (second["failed"], second["runs"]) == ("it ended", [])


# -- checkouts ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A copy of these sources that a test may spoil: `spoil(text)` appends to the rows' library."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCES / "treadle", folder / "src" / "treadle", ignore=ignored)
    module = folder / "src/treadle/bench/libraries/tensor.py"
    original = module.read_text(encoding="utf-8")

    def spoil(text):
        module.write_text(original + text, encoding="utf-8")
        return str(folder)

    return spoil


def test_the_same_sources_do_not_fall_short_of_themselves(capsys):
    assert main([str(SOURCES), str(SOURCES), "--limit", "0.5", *ONE_ROW]) == 0
    assert "1 rows: 0 fall short, 0 failed" in capsys.readouterr().out


SLOWER = """
def _slower(self, result, finish=TensorLibrary.finish):
    import time
    finish(self, result)
    time.sleep(0.005)
TensorLibrary.finish = _slower
"""


def test_a_planted_slowdown_is_found(other, capsys):
    assert main([str(SOURCES), other(SLOWER), "--json", *ONE_ROW]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert row["falls short"]
    assert len(row["runs"]) == 2  # the third would change nothing
    assert all(len(one["seconds"]) == 15 and one["high"] < 0.97 for one in row["runs"])
    old, new = row["runs"][0]["seconds"][0]
    assert old < 0.005 < new


FAILURES = {
    "ValueError: no": "def _fails(*_): raise ValueError('no')",
    "ended, status 3": "def _fails(*_): import os; os._exit(3)",
    "'int' object is not callable": "print('loud')\ndef _fails(*_): return 1",
}


@pytest.mark.parametrize("why", FAILURES)
def test_a_row_that_fails_is_said_and_an_exit_code(other, why, capsys):
    spoiled = other(f"\n\n{FAILURES[why]}\nTensorLibrary.prepare = _fails\n")
    assert main([str(SOURCES), spoiled, *ONE_ROW]) == 1
    shown = capsys.readouterr().out
    assert why in shown
    assert "1 rows: 0 fall short, 1 failed" in shown


def test_what_cannot_be_compared_is_one_sentence(other, tmp_path, capsys):
    assert main([str(tmp_path), str(SOURCES)]) == 2
    assert capsys.readouterr().err == (
        f"treadle.bench.compare: {tmp_path} is no checkout of treadle: "
        "src/treadle/bench/rows is not in it\n"
    )
    assert main([str(SOURCES), other("\nraise RuntimeError('broken here')\n"), *ONE_ROW]) == 2
    assert "cannot be measured: RuntimeError: broken here" in capsys.readouterr().err
    assert main([str(SOURCES), str(SOURCES), "--quick", "--only", "origami"]) == 2
    assert "no row is wanted; both have: matmul 64," in capsys.readouterr().err


def test_a_process_measures_its_own_sources(other, tmp_path):
    folder = Path(other(""))
    with Checkout(folder, tmp_path).process() as process:
        assert "matmul 64" in process.rows(quick=True)
        file = process.ask("rows", quick=True)["file"]
    assert Path(file).is_relative_to(folder)
