"""SDMA: the commands of a copy queue, as lists of words; the same from gfx9 on."""

from __future__ import annotations

__all__ = ["copy", "fence", "poll", "timestamp", "trap"]

_COPY, _FENCE, _TRAP, _POLL_REGMEM, _TIMESTAMP = 1, 5, 6, 8, 13
_GLOBAL = 2 << 8
_UNCACHED = 3 << 16  # how a fence is written, from gfx10 on; reserved before
_EQUAL, _IN_MEMORY = 3 << 28, 1 << 31
_OFTEN = 4 | 0xFFF << 16  # how long between two looks, and how many
_MOST = 0x400000  # bytes that the kernel driver, too, gives to one packet


def _halves(value: int) -> tuple[int, int]:
    return value & 0xFFFFFFFF, value >> 32


def copy(target: int, source: int, nbytes: int) -> list[int]:
    """Copies bytes, in as many packets as it takes."""
    words: list[int] = []
    for start in range(0, nbytes, _MOST):
        size = min(_MOST, nbytes - start)
        words += [_COPY, size - 1, 0, *_halves(source + start), *_halves(target + start)]
    return words


def fence(address: int, value: int, is_uncached: bool) -> list[int]:
    """Writes 32 bits when all before has been done."""
    return [_FENCE | (_UNCACHED if is_uncached else 0), *_halves(address), value]


def poll(address: int) -> list[int]:
    """Waits until the 32 bits there are 0."""
    return [_POLL_REGMEM | _EQUAL | _IN_MEMORY, *_halves(address), 0, 0xFFFFFFFF, _OFTEN]


def timestamp(address: int) -> list[int]:
    """Writes the GPU's clock, 64 bits, when all before has been done."""
    return [_TIMESTAMP | _GLOBAL, *_halves(address)]


def trap(event: int) -> list[int]:
    """Interrupts for an event."""
    return [_TRAP, event]
