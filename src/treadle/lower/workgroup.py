"""Loops over the items of a group become arithmetic on the item's number.

    out[g, l0, l1], l0 of 4 and l1 of 8 items  ->  out[g, item // 8, item % 8] for 0 <= item < 32

Every loop nest has the same items, so one that needs fewer stores only where the number is small
enough: no item ever leaves the common path, and all of them meet at every BARRIER.
"""

from __future__ import annotations

import math

from ..dtype import dtypes
from ..ir.args import VarArg
from ..ir.loops import closed_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify

__all__ = ["lower_work_items"]


def lower_work_items(root: Node) -> tuple[Node, int]:
    """`root` without local RANGEs, and the number of items in a group."""
    ends = [node for node in root.toposort() if node.op is Op.END]
    local = {end: [r for r in closed_ranges(end) if r.arg.kind == "local"] for end in ends}
    counts = {end: math.prod(r.src[0].arg for r in loops) for end, loops in local.items()}
    items = max(counts.values(), default=1)
    if items == 1:
        return root, 1
    item = Node(Op.WORK_ITEM, dtypes.index, (), VarArg("item", 0, items - 1))
    digits: dict[Node, Node] = {}
    for end in ends:
        step = 1
        for r in reversed(local[end]):
            digits[r] = simplify(item // step % r.src[0].arg)
            step *= r.src[0].arg
    new: dict[Node, Node] = {}
    for node in root.toposort():
        src = tuple(new[s] for s in node.src if s not in digits or node.op is not Op.END)
        if node in digits:
            new[node] = digits[node]
        elif node.op is Op.END and counts[node] < items:
            new[node] = node.replace(src=tuple(_gated(s, item < counts[node]) for s in src))
        else:
            new[node] = node if src == node.src else node.replace(src=src)
    return new[root], items


def _gated(node: Node, gate: Node) -> Node:
    if node.op is not Op.STORE:
        return node
    if len(node.src) > 3:
        gate = node.src[3] & gate
    return node.replace(src=(*node.src[:3], gate))
