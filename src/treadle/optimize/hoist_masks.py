"""Masks around a product, moved onto one of its factors.

    WHERE(c, a * b, 0)                    ->  (a where c) * b
    LOAD(a, gate c) * LOAD(b, gate c)     ->  LOAD(a, gate c) * LOAD(b)    b is readable everywhere

So that the product stands on top, and its factors depend on as few loops as they can. A masked
factor is 0: where the other is infinite, the product is NaN, as it is for padding with zeros.
"""

from __future__ import annotations

from ..ir.choices import take
from ..ir.conditions import all_of, parts, stays_inside
from ..ir.loops import free_ranges
from ..ir.node import Node
from ..ir.op import Op

__all__ = ["hoist_masks", "masked"]


def hoist_masks(root: Node) -> Node:
    """`root` with the masks of products under sums on one factor each."""
    mapping = {}
    for node in root.toposort():
        if node.op is not Op.REDUCE or node.arg.op is not Op.ADD:
            continue
        value = _distributed(node.src[0])
        if value is not node.src[0]:
            mapping[node] = node.replace(src=(value, *node.src[1:]))
    if mapping:
        take("hoist_masks")
    return root.substitute(mapping)


def _distributed(value: Node) -> Node:
    product, conditions = value, []
    while product.op is Op.WHERE and product.src[2].op is Op.CONST and product.src[2].arg == 0:
        conditions.extend(parts(product.src[0]))
        product = product.src[1]
    if product.op is not Op.MUL:
        return value
    free = free_ranges(value)
    held: list[list[Node]] = [[], []]
    for condition in conditions:
        shared = [len(free[condition] & free[factor]) for factor in product.src]
        held[shared[0] < shared[1]].append(condition)
    one, other = map(masked, held, product.src)
    one = _without_needless_gates(one, other)
    return one * _without_needless_gates(other, one)


def masked(conditions: list[Node], value: Node) -> Node:
    """`value` where all of `conditions` hold, else 0."""
    if not conditions:
        return value
    if value.op is not Op.LOAD or not _is_zero_elsewhere(value):
        return all_of(conditions).where(value, 0)
    gate = all_of(dict.fromkeys((*_gates(value), *conditions)))
    return value.replace(src=(*value.src[:2], gate, Node.const(value.dtype, 0)))


def _is_zero_elsewhere(load: Node) -> bool:
    """Whether a LOAD gives 0 where its gate, if any, does not hold."""
    return len(load.src) == 2 or (load.src[3].op is Op.CONST and load.src[3].arg == 0)


def _gates(load: Node) -> list[Node]:
    return parts(load.src[2]) if len(load.src) > 2 else []


def _without_needless_gates(one: Node, other: Node) -> Node:
    """LOAD `one` without the gates under which LOAD `other` is 0 all the same.

    Those that keep it inside its memory stay, if they are about the loops of its index.
    """
    if not (_is_gated(one) and _is_gated(other)):
        return one
    gates, others = _gates(one), set(_gates(other))
    own = [gate for gate in gates if gate not in others]
    free = free_ranges(one)
    near = [gate for gate in gates if gate in own or free[gate] <= free[one.src[1]]]
    kept = next((some for some in (own, near) if stays_inside(one.src[1], one.src[0], some)), gates)
    src = (*one.src[:2], all_of(kept), one.src[3]) if kept else one.src[:2]
    return one.replace(src=src)


def _is_gated(node: Node) -> bool:
    return node.op is Op.LOAD and len(node.src) > 2 and _is_zero_elsewhere(node)
