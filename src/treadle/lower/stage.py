"""STAGE to memory: a loop that fills it, and loads that wait for the loop.

    STAGE(value, gate, f0, f1, i0, i1, f0, f1)
      ->  LOAD(AFTER(memory, END(STORE(memory, f0*n + f1, value, gate), f0, f1)), i0*n + i1)

Scope "shared" becomes LOCAL memory, filled by each worker inside the loops that the value depends
on. Scope "grid" becomes a scratch PARAM, filled by all workers in a phase of its own. What has
several buffers is lowered in multi_buffering.py.

A loop that was cut can reach beyond what a STAGE fills: what is read there is not used, and memory
is as large as what is read of it.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.accumulators import items, tuple_of
from ..ir.args import LocalRef, ParamRef
from ..ir.conditions import TRUE
from ..ir.interval import bounds
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from ..ir.shape import size_product
from ..ir.verify import verify_loops
from ..ir.views import After, Box, End, Load, Stage, Store, operand, words_and_others
from .bulk_copy_producer import lower_bulk_copies
from .multi_buffering import alignment_of, lower_buffered_stages, place_in

__all__ = ["lower_stages"]


def lower_stages(root: Node, first_slot: int) -> tuple[Node, list[Node]]:
    """`root` without STAGEs, and the scratch PARAMs made, in slots from `first_slot` on."""
    verify_loops(root)
    scratch: list[Node] = []
    filled: dict[tuple[Node, ...], list[Node]] = {}
    reach: dict[Node, int] = {}

    def step(node: Node, scope: str, first_local: int) -> Node | None:
        if node.op is Op.FRAGMENT and behind_after(operand(node)).op is Op.LOAD:
            return node.replace(src=_memory_and_index(operand(node)))
        if node.op is Op.BOX and (box := Box.of(node)).memory.op is Op.LOAD:
            return box._replace(memory=Load.of(box.memory).memory).node()
        if node.op is Op.WGMMA:
            words, loads = words_and_others(node)
            if all(load.op is Op.LOAD for load in loads):
                return node.replace(src=(*words, *(s for load in loads for s in load.src)))
        if node.op is not Op.STAGE or node.arg.scope != scope:
            return None
        key = Stage.of(node).filling  # those that differ in what they read share memory
        if key not in filled:
            local = first_local + sum(map(len, filled.values()))
            memories = _memories(node, local, first_slot + len(scratch))
            scratch.extend(memory for memory in memories if memory.op is Op.PARAM)
            filled[key] = _fill(node, memories)
        position = place_in(node, Stage.of(node).read)
        for memory in map(operand, filled[key]) if _leaves(node) else ():
            reach[memory] = max(reach.get(memory, memory.arg.size), bounds(position)[1] + 1)
        return tuple_of([Node(Op.LOAD, kept.dtype, (kept, position)) for kept in filled[key]])

    # Phases first: a producer belongs to the one whose END its product is in.
    root = rewrite_with(root, lambda node: step(node, "grid", 0))
    root = lower_bulk_copies(lower_buffered_stages(root))
    locals_ = sum(n.op is Op.LOCAL for n in root.toposort())
    root = _number_tickets(rewrite_with(root, lambda node: step(node, "shared", locals_)))
    wide = {m: m.replace(arg=replace(m.arg, size=size)) for m, size in reach.items()}
    return root.substitute(wide), [wide.get(memory, memory) for memory in scratch]


def _leaves(node: Node) -> bool:
    """Whether a STAGE is read beyond its sizes. Places that memory holds are inside by making."""
    stage = Stage.of(node)
    return any(
        bounds(place)[1] >= size and not any(n.op is Op.LOAD for n in place.toposort())
        for place, size in zip(stage.read, stage.arg.sizes, strict=True)
    )


def _memory_and_index(read: Node) -> tuple[Node, Node]:
    """What a LOAD reads: memory, and no value of it; later if it is read after something."""
    load = Load.of(behind_after(read))
    if read.op is not Op.AFTER:
        return load.memory, load.index
    return After.of(read)._replace(value=load.memory).node(), load.index


def _number_tickets(root: Node) -> Node:
    """Each TICKET as the LOAD it holds, and a STORE of the next number beside its END's effects."""

    def step(node: Node) -> Node | None:
        if node.op is not Op.END:
            return None
        end = End.of(node)
        below = Node.sink(end.effects).toposort(lambda n: n.op is not Op.END)
        taken = {n: operand(n) for n in below if n.op is Op.TICKET}
        if not taken:
            return None
        effects = [effect.substitute(taken) for effect in end.effects]
        loads = ((Load.of(number), number + 1) for number in taken.values())
        effects += [Store(load.memory, load.index, after).node() for load, after in loads]
        return end._replace(effects=tuple(effects)).node()

    return rewrite_with(root, step)


def _memories(node: Node, number: int, slot: int) -> list[Node]:
    """Memory for what a STAGE keeps, each item of a tuple by itself."""
    size, is_grid = size_product(node.arg.sizes), node.arg.scope == "grid"
    return [
        Node(Op.PARAM, dtype, (), ParamRef(slot + at, size))
        if is_grid
        else Node(Op.LOCAL, dtype, (), LocalRef(number + at, size, alignment_of(node)))
        for at, dtype in enumerate(value.dtype for value in items(node))
    ]


def _fill(node: Node, memories: list[Node]) -> list[Node]:
    """The memories, once they are filled."""
    stage = Stage.of(node)
    gate, place = TRUE if stage.gate.op is Op.CONST else stage.gate, place_in(node, stage.filled)
    values = zip(memories, items(stage.value), strict=True)
    stores = tuple(Store(memory, place, value, gate).node() for memory, value in values)
    end = End(stores, stage.loops).node()
    return [After(memory, (end,)).node() for memory in memories]
