"""Nests whose results share operands: their reduction, its operands, and whose loops are whose.

recognise(nest)  ->  TileProblem(reduce, x, y, batch, rows, columns), or None

    out[i, j] = epilogue(reduction over k of f(x[i, k], y[k, j]))

All results of a row read the same of x, all of a column the same of y: a tile of both loads each
element once for several results. f may be a product, as of matrices, or a difference, a comparison.

Steps that change nothing for all rows of a tile are left out: in a 5x5 window on 28 rows that is
every 23rd, beyond the borders of the image. An infinity or NaN among the weights does not meet
those zeros either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..dtype import DType
from ..ir.evaluate import evaluate
from ..ir.loops import Split, closed_ranges, free_ranges, has_fixed_size, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import ALU, TRANSCENDENTAL, Op
from ..ir.views import Load, Reduce
from .choose_tile import Sizes
from .masked_bounds import Span, needed, span_of
from .nest import Nest, reads_of, stride
from .windows import Windows

__all__ = [
    "TileProblem", "lasts", "operands_by_rows", "problem_of", "recognise", "rows_with_own_steps",
    "share_of_steps", "spans_of", "splits_of",
]  # fmt: skip

MAX_INTERLEAVED = 4
PASSING = 3  # registers for a difference, say, its negative and a mask
WORTH = 1 / 128  # of all steps: fewer are not worth a loop whose size varies
MOST_PLACES = 64  # that rows with steps of their own have together


@dataclass(frozen=True)
class TileProblem:
    """Such a nest: x depends on `rows`, y on `columns`, both may depend on `batch` and steps."""

    reduce: Node
    x: Node
    y: Node
    batch: tuple[Node, ...]
    rows: tuple[Node, ...]
    columns: tuple[Node, ...]
    windows: Windows | None = None
    around: tuple[Node, ...] = ()  # rows that differ from tile to tile alone
    is_turned: bool = False  # whether results lie along rows

    @property
    def steps(self) -> tuple[Node, ...]:
        return closed_ranges(self.reduce)

    @property
    def dtype(self) -> DType:
        """The widest one of its operands and its results, whose vectors have the fewest lanes."""
        kinds = (part.dtype for part in (self.reduce, self.x, self.y))
        return max(kinds, key=lambda dtype: dtype.itemsize)

    @property
    def is_product(self) -> bool:
        """Whether it is a sum of products of its operands."""
        value, _, arg = Reduce.of(self.reduce)
        return arg.op is Op.ADD and value.op is Op.MUL and {*value.src} == {self.x, self.y}

    @property
    def sizes(self) -> Sizes:
        """Rows around tiles count as a batch of their own."""
        loops = (self.rows_of_tiles, self.columns, self.steps, (*self.batch, *self.around))
        passing = 0 if self.is_product else PASSING
        sizes = (loop_size(*each) for each in loops)
        return Sizes(*sizes, passing=passing, is_turned=self.is_turned)

    @property
    def rows_of_tiles(self) -> tuple[Node, ...]:
        """The rows that are cut into tiles."""
        return tuple(r for r in self.rows if r not in self.around)

    def swapped(self) -> TileProblem:
        """The same with rows as columns."""
        return replace(self, x=self.y, y=self.x, rows=self.columns, columns=self.rows)

    def with_uniform_padding(self) -> TileProblem | None:
        """The same with tiles of rows that windows do not move along, if there are such.

        Not where an image is read in place: padding is a row of zeros there. Where rows are no
        windows, those that have steps of their own are in tiles of their own.
        """
        if self.windows is None:
            around = rows_with_own_steps(self.reduce, self.rows)
        elif self.windows.is_in_place:
            return None
        else:
            paired = {pair.row for pair in self.windows.pairs.values()}
            around = tuple(r for r in self.rows if r in paired)
        return replace(self, around=around) if 0 < len(around) < len(self.rows) else None

    @property
    def spans(self) -> dict[Node, Span]:
        """The steps that rows leave: those around tiles, or enough of those of windows."""
        if self.windows is None:
            return spans_of(self.reduce, self.around)
        found = spans_of(self.reduce, self.rows).items()
        return {step: span for step, span in found if share_of_steps({step: span}) <= 1 - WORTH}


def recognise(nest: Nest) -> TileProblem | None:
    """The problem that a nest is, or None."""
    reduces = nest.reduces
    is_one = len(reduces) == len(nest.stores()) == 1 and ranges_of(*reduces) == {*nest.loops}
    return problem_of(nest, *reduces) if is_one else None


def problem_of(nest: Nest, reduce: Node, column: Node | None = None) -> TileProblem | None:
    """The problem that a reduction is, `column` or the best loop as columns; none beside scans."""
    shared, loops = operands_of(reduce), frozenset(nest.loops)
    if shared is None or nest.has_scans:
        return None
    column = _column(nest, shared) if column is None else column
    pick = lambda wanted: tuple(r for r in nest.loops if r in wanted)
    for x, y in (shared, shared[::-1]):
        of_x, of_y = ranges_of(x) & loops, ranges_of(y) & loops
        if of_x | of_y == loops and column in of_y - of_x:
            batch, rows, columns = map(pick, (of_x & of_y, of_x - of_y, of_y - of_x))
            return TileProblem(reduce, x, y, batch, rows, columns)
    return None


def _column(nest: Nest, shared: tuple[Node, Node]) -> Node | None:
    """The loop that lanes run over: the one that the result is contiguous in.

    A few steps of another one may lie between, such as the places between two strides of a
    convolution, where only the other operand depends on them.
    """
    steps = {stride(nest.stores()[0], r): r for r in nest.loops}
    inner = steps.get(1)
    if inner is None or loop_size(inner) > MAX_INTERLEAVED:
        return inner
    outer = steps.get(loop_size(inner))
    if outer is None:
        return inner
    for x, y in (shared, shared[::-1]):
        apart = inner not in ranges_of(y) and outer not in ranges_of(x)
        if apart and any(stride(index, outer) == 1 for index in reads_of(y)):
            return outer
    return inner


def operands_of(reduce: Node) -> tuple[Node, Node] | None:
    """Both operands of a reduction that results share; None if there are not two of them.

    They are the largest parts of its value that do not depend on all loops of the results. What is
    made of the two is computed for each result, so functions that take long are none of that. So is
    what is made of loops alone, such as the conditions of a mask, where others are read.
    """
    value, results = Reduce.of(reduce).value, ranges_of(reduce)
    free = free_ranges(value)
    is_own = lambda node: results <= free[node]
    order = value.toposort(is_own)
    if not all(n.op in ALU - TRANSCENDENTAL for n in order if is_own(n)):
        return None
    parts = [n for n in order if not is_own(n) and free[n] & results and n.dtype.kind != "index"]
    read = [n for n in parts if any(below.op in (Op.LOAD, Op.STAGE) for below in n.toposort())]
    found = read if len(read) == 2 else parts
    return (found[0], found[1]) if len(found) == 2 else None


def operands_by_rows(reduce: Node, rows: Split) -> tuple[Node, Node]:
    """Both operands of a reduction that has been tiled; the first one is that of `rows`."""
    shared = operands_of(reduce)
    assert shared is not None  # tiles leave them as they are
    one, other = shared
    return (other, one) if ranges_of(one).isdisjoint(rows.ranges) else (one, other)


def lasts(operand: Node) -> bool:
    """Whether most launches find the same values in `operand`: then packing it is done once.

    Not where its place is a variable: each round of a loop reads another row of a sequence.
    """
    nodes = operand.toposort()
    memory = [Load.of(n).memory for n in nodes if n.op is Op.LOAD]
    is_steady = not any(n.op is Op.VARIABLE for n in nodes)
    return bool(memory) and is_steady and all(m.op is Op.PARAM and m.arg.lasts for m in memory)


# -- steps that change nothing ---------------------------------------------------------------------


def rows_with_own_steps(reduce: Node, rows: tuple[Node, ...]) -> tuple[Node, ...]:
    """The rows that say which steps of `reduce` change nothing, if they are few.

        x[r, c, t] = w[c, 2*t + r] if 2*t + r >= 1 else 0     steps t of row r: from (2 - r) // 2

    The places between two strides of a convolution have windows of their own in the gradient to its
    image, of different lengths, which are padded to one. In tiles of their own, each has its steps.
    """
    found = frozenset[Node]().union(*(s.loops for s in spans_of(reduce, rows).values()))
    around = tuple(r for r in rows if r in found)
    is_fixed = all(map(has_fixed_size, (*around, *closed_ranges(reduce))))
    return around if is_fixed and loop_size(*around) <= MOST_PLACES else ()


def spans_of(reduce: Node, around: tuple[Node, ...]) -> dict[Node, Span]:
    """The steps that are left of each loop, as `around` says, and no number of a launch."""
    value, steps, arg = Reduce.of(reduce)
    conditions = [c for c in needed(value, arg.op)
                  if not any(n.op is Op.VARIABLE for n in c.toposort())]  # fmt: skip
    spans = {step: span_of(conditions, step, frozenset(around)) for step in steps}
    return {step: span for step, span in spans.items() if span.loops}


def share_of_steps(spans: dict[Node, Span]) -> float:
    """The share of all steps that is left, over all places."""
    share = 1.0
    for loops in dict.fromkeys(span.loops for span in spans.values()):
        grid = np.meshgrid(*(np.arange(loop_size(r)) for r in loops), indexing="ij")
        known, left = dict(zip(loops, grid, strict=True)), np.ones(())
        for step, span in spans.items():
            if span.loops == loops:
                size = loop_size(step)
                ends = (np.clip(evaluate(n, known), 0, size) for n in (span.end, span.begin))
                left = left * np.maximum(np.subtract(*ends), 0) / size
        share *= float(left.mean())
    return share


def splits_of(spans: dict[Node, Span], rows: dict[Node, Split]) -> dict[Node, Split]:
    """Loops over the steps that are left to a tile, where `rows` have become other loops.

    Several rows of a tile have all steps that any of them has.
    """
    replaced, found = {r: split.expr for r, split in rows.items()}, {}
    for step, span in spans.items():
        here = span.substitute(replaced)
        tile = {r: (r.like(0), r.like(loop_size(r) - 1)) for r in here.loops}
        here = here.over({r: ends for r, ends in tile.items() if r.arg.kind == "unroll"})
        if here is not None and here.loops:
            found[step] = here.loop(step, 1)
    return found
