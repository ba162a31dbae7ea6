"""Kernels of one flat loop, whose code is the same for any number of elements.

    one, other = flat_form(one_ast, target), flat_form(other_ast, target)
    if one.text == other.text:
        description = resized(description_of_one, one, other, work_of_other)

An optimiser's update of many parameters is such kernels, and so are their first values: compiled
once, they are there for all. On processors a launch says which steps of the outermost loop to take,
so nothing in the code knows how many there are. The number of elements is one of whole blocks, as
otherwise the last block is code of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..ir.loops import has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import ALU, Op
from ..ir.text import render
from ..ir.views import Access, Load, Store
from ..ir.widths import widest_itemsize
from ..optimize.parameters import Parameters
from ..target import Target
from .program import Description
from .work import Work

__all__ = ["Flat", "flat_form", "resized"]

LEAST_STEPS = 2  # of which code has a loop
LEAST_ITEMSIZE = 2  # of the values that lanes are counted by

_FLAT = ALU | {
    Op.CONST, Op.PARAM, Op.RANGE, Op.CAST, Op.BITCAST, Op.LOAD, Op.STORE, Op.END, Op.SINK
}  # fmt: skip


@dataclass(frozen=True)
class Flat:
    """A kernel over `size` elements: `text` is that of all such kernels, `slots` the arguments that
    have so many elements.
    """

    text: str
    size: int
    slots: frozenset[int]


def flat_form(ast: Node, target: Target) -> Flat | None:
    """What a kernel is, however many elements it is about; None if it is not of this kind."""
    order = ast.toposort()
    loops = [node for node in order if node.op is Op.RANGE]
    if target.workgroup is not None or len(loops) != 1 or not all(n.op in _FLAT for n in order):
        return None
    [loop] = loops
    size, block = loop_size(loop), _block(order, target)
    if not has_fixed_size(loop) or size == 0 or size % block:
        return None
    params = _of_each_element(order, loop)
    if params is None or any(param.arg.size != size for param in params):
        return None
    short = Node(Op.RANGE, loop.dtype, (Node.index(block),), loop.arg)
    shorter = {p: p.replace(arg=replace(p.arg, size=block)) for p in params}
    text = render(ast.substitute({loop: short, **shorter}))
    return Flat(f"{text}\n{_levels(params, target)}", size, frozenset(p.arg.slot for p in params))


def _block(order: Sequence[Node], target: Target) -> int:
    """The elements of one step: so many vectors are computed side by side."""
    lanes = target.vector_bytes // max(widest_itemsize(order), LEAST_ITEMSIZE)
    return Parameters().copies * max(lanes, 1)


def _of_each_element(order: Sequence[Node], loop: Node) -> set[Node] | None:
    """The arguments of which each step takes its own element; None where anything else is done.

    Of all others the same elements are taken by every step.
    """
    whole: set[Node] = set()
    others: set[Node] = set()
    for node in order:
        if node.op not in (Op.LOAD, Op.STORE):
            continue
        memory, index = Access.of(node)
        if memory.op is not Op.PARAM or memory.arg.image is not None or _is_gated(node):
            return None
        if index is loop:
            whole.add(memory)
        elif index.is_const and node.op is Op.LOAD:
            others.add(memory)
        else:
            return None
    return None if whole & others else whole


def _is_gated(node: Node) -> bool:
    return Load.of(node).is_gated if node.op is Op.LOAD else Store.of(node).is_gated


def _levels(params: Iterable[Node], target: Target) -> list[tuple[int, bool, bool]]:
    """Which arguments outgrow the last cache, or half of it: they are stored past the caches."""
    sizes = {p.arg.slot: p.arg.size * p.dtype.itemsize for p in params}
    l3 = target.l3
    return [(slot, size >= l3 // 2, size >= l3) for slot, size in sorted(sizes.items())]


def resized(made: Description, of: Flat, wanted: Flat, name: str, work: Work) -> Description | None:
    """What describes the code of one kernel as that of another one of the same text.

    `work` is what a launch of that does. None where the code takes steps that do not fit.
    """
    entries = made["entries"]
    if len(entries) != 1 or made["scratch"]:
        return None
    symbol, grid, launched, slots, variables, _, shared, boxes, aligned = entries[0]
    if grid < LEAST_STEPS or of.size % grid or wanted.size % (of.size // grid):
        return None
    slots = [
        (slot, nbytes // of.size * wanted.size if slot in of.slots else nbytes, is_written)
        for slot, nbytes, is_written in slots
    ]
    steps = wanted.size // (of.size // grid)
    size = work.ops + work.buffers // 4
    entry = (symbol, steps, launched, slots, variables, size, shared, boxes, aligned)
    return {**made, "name": name, "entries": [entry], "work": work}
