"""Which device is chosen, by the machine and by the environment; what is said of absent ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from treadle import Device, Tensor
from treadle.backends import BACKENDS, Backend, cpu
from treadle.config import settings
from treadle.engine import devices
from treadle.engine.inventory import inventory
from treadle.engine.selection import environment_choice, parse_choice, spellings
from treadle.errors import DeviceError, SettingError
from treadle.target import host_target

CHOOSING = ("DEV", "EMULATE", "TREADLE_EMULATE", *spellings())
SHOW = "from treadle import Device; print(Device.DEFAULT)"
OPEN = "from treadle import Device; d = Device[Device.DEFAULT]; print(d.name, d.compiler.name)"


def run(code, *arguments, **variables):
    kept = {k: v for k, v in os.environ.items() if k not in CHOOSING}
    return subprocess.run(
        [sys.executable, *(("-c", code) if code else ()), *arguments],
        env={**kept, **variables}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip


def opens(name):
    try:
        Device[name]
    except DeviceError:
        return False
    return True


# -- without a wish -------------------------------------------------------------------------------


def test_a_processor_that_plays_the_gpu_is_never_taken_by_itself():
    code = (
        "from treadle import Device\n"
        "from treadle.backends import Backend\n"
        "Backend.may_be_here = lambda self: True\n"
        "print(Device.DEFAULT)\n"
        "print([n for n, d in Device._opened.items() if not d.runtime.is_software])\n"
    )
    chosen, real = run(code).stdout.splitlines()
    assert chosen == "CPU" or repr(chosen) in real


class Runtime:
    def __init__(self, is_software):
        self.is_software = is_software


class Opened:
    def __init__(self, is_software):
        self.runtime = Runtime(is_software)


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ({"CL": True, "WEBGPU": True}, "CPU"),
        ({"CL": True, "WEBGPU": False}, "WEBGPU"),
        ({"CL": False, "WEBGPU": False}, "CL"),
        ({"WEBGPU": True}, "CPU"),
        ({}, "CPU"),
    ],
    ids=str,
)
def test_the_first_runtime_with_a_real_gpu_is_the_default(monkeypatch, found, chosen):
    class Devices:
        def __getitem__(self, name):
            if name not in found:
                raise DeviceError(f"no {name}")
            return Opened(found[name])

    monkeypatch.setattr(Backend, "may_be_here", lambda self: True)
    monkeypatch.setattr(devices, "Device", Devices())
    assert devices._best_hardware.__wrapped__() == chosen


def test_without_a_driver_for_a_gpu_nothing_is_loaded(monkeypatch):
    monkeypatch.setattr(Backend, "may_be_here", lambda self: False)
    monkeypatch.setattr(devices, "Device", None)
    assert devices._best_hardware.__wrapped__() == "CPU"


def test_importing_loads_no_optional_package():
    code = "import sys, treadle; print([m for m in ('pyopencl', 'pydawn', 'wgpudawn', 'cuda') "
    assert run(code + "if m in sys.modules])").stdout == "[]\n"


# -- with a wish ----------------------------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch):
    """Sets variables in an environment that asks for nothing."""

    def use(variables):
        for name in CHOOSING:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        settings.reload()

    yield use
    monkeypatch.undo()
    settings.reload()


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"DEV": "CL"}, "CL"),
        ({"DEV": "cl:0"}, "CL"),
        ({"DEV": "CL:1"}, "CL:1"),
        ({"DEV": "CL:OPENCL"}, "CL"),
        ({"DEV": "CL:0:OPENCL:gpu"}, "CL"),
        ({"DEV": "CL:0:OPENCL:gpu,-fp64"}, "CL"),
        ({"CL": "1"}, "CL"),
        ({"GPU": "1"}, "CL"),
        ({"GPU": "1", "CL": "1"}, "CL"),
        ({"DEV": "CL", "GPU": "1", "CPU": "0"}, "CL"),
        ({"DEV": "webgpu"}, "WEBGPU"),
        ({"WEBGPU": "1"}, "WEBGPU"),
        ({"DEV": "WEBGPU:WGSL"}, "WEBGPU"),
        ({"CL": "0", "WEBGPU": ""}, "CPU"),
        ({"DEV": ""}, "CPU"),
        ({"DEV": "REF"}, "REF"),
        ({"CUDA": "1"}, "CUDA"),
        ({"CUDA_PTX": "1", "CUDA": "1"}, "CUDA"),
        ({"DEV": "CUDA:1"}, "CUDA:1"),
        ({"DEV": "cuda:0:nvrtc:sm_90a"}, "CUDA"),
        ({"DEV": "CUDA:PTX"}, "CUDA"),
        ({"DEV": "CUDA:1", "EMULATE": "2"}, "CUDA:1"),
        ({"CPU": "1", "EMULATE": "0"}, "CPU"),
        ({"EMULATE": "1"}, "CPU"),
    ],
    ids=str,
)
def test_the_environment_names_the_device(environment, variables, name):
    environment(variables)
    choice = environment_choice.__wrapped__()
    assert (choice.name if choice else "CPU") == name


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"DEV": "GPX"}, ("DEV=GPX", "no device 'GPX'", "CL", "WEBGPU")),
        ({"DEV": "CL:WGSL"}, ("CL has no compiler 'WGSL'", "OPENCL")),
        ({"DEV": "REF:NUMPY:fast"}, ("REF has no architectures",)),
        ({"DEV": "PCI+CL"}, ("CL has no interfaces", "leave PCI+ out")),
        ({"CL": "1", "WEBGPU": "1"}, ("CL=1", "WEBGPU=1", "contradict")),
        ({"DEV": "WEBGPU", "GPU": "1"}, ("DEV=WEBGPU", "GPU=1")),
        ({"DEV": "CUDA:NVRTC", "CUDA_PTX": "1"}, ("DEV=CUDA:NVRTC", "CUDA_PTX=1", "contradict")),
        ({"DEV": "CUDA:NVCC"}, ("CUDA has no compiler 'NVCC'", "NVRTC, PTX")),
        ({"CL": "2"}, ("CL=2 is not allowed", "0 or 1")),
        (
            {"CL": "1", "EMULATE": "1"},
            ("CL=1", "EMULATE=1", "CL has no emulator, only CUDA, METAL, AMD, NV"),
        ),
        ({"DEV": "CPU", "EMULATE": "sm_90a"}, ("DEV=CPU", "EMULATE=sm_90a", "contradict")),
        ({"WEBGPU": "1", "TREADLE_EMULATE": "2"}, ("WEBGPU=1", "TREADLE_EMULATE=2")),
        ({"CUDA": "1", "EMULATE": "yes"}, ("EMULATE=yes is not allowed", "0 to 16, or a chip")),
        ({"NV_IFACE": "PCI"}, ("NV has no interface 'PCI'", "it has NVK")),
        ({"NV": "1", "NV_PTX": "1", "CUDA": "1"}, ("CUDA=1", "contradict")),
        ({"AMD_IFACE": "PCI"}, ("AMD has no interface 'PCI'", "it has KFD")),
        ({"AMD_HIP": "1", "AMD_LLVM": "1"}, ("AMD_HIP=1", "AMD_LLVM=1", "contradict")),
    ],
    ids=str,
)
def test_mistakes_are_named(environment, variables, words):
    environment(variables)
    with pytest.raises(SettingError) as caught:
        environment_choice.__wrapped__()
    assert all(word in str(caught.value) for word in words)


def test_a_chosen_device_opens_with_its_compiler():
    if opens("CL"):
        assert run(OPEN, GPU="1").stdout == "CL OPENCL\n"
    if opens("WEBGPU"):
        assert run(OPEN, DEV="WEBGPU").stdout == "WEBGPU WGSL\n"


def test_a_device_that_is_not_there_is_counted():
    if not opens("CL"):
        pytest.skip("no OpenCL")
    assert "there is no CL:99: OpenCL has" in run(OPEN, DEV="CL:99").stderr
    assert "-fp64, not 'abacus'" in run(OPEN, DEV="CL:OPENCL:abacus").stderr


def test_a_backend_of_webgpu_can_be_named():
    if not opens("WEBGPU"):
        pytest.skip("no WebGPU")
    error = run(OPEN, DEV="WEBGPU", WEBGPU_BACKEND="Abacus").stderr
    assert "SettingError: WEBGPU_BACKEND=Abacus is not allowed: it is one of D3D11" in error
    backend = Device["WEBGPU"].runtime.facts.backend
    for spelling in (backend, f"WGPUBackendType_{backend}"):
        assert run(OPEN, DEV="WEBGPU", WEBGPU_BACKEND=spelling).stdout == "WEBGPU WGSL\n"
    assert run(SHOW, WEBGPU_BACKEND="Abacus").stdout == "CPU\n"  # nothing asked for WebGPU


def test_a_compiler_in_a_devices_name_is_used_or_refused():
    assert Device.canonicalize("cpu:llvm") == "CPU"
    assert Device.canonicalize("CPU:1:CLANG") == "CPU:1:CLANG"
    assert Device.canonicalize("CL:0:OPENCL:gpu") == "CL:OPENCL:gpu"
    assert Device.canonicalize("cl:0:opencl:-fp64") == "CL:OPENCL:-fp64"
    with pytest.raises(DeviceError, match="CPU has no compiler 'GCC'"):
        Device.canonicalize("CPU:GCC")
    if opens("CL"):
        name = "CL:OPENCL:gpu"
        assert Device[name].target.workgroup is not None
        assert (Tensor([1.0, 2.0], device=name) * 3).tolist() == [3, 6]


@pytest.mark.skipif(Device["CPU"].target.arch != "x86_64", reason="no x86")
def test_two_architectures_of_one_processor_work_side_by_side():
    name = "CPU:LLVM:x86-64-v2"
    assert Device[name].target.vector_bytes == 16
    assert (Tensor([1.0, 2.0], device=name) + 1).to("CPU").tolist() == [2, 3]
    # Fewer instructions, but the same machine.
    named, own = Device[name].target, Device["CPU"].target
    assert (named.cores, named.l2) == (own.cores, own.l2)
    assert Device[name].runtime.threads == Device["CPU"].runtime.threads


def test_every_spelling_means_a_choice_that_exists():
    for meaning in spellings().values():
        assert parse_choice(meaning).name
    assert set(spellings()) >= {backend.name for backend in BACKENDS}


def test_instructions_that_this_processor_lacks_are_refused(monkeypatch):
    """They would end the process."""
    host = host_target()
    if host.arch != "x86_64":
        pytest.skip("the architectures below are of x86-64")
    narrow = replace(host, vector_bytes=16, has_fma=False)
    monkeypatch.setattr(cpu, "host_target", lambda: narrow)
    for arch in ("x86-64-v3", "x86-64-v4", "x86_64,core2,fma", "aarch64"):
        with pytest.raises(DeviceError, match=f"lacks instructions of {arch}; DEV=NULL:0:LLVM"):
            Device[f"CPU:7:LLVM:{arch}"].synchronize()
    assert Tensor([1.0], device="CPU:7:LLVM:x86_64,core2").tolist() == [1.0]


# -- absent libraries -----------------------------------------------------------------------------

HIDE = """
import sys
from dataclasses import replace
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyopencl", "pydawn", "wgpudawn", "cuda"):
            raise ModuleNotFoundError(name + " is hidden", name=name)
sys.meta_path.insert(0, Hidden())
import ctypes.util
ctypes.util.find_library = lambda name: None
"""


def test_without_the_libraries_everything_else_works():
    code = (
        HIDE
        + "from treadle.backends import Backend\n"
        + "Backend.may_be_here = lambda self: True\n"
        + "from treadle import Tensor, Device\n"
        + "print(Device.DEFAULT, (Tensor([1.0, 2.0]) + 1).tolist())\n"
        + "for name in ('CL', 'WEBGPU', 'CUDA'):\n"
        + "    try:\n        Tensor([1.0], device=name)\n"
        + "    except Exception as error:\n        print(type(error).__name__, error)\n"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr
    first, cl, webgpu, cuda = done.stdout.splitlines()
    assert first == "CPU [2.0, 3.0]"
    assert cl.startswith("DeviceError CL needs pyopencl, which is missing")
    assert cl.endswith('; `pip install "treadle[cl]"` brings pyopencl and PoCL')
    assert webgpu.startswith("DeviceError WEBGPU needs Dawn, which is missing")
    assert webgpu.endswith('; `pip install "treadle[webgpu]"` brings it')
    assert cuda == 'DeviceError CUDA: cuda-bindings is not installed; pip install "treadle[cuda]"'


def test_doctor_names_the_command_that_brings_what_is_absent():
    code = HIDE + "from treadle.cli import main; raise SystemExit(main(['doctor', '--json']))"
    done = run(code)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert next(row for row in found if row["compiler"] == "LLVM")["usable"]
    rows = {row["runtime"]: row for row in found}
    assert not rows["CL"]["usable"]
    assert "pyopencl, which is missing" in rows["CL"]["reason"]
    assert 'pip install "treadle[cl]"' in rows["CL"]["fix"]
    assert not rows["WEBGPU"]["usable"]
    assert 'pip install "treadle[webgpu]"' in rows["WEBGPU"]["fix"]
    compilers = {row["compiler"]: row for row in found if row["runtime"] == "CUDA"}
    assert "cuda-bindings is not installed" in compilers["PTX"]["reason"]
    assert compilers["PTX"]["fix"] == 'pip install "treadle[cuda]"'
    assert "and NVRTC, the compiler of CUDA C, is missing" in compilers["NVRTC"]["reason"]
    assert compilers["NVRTC"]["fix"].endswith("brings it, and CUDA_PTX=1 does without")


def test_doctor_describes_what_is_there():
    rows = {row.runtime: row for row in inventory() if row.compiler != "CLANG"}
    if opens("CL"):
        assert rows["CL"].usable
        assert "CL:0" in rows["CL"].reason
        assert "OpenCL" in rows["CL"].reason
    if opens("WEBGPU"):
        assert rows["WEBGPU"].usable
        assert "Dawn from" in rows["WEBGPU"].reason
    assert all(row.fix or row.usable or "not part" in row.reason for row in rows.values())
