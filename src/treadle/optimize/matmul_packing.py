"""Factors of a product in the order in which its tiles read them: panels of columns, tiles of rows.

pack_columns(...)    [step][column of the panel], by each worker, or once for all
pack_rows(...)       [tile][step][row of the tile], once for all
"""

from __future__ import annotations

from ..ir.args import RangeKind, Scope, StageArg
from ..ir.choices import take
from ..ir.loops import Split, loop_size, number_of, ranges_of
from ..ir.node import Node
from ..target import Target
from .choose_tile import Tile
from .layout import kept
from .moves import Moves
from .nest import gating, reads_of, stride

__all__ = ["pack_columns", "pack_rows", "panel_numbers"]

FAR = 1 << 9  # bytes from step to step
STRIPE = 8  # steps that all tiles are packed for before the next ones


def panel_numbers(y: Node, steps: tuple[Node, ...], columns: Split) -> tuple[Node, ...]:
    """The loops that number the panels of y."""
    inside = {*steps, *(r for r in columns.ranges if r.arg.kind != "grid")}
    return tuple(sorted(ranges_of(y) - inside, key=lambda r: r.arg.number))


def pack_columns(
    moves: Moves,
    y: Node,
    steps: tuple[Node, ...],
    position: Node,
    columns: Split,
    tile: Tile,
    around: tuple[Node, ...] | None = None,
) -> Node:
    """A panel of y, [step][column of the panel], in memory of each worker.

    With `around`: the panels of all steps of these loops, if any, in memory that workers share.
    """
    lane_loops = tuple(r for r in columns.ranges if r.arg.kind in ("unroll", "vector"))
    order = sorted(steps, key=lambda r: r not in gating(y))  # conditions are computed outside
    scope: Scope = "shared" if around is None else "grid"
    around = around or ()
    turned = any(stride(index, steps[-1]) == 1 for index in reads_of(y))
    kinds = _one_vector_at_a_time(y, lane_loops)
    # Where lanes come from is worked out once for all steps, if that is any work.
    outside = [r for r in lane_loops if r in kinds and not turned]
    loops = (*outside, *order, *(r for r in lane_loops if r not in outside))
    fill = moves.whole(loops, kinds)
    if turned:
        # Rows that lie along steps are transposed, a square at a time.
        fill |= _in_squares(moves, y, steps, tile.unit[1])
    fill = moves.whole(around, "grid") | fill
    take("packed_columns" if scope == "shared" else "packed_columns_for_all")
    sizes = (*(loop_size(r) for r in around), loop_size(*steps), tile.columns)
    return kept(y, StageArg(scope, sizes), (*around, position, number_of(lane_loops)), fill)


def _one_vector_at_a_time(y: Node, lane_loops: tuple[Node, ...]) -> dict[Node, RangeKind]:
    """The kinds of loops over a panel's columns: vectors side by side are much code for a square,
    or for lanes that each come from another place, and win nothing.
    """
    *copies, lane = lane_loops
    is_short = all(stride(index, lane) == 1 for index in reads_of(y))
    return {} if is_short else dict.fromkeys(copies, "loop")


def pack_rows(
    moves: Moves,
    x: Node,
    steps: tuple[Node, ...],
    position: Node,
    rows: Split,
    tile: Tile,
    target: Target,
) -> Node:
    """All of x, [batch..][tile][step][row of the tile], in memory that workers share."""
    free = ranges_of(x)
    inner = tuple(r for r in rows.ranges if r.arg.kind == "unroll")
    batch = tuple(sorted(free - frozenset((*steps, *rows.ranges)), key=lambda r: r.arg.number))
    around = (*batch, *(r for r in rows.ranges if r.arg.kind != "unroll"))
    sizes = (*(loop_size(r) for r in around), loop_size(*steps), loop_size(*inner))
    index = (*around, position, number_of(inner))
    fill: dict[Node, Split] = {}
    lies_across = _lies_across(x, steps)
    if lies_across:
        fill = moves.whole(steps[:-1], "grid")
        fill[steps[-1]] = moves.tiled(loop_size(steps[-1]), (STRIPE, "loop"), outer="grid")
    fill |= moves.whole(around, "grid")
    fill |= moves.whole(r for r in (*steps, *inner) if r not in fill)
    side = 1 << (tile.rows - 1).bit_length()
    if side <= target.max_lanes and (side == tile.rows or target.has_masked_memory):
        # A square of steps and rows at a time, so that rows which lie along steps are transposed.
        if not lies_across:
            fill |= _in_squares(moves, x, steps, side)
        fill |= {r: moves.tiled(loop_size(r), (side, "vector")) for r in inner}
    take("packed_rows")
    if lies_across:
        take("striped_packing")
    return kept(x, StageArg("grid", sizes), index, fill)


def _lies_across(x: Node, steps: tuple[Node, ...]) -> bool:
    """Whether the rows of `x` lie side by side, each step far from the one before.

    Tile by tile a line would be fetched for a few elements, and be gone when the next tile wants
    the others: all lines a page apart share one place of the cache. So all tiles are packed for a
    few steps, then for the next ones.
    """
    places = [stride(index, steps[-1]) for index in reads_of(x)]
    is_far = all(s is not None and s * x.dtype.itemsize >= FAR for s in places)
    return is_far and loop_size(*steps) > STRIPE


def _in_squares(moves: Moves, value: Node, steps: tuple[Node, ...], side: int) -> dict[Node, Split]:
    """The innermost steps, as many as `value` is contiguous in, `side` unrolled ones at a time."""
    run: tuple[Node, ...] = ()
    for r in reversed(steps):
        if any(stride(index, r) != loop_size(*run) for index in reads_of(value)):
            break
        run = (r, *run)
    if len(run) < 2:
        return {steps[-1]: moves.tiled(loop_size(steps[-1]), (side, "unroll"))}
    return moves.flatten(run, moves.tiled(loop_size(*run), (side, "unroll")))
