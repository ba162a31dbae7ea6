"""argmax in two levels: first the block that holds the extreme, then its index there.

    REDUCE(joined(key(r), place(r)), r; MAX)
      ->  best = REDUCE(joined(REDUCE(key(8*b + k), k; MAX), blocks - 1 - b), b; MAX)
          REDUCE(joined(key(8*b' + k), place(8*b' + k)), k; MAX)

A key that is computed twice may be rounded twice, so that none is asked to equal another. Nearly
all of the time goes into the first line, where an element takes a key and one maximum now:
comparisons and places are for blocks. Of equal keys the first one is in the first of their blocks.
Down a column a block is a few rows; along a row it is a few vectors, in which each lane compares
the elements of its own, and may win for the whole block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.key_value import goes_on, joined, place_of, split
from ..ir.loops import closed_ranges, free_ranges, loop_size
from ..ir.node import Node, alu
from ..ir.op import Op
from ..ir.views import Reduce
from ..target import Target
from .column_reduction import BLOCK, is_down_columns
from .moves import Move, Moves
from .nest import Nest, reads_of, sequential_loops, stride
from .records import Reduction

__all__ = ["TwoLevelArgmax", "two_level_argmax"]

# With fewer blocks, looking through one of them takes longer than it saves: down a column, elements
# of neighbouring results are in blocks of their own, and read one by one.
LEAST_ALONG, LEAST_DOWN = 8, 64
FEWEST_ROWS = 8  # fewer are cut into chunks that workers share


def two_level_argmax(moves: Moves, target: Target) -> None:
    """Look for the blocks of extremes first, wherever places go on along a loop."""
    seen: set[Node] = set()
    while (found := next(_candidates(moves, target, seen), None)) is not None:
        reduce, lanes = found
        seen.add(reduce)
        seen.update(moves.make(TwoLevelArgmax(moves.name_of(reduce), lanes)))


@dataclass(frozen=True)
class TwoLevelArgmax(Move):
    """The place of an extreme is looked for in the block that won; vectors have `lanes`."""

    word = "two_level_argmax"

    reduction: Reduction
    lanes: int

    def apply(self, moves: Moves) -> set[Node]:
        """Returns the new reductions."""
        reduce, made = moves.reduce_of(self.reduction), set[Node]()
        place = _in_blocks(moves, reduce, self.lanes, made)
        moves.root = moves.root.substitute({reduce: place})
        return made


def _candidates(moves: Moves, target: Target, seen: set[Node]) -> Iterator[tuple[Node, int]]:
    """Reductions to places, and how many neighbours are side by side in a vector along them."""
    for nest in moves.nests():
        if nest.node.op is not Op.END or nest.is_scheduled or sequential_loops(nest):
            continue
        for reduce in nest.reduces():
            if reduce in seen or not _is_in_order(reduce):
                continue
            lanes = _lanes_along(nest, reduce, target)
            least = LEAST_DOWN if lanes == 1 else LEAST_ALONG
            if lanes and loop_size(*closed_ranges(reduce)) >= least * BLOCK * lanes:
                yield reduce, lanes


def _is_in_order(reduce: Node) -> bool:
    value, loops, _ = Reduce.of(reduce)
    halves = split(value)
    if len(loops) != 1 or loops[0].arg.kind != "loop" or halves is None:
        return False
    (key, place), (loop,) = halves, loops
    free = free_ranges(key)
    nested = any(n.op in (Op.REDUCE, Op.STAGE) and loop in free[n] for n in key.toposort())
    return not nested and goes_on(place, reduce.arg.op, loop)


def _lanes_along(nest: Nest, reduce: Node, target: Target) -> int:
    """The lanes of a vector if elements lie along the loop, 1 if across it; else 0."""
    if is_down_columns(nest, reduce):
        return 1
    value, (loop,), _ = Reduce.of(reduce)
    steps = [stride(index, loop) for index in reads_of(value)]
    along = 1 in steps and all(step in (0, 1) for step in steps)
    along = along and loop_size(*nest.loops) >= FEWEST_ROWS
    return min(target.lanes(dtypes.uint32), target.max_lanes) if along else 0


def _in_blocks(moves: Moves, reduce: Node, lanes: int, made: set[Node]) -> Node:
    """What `reduce` gives; the new reductions are added to `made`."""
    whole, (loop,), arg = Reduce.of(reduce)
    halves, op = split(whole), arg.op
    assert halves is not None  # it is in order
    key, _ = halves
    size = BLOCK * lanes
    blocks, rest = divmod(loop_size(loop), size)
    at = lambda node, position: node.substitute({loop: position})

    block = moves.loop(blocks)
    row, lane, within = _within(moves, lanes)
    number = block.cast(dtypes.uint32)
    number = number if op is Op.MIN else number.like(blocks - 1) - number
    most = Reduce(at(key, block * size + within), (row,), arg).node()
    best = Reduce(joined(most, number), (block, *lane), arg).node()

    first = place_of(best).cast(dtypes.index)
    first = first if op is Op.MIN else (blocks - 1) - first
    row, lane, within = _within(moves, lanes)
    result = Reduce(at(whole, first * size + within), (row, *lane), arg).node()
    made.update((most, best, result))
    if rest:
        last = moves.loop(rest, "unroll" if lanes == 1 else "loop")
        end = Reduce(at(whole, last + blocks * size), (last,), arg).node()
        made.add(end)
        result = alu(op, result, end)
    return result


def _within(moves: Moves, lanes: int) -> tuple[Node, tuple[Node, ...], Node]:
    """Loops over a block: the one over rows or vectors, that over lanes, and the place in it."""
    row = moves.loop(BLOCK, "unroll")
    if lanes == 1:
        return row, (), row
    lane = moves.loop(lanes, "vector")
    return row, (lane,), row * lanes + lane
