"""Tensor.from_blob: memory of other libraries is used in place, kept alive, and checked."""

from __future__ import annotations

import gc
import warnings
import weakref

import numpy as np
import pytest

from treadle import Device, Tensor, TinyJit, dtypes
from treadle.errors import DeviceError, ShapeError, UnsafeBlobWarning, UserError


class Array(np.ndarray):
    """An array that can be watched."""


def array(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape).view(Array)


@pytest.fixture(params=["CPU", "REF", "CL"])
def host(request):
    """Each device that takes addresses of the host."""
    try:
        opened = Device[request.param]
    except DeviceError as error:
        pytest.skip(str(error))
    if not opened.runtime.shares_memory:
        pytest.skip(f"{request.param} has memory of its own")
    return request.param


def blob(data, device="CPU", **options):
    options = {"owner": data, "dtype": str(data.dtype), **options}
    return Tensor.from_blob(data.ctypes.data, data.shape, device=device, **options)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint16", "bool"])
def test_values_are_read_in_place(host, dtype):
    data = (array(3, 5) % 2).astype(dtype)
    x = blob(data, host)
    assert (x.shape, x.dtype.name, x.device) == ((3, 5), dtype, host)
    data[1, 2] = 1 - data[1, 2].astype(int)
    np.testing.assert_array_equal(x.numpy(), data)
    np.testing.assert_array_equal((x.cast("int32") + 1).numpy(), data.astype(np.int32) + 1)


def test_what_is_assigned_is_seen_by_the_owner_and_the_other_way(host):
    data = array(4, 4)
    x = blob(data, host)
    x.assign(x * 2).realize()
    Device[host].synchronize()
    np.testing.assert_array_equal(data, 2 * array(4, 4))
    x[1] = 7
    x.realize()
    Device[host].synchronize()
    assert data[1].tolist() == [7] * 4
    data[0, 0] = 100
    assert x[0, 0].item() == 100


def test_what_was_computed_before_keeps_its_value(host):
    data = array(3)
    x = blob(data, host)
    y = (x + 1).realize()
    Device[host].synchronize()
    data[:] = 9
    assert y.tolist() == [1, 2, 3]
    assert (x + 2).tolist() == [11, 11, 11]


def test_the_owner_lives_as_long_as_any_tensor_needs_it(host):
    data = array(1000)
    owner = weakref.ref(data)
    x = blob(data, host)
    view = x.reshape(10, 100)[2:4] + 1
    del data, x
    gc.collect()
    assert owner() is not None
    np.testing.assert_array_equal(view.numpy(), np.arange(200, 400).reshape(2, 100) + 1)
    del view
    gc.collect()
    assert owner() is None


def test_the_deleter_is_called_once_when_the_last_tensor_is_gone(host):
    data, calls = array(6), []
    x = blob(data, host, owner=None, deleter=lambda: calls.append(data.sum()))
    y = x * 2
    del x
    gc.collect()
    assert calls == []
    y.realize()
    del y
    gc.collect()
    assert calls == [15]


def test_a_deleter_that_cannot_be_called_is_refused():
    data = array(3)
    with pytest.raises(UserError, match=r"deleter is called without arguments.*a int"):
        Tensor.from_blob(data.ctypes.data, (3,), deleter=5)


def test_the_deleter_waits_for_kernels_that_still_run(host):
    data = np.ones((400, 400), np.float32)
    for _ in range(5):
        copy = data.copy()
        x = blob(copy, host, owner=None, deleter=lambda copy=copy: copy.fill(np.nan))
        y = (x @ x).realize()
        del x
        gc.collect()
        assert y.sum().item() == 400**3


def test_memory_that_nobody_owns_is_warned_of():
    data = array(2)
    with pytest.warns(UnsafeBlobWarning, match="nothing keeps this memory alive"):
        Tensor.from_blob(data.ctypes.data, (2,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        blob(data)


def test_a_captured_function_takes_blobs_as_inputs(host):
    double = TinyJit(lambda x: (x * 2).realize())
    for number in range(5):
        data = array(8) + number
        assert double(blob(data, host)).tolist() == (2 * data).tolist()


# -- strides and read-only memory -----------------------------------------------------------------


@pytest.mark.parametrize(("shape", "strides"), [((3, 4), (4, 1)), ((3, 1, 4), (4, 7, 1)), ((), ())])
def test_strides_in_row_major_order_are_taken(shape, strides):
    data = array(12)
    x = Tensor.from_blob(data.ctypes.data, shape, strides=strides, owner=data)
    np.testing.assert_array_equal(x.numpy(), data[: x.numel()].reshape(shape))


@pytest.mark.parametrize(("shape", "strides"), [((3, 4), (1, 3)), ((4,), (-1,)), ((2, 3), (0, 1))])
def test_other_strides_are_refused_with_what_to_do(shape, strides):
    data = array(12)
    with pytest.raises(ShapeError, match=r"not row-major.*view it with \.permute"):
        Tensor.from_blob(data.ctypes.data, shape, strides=strides, owner=data)
    with pytest.raises(ShapeError, match="do not fit the shape"):
        Tensor.from_blob(data.ctypes.data, shape, strides=(*strides, 1), owner=data)


def test_views_of_a_blob_are_written_through(host):
    data = array(2, 3)
    x = blob(data, host)
    view = x.T
    view.assign(Tensor(np.array([[9, 8], [7, 6], [5, 4]], np.float32), device=host)).realize()
    Device[host].synchronize()
    assert data.tolist() == [[9, 7, 5], [8, 6, 4]]


def test_read_only_memory_is_read_and_never_written(host):
    data = array(2, 2)
    x = blob(data, host, readonly=True)
    for change in (
        lambda: x.assign(x + 1),
        lambda: x.__setitem__(0, 5.0),
        lambda: x.reshape(4).assign(Tensor.zeros(4, device=host)),
    ):
        with pytest.raises(DeviceError, match="read-only: assign to a copy"):
            change()
    copy = x.clone()
    copy.assign(copy + 1).realize()
    assert (x * 2).tolist() == (2 * data).tolist()
    assert data.tolist() == [[0, 1], [2, 3]]


# -- mistakes -------------------------------------------------------------------------------------


def test_too_little_memory_is_refused():
    data = array(6)
    with pytest.raises(ShapeError, match=r"takes 28 bytes.*only 24"):
        Tensor.from_blob(data.ctypes.data, (7,), nbytes=data.nbytes, owner=data)
    x = Tensor.from_blob(data.ctypes.data, (2, 2), nbytes=data.nbytes, owner=data)
    assert x.tolist() == [[0, 1], [2, 3]]


def test_pointers_that_cannot_be_are_refused(host):
    data = array(6)
    refused = {0: "null", -8: "negative", data.ctypes.data + 2: "multiple", 1 << 64: "64 bits"}
    for pointer, message in refused.items():
        with pytest.raises(DeviceError, match=message):
            Tensor.from_blob(pointer, (2,), owner=data, device=host)
    odd = Tensor.from_blob(data.ctypes.data + 3, (4,), "uint8", owner=data, device=host)
    np.testing.assert_array_equal(odd.numpy(), np.frombuffer(data, np.uint8)[3:7])
    address = np.uint64(data.ctypes.data)
    assert Tensor.from_blob(address, (1,), owner=data, device=host).tolist() == [0]


def test_no_elements_need_no_memory(host):
    x = Tensor.from_blob(0, (0, 3), owner=host, device=host)
    assert x.sum(axis=0).tolist() == [0, 0, 0]
    assert x.numpy().shape == (0, 3)


def test_shapes_and_dtypes_are_checked():
    data = array(6)
    with pytest.raises(ShapeError, match="0 or more"):
        Tensor.from_blob(data.ctypes.data, (-1, 3), owner=data)
    with pytest.raises(ShapeError, match="0 or more"):
        Tensor.from_blob(data.ctypes.data, (1.5,), owner=data)
    with pytest.raises(TypeError, match="unknown dtype 'abacus'"):
        Tensor.from_blob(data.ctypes.data, (6,), dtype="abacus", owner=data)
    with pytest.raises(DeviceError, match="on one device"):
        Tensor.from_blob(data.ctypes.data, (6,), device=("CPU", "CPU:1"), owner=data)
    assert Tensor.from_blob(data.ctypes.data, 6, owner=data).shape == (6,)
    assert Tensor.from_blob(data.ctypes.data, (6,), owner=data).dtype is dtypes.float32


def test_objects_are_refused_where_only_addresses_are_known():
    with pytest.raises(DeviceError, match="CPU cannot use an object of type ndarray"):
        Tensor.from_blob(np.zeros(3), (3,), device="CPU", owner=0)


@pytest.mark.parametrize("device", ["WEBGPU", "NULL"])
def test_devices_without_pointers_refuse_by_name(device):
    try:
        Device[device]
    except DeviceError as error:
        pytest.skip(str(error))
    data = array(6)
    with pytest.raises(DeviceError, match=f"{device} cannot use memory of somebody else"):
        blob(data, device)


# -- other libraries ------------------------------------------------------------------------------


def test_memory_of_torch_is_shared(host):
    torch = pytest.importorskip("torch")
    theirs = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    x = Tensor.from_blob(
        theirs.data_ptr(), theirs.shape, strides=theirs.stride(), owner=theirs, device=host
    )
    np.testing.assert_array_equal(x.T.numpy(), theirs.T.numpy())
    theirs += 1
    np.testing.assert_array_equal((x * 2).numpy(), 2 * theirs.numpy())
    x.assign(x * 0 + 5).realize()
    Device[host].synchronize()
    assert theirs.tolist() == [[5] * 4] * 3


@pytest.fixture
def cl_buffer():
    """A pyopencl buffer of eight numbers, on the CL device's context."""
    pyopencl = pytest.importorskip("pyopencl")
    try:
        context = Device["CL"].runtime.context
    except DeviceError as error:
        pytest.skip(str(error))
    flags = pyopencl.mem_flags.READ_WRITE | pyopencl.mem_flags.COPY_HOST_PTR
    return pyopencl.Buffer(context, flags, hostbuf=array(8))


def theirs_now(buffer):
    import pyopencl

    Device["CL"].synchronize()
    found = np.empty(8, np.float32)
    pyopencl.enqueue_copy(Device["CL"].runtime.queue, found, buffer, is_blocking=True)
    return found.tolist()


@pytest.mark.parametrize("form", ["object", "cl_mem"])
def test_a_pyopencl_buffer_is_used_in_place(cl_buffer, form):
    import pyopencl

    given = cl_buffer if form == "object" else pyopencl.Buffer.from_int_ptr(cl_buffer.int_ptr)
    x = Tensor.from_blob(given, (2, 4), device="CL", owner=cl_buffer)
    assert (x + 1).tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    x.assign(x * 10).realize()
    assert theirs_now(cl_buffer) == [0, 10, 20, 30, 40, 50, 60, 70]
    queue = Device["CL"].runtime.queue
    pyopencl.enqueue_copy(queue, cl_buffer, np.full(8, 3, np.float32), is_blocking=True)
    assert x.sum().item() == 24


def test_a_pyopencl_buffer_outlives_its_name(cl_buffer):
    import pyopencl

    x = Tensor.from_blob(
        pyopencl.Buffer.from_int_ptr(cl_buffer.int_ptr), (8,), device="CL", owner=0
    )
    del cl_buffer
    gc.collect()
    assert (x + 0).tolist() == list(range(8))


def test_a_pyopencl_buffer_that_does_not_fit_is_refused(cl_buffer):
    import pyopencl

    with pytest.raises(DeviceError, match="32 bytes, but 36 are needed"):
        Tensor.from_blob(cl_buffer, (9,), device="CL", owner=cl_buffer)
    with pytest.raises(DeviceError, match="CPU cannot use an object of type Buffer"):
        Tensor.from_blob(cl_buffer, (8,), device="CPU", owner=cl_buffer)
    other = pyopencl.Context([Device["CL"].runtime.facts.handle])
    foreign = pyopencl.Buffer(other, pyopencl.mem_flags.READ_WRITE, 32)
    with pytest.raises(DeviceError, match="another OpenCL context"):
        Tensor.from_blob(foreign, (8,), device="CL", owner=foreign)
