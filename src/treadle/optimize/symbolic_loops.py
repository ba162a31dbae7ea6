"""Loops whose size is known at launch only: of the largest size, under a mask, and cut at last.

    for i < n: out[i] = x[i] * 2                                          n is at most 64
      ->  for i < 64: if i < n: out[i] = x[i] * 2                         PadLoops, the first move
      ->  for o < 8: for l < 8: if o * 8 + l < n: ...                     all others
      ->  for o < (n + 7) // 8: for l < 8: if o * 8 + l < n: ...          TrimLoops, the last one

All other moves need sizes that are numbers. The masks keep stores, loads and reductions to what was
there before. A loop whose last steps neither store anything nor add to a reduction ends before
them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.conditions import parts
from ..ir.loops import Split, closed_ranges, free_ranges, has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import End, Reduce, Stage, Store, bound_of
from .masked_bounds import common, extreme, needed, span_of
from .moves import Move, Moves

__all__ = ["PadLoops", "TrimLoops"]

# Kinds of loops whose steps run side by side, or are all there in every launch.
FIXED = ("unroll", "vector", "local", "subgroup")


@dataclass(frozen=True)
class PadLoops(Move):
    """Loops of sizes that variables decide become loops of the largest size, under a mask."""

    word = "pad_loops"

    def apply(self, moves: Moves) -> None:
        if all(n.op is not Op.RANGE or has_fixed_size(n) for n in moves.root.toposort()):
            return
        root = simplify(moves.root)  # where a loop ends, its size is written as it is inside
        free = free_ranges(root)
        splits: dict[Node, Split] = {}
        for loop in root.toposort():
            if loop.op is Op.RANGE and not has_fixed_size(loop) and not free[bound_of(loop)]:
                new = moves.loop(loop_size(loop), loop.arg.kind)
                splits[loop] = Split(new, (new,), simplify(new < bound_of(loop)))
        if splits:
            moves.root = root
            moves.replace_loops(splits)


@dataclass(frozen=True)
class TrimLoops(Move):
    """Loops end where masks say that nothing comes of further steps, which launches decide."""

    word = "trim_loops"

    def apply(self, moves: Moves) -> None:
        if not moves.schedule().of_kind(PadLoops):
            return
        done: set[Node] = set()
        shares_grid = moves.target.workgroup is None
        while (found := _Loops(moves.root, done, shares_grid).next_limit()) is not None:
            loop, limit = found
            if loop.arg.kind != "grid":
                new = moves.loop(limit)
                done.add(new)
                moves.replace_loops({loop: Split(new, (new,))})
                continue
            # Workers take turns: a grid has the same size in every launch.
            count = -(-loop_size(loop) // 2)
            first = moves.loop(count, "grid")
            turn = moves.loop(simplify((limit - first + (count - 1)) // count))
            done.update((first, turn))
            moves.replace_loops({loop: Split(turn * count + first, (first, turn))})


class _Loops:
    """The loops of a kernel of which those that are `done` end where they should."""

    def __init__(self, root: Node, done: set[Node], shares_grid: bool) -> None:
        self._done = done
        self._open = ("loop", "grid") if shares_grid else ("loop",)
        self._order = root.toposort()
        self._free = free_ranges(root)

    def next_limit(self) -> tuple[Node, Node] | None:
        """An outermost loop that can end earlier, and where; None if there is none."""
        closers: dict[Node, list[Node]] = {}
        for node in reversed(self._order):
            for loop in closed_ranges(node):
                closers.setdefault(loop, []).append(node)
        for loop, closing in closers.items():
            is_open = loop.arg.kind in self._open and has_fixed_size(loop)
            if loop in self._done or not is_open or loop_size(loop) < 2:
                continue
            limits = {self._limit(node, loop) for node in closing}
            if len(limits) == 1 and (limit := limits.pop()) is not None:
                return loop, limit
        return None

    def _limit(self, node: Node, loop: Node) -> Node | None:
        """Where `loop`, which ends at `node`, can end; None where every step may count."""
        loops = closed_ranges(node)
        around = Stage.of(node).filling if node.op is Op.STAGE else (node,)
        outer = frozenset[Node]().union(*(self._free[n] for n in around)) - {*loops}
        outer |= frozenset(loops[: loops.index(loop)])
        outer = {r for r in outer if r.arg.kind not in FIXED}
        for condition in _needed(node):
            span = span_of([condition], loop)
            inner = {r: (r.like(0), r.like(loop_size(r) - 1)) for r in span.loops - outer}
            end = extreme(span.end, inner, True)
            if end is not None and any(n.op is Op.VARIABLE for n in end.toposort()):
                return simplify(end.maximum(0))
        return None


def _needed(node: Node) -> list[Node]:
    """Conditions without which a step of the loops that end at `node` changes nothing."""
    if node.op is Op.REDUCE:
        reduce = Reduce.of(node)
        return needed(reduce.value, reduce.arg.op)
    if node.op is Op.STAGE:
        return parts(Stage.of(node).gate)
    effects = End.of(node).effects
    if any(effect.op is not Op.STORE for effect in effects):
        return []
    return common(*(parts(Store.of(effect).gate) for effect in effects))
