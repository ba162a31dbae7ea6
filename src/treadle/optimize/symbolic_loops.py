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
from ..ir.loops import Split, closed_ranges, has_fixed_size, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import End, Reduce, Stage, Store, bound_of
from .masked_bounds import common, extreme, needed, span_of, whole_box
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
        loops = (n for n in root.toposort() if n.op is Op.RANGE and not has_fixed_size(n))
        splits = {
            loop: Split(new, (new,), simplify(new < bound_of(loop)))
            for loop, new in moves.copies(r for r in loops if not ranges_of(bound_of(r))).items()
        }
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
        kinds = ("loop", "grid") if moves.target.workgroup is None else ("loop",)
        while (found := _next_limit(moves.root, done, kinds)) is not None:
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


def _next_limit(root: Node, done: set[Node], kinds: tuple[str, ...]) -> tuple[Node, Node] | None:
    """An outermost loop that can end earlier, and where; None if there is none.

    It is of one of `kinds`. Those that are `done` end where they should.
    """
    closers: dict[Node, list[Node]] = {}
    for node in reversed(root.toposort()):
        for loop in closed_ranges(node):
            closers.setdefault(loop, []).append(node)
    for loop, closing in closers.items():
        is_open = loop.arg.kind in kinds and has_fixed_size(loop)
        if loop in done or not is_open or loop_size(loop) < 2:
            continue
        limits = {_limit(node, loop) for node in closing}
        if len(limits) == 1 and (limit := limits.pop()) is not None:
            return loop, limit
    return None


def _limit(node: Node, loop: Node) -> Node | None:
    """Where `loop`, which ends at `node`, can end; None where every step may count."""
    loops = closed_ranges(node)
    around = Stage.of(node).filling if node.op is Op.STAGE else (node,)
    outer = ranges_of(Node.sink(around)) - {*loops} | {*loops[: loops.index(loop)]}
    outer = {r for r in outer if r.arg.kind not in FIXED}
    for condition in _needed(node):
        span = span_of([condition], loop)
        end = extreme(span.end, whole_box(span.loops - outer), True)
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
