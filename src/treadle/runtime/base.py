"""What every runtime offers: memory, loaded code, launches.

    device.allocator.alloc(nbytes) -> Buffer     device.load(code, symbols) -> Library

Protocols only. A runtime is a file of small classes that fit them; what one cannot do it refuses
with a DeviceError that says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.target import Target

__all__ = ["Allocator", "Buffer", "Device", "Library", "MemoryStats"]


@dataclass(frozen=True)
class MemoryStats:
    """Bytes held by buffers now, kept for reuse, and the most that buffers ever held at once."""

    live: int
    cached: int
    peak: int


class Buffer(Protocol):
    """Memory of one device. It returns to its allocator when it is collected."""

    @property
    def nbytes(self) -> int: ...

    @property
    def pointer(self) -> int:
        """The address as kernels see it."""
        ...

    def view(self) -> memoryview:
        """The bytes themselves, writable, without a copy; DeviceError if the host has no access."""
        ...

    def slice(self, offset: int, nbytes: int) -> Buffer:
        """A part of this buffer, which it keeps alive."""
        ...


class Allocator(Protocol):
    """Makes buffers. Any number of threads may call it."""

    def alloc(self, nbytes: int) -> Buffer:
        """Memory with undefined contents. Raises OutOfMemory."""
        ...

    def from_pointer(self, pointer: int, nbytes: int, owner: object = None) -> Buffer:
        """Memory of somebody else's, without a copy. `owner` lives as long as the buffer."""
        ...

    def trim(self) -> int:
        """Gives cached memory back to the system; how many bytes."""
        ...

    @property
    def stats(self) -> MemoryStats: ...


class Library(Protocol):
    """Loaded code; it is unloaded when it is collected."""

    def address(self, symbol: str) -> int: ...


class Device(Protocol):
    """One opened device."""

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> Target: ...

    @property
    def allocator(self) -> Allocator: ...

    def load(self, code: bytes, symbols: Sequence[str]) -> Library:
        """Loads compiled code and finds the entry points named in `symbols`."""
        ...

    def call_list(self, launches: Sequence[Any], keep: object = None) -> Any:
        """Prepares launches for replay; `keep` is held as long as the result."""
        ...

    def run(self, launches: Sequence[Any]) -> None:
        """Runs launches once, in order."""
        ...

    def synchronize(self) -> None:
        """Returns when everything that was launched has finished."""
        ...
