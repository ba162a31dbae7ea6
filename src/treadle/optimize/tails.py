"""Where the rows of a chain of products begin and end, if a mask makes the rest -inf or 0.

    s = where(j <= i, q @ k.T, -inf);  softmax(s) @ v
      ->  for row i, s is -inf and exp(s - max) is 0 from j = i + 1 on, so that the maximum, the sum
          and the product with v need no more than the first i + 1 elements

What a mask hides is not looked at, so an infinity or NaN hidden there does not reach the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce as fold

from ..dtype import DType
from ..ir.fold import fold_scalar
from ..ir.interval import bounds
from ..ir.loops import Split, free_ranges
from ..ir.node import Node
from ..ir.op import ALU, Op
from ..ir.rules.index import linear_terms, simplify, sum_terms
from .nest import stride

__all__ = ["Span", "span_of"]

IDENTITY = {Op.ADD: 0, Op.MAX: -math.inf, Op.MIN: math.inf}


@dataclass(frozen=True)
class Span:
    """Steps `begin` to `end` of rows that are `size` long: all else counts for nothing."""

    begin: Node
    end: Node
    size: int

    def substitute(self, mapping: dict[Node, Node]) -> Span:
        return Span(self.begin.substitute(mapping), self.end.substitute(mapping), self.size)

    def of_rows(self, row: Node, first: Node, rows: int, around: frozenset[Node]) -> Span | None:
        """What counts of any of `rows` rows from `first` on; None if loops `around` do not say."""
        found = []
        for place, at_end in ((self.begin, False), (self.end, True)):
            step = stride(place, row)
            if step is None or not free_ranges(place)[place] <= around:
                return None
            last = (step > 0) == at_end
            found.append(place.substitute({row: first + (rows - 1 if last else 0)}))
        begin, end = (n.maximum(0).minimum(self.size) for n in found)
        return Span(begin, end, self.size)

    def rounded(self, steps: int) -> Span:
        """The span in whole multiples of `steps`."""
        begin, end = self.begin // steps * steps, (self.end + (steps - 1)) // steps * steps
        return Span(begin, end, self.size)

    def less(self, done: Node) -> Span:
        """The span as it is counted from `done` on."""
        return Span(self.begin - done, self.end - done, self.size)

    def steps_of(self, loop: Node, length: int) -> _Steps:
        """The steps of `loop`, each `length` long, that touch the span."""
        begin = (self.begin // length).maximum(0)
        end = ((self.end + (length - 1)) // length).minimum(loop.src[0].arg)
        return _Steps(loop, simplify(begin), simplify(end))


@dataclass(frozen=True)
class _Steps:
    """Steps `begin` to `end` of a loop."""

    of: Node
    begin: Node
    end: Node

    def loop(self) -> Split:
        """The loop as one over these steps alone."""
        new = self.of.replace(src=(simplify(self.end - self.begin),))
        return Split(simplify(new + self.begin), (new,))


def span_of(reduces: Iterable[Node], fills: dict[Node, Node], size: int) -> Span | None:
    """What counts of each row, in the loops around the rows; None if all of it does.

    `reduces` are all reductions along the rows; `fills` says for the loop that fills a row what it
    is filled with.
    """
    reduces = list(reduces)
    begin, end = (_limit(reduces, fills, at_end) for at_end in (False, True))
    if begin is None and end is None:
        return None
    begin = Node.index(0) if begin is None else begin
    return Span(begin, Node.index(size) if end is None else end, size)


def _limit(reduces: list[Node], fills: dict[Node, Node], at_end: bool) -> Node | None:
    """Where what counts begins, or ends."""
    tails = _Tails(fills, at_end)
    for reduce in reduces:
        (loop,) = reduce.src[1:]
        tail = tails.of(reduce.src[0], loop)
        if tail is None or tail != IDENTITY.get(reduce.arg.op):
            return None
    places = list(tails.places)
    return fold(lambda a, b: a.maximum(b) if at_end else a.minimum(b), places) if places else None


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
            place = node.src[3] if len(node.arg.sizes) == 1 else None
            fill = node.src[2]
            return self.of(self.fills[fill], fill) if place is loop and fill in self.fills else None
        if node.op is Op.WHERE:
            known = self._condition(node.src[0], loop)
            return None if known is None else found[node.src[1 if known else 2]]
        if node.op not in ALU:
            return None
        return _absorbed(node.op, [found[s] for s in node.src], node.dtype)

    def _condition(self, node: Node, loop: Node) -> bool | None:
        """What a condition is for the last (or first) steps of `loop`; notes where that changes."""
        if node.op is Op.XOR and node.src[1].op is Op.CONST:
            inner = self._condition(node.src[0], loop)
            return None if inner is None else inner != node.src[1].arg
        if node.op is not Op.CMPLT:
            return None
        low, high = (_as_index(s) for s in node.src)
        if low is None or high is None:
            return None
        terms, rest = linear_terms(simplify(high - low))
        step = terms.pop(loop, 0)
        others = sum_terms(terms, rest)
        if abs(step) != 1 or loop in free_ranges(others)[others]:
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
        return float(fold_scalar(op, dtype, types, tuple(known))) if dtype.is_float else None
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


def _as_index(node: Node) -> Node | None:
    """Integer arithmetic on loops as index arithmetic, where it cannot overflow."""
    if node.dtype.kind == "index":
        return node
    new: dict[Node, Node] = {}
    for item in node.toposort(lambda n: n.dtype.kind != "index"):
        if item.dtype.kind == "index":
            new[item] = item
        elif item.op is Op.CONST and item.dtype.is_int:
            new[item] = Node.index(item.arg)
        elif item.op is Op.CAST and item.src[0] in new:
            new[item] = new[item.src[0]]
        elif item.op in (Op.ADD, Op.SUB, Op.MUL) and all(s in new for s in item.src):
            new[item] = new[item.src[0]].alu(item.op, new[item.src[1]])
        else:
            return None
        low, high = bounds(new[item])
        if item.dtype.kind != "index" and not item.dtype.min <= low <= high <= item.dtype.max:
            return None
    return simplify(new[node])
