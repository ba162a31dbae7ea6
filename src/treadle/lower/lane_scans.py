"""Running totals in the lanes of vectors, for scans along rows.

    total = REGISTER(0); out[r*4 + lane] = AFTER(total, UPDATE(total, x[r*4 + lane]; ADD))
      ->  a, b, c, d  ->  a, a+b, b+c, c+d  ->  a, a+b, a+b+c, a+b+c+d, and the total before in all

Log2 of the lanes shuffles and additions a vector; from vector to vector one addition alone waits.
A total of float32 numbers is one float64 beside the lanes, as PyTorch keeps it: else a total of n
numbers would be off by n / lanes roundings of its own size.
"""

from __future__ import annotations

from ..dtype import dtypes
from ..ir.accumulators import identity
from ..ir.args import RegisterRef
from ..ir.choices import take
from ..ir.node import Node, alu
from ..ir.op import Op
from ..ir.views import After, Register, Update
from .lanes import broadcast

__all__ = ["scanned"]


def scanned(
    value: Node,
    op: Op,
    outer: tuple[Node, ...],
    loops: tuple[Node, ...],
    number: int,
    is_wide: bool,
) -> tuple[Node, Node]:
    """What a scan has in each lane of `value` at each step of `loops`, and the UPDATE of its total.

    The total is register `number`, new in each step of the loops `outer`; `is_wide`: in float64.
    """
    take("vector_scan")
    count, dtype = value.dtype.count, value.dtype.scalar
    within = _prefixes(value, op)
    if is_wide:
        none, last = identity(op, dtypes.float64), Node(Op.EXTRACT, dtype, (within,), count - 1)
        last = last.cast(dtypes.float64)
    else:
        none = broadcast(identity(op, dtype), count)
        last = Node(Op.SHUFFLE, value.dtype, (within, within), (count - 1,) * count)
    total = Register(none, outer, RegisterRef(number), none.dtype).node()
    before = After(total, loops).node()
    update = Update(total, alu(op, before, last), loops, None).node()
    narrow = broadcast(before.cast(dtype), count) if is_wide else before
    return alu(op, narrow, within), update


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
