"""STAGE to memory: a loop that fills it, and loads that wait for the loop.

    STAGE(value, gate, f0, f1, i0, i1, f0, f1)
      ->  LOAD(AFTER(memory, END(STORE(memory, f0*n + f1, value, gate), f0, f1)), i0*n + i1)

Scope "shared" becomes LOCAL memory, filled by each worker inside the loops that the value depends
on. Scope "grid" becomes a scratch PARAM, filled by all workers in a phase of its own. What has
several buffers is lowered in multi_buffering.py.
"""

from __future__ import annotations

from ..dtype import dtypes
from ..ir.args import LocalRef, ParamRef
from ..ir.loops import closed_ranges
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from ..ir.shape import size_product
from ..ir.verify import verify_stages
from .bulk_copy_producer import lower_bulk_copies
from .multi_buffering import alignment_of, lower_buffered_stages, place_in, stored_part

__all__ = ["lower_stages"]


def lower_stages(root: Node, first_slot: int) -> tuple[Node, list[Node]]:
    """`root` without STAGEs, and the scratch PARAMs made, in slots from `first_slot` on."""
    verify_stages(root)
    scratch: list[Node] = []
    filled: dict[tuple[Node, ...], Node] = {}
    root = lower_bulk_copies(lower_buffered_stages(root))
    first_local = sum(n.op is Op.LOCAL for n in root.toposort())

    def step(node: Node) -> Node | None:
        if node.op is Op.FRAGMENT and behind_after(node.src[0]).op is Op.LOAD:
            memory, position = behind_after(node.src[0]).src  # memory, and no value of it
            if node.src[0].op is Op.AFTER:
                memory = Node(Op.AFTER, memory.dtype, (memory, *node.src[0].src[1:]))
            return node.replace(src=(memory, position))
        if node.op is Op.BOX and node.src[0].op is Op.LOAD:
            return node.replace(src=(node.src[0].src[0], *node.src[1:]))
        if node.op is Op.WGMMA and node.src[0].op is Op.LOAD:
            return node.replace(src=tuple(s for load in node.src for s in load.src))
        if node.op is not Op.STAGE:
            return None
        key = stored_part(node)
        if key not in filled:
            memory = _memory(node, first_local + len(filled), first_slot + len(scratch))
            if memory.op is Op.PARAM:
                scratch.append(memory)
            filled[key] = _fill(node, memory)
        position = place_in(node, node.src[2 + len(node.arg.sizes) :])
        return Node(Op.LOAD, node.dtype, (filled[key], position))

    return _number_tickets(rewrite_with(root, step)), scratch


def _number_tickets(root: Node) -> Node:
    """Each TICKET as the LOAD it holds, and a STORE of the next number beside its END's effects."""

    def step(node: Node) -> Node | None:
        if node.op is not Op.END:
            return None
        below = Node.sink(node.src[: node.arg]).toposort(lambda n: n.op is not Op.END)
        taken = {n: n.src[0] for n in below if n.op is Op.TICKET}
        if not taken:
            return None
        effects = tuple(effect.substitute(taken) for effect in node.src[: node.arg])
        counted = tuple(
            Node(Op.STORE, dtypes.void, (*load.src[:2], load + 1)) for load in taken.values()
        )
        src = (*effects, *counted, *closed_ranges(node))
        return Node(Op.END, dtypes.void, src, len(effects) + len(counted))

    return rewrite_with(root, step)


def _memory(node: Node, number: int, slot: int) -> Node:
    size = size_product(node.arg.sizes)
    if node.arg.scope == "grid":
        return Node(Op.PARAM, node.dtype, (), ParamRef(slot, size))
    return Node(Op.LOCAL, node.dtype, (), LocalRef(number, size, alignment_of(node)))


def _fill(node: Node, memory: Node) -> Node:
    value, gate = node.src[:2]
    position = place_in(node, node.src[2:])
    src = (memory, position, value)
    if gate.op is not Op.CONST:
        src = (*src, gate)
    store = Node(Op.STORE, dtypes.void, src)
    done = Node(Op.END, dtypes.void, (store, *closed_ranges(node)), 1)
    return Node(Op.AFTER, node.dtype, (memory, done))
