"""Loops over the work items of a workgroup become arithmetic on the work item's number.

    out[g, l0, l1], l0 of 4 and l1 of 8 work items  ->  out[g, n // 8, n % 8] for 0 <= n < 32

Every loop nest has the same work items, so one that needs fewer stores only where the number is
small enough: no work item ever leaves the common path, and all of them meet at every BARRIER.

    REDUCE(v[l], i, l), l of a subgroup's work items  ->  SUBGROUP(REDUCE(v[lane], i))

A loop over the work items of a subgroup is gone likewise: each of them takes the step of its
number.
"""

from __future__ import annotations

from ..dtype import dtypes
from ..errors import InternalError
from ..ir.accumulators import of_lanes
from ..ir.args import VarArg
from ..ir.loops import closed_ranges, has_fixed_size, loop_size
from ..ir.node import Node, rebuild
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Reduce, Store

__all__ = ["lower_work_items"]


def lower_work_items(root: Node) -> tuple[Node, int]:
    """`root` without local and subgroup RANGEs, and the number of work items in a workgroup.

    Raises InternalError where subgroups of a fixed size would not all be full.
    """
    ends = [node for node in root.toposort() if node.op is Op.END]
    local = {end: [r for r in closed_ranges(end) if r.arg.kind == "local"] for end in ends}
    counts = {end: loop_size(*loops) for end, loops in local.items()}
    work_items = max(counts.values(), default=1)
    if work_items == 1:
        return root, 1
    work_item = _work_item("work_item", work_items)
    digits: dict[Node, Node] = {}
    for r in root.toposort():
        if r.op is Op.RANGE and r.arg.kind == "subgroup":
            if has_fixed_size(r) and work_items % loop_size(r):
                raise InternalError(
                    f"a workgroup of {work_items} work items has no full subgroups of {r!r}"
                )
            digits[r] = _work_item("lane", loop_size(r))
    for end in ends:
        step = 1
        for r in reversed(local[end]):
            digits[r] = simplify(work_item // step % loop_size(r))
            step *= loop_size(r)
    new: dict[Node, Node] = {}
    for node in root.toposort():
        closed = digits.keys() & closed_ranges(node)
        src = tuple(new[s] for s in node.src if s not in closed)
        if node in digits:
            new[node] = digits[node]
        elif node.op is Op.REDUCE and closed:
            value, *loops = src
            mine = Reduce(value, tuple(loops), node.arg).node() if loops else value
            across = lambda op, value: Node(Op.SUBGROUP, value.dtype, (value,), op)
            new[node] = of_lanes(node.arg.op, mine, across)
        elif node.op is Op.END and counts[node] < work_items:
            new[node] = node.replace(src=tuple(_gated(s, work_item < counts[node]) for s in src))
        else:
            new[node] = node if src == node.src else rebuild(node, src)
    return new[root], work_items


def _work_item(name: str, count: int) -> Node:
    return Node(Op.WORK_ITEM, dtypes.index, (), VarArg(name, 0, count - 1))


def _gated(node: Node, gate: Node) -> Node:
    if node.op is not Op.STORE:
        return node
    store = Store.of(node)
    if store.value.op is Op.BOX:  # one work item makes bulk copies
        return node
    return store._replace(gate=store.gate & gate).node()
