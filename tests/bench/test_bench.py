"""The benchmark's arithmetic: fair turns, ratios, bars, and reports that hide no failure."""

import json
import time
import weakref
from dataclasses import replace

import numpy as np
import pytest

from treadle import bench
from treadle.bench import beam
from treadle.bench.libraries.base import Library, NotOffered
from treadle.bench.machine import Ceilings, ceilings, describe_machine
from treadle.bench.measure import measure
from treadle.bench.peers import PEERS, Peer, takes_part
from treadle.bench.process import Overhead
from treadle.bench.report import Report, as_json, as_text
from treadle.bench.results import Footprint, FootprintResult, OverheadResult, WorkResult
from treadle.bench.rows import works
from treadle.bench.timing import interleave, median_ratio
from treadle.errors import UserError
from treadle.target import available_cores, host_target

LIMITS = Ceilings(flops=4e9, read=2e9, copy=1e9)
ROWS = {work.name: work for work in works(quick=True)}
MATMUL, SUM, SOFTMAX = ROWS["matmul 64"], ROWS["sum 256x256"], ROWS["softmax 256x256"]


def test_every_run_gets_every_turn_and_another_is_first_in_each():
    calls = []
    times = interleave({n: lambda n=n: calls.append(n) for n in "ab"}, rounds=6)
    assert {name: len(seconds) for name, seconds in times.items()} == {"a": 6, "b": 6}
    turns = [name for name, before in zip(calls, ["", *calls], strict=False) if name != before]
    assert turns == list("a" + "ba" * 3)


def test_the_ratio_is_the_median_of_each_rounds_quotient():
    assert median_ratio([2.0, 8.0, 30.0], [1.0, 2.0, 10.0]) == 3.0


def test_a_bar_against_torch_counts_the_better_of_its_two_forms():
    times = {"treadle": [1.0] * 3, "torch": [3.0] * 3, "torch out=": [1.5] * 3}
    result = WorkResult(MATMUL, times)
    assert result.reached(MATMUL.bars[0], LIMITS) == 1.5
    assert result.ratio("numpy") is None


def test_a_bar_on_bandwidth_counts_the_fastest_peer_as_ceiling_where_it_is_above():
    seconds = SUM.amount / LIMITS.read
    assert WorkResult(SUM, {"treadle": [2 * seconds]}).share(LIMITS) == pytest.approx(0.5)
    faster = {"treadle": [2 * seconds], "torch": [seconds / 2]}
    assert WorkResult(SUM, faster).reached(SUM.bars[0], LIMITS) == pytest.approx(0.25)


def test_bandwidth_that_took_its_turns_is_the_ceiling_by_its_best_quarter():
    rounds = [0.1, 1.5, 1.6, 1.7, 1.8, 9.0, 9.0, 9.0]
    times = {"treadle": [2.0, 3.0, 4.0], "bandwidth": rounds, "torch": [9.0] * 3}
    assert WorkResult(SUM, times).reached(SUM.bars[0], LIMITS) == 0.5
    times["torch"] = [0.75] * 3
    assert WorkResult(SUM, times).share(LIMITS) == 0.25
    assert WorkResult(SUM, {**times, "treadle": [0.1] * 3}).share(LIMITS) == 1.0


@pytest.mark.parametrize(("name", "moved"), [("sum 256x256", 1), ("copy 256x256", 2)])
def test_bandwidth_moves_the_bytes_of_its_row(name, moved, monkeypatch):
    made = []
    ones = np.ones
    monkeypatch.setattr(np, "ones", lambda *args: made.append(ones(*args)) or made[-1])
    PEERS["bandwidth"].library().prepare(ROWS[name])()
    assert made[0].nbytes * moved == ROWS[name].amount
    with pytest.raises(NotOffered, match="no bar on bandwidth"):
        PEERS["bandwidth"].library().prepare(MATMUL)


class Counter(Library):
    """Results are objects; each start has a number of its own."""

    def __init__(self):
        self.starts, self.alive = 0, []

    def tensor(self, array):
        return array

    def result(self, work, weights, inputs):
        self.starts += 1
        return lambda number=self.starts: self.made(number)

    def made(self, number):
        one = np.array([number])
        self.alive = [*self.alive, weakref.ref(one)]
        return one


class Sleeper(Counter):
    def made(self, number):
        time.sleep(0.01)
        return np.array([number])


class Fragile(Counter):
    """Fails at its second call, as a capture may."""

    def made(self, number):
        if len(self.alive) == 1:
            raise RuntimeError("no capture\nand more")
        return super().made(number)


def test_a_library_that_fails_at_a_later_call_costs_its_own_numbers_alone():
    result = measure(SUM, {"treadle": Counter, "torch": Fragile}, 3, 0.0)
    assert list(result.times) == ["treadle"]
    assert result.failed == {"torch": "RuntimeError: no capture"}


def test_an_interrupt_ends_the_measuring_and_prints_what_there_is(monkeypatch, capsys):
    results = iter([WorkResult(MATMUL, {"treadle": [1.0]})])

    def one_row(*args):
        for result in results:
            return result
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "measure", one_row)
    assert bench.run(only=["matmul"], peers=[], quick=True) == 130
    shown = capsys.readouterr().out
    assert f"| {MATMUL.name} " in shown
    assert "matmul 128" not in shown


def test_a_film_has_inputs_and_results_of_its_own_for_each_frame():
    film = replace(SUM, film=3)
    library = Counter()
    run = library.prepare(film)
    for turn in range(2):
        assert run() == [3], turn
        assert len({id(ref()) for ref in library.alive[-3:]} - {id(None)}) == 3
    assert library.starts == 3
    seconds = measure(film, {"treadle": Sleeper}, 3, 0.0).times["treadle"]
    assert 0.01 <= min(seconds) < 0.02, "times are those of one frame"


def test_films_of_video_are_four_times_what_the_caches_hold():
    films = [work for work in works(quick=False) if work.film > 1]
    assert len(films) == 7
    for work in films:
        assert work.film * work.amount >= 4 * host_target().l3


def test_bandwidth_copies_a_film_from_and_to_other_memory(monkeypatch):
    made, ones = [], np.ones
    monkeypatch.setattr(np, "ones", lambda *args: made.append(ones(*args)) or made[-1])
    film = ROWS["film: NV12 to uint8 RGB 128x64"]
    PEERS["bandwidth"].library().prepare(film)()
    assert sum(array.nbytes for array in made) == film.film * film.amount


def test_each_bar_of_a_row_has_its_own_verdict():
    times = {"treadle": [1.0], "torch": [3.0], "jax": [1.1]}
    text = as_text(Report({}, LIMITS, [WorkResult(SOFTMAX, times)], []))
    assert "| 2x torch, 1.2x torch.compile or jax | yes, no: 1.10 |" in text


def test_a_group_is_judged_by_its_geometric_mean():
    slow, fast = ({"treadle": [1.0], "torch": [ratio]} for ratio in (0.9, 1.6))
    results = [WorkResult(MATMUL, slow), WorkResult(ROWS["matmul 128"], fast)]
    text = as_text(Report({}, LIMITS, results, []))
    cells = [cell.strip() for cell in text.splitlines()[-1].split("|")]
    assert cells[1:-1] == ["matmul", "2 of 2", "1.20 of torch", "1", "yes"]


def test_the_report_says_what_was_not_measured_and_why():
    row = WorkResult(MATMUL, {"torch": [1.0]}, {"treadle": "OutOfMemory: no room"})
    cost = OverheadResult(Overhead("import", "s", 0.2, lambda: 0.0), None, "a process failed")
    size = FootprintResult("MLP", {"treadle": Footprint(2e6, 1e6), "torch": Footprint(4e6, 1e6)})
    report = Report({"cores": "2"}, LIMITS, [row], [cost], [size])
    text = as_text(report)
    assert f"* treadle: OutOfMemory: no room ({MATMUL.name})" in text
    assert "* a process failed (import)" in text
    assert report.failed
    assert size.ratio == 0.5
    assert "| MLP         | 2 (1)                | 4 (1)              | 0.50" in text
    assert json.dumps(as_json(report))


def test_a_compiler_takes_part_where_a_bar_names_it_but_not_in_a_smoke_test():
    assert takes_part("torch.compile", SOFTMAX, quick=False)
    assert not takes_part("torch.compile", SOFTMAX, quick=True)
    assert not takes_part("torch.compile", MATMUL, quick=False)
    assert takes_part("jax", MATMUL, quick=False)
    assert not takes_part("jax", MATMUL, quick=True)
    assert not takes_part("tinygrad", MATMUL, quick=False)


def test_the_machine_has_cores_and_ceilings_above_nothing():
    found = ceilings(quick=True)
    assert min(found.flops, found.read, found.copy) > 1e6
    assert describe_machine()["cores"] == str(available_cores())


def test_a_peer_that_is_not_installed_is_refused_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(PEERS, "abacus", Peer(("abacus_of_sand",), lambda: None))
    with pytest.raises(UserError, match="abacus is not installed; run: pip install abacus_of_sand"):
        bench.run(only=["matmul 64"], peers=["abacus"], quick=True)


def test_a_quick_run_measures_treadle_and_prints_json(capsys):
    assert bench.run(only=["matmul 50x49"], peers=[], quick=True, json_wanted=True) == 0
    report = json.loads(capsys.readouterr().out)
    (row,) = report["work"]
    assert row["median_s"]["treadle"] > 0
    assert row["median_s"]["treadle lazy"] > 0
    assert 0 < row["share_of_ceiling"] <= 1


def test_peak_memory_is_a_group_like_the_others(capsys):
    assert bench.run(only=["peak memory"], peers=[], quick=True) == 0
    shown = capsys.readouterr().out
    assert "| peak memory " in shown
    assert "| LSTM training" in shown


def test_searches_run_where_they_are_asked_for_and_the_next_process_remembers_them(capsys):
    assert bench.run(only=["beam"], quick=True, json_wanted=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["work"] == []
    ((row,), names) = found["beam"], [name.lower() for name in beam.searched_rows(False)]
    assert row["heuristic"] > 0 < row["beam"]
    assert row["search"] > 0
    assert row["failed"] == ""
    assert len(names) == len(beam.NAMES)
    assert not any(bench._is_asked_for(name, only) for name in names for only in (None, ["matmul"]))


def test_a_search_that_is_not_remembered_fails_its_row(monkeypatch):
    said = lambda code, **_: "[1.0, 1.0, 1.0, 1]" if "compared" in code else "[1.0, []]"
    monkeypatch.setattr(beam, "said", said)
    with pytest.raises(UserError, match="1 kernels were not remembered"):
        beam.measure_beam("BEAM: matmul 64", True)


def test_a_word_that_fits_no_row_is_an_error():
    with pytest.raises(UserError, match="no row matches abacus"):
        bench.run(only=["abacus"], peers=[], quick=True)
