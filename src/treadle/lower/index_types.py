"""Index arithmetic to machine integers: `dtypes.index` becomes int64.

    r0 // 4 + n  (index)  ->  r0 / 4 + n  (int64)

Division and remainder floor over the integers; where interval analysis shows that nothing is
negative, the machine's truncating division is the same, elsewhere it is corrected.
"""

from __future__ import annotations

from ..dtype import DType, dtypes
from ..ir.interval import bounds
from ..ir.node import Node, alu
from ..ir.op import ALU, COMPARE, Op

__all__ = ["lower_index_types"]


def lower_index_types(root: Node) -> Node:
    """`root` with no value of dtype index left. IDIV and MOD of it truncate, never by zero."""
    new: dict[Node, Node] = {}
    for node in root.toposort():
        src = tuple(new[s] for s in node.src)
        new[node] = _lower(node, src)
    return new[root]


def _machine(dtype: DType) -> DType:
    return dtypes.int64.vec(dtype.count) if dtype.kind == "index" else dtype


def _lower(node: Node, src: tuple[Node, ...]) -> Node:
    dtype = _machine(node.dtype)
    if node.op in (Op.IDIV, Op.MOD) and node.dtype.kind == "index":
        return _division(node, src)
    if node.op is Op.CAST:
        return src[0].cast(dtype)
    if node.op in ALU and node.op not in COMPARE and src == node.src and dtype is node.dtype:
        return node
    if node.op is Op.CONST:
        return Node.const(dtype, node.arg)
    if src == node.src and dtype is node.dtype:
        return node
    return Node(node.op, dtype, src, node.arg)


def _division(node: Node, src: tuple[Node, ...]) -> Node:
    op = node.op
    plain = Node(op, src[0].dtype, src)
    if bounds(node.src[0])[0] >= 0 and bounds(node.src[1])[0] > 0:
        return plain
    quotient = Node(Op.IDIV, src[0].dtype, src)
    remainder = Node(Op.MOD, src[0].dtype, src)
    zero = src[0].like(0)
    wrong = remainder.ne(zero) & alu(Op.XOR, remainder < zero, src[1] < zero)
    if op is Op.IDIV:
        return wrong.where(quotient - 1, quotient)
    return wrong.where(remainder + src[1], remainder)
