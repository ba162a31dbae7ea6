"""What an instruction set adds to the core: a record of functions and names.

    FrontEnd("toy", Machine(64))                # nothing at all: memory, barriers, checks

A front end makes a Translation of each of its kernels. The core compiles it, lays out the memory
that it asks for, and runs it block after block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.emulate.simt.code import Code
    from treadle.emulate.simt.machine import Machine, Windows

__all__ = ["Dim", "FaultFacts", "FrontEnd", "Translation"]

Dim = tuple[int, int, int]


@dataclass(frozen=True)
class FaultFacts:
    """What a Launch record says of a fault. `who` and `where` are words for thread and block."""

    who: str
    where: str
    address: int
    nbytes: int
    extra: int
    block: Dim  # the shape of a block

    @property
    def size(self) -> str:
        return f"{self.nbytes} bytes" if self.nbytes != 1 else "1 byte"


def _nothing(*_: object) -> None:
    """A hook that is not used."""


@dataclass(frozen=True, eq=False)
class FrontEnd:
    """`machine` has the fields that the front end adds to the records.

    `functions` are support functions of its own, of which kernels call `symbols`.
    `start_block(code)` writes what is done when a block starts, in a function that has %launch,
    %block and %number, and `start_warp(code, warp)` what is done with the Warp at that address.
    `faults` words the kinds that are its own, `pending_reader` whoever reads shared memory after
    the thread. `windows` are fixed ranges of generic addresses; without them generic addresses are
    the host's.
    """

    name: str
    machine: Machine
    symbols: Sequence[str] = ()
    functions: Callable[[], list[str]] = list
    start_block: Callable[[Code], None] = _nothing
    start_warp: Callable[[Code, str], None] = _nothing
    faults: Mapping[int, Callable[[FaultFacts], str]] = field(default_factory=dict)
    pending_reader: str = "a copy"
    windows: Windows | None = None


@dataclass(frozen=True)
class Translation:
    """A kernel as LLVM IR, and the memory that it asks for.

    `ir` defines `symbol` as a function (ptr %block, ptr %warp) that runs a warp until its turn
    ends. `place` words the site of a fault: a number of an instruction, of which 0 is nowhere.
    """

    name: str
    symbol: str
    ir: str
    shared_bytes: int
    local_bytes: int
    warp_bytes: int
    place: Callable[[int], str]
