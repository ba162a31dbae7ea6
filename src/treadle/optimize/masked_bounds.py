"""Bounds of a row under a mask: from where to where it is neither -inf nor 0.

    s = where(j <= i, q @ k.T, -inf);  softmax(s) @ v
      ->  for row i, s is -inf and exp(s - max) is 0 from j = i + 1 on, so that the maximum, the sum
          and the product with v need no more than the first i + 1 elements

What a mask hides is not looked at, so an infinity or NaN hidden there does not reach the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..dtype import DType
from ..ir.conditions import without_not
from ..ir.fold import fold_scalar
from ..ir.interval import bounds
from ..ir.loops import Split, free_ranges, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import ALU, Op
from ..ir.rules.index import linear_terms, simplify, sum_terms
from ..ir.views import Reduce, Stage, operand
from .nest import stride

__all__ = ["Limits", "Span", "as_index", "limits_of"]

IDENTITY: dict[Op, float] = {Op.ADD: 0, Op.MAX: -math.inf, Op.MIN: math.inf}


@dataclass(frozen=True)
class Span:
    """Steps `begin` to `end` of rows: all else counts for nothing."""

    begin: Node
    end: Node

    @property
    def loops(self) -> frozenset[Node]:
        """The loops that say where it is."""
        return ranges_of(self.begin) | ranges_of(self.end)

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


@dataclass(frozen=True)
class Limits:
    """Each row of `size` counts from the first of `begins` to the last of `ends`."""

    begins: tuple[Node, ...]
    ends: tuple[Node, ...]
    size: int

    def of_rows(self, row: Node, first: Node, rows: int, around: frozenset[Node]) -> Span | None:
        """What counts of any of `rows` rows from `first` on; None if loops `around` do not say."""
        outermost: list[Node] = []
        for places, at_end in ((self.begins, False), (self.ends, True)):
            found = []
            for place in places:
                step = stride(place, row)
                if step is None or not ranges_of(place) <= around:
                    return None
                last = (step > 0) == at_end
                found.append(place.substitute({row: first + (rows - 1 if last else 0)}))
            found = found or [Node.index(self.size if at_end else 0)]
            op = Op.MAX if at_end else Op.MIN
            most = found[0]
            for place in found[1:]:
                most = most.alu(op, place)
            outermost.append(most.maximum(0).minimum(self.size))
        return Span(*outermost)


def limits_of(reduces: Iterable[Node], fills: dict[Node, Node], size: int) -> Limits | None:
    """What counts of each row, in the loops around the rows; None if all of it does.

    `reduces` are all reductions along the rows; `fills` says for the loop that fills a row what it
    is filled with.
    """
    reduces = list(reduces)
    begins, ends = (_places(reduces, fills, at_end) for at_end in (False, True))
    return Limits(begins, ends, size) if begins or ends else None


def _places(reduces: list[Node], fills: dict[Node, Node], at_end: bool) -> tuple[Node, ...]:
    """Where what counts begins, or ends; nothing if it does so with the rows."""
    tails = _Tails(fills, at_end)
    for reduce in reduces:
        value, loops, _ = Reduce.of(reduce)
        if len(loops) != 1:  # along the rows and some other way
            return ()
        tail = tails.of(value, *loops)
        if tail is None or tail != IDENTITY.get(reduce.arg.op):
            return ()
    return tuple(tails.places)


@dataclass
class _Tails:
    fills: dict[Node, Node]
    at_end: bool
    places: dict[Node, None] = field(default_factory=dict)

    def of(self, root: Node, loop: Node) -> float | None:
        """What `root` is for the last (or first) steps of `loop`, if that is one number."""
        free = free_ranges(root)
        found: dict[Node, float | None] = {}
        for node in root.toposort(lambda n: n.op is not Op.STAGE):
            found[node] = self._one(node, loop, found) if loop in free[node] else _number(node)
        return found[root]

    def _one(self, node: Node, loop: Node, found: dict[Node, float | None]) -> float | None:
        if node.op is Op.STAGE:
            stage = Stage.of(node)
            if stage.read != (loop,):
                return None
            (fill,) = stage.filled
            return self.of(self.fills[fill], fill) if fill in self.fills else None
        if node.op is Op.WHERE:
            condition, yes, no = node.src
            known = self._condition(condition, loop)
            return None if known is None else found[yes if known else no]
        if node.op not in ALU:
            return None
        return _absorbed(node.op, [found[s] for s in node.src], node.dtype)

    def _condition(self, node: Node, loop: Node) -> bool | None:
        """What a condition is for the last (or first) steps of `loop`; notes where that changes."""
        compared, is_not = without_not(node)
        if is_not:
            inner = self._condition(compared, loop)
            return None if inner is None else not inner
        if node.op in (Op.AND, Op.OR):
            sides = [self._condition(s, loop) for s in node.src]
            decisive = node.op is Op.OR
            return decisive if decisive in sides else None if None in sides else not decisive
        if node.op is not Op.CMPLT:
            return None
        low, high = (as_index(s) for s in node.src)
        if low is None or high is None:
            return None
        terms, rest = linear_terms(simplify(high - low))
        step = terms.pop(loop, 0)
        others = sum_terms(terms, rest)
        if abs(step) != 1 or loop in ranges_of(others):
            return None
        self.places[simplify(others if step < 0 else 1 - others)] = None
        return (step > 0) == self.at_end


def _number(node: Node) -> float | None:
    return node.arg if node.op is Op.CONST and node.dtype.is_float else None


def _absorbed(op: Op, values: list[float | None], dtype: DType) -> float | None:
    """The result of an operation one of whose values decides it, whatever (finite) the others."""
    if all(v is not None for v in values):
        known = [v for v in values if v is not None]
        types = (dtype,) * len(known)
        return fold_scalar(op, dtype, types, tuple(known)).real if dtype.is_float else None
    first = values[0]
    if op is Op.MUL and 0 in values:
        return 0.0
    if op is Op.FDIV and first == 0:
        return 0.0
    if op is Op.SUB and first is not None and math.isinf(first):
        return first
    if op is Op.ADD:
        return next((v for v in values if v is not None and math.isinf(v)), None)
    return None


def as_index(node: Node) -> Node | None:
    """Integer arithmetic on loops as index arithmetic, where it cannot overflow."""
    if node.dtype.kind == "index":
        return node
    new: dict[Node, Node] = {}
    for item in node.toposort(lambda n: n.dtype.kind != "index"):
        if item.dtype.kind == "index":
            new[item] = item
        elif item.op is Op.CONST and item.dtype.is_int:
            new[item] = Node.index(item.arg)
        elif item.op is Op.CAST and operand(item) in new:
            new[item] = new[operand(item)]
        elif item.op in (Op.ADD, Op.SUB, Op.MUL) and all(s in new for s in item.src):
            left, right = (new[s] for s in item.src)
            new[item] = left.alu(item.op, right)
        else:
            return None
        low, high = bounds(new[item])
        if item.dtype.kind != "index" and not item.dtype.min <= low <= high <= item.dtype.max:
            return None
    return simplify(new[node])
