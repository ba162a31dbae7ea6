"""Bounds of loops under masks: which steps change nothing, and between which bounds others are.

    s = where(j <= i, q @ k.T, -inf);  softmax(s) @ v
      ->  for row i, s is -inf and exp(s - max) is 0 from j = i + 1 on, so that the maximum, the sum
          and the product with v need no more than the first i + 1 elements

A condition is needed for a step if the step's value is the identity of what it is combined by
wherever the condition does not hold. Comparisons of index arithmetic are solved for a loop.

What a mask hides is not looked at, so an infinity or NaN hidden there does not reach the result.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..ir.accumulators import identity, identity_of, is_tuple, items
from ..ir.conditions import all_of, constraints, negation, parts
from ..ir.fold import fold_scalar
from ..ir.interval import bounds
from ..ir.loops import Ranges, Split, loop_size, ranges_of
from ..ir.node import Node, changed
from ..ir.op import ALU, Op
from ..ir.rules.index import linear_terms, simplify, sum_terms
from ..ir.views import Load, Reduce, Stage, Where, operands

__all__ = [
    "Span", "common", "cuts", "extreme", "needed", "shown", "span_of", "span_of_rows",
    "value_where", "whole_box",
]  # fmt: skip

COMPUTED = ALU | {Op.QUICK_EXP2}
FROM_MEMORY = (Op.LOAD, Op.REDUCE, Op.STAGE)

Values = dict[Node, complex]  # by condition: what a node is where that does not hold
Box = Mapping[Node, tuple[Node, Node]]  # the first and the last place that loops are at


@dataclass(frozen=True)
class Span:
    """Steps `begin` to `end` of a loop: all else counts for nothing."""

    begin: Node
    end: Node

    @classmethod
    def of(cls, size: int) -> Span:
        return cls(Node.index(0), Node.index(size))

    @property
    def loops(self) -> Ranges:
        """The loops that say where it is."""
        return ranges_of(self.begin) | ranges_of(self.end)

    def __and__(self, other: Span) -> Span:
        """The steps of both."""
        first, last = self.begin.maximum(other.begin), self.end.minimum(other.end)
        return Span(simplify(first), simplify(last))

    def __or__(self, other: Span) -> Span:
        """The steps of either, and those between."""
        first, last = self.begin.minimum(other.begin), self.end.maximum(other.end)
        return Span(simplify(first), simplify(last))

    def over(self, box: Box) -> Span | None:
        """The steps that count anywhere in a box of loops, if that is known."""
        begin, end = extreme(self.begin, box, False), extreme(self.end, box, True)
        return None if begin is None or end is None else Span(begin, end)

    def within(self, size: int) -> Span:
        """The span of a loop of so many steps."""
        return Span(*(simplify(n.maximum(0).minimum(size)) for n in (self.begin, self.end)))

    def substitute(self, mapping: dict[Node, Node]) -> Span:
        return Span(self.begin.substitute(mapping), self.end.substitute(mapping))

    def rounded(self, steps: int) -> Span:
        """The span in whole multiples of `steps`."""
        return Span(self.begin // steps * steps, (self.end + (steps - 1)) // steps * steps)

    def less(self, done: Node) -> Span:
        """The span as it is counted from `done` on."""
        return Span(self.begin - done, self.end - done)

    def loop(self, whole: Node, length: int) -> Split:
        """The steps of the loop `whole`, each `length` long, that touch the span."""
        begin = simplify((self.begin // length).maximum(0))
        end = simplify(((self.end + (length - 1)) // length).minimum(loop_size(whole)))
        new = whole.replace(src=(simplify(end - begin),))
        return Split(simplify(new + begin), (new,))


def whole_box(loops: Iterable[Node]) -> Box:
    """All steps of loops."""
    return {r: (r.like(0), r.like(loop_size(r) - 1)) for r in loops}


def extreme(node: Node, box: Box, is_most: bool) -> Node | None:
    """The most, or the least, that index arithmetic can be in a box of loops; None if unknown."""
    if node in box:
        return box[node][is_most]
    if ranges_of(node).isdisjoint(box):
        return node
    terms, offset = linear_terms(node)
    if terms != {node: 1}:
        total = Node.index(offset)
        for term, factor in terms.items():
            one = extreme(term, box, is_most == (factor > 0))
            if one is None:
                return None
            total = total + one * factor
        return simplify(total)
    # A quotient grows with its number where the divisor is one number above 0 in all of the box.
    by = operands(node)[1] if node.op is Op.IDIV else None
    grows = by is not None and ranges_of(by).isdisjoint(box) and bounds(by)[0] > 0
    if grows or node.op in (Op.MAX, Op.MIN):
        return _with_sources(node, [extreme(side, box, is_most) for side in node.src])
    limit = bounds(node)[is_most]
    return None if math.isinf(limit) else Node.index(limit)


def cuts(condition: Node, box: Box) -> Node | None:
    """1 if a condition may not hold in all of a box, else 0; None if that is unknown."""
    sums = constraints(condition)
    least = None if sums is None else [extreme(one, box, False) for one in sums]
    total = Node.index(0)
    for one in (None,) if least is None else least:
        if one is None:
            return None
        total = total.maximum((-one).maximum(0).minimum(1))
    return simplify(total)


def _with_sources(node: Node, src: list[Node | None]) -> Node | None:
    """A node with other sources, if there are all of them."""
    found = tuple(source for source in src if source is not None)
    return simplify(node.replace(src=found)) if len(found) == len(src) else None


# -- which steps change nothing -------------------------------------------------------------------


def needed(value: Node, op: Op, others_are_finite: bool = True) -> list[Node]:
    """Conditions without any of which `value` leaves what it is combined with by `op` as it is.

    Of `others_are_finite` 0 times anything is 0.
    """
    nones = items(identity_of(op, value))
    first, *others = (
        [c for c, number in _values(one, {}, others_are_finite).items() if number == none.value]
        for one, none in zip(items(value), nones, strict=True)
    )
    return common(first, *others)


def shown(root: Node, conditions: Iterable[Node]) -> Node:
    """`root` where `conditions` hold: no WHERE asks for them, but gates of LOADs still do."""
    known = frozenset(conditions)

    def change(_: Node, now: Node) -> Node:
        if now.op is not Op.WHERE:
            return now
        guard, yes, no = Where.of(now)
        if known.issuperset(parts(negation(guard))):
            return no
        return all_of(part for part in parts(guard) if part not in known).where(yes, no)

    (found,) = changed((root,), change)
    return found


def common(first: Iterable[Node], *others: Iterable[Node]) -> list[Node]:
    """The conditions that are in all lists, in the order of the first."""
    return [part for part in first if all(part in more for more in others)]


def value_where(
    root: Node, known: dict[Node, float], others_are_finite: bool = True
) -> complex | None:
    """What `root` is where the nodes `known` are such numbers, if that is one number."""
    here = Node.index(0)  # stands for the condition
    values: dict[Node, Values] = {node: {here: value} for node, value in known.items()}
    return _values(root, values, others_are_finite).get(here)


def _values(root: Node, known: dict[Node, Values], others_are_finite: bool) -> Values:
    """What `root` is, condition by condition, where that does not hold."""
    found = dict(known)
    for node in root.toposort(lambda n: n not in known and n.op is not Op.STAGE):
        if node not in known:
            found[node] = _of_node(node, found, others_are_finite)
    return found[root]


def _of_node(node: Node, found: dict[Node, Values], others_are_finite: bool) -> Values:
    number = lambda n, condition: n.value if n.op is Op.CONST else found[n].get(condition)
    if node.op is Op.LOAD:
        load = Load.of(node)
        hidden = number(load.other, load.gate)
        return {} if hidden is None else dict.fromkeys(parts(load.gate), hidden)
    if node.op is Op.STAGE:
        stage = Stage.of(node)
        kept = _values(stage.value, {}, others_are_finite).items()
        return {there: v for c, v in kept if (there := _where_read(c, stage)) is not None}
    if node.op is Op.REDUCE and not is_tuple(node):
        value, loops, arg = Reduce.of(node)
        none = identity(arg.op, node.dtype).value
        kept = [c for c, v in found[value].items() if v == none]
        return {there: none for c in kept if (there := _in_any(c, loops)) is not None}
    values: Values = {}
    if node.op not in COMPUTED:
        return values
    for condition in dict.fromkeys(c for s in node.src for c in found.get(s, ())):
        numbers = [number(s, condition) for s in node.src]
        if (result := _result(node, numbers, others_are_finite)) is not None:
            values[condition] = result
    if node.op is Op.WHERE:
        guard, yes, no = Where.of(node)
        for hidden, conditions in ((no, guard), (yes, negation(guard))):
            for condition in parts(conditions):
                if (result := number(hidden, condition)) is not None:
                    values[condition] = result
    return values


def _result(node: Node, numbers: list[complex | None], others_are_finite: bool) -> complex | None:
    """The result of an operation, if what is known of its values decides it."""
    op = node.op
    if op is Op.WHERE:
        condition, yes, no = numbers
        return yes if yes == no else None if condition is None else yes if condition else no
    known = [number for number in numbers if number is not None]
    if len(known) == len(numbers):
        op = Op.EXP2 if op is Op.QUICK_EXP2 else op
        return fold_scalar(op, node.dtype, tuple(s.dtype for s in node.src), tuple(known))
    if op in (Op.ADD, Op.SUB):
        infinite = next((n for n in known if abs(n) == math.inf), None)
        return infinite if op is Op.ADD or infinite == numbers[0] else None
    is_zero = 0 in known if op is Op.MUL else op is Op.FDIV and numbers[0] == 0
    return 0.0 if is_zero and others_are_finite else None


def _changed(condition: Node, change: Callable[[Node], Node | None]) -> Node | None:
    """A condition with each sum of loops changed that is at least 0 where it holds."""
    if condition.op is Op.OR:
        return _with_sources(condition, [_changed(side, change) for side in condition.src])
    sums = [change(one) for one in constraints(condition) or (None,) if one is not None]
    limits = [~(simplify(one) < 0) for one in sums if one is not None]
    return all_of(limits) if sums and len(limits) == len(sums) else None


def _in_any(condition: Node, loops: tuple[Node, ...]) -> Node | None:
    """A condition that holds where another one does in any step of `loops`, if there is one."""
    if ranges_of(condition).isdisjoint(loops):
        return condition
    box = whole_box(loops)
    return _changed(condition, lambda one: extreme(one, box, True))


def _where_read(condition: Node, stage: Stage) -> Node | None:
    """A condition on what is kept, as it is where that is read; None where that is not known."""

    def change(one: Node) -> Node | None:
        terms, offset = linear_terms(one)
        total = Node.index(offset)
        for filled, read in zip(stage.filled, stage.read, strict=True):
            places, offset = linear_terms(filled)
            shared = next((r for r in places if r in stage.loops and r in terms), None)
            if shared is None or terms[shared] % places[shared]:
                continue
            factor = terms[shared] // places[shared]
            total = total + (read - offset) * factor
            for place, step in places.items():
                terms[place] = terms.get(place, 0) - factor * step
        rest = sum_terms({term: step for term, step in terms.items() if step}, 0)
        return total + rest if ranges_of(rest).isdisjoint(stage.loops) else None

    return _changed(condition, change)


# -- between which bounds others are --------------------------------------------------------------


def span_of(conditions: Iterable[Node], loop: Node, around: Ranges | None = None) -> Span:
    """Between which steps of `loop` all `conditions` hold, as loops `around` say, or any."""
    span = Span.of(loop_size(loop))
    for condition in conditions:
        loops = ranges_of(condition)
        if loop in loops and (around is None or loops - {loop} <= around):
            span &= _solved(condition, loop) or span
    return span


def _solved(condition: Node, loop: Node) -> Span | None:
    """Between which steps of `loop` a condition holds; None where other loops do not say."""
    span = Span.of(loop_size(loop))
    condition = negation(negation(condition))
    if condition.op is Op.OR:
        sides = [_solved(side, loop) for side in condition.src]
        return None if None in sides else functools.reduce(Span.__or__, filter(None, sides))
    sums = constraints(condition)
    if sums is None or any(n.op in FROM_MEMORY for n in condition.toposort()):
        return None
    for one in sums:
        terms, rest = linear_terms(_without_quotient(one, loop))
        by = terms.pop(loop, 0)
        others = sum_terms(terms, rest)
        if by == 0 or loop in ranges_of(others):
            return None
        if by < 0:
            span &= Span(span.begin, others // -by + 1)
        else:
            span &= Span((by - 1 - others) // by, span.end)
    return span


def _without_quotient(sums: Node, loop: Node) -> Node:
    """The same without `loop`'s quotient: n - i // 8 is at least 0 where n * 8 + 7 - i is."""
    for term, step in linear_terms(sums)[0].items():
        is_quotient = term.op is Op.IDIV and operands(term)[1].op is Op.CONST
        if step == -1 and is_quotient and loop in ranges_of(term):
            number, by = operands(term)
            return simplify((sums + term) * by + (by - 1) - number)
    return sums


def span_of_rows(reduces: Iterable[Node], size: int, around: Ranges) -> Span | None:
    """What counts of rows in `reduces`, all reductions along them; None if all of it may.

    Loops `around` say it.
    """
    span: Span | None = None
    for reduce in reduces:
        value, loops, arg = Reduce.of(reduce)
        if len(loops) != 1:  # along the rows and some other way
            return None
        mine = span_of(needed(value, arg.op), *loops, around)
        span = mine if span is None else span | mine
    return None if span is None or (span.begin.value, span.end.value) == (0, size) else span
