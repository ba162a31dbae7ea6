"""Down columns: a row of totals in the nearest cache takes several rows at a time.

    out[c] = sum of x[r, c] over r
      ->  totals[c] = x[0, c] + ... + x[7, c] for all c of a strip
          for each 8 rows that follow: for all c: totals[c] += x[r, c] + ... + x[r + 7, c]
          out[c] = totals[c]

A scan is a reduction whose partial results are stored: four rows at a time go on from the totals,
one after the other. Memory is read and written as it lies, in a few streams. With columns outside
and rows inside, a column's total is a register, but each step down meets another page, and
processors fetch ahead along rows.

Several reductions of one nest over the same rows have a row of totals each; a tuple has one for
each of its items (ir/accumulators.py). The first block has the rows that fill none, so that no
other is masked. Long columns are cut into parts before (`steps_of_part`): what is added one after
the other decides how large errors become. Totals of parts, and those of scans, are float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from ..dtype import DType
from ..ir.accumulators import combined, is_in_order, is_tuple, items, tuple_of
from ..ir.loops import closed_ranges, loop_size, ranges_of
from ..ir.node import Node, alu
from ..ir.op import Op
from ..ir.views import After, Reduce, Register, Update, operands
from ..target import Target
from .column_strips import LEAST_STRIP, Strips, StripSize, strip_size
from .lane_width import lanes_of
from .moves import Move, Moves
from .nest import Nest, reads_of, running_total, sequential_loops, stride
from .records import Loop

__all__ = [
    "BLOCK",
    "ColumnReduction",
    "RowScan",
    "dtype_of_total",
    "is_down_columns",
    "is_unrolled",
    "reduce_columns",
    "steps_of_part",
]

Totals = list[Node | None]  # of each reduction, a number or a tuple; None before the first row
Added = tuple[list[Node], list[Node]]  # totals behind some rows, and what these rows store
Add = Callable[[Totals, Node, int], Added]  # from totals, the first row, how many rows

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
        strips = Strips(moves, moves.range_of(self.column), self.strips)
        self._schedule(nest, _Totals(moves, strips, row, self.rows))

    def _schedule(self, nest: Nest, totals: _Totals) -> None:
        totals.reduce(nest, [n for n in nest.reduces() if not is_unrolled(n)])


@dataclass(frozen=True)
class RowScan(ColumnReduction):
    """The same of a scan, whose partial results are stored."""

    word = "row_scan"

    def _schedule(self, nest: Nest, totals: _Totals) -> None:
        scan = running_total(nest)
        if scan is None:
            raise ValueError(f"{self}: the nest is no scan")
        totals.scan(nest, scan)


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
    """Those of the totals of a REDUCE, which may be of a tuple."""
    if is_tuple(reduce):
        return [part.dtype for part in items(reduce)]
    return [dtype_of_total(reduce, target)]


def dtype_of_total(node: Node, target: Target) -> DType:
    """That of the total of a REDUCE or of a scan: it is wider of results of parts."""
    if node.op is Op.REDUCE:
        is_wide = node.arg.op is Op.ADD and Reduce.of(node).value.op is Op.STAGE
    else:
        is_wide = After.of(node).value.arg.is_wide
    return target.dtype_of_total(node.dtype) if is_wide else node.dtype


class _Totals:
    """The schedule of one nest."""

    def __init__(self, moves: Moves, strips: Strips, row: Node, rows: int) -> None:
        self.moves, self.strips, self.row, self.rows = moves, strips, row, rows
        self.target = moves.target
        self.memories: list[list[Node]] = []

    def reduce(self, nest: Nest, reduces: list[Node]) -> None:
        """Fill rows of totals for `reduces`, and read them where those were."""

        def add(before: Totals, begin: Node, rows: int) -> Added:
            pairs = zip(reduces, before, strict=True)
            return [self._added(r, b, self._block(r, begin, rows)) for r, b in pairs], []

        self._carry(add, [None] * len(reduces))
        new: dict[Node, Node] = {}
        for reduce, total in zip(reduces, self._held(), strict=True):
            pairs = zip(items(total), items(reduce), strict=True)
            new[reduce] = tuple_of([held.cast(part.dtype) for held, part in pairs])
        self.moves.root = self.moves.root.substitute(new)
        column = {self.strips.column: self.strips.split()}
        self.moves.replace_loops(column | self.strips.as_grid(nest, self.row))

    def scan(self, nest: Nest, scan: Node) -> None:
        """Fill a row of totals for `scan`, and store on the way what is made of it in each row."""
        register, update = operands(scan)
        value, dtype = Update.of(update).value, dtype_of_total(scan, self.target)

        def add(before: Totals, begin: Node, rows: int) -> Added:
            stores: list[Node] = []
            (total,) = before
            assert total is not None
            for n in range(rows):
                at = {self.row: begin + n}
                total = alu(update.arg, total, value.substitute(at).cast(dtype))
                done = {scan: total.cast(scan.dtype)}
                stores += [effect.substitute(done).substitute(at) for effect in nest.effects]
            return [total], stores

        start, grid = Register.of(register).start.cast(dtype), self.strips.as_grid(nest, self.row)
        around = (*(r for split in grid.values() for r in split.ranges), *self.strips.around)
        end = self._carry(add, [start], around)
        self.moves.root = self.moves.root.substitute({nest.node: end})
        self.moves.replace_loops(grid)

    def _carry(self, add: Add, start: Totals, around: tuple[Node, ...] = ()) -> Node:
        """The END of a pass over all rows: `add` gives totals behind some, and their stores."""
        blocks, rest = divmod(loop_size(self.row), self.rows)
        first: list[Node] = []
        if rest:
            begun, first = add(start, Node.index(0), rest)
            start = [*begun]
        totals, stores = add(start, Node.index(rest), self.rows)
        self.memories = [[self.strips.memory(p.dtype) for p in items(total)] for total in totals]
        self._keep(totals, [*first, *stores], ())
        step = self.moves.loop(blocks - 1)
        totals, stores = add([*self._held()], rest + (step + 1) * self.rows, self.rows)
        return self._keep(totals, stores, (*around, step))

    def _held(self) -> list[Node]:
        """The totals in memory."""
        return [tuple_of([*map(self.strips.held, memories)]) for memories in self.memories]

    def _keep(self, totals: list[Node], stores: list[Node], around: tuple[Node, ...]) -> Node:
        """The END of `stores` and of those of `totals`."""
        pairs = zip(chain(*self.memories), chain(*map(items, totals)), strict=True)
        kept = [self.strips.set(memory, total) for memory, total in pairs]
        end = self.strips.over_columns([*stores, *kept], around)
        self.memories = [[After(m, (end,)).node() for m in memories] for memories in self.memories]
        return end

    def _added(self, reduce: Node, before: Node | None, after: Node) -> Node:
        """Two parts of the rows, the first ones first."""
        if before is None:
            return after
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
