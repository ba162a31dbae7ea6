"""One kernel launch as the command processor hands it to the compute units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from treadle.emulate.machine.faults import EngineFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.emulate.machine.memory import AddressSpace

__all__ = ["Dispatch", "Execute", "KernelFault"]

Dim = tuple[int, int, int]


@dataclass(frozen=True)
class Dispatch:
    """A launch. Addresses are the GPU's, in `space`.

    `program` is where the first instruction is; `rsrc1`, `rsrc2` and `rsrc3` are the registers
    COMPUTE_PGM_RSRC1 to 3. `user_sgprs` are the scalar registers from s0 on that are set at the
    start. `work_items` counts the work items of the whole grid: the last workgroup of an axis has
    fewer, where `workgroup` does not divide it. `lds` is in bytes. `scratch` is where the memory of
    all waves begins (0 where the kernel finds it by its scalar registers), and `scratch_wave` the
    bytes of each wave, of which `scratch_waves` have some at a time. `wave` is 32 or 64.
    """

    chip: str
    program: int
    rsrc1: int
    rsrc2: int
    rsrc3: int
    user_sgprs: tuple[int, ...]
    workgroup: Dim
    work_items: Dim
    lds: int
    scratch: int
    scratch_wave: int
    scratch_waves: int
    wave: int
    space: AddressSpace

    @property
    def workgroups(self) -> Dim:
        """How many workgroups there are along each axis."""
        x, y, z = (
            -(-items // size) for items, size in zip(self.work_items, self.workgroup, strict=True)
        )
        return x, y, z


class KernelFault(EngineFault):
    """What stops a kernel, other than memory: an illegal instruction, for instance."""


Execute: TypeAlias = "Callable[[Dispatch], None]"
