"""The emulated GPUs: facts of one real card for each architecture, and what its classes are.

Classes are those that RM lists for the chip (`g_gpu_class_list.c`). The words of constant bank 0
were read off machine code: `nvdisasm` on a kernel that uses each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.emulate.nv import tables

__all__ = ["Bank0", "Chip", "chip"]

_GIB, _KIB = 1 << 30, 1 << 10


@dataclass(frozen=True)
class Bank0:
    """Offsets in constant bank 0 of what machine code reads there.

    `descriptor`: 64 bits that go with each access of global memory; what they say is not published.
    """

    block: int
    grid: int
    local: int
    shared: int | None
    stack: int
    descriptor: int
    parameters: int

    @property
    def words(self) -> frozenset[int]:
        """All words before the parameters that a launch has to have."""
        found = {self.stack}
        for start, nbytes in (
            (self.block, 12), (self.grid, 12), (self.local, 8), (self.descriptor, 8),
            (self.shared, 8),
        ):  # fmt: skip
            if start is not None:
                found.update(range(start, start + nbytes, 4))
        return frozenset(found)


_AMPERE = Bank0(
    block=0x0, grid=0xC, local=0x20, shared=0x18, stack=0x28, descriptor=0x118, parameters=0x160
)
_HOPPER = Bank0(
    block=0x0, grid=0xC, local=0x20, shared=None, stack=0x28, descriptor=0x208, parameters=0x210
)
_BLACKWELL = Bank0(
    block=0x360, grid=0x370, local=0x2F8, shared=None, stack=0x37C, descriptor=0x358,
    parameters=0x380,
)  # fmt: skip


@dataclass(frozen=True)
class Chip:
    """One card. `sm_version` is as RM tells it, `classes` are names of `g_allclasses.h`.

    `shared` is what a multiprocessor has; `reserved_shared` what the hardware takes of each block
    beside what machine code says that it needs. `tpcs` are of two multiprocessors each.
    """

    arch: str
    name: str
    sm_version: int
    sass: int
    compute: str
    channel: str
    copy: str
    usermode: str
    qmd: str
    bank0: Bank0
    gpcs: int
    tpcs: int
    warps: int
    shared: int
    reserved_shared: int
    vram: int = 2 * _GIB

    @property
    def classes(self) -> list[int]:
        """The numbers of all classes that a client can make."""
        return [
            tables.number(name)
            for name in (
                self.compute, self.channel, self.copy, self.usermode, "NV01_DEVICE_0",
                "NV20_SUBDEVICE_0", "NV01_MEMORY_VIRTUAL", "NV01_MEMORY_SYSTEM",
                "NV01_MEMORY_LOCAL_USER", "NV01_MEMORY_SYSTEM_OS_DESCRIPTOR", "FERMI_VASPACE_A",
                "KEPLER_CHANNEL_GROUP_A", "FERMI_CONTEXT_SHARE_A", "GT200_DEBUGGER",
            )
        ]  # fmt: skip


def _ampere(arch: str, name: str, version: int, compute: str, copy: str, *sizes: int) -> Chip:
    gpcs, tpcs, warps, shared = sizes
    return Chip(
        arch, name, version, (version & 0xF00) >> 4 | version & 0xF, compute,
        "AMPERE_CHANNEL_GPFIFO_A", copy, "AMPERE_USERMODE_A", "3.0", _AMPERE, gpcs, tpcs, warps,
        shared * _KIB, 1 * _KIB,
    )  # fmt: skip


_CHIPS = {
    one.arch: one
    for one in (
        _ampere("sm_80", "NVIDIA A100", 0x800, "AMPERE_COMPUTE_A", "AMPERE_DMA_COPY_A",
                6, 9, 64, 164),
        _ampere("sm_86", "NVIDIA GeForce RTX 3090", 0x806, "AMPERE_COMPUTE_B",
                "AMPERE_DMA_COPY_B", 7, 6, 48, 100),
        _ampere("sm_89", "NVIDIA GeForce RTX 4090", 0x809, "ADA_COMPUTE_A", "AMPERE_DMA_COPY_B",
                8, 8, 48, 100),
        Chip("sm_90a", "NVIDIA H100", 0x900, 0x90, "HOPPER_COMPUTE_A", "HOPPER_CHANNEL_GPFIFO_A",
             "HOPPER_DMA_COPY_A", "HOPPER_USERMODE_A", "4.0", _HOPPER, 6, 11, 64, 228 * _KIB, 0),
        Chip("sm_100a", "NVIDIA B200", 0xA00, 0xA0, "BLACKWELL_COMPUTE_A",
             "BLACKWELL_CHANNEL_GPFIFO_A", "BLACKWELL_DMA_COPY_A", "BLACKWELL_USERMODE_A", "5.0",
             _BLACKWELL, 8, 9, 64, 228 * _KIB, 0),
        Chip("sm_120", "NVIDIA GeForce RTX 5090", 0xC00, 0xC0, "BLACKWELL_COMPUTE_B",
             "BLACKWELL_CHANNEL_GPFIFO_A", "BLACKWELL_DMA_COPY_B", "BLACKWELL_USERMODE_A", "5.0",
             _BLACKWELL, 11, 8, 48, 100 * _KIB, 0),
    )
}  # fmt: skip


def chip(arch: str) -> Chip:
    """The card of an architecture such as `sm_80`. Raises ValueError for others."""
    name = {"sm_90": "sm_90a", "sm_100": "sm_100a", "sm_120a": "sm_120"}.get(arch, arch)
    if name not in _CHIPS:
        raise ValueError(f"no NVIDIA GPU of {arch!r} is emulated; there are {', '.join(_CHIPS)}")
    return _CHIPS[name]
