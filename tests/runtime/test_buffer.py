"""Host buffers are aligned, reused, bounded, and give themselves back."""

import gc
import threading

import pytest

from treadle.errors import DeviceError, OutOfMemory
from treadle.runtime import buffer as buffer_module
from treadle.runtime.buffer import HostAllocator, size_class
from treadle.runtime.memory import HUGE_PAGE, machine_memory


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 1000, 4096, 100_000, HUGE_PAGE, 5_000_001])
def test_memory_is_aligned_and_holds_what_is_written(nbytes):
    block = HostAllocator().alloc(nbytes)
    assert block.nbytes == nbytes
    assert block.pointer % (HUGE_PAGE if nbytes >= HUGE_PAGE else 64) == 0
    data = bytes(i % 251 for i in range(nbytes))
    block.view()[:] = data
    assert bytes(block.view()) == data


def test_size_classes_waste_at_most_a_quarter():
    for nbytes in [*range(1, 5000), 10**6, 10**9 + 1]:
        rounded = size_class(nbytes)
        assert rounded >= nbytes
        assert rounded % 64 == 0
        assert rounded <= max(64, nbytes * 1.25 + 64)
        assert size_class(rounded) == rounded


def test_a_collected_buffer_is_reused():
    allocator = HostAllocator()
    first = allocator.alloc(1000)
    address = first.pointer
    del first
    assert allocator.alloc(1010).pointer == address


def test_a_view_keeps_its_buffer_alive():
    allocator = HostAllocator()
    view = allocator.alloc(4096).view()
    gc.collect()
    assert allocator.stats.live == 4096
    other = allocator.alloc(4096)
    other.view()[:] = b"x" * 4096
    view[:4] = b"abcd"
    assert bytes(view[:4]) == b"abcd"
    del view
    gc.collect()
    assert allocator.stats.live == 4096
    assert allocator.stats.cached == 4096


def test_a_slice_keeps_the_whole_alive_and_is_checked():
    allocator = HostAllocator()
    whole = allocator.alloc(256)
    whole.view()[:] = bytes(range(256))
    part = whole.slice(16, 4)
    with pytest.raises(DeviceError, match="outside a buffer of 256 bytes"):
        whole.slice(250, 10)
    del whole
    gc.collect()
    assert bytes(part.view()) == bytes([16, 17, 18, 19])
    assert allocator.stats.live == 256


def test_statistics_follow_live_cached_and_peak_bytes():
    allocator = HostAllocator()
    blocks = [allocator.alloc(1024) for _ in range(4)]
    del blocks[2:]
    stats = allocator.stats
    assert (stats.live, stats.cached, stats.peak) == (2048, 2048, 4096)
    assert allocator.trim() == 2048
    assert allocator.stats.cached == 0


def test_the_cache_is_bounded_and_drops_the_longest_unused():
    allocator = HostAllocator(keep=4096)
    blocks = [allocator.alloc(2048) for _ in range(4)]
    addresses = [block.pointer for block in blocks]
    while blocks:
        del blocks[0]
    assert allocator.stats.cached == 4096
    assert allocator.alloc(2048).pointer == addresses[3]


def test_foreign_memory_is_shared_and_its_owner_kept():
    import ctypes

    class Owner:
        gone = False

        def __init__(self):
            self.memory = (ctypes.c_uint8 * 16)()

        def __del__(self):
            Owner.gone = True

    owner = Owner()
    block = HostAllocator().from_pointer(ctypes.addressof(owner.memory), 16, owner)
    block.view()[3] = 42
    assert owner.memory[3] == 42
    view = block.view()
    del owner, block
    gc.collect()
    assert not Owner.gone
    del view
    gc.collect()
    assert Owner.gone


def test_out_of_memory_says_what_is_live_and_what_to_do():
    allocator = HostAllocator()
    live = allocator.alloc(3 << 20)
    with pytest.raises(OutOfMemory, match=r"no memory for .* 3\.0 MiB are live in 1 buffers") as e:
        allocator.alloc(1 << 60)
    assert "smaller batches" in str(e.value)
    assert isinstance(e.value, MemoryError)
    assert live.nbytes == 3 << 20
    assert allocator.alloc(64).nbytes == 64


def test_a_full_system_is_tried_again_with_the_cache_given_up(monkeypatch):
    allocator = HostAllocator()
    allocator.alloc(4096)
    assert allocator.stats.cached == 4096
    real, answers = buffer_module.allocate, [None]
    monkeypatch.setattr(buffer_module, "allocate", lambda n: answers.pop() if answers else real(n))
    block = allocator.alloc(1 << 16)
    stats = allocator.stats
    assert (block.nbytes, stats.live, stats.cached) == (1 << 16, 1 << 16, 0)


def test_threads_allocate_and_drop_without_losing_a_byte():
    allocator = HostAllocator()

    def work(seed):
        held = []
        for i in range(400):
            block = allocator.alloc(64 * (1 + (i * seed) % 40))
            block.view()[:8] = seed.to_bytes(8, "little")
            held.append(block)
            if len(held) > 10:
                held.pop(i % 10)
            assert all(int.from_bytes(b.view()[:8], "little") == seed for b in held)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    stats = allocator.stats
    assert stats.live == 0
    assert allocator.trim() == stats.cached


def test_a_buffer_that_dies_inside_the_allocator_does_not_block_it():
    allocator = HostAllocator()
    block = allocator.alloc(64)
    with allocator._lock:
        del block  # as the garbage collector may, on this thread
    assert allocator.stats.live == 0


def test_the_machine_has_memory():
    assert machine_memory() > 1 << 26
