"""The command about BEAM goes on where it was, and says how many rows are near."""

import json
from dataclasses import replace

import pytest

from treadle.bench.beam import NAMES, __main__, drawn_names, searched_rows
from treadle.bench.results import BeamResult
from treadle.engine.selection import parse_choice
from treadle.errors import UserError

ROW = BeamResult("", 0.002, 0.0015, 1.33, 5.0, ["a kernel: 1.33 times as fast"], 1)


@pytest.fixture
def measured(monkeypatch):
    """The rows that are measured, each as told by `results`, else 1.33 times as fast."""
    names: list[str] = []
    results: dict[str, object] = {}

    def measure(name, quick, seed):
        names.append(name)
        result = results.get(name, replace(ROW, name=name))
        if isinstance(result, UserError):
            raise result
        return result

    monkeypatch.setattr(__main__, "measure_beam", measure)
    return names, results


def test_there_are_thirty_rows_of_each_kind_of_work_and_others_by_a_seed():
    assert len(searched_rows(False)) == len(NAMES) == 30
    assert len(drawn_names("abc")) == len(set(drawn_names("abc"))) == 21
    assert drawn_names("abc") != drawn_names("abd")


def test_what_was_measured_is_not_measured_again_and_what_failed_is(measured, tmp_path, capsys):
    names, results = measured
    results["BEAM: matmul 256"] = UserError("a process failed")
    command = ["--keep", str(tmp_path / "rows.jsonl"), "--only", "matmul 256,transpose 4"]
    assert __main__.main(command) == 1
    assert names == ["BEAM: matmul 256", "BEAM: transpose 4096x4096"]
    assert "a process failed" in capsys.readouterr().out
    results["BEAM: matmul 256"] = replace(ROW, name="BEAM: matmul 256", ratio=1.01)
    assert __main__.main(command) == 1
    assert names[2:] == ["BEAM: matmul 256"]
    shown = capsys.readouterr().out
    assert "| BEAM: matmul 256          | 2            | 1.5       | 1.01          | 1  " in shown
    assert "1 of 2 rows within 1.05; 0 left" in shown
    assert __main__.main([*command, "--json"]) == 1
    assert [row["ratio"] for row in json.loads(capsys.readouterr().out)] == [1.01, 1.33]


def test_rows_that_are_left_when_the_time_is_up_are_counted(measured, tmp_path, capsys):
    names, _ = measured
    command = ["--keep", str(tmp_path / "rows.jsonl"), "--seconds", "-1"]
    assert __main__.main(command) == 3
    assert not names
    assert "0 of 0 rows within 1.05; 30 left" in capsys.readouterr().out


def test_another_device_or_seed_has_rows_of_its_own(measured, tmp_path, monkeypatch):
    names, _ = measured
    command = ["--keep", str(tmp_path / "rows.jsonl"), "--only", "matmul 256"]
    for device in ("CPU", "CPU:CLANG"):
        monkeypatch.setattr(__main__, "environment_choice", lambda d=device: parse_choice(d))
        __main__.main(command)
    __main__.main([*command[:2], "--seed", "abc", "--only", "conv2d"])
    assert names[:2] == ["BEAM: matmul 256"] * 2
    assert len(names) == 5
    lines = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    assert [line["seed"] for line in lines] == [None, None, "abc", "abc", "abc"]
