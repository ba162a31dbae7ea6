"""A ring of words, read packet by packet: PM4 and SDMA queues. Packets may go around its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from treadle.emulate.kfd.queue import GPU, Queue, QueueFacts

__all__ = ["Handler", "WordQueue"]

# A packet is done at once, or gives what to wait for.
Handler = Callable[[Sequence[int]], Iterator[bool] | None]

_CHUNK = 1024  # words that are read at a time
_AHEAD = 64


class WordQueue(Queue):
    """A queue whose packets are words. `_written` and `_read` count words since it was made."""

    def __init__(self, gpu: GPU, facts: QueueFacts) -> None:
        self._written = self._read = 0
        self._fetched: list[int] = []  # words from `_read` on, as engines read ahead
        super().__init__(gpu, facts)

    def length(self, word: int) -> int:
        """The words of the packet that begins with this one; 0 where later words have to tell."""
        raise NotImplementedError

    def handler(self, word: int) -> Handler:
        """What does the packet that begins with this word. KernelFault if nothing does."""
        raise NotImplementedError

    def report(self, read: int) -> None:
        """Tells the program how far the ring was read."""
        raise NotImplementedError

    def front(self) -> Iterator[bool]:
        while True:
            is_ready = self._read < self._written and self.work.has_room()
            packet = self._next() if is_ready else None
            if packet is None:
                yield False
                continue
            self.begin(self._read)
            yield from self.do(packet)
            self._read += len(packet)
            self.report(self._read)
            yield True

    def _next(self) -> list[int] | None:
        """The next packet, or None where the program has not written all of it."""
        if len(self._fetched) < _AHEAD:
            self._fetched += self._fetch(self._read + len(self._fetched))
        count = self.measure(self._fetched)
        if count > len(self._fetched):
            if len(self._fetched) == self._written - self._read:
                return None
            self._fetched += self._fetch(self._read + len(self._fetched), count)
        packet = self._fetched[:count]
        del self._fetched[:count]
        return packet

    def _fetch(self, start: int, most: int = _CHUNK) -> list[int]:
        """Words of the ring from number `start` on, not around its end."""
        size = self.facts.ring_bytes // 4
        place = start % size
        count = min(self._written - start, most, size - place)
        return self.words(self.facts.ring + 4 * place, count) if count else []

    def measure(self, words: Sequence[int]) -> int:
        """The words of the packet that begins here; more than there are, if it is not all there."""
        return self.length(words[0])

    def do(self, packet: Sequence[int]) -> Iterator[bool]:
        """One packet."""
        waiting = self.handler(packet[0])(packet)
        if waiting is not None:
            yield from waiting

    def do_all(self, words: Sequence[int]) -> Iterator[bool]:
        """The packets of an indirect buffer."""
        at = 0
        while at < len(words):
            rest = words[at : at + _CHUNK]
            count = self.measure(rest)
            rest = words[at : at + count]
            while not self.work.has_room():
                yield False
            yield from self.do(rest[:count])
            yield True
            at += count
