"""Moves of reductions: cut into chunks, shared by work items, cut in two, joined.

split_reduction(reduction((r3,)), r3, 64)     partial results of 64 chunks, then their sum
share_reduction(reduction((r3,)), r3, 128)    each of 128 work items takes every 128th step
remainder_loop(nest=0, block=32)              sum over 50240 of x[r] + sum over 17 of x[50240 + r]
fuse_reductions(.., ..)                       sum over r of x[r] and sum over s of x[s]**2: over r

What fills no vectors is a reduction of its own, as a mask in every step is a few instructions for
each vector: as many as a maximum takes itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..dtype import dtypes
from ..ir.accumulators import combined, is_in_order, items, tuple_of, where_inside
from ..ir.args import ReduceArg, StageArg, VarArg
from ..ir.loops import (
    TRUE,
    Split,
    closed_ranges,
    free_ranges,
    loop_size,
    number_of,
    ranges_of,
    replace_ranges,
)
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Reduce, Stage, bound_of
from .moves import Move, Moves
from .nest import Nest, has_inner_loops, lies_along, own_reductions
from .records import Loop, Reduction

__all__ = [
    "CutOffRemainders", "FuseReductions", "ShareReduction", "SplitReduction", "fuse_reductions",
    "in_same_loops",
]  # fmt: skip

FEW_PARTS = 16  # every work item combines so many parts of a shared reduction by itself


@dataclass(frozen=True)
class SplitReduction(Move):
    """Reductions over `loop` become `chunks` partial results and their combination.

    It is the named one and those in the same loops, whose partial results are made and kept
    together. These have an axis for each loop of the results, or for all loops of one of `axes`.
    """

    word = "split_reduction"

    reduction: Reduction
    loop: Loop
    chunks: int
    axes: tuple[tuple[Loop, ...], ...] = ()

    def apply(self, moves: Moves) -> Node:
        """Returns the loop of the combination."""
        reduce, loop = moves.reduce_of(self.reduction), moves.range_of(self.loop)
        chunks = self.chunks
        axes = tuple(tuple(map(moves.range_of, axis)) for axis in self.axes)
        if not axes:
            order = [r for nest in moves.nests() for r in nest.loops]
            axes = tuple((r,) for r in sorted(ranges_of(reduce), key=order.index))
        free = [r for axis in axes for r in axis]
        per_chunk = -(-loop_size(loop) // chunks)
        part, inner, total = moves.loop(chunks), moves.loop(per_chunk), moves.loop(chunks)
        position = part * per_chunk + inner
        guard = TRUE if chunks * per_chunk == loop_size(loop) else position < loop_size(loop)
        rest = moves.whole(r for r in closed_ranges(reduce) if r is not loop)
        splits = {loop: Split(position, (inner,), guard), **rest}
        together = in_same_loops(moves.root, reduce)
        partial = tuple_of([p for one in together for p in items(replace_ranges(one, splits))])
        # Statistics that it reads are combined anew there: loops belong to one nest.
        made = {r for split in splits.values() for r in split.ranges}
        inside = dict.fromkeys(r for n in own_reductions(partial) for r in closed_ranges(n))
        fresh = moves.copies((*free, *(r for r in inside if r not in made)))
        value = partial.substitute(fresh)
        sizes = (chunks, *(loop_size(*axis) for axis in axes))
        kept = [number_of(axis) for axis in axes]
        stored = [place.substitute(fresh) for place in kept]
        loops = (part, *(fresh[r] for r in free))
        arg = StageArg("grid", sizes)
        stage = Stage(value, TRUE, (part, *stored), (total, *kept), loops, arg, value.dtype)
        combined = _each(stage.node(), together, (total,))
        moves.root = simplify(moves.root.substitute(combined))
        return total


def in_same_loops(root: Node, reduce: Node) -> list[Node]:
    """The reductions of the same results in the loops of one of them."""
    loops, results = closed_ranges(reduce), ranges_of(reduce)
    found = (n for n in root.toposort() if n.op is Op.REDUCE and closed_ranges(n) == loops)
    return [n for n in found if ranges_of(n) == results]


def _each(
    parts: Node, together: list[Node], loops: tuple[Node, ...], guard: Node = TRUE
) -> dict[Node, Node]:
    """Those `together` as reductions of their `parts`, which are kept as one tuple."""
    left, made = iter(items(parts)), dict[Node, Node]()
    for reduce in together:
        mine, op = tuple_of([next(left) for _ in items(reduce)]), reduce.arg.op
        mine = mine if guard is TRUE else where_inside(guard, mine, op)
        made[reduce] = Reduce(mine, loops, ReduceArg(op)).node()
    return made


@dataclass(frozen=True)
class CutOffRemainders(Move):
    """Each long contiguous reduction of a nest is cut behind its last whole block of steps.

    Or those of one `loop` alone.
    """

    word = "remainder_loop"

    nest: int
    block: int
    loop: Loop | None = None

    def apply(self, moves: Moves) -> dict[Node, tuple[Node, Node]]:
        """Returns what each loop that was cut became: whole blocks, and the rest."""
        nest, block = moves.nest_of(self.nest), self.block
        only = None if self.loop is None else moves.range_of(self.loop)
        made: dict[Node, tuple[Node, Node]] = {}  # reductions that share a loop go on sharing
        cut: dict[Node, Node] = {}
        for reduce in nest.reduces:
            total, (loop, *others), arg = Reduce.of(reduce)
            size = loop_size(loop)
            is_wanted = only in (None, loop) and not others and loop.arg.kind == "loop"
            if not is_wanted or size % block == 0 or size < block:
                continue
            if not lies_along(total, loop) or has_inner_loops(total, loop):
                continue
            rest = size % block
            if loop not in made:
                made[loop] = moves.loop(size - rest), moves.loop(rest)
            whole, last = made[loop]
            value = total.substitute(cut)  # what it uses comes before it
            parts = (
                Reduce(value.substitute({loop: step}), (inner,), arg).node()
                for step, inner in ((whole, whole), (last + (size - rest), last))
            )
            in_order = is_in_order(arg.op, total, (loop,))
            cut[reduce] = combined(arg.op, *parts, in_order=in_order)
        moves.root = moves.root.substitute(cut)
        return made


@dataclass(frozen=True)
class ShareReduction(Move):
    """Reductions over `loop` are shared among the work items of a workgroup.

    It is the named one and those in the same loops. Neighbouring work items read neighbouring
    positions. They combine their parts in a tree of two levels, or by `subgroup`, the least and the
    most work items of one.
    """

    word = "share_reduction"

    reduction: Reduction
    loop: Loop
    work_items: int
    subgroup: tuple[int, int] | None = None

    @property
    def choices(self) -> tuple[str, ...]:
        """Which of the two ways it is."""
        return ("tree_reduction" if self.subgroup is None else "subgroup_reduction",)

    def forms(self) -> tuple[ShareReduction, ...]:
        """By a tree, where it is by subgroups."""
        return () if self.subgroup is None else (replace(self, subgroup=None),)

    def apply(self, moves: Moves) -> list[Node]:
        """Returns the loops that combine the parts."""
        reduce, loop = moves.reduce_of(self.reduction), moves.range_of(self.loop)
        size = loop_size(loop)
        work_item = moves.loop(self.work_items, "local")
        turn = moves.loop(-(-size // self.work_items))
        position = turn * self.work_items + work_item
        guard = TRUE if size % self.work_items == 0 else position < size
        splits = moves.whole(r for r in closed_ranges(reduce) if r is not loop)
        splits[loop] = Split(position, (turn,), guard)
        made = {one: replace_ranges(one, splits) for one in in_same_loops(moves.root, reduce)}
        if self.subgroup is None:
            made, combining = _by_tree(moves, made, work_item)
        else:
            made, combining = _by_subgroup(moves, made, work_item, *self.subgroup)
        moves.root = simplify(moves.root.substitute(made))
        return combining


def _by_tree(
    moves: Moves, values: dict[Node, Node], work_item: Node
) -> tuple[dict[Node, Node], list[Node]]:
    """The `values` of all work items of a workgroup, combined in memory, level by level."""
    parts, combining = loop_size(work_item), []
    while parts > FEW_PARTS:
        kept = 1 << (parts.bit_length() // 2)
        inner, following = moves.loop(parts // kept), moves.loop(kept, "local")
        stage = _shared_line(values, work_item, inner * kept + following)
        values = _each(stage, [*values], (inner,))
        combining.append(inner)
        parts, work_item = kept, following
    combining.append(moves.loop(parts))
    stage = _shared_line(values, work_item, combining[-1])
    return _each(stage, [*values], (combining[-1],)), combining


def _by_subgroup(
    moves: Moves, values: dict[Node, Node], work_item: Node, least: int, most: int
) -> tuple[dict[Node, Node], list[Node]]:
    """The `values` of all work items of a workgroup, combined once by each of its subgroups.

    Every work item leaves its value in memory. Then each subgroup reads the values of all work
    items, neighbours side by side, and combines what its work items have read without memory. So
    there is one barrier, and the order is the same in every run. The usual way round (a value of
    each subgroup through memory) reads as much, but has to know which work items form a subgroup:
    that languages leave open.

    Where its size is open as well, a subgroup counts its work items, so that nothing depends on
    whether it is full. One of a fixed size that divides the workgroup is full.
    """
    work_items = loop_size(work_item)
    count = Node.index(most)
    if least != most or work_items % most:
        count = Node(Op.WORK_ITEM, dtypes.index, (), VarArg("lanes", 1, most))
    turns = simplify((count + (work_items - 1)) // count)
    turn, lane = moves.loop(turns), moves.loop(count, "subgroup")
    place = turn * count + lane
    stage = _shared_line(values, work_item, simplify(place.minimum(Node.index(work_items - 1))))
    return _each(stage, [*values], (turn, lane), simplify(place < work_items)), [turn, lane]


def _shared_line(values: dict[Node, Node], work_item: Node, place: Node) -> Node:
    """What each work item computes as `values`, kept for its workgroup and read at `place`."""
    value = tuple_of([part for one in values.values() for part in items(one)])
    arg = StageArg("shared", (loop_size(work_item),))
    return Stage(value, TRUE, (work_item,), (place,), (work_item,), arg, value.dtype).node()


# -- reductions of the same elements ---------------------------------------------------------------


def fuse_reductions(moves: Moves) -> None:
    """Give reductions that read the same elements the same loops."""
    while (found := _joinable(moves)) is not None:
        moves.make(FuseReductions(*map(moves.name_of, found)))


@dataclass(frozen=True)
class FuseReductions(Move):
    """The reduction `other` runs in the loops of `one`."""

    word = "fuse_reductions"

    one: Reduction
    other: Reduction

    def apply(self, moves: Moves) -> None:
        one, other = moves.reduce_of(self.one), moves.reduce_of(self.other)
        moves.root = moves.root.substitute({other: _in_loops_of(one, other)})


def _joinable(moves: Moves) -> tuple[Node, Node] | None:
    """Two reductions of one nest, the second of which can run in the loops of the first.

    Those are always the loops of smaller numbers: what reads like two others, which read nothing
    alike, would change between their loops for ever.
    """
    for nest in moves.open_nests():
        known: dict[tuple[object, ...], list[Node]] = {}
        for reduce, key in _whole_reductions(nest):
            for other in known.setdefault(key, []):
                # They are to load the same element of the same memory at each step.
                reads = _loads(_in_loops_of(reduce, other))
                if closed_ranges(other) != closed_ranges(reduce) and reads & _loads(reduce):
                    numbers = lambda one: [loop.arg.number for loop in closed_ranges(one)]
                    one, later = sorted((other, reduce), key=numbers)
                    return one, later
            known[key].append(reduce)
    return None


def _whole_reductions(nest: Nest) -> list[tuple[Node, tuple[object, ...]]]:
    """The outermost reductions, each with what it must have in common with one it is joined with.

    How many reductions stand one below the other tells what needs what: those of equal depth do
    not need each other, nor does any that both need.
    """
    free, depths = free_ranges(nest.node), {}
    found = []
    for node in nest.node.toposort():
        depth = max((depths[s] for s in node.src), default=0)
        depths[node] = depth + (node.op is Op.REDUCE)
        if node.op is Op.REDUCE and free[node] <= frozenset(nest.loops):
            sizes = tuple(bound_of(r) for r in closed_ranges(node))
            found.append((node, (depth, free[node], sizes)))
    return found


def _in_loops_of(one: Node, other: Node) -> Node:
    """The reduction `other` in the loops of `one`."""
    return other.substitute(dict(zip(closed_ranges(other), closed_ranges(one), strict=True)))


def _loads(reduce: Node) -> set[Node]:
    return {n for n in Reduce.of(reduce).value.toposort() if n.op is Op.LOAD}
