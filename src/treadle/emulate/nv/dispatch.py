"""One kernel launch as the compute class hands it to the multiprocessors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from treadle.emulate.machine.memory import AddressSpace
    from treadle.emulate.nv.chips import Chip

__all__ = ["Dispatch", "Execute"]

Dim = tuple[int, int, int]


@dataclass(frozen=True)
class Dispatch:
    """A launch. Addresses are the GPU's, in `space`.

    `program` is where the first instruction is. `shared` and `local` are bytes, of a block and of
    a work item; `banks` are constant banks by number: address and bytes. `local_window` and
    `shared_window` are where generic addresses of these begin.
    """

    chip: Chip
    space: AddressSpace
    program: int
    grid: Dim
    block: Dim
    registers: int
    barriers: int
    shared: int
    local: int
    banks: Mapping[int, tuple[int, int]]
    local_window: int
    shared_window: int


Execute: TypeAlias = "Callable[[Dispatch], None]"
