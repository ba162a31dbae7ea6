"""WebGPU devices run handwritten WGSL, and what goes wrong in Dawn becomes a clear error."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest

from treadle.errors import DeviceError, InternalError, SettingError
from treadle.runtime.base import Entry, Launch, Slot
from treadle.runtime.webgpu import WebGPUDevice, describe
from treadle.runtime.webgpu.adapter import backend_type

HEAD = "(@builtin(workgroup_id) w: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>, \
@builtin(local_invocation_index) i: u32)"
ADD = f"""
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> n: array<vec4<i32>, 2>;
@compute @workgroup_size(64) fn add{HEAD} {{
  let k = (w.x + w.y * g.x) * 64u + i;
  if (k < arrayLength(&x)) {{ y[k] = x[k] + f32(n[0].x + n[1].y); }}
}}
"""
TURN = f"""
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(0) var<storage, read_write> z: array<f32>;
var<workgroup> held: array<f32, 64>;
@compute @workgroup_size(64) fn turn{HEAD} {{
  held[i] = x[w.x * 64u + i];
  workgroupBarrier();
  y[w.x * 64u + i] = held[63u - i];
}}
@compute @workgroup_size(64) fn twice{HEAD} {{ z[w.x * 64u + i] *= 2.0; }}
"""
N = 256
INTEGERS = [7, 1, 1, 1, 1, 3]  # six of them, so that they take two vectors


def opened():
    try:
        return WebGPUDevice("WEBGPU")
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def gpu():
    return opened()


def memory(gpu, array):
    buffer = gpu.allocator.alloc(array.nbytes)
    gpu.write(buffer, array.data)
    return buffer


def values(gpu, buffer, count=None):
    found = np.empty(buffer.nbytes // 4 if count is None else count, np.float32)
    gpu.read(buffer, found.data)
    return found


def add_entry(count=N):
    slots = (Slot(0, 4 * count, False), Slot(1, 4 * count, True))
    return Entry("add", -(-count // 64), 64, slots, tuple(range(6)))


@pytest.mark.parametrize("count", [N, 70_000 * 64])
def test_a_kernel_with_integers_runs_and_replays(gpu, count):
    library = gpu.load(ADD.encode(), [add_entry(count)])
    x = np.arange(count, dtype=np.float32)
    a, b, c = memory(gpu, x), memory(gpu, 0 * x), memory(gpu, 0 * x)
    calls = gpu.call_list([Launch(library.phases, [a.argument, b.argument], INTEGERS)])
    calls.run()
    np.testing.assert_array_equal(values(gpu, b), x + 10)
    calls.set_arg(0, 1, c.argument)
    calls.set_var(0, 0, -3)
    ((start, end),) = calls.run_timed()
    assert start < end
    np.testing.assert_array_equal(values(gpu, c), x)
    np.testing.assert_array_equal(values(gpu, b), x + 10)


def test_workgroups_share_memory_and_phases_follow_each_other(gpu):
    slots = (Slot(0, 4 * N, False), Slot(1, 4 * N, True))
    entries = [Entry("turn", N // 64, 64, slots), Entry("twice", N // 64, 64, slots[1:])]
    library = gpu.load(TURN.encode(), entries)
    x = np.arange(N, dtype=np.float32)
    a, b = memory(gpu, x), gpu.allocator.alloc(4 * N)
    gpu.run([Launch(library.phases, [a.argument, b.argument])])
    np.testing.assert_array_equal(values(gpu, b), 2 * x.reshape(-1, 64)[:, ::-1].reshape(-1))


def test_memory_larger_than_a_binding_is_bound_in_parts():
    gpu = opened()
    gpu.target = dataclasses.replace(gpu.target, max_binding=512)
    source = f"""
@group(0) @binding(0) var<storage, read_write> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> b: array<f32>;
@compute @workgroup_size(64) fn mark{HEAD} {{ a[i] = 1.0; b[i] = 2.0; }}
"""
    library = gpu.load(source.encode(), [Entry("mark", 1, 64, (Slot(0, 1024, True),))])
    buffer = memory(gpu, np.zeros(N, np.float32))
    gpu.run([Launch(library.phases, [buffer.argument])])
    found = values(gpu, buffer)
    assert (found[:64] == 1).all()
    assert (found[128:192] == 2).all()
    assert found.sum() == 64 * 3


def test_broken_code_is_refused_with_the_reason(gpu):
    with pytest.raises(InternalError, match=r"Dawn rejected generated code.*parsing WGSL"):
        gpu.load(b"fn f( {", [])
    np.testing.assert_array_equal(values(gpu, memory(gpu, np.ones(4, np.float32))), 1)


def test_what_cannot_be_bound_is_refused_with_the_reason(gpu):
    library, other = gpu.load(ADD.encode(), [add_entry()]), opened()
    here, there = memory(gpu, np.ones(N, np.float32)), memory(other, np.ones(N, np.float32))
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"^WEBGPU: .*[Dd]evice"):
            gpu.run([Launch(library.phases, [here.argument, there.argument], INTEGERS)])
    np.testing.assert_array_equal(values(gpu, here), 1)


def test_backends_have_two_spellings():
    assert backend_type("Vulkan") == backend_type("WGPUBackendType_Vulkan") == 6
    assert backend_type("") == 0
    with pytest.raises(SettingError, match="one of D3D11, D3D12, Metal, Vulkan"):
        backend_type("Nonsense")


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
        env={**os.environ, **environment},
    )  # fmt: skip


USE = """
import numpy as np
from treadle import Tensor, Device
try:
    x = Tensor(np.ones(1000, np.float32), device="WEBGPU").realize()
except Exception as error:
    print(type(error).__name__, error)
    raise SystemExit
"""


def test_without_a_driver_the_command_is_named(gpu):
    if "Vulkan" not in describe():
        pytest.skip("the adapter is no Vulkan one")
    done = run(USE, VK_ICD_FILENAMES="/nonexistent.json", VK_DRIVER_FILES="/nonexistent.json")
    assert done.stdout.startswith("DeviceError WEBGPU: no adapter"), done.stdout + done.stderr
    assert "apt-get install --no-install-recommends libvulkan1 mesa-vulkan-drivers" in done.stdout


BLOCK = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names!r}:
            raise ModuleNotFoundError(name + " is blocked", name=name)
sys.meta_path.insert(0, Blocker())
"""


def test_without_dawn_the_rest_works_and_the_command_is_named():
    hide = BLOCK.format(names=["pydawn", "wgpudawn"])
    program = hide + "from treadle import Tensor\nprint((Tensor([1.0]) + 1).tolist())\n" + USE
    first, *second = run(program).stdout.splitlines()
    assert first == "[2.0]"
    if second:  # a system library may be there
        assert second[0].startswith("DeviceError WEBGPU needs Dawn")
        assert 'pip install "treadle[webgpu]"' in second[0]


def test_the_current_generation_of_dawn_is_spoken_to():
    pytest.importorskip("wgpudawn", reason="the wheel with the current Dawn is not installed")
    program = (
        BLOCK.format(names=["pydawn"])
        + USE
        + """
print(Device["WEBGPU"].runtime.facts.library, (x * 3).sum().item())
"""
    )
    done = run(program)
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("DeviceError"):
        assert "wgpudawn" in done.stdout
        pytest.skip(f"no driver that it accepts: {done.stdout.strip()[:200]}")
    assert done.stdout == "wgpudawn 3000.0\n"
