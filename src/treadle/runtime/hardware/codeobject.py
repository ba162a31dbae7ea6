"""AMD's relocatable objects become images that a GPU runs: the whole of linking, as far as needed.

    image = link(LLVMCompiler(target).compile(text))
    image.data                      the bytes of descriptors and code, at any multiple of alignment
    image.kernels["k_0"].entry      where its first instruction is in them

An image has no addresses in it: all that LLVM leaves open are distances. Each kernel has a
descriptor of 64 bytes, from which a command processor sets up its registers, and a record in the
object's note, which says how its arguments lie. Both are in LLVM's User Guide for AMDGPU Backend.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast

from treadle.errors import InternalError

from .elf import ABSOLUTE, UNDEFINED, Object, Relocation, Section, Symbol, read_object
from .messagepack import unpacked
from .structs import Value

__all__ = ["Argument", "Descriptor", "Image", "KernelCode", "link"]

MACHINE, RELOCATABLE = 224, 1
_METADATA = ("AMDGPU", 32)  # name and type of the note
_DESCRIPTOR = "<IIIIq20xIIIHHI"
_DESCRIPTOR_BYTES = 64
# What stands in user SGPRs at a kernel's start, in this order: its bit, and how many they are.
_USER_SGPRS = (
    ("private_segment_buffer", 0, 4), ("dispatch_ptr", 1, 2), ("queue_ptr", 2, 2),
    ("kernarg_segment_ptr", 3, 2), ("dispatch_id", 4, 2), ("flat_scratch_init", 5, 2),
    ("private_segment_size", 6, 1),
)  # fmt: skip
_WAVE32, _DYNAMIC_STACK = 10, 11  # bits beside those
# What a note says of a kernel that its descriptor says as well.
_STATED_TWICE = (
    ".group_segment_fixed_size", ".private_segment_fixed_size", ".kernarg_segment_size",
    ".wavefront_size",
)  # fmt: skip


class Argument(NamedTuple):
    """Where an argument of a kernel lies in its kernarg segment, and what it is."""

    offset: int
    size: int
    kind: str


@dataclass(frozen=True)
class Descriptor:
    """What a command processor is told of a kernel; sizes are in bytes."""

    group_bytes: int
    private_bytes: int
    kernarg_bytes: int
    entry: int  # from the descriptor
    rsrc3: int
    rsrc1: int
    rsrc2: int
    properties: int
    preload: int

    @classmethod
    def read(cls, data: bytes, at: int) -> Descriptor:
        """The descriptor that stands there."""
        group, private, kernarg, _, entry, rsrc3, rsrc1, rsrc2, properties, preload, _ = (
            struct.unpack_from(_DESCRIPTOR, data, at)
        )
        return cls(group, private, kernarg, entry, rsrc3, rsrc1, rsrc2, properties, preload)

    @property
    def is_wave32(self) -> bool:
        """Whether waves have 32 lanes, not 64."""
        return bool(self.properties >> _WAVE32 & 1)

    @property
    def has_dynamic_stack(self) -> bool:
        """Whether `private_bytes` may be too few."""
        return bool(self.properties >> _DYNAMIC_STACK & 1)

    @property
    def has_scratch(self) -> bool:
        """Whether a wave is given scratch memory."""
        return bool(self.rsrc2 & 1)

    @property
    def user_sgprs(self) -> tuple[tuple[str, int], ...]:
        """What is in user SGPRs, in order, each with how many it takes."""
        return tuple((name, n) for name, bit, n in _USER_SGPRS if self.properties >> bit & 1)

    @property
    def user_sgpr_count(self) -> int:
        """How many user SGPRs are set up in all: behind them stand the workgroup's numbers."""
        return self.rsrc2 >> 1 & 0x1F

    @property
    def preloaded(self) -> tuple[int, int]:
        """How many words of arguments are in the last user SGPRs, and from which word on."""
        return self.preload & 0x7F, self.preload >> 7


@dataclass(frozen=True)
class KernelCode:
    """A kernel of an image. `at` and `entry` are places of its descriptor and of its code."""

    name: str
    at: int
    entry: int
    descriptor: Descriptor
    arguments: tuple[Argument, ...]
    wave: int
    vgprs: int
    sgprs: int
    spilled: int
    most_work_items: int


@dataclass(frozen=True)
class Image:
    """What is loaded: `data` begins at a multiple of `alignment`. `flags` say which chip it is."""

    data: bytes
    alignment: int
    flags: int
    kernels: dict[str, KernelCode]


def link(code: bytes) -> Image:
    """The image of one relocatable object.

    Raises InternalError for an object of another machine, a symbol that is nowhere, a relocation
    that is not known here, and a kernel whose descriptor and note disagree.
    """
    found = read_object(code)
    if (found.machine, found.kind) != (MACHINE, RELOCATABLE):
        raise InternalError(
            f"an object file of machine {found.machine} and type {found.kind} is no relocatable "
            f"AMDGPU object, which has {MACHINE} and {RELOCATABLE}"
        )
    places, size = _laid_out(found.sections)
    data = bytearray(size)
    for number, place in places.items():
        section = found.sections[number]
        data[place : place + section.size] = section.data
    for number, place in places.items():
        for relocation in found.sections[number].relocations:
            _relocate(data, place + relocation.offset, relocation, places)
    alignment = max((found.sections[number].alignment for number in places), default=1)
    image = bytes(data)
    return Image(image, alignment, found.flags, _kernels(found, image, places))


def _laid_out(sections: tuple[Section, ...]) -> tuple[dict[int, int], int]:
    """Where each section that is loaded begins, by its number, and the size of all."""
    places, size = {}, 0
    for number, section in enumerate(sections):
        if section.is_loaded:
            places[number] = -(-size // section.alignment) * section.alignment
            size = places[number] + section.size
    return places, size


def _place(symbol: Symbol, places: dict[int, int]) -> int:
    if symbol.section in places:
        return places[symbol.section] + symbol.value
    if symbol.section == UNDEFINED:
        raise InternalError(f"the code needs {symbol.name!r}, which is nowhere")
    what = "no place" if symbol.section == ABSOLUTE else "in a section that is not loaded"
    raise InternalError(f"the code needs {symbol.name!r}, which is {what}")


class _Field(NamedTuple):
    """What a relocation stores of a distance: its format, and what becomes of the number."""

    form: str
    part: Callable[[int], int]


_FIELDS = {
    5: _Field("<q", lambda distance: distance),  # R_AMDGPU_REL64
    10: _Field("<I", lambda distance: distance & 0xFFFFFFFF),  # R_AMDGPU_REL32_LO
    11: _Field("<i", lambda distance: distance >> 32),  # R_AMDGPU_REL32_HI
}


def _relocate(data: bytearray, at: int, relocation: Relocation, places: dict[int, int]) -> None:
    distance = _place(relocation.symbol, places) + relocation.addend - at
    field = _FIELDS.get(relocation.kind)
    if field is None:
        raise InternalError(
            f"relocation {relocation.kind} of {relocation.symbol.name!r} is not known here"
        )
    struct.pack_into(field.form, data, at, field.part(distance))


_Record: TypeAlias = "dict[str, Value]"  # of a kernel, or of all, as the ABI names its fields

# -- kernels --------------------------------------------------------------------------------------


def _kernels(found: Object, image: bytes, places: dict[int, int]) -> dict[str, KernelCode]:
    records = [
        record
        for section in found.sections
        for name, kind, content in section.notes()
        if (name, kind) == _METADATA
        for record in _metadata(content).get("amdhsa.kernels", ())
    ]
    return {record[".name"]: _kernel(record, found, image, places) for record in records}


def _metadata(note: bytes) -> _Record:
    found = unpacked(note)
    if not isinstance(found, dict):
        raise InternalError("the code's note on its kernels is no map")
    return cast("_Record", found)


def _kernel(record: _Record, found: Object, image: bytes, places: dict[int, int]) -> KernelCode:
    name, symbol = record[".name"], found.symbols.get(record[".symbol"])
    if symbol is None or symbol.size != _DESCRIPTOR_BYTES:
        raise InternalError(f"kernel {name!r} has no descriptor {record['.symbol']!r}")
    at = _place(symbol, places)
    descriptor = Descriptor.read(image, at)
    stated = (
        descriptor.group_bytes, descriptor.private_bytes, descriptor.kernarg_bytes,
        32 if descriptor.is_wave32 else 64,
    )  # fmt: skip
    noted = tuple(record[key] for key in _STATED_TWICE)
    if stated != noted:
        raise InternalError(
            f"kernel {name!r}: shared, private and argument bytes and lanes are {stated} by its "
            f"descriptor, {noted} by its note"
        )
    return KernelCode(
        name, at, at + descriptor.entry, descriptor,
        tuple(
            Argument(one[".offset"], one[".size"], one[".value_kind"])
            for one in record.get(".args", ())
        ),
        record[".wavefront_size"], record[".vgpr_count"] + record.get(".agpr_count", 0),
        record[".sgpr_count"], record[".vgpr_spill_count"] + record[".sgpr_spill_count"],
        record[".max_flat_workgroup_size"],
    )  # fmt: skip
