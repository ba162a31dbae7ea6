"""Reductions in the loops of an output: one pass over memory for both.

    for i in n: y[i] = x[i] * 2            for c (grid): for i in chunk: y[c, i] = x[c, i] * 2
    s = sum of x[j] over j          ->                                   part += x[c, i]
                                                         parts[c] = part
                                           s = sum of parts[d] over d

The output is scheduled as if it were alone, and the reductions go through its loops as they are
then. What workers share, the grid, gets a part of each reduction, in a STAGE whose loops are that
very grid: loops that share RANGEs are one when phases are lowered (lower/shared_grids.py), and when
registers are (lower/registers.py). Rows whose totals are wanted are stored as they are.
"""

from __future__ import annotations

from ..ir.args import ReduceArg, StageArg
from ..ir.choices import take
from ..ir.loops import TRUE, Split, closed_ranges, steps_of
from ..ir.loops_alike import loops_alike, reductions_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from .moves import Moves

__all__ = ["share_loops", "stage_parts"]

LEAST_STEPS = 512  # that a part is the result of: it is stored and read once more
PART = 4096  # steps of a part where there are fewer: sums of so many in lanes are not cut again

Loops = tuple[Node, ...]


def share_loops(moves: Moves) -> bool:
    """Give reductions behind an output its loops; False where a kernel is something else."""
    output, *totals = moves.root.src
    alike = [loops_alike(output, total) for total in totals]
    if not alike or None in alike:
        return False
    made = [total.substitute(found or {}) for total, found in zip(totals, alike, strict=True)]
    moves.root = simplify(Node.sink((output, *made)))
    moves.log.append("reductions go through the loops of the output")
    return True


def stage_parts(moves: Moves) -> bool:
    """Make parts of the reductions for each step of the output's grid; False if that cannot be."""
    _widen_grid(moves)
    if not _cut_grid(moves):
        return False
    output, *totals = moves.root.src
    grid, inner = _grid_and_inner(output)
    whole, made = set(closed_ranges(output)), []
    for total in totals:
        results = closed_ranges(total)
        if not set(results) <= set(grid):
            return False
        if any({*results, *reduce.src[1:]} != whole for reduce in reductions_of(total)):
            return False
        made.append(_in_parts(moves, total, grid, inner))
    moves.root = simplify(Node.sink((output, *made)))
    take("fused_reduction_output")
    moves.log.append(f"a part of each reduction for each of {steps_of(*grid)} steps of the grid")
    return True


def _grid_and_inner(output: Node) -> tuple[Loops, Loops]:
    """The loops of `output` that workers share, and the others."""
    loops = closed_ranges(output)
    grid = tuple(r for r in loops if r.arg.kind == "grid")
    return grid, tuple(r for r in loops if r.arg.kind != "grid")


def _widen_grid(moves: Moves) -> None:
    """Let workers share the loops around results, too."""
    output, *totals = moves.root.src
    results = {r for total in totals for r in closed_ranges(total)}
    loops = closed_ranges(output)
    around = loops[: max((n for n, r in enumerate(loops) if r in results), default=-1) + 1]
    splits = {}
    for r in around:
        if r.arg.kind == "loop":
            new = moves.loop(r.src[0], "grid")
            splits[r] = Split(new, (new,))
    if splits:
        moves.apply(splits, f"grid of {len(splits)} more loops")


def _cut_grid(moves: Moves) -> bool:
    """Leave enough steps to each step of the grid, if need be by a loop that is cut off it."""
    output, *totals = moves.root.src
    grid, inner = _grid_and_inner(output)
    if not grid or any(r.src[0].op is not Op.CONST for r in (*grid, *inner)):
        return False
    steps, last = steps_of(*inner), grid[-1]
    count = min(-(-PART // steps), steps_of(last))
    if steps < LEAST_STEPS and count > 1 and not any(last in closed_ranges(total) for total in totals):
        size = steps_of(last)
        part = moves.loop(-(-size // count), "grid")
        rest = simplify((Node.index(size) - part * count).minimum(Node.index(count)))
        turn = moves.loop(count if size % count == 0 else rest)
        split = Split(part * count + turn, (part, turn))
        moves.apply({last: split}, f"parts of {count} of r{last.arg.number}")
        steps *= count
    return steps >= LEAST_STEPS


def _in_parts(moves: Moves, total: Node, grid: Loops, inner: Loops) -> Node:
    """The END `total` with each reduction as that of its parts, or as one that is whole."""
    results = closed_ranges(total)
    if set(results) == set(grid):
        whole = {r: Node(Op.REDUCE, r.dtype, (r.src[0], *inner), r.arg) for r in reductions_of(total)}
        return total.substitute(whole)
    fresh = moves.copies(results, dict.fromkeys(results, "loop"))
    made: dict[Node, Node] = {**fresh}
    for reduce in reductions_of(total):
        part = Node(Op.REDUCE, reduce.dtype, (reduce.src[0], *inner), reduce.arg)
        rest = tuple(r for r in grid if r not in results)
        reading = fresh | moves.copies(rest, dict.fromkeys(rest, "loop"))
        src = (part, TRUE, *grid, *(reading[r] for r in grid), *grid)
        stage = Node(Op.STAGE, reduce.dtype, src, StageArg("grid", tuple(map(steps_of, grid))))
        loops = tuple(reading[r] for r in rest)
        made[reduce] = Node(Op.REDUCE, reduce.dtype, (stage, *loops), ReduceArg(reduce.arg.op))
    return total.substitute(made)
