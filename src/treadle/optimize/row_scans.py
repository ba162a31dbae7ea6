"""Scans down columns: a few rows at a time, with the totals so far in the nearest cache.

    out[r, c] = the sum of x[0..r, c]
      ->  for all c of a strip: the first rows;  totals[c] = their sum
          for each 4 rows that follow: for all c: four rows from totals[c] on;  totals[c] = the last

Rows are read and written as they lie, in a few streams, and a total is loaded and stored once for
four results. Those of float32 sums and products are float64, where the target has that: a result is
rounded once, however many rows are above it, as lower/wide_scans.py does for all other scans.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtype import DType, dtypes
from ..ir.loops import has_fixed_size, loop_size
from ..ir.node import Node, alu
from ..ir.op import Op
from ..ir.views import After, Register, Store, Update
from ..target import Target
from .column_strips import FAR, LEAST_STRIP, Strips, StripSize, strip_size
from .lane_width import lanes_of
from .moves import Move, Moves
from .nest import Nest, reads_of, sequential_loops, stride
from .records import Loop

__all__ = ["RowScan", "scan_rows"]

ROWS = 4  # at a time
MOST_NODES = 256  # what is computed in a row: more leaves no room for several


def scan_rows(moves: Moves, nest: Nest, target: Target) -> bool:
    """Schedule `nest`, if it is a scan down columns. Whether it is."""
    update, row = _update_of(nest), sequential_loops(nest)
    if update is None or len(row) != 1 or loop_size(*row) < 2 * ROWS:
        return False
    column = _column_of(nest, row[0])
    if column is None or len(nest.nodes()) > MOST_NODES:
        return False
    dtype = _dtype_of_totals(update, target)
    widest = max(value.dtype.itemsize for value in nest.values)
    size = strip_size(
        loop_size(column),
        others=loop_size(*(r for r in nest.loops if r not in (column, *row))),
        most=target.l1 // 3 // dtype.itemsize,
        least=LEAST_STRIP // widest,
        copies=1,
        lanes=lanes_of(nest, target, 2),
    )
    if size is None:
        return False
    moves.make(RowScan(moves.number_of(nest), Loop.of(column), Loop.of(row[0]), size))
    return True


@dataclass(frozen=True)
class RowScan(Move):
    """The scan of a nest down a `column` takes several rows at a time. Then it is scheduled."""

    word = "row_scan"

    nest: int
    column: Loop
    row: Loop
    strips: StripSize

    def apply(self, moves: Moves) -> None:
        nest = moves.nest_of(self.nest)
        update = _update_of(nest)
        if update is None:
            raise ValueError(f"{self}: the nest is no scan")
        strips = Strips(moves, moves.range_of(self.column), self.strips)
        dtype = _dtype_of_totals(update, moves.target)
        _scan(moves, nest, update, moves.range_of(self.row), strips, dtype)


def _update_of(nest: Nest) -> Node | None:
    """The one UPDATE of a nest over loops of fixed sizes that does nothing else in order."""
    nodes = nest.nodes()
    updates = [n for n in nodes if n.op is Op.UPDATE]
    if len(updates) != 1 or nest.node.op is not Op.END or nest.is_scheduled:
        return None
    if any(n.op in (Op.TICKET, Op.REDUCE, Op.STAGE) for n in nodes):
        return None
    plain = all(e.op is Op.STORE and Store.of(e).memory.op is Op.PARAM for e in nest.effects)
    fixed = all(has_fixed_size(r) for r in nest.loops)
    return updates[0] if plain and fixed and updates[0].arg is not None else None


def _column_of(nest: Nest, row: Node) -> Node | None:
    """The loop that goes along the rows, which are far apart."""
    stores = [(s.index, s.value.dtype.itemsize) for s in map(Store.of, nest.effects)]
    reads = [index for value in nest.values for index in reads_of(value)]
    for column in nest.loops:
        along = all(stride(index, column) == 1 for index, _ in stores)
        apart = [abs(stride(index, row) or 0) * nbytes for index, nbytes in stores]
        if along and min(apart) >= FAR and all(stride(i, column) in (0, 1) for i in reads):
            return column
    return None


def _dtype_of_totals(update: Node, target: Target) -> DType:
    dtype = Update.of(update).value.dtype
    rounds = dtype is dtypes.float32 and update.arg in (Op.ADD, Op.MUL)
    return dtypes.float64 if rounds and target.is_native(dtypes.float64) else dtype


def _scan(moves: Moves, nest: Nest, update: Node, row: Node, strips: Strips, dtype: DType) -> None:
    totals = strips.memory(dtype)
    count = ROWS + loop_size(row) % ROWS
    first = [Node.index(n) for n in range(count)]
    start = Register.of(Update.of(update).register).start.cast(dtype)
    begun = strips.over_columns(_rows(nest, update, row, first, start, strips, totals))
    step = moves.loop((loop_size(row) - count) // ROWS)
    later = [step * ROWS + (count + n) for n in range(ROWS)]
    totals = After(totals, (begun,)).node()
    effects = _rows(nest, update, row, later, strips.held(totals), strips, totals)
    grid = strips.as_grid(nest, but=(row,))
    around = tuple(r for split in grid.values() for r in split.ranges)
    strip = () if strips.strip is None else (strips.strip,)
    end = strips.over_columns(effects, (*around, *strip, step))
    moves.root = moves.root.substitute({nest.node: end})
    moves.replace_loops(grid)


def _rows(
    nest: Nest,
    update: Node,
    row: Node,
    places: list[Node],
    total: Node,
    strips: Strips,
    totals: Node,
) -> list[Node]:
    """The stores of some rows, which begin with `total`, and of the total after them."""
    effects: list[Node] = []
    for place in places:
        value = Update.of(update).value.substitute({row: place})
        total = alu(update.arg, total, value.cast(totals.dtype))
        for effect in nest.effects:
            result = total.cast(value.dtype)
            results = {n: result for n in effect.toposort() if _is_total(n, update)}
            effects.append(effect.substitute(results).substitute({row: place}))
    return [*effects, strips.set(totals, total)]


def _is_total(node: Node, update: Node) -> bool:
    register = Update.of(update).register
    return node.op is Op.AFTER and After.of(node) == After(register, (update,))
