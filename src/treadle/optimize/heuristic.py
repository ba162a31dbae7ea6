"""The schedule that is picked at once, from the kernel's shape and the target's numbers.

    fast, schedule = optimize(ast, target)      fast has grid, unroll and vector loops
    optimize(ast, target, parameters)           the same, with other numbers (see parameters.py)
    replay(ast, target, parsed(str(schedule))) is fast

In this order: loops of sizes that launches decide get their largest size, under masks, and at last
end early (symbolic_loops.py); sums of one element become loads; neighbouring loops merge; chains of
products get blocks of rows; reductions that read the same share a loop; long reductions with few
results are cut into chunks that workers share, and long columns into parts; matmul-like nests get
register tiles and packed operands; every other nest gets its best contiguous loop as lanes, a few
copies for instruction parallelism, and its outer loops as grid. Nothing here depends on the number
of threads, so results do not either. Processors with workgroups have no chains, and go their own
way after long reductions: see workgroups.py. So does an output with reductions over its loops, from
the beginning: see output_reductions.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..ir.carried import is_kept
from ..ir.choices import choices_of, take
from ..ir.loops import Split, closed_ranges, free_ranges, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import ALU, TRANSCENDENTAL, Op
from ..ir.verify import shared_by_lanes
from ..ir.views import Access, Reduce, Store
from ..target import Target
from .cached_rows import cache_costly_rows, cache_gathered_rows
from .carried_rows import carry_rows
from .chained_matmul import ComputeRows, block_chained_matmul
from .column_reduction import is_down_columns, reduce_columns, steps_of_part
from .grouped_reductions import tile_group
from .hoist_masks import HoistMasks
from .lane_width import lanes_of
from .layout_changes import change_layout
from .loop_digits import merge_all, split_digits
from .loop_moves import reorder, replace_loops
from .loop_pieces import halves_of_row, in_pieces, pair_of_rows
from .moves import Move, Moves, Schedule
from .nest import (
    SHORT_STRIDE,
    Nest,
    contiguity,
    inner_reductions,
    inner_steps,
    is_unrolled,
    reads_of,
    scan_along_row,
    sequential_loops,
    stride,
)
from .one_hot_gather import gather_one_hot
from .output_reductions import CutOffEnds, StageParts, share_loops
from .parameters import Parameters
from .records import Loop, read
from .reduction_moves import CutOffRemainders, SplitReduction, fuse_reductions
from .row_pipelining import pipeline_rows
from .symbolic_loops import PadLoops, TrimLoops
from .texels import schedule_texels
from .tile_reduction import tile_reduction
from .two_level_argmax import search_in_blocks
from .variance import WidenSums
from .workgroups import schedule_workgroups

__all__ = ["optimize", "parsed", "replay"]

MAX_CHUNKS = 64
DEFAULT = Parameters()
FEW_ITEMS = 8
MANY_RESULTS = 1 << 14
LONG_FOR_WORK_ITEM = 1 << 15  # steps that one work item takes by itself, and may on every driver
STRIP = 512  # neighbours that one worker of a scatter keeps together
SMALL_REDUCE = 16
FEWEST_LANES = 4  # of a loop of results: fewer are no vector
SIDE_BY_SIDE = 4  # sequences, each of which waits for its own last step
NARROW, MANY_STRIPS = 8, 64  # vectors of a strip of columns, unless there are so many wider ones
MAX_COPIES = 256


def optimize(ast: Node, target: Target, parameters: Parameters = DEFAULT) -> tuple[Node, Schedule]:
    """A better kernel with the same meaning, and the moves that led there."""
    with choices_of() as choices:
        moves = _with_outputs(ast, target, parameters)
    if moves is None:
        moves = Moves(ast, target)
        with choices_of() as choices:
            _optimize(moves, target, parameters)
    if not shared_by_lanes(moves.root):
        for name in choices:
            take(name)
    else:
        # A row that a kernel keeps is one step's: no schedule above knows how to give lanes theirs.
        moves = Moves(ast, target)
        moves.make(ComputeRows())
        _optimize(moves, target, parameters, keeps_rows=False)
    moves.make(TrimLoops())
    return moves.root, moves.schedule()


def replay(ast: Node, target: Target, moves: Schedule) -> Node:
    """`ast` after `moves`. Raises ValueError where one does not fit the kernel."""
    kernel = Moves(ast, target)
    for move in moves:
        kernel.make(move)
    return kernel.root


def parsed(text: str) -> Schedule:
    """The schedule of which `text` is the text. Raises ValueError for any other text."""
    records = read(text)
    moves = [record for record in records if isinstance(record, Move)]
    if len(moves) < len(records):
        raise ValueError(f"a schedule has a move on each line: {text!r}")
    return Schedule(moves)


def _with_outputs(ast: Node, target: Target, parameters: Parameters) -> Moves | None:
    """A kernel of an output and reductions over its loops, in one pass; None for any other."""
    moves = Moves(ast, target)
    moves.make(WidenSums())
    if target.workgroup is not None or len(ast.src) == 1 or not share_loops(moves):
        return None
    split_digits(moves)
    gather_one_hot(moves)
    merge_all(moves)
    cache_gathered_rows(moves, target)
    moves.make(CutOffEnds(lanes_of(_output(moves), target, 2), parameters.copies))
    _general(moves, _output(moves), target, parameters)
    if not moves.make(StageParts()):
        return None
    for nest in moves.nests():
        if not nest.is_scheduled:
            _general(moves, nest, target, parameters)
    return moves


def _output(moves: Moves) -> Nest:
    """The nest of a kernel's first END."""
    return next(nest for nest in moves.nests() if nest.node is moves.root.src[0])


def _optimize(
    moves: Moves, target: Target, parameters: Parameters, keeps_rows: bool = True
) -> None:
    moves.make(WidenSums())
    moves.make(ComputeRows(but_of_products=True))  # while each is filled by a loop
    merge_all(moves, of_fixed_size=False)
    moves.make(PadLoops())
    if not any(is_kept(n) or n.op in (Op.UPDATE, Op.TICKET) for n in moves.root.toposort()):
        split_digits(moves)
    gather_one_hot(moves)
    moves.make(HoistMasks())
    merge_all(moves)
    if target.workgroup is None:
        block_chained_matmul(moves, target, parameters)
    else:
        carry_rows(moves, target)
    fuse_reductions(moves)
    if target.workgroup is None:
        search_in_blocks(moves, target)
    _split_long_reductions(moves, target, parameters)
    schedule_texels(moves, target)
    if target.workgroup is not None:
        schedule_workgroups(moves, target, parameters)
        return
    if keeps_rows:
        cache_costly_rows(moves, target)
        cache_gathered_rows(moves, target)
    done: set[tuple[Node, ...]] = set()
    is_left = lambda nest: nest.loops not in done and not nest.is_scheduled
    while (nest := next(filter(is_left, moves.nests()), None)) is not None:
        is_tiled = parameters.is_tiled and (
            tile_reduction(moves, nest, target, parameters)
            or tile_group(moves, nest, target, parameters)
        )
        is_tiled = is_tiled or reduce_columns(moves, nest, target)
        if not (is_tiled or change_layout(moves, nest, target)):
            _general(moves, nest, target, parameters)
        done.update(n.loops for n in moves.nests() if n.is_scheduled)
        if not is_tiled and nest.loops in [n.loops for n in moves.nests()]:
            done.add(nest.loops)
    pipeline_rows(moves, target)


# -- long reductions ------------------------------------------------------------------------------


def _split_long_reductions(moves: Moves, target: Target, parameters: Parameters) -> None:
    """Cut reductions with few results into chunks; each chunk's result is kept, then combined."""
    seen: set[Node] = set()
    is_new = lambda one: seen.isdisjoint((one[1], *closed_ranges(one[1])))
    # A cut changes what stands around it: look again after each.
    while (found := next(filter(is_new, _whole_reductions(moves)), None)) is not None:
        nest, reduce = found
        seen.add(reduce)
        is_whole = target.workgroup is None and _is_all(nest, reduce)
        if is_whole and is_down_columns(nest, reduce):
            (down,) = closed_ranges(reduce)
            chunks = loop_size(down) // steps_of_part(reduce)
            if chunks > 1:
                _cut(moves, reduce, down, chunks)
                continue
        total = _split(moves, nest, reduce, target, parameters)
        if total is not None:
            seen.add(total)


def _whole_reductions(moves: Moves) -> Iterator[tuple[Nest, Node]]:
    """The reductions that each step of their nest computes anew, inner ones first."""
    for nest in moves.nests():
        if nest.node.op is Op.END and not nest.is_scheduled and not nest.has_scans:
            loops = frozenset(nest.loops)
            yield from ((nest, one) for one in nest.reduces if ranges_of(one) == loops)


def _is_all(nest: Nest, reduce: Node) -> bool:
    """Whether all reductions of a nest that have loops are in those of `reduce`."""
    loops = closed_ranges(reduce)
    return all(closed_ranges(n) == loops for n in nest.reduces if not is_unrolled(n))


def _split(
    moves: Moves, nest: Nest, reduce: Node, target: Target, parameters: Parameters
) -> Node | None:
    """Cut `reduce` if it is long enough; the loop that combines the chunks, if there are any."""
    results = loop_size(*ranges_of(reduce))
    loop = max(closed_ranges(reduce), key=loop_size)
    items = results if target.workgroup is not None else _shares(nest, results, target)
    if items < FEW_ITEMS:
        work = results * loop_size(*closed_ranges(reduce)) * inner_steps(reduce)
        chunks = min(work // parameters.chunk, MAX_CHUNKS // items)
    else:
        chunks = _chunks_for_work_items(reduce, results, target)
    chunks = min(loop_size(loop), chunks)
    if chunks < 2:
        return None
    if target.workgroup is None:
        block = chunks * lanes_of(nest, target, 2) * parameters.copies
        reduce, loop = _in_whole_blocks(moves, nest, reduce, loop, block)
    return _cut(moves, reduce, loop, chunks)


def _in_whole_blocks(
    moves: Moves, nest: Nest, reduce: Node, loop: Node, block: int
) -> tuple[Node, Node]:
    """The reduction and its loop without the steps behind the last whole block, if those can be cut
    off: chunks of the others are even, and begin where the first one does in a line of the cache.
    """
    made = moves.make(CutOffRemainders(moves.number_of(nest), block, Loop.of(loop)))
    if loop not in made:
        return reduce, loop
    whole, _ = made[loop]
    reduces = moves.now(nest).reduces
    return next(r for r in reduces if closed_ranges(r) == (whole,)), whole


def _cut(moves: Moves, reduce: Node, loop: Node, chunks: int) -> Node:
    """Cut `reduce` into so many chunks; returns the loop that combines them."""
    return moves.make(SplitReduction(moves.name_of(reduce), Loop.of(loop), chunks))


def _shares(nest: Nest, results: int, target: Target) -> int:
    """How many workers the results of `nest` keep busy: neighbouring columns go to one."""
    vector = _best_vector(nest, ())
    if vector is None:
        return results
    return -(-results // min(loop_size(vector), NARROW * lanes_of(nest, target, 2)))


def _chunks_for_work_items(reduce: Node, results: int, target: Target) -> int:
    """How many chunks make a reduction short enough for one work item each; 1 if it is so now."""
    is_busy = results >= MANY_RESULTS and target.max_steps is None
    if target.workgroup is None or is_busy:
        return 1
    # Two more for each loop, as drivers count.
    steps = math.prod(loop_size(r) + 2 for r in closed_ranges(reduce)) * (inner_steps(reduce) + 1)
    return 1 if steps <= LONG_FOR_WORK_ITEM else -(-4 * steps // LONG_FOR_WORK_ITEM)


# -- every other nest -----------------------------------------------------------------------------


def _general(moves: Moves, nest: Nest, target: Target, parameters: Parameters) -> None:
    ordered_steps = sequential_loops(nest)
    strip = _strip(nest, ordered_steps)
    if strip is not None:
        _in_strips(moves, nest, strip, ordered_steps)
        return
    _unroll_small_reductions(moves, nest)
    nest = moves.now(nest)
    block = lanes_of(nest, target, 2) * parameters.copies
    moves.make(CutOffRemainders(moves.number_of(nest), block))
    nest = moves.now(nest)
    vector = _best_vector(nest, ordered_steps)
    lanes = lanes_of(nest, target, 2)
    splits: dict[Node, Split] = {}
    reasons: dict[Node, tuple[str, ...]] = {}
    scan = scan_along_row(nest, ordered_steps, lanes) if vector is None else None
    if scan is not None:
        reasons[scan] = ("lane_scan",)
        splits[scan] = moves.tiled(loop_size(scan), (lanes, "vector"))
    if vector is not None:
        pieces = in_pieces(moves, nest, vector, lanes)
        reasons[vector] = ("lane_results", *(("split_concat",) if pieces else ()))
        splits[vector] = pieces or _vector_tile(moves, nest, vector, lanes, parameters)
    free, pair = free_ranges(nest.node), None
    for reduce in nest.reduces:
        own = _best_reduce_vector(nest, reduce, scan if vector is None else vector, free)
        if own is not None and own not in splits:
            sharing = _sharing(nest, reduce)
            copies = 1 if sharing else parameters.copies
            pair = None if sharing or ordered_steps else pair_of_rows(nest, reduce, own)
            halves = halves_of_row(moves, reduce, own, copies, lanes) if pair is None else None
            reasons[own] = ("lane_reduction", *(("dual_streams",) if halves else ()))
            splits[own] = halves or _reduce_tile(moves, own, lanes, copies)
            splits |= {r: moves.tiled(loop_size(r), (loop_size(r), "unroll")) for r in sharing}
    order = _nesting(nest, vector, ordered_steps)
    reorder(moves, nest, order)
    nest = moves.now(nest, order)
    grid = _grid_loops(nest, vector, ordered_steps)
    if pair is not None:
        reasons[pair] = ("dual_streams",)
        splits[pair] = moves.tiled(
            loop_size(pair), (2, "unroll"), outer="grid" if pair in grid else "loop"
        )
    for r in grid:
        if r not in splits:
            rows = in_pieces(moves, nest, r) if vector is not None else None
            reasons[r] = ("split_concat_rows",) if rows else ()
            splits |= {r: _outer_as_grid(moves, rows)} if rows else moves.whole((r,), "grid")
    if vector in grid:
        splits[vector] = _outer_as_grid(moves, splits[vector])
    elif (
        vector is None
        and scan is None
        and grid
        and nest.has_scans
        and loop_size(grid[-1]) >= SIDE_BY_SIDE * FEW_ITEMS
    ):
        reasons[grid[-1]] = ("parallel_scans",)
        splits[grid[-1]] = moves.tiled(loop_size(grid[-1]), (SIDE_BY_SIDE, "unroll"), outer="grid")
    if splits:
        replace_loops(moves, splits, of=reasons)


def _unroll_small_reductions(moves: Moves, nest: Nest) -> None:
    splits: dict[Node, Split] = {}
    budget, sequential = MAX_COPIES, sequential_loops(nest)
    for reduce in nest.reduces:
        value, loops, _ = Reduce.of(reduce)
        are_open = len(loops) > 1 and all(r.arg.kind == "loop" for r in loops)
        is_window = loop_size(*loops) > SMALL_REDUCE and are_open
        if is_window and _best_vector(nest, sequential) is not None:
            # The masks of windows depend on the last loop, and are computed outside of the others.
            loops = loops[-1:]
        count = loop_size(*loops)
        cost = count * len([n for n in value.toposort() if n.op is Op.LOAD])
        if count > SMALL_REDUCE or cost > budget or any(r in splits for r in loops):
            continue
        if inner_steps(reduce) > SMALL_REDUCE:
            continue  # steps side by side would each read a row of their own, too many for caches
        budget -= cost
        splits |= moves.whole(loops, "unroll")
    if splits:
        replace_loops(moves, splits, "unrolled_reduction")


def _best_vector(nest: Nest, sequential: tuple[Node, ...]) -> Node | None:
    """The output loop to make lanes of, if any serves better than the reductions' own loops.

    It fills lanes, and is around no reduction that has lanes of its own.
    """
    around = {
        r
        for reduce in nest.reduces
        if any(own.arg.kind == "vector" for own in closed_ranges(reduce))
        for r in ranges_of(reduce)
    }
    around.update(sequential)
    candidates = [r for r in nest.loops if r not in around and loop_size(r) >= FEWEST_LANES]
    if not candidates:
        return None
    best = max(candidates, key=lambda r: (contiguity(nest, r), nest.loops.index(r)))
    score = contiguity(nest, best)
    rivals = [
        contiguity(nest, r)
        for reduce in nest.reduces
        if best in ranges_of(reduce)
        for r in closed_ranges(reduce)
        if r.arg.kind == "loop" and loop_size(r) >= 8
    ]
    if any(rival >= score for rival in rivals):
        return None
    if score <= 0 and not any(stride(i, best) == 1 for i in nest.stores()):
        return None
    return best


def _strip(nest: Nest, sequential: tuple[Node, ...]) -> Node | None:
    """The loop to cut into strips in a scatter along an axis: it is contiguous, its steps apart."""
    stores = [(s.memory.op is Op.AFTER, s.index) for s in map(Store.of, nest.effects)]
    reads = [index for value in nest.values for index in reads_of(value)]
    for r in nest.loops:
        if r in sequential or loop_size(r) <= FEW_ITEMS:
            continue
        if not any(stride(index, r) == 1 for index in reads):
            continue
        if any(scatters and stride(index, r) is None for scatters, index in stores):
            return r
    return None


def _in_strips(moves: Moves, nest: Nest, strip: Node, sequential: tuple[Node, ...]) -> None:
    """Each worker takes a strip of neighbours through all the steps that must run in order."""
    width = min(STRIP, -(-loop_size(strip) // FEW_ITEMS))
    splits = moves.whole((r for r in nest.loops if r not in (*sequential, strip)), "grid")
    splits[strip] = moves.tiled(loop_size(strip), (width, "loop"), outer="grid")
    reorder(moves, nest, (*(r for r in nest.loops if r not in sequential), *sequential))
    replace_loops(moves, splits, of={strip: ("scatter_strips",)})
    inner = splits[strip].ranges[-1]
    nest = moves.nest_with(inner)
    reorder(moves, nest, (*(r for r in nest.loops if r is not inner), inner))


def _best_reduce_vector(
    nest: Nest, reduce: Node, vector: Node | None, free: dict[Node, frozenset[Node]]
) -> Node | None:
    value, loops, _ = Reduce.of(reduce)
    inside = free[value]
    if vector is not None and vector in inside:
        return None
    others = [r for r in inside if r.arg.kind == "vector"]
    candidates = [r for r in loops if r.arg.kind == "loop" and loop_size(r) >= 4]
    if others or not candidates or inner_reductions(value, candidates):
        return None  # an inner reduction runs once for each step; its own loop is the lanes
    best = max(candidates, key=lambda r: (_reduce_score(reduce, r), loop_size(r)))
    return best if _reduce_score(reduce, best) > 0 else None


def _sharing(nest: Nest, reduce: Node) -> tuple[Node, ...]:
    """Short inner loops of results that share something that `reduce` reads for all of them."""
    found: list[Node] = []
    copies = 1
    for r in reversed(nest.loops):
        copies *= loop_size(r)
        used = [stride(index, r) != 0 for index in reads_of(Reduce.of(reduce).value)]
        if copies > SMALL_REDUCE or all(used) or not any(used):
            break
        found.append(r)
    return tuple(found)


def _reduce_score(reduce: Node, loop: Node) -> int:
    total = 0
    for index in reads_of(Reduce.of(reduce).value):
        step = stride(index, loop)
        is_near = step is not None and abs(step) <= SHORT_STRIDE
        total += 0 if step == 0 else 1 if is_near else -1
    return total


def _vector_tile(
    moves: Moves, nest: Nest, vector: Node, lanes: int, parameters: Parameters
) -> Split:
    size = loop_size(vector)
    lanes = min(lanes, 1 << (size - 1).bit_length())
    column = nest.has_scans or any(vector in ranges_of(n) for n in nest.reduces)
    most = parameters.column_copies if column else parameters.copies
    is_costly = any(n.op in TRANSCENDENTAL for n in nest.nodes) or len(nest.reduces) > 1
    if column and (is_costly or loop_size(*nest.loops) // (most * lanes) < MANY_STRIPS):
        most = min(most, NARROW)
    weight = len(nest.nodes) + _unrolled_work(nest, vector)
    if size % lanes and not moves.target.has_masked_memory:  # the last vectors go lane by lane
        loads = (ranges_of(n) - {*nest.loops} for n in nest.nodes if n.op is Op.LOAD)
        weight += sum(2 * lanes * loop_size(*unrolled) for unrolled in loads)
    while most > 1 and (most * lanes > size or most * weight > 4 * MAX_COPIES):
        most //= 2
    while most > 1 and size % (most * lanes) and size < 8 * most * lanes:
        most //= 2
    return moves.tiled(loop_size(vector), (most, "unroll"), (lanes, "vector"))


def _unrolled_work(nest: Nest, vector: Node) -> int:
    """How many more operations the steps of unrolled reductions are, for one vector of results."""
    total = 0
    for reduce in filter(is_unrolled, nest.reduces):
        value, loops, _ = Reduce.of(reduce)
        works = (_vectors_of(n, vector) for n in value.toposort() if n.dtype.kind != "index")
        total += (loop_size(*loops) - 1) * sum(works)
    return total


def _vectors_of(node: Node, vector: Node) -> int:
    """How many instructions give the lanes that `vector` becomes: more where they lie apart."""
    if node.op is not Op.LOAD:
        return int(node.op in ALU)
    apart = stride(Access.of(node).index, vector)
    return 2 * min(max(1, abs(apart or 0)), SHORT_STRIDE)


def _reduce_tile(moves: Moves, loop: Node, lanes: int, copies: int) -> Split:
    size = loop_size(loop)
    lanes = min(lanes, 1 << (size.bit_length() - 1))
    while copies > 1 and (copies * lanes > size or (size % (copies * lanes) and size < 512)):
        copies //= 2
    return moves.tiled(loop_size(loop), (copies, "unroll"), (lanes, "vector"))


def _nesting(nest: Nest, vector: Node | None, sequential: tuple[Node, ...]) -> tuple[Node, ...]:
    """Loops that reductions depend on go out, the vector and what runs in order go in."""
    stats = _loops_of_statistics(nest)

    def key(r: Node) -> tuple[int, int, int, int]:
        depth = -sum(r in s for s in stats)
        return (r in sequential, depth, r is vector, nest.loops.index(r))

    return tuple(sorted(nest.loops, key=key))


def _loops_of_statistics(nest: Nest) -> list[frozenset[Node]]:
    """The nest's loops that each reduction depends on, but for those that depend on all of them."""
    found = [ranges_of(n).intersection(nest.loops) for n in nest.reduces]
    return [loops for loops in found if len(loops) < len(nest.loops)]


def _grid_loops(nest: Nest, vector: Node | None, sequential: tuple[Node, ...]) -> tuple[Node, ...]:
    """The outermost loops to share among workers: enough of them, but no more."""
    grid: list[Node] = []
    items, stats = 1, _loops_of_statistics(nest)
    for r in nest.loops:
        if r in sequential or items >= 64:
            break
        others = [s for s in stats if r not in s]
        if items >= FEW_ITEMS and any(s.intersection(grid) for s in others):
            break
        if items >= 2 and any(s and s.issubset(grid) for s in others):
            break
        grid.append(r)
        items *= loop_size(r)
    return tuple(grid)


def _outer_as_grid(moves: Moves, split: Split) -> Split:
    """`split` with its plain loops as grid."""
    new = moves.copies((r for r in split.ranges if r.arg.kind == "loop"), "grid")
    loops = tuple(new.get(r, r) for r in split.ranges)
    return Split(split.expr.substitute(new), loops, split.guard.substitute(new))
