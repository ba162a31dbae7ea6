"""A device that does nothing: for tests of scheduling and for looking at another target's code.

    NullDevice("NULL", parse_target("aarch64")).run(launches)   # returns at once

Its buffers have distinct addresses and sizes but no memory, so reading one is an error.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NoReturn

from treadle.errors import DeviceError
from treadle.runtime.base import MemoryStats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.dtype import ImageDType
    from treadle.runtime.base import Entry, Launch
    from treadle.target import Target

__all__ = ["NullAllocator", "NullBuffer", "NullCallList", "NullDevice", "NullLibrary"]

_FIRST_ADDRESS = 1 << 40
_STEP = 1 << 20


class NullBuffer:
    """A size and an address that nothing lives at."""

    pointer: int
    nbytes: int

    def __init__(self, pointer: int, nbytes: int, allocator: NullAllocator | None) -> None:
        self.pointer, self.nbytes, self._allocator = pointer, nbytes, allocator

    @property
    def argument(self) -> int:
        """The address that nothing lives at."""
        return self.pointer

    def view(self) -> memoryview:
        """Raises DeviceError: there is nothing to see."""
        raise DeviceError(f"a buffer of the NULL device ({self.nbytes} bytes) has no contents")

    def slice(self, offset: int, nbytes: int) -> NullBuffer:
        """The part [offset, offset + nbytes)."""
        return NullBuffer(self.pointer + offset, nbytes, None)

    def __del__(self) -> None:
        if self._allocator is not None:
            self._allocator._live -= self.nbytes


class NullAllocator:
    """Hands out addresses and counts bytes."""

    largest: int | None = None

    def __init__(self) -> None:
        self._addresses = itertools.count(_FIRST_ADDRESS, _STEP)
        self._live = self._peak = 0

    def alloc(self, nbytes: int) -> NullBuffer:
        """A buffer without memory."""
        self._live += nbytes
        self._peak = max(self._peak, self._live)
        return NullBuffer(next(self._addresses), nbytes, self)

    def alloc_image(self, image: ImageDType) -> NullBuffer:
        """A texture without memory."""
        return self.alloc(image.channels * image.itemsize)

    def from_pointer(self, pointer: int, nbytes: int, owner: object = None) -> NoReturn:
        """Raises DeviceError: nothing here ever looks at memory."""
        raise DeviceError("NULL cannot use memory of somebody else: it has no memory at all")

    def trim(self) -> int:
        """Nothing is cached: 0."""
        return 0

    @property
    def stats(self) -> MemoryStats:
        """Bytes that buffers claim."""
        return MemoryStats(self._live, 0, self._peak)


class NullLibrary:
    """Code that was not loaded: each phase is the name of its entry."""

    phases: list[str]

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.phases = [entry.symbol for entry in entries]


class NullCallList:
    """Launches that are never run; it can be changed like a real list."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._count = len(launches)

    def __len__(self) -> int:
        return self._count

    def set_arg(self, call: int, slot: int, pointer: int) -> None:
        """Does nothing."""

    def set_var(self, call: int, slot: int, value: int) -> None:
        """Does nothing."""

    def run(self) -> None:
        """Does nothing."""

    def run_timed(self) -> list[tuple[int, int]]:
        """Every launch takes no time at all."""
        return [(0, 0)] * self._count


class NullDevice:
    """Accepts everything, runs nothing."""

    has_addresses = True
    shares_memory = False
    takes_host_memory = False
    kernel_bytes = 1 << 14
    name: str
    target: Target
    allocator: NullAllocator

    def __init__(self, name: str, target: Target) -> None:
        self.name, self.target = name, target
        self.allocator = NullAllocator()

    def load(self, code: bytes, entries: Sequence[Entry]) -> NullLibrary:
        """Phases for `entries`; the code is dropped."""
        return NullLibrary(entries)

    def call_list(self, launches: Sequence[Launch], keep: object = None) -> NullCallList:
        """A list that does nothing when it is run."""
        return NullCallList(launches)

    def run(self, launches: Sequence[Launch]) -> None:
        """Does nothing."""

    def read(self, buffer: NullBuffer, into: memoryview) -> None:
        """Raises DeviceError: there is nothing to read."""
        buffer.view()

    def write(self, buffer: NullBuffer, data: memoryview) -> None:
        """Drops the data."""

    def synchronize(self) -> None:
        """Does nothing."""
