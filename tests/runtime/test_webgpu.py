"""WebGPU devices run handwritten WGSL, and what goes wrong in Dawn becomes a clear error."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from treadle.errors import DeviceError, InternalError, OutOfMemory, SettingError
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


def test_groups_share_memory_and_phases_follow_each_other(gpu):
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


def test_odd_numbers_of_bytes_are_copied(gpu):
    for count in (1, 2, 3, 5, 1023):
        data = np.arange(count, dtype=np.uint8)
        buffer, found = memory(gpu, data), np.empty(count, np.uint8)
        gpu.read(buffer, found.data)
        np.testing.assert_array_equal(found, data)
    assert gpu.allocator.alloc(0).nbytes == 0


def test_broken_code_is_refused_with_the_reason(gpu):
    with pytest.raises(InternalError, match=r"Dawn rejected generated code.*parsing WGSL"):
        gpu.load(b"fn f( {", [])
    np.testing.assert_array_equal(values(gpu, memory(gpu, np.ones(4, np.float32))), 1)


def test_too_much_memory_is_refused_and_nothing_is_lost(gpu):
    kept = memory(gpu, np.ones(N, np.float32))
    with pytest.raises(OutOfMemory, match="at most"):
        gpu.allocator.alloc(1 << 50)
    np.testing.assert_array_equal(values(gpu, kept), 1)


def test_pointers_and_views_are_refused_by_name(gpu):
    with pytest.raises(DeviceError, match="WEBGPU cannot use memory of somebody else"):
        gpu.allocator.from_pointer(1 << 20, 16)
    with pytest.raises(DeviceError, match="no access to WEBGPU memory"):
        gpu.allocator.alloc(16).view()


def test_a_lost_device_says_so_and_others_go_on():
    gpu, other = opened(), opened()
    buffer = memory(gpu, np.ones(N, np.float32))
    gpu.destroy()
    for use in (gpu.synchronize, lambda: values(gpu, buffer), lambda: gpu.run([])):
        with pytest.raises(DeviceError, match="the device was lost"):
            use()
    np.testing.assert_array_equal(values(other, memory(other, np.ones(4, np.float32))), 1)


def test_two_threads_launch_at_once(gpu):
    library = gpu.load(ADD.encode(), [add_entry()])
    wrong = []

    def work(number):
        x = np.full(N, number, np.float32)
        for _ in range(20):
            a, b = memory(gpu, x), gpu.allocator.alloc(4 * N)
            gpu.run([Launch(library.phases, [a.argument, b.argument], INTEGERS)])
            if not (values(gpu, b) == number + 10).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


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


def test_a_process_may_end_while_kernels_run(gpu):
    done = run(USE + "y = [(x * 2).realize() for _ in range(50)]\nprint('end')")
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


def test_two_processes_compute_at_once(gpu):
    program = USE + "print(int((x + 1).sum().item()))"
    both = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [p.communicate(timeout=120)[0] for p in both] == ["2000\n"] * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_is_told(gpu):
    program = (
        USE
        + """
import os
child = os.fork()
if child == 0:
    try:
        (x + 1).numpy()
    except Exception as error:
        print(type(error).__name__, "forked" in str(error), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print((x + 1).sum().item())
"""
    )
    done = run(program)
    assert done.stdout.splitlines() == ["DeviceError True", "2000.0"], done.stderr


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
