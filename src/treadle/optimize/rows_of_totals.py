"""Rows of totals in the nearest cache (LOCAL), which take several rows at a time.

    out[c] = sum of x[r, c] over r
      ->  totals[c] = x[0, c] + ... + x[7, c] for all c of a strip
          for each 8 rows that follow: for all c: totals[c] += x[r, c] + ... + x[r + 7, c]
          out[c] = totals[c]

A scan is a reduction whose partial results are stored: its rows go on from the totals, one after
the other. Several reductions of one nest over the same rows have a row of totals each; a tuple has
one for each of its items (ir/accumulators.py). The first block has the rows that fill none, so that
no other is masked. Totals of parts, and those of scans, are float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..dtype import DType, dtypes
from ..ir.accumulators import combined, is_in_order, items, tuple_of
from ..ir.args import LocalRef
from ..ir.choices import take
from ..ir.loops import TRUE, Split, closed_ranges, loop_size, number_of, replace_ranges
from ..ir.narrow_sums import type_of_parts
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import After, End, Reduce, Register, Store, operand
from ..target import Target
from .moves import Move, Moves
from .nest import Nest, changes_of, is_unrolled, running_totals
from .records import Loop, Record

__all__ = ["ColumnReduction", "StripSize", "dtypes_of_totals"]

Add = Callable[[list[Node], Node, int], tuple[list[Node], list[Node]]]


@dataclass(frozen=True)
class StripSize(Record):
    """So many strips of so many columns, in steps of `copies` vectors of `lanes`."""

    word = "strips"

    columns: int
    strips: int
    copies: int
    lanes: int


@dataclass(frozen=True)
class ColumnReduction(Move):
    """The reductions of a nest down one `column`, or a scan, take so many `rows` at a time.

    A strip of columns has its totals in a row of memory. Then the nest is scheduled.
    """

    word = "column_reduction"

    nest: int
    column: Loop
    row: Loop
    strips: StripSize
    rows: int
    is_scan: bool = False

    @property
    def choices(self) -> tuple[str, ...]:
        return ("row_scan" if self.is_scan else self.word,)

    def apply(self, moves: Moves) -> None:
        totals, nest = _Totals(moves, self), moves.nest_of(self.nest)
        if self.is_scan:
            totals.scan(nest)
        else:
            totals.reduce(nest)


class _Totals:
    """The schedule of one nest."""

    def __init__(self, moves: Moves, move: ColumnReduction) -> None:
        self.moves, self.size, self.rows = moves, move.strips, move.rows
        self.column, self.row = moves.range_of(move.column), moves.range_of(move.row)
        self.around = (moves.loop(self.size.strips, "grid"),) if self.size.strips > 1 else ()
        self.begin = number_of(self.around) * self.size.columns
        self.locals = sum(n.op is Op.LOCAL for n in moves.root.toposort())
        self.memories: list[Node] = []
        if self.around:
            take("column_strips")

    def reduce(self, nest: Nest) -> None:
        """Fill rows of totals for all reductions, and read them where those were."""
        reduces = [reduce for reduce in nest.reduces if not is_unrolled(reduce)]

        def add(before: list[Node], begin: Node, rows: int) -> tuple[list[Node], list[Node]]:
            made: list[Node] = []
            for reduce in reduces:
                total, op = self._block(reduce, begin, rows), reduce.arg.op
                if before:  # it comes first
                    count, value = len(items(total)), Reduce.of(reduce).value
                    old, before = tuple_of(before[:count]), before[count:]
                    total = combined(op, old, total, is_in_order(op, value, (self.row,)))
                made += items(total)
            return made, []

        self._carry(add, [])
        held, new = iter(self._held()), dict[Node, Node]()
        for reduce in reduces:
            new[reduce] = tuple_of([next(held).cast(part.dtype) for part in items(reduce)])
        self.moves.root = self.moves.root.substitute(new)
        self.moves.replace_loops({self.column: self._split(), **self._grid(nest)})

    def _block(self, reduce: Node, begin: Node, rows: int) -> Node:
        """What so many rows have, as a tree."""
        value, _, arg = Reduce.of(reduce)
        if rows == 1:
            total = value.substitute({self.row: begin})
        else:
            inner = self.moves.loop(rows, "unroll")
            total = Reduce(value.substitute({self.row: begin + inner}), (inner,), arg).node()
        pairs = zip(items(total), dtypes_of_totals(reduce, self.moves.target), strict=True)
        return tuple_of([part.cast(wide) for part, wide in pairs])

    def scan(self, nest: Nest) -> None:
        """Fill rows of totals, and store on the way what is made of them in each row."""
        scans = running_totals(nest)
        if not scans:
            raise ValueError("the nest is no scan")

        def add(before: list[Node], begin: Node, rows: int) -> tuple[list[Node], list[Node]]:
            totals, stores = [*before], list[Node]()
            for at in ({self.row: begin + n} for n in range(rows)):
                done: dict[Node, Node] = {}  # of others that a scan is of
                for number, (scan, total) in enumerate(zip(scans, totals, strict=True)):
                    for change in changes_of(scan):
                        assert change.op is not None  # else it is no running total
                        value = change.value.substitute(done).substitute(at)
                        total = total.alu(change.op, value.cast(total.dtype))
                    totals[number], done[scan] = total, total.cast(scan.dtype)
                stores += [effect.substitute(done).substitute(at) for effect in nest.effects]
            return totals, stores

        to, grid = self.moves.target, self._grid(nest)
        first = (Register.of(operand(scan)).start for scan in scans)
        start = [s.cast(*dtypes_of_totals(n, to)) for s, n in zip(first, scans, strict=True)]
        around = (*(r for split in grid.values() for r in split.ranges), *self.around)
        end = self._carry(add, start, around)
        self.moves.root = self.moves.root.substitute({nest.node: end})
        self.moves.replace_loops(grid)

    def _carry(self, add: Add, start: list[Node], around: tuple[Node, ...] = ()) -> Node:
        """The END of a pass over all rows.

        `add` gives the totals behind some rows and what these store, from the totals before, the
        first row, and how many rows.
        """
        blocks, rest = divmod(loop_size(self.row), self.rows)
        first: list[Node] = []
        if rest:
            start, first = add(start, Node.index(0), rest)
        totals, stores = add(start, Node.index(rest), self.rows)
        # Room for a number of each column, those behind the last one too.
        refs = (LocalRef(self.locals + n, self.size.columns) for n in range(len(totals)))
        self.memories = [Node(Op.LOCAL, t.dtype, (), r) for t, r in zip(totals, refs, strict=True)]
        self._keep(totals, [*first, *stores], ())
        step = self.moves.loop(blocks - 1)
        totals, stores = add(self._held(), rest + (step + 1) * self.rows, self.rows)
        return self._keep(totals, stores, (*around, step))

    def _held(self) -> list[Node]:
        """The totals in memory."""
        place = self.column - self.begin
        return [Node(Op.LOAD, memory.dtype, (memory, place)) for memory in self.memories]

    def _keep(self, totals: list[Node], stores: list[Node], around: tuple[Node, ...]) -> Node:
        """The END of `stores` and of those of `totals`, over all columns of a strip."""
        split = self._split()
        inside = {self.column: Split(split.expr, (), split.guard)}
        effects = [replace_ranges(store, inside) for store in stores]
        for memory, total in zip(self.memories, totals, strict=True):
            store = Node(Op.STORE, dtypes.void, (memory, self.column - self.begin, total))
            effects.append(Store.of(replace_ranges(store, inside))._replace(gate=TRUE).node())
        end = End(tuple(effects), (*around, *split.ranges[len(self.around) :])).node()
        self.memories = [After(memory, (end,)).node() for memory in self.memories]
        return end

    def _split(self) -> Split:
        """New loops over the columns, that over strips among them."""
        size = self.size
        split = self.moves.tiled(size.columns, (size.copies, "unroll"), (size.lanes, "vector"))
        position, count = self.begin + split.expr, loop_size(self.column)
        guard = TRUE if count == size.strips * size.columns else position < count
        return Split(position, (*self.around, *split.ranges), guard)

    def _grid(self, nest: Nest) -> dict[Node, Split]:
        """What the loops of `nest` become, but for those over columns and rows."""
        others = (r for r in nest.loops if r not in (self.column, self.row))
        return self.moves.whole(others, "grid")


def dtypes_of_totals(total: Node, target: Target) -> list[DType]:
    """Those of the totals of a REDUCE, which may be of a tuple, or of a scan: wide ones of parts.

    A part is what a STAGE holds. Those of few bytes are as narrow as their sums.
    """
    narrow = type_of_parts(total, loop_size(*closed_ranges(total)))
    if narrow is not None:
        return [narrow]
    if total.op is Op.AFTER:
        is_wide = After.of(total).value.arg.is_wide
    else:
        is_wide = total.arg.op is Op.ADD and Reduce.of(total).value.op is Op.STAGE
    kinds = [part.dtype for part in items(total)]
    return [*map(target.dtype_of_total, kinds)] if is_wide else kinds
