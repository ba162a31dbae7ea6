"""The memory that an emulated launch works in: records shared by translated code and Python.

A launch has one Launch record; each host thread that runs blocks has one Block record, which is
used again for block after block, and one Warp record for each warp of a block. A Warp ends with
the registers that live across basic blocks, one vector of 32 for each. Offsets are in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

__all__ = [
    "BLOCK", "BLOCK_BYTES", "DATA_BYTES", "FLIGHTS", "FLIGHT_BYTES", "KNOWN", "LANES",
    "LAST_STAMP", "LAUNCH", "LAUNCH_BYTES", "SLICE", "TENSOR_MAP", "TENSOR_MAP_BYTES",
    "TENSOR_MAP_SIGN", "WARP", "WARP_REGISTERS", "Fault", "Region",
]  # fmt: skip

LANES = 32
SLICE = 1_000  # backward branches that a warp takes before the others of its block have a turn
LAST_STAMP = (1 << 21) - 1  # of accesses to shared memory; later ones are not told apart
KNOWN = 8  # allocations that a host thread remembers
FLIGHTS, FLIGHT_BYTES = 64, 24  # reads of shared memory under way that a block remembers
DATA_BYTES = 1024  # 32 lanes of 32 bytes: the widest access


def _offsets(*fields: tuple[str, int]) -> tuple[dict[str, int], int]:
    """Each field behind the one before, on a multiple of its size (of 64 where it is larger)."""
    offsets, at = {}, 0
    for name, nbytes in fields:
        step = min(nbytes, 64)
        at = -(-at // step) * step
        offsets[name] = at
        at += nbytes
    return offsets, -(-at // 64) * 64


LAUNCH, LAUNCH_BYTES = _offsets(
    ("params", 8), ("table", 8), ("table_count", 8), ("globals", 8), ("next", 8), ("blocks", 8),
    ("grid_x", 4), ("grid_y", 4), ("grid_z", 4), ("block_x", 4), ("block_y", 4), ("block_z", 4),
    ("static_shared", 4), ("dynamic_shared", 4), ("limit", 8),
    # The first fault of the launch, and what is known about it.
    ("fault", 4), ("line", 4), ("thread", 4), ("nbytes", 4), ("address", 8), ("in_block", 8),
    ("extra", 8),
)  # fmt: skip

BLOCK, BLOCK_BYTES = _offsets(
    ("launch", 8), ("warps", 8), ("warp_bytes", 8), ("warp_count", 4), ("threads", 4),
    ("shared", 8), ("shared_bytes", 8), ("written", 8), ("read", 8), ("local", 8),
    ("local_bytes", 8), ("number", 8), ("ctaid_x", 4), ("ctaid_y", 4), ("ctaid_z", 4),
    ("live", 4), ("turns", 8),
    # (start, end) of allocations that were found last, by the low bits of the line that asked.
    ("known", 16 * KNOWN),
    # Stamps order accesses to shared memory: see support.
    ("stamp", 4), ("first_stamp", 4), ("barrier_stamp", 4), ("warp_stamps", 4 * LANES),
    ("proxy_stamps", 4 * LANES),
    # Of races in global memory, if `checks_races`: see global_shadow. `strong` says that accesses
    # are, `ordered` that the block has ordered itself behind others, `element` how wide what is
    # stored is, and `outer` which lanes of a generic access are in global memory.
    ("global_written", 8), ("global_read", 8), ("owners", 8), ("epoch_base", 8),
    ("epoch_shift", 8), ("epoch_before", 8), ("worker_mask", 8), ("worker", 8), ("ordered", 4),
    ("strong", 4), ("element", 4), ("outer", 4), ("checks_races", 4),
    ("arrived", 64), ("expected", 64), ("loose", 64), ("voted", 64), ("last_voted", 64),
    ("last_arrived", 64),
    # Pieces of shared memory that are still being read: see flights.
    ("flight_count", 8), ("flights", FLIGHTS * FLIGHT_BYTES),
)  # fmt: skip

WARP, WARP_REGISTERS = _offsets(
    ("live", 4), ("waiting", 4), ("held", 4), ("slice", 4), ("number", 4), ("flip", 4),
    # From here to pc all is zero when a block starts. `groups` are each thread's of cp.async,
    # `oldest_copy` and `next_copy` number the warp's copies: see async_support. `flight_groups` are
    # the warp's of each kind of flights.
    ("barriers", 64), ("groups", 128), ("oldest_copy", 4), ("next_copy", 4), ("flight_groups", 8),
    ("pc", 128),
    ("tid_x", 128), ("tid_y", 128), ("tid_z", 128),
    # Where translated code leaves addresses and data for the support functions, and back.
    ("addresses", 256), ("data", DATA_BYTES), ("more", DATA_BYTES), ("tiles", 24 * 1024),
)  # fmt: skip

# A tensor map is opaque to PTX, so its 128 bytes are ours to lay out. `sign` tells that it is one;
# dimensions that it lacks have a size and a box of 1. `pieces` has ones where a swizzle has bits,
# `rounds` says that elements become tf32.
TENSOR_MAP, _ = _offsets(
    ("sign", 4), ("rank", 4), ("nbytes", 4), ("pieces", 4), ("address", 8),
    *((f"size{d}", 8) for d in range(5)), *((f"stride{d}", 8) for d in range(1, 5)),
    *((f"box{d}", 2) for d in range(5)), ("rounds", 2),
)  # fmt: skip
TENSOR_MAP_BYTES, TENSOR_MAP_SIGN = 128, 0x54_4D_41_50


@dataclass(frozen=True)
class Region:
    """Memory that kernels may touch."""

    start: int
    nbytes: int


class Fault(IntEnum):
    """What went wrong, as support functions report it."""

    NONE = 0
    GLOBAL = 1
    MISALIGNED = 2
    SHARED = 3
    LOCAL = 4
    UNINITIALISED = 5
    RACE = 6
    TRAP = 7
    ASSERT = 8
    DEADLOCK = 9
    RUNAWAY = 10
    WARP_DEADLOCK = 11
    DIVERGED_BARRIER = 12
    BAD_BARRIER = 13
    BAD_TENSOR_MAP = 14
    IN_FLIGHT = 15
    PROXY = 16
    GLOBAL_RACE = 17
