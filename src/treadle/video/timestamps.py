"""Which timestamp each NAL unit carries to a decoder whose stream has none of its own."""

from __future__ import annotations

from collections.abc import Iterable

from .annexb import Bytes

__all__ = ["Timestamps"]

_LAST_VCL = 31  # the last type of a unit that holds a piece of a picture
_FORBIDDEN, _TEMPORAL_ID = 0x80, 7  # bits of a header: the first are 0, of the others one is not


class Timestamps:
    """Hands out a timestamp for each picture, in the order in which they are decoded.

    The first slice of a picture takes the next of `user`; where those have run out, the n-th value
    handed out is n, from 0. The picture's other slices share it. A unit that is no slice ends the
    picture and carries the timestamp of the next one. Units that are too short to tell, or whose
    header is not sound, carry the current.
    """

    def __init__(self, user: Iterable[int] | None = None) -> None:
        self._user = iter(() if user is None else user)
        self._next: int | None = None  # seen, and not yet taken
        self._current: int | None = None
        self.used = 0  # how many have been taken

    def stamp(self, nalu: Bytes) -> int:
        """The timestamp of a NAL unit without start code."""
        if len(nalu) < 3 or nalu[0] & _FORBIDDEN or not nalu[1] & _TEMPORAL_ID:
            return self._peek() if self._current is None else self._current
        if nalu[0] >> 1 & 0x3F > _LAST_VCL:
            self._current = None
            return self._peek()
        if self._current is None or nalu[2] & 0x80:
            self._current, self._next = self._peek(), None
            self.used += 1
        return self._current

    def _peek(self) -> int:
        if self._next is None:
            self._next = next(self._user, self.used)
        return self._next
