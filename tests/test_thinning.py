"""What is left out without --full is the same each time, and no class of it is left out whole."""

import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from treadle.backends.amd import AMD
from treadle.backends.nv import NV

from . import thinning
from .thinning import (
    ALL_TURNS,
    LONGEST,
    chosen,
    processor_and_one_other,
    shares,
    shares_for,
    thinned,
    turn_of_commit,
)

ROOT = Path(__file__).parents[1]


def items(folder, devices, count=40):
    return [
        SimpleNamespace(
            nodeid=f"{folder}/test_a.py::test_{i}[{device}]",
            callspec=SimpleNamespace(params={"x": np.ones(3), "device": device}),
        )
        for i in range(count)
        for device in devices
    ]


@pytest.fixture
def not_full(monkeypatch):
    monkeypatch.delenv("FULL_TESTS", raising=False)


def test_each_test_runs_on_the_processor_and_one_device_more_and_each_device_has_many():
    devices = ["CPU", "REF", "CL", "WEBGPU", "CUDA", "CUDA:PTX"]
    left = [i.nodeid for i in thinned(items("tests/nn", devices))]
    for device in devices[2:]:
        assert sum(f"[{device}]" in name for name in left) in range(4, 17)
    assert sum("[CPU]" in name for name in left) == sum("[REF]" in name for name in left) == 40
    assert len(left) == 3 * 40
    again = thinned(items("tests/nn", devices))
    assert [item.nodeid for item in again] == left


def test_tests_of_devices_and_those_of_one_device_all_run():
    both = items("tests/runtime", ["CUDA", "CL"])
    alone = [*items("tests/nn", ["CUDA:PTX"]), SimpleNamespace(nodeid="tests/nn/test_a.py::test_b")]
    assert thinned([*both, *alone]) == [*both, *alone]


ARCHITECTURES = [name for names in NV.tested_devices.values() for name in names]


def test_each_chip_and_compiler_has_a_share_and_takes_none_of_other_devices():
    devices = ["CPU", "REF", "CL", "WEBGPU", "CUDA", *ARCHITECTURES]
    left = [i.nodeid for i in thinned(items("tests/nn", devices, 1000))]
    assert len(left) == 3 * 1000
    counts = {device: sum(f"[{device}]" in name for name in left) for device in devices[2:]}
    assert all(150 < counts[device] < 250 for device in ("CL", "WEBGPU", "CUDA"))
    assert all(15 < counts[device] < 60 for device in ARCHITECTURES)


def test_tests_of_devices_run_on_one_architecture_of_each_compiler():
    devices = ["CUDA", *ARCHITECTURES]
    left = [i.nodeid for i in thinned(items("tests/runtime", devices, 300))]
    assert len(left) == 3 * 300
    for device in ARCHITECTURES:
        assert 25 < sum(f"[{device}]" in name for name in left) < 80


def test_a_compiler_that_few_have_shares_the_runs_of_the_first():
    names = AMD.tested_devices["AMD"]
    assert AMD.tested_devices == {"AMD": names}
    chips = {"AMD:LLVM:gfx1030", "AMD:LLVM:gfx1201", "AMD:LLVM:gfx942"}
    assert {*names} == {"AMD", *chips, "AMD:HIP:gfx1030", "AMD:HIP:gfx90a"}
    left = [i.nodeid for i in thinned(items("tests/runtime", ["CUDA", *names], 300))]
    assert len(left) == 2 * 300
    for name in names:
        assert 25 < sum(f"[{name}]" in one for one in left) < 80


def test_pairs_of_devices_run_on_one_pair_of_architectures():
    pairs = [
        SimpleNamespace(
            nodeid=f"tests/runtime/test_a.py::test_{i}[{one}-{other}]",
            callspec=SimpleNamespace(params={"opened": one, "other": other}),
        )
        for i in range(20)
        for one in ("CUDA", *ARCHITECTURES)
        for other in ("CUDA", *ARCHITECTURES)
    ]
    assert len(thinned(pairs)) == 20 * 3 * 3


def test_programs_run_on_the_processor_and_each_of_the_others_in_turn(not_full, monkeypatch):
    found = [processor_and_one_other(["CPU", "CL", "WEBGPU"], n) for n in range(3)]
    assert found == [["CPU", "CL"], ["CPU", "WEBGPU"], ["CPU", "CL"]]
    assert processor_and_one_other(["CPU", "CL"], 5) == ["CPU", "CL"]
    assert processor_and_one_other(["CPU"], 5) == ["CPU"]
    monkeypatch.setenv("FULL_TESTS", "1")
    assert len(processor_and_one_other(["CPU", "CL", "WEBGPU"], 0)) == 3


def test_of_many_cases_a_share_runs_and_never_none(monkeypatch):
    of = {"tests/nn/test_a.py::test_0": 7, "tests/nn/test_a.py::test_1": 100}
    monkeypatch.setattr(thinning, "shares", lambda: of)
    given = items("tests/nn", [f"case {i}" for i in range(30)], 3)
    left = [item.nodeid for item in thinned(given, 3)]
    assert {item.stands_for for item in thinned(given, 3) if "test_0[" in item.nodeid} == {30 / 5}
    assert [sum(f"test_{i}[" in name for name in left) for i in (0, 2)] == [5, 30]
    assert [item.nodeid for item in thinned(given[::-1], 3)] == left[::-1]


@pytest.mark.parametrize("of", [2, 7, 30, 70])
def test_every_case_comes_at_some_turn(monkeypatch, of):
    monkeypatch.setattr(thinning, "shares", lambda: {"tests/nn/test_a.py::test_0": of})
    given = items("tests/nn", [f"case {i}" for i in range(30)], 1)
    turns = [thinned(given, turn, other_cases=True) for turn in range(ALL_TURNS)]
    assert {item.nodeid for found in turns for item in found} == {item.nodeid for item in given}


@pytest.mark.parametrize(("of", "turns"), [(30, 1), (31, 2), (75, 3), (5000, 4)])
def test_one_case_of_what_takes_long_even_so_runs_in_turn(monkeypatch, of, turns):
    monkeypatch.setattr(thinning, "shares", lambda: {"tests/nn/test_a.py::test_0": of})
    given = items("tests/nn", [f"case {i}" for i in range(30)], 1)
    counts = [len(thinned(given, turn)) for turn in range(ALL_TURNS)]
    assert sorted(counts) == [0] * (ALL_TURNS - ALL_TURNS // turns) + [1] * (ALL_TURNS // turns)


def test_the_turn_is_the_commits():
    assert turn_of_commit() == turn_of_commit() in range(ALL_TURNS)


def test_shares_leave_what_is_quick_as_it_is_and_bound_the_rest():
    spent = {
        "tests/a.py::test_quick": [0.01] * 20, "tests/a.py::test_slow": [0.5] * 60,
        "tests/b.py::test_of_one_case": [50.0], "tests/b.py::test_two": [9.0, 9.0],
    }  # fmt: skip
    assert tomllib.loads(shares_for(spent, {})) == {
        "tests/a.py": {"test_slow": 30 / LONGEST},
        "tests/b.py": {"test_of_one_case": 50 / LONGEST, "test_two": 18 / LONGEST},
    }  # fmt: skip


def test_what_waits_for_its_turn_keeps_its_share():
    now = {"tests/a.py::test_was_slow": 2, "tests/b.py::test_away": 3}
    assert tomllib.loads(shares_for({"tests/a.py::test_was_slow": [0.1]}, now)) == {
        "tests/b.py": {"test_away": 3}
    }


def test_every_share_is_of_a_test_that_is_there():
    for test in shares():
        file, _, name = test.partition("::")
        assert f"def {name.rpartition('::')[2]}(" in (ROOT / file).read_text(encoding="utf-8"), test


def test_a_share_is_about_as_large_as_it_says(not_full, monkeypatch):
    names = [f"case {i}" for i in range(3000)]
    found = [name for name in names if chosen(name, 3)]
    assert len(found) in range(900, 1100)
    assert found == [name for name in names if chosen(name, 3)]
    monkeypatch.setenv("FULL_TESTS", "1")
    assert all(chosen(name, 3) for name in names)
