"""The benchmark's arithmetic: fair turns, ratios, bars, and reports that hide no failure."""

import json

import numpy as np
import pytest

from treadle import bench
from treadle.bench.machine import Ceilings, ceilings, describe_machine
from treadle.bench.peers import PEERS, Peer
from treadle.bench.process import Overhead
from treadle.bench.report import OverheadResult, WorkResult, as_json, as_text
from treadle.bench.timing import interleave, median_ratio
from treadle.bench.work import works
from treadle.errors import UserError
from treadle.target import available_cores

LIMITS = Ceilings(flops=4e9, read=2e9, copy=1e9)
MATMUL, SUM = works(quick=True)[0], next(w for w in works(quick=True) if w.name.startswith("sum 2"))


def test_every_run_gets_every_turn_after_its_warm_up():
    calls = []
    times = interleave({n: lambda n=n: calls.append(n) for n in "ab"}, rounds=6)
    assert {name: len(seconds) for name, seconds in times.items()} == {"a": 6, "b": 6}
    assert calls[:8] == ["a"] * 4 + ["b"] * 4


def test_the_ratio_is_the_median_of_each_rounds_quotient():
    assert median_ratio([2.0, 8.0, 30.0], [1.0, 2.0, 10.0]) == 3.0


def test_a_bar_against_torch_counts_the_better_of_its_two_forms():
    times = {"treadle": [1.0] * 3, "torch": [3.0] * 3, "torch out=": [1.5] * 3}
    result = WorkResult(MATMUL, times)
    assert result.reached(LIMITS) == 1.5
    assert result.ratio("numpy") is None


def test_a_bar_on_bandwidth_counts_the_fastest_peer_as_ceiling_where_it_is_above():
    seconds = SUM.amount / LIMITS.read
    assert WorkResult(SUM, {"treadle": [2 * seconds]}).reached(LIMITS) == pytest.approx(0.5)
    faster = {"treadle": [2 * seconds], "torch": [seconds / 2]}
    assert WorkResult(SUM, faster).reached(LIMITS) == pytest.approx(0.25)


def test_the_report_says_what_was_not_measured_and_why():
    row = WorkResult(MATMUL, {"torch": [1.0]}, {"treadle": "OutOfMemory: no room"})
    cost = OverheadResult(Overhead("import", "s", 0.2, lambda: 0.0), None, "a process failed")
    text = as_text({"cores": "2"}, LIMITS, [row], [cost], ["treadle", "torch"])
    assert f"* treadle: OutOfMemory: no room ({MATMUL.name})" in text
    assert "* a process failed (import)" in text
    assert json.dumps(as_json({}, LIMITS, [row], [cost]))


@pytest.mark.parametrize("work", works(quick=True), ids=lambda w: w.name)
def test_all_forms_of_a_row_give_the_same_numbers(work):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")
    from treadle import Tensor

    arrays = work.inputs()
    expected = work.forms.torch(torch, *map(torch.from_numpy, arrays)).numpy()
    ours = work.forms.tensor(None, *map(Tensor, arrays)).numpy()
    np.testing.assert_allclose(ours, expected, rtol=2e-3, atol=2e-3)
    if work.forms.numpy:
        theirs = work.forms.numpy(np, *arrays)
        np.testing.assert_allclose(theirs, expected, rtol=2e-3, atol=2e-3)
    if work.forms.torch_out:
        tensors = [torch.from_numpy(a) for a in arrays]
        out = torch.empty_like(work.forms.torch(torch, *tensors))
        work.forms.torch_out(torch, out, *tensors)
        np.testing.assert_allclose(out.numpy(), expected, rtol=2e-3, atol=2e-3)


def test_the_machine_has_cores_and_ceilings_above_nothing():
    found = ceilings(quick=True)
    assert min(found.flops, found.read, found.copy) > 1e6
    assert describe_machine()["cores"] == str(available_cores())


def test_a_peer_that_is_not_installed_is_refused_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(PEERS, "abacus", Peer("abacus_of_sand", lambda work, arrays: None))
    with pytest.raises(UserError, match="abacus is not installed; run: pip install abacus"):
        bench.run(only=["matmul 64"], peers=["abacus"], quick=True)


def test_a_quick_run_measures_treadle_and_prints_json(capsys):
    assert bench.run(only=["matmul 64"], peers=[], quick=True, json_wanted=True) == 0
    report = json.loads(capsys.readouterr().out)
    (row,) = report["work"]
    assert row["median_s"]["treadle"] > 0
    assert row["median_s"]["treadle lazy"] > 0
    assert 0 < row["share_of_ceiling"] <= 1
