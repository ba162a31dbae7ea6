"""Reductions down columns: a row of totals in the first-level cache takes several rows at a time.

    out[c] = sum of x[r, c] over r
      ->  totals[c] = x[0, c] + ... + x[7, c] for all c of a strip
          for each 8 rows that follow: for all c: totals[c] += x[r, c] + ... + x[r + 7, c]
          out[c] = totals[c]

Memory is read as it lies, in a few streams. With columns outside and rows inside, a column's total
is a register, but each step down meets another page, and processors fetch ahead along rows. Several
reductions of one nest over the same rows have a row of totals each; a tuple has one for each of its
items (ir/accumulators.py). The first block has the rows that fill none, so that no other is
masked. Long columns are cut into parts before (`steps_of_part`): what is added one after the other
decides how large errors become. The totals of parts are added in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtype import DType, dtypes
from ..ir.accumulators import combined, is_in_order, is_tuple, items, tuple_of
from ..ir.loops import closed_ranges, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import After, Reduce
from ..target import Target
from .column_strips import LEAST_STRIP, Strips, StripSize, strip_size
from .lane_width import lanes_of
from .moves import Move, Moves
from .nest import Nest, reads_of, sequential_loops, stride
from .records import Loop

__all__ = [
    "BLOCK",
    "ColumnReduction",
    "is_down_columns",
    "is_unrolled",
    "reduce_columns",
    "steps_of_part",
]

BLOCK = 8  # rows that are read side by side: as many streams as processors follow
PART_ROWS = 128  # rows of a part: sums of 8 rows, 16 of which are added one after the other
TUPLE_PART_ROWS = 512  # of extremes: nothing is rounded, and a part's results are twice as wide
COPIES, MOST_NODES = 4, 1 << 10  # vectors side by side, if what they compute is not too much


def is_down_columns(nest: Nest, reduce: Node) -> bool:
    """Whether `reduce` reads rows that lie side by side for its results, one at each step."""
    return _column_of(nest, reduce) is not None


def _column_of(nest: Nest, reduce: Node) -> Node | None:
    """The loop of the results that goes along the rows."""
    value, loops, _ = Reduce.of(reduce)
    if len(loops) != 1 or ranges_of(reduce) != frozenset(nest.loops):
        return None
    (down,), reads = loops, reads_of(value)
    inner = value.toposort(lambda n: n.op is not Op.STAGE)
    if any(n.op is Op.REDUCE and down in ranges_of(n) and not is_unrolled(n) for n in inner):
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


def _memories(reduce: Node) -> list[Node]:
    nodes = Reduce.of(reduce).value.toposort(lambda n: n.op is not Op.STAGE)
    return [n for n in nodes if n.op in (Op.LOAD, Op.STAGE)]


def is_unrolled(reduce: Node) -> bool:
    """Whether no loop is left of a reduction."""
    return all(r.arg.kind in ("unroll", "vector") for r in closed_ranges(reduce))


def _rows_of_step(reduce: Node) -> int:
    """How many rows a step of `reduce` reads already."""
    value, (loop, *_), _ = Reduce.of(reduce)
    inner = [n for n in value.toposort() if n.op is Op.REDUCE and loop in ranges_of(n)]
    return max((loop_size(*closed_ranges(n)) for n in inner), default=1)


def steps_of_part(reduce: Node) -> int:
    """How many steps down a long column make a part: a divisor of their number, if possible."""
    value, (down, *_), _ = Reduce.of(reduce)
    rows = TUPLE_PART_ROWS if is_tuple(value) else PART_ROWS
    steps, most = loop_size(down), max(1, rows // _rows_of_step(reduce))
    near = range(most, most * 5 // 8, -1) if steps >= 2 * most else ()
    return next((n for n in near if steps % n == 0), most)


def reduce_columns(moves: Moves, nest: Nest, target: Target) -> bool:
    """Schedule `nest`, if it is made of reductions down the same columns. Whether it is."""
    reduces = [n for n in nest.reduces() if not is_unrolled(n)]
    if not reduces or any(r.arg.kind != "loop" for r in nest.loops) or sequential_loops(nest):
        return False
    columns = {_column_of(nest, reduce) for reduce in reduces}
    steps = {closed_ranges(reduce) for reduce in reduces}
    if len(columns) != 1 or len(steps) != 1:
        return False
    (column,), ((row, *_),) = columns, steps
    if column is None or row.arg.kind != "loop":
        return False
    if any(n.op is Op.STAGE and n.arg.scope == "shared" for n in nest.nodes()):
        return False
    rows = max(1, BLOCK // max(map(_rows_of_step, reduces)))
    if loop_size(row) < 2 * rows:
        return False
    size = _strip_size(nest, reduces, column, target)
    if size is None:
        return False
    moves.make(ColumnReduction(moves.number_of(nest), Loop.of(column), Loop.of(row), size, rows))
    return True


@dataclass(frozen=True)
class ColumnReduction(Move):
    """The reductions of a nest down one `column` take so many `rows` at a time.

    A strip of columns has its totals in a row of memory. Then the nest is scheduled.
    """

    word = "column_reduction"

    nest: int
    column: Loop
    row: Loop
    strips: StripSize
    rows: int

    def apply(self, moves: Moves) -> None:
        nest, row = moves.nest_of(self.nest), moves.range_of(self.row)
        reduces = [n for n in nest.reduces() if not is_unrolled(n)]
        strips = Strips(moves, moves.range_of(self.column), self.strips)
        _Totals(moves, strips, row, self.rows).schedule(nest, reduces)


def _strip_size(nest: Nest, reduces: list[Node], column: Node, target: Target) -> StripSize | None:
    """Strips whose totals leave a part of the first-level cache to what is read."""
    nodes = len(Node.sink([Reduce.of(reduce).value for reduce in reduces]).toposort())
    copies, lanes, columns = COPIES, lanes_of(nest, target, 2), loop_size(column)
    while copies > 1 and (copies * BLOCK * nodes > MOST_NODES or copies * lanes > columns):
        copies //= 2
    totals = sum(t.itemsize for reduce in reduces for t in _dtypes_of_totals(reduce, target))
    memories = (part for reduce in reduces for n in _memories(reduce) for part in items(n))
    narrow = min(part.dtype.itemsize for part in memories)
    return strip_size(
        columns,
        others=loop_size(*(r for r in nest.loops if r is not column)),
        most=target.l1 * 2 // 3 // totals,
        least=min(LEAST_STRIP // narrow, columns),
        copies=copies,
        lanes=lanes,
    )


def _dtypes_of_totals(reduce: Node, target: Target) -> list[DType]:
    """Those of the totals that blocks of rows are added to: of results of parts they are wider."""
    is_sum = reduce.arg.op is Op.ADD and reduce.dtype is dtypes.float32
    is_of_parts = is_sum and Reduce.of(reduce).value.op is Op.STAGE
    is_wide = is_of_parts and target.is_native(dtypes.float64)
    return [dtypes.float64] if is_wide else [part.dtype for part in items(reduce)]


class _Totals:
    """The schedule of one nest."""

    def __init__(self, moves: Moves, strips: Strips, row: Node, rows: int) -> None:
        self.moves, self.strips, self.row, self.rows = moves, strips, row, rows
        self.target = moves.target

    def schedule(self, nest: Nest, reduces: list[Node]) -> None:
        """Fill rows of totals for `reduces`, and read them where those were."""
        blocks, rest = divmod(loop_size(self.row), self.rows)
        begun = [self._begun(reduce, rest) for reduce in reduces]
        memories = [[self.strips.memory(p.dtype) for p in items(total)] for total in begun]
        memories = self._stored(memories, begun, ())
        step = self.moves.loop(blocks - 1)
        added = [
            self._added(reduce, self._held(totals), rest + (step + 1) * self.rows)
            for reduce, totals in zip(reduces, memories, strict=True)
        ]
        memories = self._stored(memories, added, (step,))
        new: dict[Node, Node] = {}
        for reduce, totals in zip(reduces, memories, strict=True):
            held = zip(items(self._held(totals)), items(reduce), strict=True)
            new[reduce] = tuple_of([total.cast(part.dtype) for total, part in held])
        self.moves.root = self.moves.root.substitute(new)
        self.moves.replace_loops(
            {self.strips.column: self.strips.split(), **self.strips.as_grid(nest)}
        )

    def _begun(self, reduce: Node, rest: int) -> Node:
        """What the first block of rows has in a column, and `rest` rows before it."""
        total = self._block(reduce, Node.index(rest), self.rows)
        if not rest:
            return total
        return self._combined(reduce, self._block(reduce, Node.index(0), rest), total)

    def _added(self, reduce: Node, total: Node, begin: Node) -> Node:
        """`total` and the block of rows that begins there."""
        return self._combined(reduce, total, self._block(reduce, begin, self.rows))

    def _combined(self, reduce: Node, before: Node, after: Node) -> Node:
        value, op = Reduce.of(reduce).value, reduce.arg.op
        return combined(op, before, after, is_in_order(op, value, (self.row,)))

    def _block(self, reduce: Node, begin: Node, rows: int) -> Node:
        """What so many rows have, as a tree."""
        value, _, arg = Reduce.of(reduce)
        if rows == 1:
            total = value.substitute({self.row: begin})
        else:
            inner = self.moves.loop(rows, "unroll")
            total = Reduce(value.substitute({self.row: begin + inner}), (inner,), arg).node()
        pairs = zip(items(total), _dtypes_of_totals(reduce, self.target), strict=True)
        return tuple_of([part.cast(wide) for part, wide in pairs])

    def _held(self, memories: list[Node]) -> Node:
        return tuple_of([*map(self.strips.held, memories)])

    def _stored(
        self, memories: list[list[Node]], values: list[Node], around: tuple[Node, ...]
    ) -> list[list[Node]]:
        """The memories after `values` are stored there."""
        stores = [
            self.strips.set(memory, part)
            for totals, value in zip(memories, values, strict=True)
            for memory, part in zip(totals, items(value), strict=True)
        ]
        end = self.strips.over_columns(stores, around)
        return [[After(memory, (end,)).node() for memory in totals] for totals in memories]
