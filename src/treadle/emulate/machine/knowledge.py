"""What is known to have ended, as a vector clock over streams of work.

    known = Knowledge().with_first(2, 7)        # the works 0 to 6 of stream 2
    known.covers(stamp(2, 6))                   # True
    known.joined(other)                         # what either covers

A work is a stamp: the number of its stream, its own number there, and whether it is atomic. Streams
do their work in any order. So beside the first works of a stream, single ones may be known.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["ATOMIC", "Knowledge", "number_of", "stamp", "stream_of"]

_STREAM = 40  # the first bit of the stream's number
ATOMIC = 1  # the bit of a stamp whose work was atomic
_NONE: Mapping[int, int] = MappingProxyType({})


def stamp(stream: int, number: int) -> int:
    """The stamp of a work. Streams count from 1, so 0 is no work's."""
    return stream << _STREAM | number << 1


def stream_of(of: int) -> int:
    """The stream of a stamp."""
    return of >> _STREAM


def number_of(of: int) -> int:
    """The number of a stamp's work in its stream."""
    return of >> 1 & (1 << _STREAM - 1) - 1


class Knowledge:
    """Works that have ended. It never changes.

    `first` is how many works of each stream, and `more` are stamps of others, without ATOMIC.
    """

    __slots__ = ("_first", "_more")

    def __init__(
        self, first: Mapping[int, int] = _NONE, more: frozenset[int] = frozenset()
    ) -> None:
        self._first = first
        self._more = more and frozenset(
            one for one in more if number_of(one) >= first.get(stream_of(one), 0)
        )

    def covers(self, of: int) -> bool:
        """Whether a work is known to have ended."""
        known = self._first.get(of >> _STREAM, 0)
        return (of >> 1 & (1 << _STREAM - 1) - 1) < known or of & ~ATOMIC in self._more

    def with_first(self, stream: int, count: int) -> Knowledge:
        """And the first works of a stream."""
        if self._first.get(stream, 0) >= count:
            return self
        return Knowledge({**self._first, stream: count}, self._more)

    def with_one(self, of: int) -> Knowledge:
        """And one work."""
        stream, number = stream_of(of), number_of(of)
        if self._first.get(stream, 0) == number:
            return self.with_first(stream, number + 1)
        return self if self.covers(of) else Knowledge(self._first, self._more | {of & ~ATOMIC})

    def joined(self, other: Knowledge) -> Knowledge:
        """What either covers."""
        mine, theirs = self._first, other._first
        if other is self or (
            all(mine.get(stream, 0) >= count for stream, count in theirs.items())
            and all(self.covers(one) for one in other._more)
        ):
            return self
        first = {
            stream: max(mine.get(stream, 0), theirs.get(stream, 0)) for stream in {*mine, *theirs}
        }
        return Knowledge(first, self._more | other._more)
