"""REDUCE to registers: an accumulator before the loop, an UPDATE inside, a read after its END.

    REDUCE(x, r; ADD)  ->  acc = REGISTER(0); AFTER(acc, END(UPDATE(acc, x, r; ADD), r))

Reductions over the same loops share them: one END holds all their updates.
"""

from __future__ import annotations

from ..dtype import dtypes
from ..ir.args import RegisterRef
from ..ir.loops import free_ranges, identity
from ..ir.node import Node, rebuild
from ..ir.op import Op

__all__ = ["lower_reduces"]


def lower_reduces(root: Node) -> Node:
    """`root` with every REDUCE turned into register updates."""
    order = root.toposort()
    free = free_ranges(root)
    groups: dict[tuple[Node, ...], list[Node]] = {}
    for node in order:
        if node.op is Op.REDUCE:
            groups.setdefault(node.src[1:], []).append(node)
    number = max((n.arg.number for n in order if n.op is Op.REGISTER), default=0)
    new: dict[Node, Node] = {}
    for node in _grouped_order(root, groups):
        if node in new:
            continue
        if node.op is Op.REDUCE:
            number = _lower_group(groups[node.src[1:]], free, new, number)
        else:
            src = tuple(new[s] for s in node.src)
            new[node] = node if src == node.src else rebuild(node, src)
    return new[root]


def _grouped_order(root: Node, groups: dict[tuple[Node, ...], list[Node]]) -> list[Node]:
    """Sources first, where a REDUCE also waits for the sources of those that share its loops."""
    done: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if node in done:
            continue
        if ready:
            done[node] = None
            continue
        stack.append((node, True))
        sources = node.src
        if node.op is Op.REDUCE:
            sources = tuple(s for member in groups[node.src[1:]] for s in member.src)
        stack.extend((s, False) for s in reversed(sources) if s not in done)
    return list(done)


def _lower_group(
    members: list[Node], free: dict[Node, frozenset[Node]], new: dict[Node, Node], number: int
) -> int:
    loops = tuple(new[r] for r in members[0].src[1:])
    around = frozenset().union(*(free[m] for m in members))
    outer = tuple(sorted((new[r] for r in around), key=lambda r: r.arg.number))
    registers, updates = [], []
    for member in members:
        number += 1
        init = identity(member.arg.op, member.dtype)
        register = Node(Op.REGISTER, member.dtype, (init, *outer), RegisterRef(number))
        value = new[member.src[0]]
        update = Node(Op.UPDATE, dtypes.void, (register, value, *loops), member.arg.op)
        registers.append(register)
        updates.append(update)
    finish = Node(Op.END, dtypes.void, (*updates, *loops), len(updates))
    for member, register in zip(members, registers, strict=True):
        new[member] = Node(Op.AFTER, member.dtype, (register, finish))
    return number
