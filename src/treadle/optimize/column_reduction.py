"""What goes down columns: reductions and scans whose results lie as the rows that they read.

    out[c] = sum of x[r, c] over r, or of all rows up to r, of wide rows
      ->  rows of totals (rows_of_totals.py), in strips of columns that fit the nearest cache

Memory is read and written as it lies, in a few streams. With columns outside and rows inside, a
column's total is a register, but each step down meets another page, and processors fetch ahead
along rows. Long columns are cut into parts before (`steps_of_part`): what is added one after the
other decides how large errors become.
"""

from __future__ import annotations

from ..ir.accumulators import is_tuple, items
from ..ir.loops import closed_ranges, has_fixed_size, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Reduce, Store
from ..target import Target
from .lane_width import lanes_of
from .moves import Moves
from .nest import (
    Nest,
    inner_steps,
    is_unrolled,
    own_reductions,
    reads_of,
    running_totals,
    sequential_loops,
    stride,
)
from .records import Loop
from .rows_of_totals import ColumnReduction, StripSize, dtypes_of_totals

__all__ = ["BLOCK", "is_down_columns", "reduce_columns", "steps_of_part"]

BLOCK = 8  # rows that are read side by side: as many streams as processors follow
SCANNED = 4  # rows at a time of a scan: each is written, too
PART_ROWS = 128  # rows of a part: sums of 8 rows, 16 of which are added one after the other
TUPLE_PART_ROWS = 512  # of extremes: nothing is rounded, and a part's results are twice as wide
COPIES, MOST_NODES = 4, 1 << 10  # vectors side by side, if what they compute is not too much
MOST_SCANNED = 256  # nodes that are computed in a row of a scan: more leave no room for several
FAR = 1 << 10  # bytes from row to row of a scan
LEAST_STRIP = 1 << 10  # bytes of a row that a worker reads at once
ITEMS = 8  # strips and other results that workers share


def reduce_columns(moves: Moves, nest: Nest, target: Target) -> bool:
    """Schedule `nest`, if it is a scan or reductions down the same columns. Whether it is."""
    if nest.is_scheduled:
        return False
    found = _scan_of(nest) if sequential_loops(nest) else _reductions_of(nest)
    if found is None:
        return False
    totals, column, row, rows = found
    if row.arg.kind != "loop" or loop_size(row) < 2 * rows:
        return False
    size = _strip_size(nest, totals, column, row, target)
    if size is None:
        return False
    is_scan = totals[0].op is Op.AFTER
    names = moves.number_of(nest), Loop.of(column), Loop.of(row)
    moves.make(ColumnReduction(*names, size, rows, is_scan=is_scan))
    return True


def _reductions_of(nest: Nest) -> tuple[list[Node], Node, Node, int] | None:
    """The reductions down one column, the loops of it and of the rows, how many rows at a time."""
    reduces = [reduce for reduce in nest.reduces if not is_unrolled(reduce)]
    columns = {_column_of(nest, reduce) for reduce in reduces}
    if len(columns) != 1 or len({closed_ranges(reduce) for reduce in reduces}) != 1:
        return None
    (column,), (row, *_) = columns, closed_ranges(reduces[0])
    if column is None or any(n.op is Op.STAGE and n.arg.scope == "shared" for n in nest.nodes):
        return None
    return reduces, column, row, max(1, BLOCK // max(map(inner_steps, reduces)))


def is_down_columns(nest: Nest, reduce: Node) -> bool:
    """Whether `reduce` reads rows that lie side by side for its results, one at each step."""
    return _column_of(nest, reduce) is not None


def _column_of(nest: Nest, reduce: Node) -> Node | None:
    """The loop of the results that goes along the rows."""
    value, loops, _ = Reduce.of(reduce)
    if len(loops) != 1 or ranges_of(reduce) != frozenset(nest.loops):
        return None
    (down,), reads = loops, reads_of(value)
    if any(down in ranges_of(n) and not is_unrolled(n) for n in own_reductions(value)):
        return None
    each = frozenset((*nest.loops, down))
    if any(stride(i, down) and not each <= ranges_of(i) for i in reads):
        return None  # a factor of a product, read for several results
    for column in nest.loops:
        steps = [(stride(index, column), stride(index, down)) for index in reads]
        lies_well = all(across == 1 or (across == 0 and step == 0) for across, step in steps)
        lies_well = lies_well and all(step is not None for _, step in steps)
        if lies_well and any(across == 1 and step for across, step in steps):
            return column
    return None


def steps_of_part(reduce: Node) -> int:
    """How many steps down a long column make a part: a divisor of their number, if possible."""
    value, (down, *_), _ = Reduce.of(reduce)
    rows = TUPLE_PART_ROWS if is_tuple(value) else PART_ROWS
    steps, most = loop_size(down), max(1, rows // inner_steps(reduce))
    near = range(most, most * 5 // 8, -1) if steps >= 2 * most else ()
    return next((n for n in near if steps % n == 0), most)


def _scan_of(nest: Nest) -> tuple[list[Node], Node, Node, int] | None:
    """The same of a scan of elements whose results lie in rows that are far apart."""
    totals, (row, *others) = running_totals(nest), sequential_loops(nest)
    keeps = any(n.op in (Op.REDUCE, Op.STAGE) for n in nest.nodes)
    is_plain = all(e.op is Op.STORE and Store.of(e).memory.op is Op.PARAM for e in nest.effects)
    is_plain = is_plain and not keeps and all(map(has_fixed_size, nest.loops))
    if not (totals and nest.effects and is_plain) or others or len(nest.nodes) > MOST_SCANNED:
        return None
    stores = [Store.of(effect) for effect in nest.effects]
    reads = [index for value in nest.values for index in reads_of(value)]
    apart = [abs(stride(s.index, row) or 0) * s.value.dtype.itemsize for s in stores]
    for column in nest.loops:
        along = all(stride(store.index, column) == 1 for store in stores)
        if along and min(apart) >= FAR and all(stride(i, column) in (0, 1) for i in reads):
            return totals, column, row, SCANNED
    return None


def _strip_size(
    nest: Nest, totals: list[Node], column: Node, row: Node, target: Target
) -> StripSize | None:
    """Strips whose totals leave a part of the first-level cache to what is read and stored.

    They are enough for all workers, whom other results keep busy, too. None if there is no way.
    """
    copies, lanes, size = 1, lanes_of(nest, target, 2), loop_size(column)
    nbytes = sum(t.itemsize for total in totals for t in dtypes_of_totals(total, target))
    if totals[0].op is Op.AFTER:
        most = target.l1 // 3 // nbytes
        least = LEAST_STRIP // max(n.dtype.itemsize for n in (*nest.values, *totals))
    else:
        most, copies = target.l1 * 2 // 3 // nbytes, COPIES
        values = [Reduce.of(reduce).value for reduce in totals]
        nodes = len(Node.sink(values).toposort())
        while copies > 1 and (copies * BLOCK * nodes > MOST_NODES or copies * lanes > size):
            copies //= 2
        read = Node.sink(values).toposort(lambda n: n.op is not Op.STAGE)
        memories = (part for n in read if n.op in (Op.LOAD, Op.STAGE) for part in items(n))
        least = min(LEAST_STRIP // min(part.dtype.itemsize for part in memories), size)
    others = loop_size(*(r for r in nest.loops if r not in (column, row)))
    fewest = max(-(-size // most), min(-(-ITEMS // others), max(1, size // least)))
    step = copies * lanes
    strips = next((n for n in range(fewest, 2 * fewest) if size % (n * step) == 0), fewest)
    columns = -(-size // (strips * step)) * step
    return StripSize(columns, -(-size // columns), copies, lanes) if columns >= least else None
