"""Blocks of bytes with named fields, as tables: the arguments of ioctls, packets, signals.

    GET_VERSION = Struct("get_version", major_version="u32", minor_version="u32")
    block = GET_VERSION.pack()                    # a bytearray of zeros
    GET_VERSION.unpack(block)["minor_version"]

Fields are laid out as C does it on 64-bit machines: each at a multiple of its own size. A field may
be another Struct, or `("u32", 4)` for four of them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, TypeAlias

__all__ = ["Struct", "Value"]

_CODES = {
    "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
}  # fmt: skip
Value: TypeAlias = Any  # of a field: a number, several, or the fields of another Struct
Kind: TypeAlias = "str | Struct | tuple[str | Struct, int]"


class Struct:
    """A layout. `offsets` has where each field begins, `nbytes` is the size of all."""

    def __init__(self, name: str, /, **fields: Kind) -> None:
        self.name, self._fields = name, fields
        self.offsets: dict[str, int] = {}
        end, self.alignment = 0, 1
        for field, kind in fields.items():
            nbytes, alignment = _size(kind)
            self.alignment = max(self.alignment, alignment)
            self.offsets[field] = end = -(-end // alignment) * alignment
            end += nbytes
        self.nbytes = -(-end // self.alignment) * self.alignment

    def size_of(self, field: str) -> int:
        """The bytes of one field."""
        return _size(self._fields[field])[0]

    def pack(self, **values: Value) -> bytearray:
        """A block with these values, and zeros elsewhere. Raises KeyError for unknown fields."""
        block = bytearray(self.nbytes)
        self.put(block, **values)
        return block

    def put(self, block: bytearray | memoryview, **values: Value) -> None:
        """Writes some fields of a block."""
        for field, value in values.items():
            _put(block, self.offsets[field], self._fields[field], value)

    def unpack(self, block: bytes | bytearray | memoryview) -> dict[str, Value]:
        """All fields of a block."""
        return {
            field: _get(block, self.offsets[field], kind) for field, kind in self._fields.items()
        }


def _size(kind: Kind) -> tuple[int, int]:
    """Bytes and alignment."""
    if isinstance(kind, tuple):
        nbytes, alignment = _size(kind[0])
        return nbytes * kind[1], alignment
    if isinstance(kind, Struct):
        return kind.nbytes, kind.alignment
    nbytes = struct.calcsize(_CODES[kind])
    return nbytes, nbytes


def _put(block: bytearray | memoryview, at: int, kind: Kind, value: Value) -> None:
    if isinstance(kind, tuple):
        each = _size(kind[0])[0]
        for number, one in enumerate(value):
            _put(block, at + number * each, kind[0], one)
    elif isinstance(kind, Struct):
        inner: Mapping[str, Value] = value
        for field, one in inner.items():
            _put(block, at + kind.offsets[field], kind._fields[field], one)
    else:
        struct.pack_into("<" + _CODES[kind], block, at, value)


def _get(block: bytes | bytearray | memoryview, at: int, kind: Kind) -> Value:
    if isinstance(kind, tuple):
        each = _size(kind[0])[0]
        return [_get(block, at + number * each, kind[0]) for number in range(kind[1])]
    if isinstance(kind, Struct):
        return kind.unpack(memoryview(block)[at : at + kind.nbytes])
    return struct.unpack_from("<" + _CODES[kind], block, at)[0]
