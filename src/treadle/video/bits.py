"""The bits of a NAL unit: fixed fields and exp-Golomb codes (9.1 and 9.2 of H.265).

Every read has the name of its syntax element, and codes the range that the standard gives it, so
that an error says what is wrong where. A read looks at nine bytes, however long the unit is.
"""

from __future__ import annotations

from typing import NoReturn

from .annexb import Unit, nal_unit_type_name
from .errors import BitstreamError

__all__ = ["BitReader"]

_HEADER = 2  # bytes
_WINDOW = 9  # bytes: a code of 32 + 1 + 32 bits may begin at the last bit of a byte
_EMULATED = b"\x00\x00\x03"


class BitReader:
    """Reads the payload of `unit` behind its header, without emulation prevention bytes.

    `most` bytes of it are taken at most: a slice's header needs few of them.
    """

    __slots__ = ("_bytes", "_end", "_unit", "at")

    def __init__(self, unit: Unit, most: int | None = None) -> None:
        # 00 00 03 cannot overlap itself, so what `replace` finds is what the standard removes.
        end = None if most is None else _HEADER + most
        self._bytes = unit.data[_HEADER:end].replace(_EMULATED, b"\x00\x00")
        self._end = 8 * len(self._bytes)
        self._unit = unit
        self.at = 0  # the next bit

    def u(self, count: int, name: str) -> int:
        """An unsigned number of `count` bits, 0 to 64."""
        begin, self.at = self.at, self.at + count
        if self.at > self._end:
            self._end_within(name)
        first, last = begin >> 3, (self.at + 7) >> 3
        value = int.from_bytes(self._bytes[first:last], "big") >> (8 * last - self.at)
        return value & ((1 << count) - 1)

    def flag(self, name: str) -> bool:
        """One bit."""
        return self.u(1, name) == 1

    def skip(self, count: int, name: str) -> None:
        """Past `count` bits."""
        self.at += count
        if self.at > self._end:
            self._end_within(name)

    def ue(self, name: str, most: int, least: int = 0) -> int:
        """An unsigned exp-Golomb code, which must lie in `least` to `most`."""
        begin = self.at
        return self._checked(self._code(name), name, least, most, begin)

    def se(self, name: str, least: int, most: int) -> int:
        """A signed exp-Golomb code, which must lie in `least` to `most`."""
        begin, code = self.at, self._code(name)
        value = (code + 1) // 2 if code & 1 else -(code // 2)
        return self._checked(value, name, least, most, begin)

    def _code(self, name: str) -> int:
        begin = self.at
        first = begin >> 3
        window = self._bytes[first : first + _WINDOW].ljust(_WINDOW, b"\x00")
        width = 8 * _WINDOW - (begin & 7)
        bits = int.from_bytes(window, "big") & ((1 << width) - 1)
        zeros = width - bits.bit_length()
        self.at = begin + 2 * zeros + 1
        if self.at > self._end:
            self._end_within(name)
        if zeros > 32:
            self.at = begin
            self.fail(f"{name} is a code of more than 32 bits")
        return (bits >> (width - 2 * zeros - 1)) - 1

    def _checked(self, value: int, name: str, least: int, most: int, begin: int) -> int:
        if least <= value <= most:
            return value
        self.at = begin
        return self.fail(f"{name} is {value}, and must be {least} to {most}")

    def fail(self, message: str) -> NoReturn:
        """Raises BitstreamError with the place of the current bit in the stream."""
        kind = self._unit.data[0] >> 1 & 0x3F
        raise BitstreamError(
            f"{nal_unit_type_name(kind)}: {message}", offset=self._offset(), nal_type=kind
        )

    def _end_within(self, name: str) -> NoReturn:
        self.at = self._end
        self.fail(f"the unit ends within {name}")

    def _offset(self) -> int:
        """The byte of the stream that holds the current bit: removed bytes count there."""
        data, wanted = self._unit.data, self.at >> 3
        place, removed = data.find(_EMULATED, _HEADER), 0
        while place >= 0 and place + 2 - _HEADER - removed <= wanted:
            removed += 1
            place = data.find(_EMULATED, place + 3)
        return self._unit.offset + _HEADER + wanted + removed
