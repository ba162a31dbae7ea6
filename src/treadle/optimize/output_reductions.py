"""Reductions in the loops of an output: one pass over memory for both.

    for i in n: y[i] = x[i] * 2            for c (grid): for i in chunk: y[c, i] = x[c, i] * 2
    s = sum of x[j] over j          ->                                   part += x[c, i]
                                                         parts[c] = part
                                           s = sum of parts[d] over d

The output is scheduled as if it were alone, and the reductions go through its loops as they are
then. What workers share, the grid, gets a part of each reduction, in a STAGE whose loops are that
very grid: loops that share RANGEs are one when phases are lowered (lower/linearize.py), and when
registers are (lower/registers.py). Rows whose totals are wanted are stored as they are. What fills
no whole vectors at the end of a row is an output and a reduction of its own in the same grid.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.accumulators import combined
from ..ir.args import ReduceArg, StageArg
from ..ir.loops import TRUE, Split, closed_ranges, loop_size, replace_ranges
from ..ir.loops_alike import loops_alike, reductions_of
from ..ir.node import Node
from ..ir.rules.index import simplify
from ..ir.views import End, Reduce, Stage, Store, with_loops
from .moves import Move, Moves
from .nest import stride

__all__ = ["CutOffEnds", "ShareLoops", "StageParts", "share_loops"]

MANY_BLOCKS = 16  # of copies of vectors in a row; in fewer, masks cost no more than another loop
LEAST_STEPS = 512  # that a part is the result of: it is stored and read once more
PART = 2048  # steps of a part where there are fewer

Loops = tuple[Node, ...]


def share_loops(moves: Moves) -> bool:
    """Give reductions behind an output its loops; False where a kernel is something else."""
    output, *totals = moves.root.src
    alike = [loops_alike(output, total) for total in totals]
    if not alike or None in alike:
        return False
    moves.make(ShareLoops())
    return True


@dataclass(frozen=True)
class ShareLoops(Move):
    """Reductions behind an output go through its loops."""

    word = "fused_reduction_output"

    def apply(self, moves: Moves) -> None:
        output, *totals = moves.root.src
        made = [total.substitute(loops_alike(output, total) or {}) for total in totals]
        moves.root = simplify(Node.sink((output, *made)))


@dataclass(frozen=True)
class CutOffEnds(Move):
    """What fills no `copies` of `lanes` at the end of long rows is an output of its own.

    So it is of the reductions that go through its loops.
    """

    word = "cut_off_ends"

    lanes: int
    copies: int

    @property
    def choices(self) -> tuple[str, ...]:
        return ("remainder_loop",)

    def apply(self, moves: Moves) -> None:
        (output, *totals), block = moves.root.src, self.lanes * self.copies
        results = {r for total in totals for r in closed_ranges(total)}
        index = Store.of(End.of(output).effects[0]).index
        row = next((r for r in closed_ranges(output) if stride(index, r) == 1), None)
        if row is None or row in results or loop_size(row) < MANY_BLOCKS * block:
            return
        rest = loop_size(row) % block
        if rest == 0:
            return
        first = loop_size(row) - rest
        whole = moves.loop(first)
        tiled = moves.tiled(rest, (-(-rest // self.lanes), "unroll"), (self.lanes, "vector"))
        begin = {row: Split(whole, (whole,))}
        end = {row: Split(simplify(tiled.expr + first), tiled.ranges, tiled.guard)}
        cut = {
            one: combined(one.arg.op, replace_ranges(one, begin), replace_ranges(one, end))
            for total in totals
            for one in reductions_of(total)
        }
        ends = (replace_ranges(output, begin), replace_ranges(output, end))
        moves.root = simplify(Node.sink((*ends, *(total.substitute(cut) for total in totals))))


@dataclass(frozen=True)
class StageParts(Move):
    """Each step of the output's grid computes a part of each reduction; then they are combined."""

    word = "stage_parts"

    def apply(self, moves: Moves) -> bool:
        """Returns whether all reductions go through the loops of an output."""
        _widen_grid(moves)
        _cut_grid(moves)
        _tell_loops_apart(moves)
        outputs, totals = _outputs_and_totals(moves.root)
        made = [_in_parts(moves, total, outputs) for total in totals]
        if not made or None in made:
            return False
        moves.root = simplify(Node.sink((*outputs, *(end for end in made if end is not None))))
        return True


def _outputs_and_totals(root: Node) -> tuple[list[Node], list[Node]]:
    """The ENDs of the whole rows and, if they are apart, of their ends, and those that reduce."""
    outputs = [end for end in root.src if not reductions_of(end)]
    return outputs, [end for end in root.src if end not in outputs]


def _grid(output: Node) -> Loops:
    """The loops of `output` that workers share."""
    return tuple(r for r in closed_ranges(output) if r.arg.kind == "grid")


def _inner(output: Node) -> Loops:
    return tuple(r for r in closed_ranges(output) if r.arg.kind != "grid")


def _widen_grid(moves: Moves) -> None:
    """Let workers share the loops around results, too."""
    outputs, totals = _outputs_and_totals(moves.root)
    results = {r for total in totals for r in closed_ranges(total)}
    loops = closed_ranges(outputs[0])
    around = loops[: max((n for n, r in enumerate(loops) if r in results), default=-1) + 1]
    moves.replace_loops(moves.whole((r for r in around if r.arg.kind == "loop"), "grid"))


def _cut_grid(moves: Moves) -> None:
    """Leave enough steps to each step of the grid, if need be by a loop that is cut off it."""
    outputs, totals = _outputs_and_totals(moves.root)
    grid, steps = _grid(outputs[0]), loop_size(*_inner(outputs[0]))
    results = {r for total in totals for r in closed_ranges(total)}
    if not grid or grid[-1] in results or steps >= LEAST_STEPS:
        return
    last = grid[-1]
    count = min(-(-PART // steps), loop_size(last))
    if count > 1:
        size = loop_size(last)
        part = moves.loop(-(-size // count), "grid")
        rest = simplify((Node.index(size) - part * count).minimum(Node.index(count)))
        turn = moves.loop(count if size % count == 0 else rest)
        split = Split(part * count + turn, (part, turn))
        moves.replace_loops({last: split})


def _tell_loops_apart(moves: Moves) -> None:
    """Give the ends of rows loops of their own, but for those that workers share."""
    outputs, _ = _outputs_and_totals(moves.root)
    for end in outputs[1:]:
        shared = set(closed_ranges(outputs[0]))
        fresh = moves.copies(r for r in _inner(end) if r in shared)
        own = set(_inner(end)) - shared
        alike = [end, *(r for r in reductions_of(moves.root) if own & set(closed_ranges(r)))]
        moves.root = moves.root.substitute({node: node.substitute(fresh) for node in alike})


def _in_parts(moves: Moves, total: Node, outputs: list[Node]) -> Node | None:
    """The END `total` with each reduction as that of its parts, or as one that is whole.

    None where a reduction does not go through the loops of an output.
    """
    results = closed_ranges(total)
    homes: dict[Node, Node] = {}
    for reduce in reductions_of(total):
        loops = {*results, *closed_ranges(reduce)}
        home = next((output for output in outputs if {*closed_ranges(output)} == loops), None)
        if home is None:
            return None
        homes[reduce] = home
    parts = {r: with_loops(r, _inner(output)) for r, output in homes.items()}
    if all(set(_grid(output)) == set(results) for output in homes.values()):
        return total.substitute(parts)
    fresh = moves.copies(results, "loop")
    whole = {
        reduce: _of_grid(moves, part, _grid(homes[reduce]), fresh) for reduce, part in parts.items()
    }
    return total.substitute(fresh | whole)


def _of_grid(moves: Moves, part: Node, grid: Loops, results: dict[Node, Node]) -> Node:
    """The reduction of what `part` is in each step of a grid that is not one of the `results`."""
    if not grid:  # a single step
        return part.substitute(moves.copies(closed_ranges(part)))
    rest = moves.copies((r for r in grid if r not in results), "loop")
    reading = results | rest
    read = tuple(reading[r] for r in grid)
    arg = StageArg("grid", tuple(map(loop_size, grid)))
    stage = Stage(part, TRUE, grid, read, grid, arg, part.dtype).node()
    return Reduce(stage, tuple(rest.values()), ReduceArg(part.arg.op)).node() if rest else stage
