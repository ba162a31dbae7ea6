"""Which tests run on each emulated chip, and the record of that."""

import json
import subprocess
from pathlib import Path

import pytest

from treadle.config import settings

from . import chips, full
from .chips import EMULATED, device_of, devices_of, expression, files
from .records import ROOT
from .test_records import record


def test_each_chip_and_compiler_has_a_name_that_says_both():
    found = devices_of(EMULATED["NV"])
    assert list(found)[:2] == ["NV", "NV:NVRTC:sm_86"]
    assert found["NV"] == "NV:NVRTC:sm_80"
    assert found["NV:PTX"] == "NV:PTX:sm_80"
    chips_of_nv = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120")
    assert sorted(found.values()) == sorted(
        f"NV:{compiler}:{chip}" for compiler in ("NVRTC", "PTX") for chip in chips_of_nv
    )
    assert set(devices_of(EMULATED["AMD"]).values()) == {
        "AMD:LLVM:gfx1030", "AMD:LLVM:gfx1100", "AMD:LLVM:gfx1201", "AMD:LLVM:gfx942",
        "AMD:HIP:gfx1030", "AMD:HIP:gfx90a",
    }  # fmt: skip


def test_some_chips_are_chosen_by_a_part_of_their_names():
    assert devices_of(EMULATED["NV"], "PTX:sm_80") == {"NV:PTX": "NV:PTX:sm_80"}
    assert set(devices_of(EMULATED["NV"], "sm_120")) == {"NV:NVRTC:sm_120", "NV:PTX:sm_120"}


@pytest.mark.parametrize(
    ("test", "device"),
    [
        ("test_a[NV]", "NV"),
        ("test_a[NV-3-x]", "NV"),
        ("test_a[3-NV]", "NV"),
        ("test_a[NV:PTX-3]", "NV:PTX"),
        ("test_a[NV:PTX:sm_86-3]", "NV:PTX:sm_86"),
        ("test_a[NVRTC-sm_86]", None),
        ("test_nv", None),
        ("test_a[CUDA-3]", None),
    ],
)
def test_a_test_ran_on_the_device_that_its_name_has(test, device):
    assert device_of(test, devices_of(EMULATED["NV"])) == device


def test_files_with_tests_of_devices_are_all_known(request):
    """Of what this run has collected."""
    items = [i for i in request.session.items if "device" in getattr(i, "fixturenames", ())]
    with_device = {str(item.path.relative_to(ROOT)) for item in items}
    assert with_device <= set(files())
    assert "tests/tensor/test_reduce.py" in files()
    assert "tests/runtime/contract/test_copies.py" in files()
    assert "tests/ir/test_elimination.py" not in files()


# -- runs -----------------------------------------------------------------------------------------

OUTCOMES = {
    "t.py::test_1[NV:PTX]": "passed", "t.py::test_2[NV:PTX]": "failed",
    "t.py::test_1[NV:PTX:sm_120]": "skipped", "t.py::test_1[NV]": "passed",
    "t.py::test_3": "passed",
}  # fmt: skip


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """What `python -m tests.chips` starts: it writes down what `outcomes` says and ends so."""
    monkeypatch.setattr(chips, "FILE", tmp_path / "results" / "chips.jsonl")
    monkeypatch.setattr(chips, "KEPT", tmp_path)
    monkeypatch.setattr(chips, "sources", lambda: "c0ffee")
    started, outcomes = [], dict(OUTCOMES)

    def start(command, *, env, **options):
        started.append((command, env["TEST_DEVICES"], env.get("TREADLE_IMAGE")))
        rows = [record(test, outcome, cpu=90.0) for test, outcome in outcomes.items()]
        [kept] = [word.removeprefix("--resume=") for word in command if "--resume=" in word]
        with Path(kept).open("a") as file:
            file.writelines(json.dumps({**vars(r), "sources": "c0ffee"}) + "\n" for r in rows)
        return subprocess.CompletedProcess(command, int("failed" in outcomes.values()))

    monkeypatch.setattr(chips.subprocess, "run", start)
    return started, outcomes


def test_what_each_chip_came_to_is_recorded(runs, capsys):
    started, outcomes = runs
    assert chips.main(["NV", "--only", "PTX", "--record", "-x"]) == 1
    [(command, devices, image)] = started
    assert image is None
    assert devices.split(",")[:2] == ["NV:PTX", "NV:PTX:sm_86"]
    assert command[-1] == "-x"
    assert "--full" in command
    assert "[NV:PTX]" in command[command.index("-k") + 1].split(" or ")
    rows = {row["device"]: row for row in chips.recorded()}
    assert len(rows) == 6
    counts = [rows["NV:PTX:sm_80"][how] for how in ("passed", "failed", "skipped", "minutes")]
    assert counts == [1, 1, 0, 3.0]
    assert rows["NV:PTX:sm_120"]["skipped"] == 1
    assert rows["NV:PTX:sm_86"]["passed"] == 0
    outcomes.clear()
    outcomes["t.py::test_2[NV:PTX]"] = "passed"
    assert chips.main(["NV", "--only", "PTX:sm_80", "--record"]) == 0
    again = chips.recorded()[-1]
    assert (again["passed"], again["failed"], again["minutes"]) == (2, 0, 4.5)
    capsys.readouterr()
    assert chips.main(["--show"]) == 0
    assert "| c0ffee | NV:PTX:sm_80 |  | 1/1 | 2 | 0 | 0 | 4.5 |" in capsys.readouterr().out


def test_tests_are_selected_by_the_whole_name_of_a_device():
    words = expression({"NV": "NV:NVRTC:sm_80"}).split(" or ")
    assert words == ["[NV-", "[NV]", "-NV-", "-NV]"]


def test_a_part_counts_its_own_tests(runs):
    chips.main(["NV", "--only", "PTX:sm_80", "--part", "1/2", "--record"])
    chips.main(["NV", "--only", "PTX:sm_80", "--part", "2/2", "--record"])
    assert sum(row["passed"] + row["failed"] for row in chips.recorded()) == 2


def test_chips_that_do_not_exist_are_said_and_nothing_runs(runs, capsys):
    assert chips.main(["NV", "--only", "sm_70"]) == 2
    assert "'sm_70' is in none" in capsys.readouterr().err
    assert runs[0] == []


def test_a_run_with_a_setting_is_kept_and_recorded_apart(runs, tmp_path, capsys):
    started, outcomes = runs
    chips.main(["NV", "--only", "PTX:sm_80", "--record"])
    outcomes.clear()
    outcomes["t.py::test_9[NV:PTX]"] = "passed"
    arguments = ["--set", "IMAGE=1", "--set", "FLOAT16=1"]
    assert chips.main(["NV", "--only", "PTX:sm_80", "--record", *arguments]) == 0
    assert [image for *_, image in started] == [None, "1"]
    plain, image = chips.recorded()
    assert (plain["settings"], plain["passed"], plain["failed"]) == ("", 1, 1)
    assert (image["settings"], image["passed"], image["failed"]) == ("FLOAT16=1 IMAGE=1", 1, 0)
    assert {path.name for path in tmp_path.glob("*.jsonl")} == {
        "c0ffee.jsonl", "c0ffee FLOAT16=1 IMAGE=1.jsonl",
    }  # fmt: skip
    assert "| FLOAT16=1 IMAGE=1 | 1/1 | 1 | 0 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("IMAGES=1", "there is no setting IMAGES; did you mean IMAGE?"),
        ("IMAGE=3", "IMAGE=3 is not allowed"),
        ("IMAGE", "IMAGE= is not allowed"),
    ],
)
def test_a_setting_that_treadle_has_not_is_said_and_nothing_runs(runs, given, told, capsys):
    assert chips.main(["NV", "--set", given]) == 2
    assert told in capsys.readouterr().err
    assert runs[0] == []


@pytest.mark.parametrize("name", ["IMAGE", "TREADLE_IMAGE"])
def test_a_setting_of_the_environment_is_not_taken_for_a_plain_run(runs, name, monkeypatch, capsys):
    monkeypatch.setenv(name, "1")
    settings.reload()
    try:
        assert chips.main(["NV"]) == 2
        assert "the environment has IMAGE=1" in (told := capsys.readouterr().err)
        assert "say --set IMAGE=1" in told
        assert full.main(["--part", "1/8"]) == 2
        assert "the environment has IMAGE=1" in capsys.readouterr().err
        assert runs[0] == []
        monkeypatch.setenv("DEBUG", "1")
        monkeypatch.setenv(name, "0")
        settings.reload()
        assert chips.main(["NV", "--only", "PTX:sm_80"]) == 1
    finally:
        monkeypatch.undo()
        settings.reload()


def test_what_is_not_committed_is_not_recorded(runs, monkeypatch, capsys):
    monkeypatch.setattr(chips, "sources", lambda: "c0ffee+abcdef")
    assert chips.main(["NV", "--record"]) == 2
    assert runs[0] == []
    assert "only a commit is recorded" in capsys.readouterr().err


def test_a_run_that_was_stopped_is_not_recorded(runs, monkeypatch):
    monkeypatch.setattr(
        chips.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 2)
    )
    assert chips.main(["NV", "--record"]) == 2
    assert chips.recorded() == []


def test_a_backend_has_to_be_said(capsys):
    with pytest.raises(SystemExit):
        chips.main([])
    assert "say which backend" in capsys.readouterr().err
