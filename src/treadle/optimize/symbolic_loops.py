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

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir.accumulators import identity, identity_of, is_tuple, items
from ..ir.conditions import parts, without_not
from ..ir.interval import bounds
from ..ir.loops import Split, closed_ranges, free_ranges, has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify
from ..ir.views import End, Load, Reduce, Stage, Store, Where, bound_of, operand, operands
from .moves import Move, Moves

__all__ = ["PadLoops", "TrimLoops"]

# Kinds of loops whose steps run side by side, or are all there in every launch.
FIXED = ("unroll", "vector", "local", "subgroup")
FROM_MEMORY = (Op.LOAD, Op.REDUCE, Op.STAGE)


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
        outer = frozenset[Node]().union(*(self._free[n] for n in around))
        outer = frozenset(r for r in outer - {*loops} if r.arg.kind not in FIXED)
        outer |= frozenset(r for r in loops[: loops.index(loop)] if r.arg.kind not in FIXED)
        found = (_end_under(condition, loop, outer) for condition in self._needed(node))
        return next((end for end in found if end is not None), None)

    def _needed(self, node: Node) -> Iterator[Node]:
        """Conditions without which a step of the loops that end at `node` changes nothing."""
        if node.op is Op.REDUCE:
            reduce = Reduce.of(node)
            yield from _unless_identity(reduce.value, reduce.arg.op)
        elif node.op is Op.STAGE:
            yield from parts(Stage.of(node).gate)
        elif all(effect.op is Op.STORE for effect in End.of(node).effects):
            first, *others = (parts(Store.of(effect).gate) for effect in End.of(node).effects)
            yield from (part for part in first if all(part in more for more in others))


def _unless_identity(value: Node, op: Op) -> Iterator[Node]:
    """Conditions without which `value` leaves what it is combined with by `op` as it is."""
    if is_tuple(value):
        pairs = zip(items(value), items(identity_of(op, value)), strict=True)
        first, *others = (
            parts(Where.of(one).condition)
            if one.op is Op.WHERE and Where.of(one).no is none
            else ()
            for one, none in pairs
        )
        yield from (part for part in first if all(part in more for more in others))
        return
    neutral = identity(op, value.dtype) if value.dtype.count == 1 else None
    if value.op is Op.WHERE and Where.of(value).no is neutral:
        yield from parts(Where.of(value).condition)
        yield from _unless_identity(Where.of(value).yes, op)
    elif value.op is Op.LOAD and Load.of(value).is_gated and Load.of(value).other is neutral:
        yield from parts(Load.of(value).gate)
    elif value.op is Op.MUL and op is Op.ADD:
        for factor in operands(value):
            yield from _unless_identity(factor, op)
    elif (value.op is Op.CAST and op is Op.ADD) or (value.op is Op.REDUCE and value.arg.op is op):
        yield from _unless_identity(operand(value), op)
    elif value.op is Op.STAGE:
        stage = Stage.of(value)
        for condition in _unless_identity(stage.value, op):
            if (there := _where_read(condition, stage)) is not None:
                yield there


def _where_read(condition: Node, stage: Stage) -> Node | None:
    """A condition on what is kept, as it is where that is read; None where that is not known."""
    difference = _difference(condition)
    if difference is None:
        return None
    terms, total = linear_terms(difference)
    total = Node.index(total)
    for filled, read in zip(stage.filled, stage.read, strict=True):
        places, offset = linear_terms(filled)
        shared = next((r for r in places if r in stage.loops and r in terms), None)
        if shared is None or terms[shared] % places[shared]:
            continue
        factor = terms[shared] // places[shared]
        total = total + (read - offset) * factor
        for place, step in places.items():
            terms[place] = terms.get(place, 0) - factor * step
    terms = {term: step for term, step in terms.items() if step}
    if any(free_ranges(term)[term] & frozenset(stage.loops) for term in terms):
        return None
    for term, step in terms.items():
        total = total + term * step
    return Node.index(0) < simplify(total)


def _difference(condition: Node) -> Node | None:
    """What is above 0 where a comparison of index arithmetic holds."""
    compared, is_not = without_not(condition)
    if compared.op is not Op.CMPLT or operand(compared).dtype.kind != "index":
        return None
    low, high = operands(compared)
    return low - high + 1 if is_not else high - low


def _without_quotient(difference: Node, loop: Node) -> Node:
    """What is above 0 where `difference` is: n - i // 8 as n * 8 - i, if that is `loop`'s digit."""
    for term, step in linear_terms(difference)[0].items():
        is_quotient = term.op is Op.IDIV and operands(term)[1].op is Op.CONST
        if step == -1 and is_quotient and loop in free_ranges(term)[term]:
            number, by = operands(term)
            return simplify((difference + term) * by - number)
    return difference


def _end_under(condition: Node, loop: Node, outer: frozenset[Node]) -> Node | None:
    """The first step of `loop` from which on a condition on variables holds for no step.

    Whatever the other loops are, but those that are `outer`.
    """
    difference = _difference(condition)
    if difference is None:
        return None
    terms, offset = linear_terms(_without_quotient(difference, loop))
    step = -terms.pop(loop, 0)
    used = {n.op for n in difference.toposort()}
    if step <= 0 or Op.VARIABLE not in used or not used.isdisjoint(FROM_MEMORY):
        return None
    most = Node.index(offset)
    for term, factor in terms.items():
        free = free_ranges(term)[term]
        if loop in free:
            return None
        if free <= outer:
            most = most + term * factor
        else:
            low, high = bounds(term)
            most = most + int(factor * (high if factor > 0 else low))
    end = (most + (step - 1)) // step
    return simplify(end.maximum(0).minimum(loop_size(loop)))
