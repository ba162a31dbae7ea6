"""What is said about a kernel that went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.emulate.ptx.global_rows import Access
from treadle.emulate.ptx.machine import LAUNCH, Fault, Region
from treadle.emulate.ptx.shadow import OF_MANY, OF_WARP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treadle.emulate.ptx.translate import Translation

__all__ = ["EmulationFault", "Launched", "describe"]

Dim = tuple[int, int, int]


class EmulationFault(Exception):
    """A kernel did what stops it on hardware, or what only a checker sees: `kind`."""

    def __init__(self, kind: Fault, message: str) -> None:
        self.kind = kind
        super().__init__(message)


@dataclass(frozen=True)
class Launched:
    """What a launch was of; `block_at` names a block by an epoch of global memory."""

    translation: Translation
    grid: Dim
    block: Dim
    memory: Sequence[Region]
    block_at: Callable[[int], int]


def describe(fault: int, get: Callable[[int, int], int], launched: Launched) -> EmulationFault:
    """The fault that a Launch record holds, as an exception."""
    translation, grid, block = launched.translation, launched.grid, launched.block
    memory = launched.memory
    kind = Fault(fault)
    thread, number = get(LAUNCH["thread"], 4), get(LAUNCH["in_block"], 8)
    address, nbytes = get(LAUNCH["address"], 8), get(LAUNCH["nbytes"], 4)
    extra, line = get(LAUNCH["extra"], 8), get(LAUNCH["line"], 4)
    where = f"kernel {translation.name}, block {_coordinates(number, grid)}"
    who = f"{where}, thread {_coordinates(thread, block)}"
    at = f" (PTX line {line})" if line else ""
    size = f"{nbytes} bytes" if nbytes != 1 else "1 byte"
    other = _other(extra, block)
    messages = {
        Fault.GLOBAL: lambda: f"{who}: access to {size} at 0x{address:x}, "
        f"{_near(address, nbytes, memory)}{at}",
        Fault.MISALIGNED: lambda: f"{who}: access to {size} at 0x{address:x}, which is no "
        f"multiple of {nbytes}{at}",
        Fault.SHARED: lambda: f"{who}: access to {size} at offset {_signed(address)} of shared "
        f"memory, of which the block has {extra} bytes{at}",
        Fault.LOCAL: lambda: f"{who}: access to {size} at offset {_signed(address)} of local "
        f"memory, of which a thread has {translation.local_bytes} bytes{at}",
        Fault.UNINITIALISED: lambda: f"{who}: reads {size} at offset {address} of shared memory "
        f"that the block never wrote, or that nobody has waited to be copied there{at}",
        Fault.RACE: lambda: f"{who}: a data race with {other} on {size} at offset {address} of "
        f"shared memory: no barrier is between them{at}",
        Fault.GLOBAL_RACE: lambda: f"{who}: a data race with {_other_outside(extra, launched)} on "
        f"{size} at 0x{address:x}, {_inside(address, memory)}: nothing orders them{at}",
        Fault.TRAP: lambda: f"{who}: trap{at}",
        Fault.ASSERT: lambda: f"{who}: an assertion failed{at}",
        Fault.DEADLOCK: lambda: f"{where}: all threads that are left wait at barriers that "
        "others never reach",
        Fault.RUNAWAY: lambda: f"{where}: it does not end: the warps of a block have taken "
        "200 million backward branches, or as many turns at waiting",
        Fault.WARP_DEADLOCK: lambda: f"{who}: lanes {_lanes(extra)} wait at an instruction that "
        "names lanes which never come to it",
        Fault.DIVERGED_BARRIER: lambda: f"{where}: threads of warp {extra} wait at different "
        f"instructions of barrier {address}; all of a warp must be at one{at}",
        Fault.IN_FLIGHT: lambda: f"{who}: writes {size} at offset {address} of shared memory that "
        f"a wgmma or bulk copy of warp {extra} may still read: it has not been waited for{at}",
        Fault.PROXY: lambda: f"{who}: wgmma or a bulk copy reads offset {address} of shared "
        f"memory, which thread {_coordinates(extra, block)} stored with no fence.proxy.async "
        f"since{at}",
        Fault.BAD_TENSOR_MAP: lambda: f"{who}: there is no tensor map of {extra} dimensions at "
        f"0x{address:x}{at}",
        Fault.BAD_BARRIER: lambda: f"{who}: there is no barrier {address}, only 0 to 15{at}",
    }  # fmt: skip
    return EmulationFault(kind, messages[kind]())


def _coordinates(number: int, shape: Dim) -> str:
    x, y, z = shape
    return f"({number % x}, {number // x % y}, {number // (x * y) % max(z, 1)})"


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _lanes(mask: int) -> str:
    return ", ".join(str(lane) for lane in range(32) if mask >> lane & 1)


def _other(extra: int, block: Dim) -> str:
    """Who made the earlier access of a race, and of which kind it was."""
    id, what = extra & 0xFFFFFFFF, "reads" if extra >> 32 else "writes"
    if id < 1024:
        return f"thread {_coordinates(id, block)}, which {what} it"
    if id == 1057:
        return "an asynchronous copy, which nobody has waited for"
    if id < 1056:
        return f"several threads of warp {id - 1024}, which read it"
    return "threads of several warps, which read it"


def _other_outside(extra: int, launched: Launched) -> str:
    """Who made the earlier access of a race in global memory, and of which kind it was."""
    access = Access(extra)
    if access.is_of_blocks:
        return f"threads of several blocks, which {access.verb} it"
    where = f"of block {_coordinates(launched.block_at(access.epoch), launched.grid)}"
    if access.id < OF_WARP:
        thread = _coordinates(access.id, launched.block)
        return f"thread {thread} {where}, which {access.verb}s it"
    if access.id < OF_MANY:
        return f"threads of warp {access.id - OF_WARP} {where}, which {access.verb} it"
    return f"threads of several warps {where}, which {access.verb} it"


def _inside(address: int, memory: Sequence[Region]) -> str:
    """Which allocation an address is in."""
    best = min(memory, key=lambda region: _distance(address, region))
    return f"{address - best.start} bytes into the allocation of {best.nbytes} at 0x{best.start:x}"


def _near(address: int, nbytes: int, memory: Sequence[Region]) -> str:
    """Where an address is, seen from the allocations around it."""
    if not memory:
        return "and nothing is allocated"
    if address < 4096:
        return "a null pointer"
    best = min(memory, key=lambda region: _distance(address, region))
    end = best.start + best.nbytes
    block = f"the allocation of {best.nbytes} bytes at 0x{best.start:x}"
    if address < best.start:
        return f"{best.start - address} bytes before {block}"
    if address < end:
        return f"of which the last {address + nbytes - end} are past the end of {block}"
    past = address - end
    return f"{past} bytes past the end of {block}" if past else f"right behind {block}"


def _distance(address: int, region: Region) -> int:
    return max(region.start - address, address - region.start - region.nbytes, 0)
