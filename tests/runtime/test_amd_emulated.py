"""The AMD device end to end on emulated GPUs: five chips, replay, two devices, faults."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from treadle import Context, Device, Tensor, TinyJit, dtypes
from treadle.errors import DeviceError

from ..emulate.amd.conftest import compile_for
from ..emulate.amd.test_calls import ITEMS, PRIVATE, private_result
from .contract.kernels import COUNT, Kernel, get, put

if sys.platform != "linux" or Device["CPU"].target.arch != "x86_64":
    pytest.skip("emulated AMD GPUs are for Linux on x86-64", allow_module_level=True)

from treadle.emulate.amd.execute import Executor
from treadle.emulate.kfd import EmulatedKFD
from treadle.emulate.machine.platform import EmulatedPlatform
from treadle.engine.host_code import compile_for_host
from treadle.runtime.base import Entry, Launch, Slot
from treadle.runtime.hardware.amd import KFD, AMDDevice, target_of

CHIPS = ("gfx1100", "gfx1030", "gfx1201", "gfx90a", "gfx942")
CODE = [*(f"LLVM:{chip}" for chip in CHIPS), "HIP:gfx1030", "HIP:gfx90a"]
RNG = np.random.default_rng(5)
SQUARE = RNG.standard_normal((40, 40)).astype(np.float32)
X = np.arange(COUNT, dtype=np.int32)


@pytest.fixture(params=CODE)
def amd(request):
    """The name of a device with each chip, and of those for which libamd_comgr makes code."""
    try:
        opened = Device[f"AMD:0:{request.param}"]
    except DeviceError as error:
        if not request.param.startswith("HIP"):
            raise
        pytest.skip(str(error))
    if not opened.runtime.is_software:
        pytest.skip("a real GPU is here")
    return opened.name


# -- programs -------------------------------------------------------------------------------------


def test_the_devices_name_says_that_it_is_emulated(amd):
    name = Device[amd].target.name
    assert name.startswith("emulated AMD ")
    assert any(f"({chip})" in name for chip in CHIPS)
    assert Device.DEFAULT != amd


def test_programs_compute_what_the_processor_does(amd):
    def program(x):
        y = (x @ x.T + 1).softmax()
        return (y * x.sin()).sum(0), y.max(1), x.sort(1)[0], x[:, :5].cumsum(1)

    ours, theirs = (program(Tensor(SQUARE, device=device)) for device in (amd, "CPU"))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=1e-6)


def test_a_product_of_halves_is_right_on_matrix_units_and_without(amd):
    a, b = (RNG.integers(-4, 5, (64, 64)).astype(np.float16) for _ in range(2))
    ours = Tensor(a, device=amd).matmul(Tensor(b, device=amd), dtype=dtypes.float32)
    np.testing.assert_array_equal(ours.numpy(), a.astype(np.float32) @ b.astype(np.float32))


def test_integers_of_64_bits_become_the_nearest_floats(amd):
    ends = [0, 1, -1, 1 << 31, -(1 << 31), (1 << 62) + 1, -(1 << 63), (1 << 63) - 1]
    values = np.array([*ends, *RNG.integers(-(1 << 62), 1 << 62, 100)], np.int64)
    for dtype in (dtypes.float32, dtypes.float64):
        ours = Tensor(values, device=amd).cast(dtype).numpy()
        np.testing.assert_array_equal(ours, values.astype(ours.dtype))


def test_kernels_pass_their_checks(amd):
    x = Tensor(SQUARE, device=amd)
    places = Tensor(np.array([3, 39, 0], np.int32), device=amd)
    with Context(CHECK_KERNELS=1, CHECK_INDEX=1):
        found = (x @ x).softmax()[places].sum(1).numpy()
    np.testing.assert_allclose(found, np.ones(3), rtol=1e-5)
    with Context(CHECK_INDEX=1), pytest.raises(IndexError, match="40"):
        x[Tensor(np.array([3, 40], np.int32), device=amd)].numpy()


def test_products_that_are_rounded_to_halves_keep_the_sign_of_zero(amd):
    a = np.array([-0.0, 0.0, -2.0, 3.0] * 75, np.float32)
    b = np.array([1.0, -1.0, 0.0, -0.0] * 75, np.float32)
    for kinds in ((np.float16, np.float16), (np.float32, np.float32), (np.float16, np.float32)):
        x, y = (Tensor(v.astype(kind), device=amd) for v, kind in zip((a, b), kinds, strict=True))
        found = (x.float() * y.float()).half().numpy()
        assert not found.any()
        assert np.signbit(found).all()


@pytest.mark.parametrize("uses_aql", [False, True], ids=["PM4", "AQL"])
def test_work_items_have_scratch_memory_of_their_own(amd, uses_aql):
    chip, platform = Device[amd].target.cpu, EmulatedPlatform()
    EmulatedKFD(platform, [chip], Executor(compile_for_host))
    target = lambda node: target_of(node, None, True)
    if chip == "gfx942" and not uses_aql:
        pytest.skip("a GPU of several partitions takes AQL alone")
    runtime = AMDDevice("AMD", KFD(platform), 0, target, uses_aql=uses_aql)
    data = RNG.integers(0, 1 << 31, (ITEMS, 16)).astype(np.uint32)
    entry = Entry("k", ITEMS // 128, 128, (Slot(0, 4 * ITEMS, True), Slot(1, data.nbytes, True)))
    library = runtime.load(compile_for(chip, PRIVATE), [entry])
    out, given = put(runtime, np.zeros(ITEMS, np.uint32)), put(runtime, data)
    runtime.run([Launch(library.phases, [out.argument, given.argument], [])])
    with np.errstate(over="ignore"):
        expected = [private_result(n, data[n]) for n in range(ITEMS)]
    np.testing.assert_array_equal(get(runtime, out, np.uint32), expected)


# -- replay ---------------------------------------------------------------------------------------


def test_a_captured_step_trains_as_the_processor_does_and_changes_few_words(amd):
    def train(device):
        w = Tensor(SQUARE[:, :4].copy(), device=device, requires_grad=True)
        x, y = Tensor(SQUARE, device=device), Tensor(SQUARE[:, 4:8], device=device)

        @TinyJit
        def step(scale):
            loss = ((x @ w - y) * scale).square().mean()
            w.grad = None
            loss.backward()
            assert w.grad is not None
            with Tensor.no_grad():
                w.assign(w - w.grad * 0.05)
            Tensor.realize(w, loss)
            return loss

        scales = [Tensor([1.0 / (n + 1)], device=device).realize() for n in range(6)]
        return [step(scale).item() for scale in scales], w.numpy()

    runtime, lists = Device[amd].runtime, []
    with pytest.MonkeyPatch.context() as patch:
        make = type(runtime).call_list
        patch.setattr(type(runtime), "call_list", lambda *a: lists.append(make(*a)) or lists[-1])
        losses, weights = train(amd)
    replayed = [one for one in lists if one.patched]
    assert replayed
    assert all(one.patched <= 8 * len(one) * 6 for one in replayed)
    expected, theirs = train("CPU")
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(weights, theirs, rtol=1e-4, atol=1e-6)


# -- two GPUs -------------------------------------------------------------------------------------


def test_two_gpus_share_a_tensor_and_send_each_other_their_parts():
    if Device["AMD"].runtime.kfd.nodes[1:] == []:
        pytest.skip("EMULATE asks for one device")
    devices = ("AMD", "AMD:1")
    rows, w = Tensor(SQUARE).shard(devices, axis=0), Tensor(SQUARE).shard(devices)
    np.testing.assert_allclose((rows @ w).sum(0).numpy(), (SQUARE @ SQUARE).sum(0), rtol=1e-4)
    there = Tensor(SQUARE, device="AMD").realize().to("AMD:1")
    np.testing.assert_array_equal((there * 2).numpy(), 2 * SQUARE)


# -- faults ---------------------------------------------------------------------------------------


class Machine:
    """A computer of the test's own with two GPUs, whose faults concern no other test."""

    def __init__(self):
        self.platform = EmulatedPlatform()
        self.driver = EmulatedKFD(self.platform, ["gfx1100"] * 2, Executor(compile_for_host))
        self.kfd, self.kernel = KFD(self.platform), Kernel.of(Device["AMD"])

    def open(self, index):
        name = f"AMD:{index}" if index else "AMD"
        return AMDDevice(name, self.kfd, index, lambda node: target_of(node, None, True))

    def computes(self, device):
        """Whether a device's kernel gives what it should."""
        library, x, out = self.kernel.load(device), put(device, X), put(device, 0 * X)
        device.run([self.kernel.launch(library, x, out, 7)])
        return (get(device, out) == X * 3 + 7).all()


class At:
    """A buffer at whatever address."""

    def __init__(self, address):
        self.argument = address


def fault_of(machine, device, x, out):
    """What a device says when its kernel has read and written there."""
    library = machine.kernel.load(device)
    device.run([machine.kernel.launch(library, x, out, 1)])
    with pytest.raises(DeviceError) as caught:
        device.synchronize()
    return str(caught.value)


@pytest.mark.parametrize("what", ["null", "behind a buffer", "the host's"])
def test_a_wild_pointer_is_one_sentence_and_the_next_gpu_opens(what):
    machine = Machine()
    device = machine.open(0)
    x, host = put(device, X), np.zeros(COUNT, np.int32)
    address = {
        "null": 0, "behind a buffer": x.argument + (1 << 32), "the host's": host.ctypes.data,
    }[what]  # fmt: skip
    said = fault_of(machine, device, x, At(address))
    assert said.startswith("AMD: a kernel used memory that is not its own, in the page at 0x")
    assert "global_store" in said  # the instruction
    assert f"what ran: {machine.kernel.entries[0].symbol}" in said
    assert not host.any()
    with pytest.raises(DeviceError, match=r"^AMD: a kernel used memory that is not its own"):
        put(device, X)
    assert machine.computes(machine.open(1))


def test_bytes_that_are_no_instruction_are_named():
    machine = Machine()
    device = machine.open(0)
    library, x = machine.kernel.load(device), put(device, X)
    [phase] = library.phases
    device._staging.write(device, phase.program, memoryview(b"\xff" * 256))
    device.run([machine.kernel.launch(library, x, x, 1)])
    with pytest.raises(DeviceError, match=r"^AMD: a kernel .* illegal instruction .*ffffffff"):
        device.synchronize()
    assert machine.computes(machine.open(1))


# -- how it is asked for --------------------------------------------------------------------------

ASK = "from treadle import Device; print(Device.DEFAULT, Device.default.target.cpu)"


def asked(code=ASK, **variables):
    """The last line of what a process says in which just these variables choose a device."""
    chosen = {k: v for k, v in os.environ.items() if k not in ("EMULATE", "DEV", "AMD")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**chosen, **variables}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return (done.stdout or done.stderr).strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"AMD": "1", "EMULATE": "1"}, "AMD gfx1100"),
        ({"AMD_IFACE": "KFD", "EMULATE": "gfx1030"}, "AMD gfx1030"),
        ({"DEV": "AMD:1:LLVM:gfx90a", "EMULATE": "2"}, "AMD:1 gfx90a"),
        ({"AMD_LLVM": "1", "EMULATE": "gfx900"}, "no AMD GPU of 'gfx900' is emulated; there are "),
        ({"AMD_HIP": "1", "EMULATE": "gfx1201"}, "AMD:HIP cannot be used: "),
        ({"DEV": "AMD:2", "EMULATE": "2"}, "there is no AMD:2: the kernel driver shows 2 GPUs"),
    ],
    ids=str,
)
def test_the_environment_asks_for_an_emulated_gpu(variables, said):
    assert said in asked(**variables)


@pytest.mark.skipif(os.path.exists("/dev/kfd"), reason="a real GPU is here")
def test_without_a_gpu_one_sentence_says_what_to_do():
    said = asked(AMD="1")
    assert "DeviceError: AMD: there is no /dev/kfd" in said
    assert "EMULATE=1 emulates one" in said
