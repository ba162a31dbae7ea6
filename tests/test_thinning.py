"""What is left out without --full is the same each time, and no class of it is left out whole."""

from types import SimpleNamespace

import numpy as np
import pytest

from .thinning import chosen, one_compiler_each


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
def thinned(monkeypatch):
    monkeypatch.delenv("FULL_TESTS", raising=False)
    monkeypatch.delenv("TEST_DEVICES", raising=False)


def test_each_test_runs_with_one_compiler_of_cuda_and_each_compiler_has_many(thinned):
    left = [i.nodeid for i in one_compiler_each(items("tests/nn", ["CPU", "CUDA", "CUDA:PTX"]))]
    names = [name.partition("[")[0] for name in left if "CUDA" in name]
    assert len(names) == len({*names}) == 40
    assert sum("CUDA:PTX" in name for name in left) in range(10, 31)
    assert sum("[CPU]" in name for name in left) == 40
    again = one_compiler_each(items("tests/nn", ["CPU", "CUDA", "CUDA:PTX"]))
    assert [item.nodeid for item in again] == left


def test_tests_of_compilers_and_those_of_one_compiler_all_run(thinned):
    both = items("tests/render", ["CUDA", "CUDA:PTX"])
    alone = [*items("tests/nn", ["CUDA:PTX"]), SimpleNamespace(nodeid="tests/nn/test_a.py::test_b")]
    assert one_compiler_each([*both, *alone]) == [*both, *alone]


@pytest.mark.parametrize("name", ["FULL_TESTS", "TEST_DEVICES"])
def test_who_asks_for_all_gets_all(name, thinned, monkeypatch):
    monkeypatch.setenv(name, "1")
    both = items("tests/nn", ["CUDA", "CUDA:PTX"])
    assert one_compiler_each(both) == both


def test_a_share_is_about_as_large_as_it_says(thinned, monkeypatch):
    names = [f"case {i}" for i in range(3000)]
    found = [name for name in names if chosen(name, 3)]
    assert len(found) in range(900, 1100)
    assert found == [name for name in names if chosen(name, 3)]
    monkeypatch.setenv("FULL_TESTS", "1")
    assert all(chosen(name, 3) for name in names)
