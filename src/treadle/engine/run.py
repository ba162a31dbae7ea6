"""Compute graphs: lazy nodes in, buffer-backed nodes out.

    [node] = realize([(x + 1, "CPU")])  ->  RESHAPE(BUFFER) of the same shape

What realized.py knows already is read from memory; effects.py sees to what assignments overwrite.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from ..config import settings
from ..errors import DeviceError, InternalError
from ..forks import fork_safe
from ..ir.args import BufferRef, Token
from ..ir.node import Node, substitute, toposort
from ..ir.op import CUTS, Op
from ..ir.shape import all_known, size_product
from ..ir.symbolic import bind, size_with, unbind
from ..ir.versions import stored_below
from ..ir.views import behind_reshape
from ..schedule.kernel import Kernel
from ..schedule.passes import schedule
from ..schedule.shard import Spread, Value, partition, spread_over
from ..transforms.complex_to_real import in_reals
from .bindings import with_bindings
from .check import check_values
from .devices import Device, Placement
from .effects import (
    awaited,
    commit,
    is_stored,
    keep_old_versions,
    readers,
    readers_beside,
    remember_all,
    revoking,
    standing_for,
    still_read,
)
from .error_context import blamed
from .index_checks import flags_of
from .kernel_boundaries import compute_cuts, computed_at_once, device_of
from .launching import run_in_parts, run_program
from .memory import Memory, adopt, from_host, memory_of, new_memory, read
from .pipeline import begin_program
from .postponed import PostponedRun, catch_up, give_up, put_off
from .program import Program
from .provenance import origins_of
from .realized import current, holders, is_backed, remember, resolve
from .storages import capturing

T = TypeVar("T")
WhenStored = Mapping[int, Callable[[Memory], None]]
NOTHING_TO_DO: WhenStored = {}

__all__ = ["lock", "on_compute", "on_interpret", "realize", "scheduled", "whatever_interrupts"]

# One thread at a time computes, or gives a tensor another node that overwrites memory.
lock = fork_safe(threading.RLock(), 2)


# Told what is about to be computed; a capturing jit computes first what is not part of its replays.
on_compute: list[Callable[[Sequence[Node]], None]] = []

# Told when a graph was interpreted, which nothing can replay.
on_interpret: list[Callable[[], None]] = []


def realize(
    outputs: Sequence[tuple[Node, Placement]],
    may_wait: bool = False,
    when_stored: WhenStored = NOTHING_TO_DO,
) -> list[Node]:
    """Compute every (graph, device); the result has memory of its own, and the same shape.

    For a tuple of devices it is a MULTI of such results. What `may_wait` runs when somebody asks
    for its memory, and before anything else does; the caller sees to that by `catch_up`.
    `when_stored` has what to do with the memory of some outputs, by their numbers: one after the
    other, each as soon as it is there, while kernels compute the others. It is left undone where
    there is no such time: for what is in memory, assigned to, or interpreted.
    Raises DeviceError if a device is missing, OutOfMemory if one is full, NonFiniteError as
    CHECK_NAN asks for.
    """
    with lock:
        if settings.CHECK_NAN:
            check_values(outputs, realize)
        nodes = [node for node, _ in outputs]
        found = computed_at_once(nodes)
        if found is not None:
            return found
        return _realize_or_give_up(outputs, nodes, may_wait, when_stored)


# A tracing function, such as a debugger's, may raise at a line with `try`, which Python does not
# count to a `with` around it. So what holds a lock has no such line.
def _realize_or_give_up(
    outputs: Sequence[tuple[Node, Placement]],
    nodes: list[Node],
    may_wait: bool,
    when_stored: WhenStored,
) -> list[Node]:
    try:
        for listen in on_compute:
            listen(nodes)
        found = _realize(outputs, may_wait, when_stored)
        if not may_wait:
            catch_up()
        return found
    except BaseException:
        whatever_interrupts(give_up)
        raise


def _realize(
    outputs: Sequence[tuple[Node, Placement]], may_wait: bool, when_stored: WhenStored
) -> list[Node]:
    nodes = [node for node, _ in outputs]
    devices = dict.fromkeys([device for _, device in outputs])
    names = [device for device in devices if isinstance(device, str)]
    roots, order = current(nodes)
    ops = {node.op for node in order}
    if not ops.isdisjoint((Op.MULTI, Op.PART)) or len(names) < len(devices):
        return _realize_shards(outputs)
    if len(names) == 1:
        [device] = names
        flags = flags_of(order, device) if Op.CHECKED in ops else []
        is_repeated = capturing.is_repeated
        held = _held_beside(nodes, is_repeated) if is_repeated or Op.CONTIGUOUS in ops else []
        everything = [*nodes, *held, *(flag.graph for flag in flags)]
        if held or flags:
            roots, order = current(everything)
        ops = {node.op for node in order}
        may_wait = may_wait and not flags
        found = _compute(everything, device, roots, order, ops, may_wait, when_stored)
        for flag, node in zip(flags, found[len(found) - len(flags) :], strict=True):
            flag.computed(node)
        return found[: len(nodes)]
    done: dict[tuple[Node, Placement], Node] = {}
    with awaited(nodes):
        for device in names:
            mine = [pair for pair in outputs if pair[1] == device]
            done.update(zip(mine, realize(mine), strict=True))
    return [done[pair] for pair in outputs]


def _held_beside(nodes: Sequence[Node], is_repeated: bool) -> list[Node]:
    """What gets memory of its own on the way to `nodes` and somebody can still ask for.

    The random parameters of a layer, say: kept, they are not computed anew by each call. And, in a
    function that will be replayed, the gradients of leaves: it leaves them, so each call computes
    them. The first call does, too: then its kernels are those of the others.
    """
    on_the_way = toposort(nodes, lambda node: resolve(node) is node)
    stored = {node for node in on_the_way if node.op is Op.CONTIGUOUS and resolve(node) is node}
    found = dict.fromkeys(h.node for h in holders() if h.node in stored) if stored else {}
    if is_repeated:
        passed = {node for node in on_the_way if resolve(node) is node}
        gradients = [h.grad.node for h in holders() if h.grad is not None]
        found |= dict.fromkeys(n for n in gradients if n in passed and is_stored(n))
    return [node for node in found if node not in nodes]


def _realize_shards(outputs: Sequence[tuple[Node, Placement]]) -> list[Node]:
    """Compute graphs over several devices: each device's part as a graph of its own."""
    nodes = [node for node, _ in outputs]
    pending = [n for n in toposort(nodes) if n.op is Op.AFTER and resolve(n) is n]
    images = current(pending)[0]
    roots = current(nodes)[0]
    placed = partition([*roots, *images])
    jobs = _jobs([placed[root] for root in roots], [device for _, device in outputs])
    pairs = zip(pending, images, strict=True)
    with standing_for(pair for e, image in pairs for pair in _parts(placed[image], e)):
        # What devices tell each other first: later it may have been overwritten.
        catch_up()
        parts = [node for node, _ in jobs]
        with awaited(parts):
            compute_cuts(parts, realize)
        done = iter(realize(jobs))
    for effect, image in zip(pending, images, strict=True):
        _remember_effect(effect, placed[image])
    results = []
    for root, (node, device) in zip(roots, outputs, strict=True):
        if isinstance(device, tuple):
            parts = tuple(next(done) for _ in device)
            arg = spread_over(placed[root], device).arg
            results.append(Node(Op.MULTI, node.dtype, parts, arg))
        else:
            results.append(next(done))
        if resolve(node) is not results[-1] and any(n.op is Op.BUFFER for n in node.toposort()):
            remember(node, results[-1])
    return results


def _parts(value: Value, effect: Node) -> Iterator[tuple[Node, Node]]:
    """What is computed on each device for `effect`, with that."""
    for node in value.parts if isinstance(value, Spread) else (value.node,):
        yield behind_reshape(node), effect


def _jobs(values: list[Value], devices: list[Placement]) -> list[tuple[Node, str]]:
    """The graphs that put each value on its device, or its parts on several."""
    jobs: list[tuple[Node, str]] = []
    for value, device in zip(values, devices, strict=True):
        if isinstance(device, tuple):
            jobs += zip(spread_over(value, device).parts, device, strict=True)
        else:
            jobs.append((value.on(device), device))
    return jobs


def _remember_effect(effect: Node, value: Value) -> None:
    """The memory that an AFTER has changed is that of the image it was run as."""
    if isinstance(value, Spread):
        memory = Spread(tuple(resolve(part) for part in value.parts), value.arg).node()
        changed = is_backed(memory)
    else:
        memory = resolve(value.node)
        changed = memory is not value.node
    if changed:
        remember(effect, memory)


def _compute(
    outputs: list[Node],
    device: str,
    roots: tuple[Node, ...],
    order: list[Node],
    ops: set[Op],
    may_wait: bool,
    when_stored: WhenStored,
) -> list[Node]:
    """Compute graphs on one device; `roots`, of the nodes `order` and ops `ops`, are current."""
    if not ops.isdisjoint(CUTS):
        catch_up()
        with awaited(outputs):
            compute_cuts(outputs, realize)
        found = [resolve(node) for node in outputs]
        if Op.AFTER not in ops and all(map(is_backed, found)):
            return found
        roots, order = current(outputs)
    if Op.AFTER in ops:
        return _compute_with_effects(outputs, device, roots, order, may_wait)
    values = _run(list(roots), device, [], may_wait, when_stored)
    return _settled(outputs, roots, values, order)


def _compute_with_effects(
    outputs: list[Node], device: str, roots: tuple[Node, ...], order: list[Node], may_wait: bool
) -> list[Node]:
    """Compute graphs that assign to memory, and what holders may still read of the old memory."""
    pending = [n for n in toposort(outputs) if n.op is Op.AFTER and resolve(n) is n]
    images = current(pending)[0]

    def remembered() -> None:
        for effect, image in zip(pending, images, strict=True):
            if resolve(image) is not image:  # the user's own node, which tensors hold
                remember(effect, resolve(image))

    try:
        with standing_for(zip(images, pending, strict=True)):
            return _computed_with_effects(outputs, device, roots, order, may_wait)
    finally:
        whatever_interrupts(remembered)


def whatever_interrupts(tidy: Callable[[], T]) -> T:
    """The result of `tidy`, which may run twice: memory was overwritten, and tensors must know."""
    try:
        return tidy()
    except BaseException:
        tidy()
        raise


def _computed_with_effects(
    outputs: list[Node], device: str, roots: tuple[Node, ...], order: list[Node], may_wait: bool
) -> list[Node]:
    effects = [node for node in order if node.op is Op.AFTER]
    stored = {n for pair in zip(outputs, roots, strict=True) for n in pair if is_stored(pair[1])}
    also = readers(effects, order, stored)
    stored.update(also)
    beside = readers_beside(effects, order, stored)
    stored.update(beside)
    images_beside, order_beside = current(beside)
    stored.update(images_beside)
    keep_old_versions(effects, stored)
    kept = still_read(effects, stored)
    copies = [Node(Op.CONTIGUOUS, effect.dtype, (effect,)) for effect in kept]
    everything = [*roots, *also, *images_beside, *copies]
    values = _run(everything, device, effects, may_wait)
    named = [*outputs, *also, *beside]

    def remembered() -> list[Node]:
        for effect, value in zip(kept, values[len(everything) - len(kept) :], strict=True):
            assert value is not None  # a CONTIGUOUS is always new memory
            remember_all(effect, value)
        commit(effects)
        all_nodes = [*order, *order_beside]
        return _settled(named, everything[: len(named)], values[: len(named)], all_nodes)

    settled = whatever_interrupts(remembered)
    return settled[: len(outputs)]


def _settled(
    nodes: list[Node], roots: Sequence[Node], values: list[Node | None], order: list[Node]
) -> list[Node]:
    """The memory of each node, which is now remembered where the graph reads any memory."""
    lasting = _reading_memory(order)
    rows = zip(nodes, roots, values, strict=True)
    return [_settle(node, root, value, root in lasting) for node, root, value in rows]


def _run(
    roots: list[Node],
    device: str,
    effects: list[Node],
    may_wait: bool,
    when_stored: WhenStored = NOTHING_TO_DO,
) -> list[Node | None]:
    """Compute `roots`; gives a BUFFER for each, None where it is no new memory."""
    if all(map(is_backed, roots)):
        return [None] * len(roots)
    if Device[device].interprets:
        return _interpret(roots, device, effects)
    return _execute(roots, device, effects, may_wait, when_stored)


def scheduled(outputs: Sequence[tuple[Node, Placement]]) -> list[Kernel]:
    """The kernels that `realize` would run for `outputs`, device by device; runs nothing."""
    with lock:
        roots = list(current(node for node, _ in outputs)[0])
        placed = partition(roots)
        jobs = _jobs([placed[root] for root in roots], [device for _, device in outputs])
        kernels: list[Kernel] = []
        for nodes, device in _rounds(jobs):
            mine = [node for node in map(_stored_below, nodes) if not is_backed(node)]
            plain, _ = unbind(mine)
            if plain:
                kernels += schedule(in_reals(plain), device, Device[device].target)[0]
        return kernels


def _rounds(jobs: list[tuple[Node, str]]) -> list[tuple[list[Node], str]]:
    """The graphs that are computed one after the other: what each of CUTS reads, then `jobs`.

    What an earlier one computes is a BUFFER in the later ones.
    """
    rounds: list[tuple[list[Node], str]] = []
    computed: dict[Node, Node] = {}
    for cut in toposort(node for node, _ in jobs):
        if cut.op not in CUTS:
            continue
        sources = list(substitute(cut.src, computed))
        device = device_of(sources, cut)
        rounds.append((sources, device))
        if any(n.op is Op.BUFFER for n in toposort(sources)):  # constants are not remembered
            below = toposort(cut.src, lambda n: n not in computed and not is_backed(n))
            new = [n for n in below if n in cut.src or n.op is Op.AFTER]
            computed.update({n: _made_on(device, n) for n in new if n not in computed})
        computed[cut] = _made_on(cut.arg if cut.op is Op.COPY else device, cut)
    for device in dict.fromkeys(device for _, device in jobs):
        mine = [node.substitute(computed) for node, home in jobs if home == device]
        rounds.append((mine, device))
    return rounds


def _made_on(device: str, node: Node) -> Node:
    """A value like that of `node` in memory that nothing has."""
    ref = BufferRef(Token(), size_product(node.shape), device)
    return Node(Op.RESHAPE, node.dtype, (Node(Op.BUFFER, node.dtype, (), ref),), node.shape)


def _settle(node: Node, root: Node, value: Node | None, lasts: bool) -> Node:
    """The memory of one output. A constant graph is not remembered: it has no device."""
    backed = resolve(root)
    if not is_backed(backed):
        assert value is not None
        shaped = value.shape != node.shape
        backed = Node(Op.RESHAPE, node.dtype, (value,), node.shape) if shaped else value
    for known in (root, node):
        if lasts and resolve(known) is not backed:
            remember(known, backed)
    return backed


def _execute(
    roots: list[Node],
    device: str,
    effects: list[Node],
    may_wait: bool,
    when_stored: WhenStored,
) -> list[Node | None]:
    """Run `roots` as kernels; gives a BUFFER for each, None where it is no new memory."""
    roots = [_stored_below(root) for root in roots]
    todo = [root for root in dict.fromkeys(roots) if not is_backed(root)]
    if not todo:
        return [None] * len(roots)
    soon = tuple(todo.index(roots[n]) for n in when_stored if roots[n] in todo)
    begun = begin_program(todo, device, soon)
    program, values = begun.program, begun.values
    inputs = [memory_of(ref) for ref in begun.inputs]
    for memory in inputs:
        if memory.device != device:
            raise InternalError(f"[realize] a kernel on {device} reads memory on {memory.device}")

    def launch(inputs: list[Memory], outputs: list[Memory]) -> None:
        with _blaming(todo):
            origins = origins_of(program, todo)
            calls = _calls(program, dict(zip(todo, program.roots, strict=True)), roots, outputs,
                           when_stored)  # fmt: skip
            if calls:
                run_in_parts(program, inputs, outputs, values, calls, origins)
            else:
                run_program(program, inputs, outputs, [values], origins=origins)

    with _blaming(todo):
        outputs = [
            new_memory(device, dtype, size_with(size, values), image)
            for dtype, size, image in program.outputs
        ]
    if may_wait and not begun.is_finished:
        put_off(PostponedRun(lock, begun, launch, revoking(effects)), inputs, outputs)
    else:
        begun.finish()
        catch_up()
        launch(inputs, outputs)
    sizes = [size for _, size, _ in program.outputs]
    if not all_known(sizes):  # variables keep the values that this graph binds
        given = with_bindings({})
        bound = {name: value for name, value in values.items() if name not in given}
        sizes = [n if isinstance(n, int) else bind([n], bound)[0] for n in sizes]
    nodes = [adopt(memory, (size,)) for memory, size in zip(outputs, sizes, strict=True)]
    numbers = dict(zip(todo, program.roots, strict=True))
    found = [numbers.get(root) for root in roots]
    return [None if number is None else nodes[number] for number in found]


def _calls(
    program: Program,
    numbers: dict[Node, int | None],
    roots: list[Node],
    outputs: list[Memory],
    when_stored: WhenStored,
) -> list[tuple[int, Callable[[], None]]]:
    """After how many kernels each of `when_stored` is called, in that order."""
    found: list[tuple[int, Callable[[], None]]] = []
    reached = 0
    for root, call in when_stored.items():
        number = numbers.get(roots[root])
        if number is None:  # those behind it must not come before it
            break
        reached = max(reached, program.written_at(number))
        found.append((reached, functools.partial(call, outputs[number])))
    return found


@contextlib.contextmanager
def _blaming(roots: Sequence[Node]) -> Iterator[None]:
    """A block in which errors of the device get the user's lines that `roots` come from."""
    try:
        yield
    except (DeviceError, MemoryError) as error:
        raise blamed(error, roots) from error.__cause__


def _stored_below(root: Node) -> Node:
    """What gets memory anyway, where `root` is only another shape of it."""
    base = behind_reshape(root)
    return base if base.op in (Op.CONTIGUOUS, Op.SCAN, Op.SCATTER, Op.AFTER) else root


def _interpret(roots: list[Node], device: str, effects: list[Node]) -> list[Node | None]:
    """Run `roots` through the reference interpreter."""
    catch_up()
    from ..ir.interpret import interpret_many  # brings NumPy, which only this path needs at once

    memory = {stored_below(e).arg: read(stored_below(e).arg).copy() for e in effects}
    plain, bound = unbind(roots)
    known = with_bindings(bound)
    values = interpret_many(plain, lambda ref: memory[ref] if ref in memory else read(ref), known)
    found = [
        None
        if is_backed(root) or root in effects
        else from_host(device, root.dtype, value.reshape(-1))
        for root, value in zip(roots, values, strict=True)
    ]
    for ref, data in memory.items():
        memory_of(ref).fill(data)
    for listen in on_interpret:
        listen()
    return found


def _reading_memory(order: list[Node]) -> set[Node]:
    found: set[Node] = set()
    for node in order:
        if node.op is Op.BUFFER or any(source in found for source in node.src):
            found.add(node)
    return found
