"""The arguments of a kernel function in memory: addresses first, then integers of 32 bits.

    arguments = Arguments(kernel.name, kernel.arguments, entry)
    arguments.pack(block, [x.argument], [5])     # from the launch's memory and variables
    arguments.places(False, 0)                   # the words where the launch's first memory is

Where each lies says what the compiler left with the code. Addresses are in the order of the entry's
slots.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Protocol

from treadle.errors import InternalError
from treadle.runtime.base import Entry

__all__ = ["Arguments", "Place"]


class Place(Protocol):
    """Where one argument is, in bytes."""

    @property
    def offset(self) -> int: ...
    @property
    def size(self) -> int: ...


class Arguments:
    """What a launch of a kernel function writes for it, into memory of `nbytes` at least.

    `first` is where in that memory offsets begin. Raises InternalError where the kernel takes other
    arguments than the entry gives.
    """

    def __init__(self, name: str, places: Sequence[Place], entry: Entry, first: int = 0) -> None:
        self._numbers = [slot.number for slot in entry.slots]
        self._variables = entry.variables
        self._first, self._places = first, places
        codes, form, end = "Q" * len(self._numbers) + "i" * len(entry.variables), "<", -first
        sizes = [struct.calcsize(f"<{code}") for code in codes]
        taken = [place.size for place in places]
        if sizes != taken:
            raise InternalError(
                f"kernel {name!r} takes arguments of {taken} bytes, and is given {sizes}"
            )
        for place, code in zip(places, codes, strict=True):
            form += f"{place.offset - end}x{code}"
            end = place.offset + place.size
        self._packer = struct.Struct(form)
        self.nbytes = self._packer.size

    def pack(self, block: memoryview, args: Sequence[int], variables: Sequence[int]) -> None:
        """Writes them to where the kernel reads them, and zeros between."""
        self._packer.pack_into(
            block, 0,
            *[args[number] for number in self._numbers],
            *[variables[place] for place in self._variables],
        )  # fmt: skip

    def places(self, is_variable: bool, number: int) -> list[int]:
        """In which words of the memory an argument or a variable of the launch is."""
        given = [(False, one) for one in self._numbers]
        given += [(True, one) for one in self._variables]
        return [
            (self._first + place.offset) // 4
            for place, one in zip(self._places, given, strict=True)
            if one == (is_variable, number)
        ]
