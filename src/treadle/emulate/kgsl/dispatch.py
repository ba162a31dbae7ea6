"""One kernel launch as the command processor hands it to the shader processors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.emulate.kgsl.chips import Chip
    from treadle.emulate.kgsl.images import Image
    from treadle.emulate.machine.memory import AddressSpace

__all__ = ["Dispatch", "Execute"]

Dim = tuple[int, int, int]


@dataclass(frozen=True)
class Dispatch:
    """A launch. Addresses are the GPU's, in `space`.

    `program` is where the first of `instructions` words of 64 bits is. `constants` are of 32 bits,
    from c0.x on. `registers` counts full registers of four components. `workgroup_register` and
    `local_register` name the first of three registers by components, or are None: they get the
    numbers of the workgroup and of the work item. `textures` are images that are read, by one of
    so many `samplers`, `images` those that are written as well. `has_demotion` says that half
    constants are those of 32 bits, and not the halves of these.
    """

    chip: Chip
    program: int
    instructions: int
    wave: int
    workgroups: Dim
    workgroup: Dim
    workgroup_register: int | None
    local_register: int | None
    registers: int
    shared_bytes: int
    private_bytes: int
    constants: tuple[int, ...]
    textures: tuple[Image, ...]
    samplers: int
    images: tuple[Image, ...]
    has_demotion: bool
    space: AddressSpace


Execute: TypeAlias = "Callable[[Dispatch], None]"
