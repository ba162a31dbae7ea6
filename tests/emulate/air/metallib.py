"""Reads a library of Metal: the names of its functions and their modules, as bitcode.

The container's header says where four sections lie. The first is a list of functions, whose fields
have four letters and a size: NAME, MDSZ (bytes of the module) and OFFT (its offsets in the other
sections, of which the last has the modules).
"""

import struct
from pathlib import Path

_SECTIONS = 24  # in the header: offset and size of each


class Library:
    """`names` in the order of the file; `library[name]` is the bitcode of one."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        if self._data[:4] != b"MTLB":
            raise ValueError(f"{path} is no library of Metal")
        first, _, _, _, _, _, modules, _ = struct.unpack_from("<8Q", self._data, _SECTIONS)
        (count,) = struct.unpack_from("<I", self._data, first)
        self._places, at = {}, first + 4
        for _ in range(count):
            (size,) = struct.unpack_from("<I", self._data, at)
            fields = dict(self._fields(at + 4, at + size))
            name = fields["NAME"].rstrip(b"\0").decode()
            offset = struct.unpack("<3Q", fields["OFFT"])[2]
            (nbytes,) = struct.unpack("<Q", fields["MDSZ"])
            self._places[name] = (modules + offset, nbytes)
            at += size

    def _fields(self, at: int, end: int):
        while at < end and self._data[at : at + 4] != b"ENDT":
            (size,) = struct.unpack_from("<H", self._data, at + 4)
            yield self._data[at : at + 4].decode(), self._data[at + 6 : at + 6 + size]
            at += 6 + size

    @property
    def names(self) -> list[str]:
        return list(self._places)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> bytes:
        offset, nbytes = self._places[name]
        return self._data[offset : offset + nbytes]
