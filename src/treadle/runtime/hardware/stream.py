"""Words in memory that a device reads, written once and then changed in a few places.

    image = Image(address, nbytes)
    image.fill(words)
    image.put32(7, 5)                # one word
    image.put64(2, pointer)          # two
    image.patched                    -> 3: words that were changed since they were filled in

A replay of launches costs what changes. So what changes is counted.
"""

from __future__ import annotations

from array import array

from .host_memory import view

__all__ = ["Image"]


class Image:
    """`nbytes` of memory at `address`, as words."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.address, self.nbytes = address, nbytes
        self._words = view(address, nbytes).cast("I")
        self.patched = 0

    def fill(self, words: array[int], first: int = 0) -> None:
        """Writes words from number `first` on; this counts for nothing."""
        self._words[first : first + len(words)] = memoryview(words)

    def put32(self, place: int, value: int) -> None:
        """Changes word `place`."""
        self._words[place] = value
        self.patched += 1

    def put64(self, place: int, value: int) -> None:
        """Changes two words."""
        words = self._words
        words[place], words[place + 1] = value & 0xFFFFFFFF, value >> 32
        self.patched += 2
