"""Memory on CUDA devices shared with other libraries: addresses, strides, owners and streams.

The driver is made of Python objects, which tells in which order streams wait for each other.
"""

from __future__ import annotations

import gc
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from treadle import Device, Tensor, dtypes
from treadle.engine.devices import Opened
from treadle.errors import DeviceError, ExchangeError
from treadle.runtime.cuda import CUDADevice, target_of
from treadle.runtime.dlpack import Import

from .fake_cuda import FakeDriver


@pytest.fixture
def driver(monkeypatch):
    """A driver with two devices, CUDA and CUDA:1."""
    found = FakeDriver()
    for index, name in enumerate(("CUDA", "CUDA:1")):
        runtime = CUDADevice(name, found, index, target_of)
        monkeypatch.setitem(
            Device._opened, name, Opened(name, runtime.target, runtime, None, (None, None))
        )
    yield found
    gc.collect()


class Foreign:
    """An array of another library's in the GPU's memory."""

    def __init__(self, driver, values, index=0):
        self.context = driver.contexts[index]
        self.values = np.ascontiguousarray(values)
        self.address = self.context.alloc(self.values.nbytes, 0)
        self.context.memory[self.address][:] = self.values.tobytes()
        self.asked = None

    def written(self):
        data = bytes(self.context.memory[self.address])
        return np.frombuffer(data, self.values.dtype).reshape(self.values.shape).tolist()


def on_cuda(values, device="CUDA"):
    return Tensor(np.asarray(values, np.float32), device=device)


# -- from_blob --------------------------------------------------------------------------------


def test_a_blob_is_the_memory_itself_and_keeps_its_owner(driver):
    theirs = Foreign(driver, np.arange(6, dtype=np.float32))
    watch = weakref.ref(theirs)
    x = Tensor.from_blob(theirs.address, (2, 3), dtypes.float32, "CUDA", owner=theirs)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    theirs.context.memory[theirs.address][:4] = np.float32(10).tobytes()
    assert x.tolist()[0] == [10, 1, 2]
    address = theirs.address
    del theirs
    assert watch() is not None
    driver.log.clear()
    del x
    gc.collect()
    assert watch() is None
    assert driver.calls("wait_stream")  # kernels may still have used it
    assert address in driver.contexts[0].memory


def test_work_on_a_blob_is_ordered_with_its_stream(driver):
    theirs = Foreign(driver, np.arange(6, dtype=np.float32))
    plain = Tensor.from_blob(theirs.address, (6,), device="CUDA", owner=theirs)
    driver.log.clear()
    plain.tolist()
    assert not driver.calls("record")
    x = Tensor.from_blob(theirs.address, (6,), device="CUDA", owner=theirs, stream=777)
    driver.log.clear()
    x.tolist()
    assert driver.calls("record")[0][2] == 777
    assert driver.calls("wait_event")[-1][1] == 777
    data = np.zeros(3, np.float32)
    with pytest.raises(DeviceError, match="CPU has no streams"):
        Tensor.from_blob(data.ctypes.data, (3,), device="CPU", owner=data, stream=777)


class Torch:
    """As much of PyTorch as from_blob looks at: whether CUDA is in use, and its current stream."""

    def __init__(self, handles):
        self.cuda = self
        self.handles = handles

    def is_initialized(self):
        return self.handles is not None

    def current_stream(self, index):
        return SimpleNamespace(cuda_stream=self.handles[index])


@pytest.mark.parametrize(
    ("handles", "index", "waits"),
    [(None, 0, None), ([0, 777], 0, None), ([0, 777], 1, 777), ([555, 0], 0, 555)],
)
def test_work_on_a_blob_is_ordered_with_pytorchs_stream(driver, monkeypatch, handles, index, waits):
    monkeypatch.setitem(sys.modules, "torch", Torch(handles))
    theirs = Foreign(driver, np.arange(6, dtype=np.float32), index)
    device = f"CUDA:{index}"
    x = Tensor.from_blob(theirs.address, (6,), dtypes.float32, device, owner=theirs)
    driver.log.clear()
    assert x.tolist() == list(range(6))
    ours = Device[device].runtime.stream
    events = [(entry[0], entry[2] if entry[0] == "record" else entry[1])
              for entry in driver.calls("record", "wait_event")]  # fmt: skip
    back_and_forth = [("record", waits), ("wait_event", ours), ("record", ours),
                      ("wait_event", waits)]  # fmt: skip
    assert events == (back_and_forth if waits else [])


def test_nothing_is_put_into_a_graph_that_pytorch_captures(driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", Torch([555]))
    theirs = Foreign(driver, np.arange(6, dtype=np.float32))
    x, y = Tensor.from_blob(theirs.address, (6,), device="CUDA", owner=theirs), on_cuda([1, 2])
    array = Array(theirs, stream=555)
    driver.contexts[0].capturing.add(555)
    driver.log.clear()
    uses = (x.tolist, lambda: y.__dlpack__(stream=555), lambda: Tensor.from_cuda_array(array))
    for use in uses:
        with pytest.raises(DeviceError, match="while another library captures a CUDA graph"):
            use()
    assert not driver.calls("wait_event", "record")
    driver.contexts[0].capturing.clear()
    assert x.tolist() == list(range(6))


def test_a_stream_that_is_given_is_the_one(driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", Torch([555]))
    theirs = Foreign(driver, np.arange(6, dtype=np.float32))
    x = Tensor.from_blob(theirs.address, (6,), device="CUDA", owner=theirs, stream=777)
    y = Tensor.from_blob(theirs.address, (6,), device="CUDA", owner=theirs, stream=1)
    driver.log.clear()
    assert y.tolist() == x.tolist()
    streams = {entry[2] for entry in driver.calls("record")}
    assert streams == {777, Device["CUDA"].runtime.stream}


def test_what_is_no_memory_of_the_device_is_refused(driver):
    theirs = Foreign(driver, np.arange(6, dtype=np.float32), index=1)
    with pytest.raises(DeviceError, match="memory of CUDA device 1: use device='CUDA:1'"):
        Tensor.from_blob(theirs.address, (6,), device="CUDA", owner=theirs)
    with pytest.raises(DeviceError, match="ends after 24"):
        Tensor.from_blob(theirs.address, (7,), device="CUDA:1", owner=theirs)
    host = np.zeros(6, np.float32)
    with pytest.raises(DeviceError, match=r"not an address in a GPU's memory; .* CPU device"):
        Tensor.from_blob(host.ctypes.data, (6,), device="CUDA", owner=host)
    with pytest.raises(DeviceError, match="not a multiple of the element's 4 bytes"):
        Tensor.from_blob(theirs.address + 2, (2,), device="CUDA:1", owner=theirs)


# -- DLPack, out ------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["CUDA", "CUDA:1"])
def test_a_capsule_names_the_device_and_the_address(driver, device):
    x = on_cuda([[1, 2, 3], [4, 5, 6]], device)
    index = device.count("1")
    assert x.__dlpack_device__() == (2, index)
    found = Import(x.__dlpack__(max_version=(1, 0)))
    assert (found.device, found.sizes, found.strides) == ((2, index), (2, 3), (3, 1))
    assert found.dtype is dtypes.float32
    assert driver.contexts[index].owner_of(found.address)[0] == index
    assert not found.read_only


def test_views_are_exported_as_strides(driver):
    x = on_cuda(np.arange(12).reshape(3, 4))
    start = Import(x.__dlpack__()).address
    turned = Import(x.T[1:3].__dlpack__(copy=False))
    assert (turned.sizes, turned.strides, turned.address) == ((2, 3), (1, 4), start + 4)
    flat = Import(x.reshape(2, 6).__dlpack__(copy=False))
    assert (flat.sizes, flat.strides, flat.address) == ((2, 6), (6, 1), start)
    assert not driver.calls("copy_out")
    with pytest.raises(ExchangeError, match="flipped and expanded"):
        x.flip(0).__dlpack__(copy=False)


@pytest.mark.parametrize(
    ("stream", "waits"), [(None, None), (1, None), (-1, None), (2, 2), (4321, 4321)]
)
def test_a_consumers_stream_waits_for_the_work_here(driver, stream, waits):
    x = on_cuda([1, 2, 3])
    driver.log.clear()
    x.__dlpack__(stream=stream)
    runtime = Device["CUDA"].runtime
    assert [entry[2] for entry in driver.calls("record")] == ([runtime.stream] if waits else [])
    assert [entry[1] for entry in driver.calls("wait_event")] == ([waits] if waits else [])


@pytest.mark.parametrize("stream", [0, -2])
def test_streams_without_a_meaning_are_refused(driver, stream):
    with pytest.raises(ExchangeError, match=f"stream={stream} has no meaning"):
        on_cuda([1, 2, 3]).__dlpack__(stream=stream)


def test_lent_memory_outlives_the_tensor_and_is_freed_with_the_capsule(driver):
    x = on_cuda([1, 2, 3])
    capsule = x.__dlpack__()
    address = Import(capsule).address
    del x
    gc.collect()
    assert address in driver.contexts[0].memory
    driver.log.clear()
    del capsule
    gc.collect()
    Device["CUDA"].runtime.allocator.trim()
    assert address not in driver.contexts[0].memory
    assert [entry[1] for entry in driver.log] == ["synchronize", "free", "synchronize", "trim"]


def test_numpy_gets_a_copy_where_it_asks_for_one(driver):
    x = on_cuda([[1, 2], [3, 4]])
    assert np.from_dlpack(x, device="cpu").tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ExchangeError, match=r"alone or as \(2, 0\), not to \(2, 1\)"):
        x.__dlpack__(dl_device=(2, 1))
    with pytest.raises(ExchangeError, match="requires gradients"):
        Tensor([1.0], device="CUDA", requires_grad=True).__dlpack__()
    assert np.asarray(x).tolist() == [[1, 2], [3, 4]]


# -- DLPack, in -------------------------------------------------------------------------------


class Producer:
    """Exports a treadle tensor as another library would, and notes how it was asked."""

    def __init__(self, tensor):
        self.tensor, self.asked = tensor, []

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **options):
        self.asked.append(options)
        return self.tensor.__dlpack__(**options)


def address_of(x):
    return Import(x.__dlpack__()).address


def test_memory_on_a_cuda_device_is_shared_in_the_order_of_our_stream(driver):
    theirs = Producer(on_cuda([[1, 2, 3], [4, 5, 6]]))
    x = Tensor.from_dlpack(theirs)
    assert x.device == "CUDA"
    assert theirs.asked == [{"max_version": (1, 3), "stream": Device["CUDA"].runtime.stream}]
    assert address_of(x) == address_of(theirs.tensor)
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
    second = Tensor.from_dlpack(Producer(on_cuda([7.0], "CUDA:1")))
    assert (second.device, second.tolist()) == ("CUDA:1", [7])
    capsule = on_cuda([1, 2]).__dlpack__()
    assert Tensor.from_dlpack(capsule, device="CUDA", copy=False).tolist() == [1, 2]


def test_transposed_memory_is_shared_and_gaps_are_copied(driver):
    base = on_cuda(np.arange(12).reshape(3, 4))
    turned = Tensor.from_dlpack(Producer(base.T), device="CUDA", copy=False)
    assert address_of(turned) == address_of(base)
    assert np.from_dlpack(turned, device="cpu").tolist() == np.arange(12).reshape(3, 4).T.tolist()
    holes = Tensor.from_dlpack(Producer(base[:, 1:3]))
    assert holes.tolist() == [[1, 2], [5, 6], [9, 10]]
    with pytest.raises(ExchangeError, match="leave gaps"):
        Tensor.from_dlpack(Producer(base[:, 1:3]), copy=False)
    copied = Tensor.from_dlpack(Producer(base), copy=True)
    assert address_of(copied) != address_of(base)


def test_elsewhere_it_is_copied_through_the_host(driver):
    theirs = Producer(on_cuda([1, 2, 3]))
    x = Tensor.from_dlpack(theirs, device="CPU")
    assert (x.device, x.tolist()) == ("CPU", [1, 2, 3])
    assert theirs.asked[0]["dl_device"] == (1, 0)
    moved = Tensor.from_dlpack(theirs, device="CUDA:1")
    assert (moved.device, moved.tolist()) == ("CUDA:1", [1, 2, 3])
    with pytest.raises(ExchangeError, match="is not shared: allow a copy"):
        Tensor.from_dlpack(theirs, device="CUDA:1", copy=False)
    with pytest.raises(ExchangeError, match="move it to the host first"):
        Tensor.from_dlpack(theirs.tensor.__dlpack__(), device="CPU")


def test_memory_of_an_emulated_device_is_nobody_elses(driver, monkeypatch):
    x = on_cuda([1, 2, 3])
    monkeypatch.setattr(Device["CUDA"].runtime, "is_software", True)
    assert x.__dlpack_device__() == (12, 0)
    assert np.from_dlpack(x, device="cpu").tolist() == [1, 2, 3]
    with pytest.raises(ExchangeError, match=r"ask for dl_device=\(1, 0\)"):
        x.__dlpack__(copy=False)
    assert not hasattr(x, "__cuda_array_interface__")


# -- __cuda_array_interface__ -----------------------------------------------------------------


def test_the_cuda_array_interface_describes_memory_and_stream(driver):
    x = on_cuda(np.arange(6).reshape(2, 3))
    found = x.__cuda_array_interface__
    assert found == {
        "shape": (2, 3), "typestr": "<f4", "data": (address_of(x), False), "strides": None,
        "version": 3, "stream": Device["CUDA"].runtime.stream,
    }  # fmt: skip
    turned = x.T.__cuda_array_interface__
    assert (turned["shape"], turned["strides"]) == ((3, 2), (4, 12))
    assert Tensor.empty(0, 3, device="CUDA").__cuda_array_interface__["data"] == (0, False)


def test_its_memory_lives_as_long_as_the_tensor(driver):
    x = on_cuda([1, 2, 3])
    address = x.__cuda_array_interface__["data"][0]
    x.replace(on_cuda([4, 5, 6]))
    gc.collect()
    assert address in driver.contexts[0].memory
    del x
    gc.collect()
    Device["CUDA"].runtime.allocator.trim()
    assert address not in driver.contexts[0].memory


def test_memory_is_kept_once_however_often_it_is_asked_for(driver):
    from treadle.tensor.exchange import cuda_memory

    x = on_cuda([1, 2, 3])
    before = len(cuda_memory._shown)
    found = [x.__cuda_array_interface__["data"] for _ in range(5)]
    assert len(set(found)) == 1
    assert [len(kept) for kept in list(cuda_memory._shown.values())[before:]] == [1]
    del x
    gc.collect()
    assert len(cuda_memory._shown) == before


def test_who_has_no_cuda_memory_has_no_such_interface(driver):
    assert not hasattr(Tensor([1.0], device="CPU"), "__cuda_array_interface__")
    assert not hasattr(on_cuda([1.0]).shard(("CUDA", "CUDA:1")), "__cuda_array_interface__")
    assert not hasattr(on_cuda([1.0]).requires_grad_(), "__cuda_array_interface__")
    half = Tensor(np.ones(2, np.float16), device="CUDA")
    assert half.__cuda_array_interface__["typestr"] == "<f2"


class Array:
    """An array of another library's that has the interface, and nothing else."""

    def __init__(self, theirs, **changes):
        values, self.theirs = theirs.values, theirs
        self.__cuda_array_interface__ = {
            "shape": values.shape, "typestr": values.dtype.str, "version": 3, "strides": None,
            "data": (theirs.address, False), "stream": None, **changes,
        }  # fmt: skip


def test_an_array_is_shared_with_its_owner(driver):
    array = Array(Foreign(driver, np.arange(6, dtype=np.float32).reshape(2, 3), index=1))
    x = Tensor.from_cuda_array(array)
    assert (x.device, x.dtype, address_of(x)) == ("CUDA:1", dtypes.float32, array.theirs.address)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    watch = weakref.ref(array)
    del array
    assert watch() is not None
    del x
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize(("stream", "waits"), [(None, []), (1, []), (2, [2]), (4321, [4321])])
def test_work_here_comes_after_the_stream_that_an_array_names(driver, stream, waits):
    array = Array(Foreign(driver, np.arange(6, dtype=np.int32)), stream=stream)
    driver.log.clear()
    x = Tensor.from_cuda_array(array)
    assert [entry[2] for entry in driver.calls("record")] == waits
    ours = Device["CUDA"].runtime.stream
    assert [entry[1] for entry in driver.calls("wait_event")] == [ours] * len(waits)
    assert x.tolist() == list(range(6))


def test_strides_of_an_array_are_views_and_gaps_are_copied(driver):
    theirs = Foreign(driver, np.arange(12, dtype=np.float32).reshape(3, 4))
    turned = Tensor.from_cuda_array(Array(theirs, shape=(4, 3), strides=(4, 16)), copy=False)
    assert address_of(turned) == theirs.address
    assert np.from_dlpack(turned, device="cpu").tolist() == theirs.values.T.tolist()
    gaps = Array(theirs, shape=(3, 2), strides=(16, 4))
    assert Tensor.from_cuda_array(gaps).tolist() == [[0, 1], [4, 5], [8, 9]]
    with pytest.raises(ExchangeError, match=r"\[from_cuda_array\] strides .* leave gaps: allow a"):
        Tensor.from_cuda_array(gaps, copy=False)
    empty = Array(theirs, shape=(0, 4), data=(0, False))
    assert Tensor.from_cuda_array(empty).shape == (0, 4)


def test_an_array_goes_elsewhere_as_a_copy(driver):
    array = Array(Foreign(driver, np.arange(3, dtype=np.float32)))
    for device in ("CPU", "CUDA:1"):
        x = Tensor.from_cuda_array(array, device=device)
        assert (x.device, x.tolist()) == (device, [0, 1, 2])
    with pytest.raises(ExchangeError, match="memory of CUDA is not shared with CPU"):
        Tensor.from_cuda_array(array, device="CPU", copy=False)


def test_an_array_that_may_not_be_written_is_not(driver):
    theirs = Foreign(driver, np.arange(3, dtype=np.float32))
    x = Tensor.from_cuda_array(Array(theirs, data=(theirs.address, True)))
    with pytest.raises(DeviceError, match="somebody else's and read-only"):
        x.assign(x + 1).realize()


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"version": 4}, "version 4 of the interface is not known"), ({"mask": 1}, "is masked"),
     ({"typestr": "|V3"}, "elements '.V3' have no dtype"), ({"stream": 0}, "stream 0 has no"),
     ({"strides": (6,)}, "do not fit"), ({"strides": (4, 4)}, "do not fit"),
     ({"data": (77, False)}, "0x4d is not an address in a GPU's memory")],
)  # fmt: skip
def test_an_array_that_is_not_understood(driver, changes, message):
    array = Array(Foreign(driver, np.arange(3, dtype=np.float32)), **changes)
    with pytest.raises(ExchangeError, match=message):
        Tensor.from_cuda_array(array)
    with pytest.raises(ExchangeError, match="a ndarray has no __cuda_array_interface__"):
        Tensor.from_cuda_array(np.zeros(3))


# -- between devices --------------------------------------------------------------------------


def test_tensors_move_between_cuda_devices_without_the_host(driver):
    x = on_cuda([1, 2, 3])
    driver.log.clear()
    y = x.to("CUDA:1").realize()
    assert driver.calls("copy_peer")
    assert not driver.calls("copy_in", "copy_out")
    assert y.tolist() == [1, 2, 3]
    assert y.to("CPU").tolist() == [1, 2, 3]
