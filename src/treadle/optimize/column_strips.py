"""Strips of columns, with a row of memory that holds a total for each (LOCAL).

    for strip (grid): for column in strip: memory[column] = first(column)
                      for row: for column in strip: memory[column] = next(row, column, memory)

What goes down columns reads rows as they lie so, one after the other. A register for each column
allows narrow strips only: each step down meets another page there, and processors fetch ahead along
rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtype import DType, dtypes
from ..ir.args import LocalRef
from ..ir.choices import take
from ..ir.loops import TRUE, Split, loop_size, number_of, replace_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import End, Store
from .moves import Moves
from .nest import Nest
from .records import Record

__all__ = ["LEAST_STRIP", "StripSize", "Strips", "strip_size"]

LEAST_STRIP = 1 << 10  # bytes of a row that a worker reads at once
ITEMS = 8  # strips and other results that workers share


@dataclass(frozen=True)
class StripSize(Record):
    """So many strips of so many columns, in steps of `copies` vectors of `lanes`."""

    word = "strips"

    columns: int
    strips: int
    copies: int
    lanes: int


def strip_size(
    size: int, others: int, most: int, least: int, copies: int, lanes: int
) -> StripSize | None:
    """Strips of at least `least` and at most `most` of `size` columns, enough for all workers.

    `others` other results keep workers busy, too. None if there is no way.
    """
    fewest = max(-(-size // most), min(-(-ITEMS // others), max(1, size // least)))
    step = copies * lanes
    strips = next((n for n in range(fewest, 2 * fewest) if size % (n * step) == 0), fewest)
    columns = -(-size // (strips * step)) * step
    return StripSize(columns, -(-size // columns), copies, lanes) if columns >= least else None


class Strips:
    """The strips of the loop `column` of a nest, whose other loops become the grid."""

    def __init__(self, moves: Moves, column: Node, size: StripSize) -> None:
        self.moves, self.column, self.size = moves, column, size
        self.around = (moves.loop(size.strips, "grid"),) if size.strips > 1 else ()
        self.begin = number_of(self.around) * size.columns
        self.locals = sum(n.op is Op.LOCAL for n in moves.root.toposort())

    def memory(self, dtype: DType) -> Node:
        """Room for a number of each column, those behind the last one too."""
        self.locals += 1
        return Node(Op.LOCAL, dtype, (), LocalRef(self.locals - 1, self.size.columns))

    def place(self) -> Node:
        """Where in such memory a column is."""
        return self.column - self.begin

    def held(self, memory: Node) -> Node:
        """What `memory` has for a column."""
        return Node(Op.LOAD, memory.dtype, (memory, self.place()))

    def set(self, memory: Node, value: Node) -> Node:
        """The STORE of what it has then."""
        return Node(Op.STORE, dtypes.void, (memory, self.place(), value))

    def split(self) -> Split:
        """New loops over the columns, that over strips among them."""
        size = self.size
        if self.around:
            take("column_strips")
        split = self.moves.tiled(size.columns, (size.copies, "unroll"), (size.lanes, "vector"))
        position, count = self.begin + split.expr, loop_size(self.column)
        guard = TRUE if count == size.strips * size.columns else position < count
        return Split(position, (*self.around, *split.ranges), guard)

    def over_columns(self, effects: list[Node], around: tuple[Node, ...] = ()) -> Node:
        """The END of `effects` over all columns of a strip, at each step of the loops `around`."""
        split = self.split()
        inside = {self.column: Split(split.expr, (), split.guard)}
        changed = [_ungated(replace_ranges(effect, inside)) for effect in effects]
        loops = split.ranges[len(self.around) :]
        return End(tuple(changed), (*around, *loops)).node()

    def as_grid(self, nest: Nest, row: Node) -> dict[Node, Split]:
        """What the loops of `nest` become, but for those over columns and rows."""
        others = (r for r in nest.loops if r not in (self.column, row))
        new = {r: self.moves.loop(loop_size(r), "grid") for r in others}
        return {r: Split(n, (n,)) for r, n in new.items()}


def _ungated(effect: Node) -> Node:
    store = Store.of(effect)
    return effect if store.memory.op is Op.PARAM else store._replace(gate=TRUE).node()
