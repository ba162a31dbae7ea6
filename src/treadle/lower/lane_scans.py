"""Running totals in the lanes of vectors, for scans along rows.

    total = REGISTER(0); out[r*4 + lane] = AFTER(total, UPDATE(total, x[r*4 + lane]; ADD))
      ->  a, b, c, d  ->  a, a+b, b+c, c+d  ->  a, a+b, a+b+c, a+b+c+d, and the total before in all

Log2 of the lanes shuffles and additions a vector; from vector to vector one addition alone waits.
"""

from __future__ import annotations

from ..dtype import dtypes
from ..ir.args import RegisterRef
from ..ir.loops import identity
from ..ir.node import Node, alu
from ..ir.op import Op
from .lanes import broadcast

__all__ = ["scanned"]


def scanned(
    value: Node, op: Op, outer: tuple[Node, ...], loops: tuple[Node, ...], number: int
) -> tuple[Node, Node]:
    """What a scan has in each lane of `value` at each step of `loops`, and the UPDATE of its total.

    The total is register `number`, new in each step of the loops `outer`.
    """
    count = value.dtype.count
    none = broadcast(identity(op, value.dtype.scalar), count)
    total = Node(Op.REGISTER, value.dtype, (none, *outer), RegisterRef(number))
    before = Node(Op.AFTER, value.dtype, (total, *loops))
    within = _prefixes(value, op)
    last = Node(Op.SHUFFLE, value.dtype, (within, within), (count - 1,) * count)
    following = alu(op, before, last)
    return alu(op, before, within), Node(Op.UPDATE, dtypes.void, (total, following, *loops))


def _prefixes(value: Node, op: Op) -> Node:
    """In each lane what `op` makes of it and all before."""
    count, step = value.dtype.count, 1
    one = identity(op, value.dtype.scalar)
    if op is Op.ADD and value.dtype.is_float:
        # As good as 0, but LLVM puts that into lanes by VEXPAND, which waits for what its result
        # was in the last step.
        one = one.like(-0.0)
    none = broadcast(one, count)
    while step < count:
        places = tuple(range(step)) + tuple(range(count, 2 * count - step))
        value = alu(op, Node(Op.SHUFFLE, value.dtype, (none, value), places), value)
        step *= 2
    return value
