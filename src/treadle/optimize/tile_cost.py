"""What tiles take on a processor: which operand lanes run over, and what is packed for it.

    best_tiling(moves, nest, problem, parameters)
        ->  (tile, whether rows and columns are to change places)

Decided by counting vector instructions: results of a step, loads, and what packing takes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..dtype import DType
from ..ir.loops import free_ranges, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import TRANSCENDENTAL, Op
from ..ir.views import Load
from ..target import Target, vector_unit
from .choose_tile import Sizes, Tile, choose, loads_of
from .moves import Moves
from .nest import Nest, gating, reads_of, stride
from .parameters import Parameters
from .tile_loops import loops_of_rows
from .tile_problem import TileProblem, lasts, share_of_steps
from .windows import Windows, find_windows

__all__ = [
    "best_tiling", "is_at_hand", "is_in_place", "is_scattered", "tile_of_vectors", "with_windows",
]  # fmt: skip

PACK_REUSE = 2
PACK = 3.0  # instructions to pack a vector that is read as one
CLEARLY_LESS, LESS, ABOUT_AS_MUCH = 0.93, 0.98, 1.05
SPARED = 1 << 23  # bytes of packed rows that swapping makes less, to be worth it by itself
SLOW = TRANSCENDENTAL | {Op.FDIV}
MIN_RUN = 32  # steps along which a row is read in place


class Choice(NamedTuple):
    """A tile, for rows and columns as they are or `is_swapped`, and whether rows are `uniform`."""

    tile: Tile
    is_swapped: bool = False
    is_uniform: bool = False


def best_tiling(moves: Moves, nest: Nest, problem: TileProblem, parameters: Parameters) -> Choice:
    """The tile for the problem as it is or, where that takes less, as it is swapped."""
    target = moves.target
    # Results that lie apart are stored one by one, unless the rows of a tile lie side by side: then
    # they are turned in registers, as a tile's cost says. What is added to them is read one by one.
    is_turned = any(stride(nest.stores()[0], r) == 1 for r in problem.columns)
    swapped = replace(with_windows(moves, problem.swapped()), is_turned=is_turned)
    problem = with_windows(moves, problem)
    cost, here = _best_rows(problem, target, parameters)
    if loop_size(*swapped.rows) < 2 or loop_size(*swapped.columns) < 4:
        return here
    other_cost, other = _best_rows(swapped, target, parameters)
    apart = loop_size(*problem.rows) * loop_size(*problem.columns) / loop_size(*problem.steps)
    apart *= (not is_turned) + _matrices_added(nest, problem)
    most = ABOUT_AS_MUCH if _packed(swapped) + SPARED < _packed(problem) else LESS
    return other._replace(is_swapped=True) if other_cost + apart < most * cost else here


def _best_rows(
    problem: TileProblem, target: Target, parameters: Parameters
) -> tuple[float, Choice]:
    """The cost of a problem, and its tile."""
    tile, uniform = _tile_for(problem, target, parameters), problem.with_uniform_padding()
    if uniform is not None:
        other = _tile_for(uniform, target, parameters)
        if _work(uniform, other, target) < CLEARLY_LESS * _work(problem, tile, target):
            return _cost(uniform, other, target), Choice(other, is_uniform=True)
    return _cost(problem, tile, target), Choice(tile)


def _work(problem: TileProblem, tile: Tile, target: Target) -> float:
    """How many instructions each step takes, where those of padding may be left out."""
    speed = 0.5 if _is_half(problem, tile, target) else 1.0
    return loads_of(problem.sizes, tile, speed, target) * _steps_left(problem, tile)


def _is_half(problem: TileProblem, tile: Tile, target: Target) -> bool:
    """Whether the vectors of a tile are halves, which take half of the time."""
    nbytes = tile.unit[1] * problem.dtype.itemsize
    return target.halves_vectors and nbytes < target.vector_bytes


def _packed(problem: TileProblem) -> int:
    """The bytes of memory that packed rows take."""
    if problem.windows is not None or lasts(problem.x):
        return 0
    loops = (*problem.batch, *problem.rows, *problem.steps)
    return loop_size(*loops) * problem.dtype.itemsize


def _matrices_added(nest: Nest, problem: TileProblem) -> int:
    """How many elements are read for each result beside those that it is reduced from."""
    outside = nest.node.toposort(lambda n: n is not problem.reduce and n.op is not Op.STAGE)
    reads = [n for n in outside if n.op is Op.LOAD]
    rows, columns = frozenset(problem.rows), frozenset(problem.columns)
    free = free_ranges(nest.node)
    return sum(bool(free[n] & rows and free[n] & columns) for n in reads)


def with_windows(moves: Moves, problem: TileProblem) -> TileProblem:
    """The problem, and which windows its rows are, if they are such."""
    if lasts(problem.x):
        return problem
    windows = find_windows(moves, problem.x, problem.rows, problem.steps, problem.batch)
    return replace(problem, windows=windows)


def _tile_for(problem: TileProblem, target: Target, parameters: Parameters) -> Tile:
    return tile_of_vectors(problem.sizes, problem.dtype, target, parameters.tile)


def tile_of_vectors(
    sizes: Sizes, dtype: DType, target: Target, each: tuple[int, int] | None
) -> Tile:
    """The register tile with the least loads and padding, or of `each` rows and vectors."""
    tile = choose(sizes, vector_unit(target, dtype, each), target)
    assert tile is not None  # nothing is too small for vectors
    return tile


def _cost(problem: TileProblem, tile: Tile, target: Target) -> float:
    """About how many vector instructions each step takes, packing included."""
    rows, columns = loop_size(*problem.rows), loop_size(*problem.columns)
    packing = 0.0
    if not lasts(problem.y):
        vectors = -(-columns // tile.columns) * tile.each[1]
        packing += vectors * _packing(problem.y, problem.columns, problem.steps, tile)
    # Rows of plain matrices count as packed: nothing is swapped to read those in place.
    is_free = lasts(problem.x) or (len(problem.steps) > 1 and is_in_place(problem, tile))
    if problem.windows is not None:
        packing += _copying(problem, problem.windows, tile)
    elif not is_free:
        each = _packing(problem.x, problem.rows, problem.steps, tile, tile.rows)
        packing += rows / tile.unit[1] * each
    multiplied = _work(problem, tile, target) * rows * columns / tile.unit[1]
    return (multiplied + packing) * (0.5 if _is_half(problem, tile, target) else 1)


def _steps_left(problem: TileProblem, tile: Tile) -> float:
    """The share of steps that tiles do not go without, since they meet some pixel."""
    if problem.windows is None:
        return share_of_steps(problem.spans)
    if problem.windows.is_in_place:
        return 1.0
    around, rows = loops_of_rows(problem, tile)
    is_narrow = tile.rows <= loop_size(*rows[1:])
    in_tiles = {*around, *rows[:1]} if is_narrow else {*around}
    spans = problem.spans.items()
    return share_of_steps({step: span for step, span in spans if span.loops <= in_tiles})


def _copying(problem: TileProblem, windows: Windows, tile: Tile) -> float:
    """About how many instructions each step takes for the copy of an image, turned in squares."""
    if windows.is_in_place:
        return 0.0
    loops = ranges_of(windows.image).difference(problem.batch)
    return 2 * PACK * loop_size(*loops) / tile.unit[1] / loop_size(*problem.steps)


def is_scattered(operand: Node, along: tuple[Node, ...], steps: tuple[Node, ...]) -> bool:
    """Whether an operand is packed element by element, since it is contiguous in neither."""
    inner = (along[-1], steps[-1])
    return not any(all(stride(i, r) == 1 for i in reads_of(operand)) for r in inner)


def _packing(
    operand: Node, along: tuple[Node, ...], steps: tuple[Node, ...], tile: Tile, lines: int = 0
) -> float:
    """About how many instructions it takes to pack a vector of an operand, so many `lines` at most
    at a time where those lie side by side.
    """
    reads = reads_of(operand)
    apart = {stride(index, along[-1]) for index in reads}
    if len(along) == 1 and {1} <= apart <= {0, 1}:
        return PACK * max(1, tile.unit[1] / lines if lines else 1)
    if apart == {1} and loop_size(along[-1]) >= tile.unit[1]:
        # Borders, and rows that end within vectors, are masks.
        return (2 if loop_size(along[-1]) % tile.unit[1] == 0 or not gating(operand) else 3) * PACK
    is_run = loop_size(steps[-1]) >= tile.unit[1] // 2 or len(steps) == 1
    is_turned = is_run and all(stride(index, steps[-1]) == 1 for index in reads)
    is_uneven = len(along) > 1 and loop_size(along[-1]) < tile.unit[1]
    if not is_turned or (is_uneven and gating(operand)):
        return 2 * tile.unit[1]  # element by element
    return (4 if is_uneven else 2) * PACK  # a vector of places in a window begins at many of them


def is_in_place(problem: TileProblem, tile: Tile) -> bool:
    """Whether rows are read where they are: too few panels use them for packing to be worth it.

    What takes long to compute is packed, in vectors. Where rows are read in several loops, they lie
    along the steps, so that each is read line by line.
    """
    if -(-loop_size(*problem.columns) // tile.columns) >= PACK_REUSE:
        return False
    if len(problem.steps) == 1:
        return not any(n.op in SLOW for n in problem.x.toposort(lambda n: n.op is not Op.STAGE))
    last = problem.steps[-1]
    is_row = all(stride(index, last) == 1 for index in reads_of(problem.x))
    return is_row and loop_size(last) >= MIN_RUN and not gating(problem.x)


def is_at_hand(problem: TileProblem, target: Target) -> bool:
    """Whether rows of memory, each contiguous, are read as quickly where they are.

    They stay in the second-level cache beside the panels, and a phase and its barrier are saved: in
    that, half of the rows would come from the cache of another core, and be packed into it.
    """
    x, steps = problem.x, problem.steps
    if len(steps) != 1 or x.op is not Op.LOAD or lasts(x):
        return False
    if stride(Load.of(x).index, *steps) != 1:
        return False
    return loop_size(*problem.rows, *steps) * x.dtype.itemsize <= target.l2 // 2
