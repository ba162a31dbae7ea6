"""The emulated kernel driver: what it takes, and what it refuses as Linux does."""

import ctypes
import errno
import mmap

import pytest

from treadle.emulate.kfd import tables
from treadle.emulate.machine.memory import MemoryFault

from .conftest import PAGE, WRITABLE, Process


def refused(number, call, *args, **values):
    with pytest.raises(OSError) as info:
        call(*args, **values)
    return info.value.errno == number


def test_it_says_its_version():
    process = Process(version=(1, 14))
    assert process.call("get_version") == {"major_version": 1, "minor_version": 14}


@pytest.mark.parametrize("request_number", [0x80084BFF, 0xC0184B20, 0])
def test_an_unknown_call_is_enotty(process, request_number):
    assert refused(errno.ENOTTY, process.platform.ioctl, process.fd, request_number, bytearray(64))


def test_a_program_for_an_older_driver_has_shorter_arguments(process):
    number = next(n for n, one in tables.ioctls().items() if one.name == "create_queue")
    shorter = number - (8 << 16)
    layout = tables.ioctls()[number].layout
    argument = bytearray(layout.nbytes - 8)
    layout.put(argument, "gpu_id", process.gpu.gpu_id)
    layout.put(argument, "ring_size", 4096)
    layout.put(argument, "ring_base_address", process.mapped(PAGE))
    layout.put(argument, "queue_type", 1)
    layout.put(argument, "read_pointer_address", process.mapped(PAGE))
    layout.put(argument, "write_pointer_address", process.mapped(PAGE))
    process.platform.ioctl(process.fd, shorter, argument)
    assert len(argument) == layout.nbytes - 8
    assert layout.get(argument, "doorbell_offset") >> 62 == 3


def test_a_render_node_has_no_calls(process):
    assert refused(errno.ENOTTY, process.platform.ioctl, process.render, 0x80084B01, bytearray(8))


def test_the_files_of_another_user_are_refused():
    process = Process()
    process.driver.refuses_access = True
    for path in ("/dev/kfd", "/dev/dri/renderD128"):
        assert refused(errno.EACCES, process.platform.open, path)


def test_memory_is_had_when_the_gpu_was_acquired():
    process = Process()
    assert refused(errno.ENODEV, process.alloc, PAGE)
    assert refused(
        errno.EINVAL, process.call, "acquire_vm", drm_fd=process.fd, gpu_id=process.gpu.gpu_id
    )
    assert refused(errno.EINVAL, process.call, "acquire_vm", drm_fd=process.render, gpu_id=1)
    process.acquire()
    process.alloc(PAGE)


def test_fresh_memory_of_the_gpu_is_poison_and_the_hosts_is_zero(process):
    vram, gtt = process.mapped(PAGE, kind=1), process.mapped(PAGE, kind=2)
    assert process.gpu.space.read(vram, 8) == b"\xff" * 8
    assert process.gpu.space.read(gtt, 8) == bytes(8)


def test_host_and_gpu_see_the_same_bytes_of_the_hosts_memory(process):
    at = process.mapped(PAGE)
    process.platform.store32(at, 5)
    process.gpu.space.write32(at + 4, 6)
    assert (process.gpu.space.read32(at), process.platform.load32(at + 4)) == (5, 6)


def test_memory_that_is_not_mapped_is_none_to_the_gpu(process):
    at, handle, _ = process.alloc(PAGE)
    with pytest.raises(MemoryFault):
        process.gpu.space.read(at, 4)
    assert process.on_gpus("map_memory_to_gpu", handle, process.gpu.gpu_id) == 1
    process.gpu.space.read(at, 4)
    process.on_gpus("unmap_memory_from_gpu", handle, process.gpu.gpu_id)
    with pytest.raises(MemoryFault):
        process.gpu.space.read(at, 4)


def test_the_gpu_writes_only_what_is_writable(process):
    at = process.mapped(PAGE, flags=0)
    with pytest.raises(MemoryFault, match="read-only"):
        process.gpu.space.write32(at, 1)
    writable = process.mapped(PAGE, flags=WRITABLE)
    with pytest.raises(MemoryFault, match="no execute"):
        process.gpu.space.fetch(writable, 4)


def test_handles_are_checked(process):
    _, handle, _ = process.alloc(PAGE)
    gpu_id = process.gpu.gpu_id
    assert refused(errno.EINVAL, process.on_gpus, "map_memory_to_gpu", handle + 1, gpu_id)
    assert refused(errno.EINVAL, process.on_gpus, "map_memory_to_gpu", handle, gpu_id + 1)
    assert refused(errno.EINVAL, process.call, "free_memory_of_gpu", handle=handle + 1)
    process.on_gpus("map_memory_to_gpu", handle, gpu_id)
    assert refused(errno.EBUSY, process.call, "free_memory_of_gpu", handle=handle)
    process.on_gpus("unmap_memory_from_gpu", handle, gpu_id)
    process.call("free_memory_of_gpu", handle=handle)
    assert refused(errno.EINVAL, process.call, "free_memory_of_gpu", handle=handle)


def test_addresses_and_sizes_are_checked(process):
    assert refused(errno.EINVAL, process.alloc, 100, at=1 << 20)
    assert refused(errno.EINVAL, process.alloc, PAGE, at=(1 << 20) + 1)
    assert refused(errno.EINVAL, process.alloc, PAGE, at=1 << 47)
    assert refused(errno.EINVAL, process.alloc, PAGE, kind=3)
    assert refused(errno.EINVAL, process.alloc, PAGE, kind=8)  # doorbells: not emulated


def test_the_gpus_memory_ends(process):
    whole = process.gpu.chip.vram
    assert refused(errno.ENOMEM, process.alloc, whole + PAGE, kind=1)
    before = process.call("available_memory", gpu_id=process.gpu.gpu_id)["available"]
    _, handle, _ = process.alloc(PAGE, kind=1)
    after = process.call("available_memory", gpu_id=process.gpu.gpu_id)["available"]
    process.call("free_memory_of_gpu", handle=handle)
    assert (before, after) == (whole, whole - PAGE)


def test_memory_of_the_program_is_used_in_place(process):
    data = mmap.mmap(-1, PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(data))
    at, handle, _ = process.alloc(PAGE, kind=4, mmap_offset=start)
    process.on_gpus("map_memory_to_gpu", handle, process.gpu.gpu_id)
    data[:4] = b"host"
    assert process.gpu.space.read(at, 4) == b"host"
    process.gpu.space.write(at, b"gpu!")
    assert data[:4] == b"gpu!"


def test_memory_that_the_program_does_not_have_is_efault(process):
    nothing = process.platform.reserve(PAGE, PAGE)
    process.platform.unmap(nothing, PAGE)
    assert refused(errno.EFAULT, process.alloc, PAGE, kind=4, mmap_offset=nothing, at=1 << 30)


def queue(process, **changed):
    values = {
        "ring_base_address": process.mapped(PAGE), "ring_size": PAGE,
        "read_pointer_address": process.mapped(PAGE), "write_pointer_address": process.mapped(PAGE),
        "gpu_id": process.gpu.gpu_id, "queue_type": 1, "queue_percentage": 100,
        "queue_priority": 7,
    }  # fmt: skip
    return process.call("create_queue", **values | changed)


def test_a_queue_has_a_number_and_a_doorbell_of_its_own(process):
    first, second = queue(process), queue(process)
    assert first["queue_id"] != second["queue_id"]
    assert second["doorbell_offset"] - first["doorbell_offset"] == 8
    process.call("destroy_queue", queue_id=first["queue_id"])
    assert refused(errno.EINVAL, process.call, "destroy_queue", queue_id=first["queue_id"])


@pytest.mark.parametrize(
    "changed",
    [
        {"ring_size": 512}, {"ring_size": 3072}, {"queue_type": 9}, {"queue_percentage": 101},
        {"queue_priority": 16}, {"gpu_id": 1},
    ],
)  # fmt: skip
def test_a_queue_of_wrong_values_is_refused(process, changed):
    assert refused(errno.EINVAL, queue, process, **changed)


@pytest.mark.parametrize(
    "which", ["ring_base_address", "read_pointer_address", "write_pointer_address"]
)
def test_a_queue_whose_memory_the_gpu_does_not_have_is_refused(process, which):
    at, _, _ = process.alloc(PAGE)
    assert refused(errno.EFAULT, queue, process, **{which: at})


def test_a_compute_queue_needs_memory_for_its_waves(process):
    assert refused(errno.EINVAL, queue, process, queue_type=0)
    assert refused(errno.EINVAL, queue, process, queue_type=0, eop_buffer_size=PAGE)


def test_doorbells_are_mapped_at_their_offset_alone(process):
    offset = queue(process)["doorbell_offset"]
    at = process.platform.reserve(0x2000, PAGE)
    process.platform.map(process.fd, 0x2000, offset & -0x2000, at)
    assert refused(errno.EINVAL, process.platform.map, process.fd, PAGE, offset & -0x2000, at)
    assert refused(errno.EINVAL, process.platform.map, process.fd, 0x2000, 0, at)


def test_memory_is_mapped_at_its_offset_alone(process):
    at, _, offset = process.alloc(PAGE)
    assert refused(errno.EINVAL, process.platform.map, process.render, PAGE, offset + 0x5000, at)
    assert refused(errno.EINVAL, process.platform.map, process.render, 2 * PAGE, offset, at)


def test_a_gpu_that_is_lost_refuses_calls(process):
    process.gpu.lose()
    assert refused(errno.ENODEV, process.alloc, PAGE)


def test_every_process_hears_where_its_addresses_are(process):
    block = bytearray(56)
    address = ctypes.addressof(ctypes.c_char.from_buffer(block))
    given = process.call(
        "get_process_apertures_new", kfd_process_device_apertures_ptr=address, num_of_nodes=1
    )
    assert given["num_of_nodes"] == 1
    assert int.from_bytes(block[48:52], "little") == process.gpu.gpu_id


def test_clocks_of_host_and_gpu_are_read_together(process):
    first = process.call("get_clock_counters", gpu_id=process.gpu.gpu_id)
    process.platform.skip(10**9)
    second = process.call("get_clock_counters", gpu_id=process.gpu.gpu_id)
    ticks = second["gpu_clock_counter"] - first["gpu_clock_counter"]
    elapsed = second["system_clock_counter"] - first["system_clock_counter"]
    assert ticks == pytest.approx(elapsed / 10, abs=1000)


@pytest.mark.parametrize(("kind", "nbytes"), [(8, 0x2000), (16, PAGE)])
def test_doorbells_and_registers_are_mapped_to_a_gpu_that_may_only_read_them(process, kind, nbytes):
    at, handle, offset = process.alloc(nbytes, kind)
    process.on_gpus("map_memory_to_gpu", handle, process.gpu.gpu_id)
    process.platform.map(process.fd, nbytes, offset, at)
    process.platform.store32(at, 5)
    assert process.gpu.space.read32(at) == 5
    with pytest.raises(MemoryFault, match="read-only"):
        process.gpu.space.write32(at, 6)
    assert refused(errno.EINVAL, process.alloc, 2 * nbytes, kind)


def test_no_gpu_goes_on_after_a_page_fault(process):
    asked = process.call("set_xnack_mode", xnack_enabled=0xFFFFFFFF)
    assert asked["xnack_enabled"] == 0
    assert refused(errno.EPERM, process.call, "set_xnack_mode", xnack_enabled=1)


def test_the_host_has_a_clock_and_node_0_has_no_gpu(process):
    found = process.call("get_clock_counters", gpu_id=0)
    assert found["gpu_clock_counter"] == 0
    assert found["system_clock_counter"] > 0


def test_lists_of_tiles_are_as_long_as_the_program_has_room_for(process):
    modes, macros = (ctypes.c_uint32 * 40)(*[7] * 40), (ctypes.c_uint32 * 8)(*[7] * 8)
    found = process.call(
        "get_tile_config", gpu_id=process.gpu.gpu_id, num_tile_configs=40,
        num_macro_tile_configs=8, tile_config_ptr=ctypes.addressof(modes),
        macro_tile_config_ptr=ctypes.addressof(macros),
    )  # fmt: skip
    assert (found["num_tile_configs"], found["num_macro_tile_configs"]) == (32, 8)
    assert list(modes) == [0] * 32 + [7] * 8
