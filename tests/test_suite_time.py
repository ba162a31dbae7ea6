"""The same tests on several devices, and what they took beside each other."""

from __future__ import annotations

from types import SimpleNamespace

from .records import Record
from .suite_time import is_of, pytest_collection_modifyitems, report


def record(test: str, cpu: float, outcome: str = "passed") -> Record:
    return Record(test, outcome, 2 * cpu, cpu, "here", "of now")


def test_a_share_has_the_same_tests_on_each_device():
    for number in range(100):
        name = f"tests/tensor/test_a.py::test_{number}[{{}}-float32]"
        both = [is_of(name.format(device), device, 7, 3) for device in ("CUDA", "AMD:HIP:gfx90a")]
        assert both[0] == both[1]
    shares = [
        sum(is_of(f"test_{n}[CUDA]", "CUDA", 4, seed) for n in range(400)) for seed in range(4)
    ]
    assert sum(shares) == 400
    assert min(shares) > 50


def test_tests_that_take_the_device_and_no_other_stay(monkeypatch):
    for name, value in (("SUITE_DEVICE", "AMD"), ("SUITE_OF", "1"), ("SUITE_SEED", "0")):
        monkeypatch.setenv(name, value)
    given = [{"device": "AMD"}, {"opened": "AMD", "data": [1]}, {"device": "AMD:LLVM:gfx942"}, None]
    items = [
        SimpleNamespace(nodeid=f"t{n}", callspec=one and SimpleNamespace(params=one))
        for n, one in enumerate(given)
    ]
    dropped = []
    hook = SimpleNamespace(pytest_deselected=lambda items: dropped.extend(items))
    pytest_collection_modifyitems(SimpleNamespace(hook=hook), items)
    assert [item.nodeid for item in items] == ["t0", "t1"]
    assert [item.nodeid for item in dropped] == ["t2", "t3"]


def test_beside_the_first_device_stands_the_median_of_tests_that_passed_on_both():
    cuda = [[record("a[CUDA-1]", 1.0), record("b[CUDA]", 1.0)] for _ in range(3)]
    amd = [
        [record("a[AMD:LLVM:gfx942-1]", seconds), record("b[AMD:LLVM:gfx942]", 9.0, "failed")]
        for seconds in (1.5, 7.0, 2.0)
    ]
    lines = report({"CUDA": cuda, "AMD:LLVM:gfx942": amd}).splitlines()
    assert lines[0].split()[-1] == "CUDA"
    assert lines[1].split() == ["CUDA", "2", "0", "0", "2.0", "1.00"]
    assert lines[2].split() == ["AMD:LLVM:gfx942", "1", "1", "0", "2.0", "2.00"]
