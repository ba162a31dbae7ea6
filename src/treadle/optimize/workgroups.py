"""The schedule for processors that run workgroups: grid, work items, shared tiles.

    x + y          ->  a work item computes a few neighbouring elements, the next one the next
    softmax(x)     ->  a workgroup for each row; its work items share the reductions through a STAGE
    x * y.sum()    ->  workgroups for parts of x, each of which computes the sum
    a @ b          ->  a workgroup for each tile of the output; tiles of a and b are shared STAGEs

The numbers (size of a workgroup, shared memory, lanes) come from Target.workgroup. Nothing else
here knows what device it is for.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.accumulators import items
from ..ir.loops import Split, closed_ranges, free_ranges, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Load, Reduce
from ..target import Target, Workgroup
from .loop_moves import reorder, replace_loops
from .matrix_units import TileForUnits
from .moves import Moves
from .nest import Nest, contiguity, inner_reductions, sequential_loops, stride
from .parameters import Parameters
from .records import Loop
from .reduction_moves import ShareReduction, in_same_loops
from .shared_tiles import ShareTiles
from .tile_problem import recognise
from .warpgroup_units import TileForWarpgroups

__all__ = ["schedule_workgroups"]

MIN_WORK = 1 << 15  # of a reduction whose operands results share
MIN_SHARED = 32  # a reduction shorter than this is left to one work item
MANY_RESULTS = 1 << 14  # with so many results there is work enough without sharing reductions
MANY_ROWS = 256  # so many workgroups keep every processor busy


def schedule_workgroups(moves: Moves, target: Target, parameters: Parameters) -> None:
    """Map every nest of the kernel to workgroups."""
    assert target.workgroup is not None
    workgroup = target.workgroup
    workgroup = replace(
        workgroup, work_items=parameters.work_items or workgroup.work_items, each=parameters.tile,
        depth=parameters.depth or workgroup.depth,
    )  # fmt: skip
    target = replace(target, workgroup=workgroup)
    done: set[Node] = set()
    scalar_done = False
    is_pending = lambda nest: (
        not (nest.is_scheduled or done.intersection(nest.loops)) and (nest.loops or not scalar_done)
    )
    while (nest := next(filter(is_pending, moves.nests()), None)) is not None:
        old = {r for n in moves.nests() for r in n.loops}
        scalar_done = scalar_done or not nest.loops
        if not (parameters.is_tiled and _tile_for_workgroups(moves, nest, target)):
            rows = _rows_to_share(nest)
            if rows is None:
                _work_item_for_each_result(moves, nest, target, workgroup)
            else:
                _workgroup_for_each_row(moves, nest, rows, workgroup)
        done.update(nest.loops)
        done.update(r for n in moves.nests() for r in n.loops if r not in old)


def _power_below(size: int) -> int:
    """The largest power of two that is at most `size`."""
    return 1 << (max(size, 1).bit_length() - 1)


def _power_above(size: int) -> int:
    """The smallest power of two that is at least `size`."""
    return 1 << max(size - 1, 0).bit_length()


# -- one workgroup for each row --------------------------------------------------------------------


def _rows_to_share(nest: Nest) -> tuple[Node, ...] | None:
    """The loops whose steps become workgroups, if work items should share reductions."""
    reduces = nest.reduces
    if not reduces or sequential_loops(nest):
        return None
    free = free_ranges(nest.node)
    wanted = frozenset().union(*(free[n] for n in reduces)) & frozenset(nest.loops)
    rows = tuple(r for r in nest.loops if r in wanted)
    if any(_loop_to_share(n, frozenset(rows)) is None for n in reduces):
        return None
    if rows == nest.loops and nest.loops:
        along = any(_contiguous_loads(n, r) for n in reduces for r in closed_ranges(n))
        across = any(_contiguous_loads(n, r) for n in reduces for r in nest.loops)
        results = loop_size(*nest.loops)
        if across and not along and results >= MIN_SHARED:
            return None  # neighbouring results read neighbouring elements
        if results >= MANY_RESULTS and not along:
            return None
    return rows


def _loop_to_share(reduce: Node, rows: frozenset[Node]) -> Node | None:
    """The loop of a reduction to share: contiguous if there is one, and long enough."""
    value, steps, _ = Reduce.of(reduce)
    loops = [r for r in steps if r.arg.kind == "loop" and loop_size(r) >= MIN_SHARED]
    if not loops or not ranges_of(reduce) <= rows or inner_reductions(value, steps):
        return None  # with one inside, each work item would compute all of that
    return max(loops, key=lambda r: (_contiguous_loads(reduce, r), loop_size(r)))


def _contiguous_loads(node: Node, loop: Node) -> int:
    return sum(n.op is Op.LOAD and stride(Load.of(n).index, loop) == 1 for n in node.toposort())


def _workgroup_for_each_row(
    moves: Moves, nest: Nest, rows: tuple[Node, ...], workgroup: Workgroup
) -> None:
    rest = tuple(r for r in nest.loops if r not in rows)
    longest = max(loop_size(r) for n in nest.reduces for r in closed_ranges(n))
    # Fewer than a subgroup of a fixed size has would leave it with lanes that do not exist.
    least = workgroup.subgroup[0] if workgroup.subgroup else 1
    work_items = max(least, min(workgroup.work_items, _power_below(longest)))
    reorder(moves, nest, (*rows, *rest))
    splits = moves.whole(rows, "grid")
    grid = frozenset(r for split in splits.values() for r in split.ranges)
    if rest:
        splits |= _shared_results(moves, nest, rows, rest, work_items)
    replace_loops(moves, splits, "workgroup_rows")
    shared: set[Node] = set()
    while (found := _reduction_to_share(moves, grid, shared)) is not None:
        reduce, loop = found
        mine = max(least, min(work_items, _power_below(loop_size(loop))))
        is_short = all(map(_is_for_subgroups, in_same_loops(moves.root, reduce)))
        subgroup = workgroup.subgroup if is_short else None
        move = ShareReduction(moves.name_of(reduce), Loop.of(loop), mine, subgroup)
        shared.update(moves.make(move))


def _shared_results(
    moves: Moves, nest: Nest, rows: tuple[Node, ...], rest: tuple[Node, ...], work_items: int
) -> dict[Node, Split]:
    """The loops of a row's results: neighbours for neighbouring work items.

    Several workgroups share them where there are too few rows. Each computes the row's reductions,
    which is to be no more than what it does with them.
    """
    steps = sum(loop_size(*closed_ranges(n)) for n in nest.reduces)
    most = min(loop_size(*rest) // max(steps, work_items), MANY_ROWS // loop_size(*rows))
    parts, first, last = max(1, most), rest[0], rest[-1]
    if first is last:
        turns = -(-loop_size(last) // (parts * work_items))
        return {
            last: moves.tiled(loop_size(last), (turns, "loop"), (work_items, "local"), outer="grid")
        }
    turns = -(-loop_size(first) // parts)
    return {
        first: moves.tiled(loop_size(first), (turns, "loop"), outer="grid"),
        last: moves.tiled(loop_size(last), (work_items, "local")),
    }


def _is_for_subgroups(reduce: Node) -> bool:
    """Whether subgroups combine such values: not all of them multiply, or combine 64 bits."""
    is_product = reduce.arg.op is Op.MUL
    kinds = [part.dtype for part in items(reduce)]
    return all(kind.is_bool or (kind.bits <= 32 and not is_product) for kind in kinds)


def _reduction_to_share(
    moves: Moves, grid: frozenset[Node], shared: set[Node]
) -> tuple[Node, Node] | None:
    free = free_ranges(moves.root)
    for node in moves.root.toposort():
        if node.op is Op.REDUCE and free[node] == grid and shared.isdisjoint(closed_ranges(node)):
            loop = _loop_to_share(node, grid)
            if loop is not None:
                return node, loop
    return None


# -- one work item for each result -----------------------------------------------------------------


def _work_item_for_each_result(
    moves: Moves, nest: Nest, target: Target, workgroup: Workgroup
) -> None:
    """Neighbouring work items compute neighbouring results, whole vectors where they can."""
    ordered = sequential_loops(nest)
    free = [r for r in nest.loops if r not in ordered]
    if not free:
        return
    if any(n.op is Op.TICKET for n in nest.nodes):  # a workgroup's counters serve one work item
        replace_loops(moves, moves.whole(free, "grid"), "workgroup_counters")
        return
    best = max(free, key=lambda r: (contiguity(nest, r), nest.loops.index(r)))
    order = (*(r for r in free if r is not best), best, *ordered)
    reorder(moves, nest, order)
    lanes = _lanes(nest, best, target)
    left = min(workgroup.work_items, _power_above(loop_size(*free) // lanes))
    splits: dict[Node, Split] = {}
    for r in reversed([r for r in order if r not in ordered]):
        width = lanes if r is best else 1
        count = min(left, _power_above(-(-loop_size(r) // width)))
        left //= count
        splits[r] = moves.tiled(loop_size(r), (count, "local"), (width, "vector"), outer="grid")
    replace_loops(moves, splits, of={best: ("workgroup_elements",)})


def _lanes(nest: Nest, loop: Node, target: Target) -> int:
    """How many neighbouring results a work item computes: a vector, where each access allows it."""
    widest = max(n.dtype.itemsize for n in nest.nodes if n.dtype.kind not in ("index", "void"))
    lanes = min(max(1, target.vector_bytes // widest), target.max_lanes)
    if widest > 4 or nest.reduces or loop_size(loop) % lanes:
        return 1
    steps = (stride(access.index, loop) for access in nest.accesses())
    return lanes if all(step in (0, 1) for step in steps) else 1


# -- one workgroup for each tile -------------------------------------------------------------------


def _tile_for_workgroups(moves: Moves, nest: Nest, target: Target) -> bool:
    """Tile `nest` if its results share operands and are enough; says whether it did."""
    problem = recognise(nest)
    if problem is None:
        return False
    sizes = problem.sizes
    if sizes.work < MIN_WORK or min(sizes.rows, sizes.columns, sizes.steps) < 4:
        return False
    for kind in (TileForWarpgroups, TileForUnits, ShareTiles):
        move = kind.chosen(moves.number_of(nest), problem, target)
        if move is not None:
            moves.make(move)
            return True
    return False
