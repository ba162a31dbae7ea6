r"""MessagePack to Python values, as msgpack.org specifies it.

    unpacked(b"\x82\xa1a\x01\xa1b\x93\xc0\xc2\xc3")  ->  {"a": 1, "b": [None, False, True]}

Extension types are refused: no note of a code object has any.
"""

from __future__ import annotations

import struct

from treadle.errors import InternalError

__all__ = ["unpacked"]

_SIMPLE = {0xC0: None, 0xC2: False, 0xC3: True}
# By the first byte: the struct format of a number, and of the length of text, bytes, list or map.
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h",
    0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_LENGTHS = {
    0xC4: (">B", "bytes"), 0xC5: (">H", "bytes"), 0xC6: (">I", "bytes"),
    0xD9: (">B", "text"), 0xDA: (">H", "text"), 0xDB: (">I", "text"),
    0xDC: (">H", "list"), 0xDD: (">I", "list"), 0xDE: (">H", "map"), 0xDF: (">I", "map"),
}  # fmt: skip


def unpacked(data: bytes) -> object:
    """The one value that `data` holds. Raises InternalError if it is cut short, or holds more."""
    reader = _Reader(data)
    value = reader.value()
    if reader.at != len(data):
        raise InternalError(f"MessagePack: {len(data) - reader.at} bytes behind the value")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        taken = self.data[self.at : self.at + count]
        if len(taken) < count:
            raise InternalError(f"MessagePack: cut short at byte {len(self.data)}")
        self.at += count
        return taken

    def number(self, form: str) -> int:
        """A number; of the format of one, a float."""
        (number,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return number

    def value(self) -> object:
        first = self.number(">B")
        if first < 0x80 or first >= 0xE0:  # small numbers, the negative ones from 0xE0 on
            return first if first < 0x80 else first - 0x100
        if first < 0xC0:
            kind = "map" if first < 0x90 else "list" if first < 0xA0 else "text"
            return self.several(kind, first & (0x1F if kind == "text" else 0x0F))
        if first in _SIMPLE:
            return _SIMPLE[first]
        if first in _NUMBERS:
            return self.number(_NUMBERS[first])
        if first not in _LENGTHS:
            raise InternalError(f"MessagePack: no value begins with {first:#04x} here")
        form, kind = _LENGTHS[first]
        return self.several(kind, self.number(form))

    def several(self, kind: str, count: int) -> object:
        if kind == "list":
            return [self.value() for _ in range(count)]
        if kind == "map":
            return {self.value(): self.value() for _ in range(count)}
        taken = self.take(count)
        return taken.decode() if kind == "text" else taken
