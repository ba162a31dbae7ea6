"""Which kernels of a list have to wait for which, and whether that stays so with other memory.

    order = Order(cells, functions)
    order.before                   ->  [[], [], [0, 1], ...]    # function 2 waits for 0 and 1
    order.holds({cell: address})   ->  True: the same kernels wait with these cells there

A cell is an argument of the list: (call, argument), with an address and so many bytes. Two
functions are in order if they use the same bytes and one of them writes there; all others may run
side by side. Replays move cells (inputs and results): what was computed for the addresses of the
capture holds for others as long as cells share memory exactly where they did.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

__all__ = ["Cell", "Order", "Use"]

Cell = tuple[int, int]
_Range = tuple[int, int]


class Use(NamedTuple):
    """What one function does with a cell."""

    cell: Cell
    nbytes: int
    is_written: bool


class Order:
    """The order of `functions`, each by its uses, over `addresses` of the cells."""

    def __init__(self, addresses: Mapping[Cell, int], functions: Sequence[Sequence[Use]]) -> None:
        self._addresses = dict(addresses)
        self._nbytes: dict[Cell, int] = {}
        self._written: set[Cell] = set()
        for uses in functions:
            for cell, nbytes, is_written in uses:
                self._nbytes[cell] = max(self._nbytes.get(cell, 0), nbytes)
                if is_written:
                    self._written.add(cell)
        self._groups: dict[int, list[Cell]] = {}
        for cell in self._nbytes:
            self._groups.setdefault(self._addresses[cell], []).append(cell)
        self.before = self._dependencies(functions)
        self._fixed: _Fixed | None = None

    def _dependencies(self, functions: Sequence[Sequence[Use]]) -> list[list[int]]:
        """For each function those before it that it waits for, none of which waits for another."""
        count = sum(map(len, functions))
        writes, reads = _Uses(count), _Uses(count)
        found: list[list[int]] = []
        waited: list[int] = []  # for each function a mask of all that come before it
        for function, uses in enumerate(functions):
            earlier: set[int] = set()
            for cell, _, is_written in uses:
                span = self._range(cell)
                earlier |= writes.touching(span)
                earlier |= reads.touching(span) if is_written else set()
            for cell, _, is_written in uses:
                span = self._range(cell)
                if is_written:  # who comes later waits for this one, and so for those
                    writes.forget_inside(span)
                    reads.forget_inside(span)
                (writes if is_written else reads).add(span, function)
            direct, mask = [], 0
            for one in sorted(earlier, reverse=True):
                if not mask >> one & 1:
                    direct.append(one)
                    mask |= waited[one] | 1 << one
            found.append(direct[::-1])
            waited.append(mask)
        return found

    def _range(self, cell: Cell, address: int | None = None) -> _Range:
        start = self._addresses[cell] if address is None else address
        return start, start + self._nbytes[cell]

    def holds(self, moved: Mapping[Cell, int]) -> bool:
        """Whether the order is right with these cells at other addresses than at first."""
        moved = {cell: address for cell, address in moved.items() if cell in self._nbytes}
        if self._fixed is None or self._fixed.moved != moved.keys():
            self._fixed = self._fix(frozenset(moved))
        fixed = self._fixed
        if not fixed.is_apart:
            return False
        written: dict[int, _Range] = {}  # by the address of a group at first
        read: list[_Range] = []
        for cell, address in moved.items():
            group = self._addresses[cell]
            here = self._range(cell, address)
            if group not in fixed.written:
                read.append(here)
                continue
            before = written.setdefault(group, here)
            if before[0] != here[0]:
                return False
            written[group] = (here[0], max(before[1], here[1]))
        if any(fixed.all.touches(span) for span in written.values()):
            return False
        ours = _Ranges(list(written.values()))
        return ours.is_apart and not any(
            fixed.writes.touches(span) or ours.touches(span) for span in read
        )

    def _fix(self, moved: frozenset[Cell]) -> _Fixed:
        """What is known of all cells but those that move."""
        groups = {self._addresses[cell] for cell in moved}
        written = {a for a in groups if not self._written.isdisjoint(self._groups[a])}
        still = [cell for cell in self._nbytes if cell not in moved]
        everything = _Ranges([self._range(cell) for cell in still])
        writes = _Ranges([self._range(cell) for cell in still if cell in self._written])
        is_apart = True
        for group in written:  # all of its cells move, and it shared no byte with other groups
            cells = self._groups[group]
            span = group, max(self._range(cell)[1] for cell in cells)
            others = [self._range(c) for c in self._nbytes if self._addresses[c] != group]
            is_apart &= moved.issuperset(cells) and not _Ranges(others).touches(span)
        return _Fixed(moved, written, everything, writes, is_apart)


class _Uses:
    """Which functions have used which memory: (first byte, behind the last, function) each."""

    def __init__(self, most: int) -> None:
        import numpy as np

        self._table, self._count = np.zeros((3, most), np.int64), 0

    def add(self, span: _Range, function: int) -> None:
        if span[0] < span[1]:
            self._table[:, self._count] = *span, function
            self._count += 1

    def touching(self, span: _Range) -> set[int]:
        """Those that used a byte of a piece."""
        starts, ends, functions = self._table[:, : self._count]
        found = functions[(starts < span[1]) & (ends > span[0])]
        return set(found.tolist()) if span[0] < span[1] else set()

    def forget_inside(self, span: _Range) -> None:
        """Those whose piece is all inside of another."""
        table = self._table[:, : self._count]
        kept = (table[0] < span[0]) | (table[1] > span[1])
        if not kept.all():
            left = table[:, kept]
            self._count = left.shape[1]
            self._table[:, : self._count] = left


class _Ranges:
    """Pieces of memory, to look up whether another one touches any."""

    def __init__(self, ranges: Sequence[_Range]) -> None:
        ordered = sorted(ranges)
        self._starts = [start for start, _ in ordered]
        self._ends = list(accumulate((end for _, end in ordered), max))
        self.is_apart = all(a <= b for a, b in zip(self._ends, self._starts[1:], strict=False))

    def touches(self, span: _Range) -> bool:
        """Whether the span has a byte of any of them."""
        start, end = span
        before = bisect_left(self._starts, end)
        return before > 0 and self._ends[before - 1] > start


class _Fixed(NamedTuple):
    """What `holds` needs as long as the same cells move."""

    moved: frozenset[Cell]
    written: set[int]
    all: _Ranges
    writes: _Ranges
    is_apart: bool
