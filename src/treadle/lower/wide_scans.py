"""Running totals of float32 kept in float64, as PyTorch does: each is rounded once.

    out = AFTER(total, UPDATE(total, x; ADD))
      ->  out = float32(AFTER(wide, UPDATE(wide, float64(x); ADD)))

A total of n numbers would be rounded n times, each time by its own size. Totals in the lanes of
vectors stay as narrow as they are, see lane_scans.py; so does what has one step, which is exact.
"""

from __future__ import annotations

from ..dtype import dtypes
from ..ir.accumulators import identity
from ..ir.choices import take
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import After, Register, Update

__all__ = ["widen_scans"]


def widen_scans(root: Node) -> Node:
    """`root` with the sums and products of its float32 scans in float64."""
    found = [n for n in root.toposort() if n.op is Op.AFTER and _is_running_total(n)]
    if found:
        take("float64_scan")
    return root.substitute({n: _widened(n) for n in found}) if found else root


def _is_running_total(node: Node) -> bool:
    register, *updates = node.src
    if register.op is not Op.REGISTER or register.dtype is not dtypes.float32:
        return False
    if [n.op for n in updates] != [Op.UPDATE] or updates[0].arg not in (Op.ADD, Op.MUL):
        return False
    loops = Update.of(updates[0]).loops
    steps = Node.sink(loops).toposort()
    is_vector = any(n.op is Op.RANGE and n.arg.kind == "vector" for n in steps)
    return bool(loops) and not is_vector


def _widened(node: Node) -> Node:
    register, step = node.src
    update = Update.of(step)
    none = identity(step.arg, dtypes.float64)
    wide = Register.of(register)._replace(start=none, dtype=dtypes.float64).node()
    added = update._replace(register=wide, value=update.value.cast(dtypes.float64)).node()
    return After(wide, (added,)).node().cast(dtypes.float32)
