"""Loops in kernels: which RANGEs a node depends on, and replacing RANGEs by others.

    replace_ranges(ast, {r: Split(outer * 8 + inner, (outer, inner), outer * 8 + inner < 100)})

Where the replacement covers more than the loop did, the guard keeps every store and reduction to
what was there before, and every load inside of its memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .accumulators import where_inside
from .conditions import TRUE, parts, stays_inside
from .node import Node, rebuild
from .op import Op
from .remembered import Table
from .rules.index import simplify
from .shape import size_max

__all__ = [
    "Split", "closed_ranges", "digits_of", "free_ranges", "has_fixed_size",
    "loop_size", "number_of", "ranges_of", "replace_ranges",
]  # fmt: skip

Ranges = frozenset[Node]
_NONE: Ranges = frozenset()
_RANGES = Table[Node, Ranges]()


def loop_size(*loops: Node) -> int:
    """How many iterations RANGEs have together: the most, where one is known at launch only."""
    sizes = (loop.src[0] for loop in loops)
    return math.prod(size.arg if size.op is Op.CONST else size_max(size) for size in sizes)


def has_fixed_size(loop: Node) -> bool:
    """Whether a RANGE has the same size in every launch."""
    return loop.src[0].op is Op.CONST


def number_of(loops: tuple[Node, ...]) -> Node:
    """The number whose digits are RANGEs of fixed sizes, outermost first."""
    total = Node.index(0)
    for r in loops:
        total = total * loop_size(r) + r
    return simplify(total)


def digits_of(number: Node, loops: tuple[Node, ...]) -> list[Node]:
    """The digits of `number` for RANGEs of fixed sizes, outermost first: undoes `number_of`."""
    found = []
    for r in reversed(loops):
        found.append(number % loop_size(r))
        number = number // loop_size(r)
    return found[::-1]


def closed_ranges(node: Node) -> tuple[Node, ...]:
    """The RANGEs that end at this node: those of a REDUCE, END or STAGE; outermost first."""
    if node.op is Op.REDUCE:
        return node.src[1:]
    if node.op is Op.END:
        return node.src[node.arg :]
    if node.op is Op.STAGE:
        return node.src[2 + 2 * len(node.arg.sizes) :]
    return ()


def free_ranges(root: Node) -> dict[Node, Ranges]:
    """For each node under `root`, and some others, the RANGEs around it that its value depends on.

    It is remembered and shared: nobody may change it.
    """
    free = _RANGES.here()
    for node in root.toposort(lambda n: n not in free):
        if node in free:
            continue
        if node.op is Op.RANGE:  # the size of an inner loop can depend on an outer one
            free[node] = free[node.src[0]] | {node}
            continue
        if node.op is Op.STAGE:
            free[node] = _free_of_stage(node, free)
            continue
        mine = _NONE
        for source in node.src:
            if not free[source] <= mine:
                mine = mine | free[source]
        closed = closed_ranges(node)
        free[node] = mine - frozenset(closed) if closed else mine
    return free


def ranges_of(node: Node) -> Ranges:
    """The RANGEs around a node that its value depends on."""
    known = _RANGES.here()
    return known[node] if node in known else free_ranges(node)[node]


def _free_of_stage(node: Node, free: dict[Node, Ranges]) -> Ranges:
    count = len(node.arg.sizes)
    filled = _NONE.union(*(free[s] for s in node.src[: 2 + count]))
    read = _NONE.union(*(free[s] for s in node.src[2 + count : 2 + 2 * count]))
    return (filled - frozenset(closed_ranges(node))) | read


@dataclass(frozen=True)
class Split:
    """What a RANGE becomes: `expr`, in the loops `ranges` (outermost first), where `guard`."""

    expr: Node
    ranges: tuple[Node, ...]
    guard: Node = TRUE


def replace_ranges(root: Node, splits: dict[Node, Split]) -> Node:
    """`root` with RANGEs replaced; loads, stores and reductions are guarded where needed."""
    free = free_ranges(root)
    new: dict[Node, Node] = {}
    for node in root.toposort():
        if node in splits:
            new[node] = splits[node].expr
        elif node.op in (Op.REDUCE, Op.END, Op.STAGE):
            new[node] = _replace_closed(node, splits, new)
        else:
            src = tuple(new[s] for s in node.src)
            changed = node if src == node.src else rebuild(node, src)
            new[node] = _guarded(node, changed, splits, free)
    return new[root]


def _replace_closed(node: Node, splits: dict[Node, Split], new: dict[Node, Node]) -> Node:
    closed = closed_ranges(node)
    start = len(node.src) - len(closed)
    ranges: list[Node] = []
    for r in closed:
        ranges.extend(splits[r].ranges if r in splits else (new[r],))
    before = [new[s] for s in node.src[:start]]
    for r in closed:
        guard = splits[r].guard if r in splits else TRUE
        if guard is TRUE:
            continue
        if node.op is Op.REDUCE:
            before[0] = where_inside(guard, before[0], node.arg.op)
        elif node.op is Op.STAGE:
            before[1] = before[1] & guard
    return Node(node.op, node.dtype, (*before, *ranges), node.arg)


def _guarded(old: Node, node: Node, splits: dict[Node, Split], free: dict[Node, Ranges]) -> Node:
    if old.op is Op.LOAD:
        used, gate_at = free[old.src[1]], 2
    elif old.op is Op.STORE:
        used, gate_at = free[old], 3
    else:
        return node
    guard = TRUE
    for r in splits:
        if r in used and splits[r].guard is not TRUE:
            guard = guard & splits[r].guard
    if guard is TRUE:
        return node
    gate = node.src[gate_at] if len(node.src) > gate_at else TRUE
    if old.op is Op.LOAD:
        index, conditions = simplify(node.src[1]), parts(simplify(gate))
        if stays_inside(index, node.src[0], conditions):
            return node  # what is read too much is not stored
    gate = guard if gate is TRUE else gate & guard
    src = (*node.src[:gate_at], gate, *node.src[gate_at + 1 :])
    if old.op is Op.LOAD and len(src) == 3:
        src = (*src, Node.const(node.dtype, 0))
    return Node(node.op, node.dtype, src, node.arg)
