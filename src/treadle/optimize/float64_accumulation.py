"""Accumulation in float64, for sums that must not round on the way.

    REDUCE(x * y; ADD, wide) / n  ->  float32(REDUCE(float64(x) * float64(y); ADD) / n)

Of such a kind are the sums of a variance, which PyTorch too keeps in float64: of positive numbers
each addition rounds by the size of the sum so far, and nothing averages that out. What is added,
the quotient and the root of it are float64 too, so that a result is rounded once. Before anything
is scheduled, so that lanes, parts and rows of totals are made for the type that they have. GPUs
have few units for float64, or none; there the sum stays as narrow as its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from ..ir.views import Reduce, operand, operands
from .moves import Move, Moves

__all__ = ["WidenSums"]

_SQUARE = (Op.MUL, Op.SUB)  # (x - mean) * (x - mean): in float64 no slower than its cast


@dataclass(frozen=True)
class WidenSums(Move):
    """The totals of wide sums are float64, where the target is a processor."""

    word = "float64_accumulation"

    def apply(self, moves: Moves) -> None:
        if moves.target.workgroup is None and moves.target.is_native(dtypes.float64):
            moves.root = rewrite_with(moves.root, _widened)


def _widened(node: Node) -> Node | None:
    if node.op is Op.REDUCE and node.arg.is_wide and node.dtype is dtypes.float32:
        reduce = Reduce.of(node)
        return reduce._replace(value=_wide(reduce.value)).node().cast(dtypes.float32)
    if node.op in (Op.FDIV, Op.SQRT) and _is_wide(operand(node)):
        src = tuple(map(_wide, node.src))
        return node.replace(dtype=dtypes.float64, src=src).cast(dtypes.float32)
    return None


def _is_wide(node: Node) -> bool:
    """Whether `node` is a total of this pass, narrowed, or a quotient of one."""
    if node.op is not Op.CAST or operand(node).dtype is not dtypes.float64:
        return False
    total = operand(node)
    if total.op is Op.FDIV:
        total, _ = operands(total)
    return total.op is Op.REDUCE and total.arg.is_wide


def _wide(value: Node, depth: int = 0) -> Node:
    """`value` in float64, computed so if it is a product of differences."""
    if _is_wide(value):
        return operand(value)
    if depth < len(_SQUARE) and value.op is _SQUARE[depth]:
        src = tuple(_wide(s, depth + 1) for s in value.src)
        return value.replace(dtype=dtypes.float64, src=src)
    return value.cast(dtypes.float64)
