"""A process remembers the programs that ran last, and lets go of the code of all others."""

import gc
import sys
import weakref

import numpy as np
import pytest

from treadle import Tensor, TinyJit
from treadle.engine import kernels, pipeline
from treadle.engine.program import CompiledKernel, Program
from treadle.engine.programs import Programs


def program(*kernels):
    return Program("CPU", list(kernels))


def kernel(name="k", room=0):
    return CompiledKernel(name, name, None, (), (), 0, 0, "", (), "", room=room)


def test_the_longest_unused_programs_go_first():
    programs = Programs(most=4)
    for key in "abcd":
        programs.put(key, program(kernel()))
    programs.get("a")
    programs.put("e", program(kernel()))
    assert [key for key in "abcde" if programs.get(key)] == ["a", "d", "e"]


def test_a_program_weighs_what_it_keeps_loaded():
    programs, repeated = Programs(most=4), kernel()
    programs.put("once", program(*[kernel() for _ in range(3)]))
    programs.put("again and again", program(*[repeated] * 60))
    assert len(programs) == 2
    programs.put("too many places", program(*[repeated] * 130))
    assert programs.get("once") is None
    assert programs.get("too many places")


def test_a_kernel_that_takes_much_memory_counts_as_several():
    programs = Programs(most=4)
    programs.put("small", program(kernel(room=1 << 14)))
    programs.put("large", program(kernel(room=3 << 18)))
    assert len(programs) == 2
    programs.put("next", program(kernel()))
    assert [key for key in ("small", "large", "next") if programs.get(key)] == ["next"]


@pytest.mark.parametrize("device", ["CPU", "CL", "WEBGPU", "CUDA"], indirect=True)
def test_every_runtime_says_what_its_kernels_take(device):
    (Tensor([1.0, 2.0], device=device) * 3).realize()
    assert all(kernel.room > 0 for p in pipeline._programs.values() for kernel in p.kernels)


def test_the_newest_program_stays_however_large_it_is():
    programs = Programs(most=4)
    programs.put("small", program(kernel()))
    programs.put("large", program(*[kernel() for _ in range(9)]))
    assert programs.get("small") is None
    assert programs.get("large")
    programs.put("next", program(kernel()))
    assert programs.get("large") is None
    assert programs.get("next")


@pytest.fixture
def few(monkeypatch):
    """A process that remembers no more than eight kernels, and knows none yet."""
    programs = Programs(most=8)
    monkeypatch.setattr(pipeline, "_programs", programs)
    monkeypatch.setattr(kernels, "_kernels", weakref.WeakValueDictionary())
    return programs


def test_kernels_go_with_their_programs_and_come_back(few, device):
    for _ in range(2):
        for size in range(1, 13):
            x = np.arange(size, dtype=np.float32)
            np.testing.assert_array_equal((Tensor(x, device=device) * 2 + 1).numpy(), x * 2 + 1)
            assert len(kernels._kernels) <= 9
    assert len(few) <= 8


def test_a_captured_function_keeps_its_kernels(few, device):
    @TinyJit
    def step(x):
        return ((x * 3).sum(0, keepdim=True) + x).realize()

    x = np.arange(6, dtype=np.float32)
    for _ in range(3):
        step(Tensor(x, device=device).realize())
    for size in range(1, 13):  # more than are remembered
        (Tensor.ones(size, device=device).contiguous() + size).realize()
    gc.collect()
    got = step(Tensor(x + 1, device=device).realize()).numpy()
    np.testing.assert_allclose(got, 3 * (x + 1).sum() + x + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="counts the mappings that Linux shows")
@pytest.mark.parametrize("device", ["CPU", "CUDA:PTX"])
def test_new_shapes_take_no_further_mappings_for_ever(few, device):
    """Linux gives a process 65,530: what never ended had taken them all after some hours."""

    def mappings():
        with open("/proc/self/maps") as maps:
            return sum(1 for _ in maps)

    counts = []
    for size in range(1, 81):
        (Tensor.ones(size, device=device).contiguous() + size).realize()
        if size % 40 == 0:
            gc.collect()
            counts.append(mappings())
    assert counts[1] - counts[0] < 20
