"""The object of Adreno: machine code, and what a dispatch has to know of it.

    unpack(pack([entry]))  ->  [entry]

Compilers write it, and the runtime reads it. Numbers are little-endian. First stand eight bytes,
`IR3OBJ` and a version; a count of entries; then each entry: its name's length and its name, the
numbers of `_HEAD` as 32-bit words, its images as those of `_IMAGE`, its literals and its
instructions.
"""

from __future__ import annotations

import struct
from dataclasses import astuple, dataclass

from treadle.errors import InternalError

__all__ = ["ImageSlot", "KernelCode", "pack", "unpack"]

MAGIC = b"IR3OBJ\x02\x00"
_HEAD = struct.Struct("<14I")
_IMAGE = struct.Struct("<6I")


@dataclass(frozen=True, slots=True)
class ImageSlot:
    """Buffer `buffer` is an image of `height` rows of `width` texels, four floats of `bits` each.

    `number` counts textures, which are only read, or else the other images.
    """

    buffer: int
    is_texture: bool
    number: int
    height: int
    width: int
    bits: int


@dataclass(frozen=True)
class KernelCode:
    """One phase of a kernel.

    `registers` are the vec4 that a work item takes (FULLREGFOOTPRINT with merged registers; there
    is no half footprint then), `branches` how many may be open at once (BRANCHSTACK), `wave` the
    work items of a wave (THREADSIZE). `private` are bytes for each work item, `shared` for each
    workgroup. `constants` is the number of vec4 that the code may read (CONSTLEN): parameters, then
    `literals` from vec4 `first_literal` on. `images` are the buffers that are images.
    """

    name: str
    work_items: int
    buffers: int
    variables: int
    registers: int
    branches: int
    wave: int
    private: int
    shared: int
    constants: int
    first_literal: int
    has_barrier: bool
    literals: tuple[int, ...]
    code: tuple[int, ...]
    images: tuple[ImageSlot, ...] = ()


def pack(entries: list[KernelCode]) -> bytes:
    """The object of some entries."""
    parts = [MAGIC, struct.pack("<I", len(entries))]
    for entry in entries:
        name = entry.name.encode()
        parts.append(struct.pack("<I", len(name)) + name)
        parts.append(_HEAD.pack(
            entry.work_items, entry.buffers, entry.variables, entry.registers, entry.branches,
            entry.wave, entry.private, entry.shared, entry.constants, entry.first_literal,
            entry.has_barrier, len(entry.images), len(entry.literals), len(entry.code),
        ))  # fmt: skip
        parts += [_IMAGE.pack(*astuple(image)) for image in entry.images]
        parts.append(struct.pack(f"<{len(entry.literals)}I", *entry.literals))
        parts.append(struct.pack(f"<{len(entry.code)}Q", *entry.code))
    return b"".join(parts)


def unpack(data: bytes) -> list[KernelCode]:
    """The entries of an object. Raises InternalError if it is none, or cut short."""
    if data[: len(MAGIC)] != MAGIC:
        raise InternalError("no object of Adreno's machine code, or one of another version")
    try:
        return _entries(data)
    except (struct.error, UnicodeDecodeError) as error:
        raise InternalError(f"a broken object of Adreno's machine code: {error}") from error


def _entries(data: bytes) -> list[KernelCode]:
    place = len(MAGIC)
    (count,) = struct.unpack_from("<I", data, place)
    place += 4
    entries: list[KernelCode] = []
    for _ in range(count):
        (length,) = struct.unpack_from("<I", data, place)
        name = struct.unpack_from(f"{length}s", data, place + 4)[0].decode()
        place += 4 + length
        head: tuple[int, ...] = _HEAD.unpack_from(data, place)
        *numbers, has_barrier, count_of_images, literals, words = head
        place += _HEAD.size
        images = []
        for _ in range(count_of_images):
            buffer, is_texture, *sizes = _IMAGE.unpack_from(data, place)
            images.append(ImageSlot(buffer, bool(is_texture), *sizes))
            place += _IMAGE.size
        held = struct.unpack_from(f"<{literals}I", data, place)
        place += 4 * literals
        code = struct.unpack_from(f"<{words}Q", data, place)
        place += 8 * words
        work_items, buffers, variables, registers, branches, wave, *bytes_, first = numbers
        private, shared, constants = bytes_
        entries.append(
            KernelCode(
                name, work_items, buffers, variables, registers, branches, wave, private, shared,
                constants, first, bool(has_barrier), held, code, tuple(images),
            )
        )  # fmt: skip
    if place != len(data):
        raise InternalError("a broken object of Adreno's machine code: bytes behind its end")
    return entries
