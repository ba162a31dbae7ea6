"""Matmul-like nests: register tiles over packed operands.

    out[i, j] = epilogue(sum over k of x[i, k] * y[k, j])

y is the factor whose loop the output is contiguous in: its panels of a few vectors' width are
packed by each worker into memory that stays in cache (a shared STAGE). x is packed once for all
workers (a grid STAGE), so that each step of k reads one short contiguous row; a few rows are read
where they are. A tile of accumulators stays in registers for the whole of k. Convolutions fit the
same form: j are the pixels, i the output channels, k the window and the input channels. Images of
few pixels do not fill panels: then the channels are the columns, results are stored one by one, and
the image is read where it is (windows.py). A factor that lasts from launch to launch is packed by
all workers.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.loops import Split, closed_ranges, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Reduce, with_loops
from ..target import Target
from .choose_tile import Tile, best_tiling, is_at_hand, is_in_place, is_scattered
from .hoist_masks import hoist_masks
from .matmul_packing import flat_position, pack_columns, pack_rows, panel_numbers
from .matmul_problem import MatmulProblem, factors_of, lasts, recognise, uses
from .matmul_tiling import tile_loops
from .moves import Moves
from .nest import Nest, reads_of, stride
from .parameters import Parameters
from .skip_padding import skip_padding
from .windows import Windows, keep_image

__all__ = ["tile_matmul"]

MIN_WORK = 1 << 15


def tile_matmul(moves: Moves, nest: Nest, target: Target, parameters: Parameters) -> bool:
    """Tile `nest` if it is matmul-like and large enough, or cut it; says whether it did.

    What it is cut into are nests of their own, as yet without tiles.
    """
    problem = recognise(nest)
    if problem is None:
        return False
    rows, columns, steps = (loop_size(*r) for r in (problem.rows, problem.columns, problem.steps))
    if rows * columns * steps * loop_size(*problem.batch) < MIN_WORK or rows < 2 or columns < 4:
        return False
    problem = _with_contiguous_steps(moves, problem)
    problem, tile = best_tiling(moves, nest, problem, target, parameters)
    limit = max(256, parameters.panel_bytes // (tile.columns * problem.reduce.dtype.itemsize))
    if steps > limit and _cut_reduction(moves, problem, -(-steps // limit)):
        return True
    _apply(moves, problem, tile, target)
    return True


def _with_contiguous_steps(moves: Moves, problem: MatmulProblem) -> MatmulProblem:
    """The problem with the step innermost in which the larger factor to pack is contiguous."""
    rows, columns = loop_size(*problem.rows), loop_size(*problem.columns)
    by_size = [problem.y, problem.x] if columns >= rows else [problem.x, problem.y]
    factor = next((f for f in by_size if not lasts(f)), None)
    if factor is None or len(problem.steps) == 1:
        return problem
    contiguous = lambda r: all(stride(index, r) == 1 for index in reads_of(factor))
    steps = tuple(sorted(problem.steps, key=contiguous))
    if steps == problem.steps:
        return problem
    old = problem.reduce
    reduce = with_loops(old, steps)
    moves.root = moves.root.substitute({old: reduce})
    return replace(problem, reduce=reduce)


def _cut_reduction(moves: Moves, problem: MatmulProblem, chunks: int) -> bool:
    """Cut the longest loop of the reduction into chunks, each a matmul of its own."""
    loop = max(problem.steps, key=loop_size)
    size = loop_size(loop)
    chunks = min(chunks, size)
    if chunks < 2:
        return False
    even = next(n for n in range(chunks, size + 1) if size % n == 0)
    # Partial results lie as tiles hold them, and are turned once, where they are combined.
    axes = tuple(axis for axis in (problem.batch, problem.rows, problem.columns) if axis)
    moves.split_reduction(problem.reduce, loop, even if even <= 2 * chunks else chunks, axes)
    moves.root = hoist_masks(moves.root)
    moves.merge_all()
    return True


def _apply(moves: Moves, problem: MatmulProblem, tile: Tile, target: Target) -> None:
    packing_order = problem.steps
    if problem.windows is not None:
        problem = _with_image(moves, problem, problem.windows, tile, target)
        if lasts(problem.y):  # packed once, however far apart its elements are in this order
            packing_order = problem.steps
    steps = problem.steps
    in_place = is_in_place(problem, tile) or is_at_hand(problem, target)
    is_packed = problem.windows is None and not in_place
    flat = moves.loop(loop_size(*steps)) if len(steps) > 1 and is_packed else None
    tiling = tile_loops(moves, problem, tile)
    reduce = next(
        n for n in moves.root.toposort() if n.op is Op.REDUCE and closed_ranges(n) == steps
    )  # loops of the reduction itself are still as they were
    factors = factors_of(Reduce.of(reduce).value)
    assert factors is not None
    x, y = factors if uses(factors[0], tiling.rows.ranges) else factors[::-1]
    position = flat_position(packing_order)
    # What takes long to pack is not packed by each worker for itself.
    is_slow = is_scattered(problem.y, problem.columns, packing_order)
    is_shared = lasts(y) or (tiling.parts > 1 and is_slow)
    around = panel_numbers(y, steps, tiling.columns) if is_shared else None
    packed_y = pack_columns(moves, y, packing_order, position, tiling.columns, tile, around)
    if is_packed:
        x = pack_rows(moves, x, steps, position, tiling.rows, tile, target)
    if flat is None:
        new = Node(Op.REDUCE, reduce.dtype, (x * packed_y, *steps), reduce.arg)
        if problem.windows is not None and x.op is Op.STAGE:
            new = skip_padding(new, problem.windows, tiling.outermost, tiling.splits)
        moves.root = moves.root.substitute({reduce: new})
        return
    digits = moves.flatten(steps, Split(flat, (flat,)))
    body = simplify((x * packed_y).substitute({r: s.expr for r, s in digits.items()}))
    new = Node(Op.REDUCE, reduce.dtype, (body, flat), reduce.arg)
    moves.root = moves.root.substitute({reduce: new})


def _with_image(
    moves: Moves, problem: MatmulProblem, windows: Windows, tile: Tile, target: Target
) -> MatmulProblem:
    """The problem with its rows read from the image, or from one copy of it."""
    x = problem.x
    if not (windows.is_in_place and target.chooses_addresses):
        x = keep_image(moves, windows, problem.rows, tile.rows - 1, tile.lanes)
    old = problem.reduce
    reduce = Node(Op.REDUCE, old.dtype, (x * problem.y, *windows.steps), old.arg)
    moves.root = moves.root.substitute({old: reduce})
    return replace(problem, reduce=reduce, x=x)
