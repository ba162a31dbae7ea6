"""Sums as kernels of their own, so that what they are fused with cannot change their bits.

    y = x - mean(x)                  m = CONTIGUOUS(sum(x)); y = x - m / n
    z = gelu(a.T @ b + c)      ->    z = gelu(CONTIGUOUS(CONTIGUOUS(a.T) @ b) + c)

The order in which a kernel adds up follows from its loops, and those from all that the kernel
computes and from how its operands lie. With REPRODUCIBLE=1 a sum reads memory in the order of its
own axes, computes nothing else, and is stored. Then its order follows from its shape alone, in
whatever graph it stands, on every target.
"""

from __future__ import annotations

from ..config import settings
from ..ir.graph import users_of
from ..ir.node import Node, carry, changed, rebuild, toposort
from ..ir.op import MOVEMENT, SAME, Op
from ..ir.views import operand
from ..target import Target
from .plan import STORED, is_heavy, product_of

__all__ = ["separate_sums"]

_SUMS = frozenset((Op.REDUCE, Op.UNWINDOW, Op.SCAN))
_GROWING = frozenset((Op.EXPAND, Op.PAD, Op.WINDOW))
_VIEWS = MOVEMENT | SAME | {Op.CAST}


def separate_sums(nodes: list[Node], target: Target | None) -> list[Node]:
    """`nodes` with what rounded sums read and give in memory, if that is asked for."""
    if not settings.REPRODUCIBLE:
        return nodes
    order, outputs = toposort(nodes), frozenset(nodes)
    sums = set(filter(_is_rounded, order))
    users = users_of(order)
    stored = {_end_of(total, users, outputs) for total in sums}
    stored.update(value for total in sums for value in _read_by(total) if value.op not in MOVEMENT)

    def change(node: Node, now: Node) -> Node:
        if node in sums:
            now = rebuild(now, tuple(_in_memory(source, is_heavy(node)) for source in now.src))
        if node in stored and not _is_in_memory(now):
            now = Node(Op.CONTIGUOUS, node.dtype, (now,))
        if node.origin is not None and now is not node:
            carry(node, now, node.origin)
        return now

    return list(changed(nodes, change))


def _is_rounded(node: Node) -> bool:
    """Whether the order in which `node` combines its steps shows in its bits."""
    if node.op not in _SUMS or not node.dtype.is_float:
        return False
    return node.op is Op.UNWINDOW or node.arg.op in (Op.ADD, Op.MUL)


def _end_of(total: Node, users: dict[Node, list[Node]], outputs: frozenset[Node]) -> Node:
    """`total`, or the view without its axes of one element that alone is wanted of it."""
    node = total
    while node not in outputs and len(users[node]) == 1:
        (user,) = users[node]
        long, still_long = ([n for n in one.shape if n != 1] for one in (node, user))
        if user.op is not Op.RESHAPE or long != still_long:
            break
        node = user
    return node


def _read_by(total: Node) -> list[Node]:
    """What a sum reads: factors of a product that uses each many times, else what it adds."""
    read = product_of(total).src if is_heavy(total) else total.src
    return list(map(_before_growing, read))


def _before_growing(value: Node) -> Node:
    """`value`, or what it views if that has fewer elements: memory need not hold them again."""
    found, node = value, value
    while node.op in _VIEWS:
        if node.op in _GROWING or (node.op is Op.CAST and node is found):
            found = operand(node)
        node = operand(node)
    return found


def _in_memory(value: Node, is_product: bool) -> Node:
    """`value` with what it views, or the factors of the product that it is, in memory.

    Views are copied for the sum alone: others may be what is assigned to.
    """
    if is_product:
        src = (_in_memory(s, value.op is not Op.MUL) for s in value.src)
        return rebuild(value, tuple(src))
    point = _before_growing(value)
    if _is_in_memory(point):
        return value
    chain = [value]
    while chain[-1] is not point:
        chain.append(operand(chain[-1]))
    made = Node(Op.CONTIGUOUS, point.dtype, (chain.pop(),))
    for view in reversed(chain):
        made = rebuild(view, (made,))
    return made


def _is_in_memory(node: Node) -> bool:
    """Whether the elements of `node` are memory in the order of its axes, or all the same."""
    while node.op in (Op.RESHAPE, Op.AFTER) or node.op in SAME or _keeps_order(node):
        node = operand(node)
    return node.op in (Op.CONST, Op.BUFFER) or node.op in STORED


def _keeps_order(node: Node) -> bool:
    """Whether a PERMUTE moves axes of one element alone."""
    if node.op is not Op.PERMUTE:
        return False
    axes = [axis for axis in node.arg if operand(node).shape[axis] != 1]
    return axes == sorted(axes)
