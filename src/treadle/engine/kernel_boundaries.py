"""Boundaries of kernels: nodes that no one kernel computes.

COPY, from one device to another; HOST, a function of NumPy's; COLLECTIVE, a call of a group of
processes; RECUR, a loop over kernels.

    computed_at_once([HOST(BUFFER)])         -> [RESHAPE(BUFFER)]
    compute_cuts([HOST(BUFFER + 1) * 2], realize)

They cut a graph into what comes before and what comes after. Where all that a host call reads is in
memory already, the call is all the work there is: nothing is scheduled, and no graph walked over.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Protocol

from ..ir.choices import choosing
from ..ir.node import Node, toposort
from ..ir.op import CUTS, MOVEMENT, Op
from ..ir.origin import origin_of
from ..ir.recurrence import Loop, siblings, without
from ..ir.views import behind_reshape, operand
from ..transforms.matrices import siblings as results_of
from ..transforms.recurrence import rows
from .buckets import Exchange, independent_calls
from .devices import Device
from .effects import little_beside
from .launching import run_step
from .memory import Memory, adopt, memory_of, new_memory
from .realized import holders, is_backed, remember, resolve
from .recurrence import run_loop
from .sink_into_loop import products_of_rows, with_products
from .steps import BetweenRuns, Collective, HostCall, Transfer, listeners

__all__ = ["compute_cuts", "computed_at_once", "device_of"]


class Realize(Protocol):
    """As `engine/run` has it."""

    def __call__(
        self,
        outputs: Sequence[tuple[Node, str | tuple[str, ...]]],
        *,
        when_stored: Mapping[int, Callable[[Memory], None]] = ...,
    ) -> list[Node]: ...


# The graphs that are being computed: one's cuts are computed for it, before it.
_computing: list[Sequence[Node]] = []


def computed_at_once(nodes: Sequence[Node]) -> list[Node] | None:
    """The memory of `nodes` if that takes no more than host calls of known values, else None."""
    found = [resolve(node) for node in nodes]
    calls: list[tuple[Node, list[Node]]] = []
    for node in found:
        if _is_in_memory(node):
            continue
        if node.op not in (Op.HOST, Op.COLLECTIVE):
            return None
        operands = [resolve(source) for source in node.src]
        if not all(map(_is_in_memory, operands)):
            return None
        calls.append((node, operands))
    if len(calls) > 1 and any(node.op is Op.COLLECTIVE for node, _ in calls):
        return None  # some go together, as they do where they have to be computed for
    for node, operands in calls:
        if node.memory is None:  # no earlier call has computed it as well
            _take(node, operands)
    return [resolve(node) for node in found] if calls else found


def compute_cuts(outputs: Sequence[Node], realize: Realize) -> None:
    """Compute each of CUTS below `outputs`, after what it reads, on that's device.

    A device that interprets graphs does so with loops, too.
    """
    _computing.append(outputs)
    try:
        _compute_cuts(outputs, realize)
    finally:
        _computing.pop()


def _compute_cuts(outputs: Sequence[Node], realize: Realize) -> None:
    pending = toposort(outputs, lambda n: resolve(n) is n)
    cuts = [node for node in pending if node.op in CUTS and resolve(node) is node]
    larger = _with_more_states(cuts)
    done: set[Node] = set()  # loops, by their first states
    for cut in cuts:
        if resolve(cut) is not cut or _first(cut) in done:  # computed with another one
            continue
        smaller: list[Node] = []
        while (more := larger.get(_first(cut))) is not None:
            smaller.append(cut)
            cut = more
        device = device_of(cut.src, cut)
        if cut.op is Op.COLLECTIVE:
            calls = [c for c in independent_calls(pending) if device_of(c.src, c) == device]
            others = _alike(pending, cut, device)
            also = [s for one in others for s in one.src if not is_backed(resolve(s))]
            also += little_beside([s for call in calls for s in call.src] + also, device)
            _exchange(calls, also, device, realize)
            continue
        if cut.op is Op.RECUR and Device[device].interprets:
            continue
        loop = _with_products(cut, device) if cut.op is Op.RECUR else cut
        below = [_read_in_place(node) if cut.op is Op.RECUR else node for node in loop.src]
        nodes = [resolve(node) for node in below]
        if not all(map(is_backed, nodes)):
            # What others read as well is computed once for all.
            alike = [] if cut.op is Op.RECUR else _alike(pending, cut, device)
            also = [s for one in alike for s in one.src if not is_backed(resolve(s))]
            stored = [*dict.fromkeys(map(_stored_below, (*below, *also)))]
            realize([(node, device) for node in stored])
            if resolve(cut) is not cut:
                continue
            nodes = realize([(node, device) for node in below])
        if cut.op is Op.RECUR:
            pairs = zip(loop.src, below, nodes, strict=True)
            operands = [view.substitute({node: known}) for view, node, known in pairs]
            same = _same_states([cut, *smaller])
            unread = _unread(same)
            ways = ["sink_into_loop"] if loop is not cut else []
            with choosing(*ways, *(["shared_loop"] if smaller else [])):
                made = run_loop(loop, operands, _memory_below(nodes[0]).device, unread)
            done.update(_first(one) for one in (cut, *smaller))
            last = Loop.of(cut).last
            for number, (memory, states) in enumerate(zip(made, same, strict=True)):
                for state in states:
                    kept = rows(state, (last, last + 1)) if number in unread else state
                    remember(kept, adopt(memory, kept.shape))
        else:
            _take(cut, nodes)


def _exchange(calls: Sequence[Node], also: Sequence[Node], device: str, realize: Realize) -> None:
    """Make `calls` of groups, none of which waits for another one, when what they read is there.

    Each bucket is begun as soon as it can be, while kernels compute what the others read, and
    `also`, which other cuts read.
    """
    exchange = Exchange(calls, _make)
    sources = [*dict.fromkeys(source for call in calls for source in call.src)]
    left = [source for source in sources if not is_backed(resolve(source))]
    for source in sources:
        if source not in left:
            exchange.arrived(source, _memory_below(resolve(source)))
    readers: dict[Node, list[Node]] = {}
    for source in left:
        readers.setdefault(_stored_below(source), []).append(source)
    stored = [*dict.fromkeys((*readers, *map(_stored_below, also)))]

    def arrived(number: int, memory: Memory) -> None:
        for source in readers[stored[number]]:
            exchange.arrived(source, memory)

    when_stored: dict[int, Callable[[Memory], None]] = {}
    for number, below in enumerate(readers):
        if any(below not in (source, behind_reshape(source)) for source in readers[below]):
            break  # what reads a part of it comes later, and so do all behind that
        when_stored[number] = functools.partial(arrived, number)
    if stored:
        realize([(node, device) for node in stored], when_stored=when_stored)
    if left:
        for source, node in zip(left, realize([(s, device) for s in left]), strict=True):
            exchange.arrived(source, _memory_below(node))
    exchange.finish()


def _make(calls: Sequence[Node], operands: list[Memory]) -> None:
    """Make calls as one."""
    first, *others = calls
    if not others:
        _take_of(first, operands)
        return
    device, size = operands[0].device, sum(memory.size for memory in operands)
    made = [new_memory(device, call.dtype, math.prod(call.shape)) for call in calls]
    arg = first.arg.again(shape=(size,))
    _run_and_remember(Collective(arg, operands, (size,), made, origin_of(first)), calls)


def _alike(pending: Sequence[Node], cut: Node, device: str) -> list[Node]:
    """Other cuts that what they read can be computed for on `device` at the time of `cut`.

    Those are behind no cut that is left: the gradients of all layers, say, which processes add up.
    """
    behind: dict[Node, bool] = {}
    found: list[Node] = []
    for node in pending:
        is_left = resolve(node) is node
        behind[node] = is_left and any(
            behind[s] or (s.op in CUTS and resolve(s) is s) for s in node.src
        )
        is_alike = is_left and node.op in CUTS and node.op is not Op.RECUR and node is not cut
        if is_alike and not behind[node] and device_of(node.src, node) == device:
            found.append(node)
    return found


def _stored_below(node: Node) -> Node:
    """What `node` is a view of, if that is to be stored."""
    base = node
    while base.op in MOVEMENT and resolve(base) is base:
        base = operand(base)
    return base if base.op is Op.CONTIGUOUS and resolve(base) is base else node


def _same_states(loops: Sequence[Node]) -> list[list[Node]]:
    """For each state of the first of `loops`: it, and that of the others which have fewer."""
    many = [siblings(one) for one in loops]
    return [[of_one[n] for of_one in many if n < len(of_one)] for n in range(len(many[0]))]


def _unread(same: Sequence[Sequence[Node]]) -> list[int]:
    """The numbers of a loop's states of which nothing reads more than the last row.

    For each state, `same` has all nodes that are it.
    """
    roots = _wanted()
    last = Loop.of(same[0][0]).last
    ends = {rows(state, (last, last + 1)) for states in same for state in states}
    below = toposort(roots, lambda n: n not in ends and resolve(n) is n)
    read = {source for node in below if node not in ends for source in node.src}.union(roots)
    return [number for number, states in enumerate(same) if read.isdisjoint(states)]


def _with_more_states(cuts: Sequence[Node]) -> dict[Node, Node]:
    """For the first state of a loop: that of another of `cuts` which has the same states and more.

    What a loop saves for its gradient are states that no step reads.
    """
    loops = list(dict.fromkeys(_first(cut) for cut in cuts if cut.op is Op.RECUR))
    found: dict[Node, Node] = {}
    for small in loops:
        count = len(small.arg.body)
        for large in loops:
            is_larger = len(large.arg.body) > count
            is_larger = is_larger and _states(large, count) == _states(small, count)
            if is_larger and small in without(large, count):
                found[small] = large
    return found


def _wanted() -> list[Node]:
    """What is being computed, and what can be asked for."""
    return [*chain.from_iterable(_computing), *(holder.node for holder in holders())]


def _with_products(cut: Node, device: str) -> Node:
    """The loop of `cut` with products in its steps that are better computed there."""
    target = Device[device].target
    products = [n for n in products_of_rows(cut, target) if _is_read_by_loops(n, cut)]
    return with_products(cut, products, target) if products else cut


def _is_read_by_loops(node: Node, cut: Node) -> bool:
    """Whether `node` is unknown, and nothing reads it but the loop of `cut`, or one like it."""
    sequences, wanted = Loop.of(cut).sequences, _wanted()
    if resolve(node) is not node:
        return False
    below = toposort(wanted, lambda n: resolve(n) is n)
    users = [user for user in below if node in user.src]
    are_loops = all(u.op is Op.RECUR and Loop.of(u).sequences == sequences for u in users)
    return are_loops and node not in wanted


def _states(loop: Node, count: int) -> tuple[Node, ...]:
    """The first states of a RECUR, as many of them."""
    return loop.src[:count]


def _read_in_place(node: Node) -> Node:
    """What a loop's operand is rows of: a step reads them where they are, such as in a history."""
    while node.op in (Op.SHRINK, Op.RESHAPE) and resolve(node) is node:
        node = operand(node)
    return node


def _first(cut: Node) -> Node:
    """The first state of a loop; any other cut as it is."""
    return siblings(cut)[0] if cut.op is Op.RECUR else cut


def device_of(sources: Sequence[Node], cut: Node) -> str:
    """Where the memory is that `sources` of a COPY, HOST or COLLECTIVE read."""
    for item in reversed(toposort(sources, lambda n: n.op is not Op.COPY)):
        if item.op is Op.COPY:
            return item.arg
        if item.op is Op.BUFFER:
            return item.arg.device
    if cut.op is Op.COLLECTIVE and cut.arg.device:
        return cut.arg.device
    return cut.arg if cut.op is Op.COPY else Device.DEFAULT


def _is_in_memory(node: Node) -> bool:
    """Whether a node is memory of one device."""
    return node.op is not Op.MULTI and is_backed(node)


def _take(cut: Node, operands: Sequence[Node]) -> None:
    """Copy or call, with `operands` in memory; all results are remembered."""
    _take_of(cut, [_memory_below(node) for node in operands])


def _take_of(cut: Node, sources: list[Memory]) -> None:
    _run_and_remember(*_STEPS[cut.op](cut, sources))


def _run_and_remember(step: BetweenRuns, results: Sequence[Node]) -> None:
    run_step(step)
    for listen in listeners:
        listen(step)
    for node, memory in zip(results, step.made, strict=True):
        remember(node, adopt(memory, node.shape))


def _copy(node: Node, operands: list[Memory]) -> tuple[Transfer, list[Node]]:
    (source,) = operands
    return Transfer(source, new_memory(node.arg, node.dtype, source.size)), [node]


def _collective(node: Node, operands: list[Memory]) -> tuple[Collective, list[Node]]:
    arg = node.arg
    device = operands[0].device if operands else device_of((), node)
    shape = operand(node).shape if operands else ()
    made = [new_memory(device, node.dtype, math.prod(arg.shape))]
    return Collective(arg, operands, shape, made, origin_of(node)), [node]


def _host_call(node: Node, operands: list[Memory]) -> tuple[HostCall, list[Node]]:
    """The call that a HOST node is a result of, with memory for all results, and their nodes."""
    arg, device = node.arg, operands[0].device
    results = [node] if len(arg.shapes) == 1 else results_of(node)
    made = [new_memory(device, one.dtype, math.prod(one.shape)) for one in results]
    shapes = [source.shape for source in node.src]
    return HostCall(arg, operands, shapes, made, origin_of(node)), results


_STEPS: dict[Op, Callable[[Node, list[Memory]], tuple[BetweenRuns, list[Node]]]] = {
    Op.COPY: _copy,
    Op.HOST: _host_call,
    Op.COLLECTIVE: _collective,
}


def _memory_below(node: Node) -> Memory:
    node = behind_reshape(node)
    return memory_of(node.arg)
