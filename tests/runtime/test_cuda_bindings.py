"""NVIDIA's driver through cuda-bindings, against a libcuda of our own that computes on the host.

What no GPU is here to tell, it does: that each call reaches libcuda with the arguments that the
header cuda.h promises. It runs in processes of its own, which load it as the system's.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

OPEN = """
import numpy as np
from treadle.runtime.cuda import open_driver
from treadle.runtime.cuda.driver import DriverError
driver = open_driver()
context = driver.open(0)
stream = context.new_stream()
"""

KERNELS = """
x, y = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
a, b = context.alloc(64, stream), context.alloc(64, stream)
context.copy_in(a, x.ctypes.data, 64, stream)
module = context.load(b"PTX text")
kernel = module.function("scale")

def args(factor, plus):
    return [("address", b), ("address", a), ("int32", factor), ("int64", plus << 32)]

def shows(factor, plus):
    context.copy_out(y.ctypes.data, b, 64, stream)
    return bool((y == x * factor + plus).all())

SIZES = (4, 1, 1), (2, 2, 1), 7
"""


def test_devices_are_described(stub):
    shown, log = stub(OPEN + "print(driver.version, driver.devices()[1])")
    assert shown[0].startswith(
        "(13, 0) DeviceFacts(name='Stub 1', capability=(9, 0), memory=107374"
    )
    assert "pci='0000:01:00.0', has_pools=True, has_watchdog=True, is_emulated=False" in shown[0]
    assert log[:3] == [
        "cuInit 0",
        "cuDevicePrimaryCtxRetain 0",
        "cuMemPoolSetAttribute 4 " + "f" * 16,
    ]
    assert log[3] == "cuStreamCreate flags 0"  # one that waits for the legacy default stream


def test_a_pool_that_somebody_has_tuned_stays_as_it_is(stub):
    _, log = stub(OPEN, STUB_THRESHOLD="1")
    assert not [line for line in log if "SetAttribute" in line]


def test_kernels_get_their_arguments(stub):
    code = """
context.launch(kernel, (4, 1, 1), (4, 1, 1), 7, stream, args(3, 5))
print(shows(3, 5))
context.launch(kernel, (4, 1, 1), (4, 1, 1), 0, None, args(-3, -5))
print(shows(-3, -5))
print(kernel.facts, kernel.blocks_per_multiprocessor(64, 0))
kernel.allow_shared(99)
try: module.function("missing")
except DriverError as error: print(error)
"""
    shown, log = stub(OPEN + KERNELS + code)
    assert shown[:2] == ["True", "True"]
    facts = "KernelFacts(registers=104, shared=101, local=103, constant=102, most_threads=100)"
    assert shown[2:] == [facts + " 32", "cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"]
    launches = [line for line in log if line.startswith("cuLaunchKernel")]
    assert launches[0].startswith("cuLaunchKernel 4 1 1, 4 1 1, 7 on 0x")
    assert launches[1] == "cuLaunchKernel 4 1 1, 4 1 1, 0 on (nil) extra (nil)"
    assert "cuFuncSetAttribute 8 99" in log
    assert log[-1].startswith("cuModule")


def test_a_module_is_unloaded_when_its_kernels_have_run(stub):
    code = """
kernel.facts
del kernel
del module
"""
    _, log = stub(OPEN + KERNELS + code)
    calls = [line.split()[0] for line in log]
    assert not {"cuCtxSynchronize", "cuStreamSynchronize", "cuModuleUnload"} & set(calls)
    _, log = stub(OPEN + KERNELS + code + "context.load(b'PTX text')")
    calls = [line.split()[0] for line in log]
    assert calls[-3:] == ["cuStreamSynchronize", "cuModuleUnload", "cuModuleLoadDataEx"]


def test_an_error_that_only_a_newer_release_knows_has_its_number(stub):
    code = """
try: context.alloc(64, stream)
except DriverError as error: print(error)
from treadle.runtime.cuda.driver import TensorTiles
try: context.encode_tensor_map(TensorTiles("bf16", 4096, (64, 8), (128,), (32, 4), 64))
except DriverError as error: print(error)
try: context("cuMemAllocAsync", "many", stream)
except Exception as error: print(type(error).__name__)
"""
    words = "CUDA error 9999: a newer cuda-bindings has its name"
    shown, _ = stub(OPEN + code, STUB_FAIL="cuMemAllocAsync=9999")
    assert shown == [f"cuMemAllocAsync: {words}", "TypeError"]
    shown, _ = stub(OPEN + code, STUB_FAIL="cuTensorMapEncodeTiled=9999")
    assert shown == [f"cuTensorMapEncodeTiled: {words}", "TypeError"]


def test_the_code_of_a_graph_goes_after_it(stub):
    code = """
from treadle.runtime.base import Entry, Launch, Slot
from treadle.runtime.cuda import CUDADevice, target_of
device = CUDADevice("CUDA", driver, 0, target_of)
slots = Slot(0, 4, True), Slot(1, 4, False)
library = device.load(b"PTX text", [Entry("scale", 1, 1, slots, (0, 1))])
launch = Launch(library.phases, [context.alloc(4, stream), context.alloc(4, stream)], [1, 0])
calls = device.call_list([launch])
calls.run()
del library, launch, calls
context.load(b"PTX text")
"""
    _, log = stub(OPEN + code)
    gone = [line.split()[0] for line in log if "Destroy" in line or "Unload" in line]
    assert gone[-3:] == ["cuGraphExecDestroy", "cuGraphDestroy", "cuModuleUnload"]


def test_a_forked_child_is_told_so(stub):
    code = """
import os
from treadle.errors import DeviceError
from treadle.runtime.cuda import CUDADevice, open_driver, target_of
driver = open_driver()
child = os.fork()
if child == 0:
    try: CUDADevice("CUDA:1", open_driver(), 1, target_of)
    except DeviceError as error: print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    shown, _ = stub(code)
    assert shown[0] == (
        "CUDA: the driver was opened before this process was forked, and does not survive that; "
        "use it in the child alone, or start that with 'spawn'"
    )


def test_tensor_maps_are_encoded_and_passed_by_value(stub):
    code = """
from treadle.runtime.cuda.driver import TensorTiles
tiles = TensorTiles("bf16", 4096, (64, 8), (128,), (32, 4), 64)
boxes = module.function("boxes")
given = [("tensor_map", context.encode_tensor_map(tiles)), ("int32", 1)]
context.launch(boxes, (1, 1, 1), (1, 1, 1), 0, stream, given)
graph = context.new_graph()
context.add_kernel(graph, [], boxes, (1, 1, 1), (1, 1, 1), 0, given)
maps = [context.encode_tensor_map(tiles) for _ in range(64)]  # each at an aligned address
print(len(maps))
try: context.encode_tensor_map(TensorTiles("u8", 4096, (64, 8), (64,), (0, 4)))
except DriverError as error: print(error)
"""
    shown, log = stub(OPEN + KERNELS + code)
    encoded = "boxes 9: 2 at 0x1000, 64 8 by 128, box 32 4 by 1 1, modes 0 2 2 0"
    assert log.count(encoded) == 2
    assert shown == ["64", "cuTensorMapEncodeTiled: CUDA_ERROR_INVALID_VALUE"]


def test_graphs_run_and_are_changed(stub):
    code = """
graph = context.new_graph()
first = context.add_kernel(graph, [], kernel, (4, 1, 1), (4, 1, 1), 7, args(2, 1))
second = context.add_kernel(graph, [first], kernel, (4, 1, 1), (4, 1, 1), 0, args(7, 1))
executable = context.instantiate(graph)
context.launch_graph(executable, stream)
print(shows(7, 1))
context.update_kernel(executable, second, args(-9, 2))
context.launch_graph(executable, stream)
print(shows(-9, 2))
context.delete_graph(graph, executable)
context.instantiate(context.new_graph())
"""
    shown, log = stub(OPEN + KERNELS + code)
    assert shown == ["True", "True"]
    nodes = [line for line in log if "AddKernelNode" in line]
    assert nodes[0].endswith("after 0 first -1, 4 1 1, 4 1 1, 7 func 1")
    assert nodes[1].endswith("after 1 first 1, 4 1 1, 4 1 1, 0 func 1")
    assert next(line for line in log if "ExecKernelNodeSetParams" in line).endswith("node 2")
    assert any(line.startswith("cuGraphExecDestroy") for line in log)


def test_memory_streams_and_events(stub):
    code = """
address = context.alloc(64, stream)
print(context.owner_of(address + 3) == (0, address, 64), context.owner_of(5))
print(context.memory_info())
context.trim(5)
context.alloc_pinned(99)
context.free(address, stream)
timed, plain = context.new_event(True), context.new_event(False)
context.record(timed, stream)
context.wait_event(4660, timed)
context.record(plain, 4660)
print(context.has_happened(plain), context.has_happened(plain))
context.finish_event(timed)
print(context.has_happened(timed))
print(context.is_capturing(stream), context.is_capturing(0x777))
print(context.elapsed(timed, plain))
context.wait_stream(stream)
context.synchronize()
context.delete_event(timed)
context.delete_stream(stream)
"""
    shown, log = stub(OPEN + code)
    assert shown == ["True None", "(123, 456)", "False True", "True", "False True", "250000.0"]
    assert "cuMemHostAlloc 99 flags 1" in log
    assert "cuMemPoolTrimTo 5" in log
    assert "cuEventCreate flags 0" in log
    assert "cuEventCreate flags 2" in log
    assert "cuStreamWaitEvent 0x1234 event 1 flags 0" in log
    assert "cuEventRecord event 2 on 0x1234" in log
    assert "cuEventSynchronize event 1" in log
    _, log = stub(OPEN + "context.free(context.alloc(64, stream), stream)", STUB_POOLS="0")
    assert log[-2:] == ["cuMemAlloc_v2 64", "cuMemFree_v2 "]


def test_devices_reach_each_other_where_they_can(stub):
    code = """
other = driver.open(1)
there = other.new_stream()
a, b = context.alloc(64, stream), other.alloc(64, there)
print(context.reach_peer(other), context.reach_peer(context))
other.copy_peer(b, a, context, 64, there)
context.copy(a, a, 64, stream)
"""
    shown, log = stub(OPEN + code)
    assert shown == ["True True"]
    assert "cuCtxEnablePeerAccess 1 for 0" in log
    assert "cuMemPoolSetAccess pool 1 for 0 type 1 flags 3 count 1" in log
    assert "cuMemcpyPeerAsync 64 to 1 from 0" in log
    assert stub(OPEN + code, STUB_APART="1")[0] == ["False True"]


def test_the_drivers_compiler_is_quoted(stub):
    code = "try: context.load(b'broken')\nexcept DriverError as error: print(error)"
    shown, _ = stub(OPEN + code)
    assert shown == ["cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX: line 1: not PTX"]


def test_a_thread_keeps_the_context_that_it_had(stub):
    code = """
from cuda.bindings import driver as raw
other = driver.open(1)
raw.cuCtxPushCurrent(other._context)
context.alloc(64, stream)
try: context("cuMemAllocAsync", -1, stream)
except Exception as error: print(type(error).__name__)
print(int(raw.cuCtxGetCurrent()[1]) == other.handle != context.handle)
"""
    assert stub(OPEN + code)[0] == ["OverflowError", "True"]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {"STUB_FAIL": "cuInit=100"},
            "the driver sees no NVIDIA GPU (cuInit: CUDA_ERROR_NO_DEVICE)",
        ),
        ({"STUB_FAIL": "cuInit=803"}, "libcuda and the kernel's NVIDIA module are of different"),
        ({"STUB_FAIL": "cuInit=999"}, "the driver could not start (cuInit: CUDA_ERROR_UNKNOWN)"),
        ({"STUB_FAIL": "cuInit=3"}, "the driver could not start (cuInit: CUDA_ERROR_NOT_INITIAL"),
        (
            {"STUB_VERSION": "11080"},
            "the driver is too old for cuda-bindings (cuDriverGetVersion: CUDA_E",
        ),
        ({"STUB_FAIL": "cuDevicePrimaryCtxRetain=46"}, "the GPU is in use by a process that has"),
        ({"STUB_FAIL": "cuStreamCreate=2"}, "the GPU has no memory left for a context"),
    ],
    ids=str,
)
def test_a_driver_that_does_not_start_says_why(stub, variables, words):
    code = """
from treadle.errors import DeviceError
from treadle.runtime.cuda import CUDADevice, open_driver, target_of
try: CUDADevice("CUDA", open_driver(), 0, target_of)
except DeviceError as error: print(error)
"""
    (shown,), _ = stub(code, **variables)
    assert shown.startswith(f"CUDA: {words}")
    assert "; " in shown


def test_without_libcuda_that_is_said(monkeypatch):
    pytest.importorskip("cuda.bindings")
    code = (
        "from treadle import Device\n"
        "try: Device['CUDA']\nexcept Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=100,
                          env={**os.environ, "EMULATE": "0"})  # fmt: skip
    if not done.stdout:
        pytest.skip("this machine has a driver")
    assert done.stdout == (
        "DeviceError CUDA: there is no NVIDIA driver here: libcuda was not found; install NVIDIA's "
        "driver, or set EMULATE=1 to run CUDA programs on the processor\n"
    )
