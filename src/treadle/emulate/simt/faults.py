"""What is said about a kernel that went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.emulate.simt.front_end import Dim, FaultFacts, FrontEnd, Translation
from treadle.emulate.simt.global_rows import Noted
from treadle.emulate.simt.machine import BARRIERS, LOAD, Fault, Region
from treadle.emulate.simt.shadow import ASYNCHRONOUS, OF_MANY, OF_WARP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["EmulationFault", "Launched", "coordinates", "describe"]


class EmulationFault(Exception):
    """A kernel did what stops it on hardware, or what only a checker sees: `kind`.

    `address` is where, for faults of memory.
    """

    def __init__(self, kind: int, message: str, address: int = 0) -> None:
        self.kind, self.address = kind, address
        super().__init__(message)


@dataclass(frozen=True)
class Launched:
    """What a launch was of; `block_at` names a block by an epoch of global memory."""

    front: FrontEnd
    translation: Translation
    grid: Dim
    block: Dim
    memory: Sequence[Region]
    block_at: Callable[[int], int]


def describe(fault: int, get: Callable[[str, int], int], launched: Launched) -> EmulationFault:
    """The fault that a Launch record holds, as an exception. `get` reads a field of the record."""
    translation, grid, block = launched.translation, launched.grid, launched.block
    where = f"kernel {translation.name}, block {coordinates(get('in_block', 8), grid)}"
    who = f"{where}, thread {coordinates(get('thread', 4), block)}"
    facts = FaultFacts(who, where, get("address", 8), get("nbytes", 4), get("extra", 16), block)
    site = get("site", 4)
    at = f" ({translation.place(site)})" if site else ""
    own = launched.front.faults.get(fault)
    message = own(facts) if own else _message(Fault(fault), facts, launched)
    return EmulationFault(fault, message + at, facts.address)


def _message(kind: Fault, facts: FaultFacts, launched: Launched) -> str:
    who, where, size = facts.who, facts.where, facts.size
    address, nbytes, extra, block = facts.address, facts.nbytes, facts.extra, facts.block
    memory = launched.memory
    messages = {
        Fault.GLOBAL: lambda: f"{who}: access to {size} at 0x{address:x}, "
        f"{_near(address, nbytes, memory)}",
        Fault.FORBIDDEN: lambda: f"{who}: {'reads' if extra == LOAD else 'writes'} {size} at "
        f"0x{address:x}, {_inside(address, memory)}, which does not allow it",
        Fault.MISALIGNED: lambda: f"{who}: access to {size} at 0x{address:x}, which is no "
        f"multiple of {extra}",
        Fault.SHARED: lambda: f"{who}: access to {size} at offset {_signed(address)} of shared "
        f"memory, of which the block has {extra} bytes",
        Fault.LOCAL: lambda: f"{who}: access to {size} at offset {_signed(address)} of local "
        f"memory, of which a thread has {launched.translation.local_bytes} bytes",
        Fault.UNINITIALISED: lambda: f"{who}: reads {size} at offset {address} of shared memory "
        "that the block never wrote, or that nobody has waited to be copied there",
        Fault.RACE: lambda: f"{who}: a data race with {_other(extra, block)} on {size} at offset "
        f"{address} of shared memory: no barrier is between them",
        Fault.GLOBAL_RACE: lambda: f"{who}: a data race with {_other_outside(extra, launched)} on "
        f"{size} at 0x{address:x}, {_inside(address, memory)}: nothing orders them",
        Fault.TRAP: lambda: f"{who}: trap",
        Fault.ASSERT: lambda: f"{who}: an assertion failed",
        Fault.DEADLOCK: lambda: f"{where}: all threads that are left wait at barriers that "
        "others never reach",
        Fault.RUNAWAY: lambda: f"{where}: it does not end: the warps of a block have taken "
        "200 million backward branches, or as many turns at waiting",
        Fault.WARP_DEADLOCK: lambda: f"{who}: lanes {_lanes(extra)} wait at an instruction that "
        "names lanes which never come to it",
        Fault.DIVERGED_BARRIER: lambda: f"{where}: threads of warp {extra} wait at different "
        f"instructions of barrier {address}; all of a warp must be at one",
        Fault.IN_FLIGHT: lambda: f"{who}: writes {size} at offset {address} of shared memory that "
        f"{launched.front.pending_reader} of warp {extra} may still read: it has not been waited "
        "for",
        Fault.BAD_JUMP: lambda: f"{who}: jumps to 0x{address:x}, where no instruction begins",
        Fault.ARRIVED_TWICE: lambda: f"{who}: the warp arrives at barrier {address} again before "
        "all others have",
        Fault.BAD_BARRIER: lambda: f"{who}: there is no barrier {address}, only 0 to "
        f"{BARRIERS - 1}",
    }  # fmt: skip
    return messages[kind]()


def coordinates(number: int, shape: Dim) -> str:
    """The place of a thread or a block of this number, of those of a shape."""
    x, y, z = shape
    return f"({number % x}, {number // x % y}, {number // (x * y) % max(z, 1)})"


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _lanes(mask: int) -> str:
    return ", ".join(str(lane) for lane in range(mask.bit_length()) if mask >> lane & 1)


def _other(extra: int, block: Dim) -> str:
    """Who made the earlier access of a race, and of which kind it was."""
    id, what = extra & 0xFFFFFFFF, "reads" if extra >> 32 else "writes"
    if id < OF_WARP:
        return f"thread {coordinates(id, block)}, which {what} it"
    if id == ASYNCHRONOUS:
        return "an asynchronous copy, which nobody has waited for"
    if id < OF_MANY:
        return f"several threads of warp {id - OF_WARP}, which read it"
    return "threads of several warps, which read it"


def _other_outside(extra: int, launched: Launched) -> str:
    """Who made the earlier access of a race in global memory, and of which kind it was."""
    access = Noted(extra)
    if access.is_of_blocks:
        return f"threads of several blocks, which {access.verb} it"
    where = f"of block {coordinates(launched.block_at(access.epoch), launched.grid)}"
    if access.id < OF_WARP:
        thread = coordinates(access.id, launched.block)
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
    for region in memory:
        offset = address - region.delta - region.start
        if region.delta and 0 <= offset < region.nbytes:
            return (
                f"the host's address of byte {offset} of the allocation of {region.nbytes} at "
                f"0x{region.start:x}: kernels know that address only"
            )
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
