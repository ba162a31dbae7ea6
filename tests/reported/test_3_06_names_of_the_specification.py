"""Names of the specification's API that were missing or refused."""

import ctypes
import importlib
import pathlib

import numpy as np
import pytest

import treadle
from treadle import Device, GlobalCounters, Tensor, Variable, dtypes, nn
from treadle.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    SettingError,
    ShapeError,
    UserError,
)
from treadle.helpers import fetch, getenv, to_mv, tqdm, trange

# -- lists of tensors ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple])
def test_3_06_stack_and_cat_take_a_list(kind, device):
    a, b = (Tensor([[1.0, 2.0]], device=device) + i for i in range(2))
    assert Tensor.stack(kind((a, b))).tolist() == Tensor.stack(a, b).tolist()
    assert Tensor.stack(kind((a, b)), dim=-1).tolist() == Tensor.stack(a, b, dim=-1).tolist()
    assert Tensor.cat(kind((a, b)), 1).tolist() == [[1, 2, 2, 3]]
    assert a.cat(kind((b, b)), dim=0).tolist() == [[1, 2], [2, 3], [2, 3]]


@pytest.mark.parametrize("name", ["hstack", "vstack", "dstack", "column_stack", "block_diag",
                                  "broadcast_tensors", "concat", "meshgrid"])  # fmt: skip
def test_3_06_what_joins_tensors_takes_a_list(name):
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    joined, listed = getattr(Tensor, name)(a, b), getattr(Tensor, name)([a, b])
    if isinstance(joined, Tensor):
        joined, listed = (joined,), (listed,)
    assert [t.tolist() for t in listed] == [t.tolist() for t in joined]


def test_3_06_lists_that_do_not_join_are_refused():
    with pytest.raises(ArgumentError, match=r"\[cat\] the list is empty"):
        Tensor.cat([])
    with pytest.raises(DTypeError, match=r"\[stack\] joins tensors, not a int"):
        Tensor.stack([1, 2])


# -- dtypes ----------------------------------------------------------------------------------------


def test_3_06_dtypes_tell_of_their_values():
    assert (dtypes.min("int8"), dtypes.max(dtypes.uint16)) == (-128, 65535)
    assert (dtypes.min(dtypes.float32), dtypes.max(dtypes.bool)) == (-float("inf"), True)
    assert dtypes.finfo(dtypes.float32) == (8, 23)
    assert dtypes.finfo(dtypes.bfloat16) == (8, 7)
    assert all(sum(dtypes.finfo(kind)) + 1 == kind.bits for kind in dtypes.floats)
    assert dtypes.fp8s == (dtypes.fp8e4m3, dtypes.fp8e5m2)
    assert dtypes.fields()["half"] is dtypes.fields()["float16"] is dtypes.float16
    assert dtypes.float32.scalar() is dtypes.float32.vec(4).scalar() is dtypes.float32
    with pytest.raises(DTypeError):
        dtypes.finfo(dtypes.int32)
    with pytest.raises(DTypeError):
        dtypes.max(dtypes.complex64)


# -- devices and helpers ---------------------------------------------------------------------------


def test_3_06_devices_have_a_module_and_a_default():
    module = importlib.import_module("treadle.device")
    assert treadle.device is module
    assert module.Device is Device
    assert Device.default is Device[Device.DEFAULT]
    assert module.is_dtype_supported(dtypes.float32)
    assert module.is_dtype_supported("half", "CPU")
    with pytest.raises(DeviceError):
        module.is_dtype_supported(dtypes.float32, "TOASTER")


def test_3_06_getenv_and_fetch_are_names_of_the_package(monkeypatch):
    assert treadle.getenv is getenv
    assert treadle.fetch is fetch
    monkeypatch.setenv("STEPS", "x")
    with pytest.raises(SettingError):
        treadle.getenv("STEPS", 1)


def test_3_06_fetch_keeps_what_it_downloads(tmp_path, monkeypatch):
    source = tmp_path / "data.bin"
    source.write_bytes(b"abc")
    monkeypatch.setattr("treadle.helpers._downloads", lambda: tmp_path / "kept")
    found = fetch(source.as_uri(), name="mine.bin", subdir="sets")
    assert found == tmp_path / "kept" / "sets" / "mine.bin"
    assert found.read_bytes() == b"abc"
    source.write_bytes(b"other")
    assert fetch(source.as_uri(), name="mine.bin", subdir="sets").read_bytes() == b"abc"
    again = fetch(source.as_uri(), name="mine.bin", subdir="sets", allow_caching=False)
    assert again.read_bytes() == b"other"
    assert fetch(str(source)) == source
    with pytest.raises(UserError, match="lies outside of"):
        fetch(source.as_uri(), name="../../mine.bin")
    with pytest.raises(UserError, match=r"\[fetch\] .* is no URL"):
        fetch("ftp://nowhere/x")
    with pytest.raises(UserError, match=r"\[fetch\] .* cannot be read"):
        fetch(source.as_uri(), gunzip=True)


def test_3_06_to_mv_shows_memory():
    data = (ctypes.c_uint8 * 8)(*range(8))
    view = to_mv(ctypes.addressof(data), 8)
    assert list(view) == list(range(8))
    assert view.cast("Q")[0] == int.from_bytes(bytes(range(8)), "little")
    view[0] = 9
    assert data[0] == 9
    with pytest.raises(ArgumentError):
        to_mv(0, 8)


def test_3_06_opencls_own_functions_are_there():
    pytest.importorskip("pyopencl", reason="its OpenCL loader")
    from treadle.runtime.autogen import opencl as cl

    count = ctypes.c_uint32()
    status = cl.clGetPlatformIDs(0, None, ctypes.byref(count))
    assert status in (cl.CL_SUCCESS, -1001)  # -1001: no platform is installed
    if not count.value:
        pytest.skip("no OpenCL platform is installed")
    platform = ctypes.c_void_p()
    assert cl.clGetPlatformIDs(1, ctypes.byref(platform), None) == cl.CL_SUCCESS
    size = ctypes.c_size_t()
    assert cl.clGetPlatformInfo(platform, cl.CL_PLATFORM_NAME, 0, None, ctypes.byref(size)) == 0
    name = ctypes.create_string_buffer(size.value)
    assert cl.clGetPlatformInfo(platform, cl.CL_PLATFORM_NAME, size, name, None) == 0
    assert name.value
    with pytest.raises(AttributeError):
        _ = cl.clNoSuchFunction


def test_3_06_bars_take_the_options_of_the_specification(capsys):
    for _ in tqdm(range(3), desc="load", unit="B", unit_scale=True, rate=1000, disable=False):
        pass
    assert "load: 100%|" in capsys.readouterr().err
    with tqdm(total=2000, unit_scale=True, disable=False) as bar:
        bar.update(1500)
        bar.set_postfix(loss=0.5)
        bar.update(500)
        assert bar.n == 2000
    shown = capsys.readouterr().err
    assert "2k/2k" in shown
    assert "loss=0.5" in shown
    assert list(trange(2, disable=True)) == [0, 1]
    assert len(tqdm([1, 2, 3])) == 3
    with pytest.raises(ArgumentError, match="nothing to iterate over"):
        iter(tqdm(total=3))


# -- files -----------------------------------------------------------------------------------------


def test_3_06_a_path_is_a_tensor_of_its_bytes(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(range(16)))
    assert Tensor(path).dtype is dtypes.uint8
    assert Tensor(path).tolist() == list(range(16))
    assert Tensor(pathlib.Path(path), dtype="int32").tolist() == (
        np.arange(16, dtype=np.uint8).view(np.int32).tolist()
    )
    changed = Tensor(path).contiguous()
    changed.assign(Tensor.zeros(16, dtype="uint8")).realize()
    assert path.read_bytes() == bytes(range(16))
    path.write_bytes(bytes(15))
    with pytest.raises(ShapeError, match="15 bytes, no multiple of the 4 of int32"):
        Tensor(path, dtype="int32")
    with pytest.raises(UserError, match="cannot be read"):
        Tensor(tmp_path / "absent")


def test_3_06_a_disk_device_is_a_file_that_is_written(tmp_path):
    device = f"disk:{tmp_path / 'y.bin'}"
    x = Tensor.empty(4, dtype="int32", device=device)
    x.assign(Tensor([1, 2, 3, 4])).realize()
    assert np.fromfile(tmp_path / "y.bin", np.int32).tolist() == [1, 2, 3, 4]
    assert Tensor.empty(2, 2, dtype="int32", device=device).tolist() == [[1, 2], [3, 4]]
    moved = Tensor([1.0, 2.0]).to(f"DISK:{tmp_path / 'z.bin'}")
    assert moved.tolist() == np.fromfile(tmp_path / "z.bin", np.float32).tolist() == [1.0, 2.0]
    Tensor([5, 6], device=f"disk:{tmp_path / 'q.bin'}")
    assert np.fromfile(tmp_path / "q.bin", np.int32).tolist() == [5, 6]
    with pytest.raises(DeviceError, match='"disk:" needs a path'):
        Tensor.empty(1, device="disk:")
    with pytest.raises(UserError, match="cannot be written"):
        Tensor.empty(1, device=f"disk:{tmp_path / 'no' / 'x'}")


def test_3_06_a_tensor_is_read_as_a_file():
    file = nn.state.TensorIO(Tensor(b"one\ntwo\n"))
    assert file.readline() == b"one\n"
    assert file.read(2) == b"tw"
    assert file.seek(0) == 0
    assert file.read() == b"one\ntwo\n"
    with pytest.raises(DTypeError):
        nn.state.TensorIO(Tensor([1.0]))
    with pytest.raises(ShapeError):
        nn.state.TensorIO(Tensor([[1]], dtype="uint8"))


# -- variables -------------------------------------------------------------------------------------


def test_3_06_a_bound_variable_tells_its_value():
    n = Variable("n", 1, 10)
    assert n.bind(3).val == 3
    assert n.bind(3).unbind() == (n, 3)
    with pytest.raises(UserError, match=r"\[unbind\] only a bound Variable has a value"):
        n.unbind()


def test_3_06_arange_takes_variables(device):
    n = Variable("n", 1, 10)
    GlobalCounters.reset()
    for count in (3, 7):
        bound = n.bind(count)
        assert Tensor.arange(bound, device=device).sum().item() == sum(range(count))
        doubled = Tensor.arange(1, bound * 3, 2, device=device)
        assert doubled.sum().item() == sum(range(1, count * 3, 2))
    with pytest.raises(ShapeError, match="the step is a number of 1 or more"):
        Tensor.arange(n.bind(3), step=0)


# -- gradients of constants ------------------------------------------------------------------------


def test_3_06_constants_have_gradients_of_their_own(device):
    x, y = Tensor.eye(3, device=device), Tensor([[2.0, 0.0, -2.0]], device=device)
    dx, dy = y.matmul(x).sum().gradient(x, y)
    assert dx.tolist() == [[2.0] * 3, [0.0] * 3, [-2.0] * 3]
    assert dy.tolist() == [[1.0] * 3]


def test_3_06_equal_constants_are_told_apart():
    a, b = Tensor.ones(3), Tensor.ones(3)
    product = (a * b * 3).sum()
    assert [g.tolist() for g in product.gradient(a, b)] == [[3.0] * 3, [3.0] * 3]
    with pytest.raises(UserError, match="do not influence"):
        (a * 2).sum().gradient(b)
    assert (Tensor.full((2,), 3.0) + Tensor.full((2,), 3.0)).tolist() == [6.0, 6.0]


def test_3_06_a_graph_of_other_constants_is_compiled_once():
    (Tensor.ones(37) * 3 + Tensor.ones(37)).sum().item()
    GlobalCounters.reset()
    assert (Tensor.ones(37) * 3 + Tensor.ones(37)).sum().item() == 148
    assert GlobalCounters.compile_count == 0
