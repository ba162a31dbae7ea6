"""The kernel driver's calls and HSA's structures, as tables of our own.

`CALLS["create_queue"]` has a number and the layout of its argument. The tests compare sizes,
offsets and numbers with those that a C compiler finds in the headers of Linux and HSA.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from treadle.runtime.hardware.structs import Struct
from treadle.runtime.hardware.timeline import SlotLayout

__all__ = [
    "AMD_QUEUE", "AMD_SIGNAL", "BARRIER_PACKET", "CALLS", "DISPATCH_PACKET", "EVENT_DATA",
    "HW_EXCEPTION", "KERNEL_DESCRIPTOR", "MEMORY_EXCEPTION", "SIGNAL_SLOT", "Call", "EventType",
    "Memory", "QueueType",
]  # fmt: skip


class Memory(enum.IntFlag):
    """Where memory is, and what may be done with it."""

    VRAM = 1 << 0
    GTT = 1 << 1
    USERPTR = 1 << 2
    DOORBELL = 1 << 3
    MMIO_REMAP = 1 << 4
    UNCACHED = 1 << 25
    COHERENT = 1 << 26
    NO_SUBSTITUTE = 1 << 28
    PUBLIC = 1 << 29
    EXECUTABLE = 1 << 30
    WRITABLE = 1 << 31


class QueueType(enum.IntEnum):
    """Kinds of queues."""

    COMPUTE = 0
    SDMA = 1
    COMPUTE_AQL = 2
    SDMA_XGMI = 3


class EventType(enum.IntEnum):
    """Kinds of events."""

    SIGNAL = 0
    HW_EXCEPTION = 3
    MEMORY = 8


# -- calls of /dev/kfd ----------------------------------------------------------------------------

_READ, _WRITE = 2, 1  # the directions of Linux's ioctls, seen from the program
_KFD = ord("K")


class Call(NamedTuple):
    """One call: its number and its argument."""

    request: int
    argument: Struct


def _call(direction: int, number: int, argument: Struct) -> Call:
    return Call(direction << 30 | argument.nbytes << 16 | _KFD << 8 | number, argument)


CALLS = {
    "get_version": _call(
        _READ, 0x01, Struct("get_version", major_version="u32", minor_version="u32")
    ),
    "create_queue": _call(
        _READ | _WRITE, 0x02,
        Struct(
            "create_queue", ring_base_address="u64", write_pointer_address="u64",
            read_pointer_address="u64", doorbell_offset="u64", ring_size="u32", gpu_id="u32",
            queue_type="u32", queue_percentage="u32", queue_priority="u32", queue_id="u32",
            eop_buffer_address="u64", eop_buffer_size="u64", ctx_save_restore_address="u64",
            ctx_save_restore_size="u32", ctl_stack_size="u32", sdma_engine_id="u32", pad="u32",
        ),
    ),
    "destroy_queue": _call(
        _READ | _WRITE, 0x03, Struct("destroy_queue", queue_id="u32", pad="u32")
    ),
    "create_event": _call(
        _READ | _WRITE, 0x08,
        Struct(
            "create_event", event_page_offset="u64", event_trigger_data="u32", event_type="u32",
            auto_reset="u32", node_id="u32", event_id="u32", event_slot_index="u32",
        ),
    ),
    "wait_events": _call(
        _READ | _WRITE, 0x0C,
        Struct(
            "wait_events", events_ptr="u64", num_events="u32", wait_for_all="u32", timeout="u32",
            wait_result="u32",
        ),
    ),
    "acquire_vm": _call(_WRITE, 0x15, Struct("acquire_vm", drm_fd="u32", gpu_id="u32")),
    "alloc_memory_of_gpu": _call(
        _READ | _WRITE, 0x16,
        Struct(
            "alloc_memory_of_gpu", va_addr="u64", size="u64", handle="u64", mmap_offset="u64",
            gpu_id="u32", flags="u32",
        ),
    ),
    "free_memory_of_gpu": _call(_WRITE, 0x17, Struct("free_memory_of_gpu", handle="u64")),
    "map_memory_to_gpu": _call(
        _READ | _WRITE, 0x18,
        Struct(
            "map_memory_to_gpu", handle="u64", device_ids_array_ptr="u64", n_devices="u32",
            n_success="u32",
        ),
    ),
    "unmap_memory_from_gpu": _call(
        _READ | _WRITE, 0x19,
        Struct(
            "unmap_memory_from_gpu", handle="u64", device_ids_array_ptr="u64", n_devices="u32",
            n_success="u32",
        ),
    ),
    "runtime_enable": _call(
        _READ | _WRITE, 0x25,
        Struct("runtime_enable", r_debug="u64", mode_mask="u32", capabilities_mask="u32"),
    ),
}  # fmt: skip

# -- what events tell -----------------------------------------------------------------------------

_MEMORY_FAILURE = Struct(
    "memory_failure", not_present="u32", read_only="u32", no_execute="u32", imprecise="u32"
)
MEMORY_EXCEPTION = Struct(
    "memory_exception", failure=_MEMORY_FAILURE, va="u64", gpu_id="u32", error_type="u32"
)
HW_EXCEPTION = Struct(
    "hw_exception", reset_type="u32", reset_cause="u32", memory_lost="u32", gpu_id="u32"
)
# The first 32 bytes are one of the two above, as the event's type says.
EVENT_DATA = Struct("event_data", data=("u64", 4), extension="u64", event_id="u32", pad="u32")

# -- HSA ------------------------------------------------------------------------------------------

DISPATCH_PACKET = Struct(
    "dispatch_packet", header="u16", setup="u16", workgroup_size_x="u16", workgroup_size_y="u16",
    workgroup_size_z="u16", reserved0="u16", grid_size_x="u32", grid_size_y="u32",
    grid_size_z="u32", private_segment_size="u32", group_segment_size="u32", kernel_object="u64",
    kernarg_address="u64", reserved2="u64", completion_signal="u64",
)  # fmt: skip
BARRIER_PACKET = Struct(
    "barrier_packet", header="u16", reserved0="u16", reserved1="u32", dependencies=("u64", 5),
    reserved2="u64", completion_signal="u64",
)  # fmt: skip
AMD_QUEUE = Struct(
    "amd_queue", hsa_queue=("u64", 5), reserved1=("u32", 4), write_dispatch_id="u64",
    group_aperture_hi="u32", private_aperture_hi="u32", max_cu_id="u32", max_wave_id="u32",
    max_legacy_doorbell="u64", legacy_doorbell_lock="u32", reserved2=("u32", 9),
    read_dispatch_id="u64", read_dispatch_id_field_base_byte_offset="u32",
    compute_tmpring_size="u32", scratch_resource_descriptor=("u32", 4),
    scratch_backing_memory_location="u64", scratch_backing_memory_byte_size="u64",
    scratch_wave64_lane_byte_size="u32", queue_properties="u32", reserved3=("u32", 2),
    queue_inactive_signal="u64", reserved4=("u32", 14),
)  # fmt: skip
AMD_SIGNAL = Struct(
    "amd_signal", kind="i64", value="i64", event_mailbox_ptr="u64", event_id="u32",
    reserved1="u32", start_ts="u64", end_ts="u64", queue_ptr="u64", reserved3=("u32", 2),
)  # fmt: skip
SIGNAL_SLOT = SlotLayout(
    AMD_SIGNAL.nbytes,
    AMD_SIGNAL.offsets["value"],
    AMD_SIGNAL.offsets["start_ts"],
    AMD_SIGNAL.offsets["end_ts"],
)
KERNEL_DESCRIPTOR = Struct(
    "kernel_descriptor", group_segment_fixed_size="u32", private_segment_fixed_size="u32",
    kernarg_size="u32", reserved0="u32", kernel_code_entry_byte_offset="i64",
    reserved1=("u8", 20), compute_pgm_rsrc3="u32", compute_pgm_rsrc1="u32",
    compute_pgm_rsrc2="u32", kernel_code_properties="u16", kernarg_preload="u16", reserved3="u32",
)  # fmt: skip
