"""Running totals in the lanes of vectors, for scans along rows (nest.scan_along_row).

    total = REGISTER(0); out[r*4 + lane] = AFTER(total, UPDATE(total, x[r*4 + lane]; ADD))
      ->  a, b, c, d  ->  a, a+b, b+c, c+d  ->  a, a+b, a+b+c, a+b+c+d, and the total before in all

Log2 of the lanes shuffles and additions a vector; from vector to vector one addition alone waits.
A total that becomes float64 (summation.py) is one number beside the lanes.
"""

from __future__ import annotations

from ..ir.accumulators import identity
from ..ir.args import RegisterRef
from ..ir.choices import take
from ..ir.node import Node, alu
from ..ir.op import Op
from ..ir.views import After, Register, Update
from .lanes import broadcast, shuffled

__all__ = ["scanned"]


def scanned(
    value: Node, op: Op, outer: tuple[Node, ...], loops: tuple[Node, ...], ref: RegisterRef
) -> tuple[Node, Node]:
    """What a scan has in each lane of `value` at each step of `loops`, and the UPDATE of its total.

    The total is the register `ref`, new in each step of the loops `outer`.
    """
    take("vector_scan")
    count, dtype = value.dtype.count, value.dtype.scalar
    within = _prefixes(value, op)
    if ref.is_wide:
        none, last = identity(op, dtype), Node(Op.EXTRACT, dtype, (within,), count - 1)
    else:
        none = broadcast(identity(op, dtype), count)
        last = shuffled(within, within, (count - 1,) * count)
    total = Register(none, outer, ref, none.dtype).node()
    result = alu(op, broadcast(After(total, loops).node(), count), within)
    return result, Update(After(total, (result,)).node(), last, loops, op).node()


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
        value = alu(op, shuffled(none, value, places), value)
        step *= 2
    return value
