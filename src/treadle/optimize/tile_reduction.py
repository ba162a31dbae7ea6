"""Reductions whose operands results share: register tiles over packed operands.

    out[i, j] = epilogue(reduction over k of f(x[i, k], y[k, j]))

A product of matrices is one of them, a table of distances another. y is the operand whose loop the
output is contiguous in: each worker packs panels of it, a few vectors wide, into memory that stays
in cache (a shared STAGE), or all workers do, if it lasts from launch to launch. x is packed once
for all (a grid STAGE), so that each step of k reads one short contiguous row; a few rows are read
where they are. A tile of accumulators stays in registers for the whole of k.

In convolutions j are the pixels, i the output channels, k the window and the input channels. Images
of few pixels do not fill panels: then channels are the columns, results are stored one by one, and
the image is read where it is (windows.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ..ir.choices import take
from ..ir.loops import Split, loop_size, replace_ranges
from ..ir.node import Node
from ..ir.rules.index import simplify
from ..ir.views import Reduce
from ..target import Target
from .choose_tile import Tile
from .hoist_masks import HoistMasks
from .loop_digits import merge_all
from .loop_moves import order_steps
from .moves import Move, Moves
from .nest import Nest, reads_of, stride
from .parameters import Parameters
from .records import Loop
from .reduction_moves import SplitReduction
from .tile_cost import best_tiling, is_at_hand, is_in_place, is_scattered, with_windows
from .tile_loops import pack, parts_of_panels, tile_loops
from .tile_problem import TileProblem, lasts, operands_by_rows, recognise, splits_of
from .windows import Windows, keep_image

__all__ = ["TileReduction", "tile_reduction"]

MIN_WORK = 1 << 15


def tile_reduction(moves: Moves, nest: Nest, target: Target, parameters: Parameters) -> bool:
    """Tile `nest` if its results share operands and are enough, or cut it; says whether it did.

    What it is cut into are nests of their own, as yet without tiles.
    """
    problem = recognise(nest)
    if problem is None:
        return False
    sizes = problem.sizes
    if sizes.work < MIN_WORK or sizes.rows < 2 or sizes.columns < 4:
        return False
    problem = _with_contiguous_steps(moves, problem)
    tile, is_swapped, is_uniform = best_tiling(moves, nest, problem, parameters)
    limit = max(256, parameters.panel_bytes // (tile.columns * problem.dtype.itemsize))
    if sizes.steps > limit:
        shown = problem.swapped() if is_swapped else problem
        if _cut_reduction(moves, shown, -(-sizes.steps // limit)):
            return True
    problem = with_windows(moves, problem.swapped() if is_swapped else problem)
    number = moves.number_of(moves.now(nest))
    rows_are, columns_are = _rows(moves, problem, tile), _columns(problem, tile, is_uniform)
    moves.make(TileReduction(number, tile, is_swapped, rows_are, columns_are, is_uniform))
    return True


Rows = Literal["packed", "in place", "image", "image in place"]
Columns = Literal["each worker", "all workers"]


def _rows(moves: Moves, problem: TileProblem, tile: Tile) -> Rows:
    """Where the rows of a problem are best read from."""
    if problem.windows is not None:
        is_read = problem.windows.is_in_place and moves.target.chooses_addresses
        return "image in place" if is_read else "image"
    is_read = is_in_place(problem, tile) or is_at_hand(problem, moves.target)
    return "in place" if is_read else "packed"


def _columns(problem: TileProblem, tile: Tile, is_uniform: bool) -> Columns:
    """Who packs panels of columns: for each worker what takes no longer than to pack it once."""
    problem = (problem.with_uniform_padding() if is_uniform else None) or problem
    is_slow = is_scattered(problem.y, problem.columns, _packing_order(problem))
    is_shared = lasts(problem.y) or (parts_of_panels(problem, tile) > 1 and is_slow)
    return "all workers" if is_shared else "each worker"


def _packing_order(problem: TileProblem) -> tuple[Node, ...]:
    """The steps as a column is packed in: what lasts is packed once, however far apart it is."""
    if problem.windows is None or not lasts(problem.y):
        return problem.steps
    return problem.windows.steps


@dataclass(frozen=True)
class TileReduction(Move):
    """Results that share operands are computed in register tiles, rows and columns maybe exchanged.

    Rows are packed, or read where they are, or from an image or a copy of it, of which they are
    windows. Panels of columns are packed by each worker, or once for all. The rows of a tile have
    the same padding, or the same steps, where it `is_uniform`. Then it is scheduled.
    """

    word = "register_tile"

    nest: int
    tile: Tile
    is_swapped: bool = False
    rows: Rows = "packed"
    columns: Columns = "each worker"
    is_uniform: bool = False

    @property
    def choices(self) -> tuple[str, ...]:
        found = [self.word]
        found += ["swapped_tile"] * self.is_swapped
        found += {"packed": ["packed_rows"], "image": ["window_image"]}.get(self.rows, [])
        found += ["uniform_padding"] * self.is_uniform
        is_shared = self.columns == "all workers"
        return (*found, "packed_columns_for_all" if is_shared else "packed_columns")

    def forms(self) -> tuple[TileReduction, ...]:
        """Rows packed or in place, columns packed by one or by each."""
        is_shared = self.columns == "all workers"
        found = [replace(self, columns="each worker" if is_shared else "all workers")]
        if self.rows in ("packed", "in place"):
            found.append(replace(self, rows="in place" if self.rows == "packed" else "packed"))
        return tuple(found)

    def apply(self, moves: Moves) -> None:
        problem = recognise(moves.nest_of(self.nest))
        if problem is None:
            raise ValueError(f"{self}: the results of the nest share no operands")
        problem = problem.swapped() if self.is_swapped else problem
        if self.rows.startswith("image"):
            problem = with_windows(moves, problem)
            if problem.windows is None:
                raise ValueError(f"{self}: the rows are no windows")
        if self.is_uniform:
            problem = problem.with_uniform_padding()
            if problem is None:
                raise ValueError(f"{self}: no rows or all have padding or steps of their own")
        _apply(moves, problem, self)


def _with_contiguous_steps(moves: Moves, problem: TileProblem) -> TileProblem:
    """The problem with the step innermost in which the larger operand to pack is contiguous."""
    rows, columns = loop_size(*problem.rows), loop_size(*problem.columns)
    by_size = [problem.y, problem.x] if columns >= rows else [problem.x, problem.y]
    operand = next((f for f in by_size if not lasts(f)), None)
    if operand is None:
        return problem
    contiguous = lambda r: all(stride(index, r) == 1 for index in reads_of(operand))
    steps = tuple(sorted(problem.steps, key=contiguous))
    return replace(problem, reduce=order_steps(moves, problem.reduce, steps))


def _cut_reduction(moves: Moves, problem: TileProblem, chunks: int) -> bool:
    """Cut a loop of the reduction into chunks, each a reduction of its own.

    Evenly, if any loop can be, though it be into somewhat fewer: what is still too long is cut
    again. The last of uneven chunks has masks around its steps.
    """
    loops = sorted(problem.steps, key=loop_size, reverse=True)
    even = {loop: _even_chunks(loop_size(loop), chunks) for loop in loops}
    loop = max(loops, key=lambda r: min(even[r], chunks))
    count = even[loop]
    if 2 * count < chunks:
        count, loop = min(chunks, loop_size(loops[0])), loops[0]
    if count < 2:
        return False
    # Partial results lie as tiles hold them, and are turned once, where they are combined.
    axes = tuple(axis for axis in (problem.batch, problem.rows, problem.columns) if axis)
    names = tuple(tuple(map(Loop.of, axis)) for axis in axes)
    moves.make(SplitReduction(moves.name_of(problem.reduce), Loop.of(loop), count, names))
    moves.make(HoistMasks())
    merge_all(moves)
    return True


def _even_chunks(size: int, chunks: int) -> int:
    """How many equal chunks: as many or up to twice as many, or the most below."""
    even = [n for n in range(1, min(size, 2 * chunks) + 1) if size % n == 0]
    return next((n for n in even if n >= chunks), even[-1])


def _apply(moves: Moves, problem: TileProblem, move: TileReduction) -> None:
    tile, packing_order = move.tile, _packing_order(problem)
    spans = {} if move.rows == "image in place" else problem.spans
    ahead = tuple(spans) if problem.windows is None else ()
    if problem.windows is not None:
        problem = _with_image(moves, problem, problem.windows, move)
    steps, is_packed = problem.steps, move.rows == "packed"
    whole = tuple(step for step in steps if step not in ahead)
    flat = moves.loop(loop_size(*whole)) if len(whole) > 1 and is_packed else None
    name = moves.name_of(problem.reduce)  # by its own loops, which stay as they are
    tiling = tile_loops(moves, problem, tile)
    reduce = moves.reduce_of(name)
    x, y = operands_by_rows(reduce, tiling.rows)
    new = {y: pack(moves, y, packing_order, tiling.columns, move.columns == "all workers")}
    if is_packed:
        new[x] = pack(moves, x, steps, tiling.rows, True)
    value = Reduce.of(reduce).value.substitute(new)
    if flat is not None:
        digits = moves.flatten(whole, Split(flat, (flat,)))
        value = simplify(value.substitute({r: s.expr for r, s in digits.items()}))
        whole = (flat,)
    tiled = Reduce(value, (*ahead, *whole), reduce.arg).node()
    left = splits_of(spans, tiling.splits)
    if left:
        take("zero_steps" if problem.windows is None else "skip_padding")
        tiled = simplify(replace_ranges(tiled, left))
    moves.root = moves.root.substitute({reduce: tiled})


def _with_image(
    moves: Moves, problem: TileProblem, windows: Windows, move: TileReduction
) -> TileProblem:
    """The problem with its rows read from the image, or from one copy of it."""
    x, tile = problem.x, move.tile
    if move.rows == "image":
        x = keep_image(moves, windows, problem.rows_of_tiles, tile.rows - 1, tile.unit[1])
    old = problem.reduce
    value = Reduce.of(old).value.substitute({problem.x: x})
    reduce = Reduce(value, windows.steps, old.arg).node()
    moves.root = moves.root.substitute({old: reduce})
    return replace(problem, reduce=reduce, x=x)
