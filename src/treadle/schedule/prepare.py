"""Graphs made ready to be scheduled: no marks, no empty loops, every output a computation."""

from __future__ import annotations

import math
from collections import Counter

from ..ir.accumulators import identity
from ..ir.builders import constant, cut, expand, iota_along, padded, reshape, scan
from ..ir.choices import take
from ..ir.node import Node, toposort, without
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from ..ir.shape import all_known
from ..ir.versions import stored_below, view_base
from ..ir.views import Assign, Scatter, operand
from ..target import Target
from .plan import LEAVES
from .sorts import sorted_order

__all__ = ["expand_ops", "fold_empty_loops", "own_memory", "store_in_place", "without_marks"]

LONG_SCAN = 1 << 10


def without_marks(nodes: list[Node], target: Target | None) -> list[Node]:
    """Indices without their bounds, and values that gradients do not pass as all others.

    An output that is one stays, as a copy: what it is of may be memory.
    """
    marks = (Op.CHECKED, Op.DETACH)
    bare = without(nodes, lambda n: n.op in marks)
    pairs = zip(nodes, bare, strict=True)
    return [n.replace(src=(value,)) if n.op in marks else value for n, value in pairs]


def fold_empty_loops(nodes: list[Node], target: Target | None) -> list[Node]:
    """What combines, pads or looks up nothing, as what it is then."""
    mapping: dict[Node, Node] = {}
    for node in Node.sink(nodes).toposort():
        if 0 in node.shape:
            continue
        if node.op is Op.REDUCE and 0 in operand(node).shape:
            mapping[node] = expand(identity(node.arg.op, node.dtype), node.shape)
        if node.op in (Op.PAD, Op.UNWINDOW, Op.GATHER) and 0 in operand(node).shape:
            mapping[node] = constant(node.dtype, 0, node.shape)
        if node.op is Op.SCATTER and 0 in Scatter.of(node).values.shape:
            base = Scatter.of(node).base.substitute(mapping)
            mapping[node] = Node(Op.CONTIGUOUS, node.dtype, (base,))
    return [node.substitute(mapping) for node in nodes] if mapping else nodes


def store_in_place(nodes: list[Node], target: Target | None) -> list[Node]:
    """What memory is asked for only to be assigned from, in the memory that is assigned to.

    Only where nothing else reads or writes that: it may be overwritten at any time.
    """
    order = toposort(nodes)
    uses = Counter(source for node in order for source in node.src)
    names = Counter(node.arg.token for node in order if node.op is Op.BUFFER)
    outputs, dropped = set(nodes), set[Node]()
    for node in order:
        if node.op is not Op.ASSIGN:
            continue
        write = Assign.of(node)
        base, value = stored_below(view_base(write.target)), write.value
        is_alone = base.op is Op.BUFFER and names[base.arg.token] == 1 and uses[base] == 2
        while is_alone and uses[value] == 1 and value not in outputs:
            if value.op is Op.CONTIGUOUS and value.arg is None:
                dropped.add(value)
            elif value.op is not Op.RESHAPE:
                break
            value = operand(value)
    return list(without(nodes, dropped.__contains__)) if dropped else nodes


def own_memory(nodes: list[Node], target: Target | None) -> list[Node]:
    """Outputs that are no computation, as copies of them; memory itself stays."""
    return [
        Node(Op.CONTIGUOUS, node.dtype, (node,))
        if node.op in LEAVES and node.op is not Op.BUFFER
        else node
        for node in nodes
    ]


def expand_ops(nodes: list[Node], target: Target | None) -> list[Node]:
    """`nodes` with every SORT as nodes that have kernels, and for work items every long SCAN."""
    has_workgroups = target is not None and target.workgroup is not None

    def step(node: Node) -> Node | None:
        if node.op is Op.SORT:
            return sorted_order(node, has_workgroups)
        if node.op is Op.SCAN and has_workgroups and all_known(node.shape):
            return _in_blocks(node) if node.shape[node.arg.axis] > LONG_SCAN else None
        return None

    sink = Node.sink(nodes)
    if not any(node.op in (Op.SORT, Op.SCAN) for node in sink.toposort()):
        return nodes
    return list(rewrite_with(sink, step).src)


def _in_blocks(node: Node) -> Node:
    """A SCAN as two.

    cumsum of 70000   ->  the cumsum of each of 137 blocks of 512, plus that of the blocks' totals

    A scan takes one work item a step for each element of its axis. In blocks it is two scans of
    about the square root of that many steps, of all blocks at once. Where factors come before its
    steps, their products come before what is added to a block.
    """
    take("blocked_scan")
    axis, op, shape = node.arg.axis, node.arg.op, node.shape
    size, outer, rest = shape[axis], shape[:axis], shape[axis + 1 :]
    step = 1 << ((size - 1).bit_length() + 1) // 2
    count = -(-size // step)
    blocks = (*outer, count, step, *rest)
    x, *factors = (reshape(padded(s, axis, 0, count * step - size), blocks) for s in node.src)
    products = [scan(factor, Op.MUL, axis + 1) for factor in factors]
    inner = scan(x, op, axis + 1, *factors)
    ends = (cut(each, axis + 1, (step - 1, step)) for each in (inner, *products))
    last, *factors = (reshape(end, (*outer, count, *rest)) for end in ends)
    before = padded(cut(scan(last, op, axis, *factors), axis, (0, count - 1)), axis, 1, 0)
    before = expand(reshape(before, (*outer, count, 1, *rest)), blocks)
    if products:  # of factors that are beyond all numbers together, too
        before = before.eq(0).where(before, math.prod(products, start=before))
    whole = (iota_along(blocks, axis) > 0).where(before.alu(op, inner), inner)
    return cut(reshape(whole, (*outer, count * step, *rest)), axis, (0, size))
