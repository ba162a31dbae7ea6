"""What a runtime's memory does: all sizes, counted, given back, and refused by name."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from treadle import Tensor
from treadle.backends import backend_of
from treadle.engine.devices import Opened
from treadle.errors import DeviceError, OutOfMemory

from .conftest import skip_unless
from .kernels import get, put

SIZES = [1, 2, 3, 5, 63, 64, 1000, 1023, 4097, (1 << 20) + 1]


def test_no_bytes_are_memory_like_any_other(computing: Opened) -> None:
    device = computing.runtime
    empty = device.allocator.alloc(0)
    assert empty.nbytes == 0
    device.write(empty, memoryview(b""))
    device.read(empty, memoryview(bytearray()))
    assert get(device, put(device, np.arange(4, dtype=np.int32))).tolist() == [0, 1, 2, 3]


def test_a_tensor_without_elements_goes_the_whole_way(computing: Opened) -> None:
    empty = Tensor.zeros(0, 3, device=computing.name).contiguous().realize()
    assert (empty + 1).numpy().shape == (0, 3)
    assert empty.sum(0).tolist() == [0, 0, 0]
    assert empty.to("CPU").shape == (0, 3)


@pytest.mark.parametrize("nbytes", SIZES)
def test_bytes_come_back_as_they_went(computing: Opened, nbytes: int) -> None:
    data = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    data.setflags(write=False)
    buffer = put(computing.runtime, data)
    assert buffer.nbytes == nbytes
    np.testing.assert_array_equal(get(computing.runtime, buffer, np.uint8), data)


@pytest.mark.parametrize("part", [0, 1, 3, 4, 7])
def test_a_part_of_a_buffer_is_written_and_read(computing: Opened, part: int) -> None:
    device, data = computing.runtime, np.arange(1, 11, dtype=np.uint8)
    buffer = put(device, data)
    device.write(buffer, memoryview(bytes(part)))
    data[:part] = 0
    np.testing.assert_array_equal(get(device, buffer, np.uint8), data)
    found = bytearray(b"x" * part)
    device.read(buffer, memoryview(found))
    assert found == bytes(part)


@pytest.mark.parametrize("nbytes", [64, 1 << 17])
def test_what_was_written_is_the_callers_again(computing: Opened, nbytes: int) -> None:
    data = np.full(nbytes, 7, np.uint8)
    buffer = put(computing.runtime, data)
    data[:] = 9
    assert (get(computing.runtime, buffer, np.uint8) == 7).all()


def test_the_host_sees_memory_in_place_or_is_told_that_it_does_not(computing: Opened) -> None:
    device = computing.runtime
    buffer = put(device, np.arange(4, dtype=np.int32))
    if not device.shares_memory:
        with pytest.raises(DeviceError, match="no access"):
            buffer.view()
        return
    view = np.frombuffer(buffer.view(), np.int32)
    view[1] = 9
    assert get(device, buffer).tolist() == [0, 9, 2, 3]


def test_the_hosts_memory_is_used_in_place_or_refused(computing: Opened) -> None:
    device, theirs = computing.runtime, np.arange(64, dtype=np.int32)
    try:
        buffer = device.allocator.from_pointer(theirs.ctypes.data, theirs.nbytes, theirs)
    except DeviceError:
        # An integer names an MTLBuffer there, as in PyTorch's MPS tensors.
        assert not device.shares_memory or backend_of(computing.name).name == "METAL"
        return
    device.write(buffer, np.full(64, 5, np.int32).view("uint8").data)
    device.synchronize()
    assert (theirs == 5).all()


def test_memory_is_counted_and_given_back(runtime: Any) -> None:
    allocator = runtime.allocator
    gc.collect()
    before = allocator.stats.live
    buffer = allocator.alloc(100_000)
    held = allocator.stats
    assert held.live >= before + 100_000
    assert held.peak >= held.live
    del buffer
    gc.collect()
    assert allocator.stats.live == before
    assert allocator.trim() >= 0
    assert allocator.stats.cached == 0


def test_too_much_memory_is_refused_and_nothing_is_lost(computing: Opened) -> None:
    device = computing.runtime
    kept = put(device, np.arange(256, dtype=np.int32))
    live = device.allocator.stats.live
    with pytest.raises(OutOfMemory, match=r"at most|no memory") as caught:
        device.allocator.alloc(1 << 60)
    assert isinstance(caught.value, MemoryError)
    assert str(caught.value).startswith(device.name)
    assert device.allocator.stats.live == live
    np.testing.assert_array_equal(get(device, kept), np.arange(256))
    with pytest.raises(DeviceError, match=r"at most|no memory"):
        Tensor.ones(1 << 20, 1 << 20, device=computing.name).contiguous().realize()
    assert (Tensor([1.0], device=computing.name) + 1).item() == 2


def test_threads_allocate_and_drop_without_losing_a_byte(computing: Opened) -> None:
    device, wrong = computing.runtime, []
    gc.collect()
    before = device.allocator.stats.live

    def work(seed: int) -> None:
        held = []
        for turn in range(40):
            held.append(put(device, np.full(16 * (1 + turn * seed % 9), seed, np.int32)))
            if len(held) > 5:
                held.pop(turn % 5)
        wrong.extend(seed for buffer in held if not (get(device, buffer) == seed).all())

    in_threads(work, 3)
    gc.collect()
    assert not wrong
    assert device.allocator.stats.live == before


def in_threads(work: Any, count: int) -> None:
    threads = [threading.Thread(target=work, args=(n + 1,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("offset", [1 << 31, 1 << 32], ids=["2 GiB", "4 GiB"])
def test_elements_far_into_a_buffer_are_reached(launching: Opened, offset: int) -> None:
    """Pages that nobody touches cost nothing, so this is for memory that the host's pages are."""
    device, nbytes = launching.runtime, offset + 4096
    skip_unless(device.shares_memory, launching, "its memory is not the host's (`shares_memory`)")
    largest = device.allocator.largest
    skip_unless(
        largest is None or nbytes <= largest, launching, f"a buffer has at most {largest} bytes"
    )
    pages = np.zeros(nbytes // 4, np.int32)  # which the system has not made yet
    far = Tensor.from_blob(
        pages.ctypes.data, pages.shape, dtype="int32", device=launching.name,
        nbytes=pages.nbytes, owner=pages,
    )  # fmt: skip
    far[-16:] = Tensor.arange(16, dtype="int32", device=launching.name)
    far[:16] = 100
    assert far[-16:].tolist() == list(range(16))
    assert (far[-16:] * 2 + far[:16]).tolist() == [100 + 2 * n for n in range(16)]
