"""A ring of words that an engine reads, and the doorbell that tells it how far they go.

    ring.make_room(40, timeout)
    ring.put(words)                 # may go around the end
    ring.submit(moment)             # the engine sees all that was put; it is read at that moment

Room is known by moments alone: what engines report of how far they have read differs between them.
"""

from __future__ import annotations

from array import array
from collections import deque

from .host_memory import view
from .platform import Platform
from .timeline import Moment, Timeline

__all__ = ["Ring", "Room"]


class Room:
    """What is free of `size` units that are used around and around; `position` counts all used."""

    def __init__(self, timeline: Timeline, size: int) -> None:
        self._timeline, self.size = timeline, size
        self.position = 0
        self._free_to = size
        self._in_use: deque[tuple[int, Moment]] = deque()

    def make(self, count: int, timeout: float) -> None:
        """Waits until the next `count` units are free."""
        while self.position + count > self._free_to:
            end, moment = self._in_use[0]
            self._timeline.wait(moment, timeout)
            self._free_to = end + self.size
            self._in_use.popleft()  # an interrupt of the wait leaves it to be waited for

    def take(self, count: int, timeout: float) -> int:
        """Where the next `count` units are that do not go around the end."""
        start = self.position % self.size
        if start + count > self.size:
            self.position += self.size - start
        self.make(count, timeout)
        start = self.position % self.size
        self.position += count
        return start

    def used_until(self, moment: Moment) -> None:
        """What was used up to now is free when the moment has passed."""
        self._in_use.append((self.position, moment))


class Ring:
    """A ring of `nbytes` at `address`.

    The position is counted in pieces of `unit` bytes. It is stored at `write_pointer`, and, with
    `offset` added, at `doorbell`.
    """

    def __init__(
        self,
        platform: Platform,
        timeline: Timeline,
        address: int,
        nbytes: int,
        *,
        doorbell: int,
        write_pointer: int,
        unit: int,
        offset: int = 0,
    ) -> None:
        self._platform = platform
        self._words = view(address, nbytes).cast("I")
        self._room = Room(timeline, nbytes // 4)
        self._doorbell, self._write_pointer = doorbell, write_pointer
        self._unit, self._offset = unit, offset

    @property
    def position(self) -> int:
        """How many words were ever put."""
        return self._room.position

    @property
    def most_words(self) -> int:
        """So many words one submission may have."""
        return self._room.size // 2

    def make_room(self, count: int, timeout: float) -> None:
        """Waits until `count` words can be put."""
        self._room.make(count, timeout)

    def put(self, words: array[int]) -> None:
        """Words behind what was put before; there has to be room."""
        room, count = self._room, len(words)
        start = room.position % room.size
        first = min(count, room.size - start)
        source = memoryview(words)
        self._words[start : start + first] = source[:first]
        if first < count:
            self._words[: count - first] = source[first:]
        room.position += count

    def submit(self, moment: Moment) -> None:
        """Tells the engine. What was put is read by `moment`."""
        self._room.used_until(moment)
        position = self._room.position * 4 // self._unit
        platform = self._platform
        platform.store64(self._write_pointer, position)
        platform.barrier()
        platform.store64(self._doorbell, position + self._offset)
