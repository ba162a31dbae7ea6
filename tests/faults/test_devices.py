"""WebGPU devices that are lost, collected or full: what Dawn alone has."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from treadle import Device, Tensor, TinyJit
from treadle.errors import DeviceError, OutOfMemory
from treadle.runtime.webgpu import memory

from ..runtime.contract.losing import LOSING


@pytest.fixture
def webgpu():
    try:
        return Device["WEBGPU"].name
    except DeviceError as error:
        pytest.skip(str(error))


def start(code, **variables):
    return subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **variables}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process):
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out


def test_a_lost_device_takes_its_own_tensors_and_nothing_else(webgpu):
    lost = Device["WEBGPU:5"]
    x = Tensor([1.0, 2.0], device="WEBGPU:5").realize()
    other, host = Tensor([3.0], device=webgpu).realize(), Tensor([4.0], device="CPU")
    pending = x * 2
    f = TinyJit(lambda t: (t + 1).realize())
    for _ in range(3):
        f(x)
    LOSING["WEBGPU"].lose(lost.runtime)
    for use in (
        pending.realize, x.numpy, lambda: f(x), lost.synchronize,
        lambda: Tensor([1.0], device="WEBGPU:5").add(1).realize(), lambda: x.to("CPU").realize(),
    ):  # fmt: skip
        with pytest.raises(DeviceError, match="WEBGPU:5: the device was lost"):
            use()
    assert (other + 1).item() == 4
    assert (host + 1).item() == 5


def test_a_device_that_is_collected_leaves_quietly():
    code = (
        "import gc\n"
        "from treadle.errors import DeviceError\n"
        "from treadle.runtime.webgpu import WebGPUDevice\n"
        "try:\n"
        "    for _ in range(3):\n"
        "        device = WebGPUDevice('WEBGPU')\n"
        "        device.circle = device\n"
        "        del device\n"
        "        gc.collect()\n"
        "except DeviceError: pass\n"
        "print('end')\n"
    )
    assert finish(start(code)) == "end\n"


def test_a_full_device_is_asked_again_once_its_cache_is_empty(webgpu, monkeypatch):
    allocator, make, refused = Device[webgpu].allocator, memory.make_buffer, []

    def full_at_first(*arguments):
        if not refused:
            refused.append(arguments)
            raise OutOfMemory("WEBGPU: no memory to allocate")
        return make(*arguments)

    def full(*arguments):
        raise OutOfMemory("WEBGPU: no memory to allocate")

    allocator.alloc(12_345_678)  # which waits for reuse at once
    monkeypatch.setattr(memory, "make_buffer", full_at_first)
    kept = allocator.alloc(9_876_543)
    assert refused
    assert allocator.stats.cached == 0
    refused.clear()
    monkeypatch.setattr(memory, "make_buffer", full)
    with pytest.raises(OutOfMemory, match="bytes are live: delete tensors"):
        allocator.alloc(7_654_321)
    assert kept.nbytes == 9_876_543
