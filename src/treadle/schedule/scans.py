"""Long scans in blocks, for processors whose work items are many and slow.

    cumsum of 70000   ->  the cumsum of each of 137 blocks of 512, plus that of the blocks' totals

A scan takes one work item a step for each element of its axis. In blocks it is two scans of about
the square root of that many steps, of all blocks at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtype import dtypes
from ..ir.args import ScanArg
from ..ir.choices import take
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from ..target import Target
from .collectives import cut, expanded, padded, reshaped

__all__ = ["cut_long_scans"]

LONG = 1 << 10


def cut_long_scans(outputs: Sequence[Node], target: Target | None) -> list[Node]:
    """`outputs` with every long SCAN in blocks, if `target` has work items."""
    sink = Node.sink(outputs)
    if target is None or target.workgroup is None or not any(map(_is_long, sink.toposort())):
        return list(outputs)
    return list(rewrite_with(sink, lambda node: _in_blocks(node) if _is_long(node) else None).src)


def _is_long(node: Node) -> bool:
    if node.op is not Op.SCAN or any(not isinstance(size, int) for size in node.shape):
        return False
    return node.shape[node.arg.axis] > LONG


def _in_blocks(node: Node) -> Node:
    take("blocked_scan")
    axis, op, (x,) = node.arg.axis, node.arg.op, node.src
    size, outer, rest = x.shape[axis], x.shape[:axis], x.shape[axis + 1 :]
    step = 1 << ((size - 1).bit_length() + 1) // 2
    count = -(-size // step)
    blocks = (*outer, count, step, *rest)
    inner = _scan(reshaped(padded(x, axis, 0, count * step - size), blocks), op, axis + 1)
    last = reshaped(cut(inner, axis + 1, (step - 1, step)), (*outer, count, *rest))
    before = padded(cut(_scan(last, op, axis), axis, (0, count - 1)), axis, 1, 0)
    before = expanded(reshaped(before, (*outer, count, 1, *rest)), blocks)
    column = tuple(count if at == axis else 1 for at in range(len(blocks)))
    number = expanded(reshaped(Node(Op.IOTA, dtypes.int32, (), count), column), blocks)
    whole = (number > 0).where(before.alu(op, inner), inner)
    return cut(reshaped(whole, (*outer, count * step, *rest)), axis, (0, size))


def _scan(x: Node, op: Op, axis: int) -> Node:
    return Node(Op.SCAN, x.dtype, (x,), ScanArg(op, axis))
