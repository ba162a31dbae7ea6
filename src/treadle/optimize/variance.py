"""Sums of a variance: in float64, and in one pass with those of the mean.

    REDUCE((x - mean(x)) ** 2; ADD, wide)    ->  float32(squares - sum * sum / n), where
        d = float64(x) - float64(x[0]), sum = REDUCE(d; ADD), squares = REDUCE(d * d; ADD)
    REDUCE(x; ADD)                           ->  float32(sum + x[0] * n), beside that
    REDUCE(x; ADD, wide) / n                 ->  float32(REDUCE(float64(x); ADD) / n), elsewhere

What is added, the quotient and the root of it are float64 too, so that a result is rounded once.
Why one pass cancels no more than float64 has to spare is on the page docs/design/numerics.md. An
x[0] that is infinite or NaN is replaced by 0. Before anything is scheduled, so that lanes, parts
and rows of totals are made for the type that they have. Numbers that are sums themselves take two
passes, and all do on GPUs, where sums stay as narrow as their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.loops import has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from ..ir.rules.index import simplify
from ..ir.views import Reduce, operand, operands
from .moves import Move, Moves

__all__ = ["WidenSums"]

_SQUARE = (Op.MUL, Op.SUB)  # (x - mean) * (x - mean): in float64 no slower than its cast


@dataclass(frozen=True)
class WidenSums(Move):
    """The totals of wide sums are float64, where the target is a processor."""

    word = "float64_accumulation"

    def apply(self, moves: Moves) -> None:
        if moves.target.dtype_of_total(dtypes.float32) is not dtypes.float64:
            return
        in_one_pass = dict(_in_one_pass(moves.root))
        widened = _Widened(set(in_one_pass.values()))
        moves.root = rewrite_with(moves.root.substitute(in_one_pass), widened.step)


@dataclass
class _Widened:
    """What becomes of values, some of which are `narrowed`: float32 of a float64."""

    narrowed: set[Node]

    def step(self, node: Node) -> Node | None:
        if _is_wide(node):
            reduce = Reduce.of(node)
            made = reduce._replace(value=self._wide(reduce.value)).node()
        elif node.op in (Op.FDIV, Op.SQRT) and operand(node) in self.narrowed:
            made = node.replace(dtype=dtypes.float64, src=tuple(map(self._wide, node.src)))
        else:
            return None
        self.narrowed.add(narrow := made.cast(dtypes.float32))
        return narrow

    def _wide(self, value: Node, depth: int = 0) -> Node:
        """`value` in float64, computed so if it is a product of differences."""
        if value in self.narrowed:
            return operand(value)
        if depth < len(_SQUARE) and value.op is _SQUARE[depth]:
            src = tuple(self._wide(s, depth + 1) for s in value.src)
            return value.replace(dtype=dtypes.float64, src=src)
        return value.cast(dtypes.float64)


def _is_wide(node: Node) -> bool:
    return node.op is Op.REDUCE and node.arg.is_wide and node.dtype is dtypes.float32


def _in_one_pass(root: Node) -> Iterator[tuple[Node, Node]]:
    """The sums of each variance and of its mean, with what they are in one pass."""
    order = root.toposort()
    sums = [n for n in order if n.op is Op.REDUCE and n.dtype is dtypes.float32]
    for squares in filter(_is_wide, sums):
        if (x := _centred(squares)) is None:
            continue
        reduce = Reduce.of(squares)
        loops = reduce.loops
        wide, n = x.cast(dtypes.float64), Node.const(dtypes.float64, loop_size(*loops))
        first = simplify(wide.substitute({loop: loop.like(0) for loop in loops}))
        first = (first - first).eq(0).where(first, 0)
        apart = wide - first
        total = reduce._replace(value=apart).node()
        square = reduce._replace(value=apart * apart).node()
        yield squares, (square - total * total / n).cast(dtypes.float32)
        whole = (total + first * n).cast(dtypes.float32)
        yield from ((one, whole) for one in sums if _is_sum_of(one, x, loops))


def _centred(squares: Node) -> Node | None:
    """The numbers whose squared differences from their mean are summed; None for any other sum."""
    value, loops, _ = Reduce.of(squares)
    if value.op is not Op.MUL:
        return None
    one, other = operands(value)
    if one is not other or one.op is not Op.SUB:
        return None
    x, mean = operands(one)
    if mean.op is not Op.FDIV or not all(map(has_fixed_size, loops)):
        return None
    if any(n.op in (Op.REDUCE, Op.STAGE) for n in x.toposort()):
        return None  # x[0] would be computed beside the rows that such a kernel keeps
    total, count = operands(mean)
    is_mean = count.op is Op.CONST and count.arg == loop_size(*loops)
    return x if is_mean and _is_sum_of(total, x, loops) else None


def _is_sum_of(node: Node, x: Node, loops: tuple[Node, ...]) -> bool:
    """Whether a node sums `x` over loops of its own which are like these."""
    if node.op is not Op.REDUCE or node.arg.op is not Op.ADD:
        return False
    value, own, _ = Reduce.of(node)
    return len(own) == len(loops) and value.substitute(dict(zip(own, loops, strict=True))) is x
