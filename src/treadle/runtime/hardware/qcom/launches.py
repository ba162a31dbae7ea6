"""Kernels and their launches: registers and constants.

    phase = Phase(kernel, address, memory, entry)
    phase.pack(block, [x.argument], [5])         # `kernarg_bytes` of memory: the constants
    phase.words(at, private)                     # what starts it, whose constants are at an address

Constants begin with the addresses of buffers, then integers of 32 bits, then numbers that the code
reads from there. Behind them lie what the GPU has to know of images, and samplers, one for each
texture.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from treadle.errors import DeviceError, InternalError
from treadle.ir3_object import KernelCode
from treadle.runtime.base import Entry
from treadle.runtime.hardware.arguments import Arguments
from treadle.runtime.hardware.buffers import DeviceBuffer
from treadle.runtime.hardware.host_memory import round_up
from treadle.runtime.hardware.qcom import packets
from treadle.runtime.hardware.qcom.images import (
    ADDRESS_BYTE,
    DESCRIPTOR_BYTES,
    SAMPLER,
    ImageLayout,
)
from treadle.runtime.hardware.qcom.private_memory import PrivateMemory

__all__ = ["UNIT_BYTES", "Phase", "unit_count"]

UNIT_BYTES = 128  # 16 instructions
_MOST_PRELOADED = 64  # units that every chip has room for; the rest is fetched
_MOST_GROUPS = (1 << 32) - 1
_WORKGROUP, _LOCAL, _NONE = 48 * 4, 0, 63 * 4  # r48.x, r0.x and no register
_CONSTANT_STEP = 4  # constants of four components come in so many
_DEMOTION = 1  # SP_MODE_CONTROL: half constants are made of whole ones


_MODE_OF_CL = 1  # ISAMMODE: how textures are read at whole coordinates
_SAMPLER_BYTES = 16
_TEXTURES, _IMAGES = 0x80, 0x40  # SP_CS_TEX_COUNT, SP_CS_IBO_COUNT: as many as there may be


_Addresses: TypeAlias = "list[tuple[int, int]]"  # words of packets, and places in the memory


class _Place(NamedTuple):
    offset: int
    size: int


class _Arguments(Arguments):
    """The constants of a launch, and the descriptors behind `constants` vec4 of them."""

    def __init__(self, kernel: KernelCode, entry: Entry, constants: int) -> None:
        places = [_Place(8 * n, 8) for n in range(kernel.buffers)]
        places += [_Place(8 * kernel.buffers + 4 * n, 4) for n in range(kernel.variables)]
        super().__init__(kernel.name, places, entry)
        self.textures = sum(image.is_texture for image in kernel.images)
        self.images = len(kernel.images) - self.textures
        self.first_texture = 16 * constants
        self.first_image = self.first_texture + DESCRIPTOR_BYTES * self.textures
        self.sampler = self.first_image + DESCRIPTOR_BYTES * self.images
        self.nbytes = round_up(self.sampler + _SAMPLER_BYTES * self.textures, DESCRIPTOR_BYTES)
        # Where each descriptor is, its memory among the launch's, and what stays the same of it.
        self._tables: list[tuple[int, int, bytes]] = []
        for image in kernel.images:
            first = self.first_texture if image.is_texture else self.first_image
            layout = ImageLayout.with_sizes(image.height, image.width, image.bits)
            words = layout.descriptor(image.is_texture)
            self._tables.append(
                (
                    first + DESCRIPTOR_BYTES * image.number,
                    entry.slots[image.buffer].number,
                    struct.pack(f"<{len(words)}I", *words),
                )
            )

    def pack(self, block: memoryview, args: Sequence[int], variables: Sequence[int]) -> None:
        super().pack(block, args, variables)
        for at, number, words in self._tables:
            block[at : at + len(words)] = words
            struct.pack_into("<Q", block, at + ADDRESS_BYTE, args[number])
        for n in range(self.textures):  # Mesa's compiler names that of the texture's number
            struct.pack_into("<4I", block, self.sampler + _SAMPLER_BYTES * n, *SAMPLER)

    def places(self, is_variable: bool, number: int) -> list[int]:
        found = super().places(is_variable, number)
        if not is_variable:
            found += [(at + ADDRESS_BYTE) // 4 for at, one, _ in self._tables if one == number]
        return found


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
        self._literals = struct.pack(f"<{len(kernel.literals)}I", *kernel.literals)
        self._constants = round_up(max(kernel.constants, 1), _CONSTANT_STEP)
        self.arguments = _Arguments(kernel, entry, self._constants)
        self.kernarg_bytes = self.arguments.nbytes
        self._made: tuple[int, array[int], _Addresses] | None = None

    def pack(self, block: memoryview, args: Sequence[int], variables: Sequence[int]) -> None:
        """Writes the constants of a launch."""
        self.arguments.pack(block, args, variables)
        start = 16 * self.kernel.first_literal
        block[start : start + len(self._literals)] = self._literals

    def words(self, at: int, private: PrivateMemory) -> array[int]:
        """The packets of a launch whose constants are at an address."""
        if self._made is None or self._made[0] != private.version:
            self._made = private.version, *self._commands(private)
        _, made, addresses = self._made
        words = made[:]
        for place, offset in addresses:
            address = at + offset
            words[place], words[place + 1] = address & 0xFFFFFFFF, address >> 32
        return words

    def _commands(self, private: PrivateMemory) -> tuple[array[int], _Addresses]:
        """All packets, and where in them addresses of the launch's memory are."""
        words = array("I", [
            *packets.set_compute(), *self._modes(), *self._program(), *self._sizes(),
            *private.registers(self.kernel.private),
        ])  # fmt: skip
        units = unit_count(self.kernel)
        words.extend(packets.load_program(self._address, min(units, _MOST_PRELOADED)))
        words.extend(packets.load_constants(0, self._constants))
        addresses = [(len(words) - 2, 0)]
        for commands, offset in self._image_tables():
            words.extend(commands)
            addresses.append((len(words) - 2, offset))
        words.extend(packets.execute(self.entry.grid))
        words.extend(packets.wait_for_idle())
        return words, addresses

    def _image_tables(self) -> list[tuple[list[int], int]]:
        """Packets whose last words are an address, and where that is in the launch's memory."""
        given, found = self.arguments, list[tuple[list[int], int]]()
        if given.textures:
            found += [
                (packets.load_samplers(0, given.textures), given.sampler),
                (packets.registers(0xA9E2, 0, 0), given.sampler),  # SP_CS_TEX_SAMP
                (packets.load_textures(0, given.textures), given.first_texture),
                (packets.registers(0xA9E6, 0, 0), given.first_texture),  # SP_CS_TEX_CONST
            ]
        if given.images:
            found += [
                (packets.load_images(0, given.images), given.first_image),
                (packets.registers(0xA9F2, 0, 0), given.first_image),  # SP_CS_IBO
            ]
        return found

    def _modes(self) -> list[int]:
        common = packets.registers(0xAE04, 0)  # SP_FLOAT_CNTL
        if not self.kernel.images:
            return [
                *packets.registers(0xBB08, 1 << 5),  # HLSQ_INVALIDATE_CMD: state of compute
                *packets.registers(0xAB00, _DEMOTION),  # SP_MODE_CONTROL
                *common,
            ]
        return [
            *packets.invalidate_caches(),  # that of textures sees no stores
            *packets.registers(0xBB08, 1 << 5 | 1 << 6),  # and of its images
            *packets.registers(0xAB00, _DEMOTION | _MODE_OF_CL << 1),
            *packets.registers(0xB309, _MODE_OF_CL | 2 << 2),  # SP_TP_MODE_CNTL, as tinygrad
            *packets.registers(0xA9BA, _TEXTURES), *packets.registers(0xAA00, _IMAGES),
            *common,
        ]  # fmt: skip

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
            *packets.registers(0xA9BB, self._config(), unit_count(kernel)),  # and INSTRLEN
            *packets.registers(0xB987, 1 << 8 | self._constants // _CONSTANT_STEP),
            *packets.registers(
                0xB997,  # HLSQ_CS_CNTL_0, HLSQ_CS_CNTL_1
                _WORKGROUP | _NONE << 8 | _NONE << 16 | _LOCAL << 24, _NONE | wide << 9,
            ),
        ]  # fmt: skip

    def _config(self) -> int:
        """SP_CS_CONFIG: that there is a kernel, and its textures, their samplers and images."""
        given = self.arguments
        return 1 << 8 | given.textures << 9 | given.textures << 17 | given.images << 22

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
