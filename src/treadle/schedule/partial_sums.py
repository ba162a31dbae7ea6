"""Sums of chains' results that are stored as narrow as they end.

    dk[j] = bfloat16(sum over heads h of (sum over i of ds[h, i, j] * q[h, i]))

Where heads of queries share keys, the kernel that keeps rows stores the sum of each head
(local_intermediates.py). If the whole is rounded to 16 bits, the sum of each head is, too: that is
what a product of each head by itself gives, it takes half the memory, and its kernel may round the
weights to the 16 bits that matrix units multiply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..dtype import DType
from ..ir.node import Node, changed
from ..ir.op import MOVEMENT, Op
from .local_intermediates import CHAIN_IN_SUM
from .plan import Plan

__all__ = ["store_as_narrow"]


def store_as_narrow(outputs: Sequence[Node], plan: Plan, dtypes: frozenset[DType]) -> list[Node]:
    """`outputs` with such sums stored as one of `dtypes`, where all that uses them ends as that."""
    order = Node.sink(outputs).toposort()
    users: dict[Node, list[Node]] = {}
    for node in order:
        for source in node.src:
            users.setdefault(source, []).append(node)
    found: dict[Node, DType] = {}
    for node, decision in plan.decisions.items():
        if decision.is_stored and decision.reason == CHAIN_IN_SUM:
            ends = set(_ends(node, users))
            if len(ends) == 1 and ends <= dtypes:
                found[node] = ends.pop()
    return _stored(outputs, found) if found else list(outputs)


def _ends(node: Node, users: Mapping[Node, list[Node]]) -> Iterator[DType]:
    """The dtypes that sums and views of a node are converted to; its own where others use it."""
    for user in users[node]:
        is_sum = user.op is Op.REDUCE and user.arg.op is Op.ADD
        if user.op is Op.CAST:
            yield user.dtype
        elif user.op in MOVEMENT or is_sum:
            yield from _ends(user, users)
        else:
            yield node.dtype


def _stored(outputs: Sequence[Node], found: Mapping[Node, DType]) -> list[Node]:
    def change(node: Node, now: Node) -> Node:
        if node not in found:
            return now
        narrow = Node(Op.CAST, found[node], (now,))
        kept = Node(Op.CONTIGUOUS, found[node], (narrow,))
        return Node(Op.CAST, node.dtype, (kept,))

    return list(changed(outputs, change))
