"""REDUCE to registers: an accumulator before the loop, an UPDATE inside, a read after its END.

    REDUCE(x, r; ADD)  ->  acc = REGISTER(0); AFTER(acc, END(UPDATE(acc, x, r; ADD), r))

Reductions over the same loops share them: one END holds all their updates. The extreme of keys with
their places (ir/keyed.py) is in two registers, see extremes.py.
"""

from __future__ import annotations

from ..dtype import dtypes
from ..ir.args import RegisterRef
from ..ir.keyed import joined, split
from ..ir.loops import free_ranges, identity
from ..ir.node import Node, behind_after, rebuild
from ..ir.op import Op
from .extremes import updates_of_keyed

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
    registers: dict[Node, list[Node]] = {}
    updates: list[Node] = []
    for member in members:
        made = _updates(new[member.src[0]], member.arg.op, outer, loops, number)
        registers[member] = [behind_after(update.src[0]) for update in made]
        updates.extend(made)
        number += len(made)
    finish = Node(Op.END, dtypes.void, (*updates, *loops), len(updates))
    for member, held in registers.items():
        results = [Node(Op.AFTER, register.dtype, (register, finish)) for register in held]
        new[member] = results[0] if len(held) == 1 else joined(*reversed(results))
    return number


def _updates(
    value: Node, op: Op, outer: tuple[Node, ...], loops: tuple[Node, ...], number: int
) -> list[Node]:
    """The UPDATEs of new registers that reduce `value` in each step of `loops`."""
    halves = split(value) if op in (Op.MAX, Op.MIN) else None
    if halves is not None:
        return updates_of_keyed(*halves, op, outer, loops, number)
    init = identity(op, value.dtype)
    register = Node(Op.REGISTER, value.dtype, (init, *outer), RegisterRef(number + 1))
    return [Node(Op.UPDATE, dtypes.void, (register, value, *loops), op)]
