"""AQL: packets of 64 bytes, as words: kernels by their descriptors, barriers, signals."""

from __future__ import annotations

from array import array

from treadle.runtime.hardware.amd.abi import BARRIER_PACKET, DISPATCH_PACKET

__all__ = [
    "KERNARG_WORD", "MOST_DEPENDENCIES", "PACKET_BYTES", "SIGNAL_WORD", "barrier", "dispatch",
]  # fmt: skip

PACKET_BYTES = 64
KERNARG_WORD = DISPATCH_PACKET.offsets["kernarg_address"] // 4
SIGNAL_WORD = DISPATCH_PACKET.offsets["completion_signal"] // 4

_KERNEL_DISPATCH, _BARRIER_AND = 2, 3
_BARRIER_BIT = 1 << 8
_SYSTEM_SCOPE = 2 << 9 | 2 << 11  # acquires from, and releases to, everybody
MOST_DEPENDENCIES = 5


def _words(block: bytearray) -> array[int]:
    return array("I", bytes(block))


def dispatch(
    kernel: int,
    workgroups: int,
    work_items: int,
    group_bytes: int,
    private_bytes: int,
) -> array[int]:
    """Starts a kernel, when the packets before have ended."""
    packet = DISPATCH_PACKET.pack(
        header=_KERNEL_DISPATCH | _BARRIER_BIT | _SYSTEM_SCOPE,
        setup=1,
        workgroup_size_x=work_items,
        workgroup_size_y=1,
        workgroup_size_z=1,
        grid_size_x=workgroups * work_items,
        grid_size_y=1,
        grid_size_z=1,
        private_segment_size=private_bytes,
        group_segment_size=group_bytes,
        kernel_object=kernel,
    )
    return _words(packet)


def barrier(signals: list[int]) -> array[int]:
    """Waits until at most five signals are 0 and the packets before have ended."""
    if len(signals) > MOST_DEPENDENCIES:
        raise ValueError(f"a barrier waits for at most {MOST_DEPENDENCIES} signals")
    packet = BARRIER_PACKET.pack(
        header=_BARRIER_AND | _BARRIER_BIT | _SYSTEM_SCOPE,
        dependencies=signals,
    )
    return _words(packet)
