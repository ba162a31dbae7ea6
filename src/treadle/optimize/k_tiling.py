"""Products in workgroups: a tile of the output for each, slices of k one after the other.

    out[i, j] = sum over k of x[i, k] * y[k, j]
      ->  i and j as digits (group, item, which of the item's), k as outer * depth + inner

What each item does with its slices is said in `shared_tiles` and `matrix_units`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..ir.choices import take
from ..ir.loops import TRUE, Split, free_ranges, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Load, Reduce
from .hoist_masks import hoist_masks
from .matmul_problem import MatmulProblem, factors_of
from .moves import Moves
from .nest import stride
from .records import Loop, Reduction

__all__ = [
    "TiledProduct",
    "fill_of",
    "is_contiguous",
    "tile_product",
]  # fmt: skip


@dataclass(frozen=True)
class TiledProduct:
    """The reduction once it is cut, and its factors; `outer` is None where one slice is all.

    `batch` says what became of the loops that both factors have.
    """

    reduce: Node
    x: Node
    y: Node
    inner: Node
    outer: Node | None
    batch: dict[Node, Node]


def tile_product(
    moves: Moves, problem: MatmulProblem, row: Split, column: Split, depth: int
) -> TiledProduct:
    """TiledProduct a problem's loops and put those of groups outermost, then those of items."""
    steps = problem.steps
    batch = {r: moves.loop(loop_size(r), "grid") for r in problem.batch}
    splits = {r: Split(new, (new,)) for r, new in batch.items()}
    inner = moves.loop(depth)
    total = loop_size(*steps)
    slices = -(-total // depth)
    outer = moves.loop(slices) if slices > 1 else None
    position = inner if outer is None else outer * depth + inner
    loops = (inner,) if outer is None else (outer, inner)
    whole = slices * depth == total
    step = Split(simplify(position), loops, TRUE if whole else simplify(position < total))
    splits.update(moves.flatten(problem.rows, row))
    splits.update(moves.flatten(problem.columns, column))
    splits.update(moves.flatten(steps, step))
    take("k_tiling")
    moves.replace_loops(splits)
    moves.root = hoist_masks(moves.root)
    made = {r for split in (row, column) for r in split.ranges}
    nest = next(n for n in moves.nests() if made & set(n.loops))
    moves.order_loops(nest, tuple(sorted(nest.loops, key=_order)))
    reduce = moves.reduce_of(Reduction(tuple(map(Loop.of, loops))))
    factors = factors_of(Reduce.of(reduce).value)
    assert factors is not None  # `recognise` saw the product, `hoist_masks` uncovered it
    x, y = factors
    if not free_ranges(x)[x] & frozenset(row.ranges):
        x, y = y, x
    return TiledProduct(reduce, x, y, inner, outer, batch)


def is_contiguous(factor: Node, loop: Node) -> bool:
    """Whether something that a factor is computed from is contiguous in a loop."""
    return any(n.op is Op.LOAD and stride(Load.of(n).index, loop) == 1 for n in factor.toposort())


def fill_of(value: Node, buffers: int) -> Literal["stores", "copies"]:
    """How a STAGE in so many buffers is filled: copies bring what memory holds, or 0."""
    if buffers < 2 or value.op is not Op.LOAD:
        return "stores"
    load = Load.of(value)
    return "copies" if load.memory.op is Op.PARAM and load.other.value == 0 else "stores"


def _order(loop: Node) -> int:
    """Groups outermost, then items, then what one item repeats."""
    return {"grid": 0, "local": 1}.get(loop.arg.kind, 2)
