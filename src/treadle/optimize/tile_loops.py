"""The loops of results as tiles: panels of columns and blocks of rows, as grid.

tile_loops(moves, problem, tile)  ->  LoopTiling(rows, columns): what the loops have become
pack(moves, operand, ...)         ->  an operand in the order in which these tiles read it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir.args import RangeKind
from ..ir.choices import take
from ..ir.loops import Split, loop_size, ranges_of
from ..ir.node import Node
from .choose_tile import Tile
from .layout import packed
from .moves import Moves
from .tile_problem import TileProblem

__all__ = ["LoopTiling", "in_panel", "loops_of_rows", "pack", "parts_of_panels", "tile_loops"]

MIN_ITEMS = 8
PADDED_ROWS = 1 / 64  # of an image's pixels: that many more are computed than there are

Loops = tuple[Node, ...]


@dataclass(frozen=True)
class LoopTiling:
    """What the loops over rows of tiles, over the columns of panels, and all loops have become."""

    rows: Split
    columns: Split
    splits: dict[Node, Split]


def parts_of_panels(problem: TileProblem, tile: Tile) -> int:
    """How many items of the grid read the same panel."""
    images, rows = loops_of_rows(problem, tile)
    outer_columns, columns = _panel_loops(problem.columns, tile)
    row_tiles = -(-loop_size(*rows) // tile.rows)
    panels = -(-loop_size(*columns) // tile.columns)
    items = loop_size(*problem.batch) * loop_size(*outer_columns) * panels
    return min(loop_size(*images) * row_tiles, -(-MIN_ITEMS // items))


def loops_of_rows(problem: TileProblem, tile: Tile) -> tuple[Loops, Loops]:
    """(loops outside, loops whose steps are cut into tiles)."""
    if problem.around or problem.windows is None:
        return problem.around, problem.rows_of_tiles
    # The fewest with hardly a tile more, so that results of a tile lie side by side, in one image.
    return _fewest(problem.rows, lambda size: -size % tile.rows <= size * PADDED_ROWS)


def tile_loops(moves: Moves, problem: TileProblem, tile: Tile) -> LoopTiling:
    """LoopTiling the loops around the reduction of `problem`; its own stay as they are."""
    images, rows = loops_of_rows(problem, tile)
    outer_columns, columns = _panel_loops(problem.columns, tile)
    parts = parts_of_panels(problem, tile)

    splits = moves.whole((*problem.batch, *outer_columns), "grid")
    column_split = moves.tiled(loop_size(*columns), *in_panel(tile), outer="grid")
    splits.update(moves.flatten(columns, column_split))
    # Images in equal parts: at least as many as are wanted, if there are so many.
    count = loop_size(*images)
    shared = next(n for n in range(min(parts, count), count + 1) if count % n == 0)
    image_split = moves.digits(count, (shared, "grid"), (count // shared, "loop"))
    splits.update(moves.flatten(images, image_split))
    blocks = -(-parts // shared)
    row_split = _row_split(moves, loop_size(*rows), tile, blocks)
    splits.update(moves.flatten(rows, row_split))
    take("register_tile")
    moves.replace_loops(splits)
    nest = moves.nest_with(*(r for split in splits.values() for r in split.ranges))
    # Each panel is packed once: what runs over its rows stands inside. In a tile the results of a
    # row stand together: then its few vectors stay in registers, and one element of x at a time.
    order = lambda r: (r.arg.kind != "grid", r in column_split.ranges)
    moves.order_loops(nest, tuple(sorted(nest.loops, key=order)))
    return LoopTiling(row_split, column_split, splits)


def pack(moves: Moves, operand: Node, steps: Loops, line: Split, is_shared: bool) -> Node:
    """An operand as [step][line of the tile]: tile by tile, or all of it if workers share it.

    `line` is what its rows or columns have become.
    """
    lines = tuple(r for r in line.ranges if r.arg.kind in ("unroll", "vector"))
    lanes = 1 << (loop_size(*lines[-1:]) - 1).bit_length()
    fits = lanes == loop_size(*lines[-1:]) or moves.target.has_masked_memory
    lanes = lanes if 1 < lanes <= moves.target.max_lanes and fits else 0
    around = ranges_of(operand).difference(steps, lines) if is_shared else ()
    around = tuple(sorted(around, key=lambda r: r.arg.number))
    scope = "grid" if is_shared else "shared"
    return packed(moves, operand, scope, around, steps, lines, lanes)


def in_panel(tile: Tile) -> tuple[tuple[int, RangeKind], ...]:
    """The loops of a panel's columns: its vectors, and the lanes of each."""
    return (tile.each[1], "unroll"), (tile.unit[1], "vector")


def _panel_loops(columns: Loops, tile: Tile) -> tuple[Loops, Loops]:
    """(loops outside, innermost loops that are cut into panels): the fewest that fill panels."""
    fills = lambda size: size % tile.columns == 0 or size >= 16 * tile.columns
    return _fewest(columns, fills)


def _fewest(loops: Loops, are_enough: Callable[[int], bool]) -> tuple[Loops, Loops]:
    """(loops outside, the fewest innermost ones that `are_enough` by their size, or all)."""
    for start in range(len(loops) - 1, 0, -1):
        if are_enough(loop_size(*loops[start:])):
            return loops[:start], loops[start:]
    return (), loops


def _row_split(moves: Moves, size: int, tile: Tile, blocks: int) -> Split:
    """Rows as (block, tile, row of the tile)."""
    tiles = -(-size // tile.rows)
    per_block = -(-tiles // blocks)
    blocks = -(-tiles // per_block)
    return moves.digits(size, (blocks, "grid"), (per_block, "loop"), (tile.rows, "unroll"))
