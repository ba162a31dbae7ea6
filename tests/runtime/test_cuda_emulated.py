"""The CUDA device end to end on an emulated GPU: both compilers, graphs, two devices, faults."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from treadle import Context, Device, Tensor, TinyJit
from treadle.engine.selection import spellings
from treadle.errors import DeviceError
from treadle.runtime.base import Entry, Launch, Slot

if Device["CPU"].target.arch != "x86_64":
    pytest.skip("NVRTC and the emulator are for x86-64 here", allow_module_level=True)
pytest.importorskip("cuda.bindings")

from treadle.emulate.cuda import EmulatedDriver
from treadle.runtime.cuda import CUDADevice, target_of

RNG = np.random.default_rng(5)
SQUARE = RNG.standard_normal((40, 40)).astype(np.float32)


@pytest.fixture(params=["CUDA", "CUDA:PTX"])
def cuda(request):
    opened = Device[request.param]
    if not opened.runtime.is_software:
        pytest.skip("a real GPU is here")
    return opened.name


# -- programs ---------------------------------------------------------------------------------


def test_the_devices_name_says_that_it_is_emulated(cuda):
    opened = Device[cuda]
    assert opened.target.name == "emulated NVIDIA A100 (sm_80)"
    assert opened.compiler.name == ("PTX" if "PTX" in cuda else "NVRTC")
    assert Device.DEFAULT != cuda


def test_programs_compute_what_the_processor_does(cuda):
    def program(x):
        y = (x @ x.T + 1).softmax()
        return (y * x.sin()).sum(0), y.max(1), x.sort(1)[0], x[:, :5].cumsum(1)

    ours, theirs = (program(Tensor(SQUARE, device=device)) for device in (cuda, "CPU"))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=1e-6)


def test_a_captured_step_is_one_graph_and_trains_as_the_processor_does(cuda):
    def train(device):
        w = Tensor(SQUARE[:, :4].copy(), device=device, requires_grad=True)
        x, y = Tensor(SQUARE, device=device), Tensor(SQUARE[:, 4:8], device=device)

        @TinyJit
        def step(scale):
            loss = ((x @ w - y) * scale).square().mean()
            w.grad = None
            loss.backward()
            with Tensor.no_grad():
                w.assign(w - w.grad * 0.05)
            Tensor.realize(w, loss)
            return loss

        scales = [Tensor([1.0 / (n + 1)], device=device).realize() for n in range(5)]
        return [step(scale).item() for scale in scales], w.numpy()

    context = Device[cuda].runtime.context
    launched, kind = [], type(context)
    with pytest.MonkeyPatch.context() as patch:
        plain = kind.launch_graph
        patch.setattr(kind, "launch_graph", lambda *a: (launched.append(a), plain(*a))[1])
        losses, weights = train(cuda)
    assert len(launched) == 3
    expected, theirs = train("CPU")
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(weights, theirs, rtol=1e-4, atol=1e-6)


def test_one_program_runs_over_two_devices(monkeypatch):
    if len(Device["CUDA"].runtime.driver.devices()) < 2:
        pytest.skip("there is one device")
    pair = ("CUDA", "CUDA:1")
    x, w = Tensor(SQUARE, device="CPU"), Tensor(SQUARE[:, :6].copy(), device="CPU")
    expected = (x @ w).numpy(), (x @ w).sum().item()
    copies, kind = [], type(Device["CUDA"].runtime.context)
    plain = kind.copy_peer
    monkeypatch.setattr(kind, "copy_peer", lambda *a: (copies.append(a), plain(*a))[1])
    product = x.shard(pair, axis=0) @ w.shard(pair)
    np.testing.assert_allclose(product.numpy(), expected[0], rtol=1e-5, atol=1e-5)
    assert product.sum().item() == pytest.approx(expected[1], rel=1e-5)
    assert copies  # the partial sums, without the host


def test_what_kernels_need_is_reported(cuda, capsys):
    with Context(DEBUG=3):
        (Tensor(SQUARE, device=cuda) * 3.5).realize()
    told = capsys.readouterr().err
    assert f"*** {cuda}" in told
    assert "threads, " in told
    assert "registers, 0 bytes shared" in told


# -- choosing ---------------------------------------------------------------------------------

SHOW = (
    "from treadle import Device, Tensor\n"
    "d = Device[Device.DEFAULT]\n"
    "print(d.name, d.compiler.name, d.target.cpu, (Tensor([1.0, 2.0]) + 1).tolist())\n"
)


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({"CUDA": "1"}, "CUDA NVRTC sm_80 [2.0, 3.0]"),
        ({"CUDA_PTX": "1"}, "CUDA PTX sm_80 [2.0, 3.0]"),
        ({"DEV": "CUDA:0:PTX:sm_90a"}, "CUDA PTX sm_90a [2.0, 3.0]"),
        ({"CUDA": "1", "EMULATE": "sm_90a"}, "CUDA NVRTC sm_90a [2.0, 3.0]"),
        ({"DEV": "CUDA:0:PTX:sm_80", "EMULATE": "sm_90a"}, "CUDA PTX sm_80 [2.0, 3.0]"),
        ({"CUDA": "1", "EMULATE": "gfx1100"}, "no NVIDIA GPU of 'gfx1100' is emulated"),
        ({"DEV": "CUDA:1", "EMULATE": "2"}, "CUDA:1 NVRTC sm_80 [2.0, 3.0]"),
        ({"DEV": "CUDA:1"}, "there is no CUDA:1: CUDA has 1 device here"),
        ({"DEV": "CUDA", "CUDA_VISIBLE_DEVICES": ""}, "there is no CUDA: CUDA has no devices"),
        ({"DEV": "CUDA:0:NVRTC:sm_70"}, "no NVIDIA GPU of 'sm_70' is emulated"),
    ],
    ids=str,
)
def test_the_environment_chooses_device_compiler_and_architecture(variables, shown):
    kept = {k: v for k, v in os.environ.items() if k not in spellings() and k != "DEV"}
    done = subprocess.run(
        [sys.executable, "-c", SHOW], env={**kept, "EMULATE": "1", **variables}, text=True,
        capture_output=True, timeout=100,
    )  # fmt: skip
    assert shown in (done.stdout or done.stderr)


# -- faults -----------------------------------------------------------------------------------

WILD = b"""
.version 7.8
.target sm_80
.address_size 64
.visible .entry wild(.param .u64 out, .param .u32 n)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  ret;
}
"""


def test_a_kernel_that_writes_outside_is_named_and_breaks_its_device_alone():
    driver = EmulatedDriver("sm_80", 2)
    device, other = (CUDADevice(f"CUDA:{n}", driver, n, target_of) for n in range(2))
    entry = Entry("wild", 1, 1, (Slot(0, 64, True),), (0,))
    buffers = [one.allocator.alloc(64) for one in (device, other)]
    launches = [
        Launch(one.load(WILD, [entry]).phases, [buffer.argument], [place])
        for one, buffer, place in zip((device, other), buffers, (1 << 20, 3), strict=True)
    ]

    def run():
        device.run([launches[0]])
        device.synchronize()

    with pytest.raises(DeviceError) as caught:
        run()
    told = str(caught.value)
    assert told.startswith("CUDA:0: a kernel used memory that is not its own (CUDA_ERROR_ILLEGAL_A")
    assert "wild" in told
    assert f"{buffers[0].argument + (4 << 20):x}" in told
    for use in (device.synchronize, lambda: device.allocator.alloc(4), lambda: device.run([])):
        with pytest.raises(DeviceError) as again:
            use()
        assert str(again.value) == told
    del buffers[0]
    other.run([launches[1]])
    found = np.ones(16, np.int32)
    other.read(buffers[0], found.view("uint8").data)
    assert found[3] == 0


def test_kernels_have_no_races_in_global_memory():
    program = """
import numpy as np
from treadle import Device, Tensor
assert Device["CUDA"].runtime.driver.checks_races
x = np.random.default_rng(1).standard_normal((67, 45)).astype("f4")
a = Tensor(x)
np.testing.assert_allclose((a @ a.T).numpy(), x @ x.T, rtol=1e-4, atol=1e-4)
np.testing.assert_allclose(a.sum(0).numpy(), x.sum(0), rtol=1e-4, atol=1e-4)
np.testing.assert_allclose(a.softmax(1).sum(1).numpy(), np.ones(67), rtol=1e-4)
np.testing.assert_array_equal(a.sort(1)[0].numpy(), np.sort(x, 1))
np.testing.assert_allclose(a.cumsum(0).numpy(), x.cumsum(0), rtol=1e-4, atol=1e-4)
"""
    asked = {"DEV": "CUDA", "EMULATE": "1", "EMULATE_RACES": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, env={**os.environ, **asked},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
