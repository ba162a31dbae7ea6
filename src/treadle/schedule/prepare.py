"""Graphs made ready to be scheduled: no marks, no empty loops, every output a computation."""

from __future__ import annotations

from collections import Counter

from ..ir.accumulators import identity
from ..ir.node import Node, toposort, without
from ..ir.op import Op
from ..ir.versions import stored_below, view_base
from ..ir.views import Assign, Scatter, operand
from ..target import Target
from .plan import LEAVES

__all__ = ["fold_empty_loops", "own_memory", "store_in_place", "without_marks"]


def without_marks(nodes: list[Node], target: Target | None) -> list[Node]:
    """Indices without their bounds, and values that gradients do not pass as all others.

    An output that is one stays, as a copy: what it is of may be memory.
    """
    bare = without(nodes, lambda n: n.op in (Op.CHECKED, Op.DETACH))
    pairs = zip(nodes, bare, strict=True)
    return [n.replace(src=(value,)) if n.op is Op.DETACH else value for n, value in pairs]


def fold_empty_loops(nodes: list[Node], target: Target | None) -> list[Node]:
    """What combines, pads or looks up nothing, as what it is then."""
    mapping: dict[Node, Node] = {}
    for node in Node.sink(nodes).toposort():
        if 0 in node.shape:
            continue
        if node.op is Op.REDUCE and 0 in operand(node).shape:
            mapping[node] = _filled(identity(node.arg.op, node.dtype), node)
        if node.op in (Op.PAD, Op.UNWINDOW, Op.GATHER) and 0 in operand(node).shape:
            mapping[node] = _filled(Node.const(node.dtype, 0), node)
        if node.op is Op.SCATTER and 0 in Scatter.of(node).values.shape:
            base = Scatter.of(node).base.substitute(mapping)
            mapping[node] = Node(Op.CONTIGUOUS, node.dtype, (base,))
    return [node.substitute(mapping) for node in nodes] if mapping else nodes


def _filled(value: Node, like: Node) -> Node:
    """`value` everywhere, in the shape of `like`."""
    ones = Node(Op.RESHAPE, value.dtype, (value,), (1,) * len(like.shape))
    return Node(Op.EXPAND, value.dtype, (ones,), like.shape)


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
