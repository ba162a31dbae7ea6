"""Loops as the program means them: two for an axis that is divided, one for neighbours.

split_digits(r0, 8)      r0 // 8 and r0 % 8 are loops of their own
merged_loops(r0, r1)     r0 * 8 + r1 is one loop, wherever that is what all accesses see
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.loops import TRUE, Split, closed_ranges, has_fixed_size, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify
from ..ir.views import bound_of, operand, operands
from .moves import Move, Moves
from .nest import SHORT_STRIDE
from .records import Loop

__all__ = ["Merge", "SplitDigits", "merge_all", "split_digits"]

SHORT_ROW = 16


@dataclass(frozen=True)
class SplitDigits(Move):
    """A loop whose digits are used becomes two; `ahead` is added to it before it is divided."""

    word = "split_digits"

    loop: Loop
    step: int
    ahead: int = 0

    def apply(self, moves: Moves) -> None:
        """The inner one has `step` steps."""
        loop, step, ahead = moves.range_of(self.loop), self.step, self.ahead
        outer, inner = moves.loop(-(-(loop_size(loop) + ahead) // step)), moves.loop(step)
        position = outer * step + inner - ahead
        guard = TRUE if (loop_size(loop) + ahead) % step == 0 else position < bound_of(loop)
        guard = guard & ~(position < 0) if ahead else guard
        moves.replace_loops({loop: Split(position, (outer, inner), guard)})


def split_digits(moves: Moves) -> None:
    """Make two loops of each one whose digits are used, as those of a reshaped axis are."""
    while (found := _digits(moves.root)) is not None:
        moves.make(found)


def _digits(root: Node) -> SplitDigits | None:
    """A loop that is divided by what divides its size without rest, or is small."""
    for node in root.toposort():
        if node.op not in (Op.IDIV, Op.MOD):
            continue
        number, by = operands(node)
        if by.op is not Op.CONST:
            continue
        terms, ahead = linear_terms(number)
        loop, step = next(iter(terms), node), by.arg
        if terms != {loop: 1} or loop.op is not Op.RANGE or not has_fixed_size(loop):
            continue
        if 1 < step < loop_size(loop) and 0 <= ahead < step:
            if step <= SHORT_STRIDE or (ahead == 0 and loop_size(loop) % step == 0):
                return SplitDigits(Loop.of(loop), step, ahead)
    return None


@dataclass(frozen=True)
class Merge(Move):
    """Two neighbouring loops are one."""

    word = "merged_loops"

    outer: Loop
    inner: Loop

    def apply(self, moves: Moves) -> None:
        """They are digits of the new one."""
        outer, inner = moves.range_of(self.outer), moves.range_of(self.inner)
        flat = moves.loop(simplify(bound_of(outer) * bound_of(inner)))
        quotient = Split(simplify(flat // bound_of(inner)), (flat,))
        moves.replace_loops({outer: quotient, inner: Split(simplify(flat % bound_of(inner)), ())})


def merge_all(moves: Moves, of_fixed_size: bool = True) -> None:
    """Merge neighbouring loops wherever every access allows it.

    Those of fixed sizes, or of which launches decide one.
    """
    while (found := _mergeable(moves.root, of_fixed_size)) is not None:
        moves.make(found)


def _mergeable(root: Node, of_fixed_size: bool) -> Merge | None:
    uses, order = _index_uses(root), root.toposort()
    closed = [loops for node in order if (loops := closed_ranges(node))]
    limited = frozenset(operand(node) for node in order if _is_limit(node))
    for loops in closed:
        for number, (outer, inner) in enumerate(itertools.pairwise(loops)):
            if inner in limited or (outer in limited and not _are_short(loops[number + 1 :])):
                continue
            is_fixed = has_fixed_size(outer) and has_fixed_size(inner)
            if is_fixed is of_fixed_size and _merges(outer, inner, uses):
                if all((outer in one) == (inner in one) for one in closed):
                    return Merge(Loop.of(outer), Loop.of(inner))
    return None


def _are_short(loops: Sequence[Node]) -> bool:
    """Whether loops together fill no vector: a limit of the loop around them may be theirs, too.

    `outer < 3` is `outer * 8 + inner < 24`. Longer rows are better off with one limit each.
    """
    return all(map(has_fixed_size, loops)) and loop_size(*loops) < SHORT_ROW


def _index_uses(root: Node) -> list[Node]:
    """Every index expression and condition as it is used: the largest ones, not their parts.

    Not a loop that is compared with a constant.
    """
    found: dict[Node, None] = {}
    for node in root.toposort():
        if (node.dtype.kind == "index" and node.op is not Op.CAST) or _is_limit(node):
            continue
        closed = len(closed_ranges(node))
        for source in node.src[: len(node.src) - closed]:
            if source.dtype.kind == "index":
                found[source] = None
    return list(found)


def _is_limit(node: Node) -> bool:
    """Whether a node asks if a loop is before a constant."""
    return node.op is Op.CMPLT and [n.op for n in node.src] == [Op.RANGE, Op.CONST]


def _merges(outer: Node, inner: Node, uses: list[Node]) -> bool:
    [(whole, size)] = linear_terms(simplify(outer * bound_of(inner)))[0].items()
    for index in uses:
        terms, _ = linear_terms(index)
        step_out, step_in = terms.pop(whole, 0), terms.pop(inner, 0)
        if step_out != step_in * size:
            return False
        for term in terms:
            if ranges_of(term) & {outer, inner}:
                return False
    return True
