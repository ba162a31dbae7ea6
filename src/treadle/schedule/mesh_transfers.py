"""Graphs over a mesh of processes, with every transfer a node of its own.

    (x, split along 0) * EXPAND(w, split along 1)  ->  x * EXPAND(w spread as copies)

What an op cannot do on parts is spread as copies first: of what was expanded, it is what that was
made of that is gathered. Then processes talk in two places alone, at a PART and at a REDUCE of the
split axis, and `calls_of` finds those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from weakref import WeakSet

from ..ir.args import ShardArg
from ..ir.node import Node, rebuild, toposort
from ..ir.op import Op
from ..ir.origin import pass_on
from .shard import Spread, is_over_mesh, needed_whole, nodes_of, partition, sharded_as

__all__ = ["calls_of", "with_transfers"]

_with_transfers: WeakSet[Node] = WeakSet()


def with_transfers(roots: Sequence[Node]) -> list[Node]:
    """`roots`, whose values are the same, with transfers written out."""
    new: dict[Node, Node] = {}
    for node in toposort(roots, lambda n: n not in _with_transfers):
        if node in _with_transfers:
            new[node] = node
            continue
        src = tuple(new[s] for s in node.src)
        new[node] = made = _with_its_transfers(node, src)
        if made is not node:
            pass_on(node, [made], gradient=False)
        if made.op is Op.PART or is_over_mesh(partition([made])[made]):
            _with_transfers.add(made)
    return [new[root] for root in roots]


def _with_its_transfers(node: Node, src: tuple[Node, ...]) -> Node:
    if src != node.src:
        node = rebuild(node, src)
    moving = set() if node.op in (Op.PART, Op.MULTI) else needed_whole(node)
    if not moving:
        return node
    return rebuild(node, tuple(_copies(s) if i in moving else s for i, s in enumerate(node.src)))


# What makes no fewer elements of those that it has.
_PASSING = frozenset((Op.RESHAPE, Op.EXPAND, Op.PERMUTE, Op.PAD, Op.FLIP, Op.DETACH))


def _copies(node: Node) -> Node:
    """`node` as copies over the mesh that it is split over."""
    value = partition([node])[node]
    assert isinstance(value, Spread)
    if value.axis is None:
        return node
    if node.op in _PASSING:
        return rebuild(node, (_copies(node.src[0]),))
    return sharded_as(node, ShardArg(value.arg.devices, None))


def calls_of(roots: Sequence[Node], pending: Iterable[Node]) -> list[Node]:
    """Those of `pending` nodes whose values processes make together, in the order of the calls.

    What the parts of `roots` are not made of is left out: a sum that is only needed in pieces.
    """
    found: list[tuple[int, Node, Node]] = []
    for node in pending:
        if node.op not in (Op.PART, Op.REDUCE):
            continue
        values = partition([node, *node.src])
        [part] = nodes_of(values[node])[:1]
        numbers = _numbers(part, {p for source in node.src for p in nodes_of(values[source])})
        if numbers:
            found.append((max(numbers), node, part))
    if not found:
        return []
    placed = partition([*roots])
    needed = set(toposort(part for root in roots for part in nodes_of(placed[root])))
    found.sort(key=lambda row: row[0])
    return [node for _, node, part in found if part in needed]


def _numbers(part: Node, below: set[Node]) -> list[int]:
    """The numbers of the calls between nodes `below` and a part."""
    made = toposort([part], lambda n: n not in below)
    return [n.arg.number for n in made if n.op is Op.COLLECTIVE and n not in below]
