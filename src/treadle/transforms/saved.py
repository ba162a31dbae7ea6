"""What a loop saves of its steps for others to read, instead of having them compute it anew.

    worth_saving([tanh(x + h @ w)], [h], gradients)  ->  [tanh(x + h @ w)]

A gradient reads what a step has computed: the scores of a cell's gates, say. So do products over
all steps, which read what the loop's own products read. Both are in memory at some time in any
case: stored by the loop they take no second product, and one pass over them less.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..ir.node import Node, toposort
from ..ir.op import ALU, MOVEMENT, Op
from ..ir.shape import size_product
from ..ir.views import operand

__all__ = ["above", "worth_saving"]

_ROOM = 4  # times what a step reads: what is larger is made anew, a few rows at a time if need be


def worth_saving(body: Sequence[Node], states: Collection[Node], wanted: Sequence[Node],
                 room: int) -> list[Node]:  # fmt: skip
    """The nodes of `body` that `wanted` reads and that are better saved.

    They depend on `states`, and either a reduction lies between them and what is known, or a
    product of the body reads them. `room`: how many elements a step reads; none is much larger.
    """
    order = toposort(body)
    inside, moving = set(order), above(order, set(states))
    outside = [node for node in toposort(wanted) if node not in inside]
    read = {source for node in outside for source in node.src} | set(wanted)
    factors = _factors(order)
    saved: list[Node] = []
    costly: set[Node] = set()
    for node in order:
        if node not in moving or node in states:
            continue
        is_cheap = node.op in ALU or node.op in MOVEMENT
        is_costly = not is_cheap or not costly.isdisjoint(node.src)
        fits = size_product(node.shape) <= _ROOM * room
        if node in read and fits and (is_costly or node in factors):
            saved.append(node)
        elif is_costly:
            costly.add(node)
    return saved


def above(order: Sequence[Node], below: set[Node]) -> set[Node]:
    """The nodes of `order` that are computed of one of `below`, and those."""
    found: set[Node] = set()
    for node in order:
        if node in below or any(source in found for source in node.src):
            found.add(node)
    return found


def _factors(order: Sequence[Node]) -> set[Node]:
    """What products read, less how they look at it."""
    found: set[Node] = set()
    for node in order:
        if node.op is Op.REDUCE and operand(node).op is Op.MUL:
            for factor in operand(node).src:
                while factor.op in MOVEMENT:
                    factor = operand(factor)
                found.add(factor)
    return found
