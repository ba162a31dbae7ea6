"""Who has written and read each word of memory, and whether anything orders those accesses.

    ordering = Ordering()
    stream = ordering.stream("copy queue 3")
    work = stream.work(0, stream.before(), "copies 64 bytes")
    with ordering.doing(work):
        ordering.writes(memory, slice(0, 16), 0x10000)

Two accesses to a word, one of which writes, need an order: the later one has to know that the
earlier one has ended. Knowledge comes by signals alone. Who signals puts what it knows beside the
word that it writes (`signal`), and who waits for that word has it from then on (`hear`). A barrier
of a queue orders the work around it, and a doorbell tells a queue what the host knows. A work that
reads through caches has to have invalidated them since it heard of the write. Anything else is an
OrderFault that names both accesses, at whatever moments the engines happened to make them.

Words are of 4 bytes. Atomic accesses to one word need no order among themselves.

The host is a stream as well: its accesses to memory that devices share are told by whoever makes
them (`host_reads`, `host_writes`). Without `sees_host` nobody tells: then a queue that hears
anything may know all that was ever signalled, and only what two queues do is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from treadle.emulate.machine.faults import OrderFault
from treadle.emulate.machine.knowledge import ATOMIC, Knowledge, number_of, stamp, stream_of

__all__ = ["WORD", "Hurried", "Memory", "Ordering", "Stream", "Where", "Work", "words"]

WORD = 4  # bytes
_MOST_NAMES = 1 << 12  # works of a stream whose names are remembered
_HOST = 1

Where = slice | np.ndarray  # numbers of words


class Memory(Protocol):
    """Memory that others access, under whichever addresses."""

    @property
    def nbytes(self) -> int: ...


class Hurried(Protocol):
    """What takes work on."""

    def hurry(self) -> None:
        """All work may be done from now on."""
        ...


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of work. It begins after `before`, and its caches show what `seen` covers."""

    stamp: int
    before: Knowledge
    seen: Knowledge


class Stream:
    """The works of one queue, by their numbers. `has_caches`: reads see what was acquired."""

    def __init__(self, ordering: Ordering, number: int, name: str, has_caches: bool) -> None:
        self.ordering, self.number, self.name = ordering, number, name
        self._has_caches = has_caches
        self._heard = self._acquired = Knowledge()
        self._floor = 0
        self._names: dict[int, str] = {}
        self.is_over = False  # nothing that it has not done is ever done

    def hear(self, known: Knowledge) -> None:
        """Work from now on comes after what is known."""
        self._heard = self._heard.joined(known)

    def barrier(self, count: int) -> None:
        """Work from now on comes after the first works of the stream."""
        self._floor = count

    def acquire(self, known: Knowledge | None = None) -> None:
        """Work from now on reads what has been written by now, or no more than what is known."""
        self._acquired = self._acquired.joined(self.before() if known is None else known)

    def before(self) -> Knowledge:
        """What is known to have ended before the next work."""
        return self._heard.with_first(self.number, self._floor)

    def unordered(self) -> Knowledge:
        """The same for a work that barriers of the stream do not hold back."""
        return self._heard

    def after_all(self, count: int) -> Knowledge:
        """The same for a work that waits for the first works of the stream."""
        return self._heard.with_first(self.number, count)

    def work(self, number: int, before: Knowledge, what: str = "") -> Work:
        """A work of the stream, which begins after `before`; a fault says `what` it does."""
        self._names[number] = what
        self._names.pop(number - _MOST_NAMES, None)
        seen = self._acquired if self._has_caches else before
        return Work(stamp(self.number, number), before, seen)

    def describe(self, number: int) -> str:
        """What a fault calls a work."""
        what = self._names.get(number, "did something long ago")
        return f"{self.name}, which {what}" if what else self.name


class _Shadow:
    """The last accesses to each word of some memory: stamps, or ~n for set n of them."""

    def __init__(self, nbytes: int) -> None:
        words = -(-nbytes // WORD)
        self.written = np.zeros(words, np.int64)
        self.read = np.zeros(words, np.int64)
        self.signalled: dict[int, Knowledge] = {}  # by words


class _Place(NamedTuple):
    """Words of memory that is at `base` for whoever accesses it."""

    memory: Memory
    where: Where
    base: int

    def address(self, position: int) -> int:
        where = self.where
        number = where.start + position if isinstance(where, slice) else int(where[position])
        return self.base + WORD * number


class Ordering:
    """All streams and all memory of one machine."""

    def __init__(self, sees_host: bool = True) -> None:
        self.sees_host = sees_host
        self.worklists: WeakSet[Hurried] = WeakSet()
        self._streams: dict[int, Stream] = {}
        self._shadows: WeakKeyDictionary[Memory, _Shadow] = WeakKeyDictionary()
        self._sets: list[tuple[int, ...]] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self._current: Work | None = None
        self._host = self.stream("the host")
        self._epoch = 0
        self._has_accessed = False  # whether the host has, in this epoch
        self._all = Knowledge()  # that was ever signalled
        self.faults: list[OrderFault] = []

    def stream(self, name: str, has_caches: bool = False) -> Stream:
        """A new stream."""
        number = len(self._streams) + _HOST
        self._streams[number] = made = Stream(self, number, name, has_caches)
        return made

    @contextmanager
    def doing(self, work: Work) -> Iterator[None]:
        """A block whose accesses are a work's."""
        self._current = work
        try:
            yield
        finally:
            self._current = None

    @property
    def is_watching(self) -> bool:
        """Whether accesses are of a work."""
        return self._current is not None

    def hurry(self) -> None:
        """Work that may be done at any time may be done now."""
        for work in self.worklists:
            work.hurry()

    def _shadow(self, memory: Memory) -> _Shadow:
        found = self._shadows.get(memory)
        if found is None:
            found = self._shadows[memory] = _Shadow(memory.nbytes)
        return found

    # -- signals ----------------------------------------------------------------------------------

    def signal(self, memory: Memory, offset: int, covers_itself: bool) -> None:
        """The current work writes a signal there, which says that all before it has ended."""
        work = self._current
        assert work is not None
        known = work.before.with_one(work.stamp) if covers_itself else work.before
        self._signalled(memory, offset, known)

    def _signalled(self, memory: Memory, offset: int, known: Knowledge) -> None:
        self._shadow(memory).signalled[offset // WORD] = known
        if not self.sees_host:
            self._all = self._all.joined(known)

    def heard_at(self, memory: Memory, offset: int) -> Knowledge:
        """What one knows who has waited for a word."""
        if not self.sees_host:
            return self._all
        shadow = self._shadows.get(memory)
        known = shadow.signalled.get(offset // WORD) if shadow is not None else None
        return known or Knowledge()

    # -- the host ---------------------------------------------------------------------------------

    def submitted(self) -> Knowledge:
        """What a queue knows by a doorbell: all that the host does."""
        if not self.sees_host:
            return self._all
        self._epoch += self._has_accessed
        self._has_accessed = False
        self._host.barrier(self._epoch)
        return self._host.before()

    def host_stores(self, memory: Memory, offset: int) -> None:
        """The host stores to a word, which may be a signal."""
        self._signalled(memory, offset, self.submitted())

    def host_loads(self, memory: Memory, offset: int) -> None:
        """The host looks at a word, which may be a signal."""
        self._host.hear(self.heard_at(memory, offset))

    def host_hears(self, known: Knowledge) -> None:
        """A call of the driver tells the host what has ended."""
        self._host.hear(known)

    def host_reads(self, memory: Memory, offset: int, nbytes: int, base: int) -> None:
        """The host reads memory that it shares with devices."""
        with self._by_host():
            self.reads(memory, words(offset, nbytes), base)

    def host_writes(self, memory: Memory, offset: int, nbytes: int, base: int) -> None:
        """The host writes memory that it shares with devices."""
        with self._by_host():
            self.writes(memory, words(offset, nbytes), base)

    @contextmanager
    def _by_host(self) -> Iterator[None]:
        self._has_accessed = True
        with self.doing(self._host.work(self._epoch, self._host.before())):
            yield

    # -- accesses ---------------------------------------------------------------------------------

    def reads(self, memory: Memory, where: Where, base: int) -> None:
        """The current work reads words of memory, which for it is at `base`. Raises OrderFault."""
        work, shadow, place = self._current, self._shadow(memory), _Place(memory, where, base)
        if work is None:
            return
        self._check(work, shadow.written[where], work.seen, place, "reads", "wrote")
        self._note(shadow.read, where, work.stamp, work.before)

    def writes(self, memory: Memory, where: Where, base: int, is_atomic: bool = False) -> None:
        """The current work writes words of memory; like `reads`."""
        work, shadow, place = self._current, self._shadow(memory), _Place(memory, where, base)
        if work is None:
            return
        self._check(work, shadow.read[where], work.before, place, "writes", "read")
        if is_atomic:
            self._check(work, shadow.written[where], work.before, place, "changes", "wrote", ATOMIC)
            self._note(shadow.written, where, work.stamp | ATOMIC, work.before)
        else:
            self._check(work, shadow.written[where], work.before, place, "writes", "wrote")
            shadow.written[where] = work.stamp
        shadow.read[where] = 0

    def _check(
        self, work: Work, found: np.ndarray, known: Knowledge, place: _Place, does: str, did: str,
        harmless: int = 0,
    ) -> None:  # fmt: skip
        """Raises OrderFault where an access by others is not known to the work."""
        for value in _distinct(found):
            for other in self._stamps(value):
                if other & harmless or _is_same(other, work.stamp) or known.covers(other):
                    continue
                if self._streams[stream_of(other)].is_over:
                    continue
                address = place.address(int(np.argmax(found == value)))
                raise self._fault(work, other, address, does, did)

    def _fault(self, work: Work, other: int, address: int, does: str, did: str) -> OrderFault:
        me, them = (self._describe(one) for one in (work.stamp, other))
        if work.before.covers(other):
            why = "no cache was invalidated since"
        else:
            why = "nothing says that this has ended"
        fault = OrderFault(f"{me}, {does} {address:#x}; {them}, {did} it, and {why}")
        self.faults.append(fault)
        return fault

    def _describe(self, of: int) -> str:
        return self._streams[stream_of(of)].describe(number_of(of))

    def _note(self, table: np.ndarray, where: Where, mine: int, before: Knowledge) -> None:
        """Adds a stamp to those in a table which do not come before it."""
        found = table[where]
        values = _distinct(found)
        if len(values) == 1:
            table[where] = self._with(values[0], mine, before)
            return
        made = np.empty_like(found)
        for value in values:
            made[found == value] = self._with(value, mine, before)
        table[where] = made

    def _with(self, value: int, mine: int, before: Knowledge) -> int:
        others = [
            one for one in self._stamps(value) if not before.covers(one) and not _is_same(one, mine)
        ]
        if not others:
            return mine
        key = (*sorted(others), mine)
        if key not in self._numbers:
            self._numbers[key] = len(self._sets)
            self._sets.append(key)
        return ~self._numbers[key]

    def _stamps(self, value: int) -> tuple[int, ...]:
        if value < 0:
            return self._sets[~value]
        return (value,) if value else ()


def words(offset: int, nbytes: int) -> slice:
    """The numbers of the words that bytes from an offset on are in."""
    return slice(offset // WORD, -(-(offset + nbytes) // WORD))


def _distinct(values: np.ndarray) -> list[int]:
    """The values of an array, each once; mostly there is one."""
    if not values.size:
        return []
    low = values.min()
    return [int(low)] if low == values.max() else np.unique(values).tolist()


def _is_same(a: int, b: int) -> bool:
    return a | ATOMIC == b | ATOMIC
