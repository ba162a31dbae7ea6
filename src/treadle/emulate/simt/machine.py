"""The memory that an emulated launch works in: records shared by translated code and Python.

    machine = Machine(64, has_lane_counters=False, warp=(("scalars", 4 * 128),))
    machine.warp["scalars"]                         # an offset in bytes

A launch has one Launch record. Each host thread that runs blocks has one Block record, which is
used again for block after block, and one Warp record for each warp of a block. The words are
CUDA's: a block is a workgroup, a warp a subgroup or wave, a thread a work item, a lane its number
in the warp.

A Warp ends with the registers that live across basic blocks. A mask of lanes is an integer of as
many bits as a warp has lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BARRIERS", "FLIGHTS", "FLIGHT_BYTES", "KNOWN", "KNOWN_BYTES", "LAST_STAMP", "LOAD",
    "MOST_THREADS", "ORDERS_ALL", "ORDERS_GLOBAL", "ORDERS_SHARED", "REGION_WORDS", "SLICE",
    "STORE", "TOUCH", "WIDTHS", "Access", "Fault", "Field", "Machine", "Region", "Windows",
]  # fmt: skip

WIDTHS = (32, 64, 128)
MOST_THREADS = 1024  # of a block: the shadows have no more numbers
SLICE = 1_000  # backward branches that a warp takes before the others of its block have a turn
LAST_STAMP = (1 << 21) - 1  # of accesses to shared memory; later ones are not told apart
BARRIERS = 16  # of a block
FLIGHTS, FLIGHT_BYTES = 64, 24  # reads of shared memory under way that a block remembers
# Of 64 bits, of each region in a launch's table: start, end, delta, permissions, footprint.
REGION_WORDS = 5
KNOWN, KNOWN_BYTES = 8, 8 * REGION_WORDS  # regions that a host thread remembers
_MOST_WARPS = MOST_THREADS // WIDTHS[0]
_WIDEST = 32  # bytes that a lane has in an access

ORDERS_GLOBAL, ORDERS_SHARED, ORDERS_ALL = 1, 2, 3  # which memory a barrier orders

LOAD, STORE, TOUCH = 0, 1, 2  # what an access does; TOUCH is atomic

Field = tuple[str, int]  # a name, and bytes


def _offsets(*fields: Field) -> tuple[dict[str, int], int]:
    """Each field behind the one before, on a multiple of its size (of 64 where it is larger)."""
    offsets, at = {}, 0
    for name, nbytes in fields:
        step = min(nbytes, 64)
        at = -(-at // step) * step
        offsets[name] = at
        at += nbytes
    return offsets, -(-at // 64) * 64


_LAUNCH: tuple[Field, ...] = (
    ("params", 8), ("table", 8), ("table_count", 8), ("next", 8), ("blocks", 8),
    ("grid_x", 4), ("grid_y", 4), ("grid_z", 4), ("block_x", 4), ("block_y", 4), ("block_z", 4),
    ("dynamic_shared", 4), ("limit", 8),
    # The first fault of the launch, and what is known about it.
    ("fault", 4), ("site", 4), ("thread", 4), ("nbytes", 4), ("address", 8), ("in_block", 8),
    ("extra", 16),
)  # fmt: skip

_BLOCK: tuple[Field, ...] = (
    ("launch", 8), ("warps", 8), ("warp_bytes", 8), ("warp_count", 4), ("threads", 4),
    ("shared", 8), ("shared_bytes", 8), ("written", 8), ("read", 8), ("local", 8),
    ("local_bytes", 8), ("number", 8), ("index_x", 4), ("index_y", 4), ("index_z", 4),
    ("live", 4), ("turns", 8),
    # Where generic addresses are of shared and of local memory: see Windows.
    ("shared_window", 8), ("shared_window_bytes", 8),
    ("local_window", 8), ("local_window_bytes", 8), ("local_window_step", 8),
    # Rows of the table of regions that were found last, by the low bits of the site that asked.
    ("known", KNOWN_BYTES * KNOWN),
    # Stamps order accesses to shared memory: see shadow.
    ("stamp", 4), ("first_stamp", 4), ("barrier_stamp", 4), ("warp_stamps", 4 * _MOST_WARPS),
    # The same of global memory, and which of the two a barrier orders: ORDERS_GLOBAL and so on.
    ("global_barrier_stamp", 4), ("global_warp_stamps", 4 * _MOST_WARPS), ("barrier_orders", 4),
    # Of races in global memory, if `checks_races`: see global_shadow. `strong` says that accesses
    # are, `ordered` that the block has ordered itself behind others, `element` how wide what is
    # stored is, and `outer` which lanes of a generic access are in global memory.
    ("global_written", 8), ("global_read", 8), ("owners", 8), ("epoch_base", 8),
    ("epoch_shift", 8), ("epoch_before", 8), ("worker_mask", 8), ("worker", 8), ("ordered", 4),
    ("strong", 4), ("element", 4), ("outer", 16), ("checks_races", 4),
    # Of each barrier; `phases` is how many times all have met there.
    *((name, 4 * BARRIERS) for name in (
        "arrived", "expected", "loose", "voted", "last_voted", "last_arrived", "phases",
    )),
    # Pieces of shared memory that are still being read: see pending_reads.
    ("flight_count", 8), ("flights", FLIGHTS * FLIGHT_BYTES),
)  # fmt: skip


def _warp(width: int, has_lane_counters: bool) -> tuple[Field, ...]:
    mask = width // 8
    counters = (("pc", 4 * width),) if has_lane_counters else (("exec", mask), ("pc", 4))
    return (
        ("live", mask), ("waiting", mask), ("held", mask), ("slice", 4), ("number", 4), ("flip", 4),
        # From here to pc all is zero when a block starts. `signalled` are the phases of barriers at
        # which the warp last arrived, `flight_groups` its own of each kind of pending reads.
        ("barriers", mask * BARRIERS), ("signalled", 4 * BARRIERS), ("flight_groups", 8), *counters,
        ("tid_x", 4 * width), ("tid_y", 4 * width), ("tid_z", 4 * width),
        # Where translated code leaves addresses and data for the support functions, and back.
        # `hosts` are the host's addresses of those that have passed their checks.
        ("addresses", 8 * width), ("hosts", 8 * width), ("data", _WIDEST * width),
        ("more", _WIDEST * width),
    )  # fmt: skip


class Machine:
    """How wide warps are, how they branch, and where the fields of the records lie.

    With `has_lane_counters` each lane has a program counter. Without, the warp has one, and the
    lanes that act are those of its mask `exec`. With `needs_alignment` an access is on a multiple
    of its bytes. Without, only one that is atomic has to be. `launch`, `block` and `warp` are
    fields that a front end adds. Raises ValueError for a width that is not among WIDTHS.
    """

    def __init__(
        self,
        width: int,
        has_lane_counters: bool = True,
        needs_alignment: bool = True,
        launch: Sequence[Field] = (),
        block: Sequence[Field] = (),
        warp: Sequence[Field] = (),
    ) -> None:
        if width not in WIDTHS:
            raise ValueError(f"a warp has {', '.join(map(str, WIDTHS))} lanes, not {width}")
        self.width, self.has_lane_counters = width, has_lane_counters
        self.needs_alignment = needs_alignment
        self.shift = width.bit_length() - 1  # thread >> shift is its warp
        self.mask = f"i{width}"
        self.launch, self.launch_bytes = _offsets(*_LAUNCH, *launch)
        self.block, self.block_bytes = _offsets(*_BLOCK, *block)
        core = _warp(width, has_lane_counters)
        self.warp, self.warp_bytes = _offsets(*core, *warp)
        sizes = dict(core)
        self.zeroed_bytes = self.warp["pc"] + sizes["pc"] - self.warp["barriers"]

    def align(self, nbytes: int) -> int:
        """What the address of an access of so many bytes is a multiple of, if nothing is atomic."""
        return nbytes if self.needs_alignment else 1

    def lanes(self, kind: str) -> str:
        """The type of a value of `kind` in each lane: `i32` -> `<32 x i32>`."""
        return f"<{self.width} x {kind}>"

    def constants(self, kind: str, values: Sequence[int]) -> str:
        """A vector of constants."""
        return f"<{', '.join(f'{kind} {value}' for value in values)}>"

    @property
    def iota(self) -> str:
        """The number of each lane, as i64."""
        return self.constants("i64", range(self.width))


@dataclass(frozen=True)
class Windows:
    """Generic addresses that are of shared and of local memory, the same ones for each block."""

    shared: int
    shared_bytes: int
    local: int
    local_bytes: int


class Access(IntFlag):
    """What kernels may do with a region."""

    READ = 1
    WRITE = 2
    EXECUTE = 4
    ALL = 7


@dataclass(frozen=True)
class Region:
    """Memory that kernels may touch: an address plus `delta` is the host's address of the byte.

    `footprint` is the record of a Footprint that notes what is touched, or 0.
    """

    start: int
    nbytes: int
    delta: int = 0
    access: Access = Access.ALL
    footprint: int = 0


class Fault(IntEnum):
    """What went wrong, as support functions report it. Those of front ends begin at FIRST_OWN."""

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
    IN_FLIGHT = 14
    GLOBAL_RACE = 15
    FORBIDDEN = 16
    BAD_JUMP = 17
    ARRIVED_TWICE = 18
    FIRST_OWN = 64
