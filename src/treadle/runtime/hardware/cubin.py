"""NVIDIA's machine code: cubins, which are object files, as bytes for a GPU's memory.

    image = link(cubin)
    image.kernels["add"].at          # where its first instruction is, from the image's start
    image.placed(0x7F0000000000)     # the bytes, if they are to lie at that address

What a launch has to know is in sections `.nv.info` and `.nv.info.KERNEL`, as a list of attributes
(EIATTR), whose names nvdisasm tells. Constant bank 0 is the launch's own: it has the parameters.
The other banks are parts of the image.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from treadle.errors import InternalError
from treadle.runtime.hardware.elf import UNDEFINED, Object, Relocation, Section, read_object
from treadle.runtime.hardware.host_memory import round_up

__all__ = ["Image", "KernelCode", "Parameter", "link"]

_MACHINE = 190  # EM_CUDA
_ALIGN = 256  # of everything; constant banks begin at multiples of 256 bytes
_BEHIND = 4096  # bytes behind the code, which instruction fetch reaches
_TEXT, _SHARED = ".text.", ".nv.shared."
_BANK = re.compile(r"\.nv\.constant(\d+)(?:\.(.+))?$")

# Attributes, by their second byte; the first says how long they are.
_PARAM_CBANK, _FRAME_SIZE, _MIN_STACK, _KPARAM_INFO, _REGCOUNT = 0x0A, 0x11, 0x12, 0x17, 0x2F
_NUM_BARRIERS = 0x4C
_SIZED = 4

# Relocations: where parts of an address go, as (its lowest bit, bits, where they begin) each, in
# the 128 bits from the place on. Calls of functions leave out the two lowest bits, which are 0.
# cuobjdump tells their names (R_CUDA_*), nvdisasm the targets of the calls.
_R_64 = 2
_PARTS = {
    _R_64: ((0, 64, 0),),
    0x38: ((0, 32, 32),),  # ABS32_LO_32
    0x39: ((32, 32, 32),),  # ABS32_HI_32
    0x3A: ((2, 47, 34),),  # ABS47_34
    0x4B: ((2, 8, 16), (10, 47, 34)),  # ABS55_16_34
}


class Parameter(NamedTuple):
    """One of a kernel's parameters: bytes from where they all begin."""

    offset: int
    size: int


@dataclass
class KernelCode:
    """One kernel. `banks` are constant banks in the image: (start, bytes) by number.

    `parameters_at` is where parameters begin in bank 0, `stack` bytes of local memory of a work
    item, `shared` bytes of shared memory with what the hardware reserves, where the code has that.
    """

    name: str
    at: int
    nbytes: int
    registers: int = 0
    barriers: int = 0
    stack: int = 0
    shared: int = 0
    parameters_at: int = 0
    parameters_bytes: int = 0
    parameters: tuple[Parameter, ...] = ()
    banks: dict[int, tuple[int, int]] = field(default_factory=dict)


class _Pending(NamedTuple):
    """A place that depends on where the image lies."""

    at: int
    kind: int
    target: int


@dataclass(frozen=True)
class Image:
    """Linked code: `data` needs what `placed` does before it is right."""

    data: bytes
    kernels: dict[str, KernelCode]
    pending: tuple[_Pending, ...]

    def placed(self, address: int) -> bytes:
        """The bytes for an address, which is a multiple of 256."""
        made = bytearray(self.data)
        for at, kind, target in self.pending:
            word = int.from_bytes(made[at : at + 16], "little")
            for low, bits, place in _PARTS[kind]:
                mask = (1 << bits) - 1
                word = word & ~(mask << place) | ((address + target) >> low & mask) << place
            made[at : at + 16] = word.to_bytes(16, "little")
        return bytes(made)


def link(cubin: bytes) -> Image:
    """A cubin as an image. Raises InternalError for what is none, or asks for what is missing."""
    found = read_object(cubin)
    if found.machine != _MACHINE:
        raise InternalError(
            f"the object file is for machine {found.machine}, not for NVIDIA's GPUs"
        )
    places, data = _laid_out(found)
    kernels = {kernel.name: kernel for kernel in _kernels(found, places)}
    _add_attributes(found, kernels)
    return Image(data, kernels, tuple(_relocations(found, places, data)))


def _is_placed(section: Section) -> bool:
    bank = _BANK.match(section.name)
    return (
        section.is_loaded
        and not section.name.startswith((".nv.shared", ".nv.merc"))
        and not (bank is not None and bank[1] == "0")
    )


def _laid_out(found: Object) -> tuple[dict[int, int], bytes]:
    """Where each section is, by its number, and the bytes of all."""
    places: dict[int, int] = {}
    data = bytearray()
    for number, section in enumerate(found.sections):
        if _is_placed(section):
            data += bytes(round_up(len(data), max(_ALIGN, section.alignment)) - len(data))
            places[number] = len(data)
            data += section.data
    return places, bytes(data) + bytes(_BEHIND)


def _kernels(found: Object, places: dict[int, int]) -> Iterator[KernelCode]:
    for number, section in enumerate(found.sections):
        if number in places and section.name.startswith(_TEXT):
            name = section.name.removeprefix(_TEXT)
            kernel = KernelCode(name, places[number], section.size)
            for other, place in places.items():
                bank = _BANK.match(found.sections[other].name)
                if bank is not None and bank[2] in (None, name):
                    kernel.banks[int(bank[1])] = place, found.sections[other].size
            for other in found.sections:
                if other.name == _SHARED + name:
                    kernel.shared = other.size
            yield kernel


# -- attributes -----------------------------------------------------------------------------------


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        form, name = data[at], data[at + 1]
        size = struct.unpack_from("<H", data, at + 2)[0] if form == _SIZED else 0
        yield name, data[at + 4 : at + 4 + size] if form == _SIZED else data[at + 2 : at + 4]
        at += 4 + size


def _add_attributes(found: Object, kernels: dict[str, KernelCode]) -> None:
    by_name = {section.name: section for section in found.sections}
    for name, value in _attributes(by_name[".nv.info"].data if ".nv.info" in by_name else b""):
        if name in (_REGCOUNT, _MIN_STACK, _FRAME_SIZE):
            symbol, number = struct.unpack("<II", value)
            kernel = kernels.get(found.symbol_table[symbol].name)
            if kernel is not None and name == _REGCOUNT:
                kernel.registers = number
            elif kernel is not None:
                kernel.stack = max(kernel.stack, number)
    for kernel in kernels.values():
        section = by_name.get(f".nv.info.{kernel.name}")
        if section is not None:
            _add_own(kernel, section.data)


def _add_own(kernel: KernelCode, data: bytes) -> None:
    """What `.nv.info.KERNEL` says."""
    parameters: dict[int, Parameter] = {}
    for name, value in _attributes(data):
        if name == _PARAM_CBANK:
            _, kernel.parameters_at, kernel.parameters_bytes = struct.unpack("<IHH", value)
        elif name == _KPARAM_INFO:
            _, ordinal, offset, flags = struct.unpack("<IHHI", value)
            parameters[ordinal] = Parameter(offset, flags >> 18)
        elif name == _NUM_BARRIERS:
            kernel.barriers = value[0]
    kernel.parameters = tuple(parameters[number] for number in sorted(parameters))


# -- relocations ----------------------------------------------------------------------------------


def _relocations(found: Object, places: dict[int, int], data: bytes) -> Iterator[_Pending]:
    for number, section in enumerate(found.sections):
        if number in places:
            for one in section.relocations:
                yield _pending(one, places, places[number] + one.offset, data)


def _pending(one: Relocation, places: dict[int, int], at: int, data: bytes) -> _Pending:
    symbol = one.symbol
    if symbol.section == UNDEFINED or symbol.section not in places:
        raise InternalError(f"the code uses {symbol.name or 'a section'}, which is not in it")
    if one.kind not in _PARTS:
        raise InternalError(f"the code has a relocation of kind {one.kind:#x}, which is not known")
    addend = one.addend
    if not one.has_addend and one.kind == _R_64:
        (addend,) = struct.unpack_from("<Q", data, at)
    return _Pending(at, one.kind, places[symbol.section] + symbol.value + addend)
