"""How results of chains of products are stored: with the columns of the last product innermost.

    (softmax(q @ k.T) @ v).transpose(-2, -1).contiguous()

A kernel that keeps rows of the middle has vectors of those columns in registers (optimize/
chained_matmul.py). A result in another order, such as the gradient to keys that several heads
share, is stored as the kernel has it, then copied. And as narrow as sums of them end:

    dk[j] = bfloat16(sum over heads h of (sum over i of ds[h, i, j] * q[h, i]))

Where heads share keys, the kernel that keeps rows stores the sum of each head
(local_intermediates.py). If the whole is rounded to 16 bits, the sum of each head is, too: that is
what a product of each head by itself gives, it takes half the memory, and its kernel may round the
weights to the 16 bits that matrix units multiply.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from ..dtype import DType
from ..ir.graph import users_of
from ..ir.node import Node, changed
from ..ir.op import ALU, MOVEMENT, SAME, Op
from ..ir.views import Assign, operand, operands
from .index import Index, source_index
from .layouts import with_last
from .local_intermediates import CHAIN_IN_SUM
from .plan import Plan, is_heavy, loops_of, ranges_in

__all__ = ["store_as_narrow", "store_columns_last"]

_VIEWS = MOVEMENT | SAME | {Op.CAST}


def store_columns_last(outputs: Sequence[Node], plan: Plan) -> list[Node]:
    """`outputs` with the last products of chains in the order that their kernels store best."""
    last: dict[Node, int] = {}
    for group in plan.kernels:
        kept = group.kept
        for root, index in group.places.items() if kept else ():
            for product, place in _products(root, index, kept, plan):
                columns = _columns(product, kept)
                inner = set(loops_of(index)[-1:])  # columns may be innermost as it is
                if columns is not None and inner.isdisjoint(place[columns].toposort()):
                    last[product] = columns
    return with_last(outputs, last) if last else list(outputs)


def _products(
    root: Node, index: Index, kept: Container[Node], plan: Plan
) -> Iterator[tuple[Node, Index]]:
    """The products of kept rows that element `index` of a root is computed from, and where."""
    if root.op is Op.CONTIGUOUS:
        root = operand(root)
    elif root.op is Op.ASSIGN:
        root = Assign.of(root).value
    pending, seen = [(root, index)], set[Node]()
    while pending:
        node, place = pending.pop()
        if node in seen or (node is not root and node in plan.groups):
            continue
        seen.add(node)
        if is_heavy(node):
            if any(_places_of_kept(node, kept)):
                yield node, place
        elif node.op in ALU or node.op in SAME:
            pending += [(source, place) for source in node.src]
        elif node.op in MOVEMENT:
            pending.append((operand(node), source_index(node, place)[0]))


def _places_of_kept(product: Node, kept: Container[Node]) -> Iterator[Index]:
    """Where a product reads kept rows, in loops that are numbered by the axes of what it sums."""
    value = operand(product)
    place: Index = tuple(Node.range(size, axis) for axis, size in enumerate(value.shape))
    while value.op is not Op.MUL:
        place, value = _behind(value, place)
    for factor in operands(value):
        at = place
        while factor not in kept and factor.op in _VIEWS:
            at, factor = _behind(factor, at)
        if factor in kept:
            yield at


def _behind(view: Node, index: Index) -> tuple[Index, Node]:
    """What a view or a cast is of, and at which index."""
    inner = source_index(view, index)[0] if view.op in MOVEMENT else index
    return inner, operand(view)


def _columns(product: Node, kept: Container[Node]) -> int | None:
    """The last axis of a product along which the rows that it reads do not change."""
    places = [place for index in _places_of_kept(product, kept) for place in index]
    moving = {loop.arg.number for loop in ranges_in(tuple(places))}
    fixed = [n for n, size in enumerate(product.shape) if size != 1 and n not in moving]
    return fixed[-1] if fixed else None


def store_as_narrow(outputs: Sequence[Node], plan: Plan, dtypes: frozenset[DType]) -> list[Node]:
    """`outputs` with such sums stored as one of `dtypes`, where all that uses them ends as that."""
    order = Node.sink(outputs).toposort()
    users = users_of(order)
    found: dict[Node, DType] = {}
    for node, decision in plan.decisions.items():
        if decision.is_stored and decision.reason == CHAIN_IN_SUM:
            ends = set(_ends(node, users))
            if len(ends) == 1 and ends <= dtypes:
                found[node] = ends.pop()

    def change(node: Node, now: Node) -> Node:
        if node not in found:
            return now
        narrow = Node(Op.CAST, found[node], (now,))
        kept = Node(Op.CONTIGUOUS, found[node], (narrow,))
        return Node(Op.CAST, node.dtype, (kept,))

    return list(changed(outputs, change))


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
