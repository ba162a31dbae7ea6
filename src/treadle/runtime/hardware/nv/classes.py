"""What differs between generations of GPUs, as rows: classes, queue meta data, constant bank 0.

    generation = generation_of(0x80, class_list)       # DeviceError for one without a row
    generation.compute                                 -> 0xC6C0

Class numbers are those of `g_allclasses.h`. Where the words of constant bank 0 are was found by
compiling a kernel for each architecture and listing the words that its machine code reads: see
docs/design/nv.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from treadle.errors import DeviceError

__all__ = ["Bank0", "Generation", "generation_of"]

# Classes of objects that are the same on all generations.
DEVICE, SUBDEVICE = 0x80, 0x2080
VIRTUAL_MEMORY, VA_SPACE = 0x70, 0x90F1
SYSTEM_MEMORY, VIDEO_MEMORY, HOST_PAGES = 0x3E, 0x40, 0x71
CHANNEL_GROUP, CONTEXT_SHARE, DEBUGGER = 0xA06C, 0x9067, 0x83DE


@dataclass(frozen=True)
class Bank0:
    """Where constant bank 0 has what a kernel reads of its launch, in bytes from its start.

    `block` and `grid` are three words each, `local` and `shared` the windows of generic addresses,
    64 bits each (`shared` is None where a special register has it), `stack` the end of a work
    item's local memory, `descriptor` 64 bits by which global memory is accessed, `parameters`
    where the kernel's own parameters begin.
    """

    block: int
    grid: int
    local: int
    shared: int | None
    stack: int
    descriptor: int
    parameters: int


_AMPERE = Bank0(0x0, 0xC, 0x20, 0x18, 0x28, 0x118, 0x160)
_HOPPER = Bank0(0x0, 0xC, 0x20, None, 0x28, 0x208, 0x210)
_BLACKWELL = Bank0(0x360, 0x370, 0x2F8, None, 0x37C, 0x358, 0x380)


@dataclass(frozen=True)
class Generation:
    """The GPUs of one architecture: the classes that they offer, and the QMD that they take.

    `shared_reserved`: bytes of shared memory that belong to the hardware in each block.
    """

    arch: str
    compute: int
    channel: int
    copy: int
    usermode: int
    qmd: str
    bank0: Bank0

    @property
    def has_usermode_parameters(self) -> bool:
        """Whether a usermode object says by which BAR it is mapped (from HOPPER_USERMODE_A on)."""
        return self.usermode >= 0xC661


# By RM's version of their multiprocessors (NV2080_CTRL_GR_INFO_INDEX_SM_VERSION).
_GENERATIONS = {
    0x800: Generation("sm_80", 0xC6C0, 0xC56F, 0xC6B5, 0xC561, "3.0", _AMPERE),
    0x806: Generation("sm_86", 0xC7C0, 0xC56F, 0xC7B5, 0xC561, "3.0", _AMPERE),
    0x809: Generation("sm_89", 0xC9C0, 0xC56F, 0xC7B5, 0xC561, "3.0", _AMPERE),
    0x900: Generation("sm_90a", 0xCBC0, 0xC86F, 0xC8B5, 0xC661, "4.0", _HOPPER),
    0xA00: Generation("sm_100a", 0xCDC0, 0xC96F, 0xC9B5, 0xC761, "5.0", _BLACKWELL),
    0xC00: Generation("sm_120", 0xCEC0, 0xC96F, 0xCAB5, 0xC761, "5.0", _BLACKWELL),
}


def generation_of(version: int, offered: Collection[int], name: str) -> Generation:
    """The row of a GPU, by the version of its multiprocessors; `offered` is its class list.

    Raises DeviceError for a GPU that has no row, or lacks a class of it.
    """
    found = _GENERATIONS.get(version)
    if found is None:
        known = ", ".join(one.arch for one in _GENERATIONS.values())
        raise DeviceError(
            f"{name}: the GPU's multiprocessors are of version {version:#x}, and treadle drives "
            f"those of {known}; use DEV=CUDA"
        )
    wanted = {found.compute, found.channel, found.copy, found.usermode}
    missing = ", ".join(f"{one:#x}" for one in sorted(wanted - set(offered)))
    if missing:
        raise DeviceError(
            f"{name}: the kernel driver does not offer class {missing} on this {found.arch} GPU; "
            "install a newer driver, or use DEV=CUDA"
        )
    return found
