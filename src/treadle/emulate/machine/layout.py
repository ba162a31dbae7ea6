"""Blocks of bytes whose fields a table names, as others' headers have them.

layout = Layout(8, {"fd": [0, 4], "status": [4, 4]})
layout.get(block, "status")
given = Given(layout, block)
given["status"] = 5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["Fields", "Given", "Layout"]

Fields = Mapping[str, Sequence[int]]


class Layout:
    """A block of bytes with named fields."""

    def __init__(self, nbytes: int, fields: Fields) -> None:
        self.nbytes, self.fields = nbytes, fields

    def get(self, block: bytes | bytearray | memoryview, name: str) -> int:
        at, size = self.fields[name]
        return int.from_bytes(block[at : at + size], "little")

    def put(self, block: bytearray | memoryview, name: str, value: int) -> None:
        at, size = self.fields[name]
        block[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")


class Given:
    """The argument of a call, by names: a block and its layout."""

    def __init__(self, layout: Layout, block: bytearray) -> None:
        self.layout, self.block = layout, block

    def __getitem__(self, name: str) -> int:
        return self.layout.get(self.block, name)

    def __setitem__(self, name: str, value: int) -> None:
        self.layout.put(self.block, name, value)
