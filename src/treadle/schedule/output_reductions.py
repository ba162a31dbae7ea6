"""Reductions join the kernel that goes through the same memory anyway.

    y = x * 2 (stored); s = sum of y       ->  one kernel, and y is not read again
    y = x[places]; m = max of places       ->  one kernel: the places are read once

A kernel of plain elements gets one more loop nest for each of them, over loops of its own.
optimize/output_reductions.py makes one pass over memory of these. Worth it is what takes a good
part of the traffic and comes from memory: caches give again what they hold for less than what a
kernel with more in it might lose. Losses beside their gradients, statistics beside an activation
that is stored, and the largest index beside what is gathered (CHECK_INDEX) are such.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ..ir.loops import closed_ranges, has_fixed_size, loop_size, ranges_of
from ..ir.loops_alike import (
    is_elementwise,
    is_image,
    is_plain_store,
    loops_alike,
    places_in,
    reductions_of,
)
from ..ir.node import Node
from ..ir.op import ALU, Op
from ..ir.rules.index import linear_terms, simplify
from ..ir.views import Access, End, Load, Reduce, Store
from ..target import Target
from .kernel import Kernel
from .merge import MAX_BUFFERS, WORTH
from .reasons import MAX_KERNEL_OPS

__all__ = ["join_output_reductions"]

CACHES = 2  # times a second-level cache: what a reduction need not read is that much, at least
LEAST_ROW = 32  # elements of a result, which is stored and perhaps read once more
SHORT_STRIDE = 4  # elements between lanes that still come as whole vectors
WIDEST = 8  # bytes of an element


def join_output_reductions(kernels: Sequence[Kernel], target: Target | None) -> list[Kernel]:
    """`kernels`, in order, with reductions in kernels of outputs. Workgroups do without.

    Each joins the nearest one that can take it.
    """
    if target is None or target.workgroup is not None:
        return list(kernels)
    least = CACHES * target.l2
    found: list[Kernel | None] = list(kernels)
    for place, reduction in enumerate(kernels):
        if not _reduces(reduction, least):
            continue
        memory = frozenset(reduction.memory)
        near = [n for n, kernel in enumerate(kernels) if not memory.isdisjoint(kernel.memory)]
        for number in sorted(near, key=lambda n: abs(n - place)):
            output = found[number]
            if output is None or not _stores_elements(kernels[number]):
                continue
            passed = found[place + 1 : number + 1] if place < number else found[number + 1 : place]
            if not _may_join(reduction, output, filter(None, passed)):
                continue
            made = _together(output, reduction, least)
            if made is not None:
                found[number], found[place] = made, None
                break
    return [kernel for kernel in found if kernel is not None]


def _stores_elements(kernel: Kernel) -> bool:
    """Whether a kernel is one nest of plain elements."""
    return len(kernel.ast.src) == 1 and is_elementwise(kernel.nest)


def _may_join(reduction: Kernel, output: Kernel, passed: Iterable[Kernel]) -> bool:
    """Whether `reduction` may run behind `output`, and change places with those `passed`."""
    if any(_conflict(kernel, reduction) for kernel in passed):
        return False
    return reduction.written.isdisjoint(output.memory)


def _reduces(kernel: Kernel, least: int) -> bool:
    """Whether a kernel has plain reductions alone, in one nest, which may read `least` bytes."""
    end = kernel.nest
    if len(kernel.ast.src) != 1 or end.op is not Op.END:
        return False
    reduces = reductions_of(end)
    if not reduces or not all(map(is_plain_store, End.of(end).effects)):
        return False
    if any(n.op in (Op.STAGE, Op.REGISTER, Op.AFTER) or is_image(n) for n in end.toposort()):
        return False
    loops = (*closed_ranges(end), *closed_ranges(reduces[0]))
    return all(has_fixed_size(r) for r in loops) and WIDEST * loop_size(*loops) >= least


def _conflict(one: Kernel, other: Kernel) -> bool:
    """Whether two kernels may not change places."""
    written = one.written.intersection(other.memory)
    return bool(written or other.written.intersection(one.memory))


def _together(output: Kernel, reduction: Kernel, least: int) -> Kernel | None:
    """Both as one kernel, if their loops are alike and that pays."""
    buffers = [*output.buffers]
    slots = {key: slot for slot, key in enumerate(output.memory)}
    for key, buffer in zip(reduction.memory, reduction.buffers, strict=True):
        if slots.setdefault(key, len(buffers)) == len(buffers):
            buffers.append(buffer)
    if len(buffers) > MAX_BUFFERS:
        return None
    numbers = [slots[key] for key in reduction.memory]
    elements, *others = output.ast.src
    total = _beside(reduction.nest, output.ast, numbers)
    loops = loops_alike(elements, total)
    if loops is None or not _has_rows(elements, total, loops):
        return None
    if not _pays(elements, total, loops, least):
        return None
    total = _with_stored(elements, total, loops)
    written = {Store.of(store).memory for store in End.of(elements).effects}
    if any(n.op is Op.LOAD and Load.of(n).memory in written for n in total.toposort()):
        return None
    made = replace(
        output,
        ast=Node.sink((elements, *others, total)),
        roots=(*output.roots, *reduction.roots),
        buffers=tuple(buffers),
        writes=(*output.writes, *(numbers[slot] for slot in reduction.writes)),
        reason=f"{output.reason}; reductions of what it goes through are stored beside it",
        choices=output.choices | reduction.choices,
    )
    count = sum(n.op in ALU for n in made.ast.toposort())
    return made if count <= MAX_KERNEL_OPS else None


def _beside(total: Node, ast: Node, numbers: Sequence[int]) -> Node:
    """`total` with arguments as `numbers` has them, and loops that `ast` has not."""
    nodes = ast.toposort()
    first = 1 + max((n.arg.number for n in nodes if n.op is Op.RANGE), default=-1)
    known = {n.arg.slot: n for n in nodes if n.op is Op.PARAM}
    new: dict[Node, Node] = {}
    for node in total.toposort():
        if node.op is Op.PARAM:
            slot = numbers[node.arg.slot]
            new[node] = known.get(slot, node.replace(arg=replace(node.arg, slot=slot)))
        elif node.op is Op.RANGE:
            new[node] = node.replace(arg=replace(node.arg, number=first + node.arg.number))
    return total.substitute(new)


def _has_rows(output: Node, total: Node, loops: dict[Node, Node]) -> bool:
    """Whether neighbours in memory belong to the same result, LEAST_ROW of them at least.

    Each lane of a vector would have a result of its own otherwise. And whether what is stored lies
    as what is read: transposes and concatenations have better loops of their own.
    """
    results = {loops[r] for r in closed_ranges(total)}
    steps = [linear_terms(Access.of(access).index)[0] for access in _accesses(output)]
    rows = {r for found in steps for r, step in found.items() if r.op is Op.RANGE and step == 1}
    if len(rows) != 1 or any(map(_is_padded, output.toposort())):
        return False
    [row] = rows
    inner = itertools.takewhile(lambda r: r not in results, reversed(closed_ranges(output)))
    is_near = all(abs(found.get(row, 0)) <= SHORT_STRIDE for found in steps)
    is_long = loop_size(row) >= LEAST_ROW and loop_size(*inner) >= LEAST_ROW
    return is_near and is_long and row not in results


def _is_padded(node: Node) -> bool:
    """Whether a node is loaded in some steps of the loops alone, and 0 in the others."""
    if node.op is not Op.LOAD or not Load.of(node).is_gated:
        return False
    return not any(n.op is Op.LOAD for n in Load.of(node).gate.toposort())


def _pays(output: Node, total: Node, loops: dict[Node, Node], least: int) -> bool:
    """Whether `least` bytes are read once then, and they are a good part of what both move."""
    known = places_in(output)
    loads = {simplify(n.substitute(loops)) for n in total.toposort() if n.op is Op.LOAD}
    shared = [n for n in loads if Load.of(n).index in known.get(Load.of(n).memory, ())]
    saved = sum(_bytes(shared))
    moved = sum(_bytes(loads)) + sum(_bytes(_accesses(output)))
    return saved >= least and saved * WORTH >= moved


def _accesses(end: Node) -> list[Node]:
    return [n for n in end.toposort() if n.op in (Op.LOAD, Op.STORE)]


def _bytes(accesses: Iterable[Node]) -> Iterator[int]:
    """What each LOAD or STORE moves in all of its steps."""
    for node in accesses:
        value = Store.of(node).value if node.op is Op.STORE else node
        index = Access.of(node).index
        yield value.dtype.itemsize * loop_size(*ranges_of(index))


def _with_stored(output: Node, total: Node, loops: dict[Node, Node]) -> Node:
    """`total` with what `output` stores in place of its loads of that."""
    stored = {Access.of(store): Store.of(store).value for store in End.of(output).effects}
    made: dict[Node, Node] = {}
    for reduce in reductions_of(total):
        reduced, own, _ = Reduce.of(reduce)
        mine = {loops[r]: r for r in (*closed_ranges(total), *own)}
        loads = [n for n in reduced.toposort() if n.op is Op.LOAD and not Load.of(n).is_gated]
        for load in loads:
            memory, index = Access.of(load)
            value = stored.get(Access(memory, simplify(index.substitute(loops))))
            if value is not None:
                made[load] = simplify(value.substitute(mine))
    return total.substitute(made)
