"""Kernels and their launches: registers and constants.

    phase = Phase(kernel, address, memory, entry)
    phase.pack(block, [x.argument], [5])         # `kernarg_bytes` of memory: the constants
    phase.words(at, private)                     # what starts it, whose constants are at an address

Constants begin with the addresses of buffers, then integers of 32 bits, then numbers that the code
reads from there.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from treadle.errors import DeviceError, InternalError
from treadle.runtime.base import Entry
from treadle.runtime.hardware.arguments import Arguments
from treadle.runtime.hardware.buffers import DeviceBuffer
from treadle.runtime.hardware.host_memory import round_up
from treadle.runtime.hardware.qcom import packets
from treadle.runtime.hardware.qcom.kernels import KernelCode
from treadle.runtime.hardware.qcom.private_memory import PrivateMemory

__all__ = ["UNIT_BYTES", "Phase", "unit_count"]

UNIT_BYTES = 128  # 16 instructions
_MOST_PRELOADED = 64  # units that every chip has room for; the rest is fetched
_MOST_GROUPS = (1 << 32) - 1
_WORKGROUP, _LOCAL, _NONE = 48 * 4, 0, 63 * 4  # r48.x, r0.x and no register
_CONSTANT_STEP = 4  # constants of four components come in so many
_DEMOTION = 1  # SP_MODE_CONTROL: half constants are made of whole ones


class _Place(NamedTuple):
    offset: int
    size: int


def unit_count(kernel: KernelCode) -> int:
    """So many times 16 instructions a kernel has."""
    return -(-len(kernel.code) * 8 // UNIT_BYTES)


class Phase:
    """One kernel function in memory at an address, and what a launch of it takes.

    `memory` is what holds it. Raises DeviceError for a grid that is too large, InternalError where
    the kernel takes other arguments than the entry gives.
    """

    def __init__(
        self, kernel: KernelCode, address: int, memory: DeviceBuffer, entry: Entry
    ) -> None:
        self.kernel, self.entry, self._address, self._memory = kernel, entry, address, memory
        if entry.grid * entry.work_items > _MOST_GROUPS:
            raise DeviceError(
                f"{entry.symbol}: {entry.grid} workgroups of {entry.work_items} work items, and a "
                f"launch has at most {_MOST_GROUPS} in all: split the tensor"
            )
        if kernel.work_items != entry.work_items:
            raise InternalError(
                f"{entry.symbol} is compiled for {kernel.work_items} work items, not "
                f"{entry.work_items}"
            )
        places = [_Place(8 * n, 8) for n in range(kernel.buffers)]
        places += [_Place(8 * kernel.buffers + 4 * n, 4) for n in range(kernel.variables)]
        self.arguments = Arguments(kernel.name, places, entry)
        self._literals = struct.pack(f"<{len(kernel.literals)}I", *kernel.literals)
        self._constants = round_up(max(kernel.constants, 1), _CONSTANT_STEP)
        self.kernarg_bytes = 16 * self._constants
        self._made: tuple[int, array[int], int] | None = None

    def pack(self, block: memoryview, args: Sequence[int], variables: Sequence[int]) -> None:
        """Writes the constants of a launch."""
        self.arguments.pack(block, args, variables)
        start = 16 * self.kernel.first_literal
        block[start : start + len(self._literals)] = self._literals

    def words(self, at: int, private: PrivateMemory) -> array[int]:
        """The packets of a launch whose constants are at an address."""
        if self._made is None or self._made[0] != private.version:
            made, place = self._commands(private)
            self._made = private.version, made, place
        _, made, place = self._made
        words = made[:]
        words[place], words[place + 1] = at & 0xFFFFFFFF, at >> 32
        return words

    def _commands(self, private: PrivateMemory) -> tuple[array[int], int]:
        """All packets, and where in them the address of constants is."""
        words = array("I", [
            *packets.set_compute(), *self._modes(), *self._program(), *self._sizes(),
            *private.registers(self.kernel.private),
        ])  # fmt: skip
        units = unit_count(self.kernel)
        words.extend(packets.load_program(self._address, min(units, _MOST_PRELOADED)))
        words.extend(packets.load_constants(0, self._constants))
        place = len(words) - 2
        words.extend(packets.execute(self.entry.grid))
        words.extend(packets.wait_for_idle())
        return words, place

    def _modes(self) -> list[int]:
        return [
            *packets.registers(0xBB08, 1 << 5),  # HLSQ_INVALIDATE_CMD: state of compute
            *packets.registers(0xAB00, _DEMOTION),  # SP_MODE_CONTROL
            *packets.registers(0xAE04, 0),  # SP_FLOAT_CNTL
        ]

    def _program(self) -> list[int]:
        """What the shader processors have to know of the code."""
        kernel = self.kernel
        wide = kernel.wave == 128
        # SHARED_SIZE counts kilobytes less one; 0 would be all there is.
        shared = max(-(-(kernel.shared + self.entry.shared) // 1024) - 1, 1)
        # The local memory is divided between it and constants: see CONSTANTRAMMODE.
        mode = next(n for n, most in enumerate((128, 192, 256, 512)) if self._constants <= most)
        return [
            *packets.registers(
                0xA9B0,  # SP_CS_CTRL_REG0, SP_CS_CTRL_REG1
                1 << 31 | wide << 20 | kernel.branches << 14 | kernel.registers << 7,
                mode << 5 | shared,
            ),
            *packets.registers(0xB9D0, mode << 5 | 1),  # HLSQ_CS_CTRL_REG1
            *packets.registers(0xA9B4, self._address & 0xFFFFFFFF, self._address >> 32),
            *packets.registers(0xA9BB, 1 << 8, unit_count(kernel)),  # SP_CS_CONFIG, INSTRLEN
            *packets.registers(0xB987, 1 << 8 | self._constants // _CONSTANT_STEP),
            *packets.registers(
                0xB997,  # HLSQ_CS_CNTL_0, HLSQ_CS_CNTL_1
                _WORKGROUP | _NONE << 8 | _NONE << 16 | _LOCAL << 24, _NONE | wide << 9,
            ),
        ]  # fmt: skip

    def _sizes(self) -> list[int]:
        """Workgroups of one dimension."""
        entry = self.entry
        local = entry.work_items - 1
        return [
            *packets.registers(
                0xB990, 3 | local << 2, entry.grid * entry.work_items, 0, 1, 0, 1, 0
            ),  # HLSQ_CS_NDRANGE_0 to 6
            *packets.registers(0xB999, 1, 1, 1),  # HLSQ_CS_KERNEL_GROUP
        ]
