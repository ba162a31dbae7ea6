"""DLPack in both directions: what is shared, what is copied, what is refused, and who owns it."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

import treadle
from treadle import Device, Tensor, TinyJit, dtypes
from treadle.dtype import _to_np_dtype
from treadle.errors import DeviceError, ExchangeError
from treadle.runtime import dlpack

NUMPY_DTYPES = [d for d in dtypes.all if not d.name.startswith(("bfloat", "fp8"))]
VERSIONS = [None, (0, 8), (1, 0), (1, 3), (9, 0)]


class Array(np.ndarray):
    """An array that can be watched."""


class Producer:
    """An array of another library, whose capsule can be of any version, used or broken."""

    def __init__(self, array, **asked):
        self.array, self.asked = array, asked

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**self.asked)


def values(*shape, dtype=np.float32):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def name_of(capsule):
    get = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
        ("PyCapsule_GetName", ctypes.pythonapi)
    )
    return get(capsule)


def shares(a, b):
    return np.may_share_memory(np.asarray(a), np.asarray(b))


# -- out: dtypes, shapes, versions ----------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dtype", NUMPY_DTYPES, ids=lambda d: d.name)
def test_numpy_reads_every_dtype_in_place(dtype, version):
    x = Tensor(values(2, 3, dtype=_to_np_dtype(dtype)))
    capsule = x.__dlpack__(max_version=version)
    legacy = version in (None, (0, 8))
    assert name_of(capsule) == (b"dltensor" if legacy else b"dltensor_versioned")
    array = np.from_dlpack(Producer(x, max_version=version))
    assert array.dtype == dtype.name
    np.testing.assert_array_equal(array, values(2, 3, dtype=array.dtype))
    assert array.flags.writeable is not legacy  # NumPy trusts old capsules no further
    x.assign(Tensor.zeros(2, 3, dtype=dtype)).realize()
    assert not array.any()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda d: d.name)
def test_every_dtype_goes_round(dtype, version):
    x = Tensor(values(2, 3, dtype=_to_np_dtype(dtype)))
    y = Tensor.from_dlpack(x.__dlpack__(max_version=version))
    assert (y.dtype, y.shape) == (dtype, (2, 3))
    assert shares(x, y)
    np.testing.assert_array_equal(y.numpy(), x.numpy())


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (1, 5, 1), (2, 3, 4)])
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_all_shapes_go_both_ways(shape, version):
    theirs = values(*shape)
    x = Tensor.from_dlpack(Producer(theirs, max_version=version), copy=False)
    assert x.shape == shape
    np.testing.assert_array_equal(x.numpy(), theirs)
    np.testing.assert_array_equal((x + 1).numpy(), theirs + 1)
    back = np.from_dlpack(Producer(x, max_version=version, copy=False))
    assert back.shape == shape
    np.testing.assert_array_equal(back, theirs)
    assert not theirs.size or shares(back, theirs)


def test_lazy_tensors_are_computed_first_and_shared_from_then_on():
    x = Tensor(values(4)) * 2 + 1
    array = np.from_dlpack(x)
    assert array.tolist() == [1, 3, 5, 7]
    array[0] = 50
    assert x.tolist() == [50, 3, 5, 7]
    ones = np.from_dlpack(Tensor.ones(2, 2))
    assert ones.tolist() == [[1, 1], [1, 1]]


def test_what_is_assigned_is_seen_there():
    x = Tensor(values(4)).realize()
    array = np.from_dlpack(x)
    x.assign(x + 10).realize()
    assert array.tolist() == [10, 11, 12, 13]
    x.assign(x * 2)
    assert np.from_dlpack(x).tolist() == [20, 22, 24, 26]
    assert array.tolist() == [20, 22, 24, 26]


SHARED_VIEWS = {
    "transposed": lambda x: x.T,
    "rows": lambda x: x[1:3],
    "columns": lambda x: x[:, 1:4],
    "stepped": lambda x: x[::2, 1::2],
    "one": lambda x: x[2, 3],
    "inserted": lambda x: x[:, None],
    "reshaped": lambda x: x.reshape(2, 2, 6),
}
COPIED_VIEWS = {
    "flipped": lambda x: x[::-1],
    "flipped_columns": lambda x: x[:, ::-1],
    "expanded": lambda x: x[1:2].expand(4, 6) if isinstance(x, Tensor) else np.tile(x[1], (4, 1)),
    "transposed_flat": lambda x: x.T.reshape(24),
}


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("view", SHARED_VIEWS.values(), ids=SHARED_VIEWS)
def test_views_are_exported_as_strides(view, version):
    data = values(4, 6)
    x = Tensor(data)
    array = np.from_dlpack(Producer(view(x), max_version=version, copy=False))
    np.testing.assert_array_equal(array, view(data))
    assert shares(array, x)
    x.assign(x * 2).realize()
    np.testing.assert_array_equal(array, 2 * view(data))


@pytest.mark.parametrize("view", COPIED_VIEWS.values(), ids=COPIED_VIEWS)
def test_other_views_are_copied_or_refused(view):
    data = values(4, 6)
    x = Tensor(data)
    array = np.from_dlpack(view(x))
    np.testing.assert_array_equal(array, view(data))
    assert array.flags.c_contiguous
    assert not shares(array, x)
    with pytest.raises(BufferError, match=r"allow a copy, or take \.contiguous"):
        view(x).__dlpack__(copy=False)


def test_views_of_pending_assignments_show_them():
    x = Tensor(values(2, 3)).realize()
    x[0] = 7
    assert np.from_dlpack(x.T).tolist() == [[7, 3], [7, 4], [7, 5]]


def test_copies_are_copies_and_say_so():
    x = Tensor(values(3)).realize()
    for version in VERSIONS:
        array = np.from_dlpack(Producer(x, max_version=version, copy=True))
        assert array.flags.writeable is (version not in (None, (0, 8)))
        assert not shares(array, x)
    capsule = x.__dlpack__(max_version=(1, 0), copy=True)
    flags = treadle.runtime.dlpack.Import(capsule).flags
    assert flags == treadle.runtime.dlpack.IS_COPIED


def test_what_cannot_be_exported_is_a_buffer_error_with_advice():
    w = Tensor(values(3), requires_grad=True)
    with pytest.raises(BufferError, match=r"requires gradients.*\.detach\(\)"):
        w.__dlpack__()
    assert np.from_dlpack(w.detach()).tolist() == [0, 1, 2]
    assert shares(np.from_dlpack(w.detach()), np.from_dlpack(w.detach()))
    x = Tensor(values(3))
    with pytest.raises(BufferError, match="stream must be None"):
        x.__dlpack__(stream=1)
    with pytest.raises(BufferError, match=r"to the host alone.*dl_device=\(1, 0\)"):
        x.__dlpack__(dl_device=(2, 0))
    for method in (Tensor.__dlpack__, Tensor.__dlpack_device__):
        with pytest.raises(BufferError, match="not one piece of memory: gather it"):
            method(Tensor(values(4)).shard(("CPU", "CPU:1"), 0))
    assert np.from_dlpack(Producer(x, dl_device=(1, 0))).tolist() == [0, 1, 2]
    assert isinstance(ExchangeError("x"), treadle.errors.UserError)


def test_read_only_memory_stays_so():
    data = values(3)
    x = Tensor.from_blob(data.ctypes.data, (3,), owner=data, readonly=True)
    array = np.from_dlpack(x)
    assert shares(array, data)
    assert not array.flags.writeable
    legacy = np.from_dlpack(Producer(x))  # cannot say so: a copy
    assert not shares(legacy, data)
    with pytest.raises(BufferError, match=r"max_version=\(1, 0\)"):
        x.__dlpack__(copy=False)
    assert not np.asarray(x).flags.writeable
    assert np.from_dlpack(Producer(x, max_version=(1, 0), copy=True)).flags.writeable


def test_captured_steps_refuse_to_export_inside_and_give_fresh_memory(device):
    @TinyJit
    def bad(x):
        np.from_dlpack(x, device="cpu")
        return (x + 1).realize()

    x = Tensor(values(3), device=device)
    bad(x)
    if device != "REF":
        with pytest.raises(treadle.errors.JitError, match="read on the host while capturing"):
            bad(x)
    double = TinyJit(lambda x: (x * 2).realize())
    found = [np.from_dlpack(double(x + n), device="cpu") for n in range(4)]
    assert [array.tolist() for array in found] == [[2 * n, 2 * n + 2, 2 * n + 4] for n in range(4)]


def test_each_device_gives_its_values_to_the_host(device):
    x = Tensor(values(2, 3), device=device) + 1
    shared = Device[device].runtime.shares_memory
    assert (x.__dlpack_device__() == (1, 0)) is shared
    array = np.from_dlpack(x, device="cpu")
    np.testing.assert_array_equal(array, values(2, 3) + 1)
    np.testing.assert_array_equal(np.from_dlpack(x.T, device="cpu"), (values(2, 3) + 1).T)
    if not shared:
        if x.__dlpack_device__()[0] != dlpack.CUDA:  # a real GPU's memory is shared as it is
            with pytest.raises(BufferError, match="to the host alone"):
                x.__dlpack__(max_version=(1, 0))
        with pytest.raises(BufferError, match="does not see memory"):
            x.__dlpack__(dl_device=(1, 0), copy=False)


def test_each_device_takes_memory_of_the_host(device):
    theirs = values(2, 3)
    x = Tensor.from_dlpack(theirs, device=device)
    assert x.device == device
    np.testing.assert_array_equal((x.T * 2).numpy(), 2 * theirs.T)
    if Device[device].runtime.takes_host_memory:
        theirs[0, 0] = 9
        assert x[0, 0].item() == 9
    else:
        with pytest.raises(BufferError, match="does not share the host's memory: allow a copy"):
            Tensor.from_dlpack(theirs, device=device, copy=False)


# -- in: strides, flags, versions -----------------------------------------------------------------

DENSE = {
    "plain": lambda a: a,
    "transposed": lambda a: a.T,
    "permuted": lambda a: a.reshape(2, 2, 6).transpose(2, 0, 1),
    "flipped": lambda a: a[::-1],
    "flipped_both": lambda a: a[::-1, ::-1].T,
    "rows": lambda a: a[1:3],
    "broadcast": lambda a: np.broadcast_to(a[:, None], (4, 3, 6)),
    "one": lambda a: a[2:3, 3:4].reshape(()),
    "column_of_one": lambda a: a[1:2, 2:3],
}
GAPPED = {
    "columns": lambda a: a[:, 1:4],
    "stepped": lambda a: a[::2, ::3],
    "stepped_back": lambda a: a[::-2, ::-1],
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a, 3, 1),
    "diagonal": lambda a: a.diagonal(),
}


@pytest.mark.parametrize("view", DENSE.values(), ids=DENSE)
def test_dense_memory_in_any_order_is_shared(view):
    base = values(4, 6)
    theirs = view(base)
    x = Tensor.from_dlpack(theirs, copy=False)
    np.testing.assert_array_equal((x + 1).numpy(), theirs + 1)
    base += 100
    np.testing.assert_array_equal((x + 2).numpy(), theirs + 2)
    np.testing.assert_array_equal(x.numpy(), theirs)


@pytest.mark.parametrize("view", GAPPED.values(), ids=GAPPED)
def test_memory_with_gaps_is_copied_or_refused(view):
    theirs = view(values(4, 6))
    x = Tensor.from_dlpack(theirs)
    np.testing.assert_array_equal(x.numpy(), theirs)
    np.testing.assert_array_equal((x * 2).numpy(), theirs * 2)
    with pytest.raises(BufferError, match="leave gaps: allow a copy"):
        Tensor.from_dlpack(theirs, copy=False)


def test_misaligned_memory_is_copied_or_refused():
    raw = np.zeros(17, np.uint8)
    theirs = raw[1:].view(np.float32)
    theirs[:] = values(4)
    assert Tensor.from_dlpack(theirs).tolist() == [0, 1, 2, 3]
    with pytest.raises(BufferError, match="no multiple of 4 bytes: allow a copy"):
        Tensor.from_dlpack(theirs, copy=False)


@pytest.mark.parametrize("version", VERSIONS)
def test_capsules_of_all_versions_are_taken(version):
    theirs = values(3)
    x = Tensor.from_dlpack(Producer(theirs, max_version=version))
    x.assign(x + 1).realize()
    assert theirs.tolist() == [1, 2, 3]


def test_producers_that_know_no_options_are_asked_without():
    class Old(Producer):
        def __dlpack__(self):
            return self.array.__dlpack__()

    theirs = values(3)
    assert shares(Tensor.from_dlpack(Old(theirs), copy=False), theirs)


def test_read_only_arrays_are_read_and_never_written():
    theirs = values(3)
    theirs.flags.writeable = False
    x = Tensor.from_dlpack(theirs, copy=False)
    assert (x + 1).tolist() == [1, 2, 3]
    with pytest.raises(DeviceError, match="read-only: assign to a copy"):
        x.assign(x + 1)
    again = np.from_dlpack(x)
    assert not again.flags.writeable
    copied = Tensor.from_dlpack(theirs, copy=True)
    assert copied.assign(copied + 1).tolist() == [1, 2, 3]
    assert theirs.tolist() == [0, 1, 2]


def test_a_copy_is_made_at_once():
    theirs = values(3)
    x = treadle.from_dlpack(theirs, copy=True)
    theirs[:] = 9
    assert x.tolist() == [0, 1, 2]


# -- in: what is refused --------------------------------------------------------------------------


class Structure(ctypes.Structure):
    """DLManagedTensorVersioned, field by field."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
    ]  # fmt: skip


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def handmade(sizes=(2, 3), **fields):
    """A capsule of 24 floats with some fields changed, and the calls that its deleter gets."""
    data, calls = values(24), []
    made = Structure(
        major=1, data=data.ctypes.data, device_type=1, ndim=len(sizes), code=2, bits=32, lanes=1
    )
    counts = (ctypes.c_int64 * 8)(*sizes)
    made.shape = ctypes.addressof(counts)
    deleter = DELETER(lambda pointer: calls.append(pointer))
    made.deleter = ctypes.cast(deleter, ctypes.c_void_p).value
    for field, value in fields.items():
        setattr(made, field, value)
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    capsule = new(ctypes.addressof(made), b"dltensor_versioned", None)
    kept.append((data, made, counts, deleter))
    return capsule, calls, ctypes.addressof(made)


kept: list[object] = []


def test_offsets_and_missing_strides_are_understood():
    capsule, calls, pointer = handmade(offset=8)
    x = Tensor.from_dlpack(capsule)
    assert x.tolist() == [[2, 3, 4], [5, 6, 7]]
    assert calls == []
    del x
    gc.collect()
    assert calls == [pointer]


def test_a_missing_deleter_is_none():
    capsule, _, _ = handmade(deleter=None)
    assert Tensor.from_dlpack(capsule).sum().item() == 15


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"major": 2}, r"DLPack 2\.0; treadle reads version 1"),
        ({"code": 5, "bits": 32}, "type code 5, 32 bits and 1 lanes have no dtype"),
        ({"bits": 4}, "4 bits"),
        ({"lanes": 4}, "4 lanes"),
        ({"ndim": -1}, "cannot have -1 axes"),
        ({"ndim": 1 << 20}, "cannot have 1048576 axes"),
        ({"sizes": (-2, 3)}, "must not be negative"),
        ({"data": None}, "its memory is null"),
        ({"shape": None}, "the shape of a tensor with 2 axes is null"),
        ({"device_type": 2}, "device of DLPack's type 2"),
    ],
)
def test_broken_and_foreign_capsules_are_refused_and_left_alone(fields, message):
    capsule, calls, _ = handmade(**fields)
    with pytest.raises(BufferError, match=message):
        Tensor.from_dlpack(capsule)
    assert name_of(capsule) == b"dltensor_versioned"
    assert calls == []


def test_arrays_on_other_devices_are_asked_for_a_copy_on_the_host():
    class Elsewhere(Producer):
        def __dlpack_device__(self):
            return (2, 1)

        def __dlpack__(self, **options):
            asked.append(options)
            return self.array.__dlpack__()

    asked = []
    assert Tensor.from_dlpack(Elsewhere(values(3))).tolist() == [0, 1, 2]
    assert asked == [{"max_version": (1, 3), "dl_device": (1, 0)}]
    with pytest.raises(BufferError, match="type 2 is not shared: allow a copy"):
        Tensor.from_dlpack(Elsewhere(values(3)), copy=False)


def test_what_is_no_array_is_refused():
    for wrong in ([1, 2], None, "array", 5):
        with pytest.raises(BufferError, match="has no __dlpack__"):
            Tensor.from_dlpack(wrong)
    with pytest.raises(BufferError, match="named 'dltensor'"):
        Tensor.from_dlpack(sys.modules["datetime"].datetime_CAPI)
    with pytest.raises(DeviceError, match="on one device"):
        Tensor.from_dlpack(values(3), device=("CPU", "CPU:1"))


# -- who owns it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_is_taken_once(version):
    capsule = Tensor(values(3)).__dlpack__(max_version=version)
    Tensor.from_dlpack(capsule)
    assert name_of(capsule).startswith(b"used_dltensor")
    with pytest.raises(BufferError, match="was taken before"):
        Tensor.from_dlpack(capsule)


def watched(shape=(3,)):
    """A tensor over memory whose end can be seen."""
    data = values(*shape).view(Array)
    x = Tensor.from_blob(data.ctypes.data, shape, owner=data)
    return x, weakref.ref(data)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_that_nobody_takes_lets_go(version):
    x, owner = watched()
    capsule = x.__dlpack__(max_version=version)
    del x
    gc.collect()
    assert owner() is not None
    del capsule
    gc.collect()
    assert owner() is None


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_memory_outlives_the_tensor_it_came_from(version):
    x, owner = watched()
    array = np.from_dlpack(Producer(x, max_version=version))
    del x
    gc.collect()
    assert array.tolist() == [0, 1, 2]
    part = array[1:]
    del array
    gc.collect()
    assert owner() is not None
    del part
    gc.collect()
    assert owner() is None


def test_memory_of_others_is_let_go_of_with_the_last_tensor():
    theirs = values(6).view(Array)
    owner = weakref.ref(theirs)
    y = Tensor.from_dlpack(theirs).reshape(2, 3).T + 1
    del theirs
    gc.collect()
    assert owner() is not None
    assert y.tolist() == [[1, 4], [2, 5], [3, 6]]
    del y
    gc.collect()
    assert owner() is None


def test_a_refused_array_is_let_go_of():
    theirs = np.zeros(8)[::2].view(Array)
    owner = weakref.ref(theirs)
    with pytest.raises(BufferError):
        Tensor.from_dlpack(theirs, copy=False)
    del theirs
    gc.collect()
    assert owner() is None


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_the_last_owner_may_be_on_another_thread(version):
    x, owner = watched()
    arrays = [np.from_dlpack(Producer(x, max_version=version))]
    del x
    thread = threading.Thread(target=arrays.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert owner() is None


def test_an_exception_on_its_way_passes_a_capsule_that_dies():
    """Neither the destructor nor the deleter may lose the exception that unwinds their frame."""
    for version in (None, (1, 0)):
        x, owner = watched()

        def fail(x=x, version=version):
            capsule = x.__dlpack__(max_version=version)  # noqa: F841
            array = np.from_dlpack(Producer(x, max_version=version))  # noqa: F841
            raise KeyError("on its way")

        with pytest.raises(KeyError, match="on its way") as caught:
            fail()
        del x, fail, caught
        gc.collect()
        assert owner() is None


def test_numpy_refuses_what_it_does_not_know_with_its_own_error():
    x = Tensor(values(3, dtype=ml_dtypes.bfloat16))
    for _ in range(3):
        with pytest.raises((BufferError, RuntimeError), match=r"(?i)unsupported dtype"):
            np.from_dlpack(x)


def test_exports_do_not_leak():
    x = Tensor(values(1000)).realize()
    np.from_dlpack(x)
    before = len(gc.get_objects())
    for version in VERSIONS * 20:
        x.__dlpack__(max_version=version)
        np.from_dlpack(Producer(x, max_version=version))
        Tensor.from_dlpack(x)
    gc.collect()
    assert len(gc.get_objects()) - before < 50


def test_arrays_may_outlive_the_interpreter():
    code = """if True:
        import numpy as np
        from treadle import Tensor
        held = [np.from_dlpack(Tensor([1.0, 2.0])), Tensor([3.0]).__dlpack__()]
        held.append(held)
        x = Tensor.from_dlpack(np.ones(3))
        print(held[0], x.tolist())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1. 2.] [1.0, 1.0, 1.0]\n", "")
