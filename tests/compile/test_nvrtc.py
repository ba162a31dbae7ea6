"""CUDA C to PTX and machine code, and what is said where that fails."""

from dataclasses import replace
from pathlib import Path

import pytest

from treadle.compile import nvrtc
from treadle.compile.nvrtc import NVRTCCompiler
from treadle.errors import DeviceError, InternalError
from treadle.target import parse_target

SOURCE = 'extern "C" __global__ void f(float *a) { a[threadIdx.x] *= 2.0f; }'


@pytest.fixture
def target():
    found = parse_target("sm_90a")
    missing = NVRTCCompiler(found).available()
    if missing:
        pytest.skip(missing)
    return found


def test_ptx_and_machine_code_come_of_one_source(target):
    ptx = NVRTCCompiler(target).compile(SOURCE).decode()
    assert ".target sm_90a" in ptx
    assert ".visible .entry f(" in ptx
    assert NVRTCCompiler(target, "cubin").compile(SOURCE).startswith(b"\x7fELF")
    assert NVRTCCompiler(target).version != NVRTCCompiler(target, "cubin").version


def test_rejected_source_is_saved_with_the_compilers_log(target):
    with pytest.raises(InternalError, match=r'identifier "nothing" is undefined') as caught:
        NVRTCCompiler(target).compile('extern "C" __global__ void f() { nothing(); }')
    path = Path(str(caught.value).partition("saved as ")[2].partition(")")[0])
    assert "nothing()" in path.read_text()
    path.unlink()


def test_an_architecture_that_this_release_lacks_is_named(target):
    old = NVRTCCompiler(replace(target, cpu="sm_50"))
    with pytest.raises(DeviceError, match=r"NVRTC [\d.]+ ptx has no code for sm_50, only for sm_"):
        old.compile(SOURCE)


def test_a_missing_library_says_what_brings_it(monkeypatch):
    def fail(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(nvrtc.importlib, "import_module", fail)
    monkeypatch.setattr(nvrtc, "_binding", nvrtc._binding.__wrapped__)
    monkeypatch.setattr(nvrtc, "_architectures", nvrtc._architectures.__wrapped__)
    said = NVRTCCompiler(parse_target("sm_80")).available()
    assert said is not None
    assert "No module named 'cuda.bindings.nvrtc'); `pip install \"treadle[cuda]\"`" in said
