"""Object files in the Executable and Linkable Format, of 64 bits and little-endian.

    read_object(data).symbols["kernel.kd"]  ->  Symbol("kernel.kd", 3, 0, 64)

Read are sections, symbols, relocations, and notes: what a linker needs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from treadle.errors import InternalError

__all__ = ["ABSOLUTE", "ALLOCATED", "UNDEFINED", "Object", "Relocation", "Section", "Symbol",
           "read_object"]  # fmt: skip

_HEADER, _SECTION = "<16sHHIQQQIHHHHHH", "<IIQQQQIIQQ"
_SYMBOL = "<IBBHQQ"
_MAGIC = b"\x7fELF\x02\x01"  # of 64 bits, little-endian
_SYMBOLS, _NOTES, _NO_BITS = 2, 7, 8
_RELOCATIONS = {4: "<QQq", 9: "<QQ"}  # with addends, and with none
ALLOCATED = 2  # a flag of sections that are in memory
UNDEFINED, ABSOLUTE = 0, 0xFFF1  # sections of symbols


class Symbol(NamedTuple):
    """A name's place in a section, counted in bytes from where that begins."""

    name: str
    section: int
    value: int
    size: int


class Relocation(NamedTuple):
    """A place of a section that depends on where a symbol is.

    `has_addend` is False where what is at the place already is to be added.
    """

    offset: int
    kind: int
    symbol: Symbol
    addend: int
    has_addend: bool = True


@dataclass(frozen=True)
class Section:
    """One part of the file, with the relocations of what is in it."""

    name: str
    kind: int
    flags: int
    alignment: int
    size: int
    data: bytes
    relocations: tuple[Relocation, ...] = ()

    @property
    def is_loaded(self) -> bool:
        """Whether it is memory of the program."""
        return bool(self.flags & ALLOCATED) and self.kind != _NOTES

    def notes(self) -> Iterator[tuple[str, int, bytes]]:
        """Name, type and content of each note, if it has any."""
        at = 0
        while self.kind == _NOTES and at < len(self.data):
            of_name, of_content, kind = struct.unpack_from("<III", self.data, at)
            at += 12
            name = self.data[at : at + of_name].rstrip(b"\0").decode()
            at += -(-of_name // 4) * 4
            yield name, kind, self.data[at : at + of_content]
            at += -(-of_content // 4) * 4


@dataclass(frozen=True)
class Object:
    """An object file: what it is for, its sections, and the places of its named symbols.

    `symbol_table` has all of them, in the file's order.
    """

    kind: int
    machine: int
    flags: int
    sections: tuple[Section, ...]
    symbols: dict[str, Symbol]
    symbol_table: tuple[Symbol, ...]


def read_object(data: bytes) -> Object:
    """The contents of an object file. Raises InternalError if it is none, or is cut short."""
    if not data.startswith(_MAGIC):
        raise InternalError("this is no object file of 64 bits in the format ELF")
    try:
        return _read(data)
    except (struct.error, IndexError, ValueError) as error:
        raise InternalError(f"the object file of {len(data)} bytes is broken: {error}") from error


class _Raw(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


def _read(data: bytes) -> Object:
    header = struct.unpack_from(_HEADER, data)
    kind, machine, at, flags = header[1], header[2], header[6], header[7]
    size, count, names = header[11:]
    raw = [_Raw(*struct.unpack_from(_SECTION, data, at + n * size)) for n in range(count)]
    contents = [_content(data, one) for one in raw]
    symbols = [
        Symbol(_text(contents[one.link], name), section, value, length)
        for one, content in zip(raw, contents, strict=True)
        if one.kind == _SYMBOLS
        for name, _, _, section, value, length in struct.iter_unpack(_SYMBOL, content)
    ]
    relocations: dict[int, tuple[Relocation, ...]] = {}
    for one, content in zip(raw, contents, strict=True):
        if one.kind in _RELOCATIONS:
            relocations[one.info] = tuple(
                Relocation(
                    offset, info & 0xFFFFFFFF, symbols[info >> 32], sum(addend), bool(addend)
                )
                for offset, info, *addend in struct.iter_unpack(_RELOCATIONS[one.kind], content)
            )
    sections = tuple(
        Section(
            _text(contents[names], one.name), one.kind, one.flags, max(1, one.alignment), one.size,
            content, relocations.get(number, ()),
        )
        for number, (one, content) in enumerate(zip(raw, contents, strict=True))
    )  # fmt: skip
    named = {one.name: one for one in symbols if one.name}
    return Object(kind, machine, flags, sections, named, tuple(symbols))


def _content(data: bytes, section: _Raw) -> bytes:
    if section.kind == _NO_BITS:
        return bytes(section.size)
    content = data[section.offset : section.offset + section.size]
    if len(content) < section.size:
        raise ValueError("a section ends behind the file")
    return content


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()
