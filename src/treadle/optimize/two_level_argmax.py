"""The place of an extreme by blocks: first the block that has it, then the place in there.

    REDUCE(TUPLE(x[r], r), r; MAX)
      ->  best = REDUCE(TUPLE(REDUCE(x[8*b + k], k; MAX), b), b; MAX)
          REDUCE(TUPLE(x[8*best.1 + k], 8*best.1 + k), k; MAX)

Nearly all of the time goes into the first line, where an element takes one maximum: comparisons and
choices are for blocks. Of equals the first one is in the first of their blocks. What is read twice
is not asked to equal itself, which a NaN does not. Numbers of blocks, and places in one, are as
wide as the values, if they fit. Down a column a block is a few rows. Along a row it is a few
vectors, in which each lane has elements of its own, and may win for the whole block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..dtype import DType, dtypes
from ..ir.accumulators import combined, is_in_order, is_tuple, items, tuple_of
from ..ir.loops import closed_ranges, has_fixed_size, loop_size, ranges_of
from ..ir.node import Node, item
from ..ir.op import Op
from ..ir.views import Reduce
from ..ir.widths import widest_itemsize
from ..target import Target
from .column_reduction import BLOCK, is_down_columns
from .moves import Move, Moves
from .nest import Nest, has_inner_loops, lies_along
from .records import Reduction
from .texels import loops_of_texels

__all__ = ["TwoLevelArgmax", "search_in_blocks"]

# With fewer blocks, looking through one of them takes longer than it saves: down a column, elements
# of neighbouring results are in blocks of their own, and read one by one.
LEAST_ALONG, LEAST_DOWN = 4, 32
NARROW = 2  # bytes: comparing takes longer than memory does
PLACES = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.int32, 8: dtypes.int64}


def search_in_blocks(moves: Moves, target: Target) -> None:
    """Look for the blocks of extremes first, wherever places grow along a loop."""
    while (found := next(_candidates(moves, target), None)) is not None:
        reduce, lanes = found
        moves.make(TwoLevelArgmax(moves.name_of(reduce), lanes))


def _candidates(moves: Moves, target: Target) -> Iterator[tuple[Node, int]]:
    """Reductions to places, and how many neighbours are side by side in a vector along them.

    Results that fill texels are lanes themselves: no vectors go along their rows.
    """
    for nest in moves.open_nests():
        for reduce in filter(_is_in_order, nest.reduces):
            lanes = _lanes_along(nest, reduce, target)
            if lanes > 1 and loops_of_texels(nest) & ranges_of(reduce):
                continue
            least = LEAST_DOWN if lanes == 1 else LEAST_ALONG
            if lanes and loop_size(*closed_ranges(reduce)) >= least * BLOCK * lanes:
                yield reduce, lanes


def _is_in_order(reduce: Node) -> bool:
    value, (loop, *_), arg = Reduce.of(reduce)
    if not is_tuple(value) or loop.arg.kind != "loop" or not has_fixed_size(loop):
        return False
    in_order = is_in_order(arg.op, value, closed_ranges(reduce))
    return in_order and not has_inner_loops(value, loop)


def _lanes_along(nest: Nest, reduce: Node, target: Target) -> int:
    """The lanes of a vector if elements lie along the loop, 1 if narrow ones lie across it; else 0.

    Wide ones across it take the time of memory, and those of a block that is searched come last.
    """
    both, (loop,), _ = Reduce.of(reduce)
    value, _ = items(both)
    if is_down_columns(nest, reduce):
        read = [n.dtype.itemsize for n in value.toposort() if n.op is Op.LOAD]
        return int(max(read) <= NARROW)
    if not lies_along(value, loop):
        return 0
    return min(target.vector_bytes // widest_itemsize(value.toposort()), target.max_lanes)


@dataclass(frozen=True)
class TwoLevelArgmax(Move):
    """The place of an extreme is looked for in the block that won; vectors have `lanes`."""

    word = "two_level_argmax"

    reduction: Reduction
    lanes: int

    def apply(self, moves: Moves) -> None:
        node = moves.reduce_of(self.reduction)
        reduce, size = Reduce.of(node), BLOCK * self.lanes
        value, (loop,), arg = items(reduce.value)[0], reduce.loops, reduce.arg
        count, rest = divmod(loop_size(loop), size)
        block, ((row, *lanes), within) = moves.loop(count), self._within(moves)
        most = Reduce(value.substitute({loop: block * size + within}), (row,), arg).node()
        both = tuple_of((most, block.cast(_place_type(value, count))))
        best = item(Reduce(both, (block, *lanes), arg).node(), 1)
        found = _found(reduce, best.cast(dtypes.index) * size, *self._within(moves))
        if rest:
            last = moves.loop(rest, "unroll" if self.lanes == 1 else "loop")
            end = _found(reduce, Node.index(count * size), (last,), last)
            found = combined(arg.op, found, end, in_order=True)
        moves.root = moves.root.substitute({node: found})

    def _within(self, moves: Moves) -> tuple[tuple[Node, ...], Node]:
        """Loops over a block, the one over rows or vectors first; the place in it."""
        row = moves.loop(BLOCK, "unroll")
        if self.lanes == 1:
            return (row,), row
        lane = moves.loop(self.lanes, "vector")
        return (row, lane), row * self.lanes + lane


def _found(reduce: Reduce, first: Node, loops: tuple[Node, ...], within: Node) -> Node:
    """The extreme of the steps from `first` on, and its place."""
    (value, place), (loop,) = items(reduce.value), reduce.loops
    here = value.substitute({loop: first + within})
    both = tuple_of((here, within.cast(_place_type(value, loop_size(*loops)))))
    made = Reduce(both, loops, reduce.arg).node()
    there = first + item(made, 1).cast(dtypes.index)
    return tuple_of((item(made, 0), place.substitute({loop: there})))


def _place_type(value: Node, count: int) -> DType:
    """What counts `count` places, beside such values: masks of vectors fit both if it can be so."""
    least = next(n for n, kind in PLACES.items() if count - 1 <= kind.max)
    return PLACES[max(least, value.dtype.itemsize)]
