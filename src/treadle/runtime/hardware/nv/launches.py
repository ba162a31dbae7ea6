"""Kernels and their launches: constant bank 0 and queue meta data (QMD), in memory of the host's.

    phase = Phase(kernel, code, entry, machine)
    phase.pack(block, at, [x.argument], [5], local)     # `kernarg_bytes` of memory at `at`
    phase.meta_data_at(at)                              # what starts it

Bank 0 has what the hardware and the calling convention want of a launch, and behind that the
kernel's parameters: addresses, then integers of 32 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from treadle.errors import DeviceError, InternalError
from treadle.runtime.base import Entry
from treadle.runtime.hardware.arguments import Arguments
from treadle.runtime.hardware.buffers import DeviceBuffer
from treadle.runtime.hardware.cubin import KernelCode
from treadle.runtime.hardware.host_memory import round_up
from treadle.runtime.hardware.nv import qmd
from treadle.runtime.hardware.nv.classes import Generation
from treadle.runtime.hardware.nv.local_memory import STACK_END, LocalMemory

__all__ = ["ARGUMENT_ALIGN", "Machine", "Phase"]

ARGUMENT_ALIGN = 256  # what meta data begin at
_MOST_BLOCKS = (1 << 31) - 1
_RESERVED_SHARED = 1 << 10  # by the hardware, in each block


@dataclass(frozen=True)
class Machine:
    """What launches need to know of their GPU. Windows are where generic addresses of local and
    shared memory begin, `most_shared` the bytes that a multiprocessor has.
    """

    generation: Generation
    version: int
    most_shared: int
    local_window: int
    shared_window: int

    @property
    def sass_version(self) -> int:
        """The architecture as machine code and meta data write it: 0x86 for sm_86."""
        return (self.version & 0xF00) >> 4 | self.version & 0xF


@dataclass(eq=False)
class Phase:
    """One kernel function in a GPU's memory, and what a launch of it takes.

    `code` is the memory of the kernel's image. Raises DeviceError for a grid that is too large,
    InternalError where the kernel takes other arguments than the entry gives.
    """

    kernel: KernelCode
    code: DeviceBuffer
    entry: Entry
    machine: Machine
    _made: tuple[int, bytes, bytes] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.entry.grid > _MOST_BLOCKS:
            raise DeviceError(
                f"{self.entry.symbol}: {self.entry.grid} workgroups, and a launch has at most "
                f"{_MOST_BLOCKS}: split the tensor"
            )
        if self.entry.boxes:
            raise InternalError(f"{self.entry.symbol} takes tensor maps, which only CUDA makes")
        bank0, kernel = self.machine.generation.bank0, self.kernel
        if kernel.parameters_at not in (0, bank0.parameters):
            raise InternalError(
                f"{kernel.name} reads parameters at {kernel.parameters_at:#x} of constant bank 0, "
                f"and {self.machine.generation.arch} has them at {bank0.parameters:#x}"
            )
        self.arguments = Arguments(kernel.name, kernel.parameters, self.entry, bank0.parameters)
        self._bank_bytes = max(bank0.parameters + kernel.parameters_bytes, self.arguments.nbytes)
        self._bank_room = round_up(self._bank_bytes, ARGUMENT_ALIGN)
        layout = qmd.LAYOUTS[self.machine.generation.qmd]
        self.kernarg_bytes = self._bank_room + round_up(layout.nbytes, ARGUMENT_ALIGN)
        self._layout = layout

    @property
    def program(self) -> int:
        """The address of the first instruction."""
        return self.code.argument + self.kernel.at

    def meta_data_at(self, at: int) -> int:
        """Where the meta data of a launch are whose memory is at an address."""
        return at + self._bank_room

    def pack(
        self,
        block: memoryview,
        at: int,
        args: Sequence[int],
        variables: Sequence[int],
        local: LocalMemory,
    ) -> None:
        """Writes bank 0 and the meta data of a launch into `block`, which is at an address."""
        if self._made is None or self._made[0] != local.version:
            self._made = local.version, self._fixed_words(), self._meta_data(local)
        _, words, meta_data = self._made
        self.arguments.pack(block, args, variables)
        block[: len(words)] = words  # which are zeros now
        start = self._bank_room
        block[start : start + len(meta_data)] = meta_data
        low, place = self._layout.banks["LOWER"][0] // 8, at >> self._layout.bank_shift
        struct.pack_into("<I", block, start + low, place & 0xFFFFFFFF)
        (more,) = struct.unpack_from("<I", meta_data, low + 4)
        struct.pack_into("<I", block, start + low + 4, more | place >> 32)

    def link(self, block: memoryview, following: int) -> None:
        """Lets this launch start the one whose meta data are at an address."""
        start, nbytes = self._bank_room, self._layout.nbytes
        data = bytes(block[start : start + nbytes])
        version = self.machine.generation.qmd
        block[start : start + nbytes] = qmd.with_dependent(version, data, following)

    def _fixed_words(self) -> bytes:
        """Bank 0 up to the parameters."""
        bank0, machine = self.machine.generation.bank0, self.machine
        words = bytearray(bank0.parameters)
        struct.pack_into("<3I", words, bank0.block, self.entry.work_items, 1, 1)
        struct.pack_into("<3I", words, bank0.grid, self.entry.grid, 1, 1)
        struct.pack_into("<Q", words, bank0.local, machine.local_window)
        if bank0.shared is not None:
            struct.pack_into("<Q", words, bank0.shared, machine.shared_window)
        struct.pack_into("<I", words, bank0.stack, STACK_END)
        struct.pack_into("<Q", words, bank0.descriptor, 0)
        return bytes(words)

    def _meta_data(self, local: LocalMemory) -> bytes:
        kernel, machine = self.kernel, self.machine
        shared = kernel.shared + self.entry.shared
        if machine.generation.bank0.shared is not None:  # else the code has the reserved part
            shared += _RESERVED_SHARED
        banks = {
            number: (self.code.argument + start, nbytes)
            for number, (start, nbytes) in kernel.banks.items()
        }
        return qmd.meta_data(
            machine.generation.qmd,
            qmd.LaunchFacts(
                self.program, (self.entry.grid, 1, 1), (self.entry.work_items, 1, 1),
                kernel.registers, kernel.barriers, shared, machine.most_shared,
                local.of_work_item, machine.sass_version, {0: (0, self._bank_bytes), **banks},
            ),
        )  # fmt: skip
