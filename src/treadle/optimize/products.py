"""Products under sums, with what masks them on one factor alone.

    WHERE(c, a * b, 0)                    ->  (a where c) * b
    LOAD(a, gate c) * LOAD(b, gate c)     ->  LOAD(a, gate c) * LOAD(b)    b is readable everywhere

So that the product stands on top, and its factors depend on as few loops as they can. A masked
factor is 0: where the other is infinite, the product is NaN, as it is for padding with zeros.
"""

from __future__ import annotations

from ..ir.interval import bounds
from ..ir.loops import free_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.shape import size_max

__all__ = ["distribute_over_product"]


def distribute_over_product(root: Node) -> Node:
    """`root` with the masks of products under sums on one factor each."""
    mapping = {}
    for node in root.toposort():
        if node.op is not Op.REDUCE or node.arg.op is not Op.ADD:
            continue
        value = _distributed(node.src[0])
        if value is not node.src[0]:
            mapping[node] = node.replace(src=(value, *node.src[1:]))
    return root.substitute(mapping)


def _distributed(value: Node) -> Node:
    product, conditions = value, []
    while product.op is Op.WHERE and product.src[2].op is Op.CONST and product.src[2].arg == 0:
        conditions.append(product.src[0])
        product = product.src[1]
    if product.op is not Op.MUL:
        return value
    free = free_ranges(value)
    for condition in conditions:
        a, b = product.src
        uses = free[condition]
        first = len(uses & free_ranges(a)[a]) >= len(uses & free_ranges(b)[b])
        masked, plain = (a, b) if first else (b, a)
        product = _masked(condition, masked) * plain
    return _gated_once(product)


def _masked(condition: Node, value: Node) -> Node:
    """`value` where `condition` holds, else 0."""
    if value.op is not Op.LOAD or not _is_zero_elsewhere(value):
        return condition.where(value, 0)
    gate = condition
    for part in _parts(value.src[2]) if len(value.src) > 2 else ():
        gate = gate if part in _parts(gate) else gate & part
    return value.replace(src=(*value.src[:2], gate, Node.const(value.dtype, 0)))


def _is_zero_elsewhere(load: Node) -> bool:
    """Whether a LOAD gives 0 where its gate, if any, does not hold."""
    return len(load.src) == 2 or (load.src[3].op is Op.CONST and load.src[3].arg == 0)


def _parts(condition: Node) -> list[Node]:
    """The conditions that must all hold."""
    found, open_parts = [], [condition]
    while open_parts:
        part = open_parts.pop()
        if part.op is Op.AND:
            open_parts.extend(part.src)
        else:
            found.append(part)
    return found


def _gated_once(product: Node) -> Node:
    """A product without the gate of a factor where the other factor is 0 all the same."""
    for one, other in (product.src, product.src[::-1]):
        if _is_gated(one) and _is_gated(other) and _is_inside(one):
            if set(_parts(one.src[2])) <= set(_parts(other.src[2])):
                return one.replace(src=one.src[:2]) * other
    return product


def _is_gated(node: Node) -> bool:
    return node.op is Op.LOAD and len(node.src) > 2 and _is_zero_elsewhere(node)


def _is_inside(load: Node) -> bool:
    """Whether every index that the loops give lies in the memory, gate or not."""
    memory = load.src[0]
    while memory.op is Op.AFTER:
        memory = memory.src[0]
    low, high = bounds(load.src[1])
    return memory.op is Op.PARAM and low >= 0 and high < size_max(memory.arg.size)
