"""HIP to objects through libamd_comgr, and what is said where that fails."""

import ctypes
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from treadle.compile import comgr
from treadle.compile.comgr import ComgrCompiler
from treadle.errors import DeviceError, InternalError
from treadle.runtime.hardware.codeobject import link
from treadle.target import amd_target

KERNEL = """
extern "C" __attribute__((device)) float __ocml_sqrt_f32(float);
extern "C" __attribute__((global)) void {name}(float *a) {{
  a[__builtin_amdgcn_workitem_id_x()] = {value};
}}"""


def source(name="f", value="2.0f"):
    return KERNEL.format(name=name, value=value)


@pytest.fixture(params=["gfx1030", "gfx90a"])
def compiler(request):
    """A compiler for each chip that is emulated and that Debian's library knows."""
    found = ComgrCompiler(amd_target(request.param))
    missing = found.available()
    if missing:
        pytest.skip(missing)
    return found


def test_a_kernel_becomes_an_object_that_links(compiler):
    code = link(compiler.compile(source()))
    assert list(code.kernels) == ["f"]
    assert [one.kind for one in code.kernels["f"].arguments] == ["global_buffer"]
    assert re.fullmatch(r"comgr \d+\.\d+ \(clang \d+\.\d+\.\d+.*\)", compiler.version)


def test_functions_of_the_device_libraries_are_linked_and_others_left_out(compiler):
    with_root, without = (
        link(compiler.compile(source(value=value))) for value in ("__ocml_sqrt_f32(*a)", "*a")
    )
    assert len(without.data) < len(with_root.data) < 2048  # one of the libraries has megabytes


def test_rejected_source_is_saved_with_the_compilers_log(compiler):
    with pytest.raises(InternalError, match="use of undeclared identifier 'nothing'") as caught:
        compiler.compile(source(value="nothing"))
    path = Path(str(caught.value).partition("saved as ")[2].partition(")")[0])
    assert "nothing" in path.read_text()
    path.unlink()


def test_handles_are_released_also_where_an_action_fails(compiler, monkeypatch):
    made, released, call = [], [], comgr._call

    def counted(name, *arguments):
        call(name, *arguments)
        if name.startswith("create_") or name == "action_data_get_data":
            made.append(arguments[-1]._obj.value)  # what a byref points to
        elif name.startswith(("destroy_", "release_")):
            released.append(arguments[0].value)

    monkeypatch.setattr(comgr, "_call", counted)
    compiler.compile(source(value="__ocml_sqrt_f32(*a)"))
    assert len(made) > 6
    assert sorted(made) == sorted(released)
    with pytest.raises(InternalError) as caught:
        compiler.compile(source(value="nothing"))
    assert sorted(made) == sorted(released)
    Path(str(caught.value).partition("saved as ")[2].partition(")")[0]).unlink()


def test_threads_get_what_each_of_them_asked_for(compiler):
    names = [f"kernel_{number}" for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda name: compiler.compile(source(name, "*a / 3")), names))
    assert [list(link(code).kernels) for code in codes] == [[name] for name in names]
    assert compiler.compile(source(names[5], "*a / 3")) == codes[5]


def test_another_process_gets_it_by_pickle(compiler):
    again = pickle.loads(pickle.dumps(compiler))
    assert again.compile(source()) == compiler.compile(source())


def test_a_chip_that_this_release_lacks_is_named(compiler, monkeypatch):
    monkeypatch.setattr(comgr, "_chips", lambda: ("gfx600", "gfx803"))
    with pytest.raises(DeviceError, match=r"has no code for gfx\w+, only for gfx600 to gfx803; "):
        compiler.compile(source())


@pytest.fixture
def forgetful(monkeypatch):
    """The module as it is before the library was looked for."""
    for name in ("_library", "_numbers", "_chips", "_version"):
        monkeypatch.setattr(comgr, name, getattr(comgr, name).__wrapped__)
    return monkeypatch


def test_a_missing_library_says_what_brings_it(forgetful):
    forgetful.setattr(comgr, "_NAMES", ("libamd_comgr.so.none",))
    said = ComgrCompiler(amd_target("gfx1030")).available()
    assert said is not None
    assert "is missing (libamd_comgr.so.none: cannot open shared object file" in said
    assert "; Debian and Ubuntu: `apt-get install libamd-comgr2` brings it" in said
    assert "AMD_LLVM=1 does without" in said


def test_the_library_of_rocm_comes_first(forgetful, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libamd_comgr.so.2").touch()
    opened = []
    forgetful.setenv("ROCM_PATH", str(tmp_path))
    forgetful.setattr(ctypes, "CDLL", lambda path: opened.append(path) or "library")
    assert comgr._library() == "library"
    assert opened == [str(tmp_path / "lib" / "libamd_comgr.so.2")]


def test_a_version_that_nobody_knows_is_named(forgetful):
    forgetful.setattr(comgr, "_numbers", lambda: (4, 1))
    said = ComgrCompiler(amd_target("gfx1030")).available()
    assert said is not None
    assert said.startswith("libamd_comgr 4.1 is not known here, only versions 2 and 3; ")
