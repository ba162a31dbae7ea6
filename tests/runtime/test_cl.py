"""OpenCL devices run handwritten kernels, share the host's memory and fail with clear errors."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from treadle.errors import DeviceError, InternalError, SettingError, StaleCodeError
from treadle.runtime.base import Entry, Launch, Slot
from treadle.runtime.cl import CLDevice, find_devices
from treadle.runtime.cl.platforms import describe, target_of

ADD = "kernel void add(global const float *x, global float *y, int n) { \
  int i = get_global_id(0); y[i] = x[i] + n; }"
REVERSE = """
kernel void turn(global const float *x, global float *y) {
  local float held[64];
  int i = get_local_id(0);
  held[i] = x[get_group_id(0) * 64 + i];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_group_id(0) * 64 + i] = held[63 - i];
}
kernel void twice(global float *y) { y[get_global_id(0)] *= 2; }
"""
N = 256


@pytest.fixture(scope="module")
def cl():
    try:
        return CLDevice("CL")
    except DeviceError as error:
        pytest.skip(str(error))


def memory(cl, array):
    buffer = cl.allocator.alloc(array.nbytes)
    cl.write(buffer, array.data)
    return buffer


def values(cl, buffer, dtype=np.float32):
    found = np.empty(buffer.nbytes // np.dtype(dtype).itemsize, dtype)
    cl.read(buffer, found.data)
    return found


def slots(*written):
    return tuple(Slot(i, 4 * N, w) for i, w in enumerate(written))


def add_entry(work_items=1):
    return Entry("add", N // work_items, work_items, slots(False, True), (0,))


@pytest.mark.parametrize("work_items", [1, 16, 64])
def test_a_kernel_with_an_integer_runs_and_replays(cl, work_items):
    library = cl.load(cl.build(ADD), [add_entry(work_items)])
    x = np.arange(N, dtype=np.float32)
    a, b, c = memory(cl, x), memory(cl, 0 * x), memory(cl, 0 * x)
    calls = cl.call_list([Launch(library.phases, [a.argument, b.argument], [7])])
    assert len(calls) == 1
    calls.run()
    np.testing.assert_array_equal(values(cl, b), x + 7)
    calls.set_arg(0, 1, c.argument)
    calls.set_var(0, 0, -2)
    ((start, end),) = calls.run_timed()
    assert start < end
    np.testing.assert_array_equal(values(cl, c), x - 2)
    np.testing.assert_array_equal(values(cl, b), x + 7)


def test_workgroups_share_memory_and_phases_follow_each_other(cl):
    entries = [
        Entry("turn", N // 64, 64, slots(False, True)),
        Entry("twice", N, 1, (Slot(1, 4 * N, True),)),
    ]
    library = cl.load(cl.build(REVERSE), entries)
    x = np.arange(N, dtype=np.float32)
    a, b = memory(cl, x), cl.allocator.alloc(4 * N)
    cl.run([Launch(library.phases, [a.argument, b.argument])])
    np.testing.assert_array_equal(values(cl, b), 2 * x.reshape(-1, 64)[:, ::-1].reshape(-1))


def test_host_memory_is_used_in_place(cl):
    if not cl.shares_memory:
        pytest.skip(f"{cl.facts.name} has memory of its own")
    library = cl.load(cl.build(ADD), [add_entry()])
    x = np.arange(N, dtype=np.float32)
    y = np.zeros(N, np.float32)
    a = memory(cl, x)
    b = cl.allocator.from_pointer(y.ctypes.data, y.nbytes, y)
    cl.run([Launch(library.phases, [a.argument, b.argument], [1])])
    cl.synchronize()
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(np.frombuffer(a.view(), np.float32), x)


def test_a_buffer_of_the_users_is_used_in_place(cl):
    import pyopencl

    flags = pyopencl.mem_flags.READ_WRITE | pyopencl.mem_flags.COPY_HOST_PTR
    theirs = pyopencl.Buffer(cl.context, flags, hostbuf=np.full(N, 5, np.float32))
    wrapped = cl.allocator.from_handle(theirs, 4 * N)
    np.testing.assert_array_equal(values(cl, wrapped), 5)
    with pytest.raises(DeviceError, match="needed"):
        cl.allocator.from_handle(theirs, 4 * N + 4)
    foreign = pyopencl.Buffer(pyopencl.Context([cl.facts.handle]), flags, hostbuf=np.zeros(4))
    with pytest.raises(DeviceError, match="another OpenCL context"):
        cl.allocator.from_handle(foreign, 16)
    with pytest.raises(DeviceError, match=r"pyopencl.Buffer, not str"):
        cl.allocator.from_handle("x", 16)


def test_broken_code_is_refused_with_the_reason(cl):
    with pytest.raises(InternalError, match="nonsense"):
        cl.build("kernel void f(nonsense x) {}")
    with pytest.raises(StaleCodeError, match="refuses"):
        cl.load(b"not a program", [])


def test_memory_is_counted_and_reused(cl):
    cl.allocator.trim()
    before = cl.allocator.stats.live
    buffer = cl.allocator.alloc(100_000)
    argument = buffer.argument
    assert cl.allocator.stats.live > before
    del buffer
    gc.collect()
    assert cl.allocator.stats.live == before
    assert cl.allocator.alloc(100_000).argument is argument
    gc.collect()
    assert cl.allocator.trim() > 0
    assert cl.allocator.alloc(0).nbytes == 0


def test_devices_are_numbered_and_described(cl):
    assert "CL:0" in describe()
    count = len(find_devices())
    with pytest.raises(DeviceError, match=f"OpenCL has {count} device"):
        CLDevice("CL:99", 99)
    with pytest.raises(SettingError, match=r"cpu, gpu and -fp64, .* not 'abacus'"):
        target_of(cl.facts, "abacus")
    assert target_of(cl.facts, "gpu").workgroup is not None
    assert target_of(cl.facts, "cpu").workgroup is None
    assert target_of(cl.facts, "gpu").code_key != target_of(cl.facts, "cpu").code_key


def test_no_instruction_is_asked_for_that_opencl_cannot_say(cl):
    driver = "OpenCL 3.0 PoCL HSTR: cpu-x86_64-pc-linux-gnu-znver4"
    target = target_of(replace(cl.facts, is_software=True, driver=driver), "cpu")
    assert target.vector_bytes == 64
    assert not target.has_scale


@pytest.mark.parametrize(
    ("name", "nbytes"),
    [
        ("unknown-linux-gnu-haswell", 32),
        ("pc-linux-gnu-skylake-avx512", 64),
        ("pc-linux-gnu-x86-64", 16),
    ],
)
def test_vectors_are_those_of_the_processor_that_the_driver_names(cl, name, nbytes):
    driver = f"3.1+debian, OpenCL 3.0 PoCL HSTR: pthread-x86_64-{name}"
    target = target_of(replace(cl.facts, is_software=True, driver=driver), "cpu")
    assert (target.vector_bytes, target.max_lanes) == (nbytes, nbytes // 4)


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
        env={**os.environ, **environment},
    )  # fmt: skip


BLOCK = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names!r}:
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Blocker())
from treadle import Tensor, Device
print((Tensor([1.0]) + 1).tolist(), Device.DEFAULT)
try:
    Tensor([1.0], device={device!r})
except Exception as error:
    print(type(error).__name__, error)
"""


def test_without_pyopencl_the_rest_works_and_the_command_is_named():
    done = run(BLOCK.format(names=["pyopencl"], device="CL"))
    first, second = done.stdout.splitlines()
    assert first == "[2.0] CPU"
    assert second.startswith("DeviceError CL needs pyopencl")
    assert 'pip install "treadle[cl]"' in second


def test_a_useless_list_of_drivers_is_named(cl):
    done = run(BLOCK.format(names=[], device="CL"), OCL_ICD_VENDORS="/nonexistent")
    lines = done.stdout.splitlines()
    assert lines[0] == "[2.0] CPU"
    if len(lines) > 1:  # a loader may find drivers beside the variable
        assert "OCL_ICD_VENDORS=/nonexistent" in lines[1]
