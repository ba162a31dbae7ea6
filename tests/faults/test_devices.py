"""Things that go wrong on a device: a clear error, no hang, and the other devices go on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from treadle import Device, Tensor, TinyJit
from treadle.backends import BACKENDS
from treadle.errors import DeviceError, JitError, OutOfMemory
from treadle.runtime.webgpu import memory


@pytest.fixture(params=[backend.name for backend in BACKENDS if backend.is_chosen_unasked])
def gpu(request):
    try:
        return Device[request.param].name
    except DeviceError as error:
        pytest.skip(str(error))


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


PROGRAM = (
    "import numpy as np; from treadle import Tensor, GlobalCounters as G;"
    "x = Tensor(np.arange(64, dtype=np.float32).reshape(8, 8), device={device!r});"
    "print((x @ x + 1).softmax().sum().item(), G.compile_count)"
)


def test_processes_that_start_at_once_share_one_cache(gpu, tmp_path):
    code = PROGRAM.format(device=gpu)
    running = [start(code, CACHE_DIR=str(tmp_path)) for _ in range(2)]
    values = [float(finish(process).split()[0]) for process in running]
    assert values == pytest.approx([8, 8])
    value, compiled = finish(start(code, CACHE_DIR=str(tmp_path))).split()
    assert float(value) == pytest.approx(8)
    assert compiled == "0"


def test_a_corrupt_cache_is_built_anew(gpu, tmp_path):
    code = PROGRAM.format(device=gpu)
    finish(start(code, CACHE_DIR=str(tmp_path)))
    ours = (p for p in tmp_path.rglob("*") if p.is_file() and "pocl-0" not in str(p))
    for entry in ours:  # the driver has a cache of its own there, which it believes blindly
        entry.write_bytes(entry.read_bytes()[:-20] + os.urandom(20))
    value, compiled = finish(start(code, CACHE_DIR=str(tmp_path))).split()
    assert float(value) == pytest.approx(8)
    assert int(compiled) > 0


def test_a_lost_device_takes_its_own_tensors_and_nothing_else(webgpu):
    lost = Device["WEBGPU:5"]
    x = Tensor([1.0, 2.0], device="WEBGPU:5").realize()
    other, host = Tensor([3.0], device=webgpu).realize(), Tensor([4.0], device="CPU")
    pending = x * 2
    f = TinyJit(lambda t: (t + 1).realize())
    for _ in range(3):
        f(x)
    lost.runtime.destroy()
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


def test_a_tensor_that_is_too_large_is_refused_by_name(gpu):
    kept = Tensor([1.0, 2.0], device=gpu).realize()
    with pytest.raises(DeviceError, match=r"at most|no memory"):
        Tensor.ones(1 << 20, 1 << 20, device=gpu).contiguous().realize()
    assert (kept + 1).tolist() == [2, 3]
    assert (Tensor([1.0], device="CPU") + 1).item() == 2


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


def test_a_process_ends_while_work_is_running(gpu):
    code = (
        "import numpy as np; from treadle import Tensor\n"
        f"x = Tensor(np.ones((400, 400), np.float32), device={gpu!r})\n"
        "y = x\n"
        "for _ in range(8): y = (y @ x / 400).realize()\n"
        "print('end')\n"
    )
    assert finish(start(code)) == "end\n"


def test_an_exit_by_an_exception_shows_that_and_nothing_more(gpu):
    code = (
        "from treadle import Tensor\n"
        f"y = (Tensor.ones(500, 500, device={gpu!r}) * 2).contiguous().realize()\n"
        "raise KeyError('mine')\n"
    )
    process = start(code)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 1
    assert err.strip().endswith("KeyError: 'mine'")


def test_an_exception_while_capturing_leaves_everything_usable(gpu):
    fail = [False]

    @TinyJit
    def step(x):
        y = (x * 2).realize()
        if fail[0]:
            raise ValueError("in the middle")
        return (y + 1).realize()

    x = Tensor([1.0, 2.0], device=gpu).realize()
    assert step(x).tolist() == [3, 5]
    fail[0] = True
    with pytest.raises(ValueError, match="in the middle"):
        step(x)
    fail[0] = False
    for _ in range(3):
        assert step(x).tolist() == [3, 5]
    with pytest.raises(JitError, match="shape"):
        step(Tensor([1.0], device=gpu))
    assert step(x).tolist() == [3, 5]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_takes_nothing_with_it(gpu):
    x = Tensor(np.ones((50, 50), np.float32), device=gpu).realize()
    results = []

    def work():
        results.append((x @ x).realize())
        raise RuntimeError("this thread dies")

    for _ in range(4):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
    assert [r.sum().item() for r in results] == [50**3] * 4
    assert (x + 1).sum().item() == 5000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_gets_an_error_and_its_processor_works(gpu):
    code = (
        "import os, gc; from treadle import Tensor\n"
        "from treadle.errors import DeviceError\n"
        f"x = Tensor([1.0, 2.0], device={gpu!r}).realize(); y = (x + 1).realize()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    for use in (x.numpy, (x * 3).realize, lambda: x.to('CPU').realize()):\n"
        "        try: use()\n"
        "        except DeviceError as error: assert 'forked' in str(error)\n"
        "        else: os._exit(3)\n"
        "    del x, y, use; gc.collect()\n"
        "    os._exit(0 if (Tensor([1.0], device='CPU') + 1).item() == 2 else 4)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "print(y.tolist(), (x * 3).tolist())\n"
    )
    assert finish(start(code)) == "[2.0, 3.0] [3.0, 6.0]\n"
