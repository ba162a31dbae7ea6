"""The pictures that a decoder of many threads still holds where it meets an error.

    history = History()
    history.add(unit, waiting)        # for each access unit that the decoder is given
    history.sound(open_decoder)       -> [(unit, frame), ...], and the unit that is refused

FFmpeg's threads are several pictures ahead when one of them fails, and PyAV drops what the others
have finished. So the last groups of pictures are kept, coded, and decoded anew by one thread: that
one fails at the damaged picture itself, and gives all that came before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from typing import TypeVar

from .stream import AccessUnit

__all__ = ["History"]

F = TypeVar("F")  # a picture, as a decoder gives it

MOST_BYTES = 1 << 26  # of coded pictures; of longer groups only what is still coming is kept
_PARAMETER_SETS = range(32, 35)


class History:
    """The access units from which pictures that are not shown yet can be decoded again."""

    def __init__(self) -> None:
        self._groups: list[list[AccessUnit]] = []  # each begins where decoding can begin
        self._headers: dict[bytes, None] = {}  # of groups that are gone
        self._nbytes = 0

    def add(self, unit: AccessUnit, waiting: Collection[int]) -> None:
        """The next unit; `waiting` are the indices of those whose pictures are not shown yet."""
        if unit.keyframe:
            self._groups.append([])
            while len(self._groups) > 2 and not self._is_needed(waiting):
                self._forget()
        if self._groups:
            self._groups[-1].append(unit)
            self._nbytes += _size(unit)
        while self._nbytes > MOST_BYTES:
            self._forget()

    def _is_needed(self, waiting: Collection[int]) -> bool:
        """Whether the first two groups hold what is waited for: leading pictures need both."""
        return any(unit.index in waiting for group in self._groups[:2] for unit in group)

    def _forget(self) -> None:
        for unit in self._groups.pop(0):
            self._nbytes -= _size(unit)
            for one in unit.units:
                if one.data[0] >> 1 & 0x3F in _PARAMETER_SETS:
                    self._headers[one.data] = None

    def sound(
        self, decode: Callable[[bytes | None, int], list[F]], failure: type[Exception]
    ) -> tuple[list[tuple[AccessUnit, F]], AccessUnit | None]:
        """The pictures of sound units in the order of display, and the unit that is refused.

        `decode(bytes, index)` is a decoder of one thread, which raises `failure` for a picture that
        it refuses, and gives what is left for None.
        """
        known = {unit.index: unit for group in self._groups for unit in group}
        prefix = b"".join(b"\0\0\1" + data for data in self._headers)
        frames, refused = [], None
        for unit in known.values():
            try:
                frames += decode(prefix + unit.annexb(), unit.index)
            except failure:
                refused = unit
                break
            prefix = b""
        with contextlib.suppress(failure):  # what waits for its turn is lost with it
            frames += decode(None, -1)
        limit = len(known) and max(known) + 1 if refused is None else refused.index
        found = [(known.get(frame.pts), frame) for frame in frames]
        return [(unit, f) for unit, f in found if unit is not None and unit.index < limit], refused


def _size(unit: AccessUnit) -> int:
    return sum(len(one.data) for one in unit.units)
