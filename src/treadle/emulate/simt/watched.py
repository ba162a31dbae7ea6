"""The memory of an address space as kernels see it, and what they do to it told to the ordering.

    watched = Watched()
    with watched.regions(space) as regions:
        program.launch(..., regions)

What a launch has touched is told behind it, where its accesses are those of some work.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from treadle.emulate.simt.footprint import Footprint
from treadle.emulate.simt.machine import LOAD, TOUCH, Access, Region

if TYPE_CHECKING:
    import numpy as np

    from treadle.emulate.machine.memory import AddressSpace, HostPages, Mapping, MemoryObject
    from treadle.emulate.machine.ordering import Where

__all__ = ["Watched"]


class Watched:
    """Footprints of the memory that launches have been given, which go with it."""

    def __init__(self) -> None:
        self._footprints: WeakKeyDictionary[
            MemoryObject | HostPages, dict[tuple[int, int], Footprint]
        ] = WeakKeyDictionary()

    @contextmanager
    def regions(self, space: AddressSpace) -> Iterator[list[Region]]:
        """The regions for one launch. Raises OrderFault behind it."""
        mappings = space.mappings()
        if not space.ordering.is_watching:
            yield [_region(one) for one in mappings]
            return
        noted = [(one, self._footprint(one)) for one in mappings]
        found: list[tuple[Mapping, int, np.ndarray]] = []
        try:
            yield [_region(one, footprint.record) for one, footprint in noted]
        finally:
            for one, footprint in noted:
                found += [(one, how, words) for how, words in footprint.take()]
        for one, how, words in found:
            where = _compact(words)
            if how == LOAD:
                space.ordering.reads(one.owner, where, one.start)
            else:
                space.ordering.writes(one.owner, where, one.start, is_atomic=how == TOUCH)

    def _footprint(self, mapping: Mapping) -> Footprint:
        of_memory = self._footprints.setdefault(mapping.owner, {})
        key = mapping.start, mapping.nbytes
        if key not in of_memory:
            of_memory[key] = Footprint(*key)
        return of_memory[key]


def _region(mapping: Mapping, footprint: int = 0) -> Region:
    delta = mapping.host - mapping.start
    return Region(mapping.start, mapping.nbytes, delta, Access(mapping.permissions & 7), footprint)


def _compact(words: np.ndarray) -> Where:
    """Numbers in order, as a slice where they follow each other."""
    first, end = int(words[0]), int(words[-1]) + 1
    return slice(first, end) if end - first == len(words) else words
