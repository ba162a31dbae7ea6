"""The bits of a NAL unit: fixed fields and exp-Golomb codes (9.1 and 9.2 of H.265).

Every read has the name of its syntax element, and codes the range that the standard gives it, so
that an error says what is wrong where. The bits are one integer, of which no read takes a copy
longer than the largest set that the standard allows.
"""

from __future__ import annotations

from typing import NoReturn

from .annexb import Unit, nal_unit_type_name
from .errors import BitstreamError

__all__ = ["BitReader"]

_HEADER = 2  # bytes
_MOST = 1 << 15  # bytes: 64 sets of 16 references are 8 KiB of an SPS, layer sets that of a VPS
_MOST_ZEROS = 32  # before a code of 32 bits
_EMULATED = b"\x00\x00\x03"


class BitReader:
    """Reads the payload of `unit` behind its header, without emulation prevention bytes.

    `most` bytes of it are taken at most: a slice's header needs few of them.
    """

    __slots__ = ("_bits", "_end", "_unit", "at")

    def __init__(self, unit: Unit, most: int = _MOST) -> None:
        # 00 00 03 cannot overlap itself, so what `replace` finds is what the standard removes.
        payload = unit.data[_HEADER : _HEADER + most].replace(_EMULATED, b"\x00\x00")
        self._bits = int.from_bytes(payload, "big")
        self._end = 8 * len(payload)
        self._unit = unit
        self.at = 0  # the next bit

    def u(self, count: int, name: str) -> int:
        """An unsigned number of `count` bits."""
        self.at += count
        if self.at > self._end:
            self._end_within(name)
        return self._bits >> (self._end - self.at) & ((1 << count) - 1)

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
        begin, value = self.at, self._code(name)
        if not least <= value <= most:
            self._out_of_range(value, name, least, most, begin)
        return value

    def se(self, name: str, least: int, most: int) -> int:
        """A signed exp-Golomb code, which must lie in `least` to `most`."""
        begin, code = self.at, self._code(name)
        value = (code + 1) // 2 if code & 1 else -(code // 2)
        if not least <= value <= most:
            self._out_of_range(value, name, least, most, begin)
        return value

    def _code(self, name: str) -> int:
        left = self._end - self.at
        rest = self._bits & ((1 << left) - 1)
        zeros = left - rest.bit_length()
        behind = left - 2 * zeros - 1
        if behind < 0:
            self._end_within(name)
        if zeros > _MOST_ZEROS:
            self.fail(f"{name} is a code of more than 32 bits")
        self.at = self._end - behind
        return (rest >> behind) - 1

    def _out_of_range(self, value: int, name: str, least: int, most: int, begin: int) -> NoReturn:
        self.at = begin
        self.fail(f"{name} is {value}, and must be {least} to {most}")

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
