"""Compute graphs: lazy nodes in, buffer-backed nodes out.

    [node] = realize([(x + 1, "CPU")])  ->  RESHAPE(BUFFER) of the same shape

What has been computed is remembered, weakly, so that every other graph with the same node reads
the memory (`resolve`). An assignment overwrites memory in place: whatever a live holder (see
`track`) can still read of the old version is copied out first.
"""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..config import settings
from ..errors import InternalError
from ..ir.args import BufferRef, Token
from ..ir.node import Node, substitute, toposort
from ..ir.op import Op
from ..ir.shape import size_product
from ..ir.symbolic import size_with, unbind
from ..runtime.base import Launch
from ..schedule.kernel import Kernel
from ..schedule.schedule import schedule
from ..schedule.shard import Spread, Value, partition, spread_over
from .backends import Device
from .counters import GlobalCounters
from .memory import Memory, adopt, from_host, memory_of, new_memory, read, transfer
from .pipeline import Program, program_of
from .report import report_kernels

__all__ = [
    "Holder", "Run", "Transfer", "holders", "is_backed", "realize", "remember", "resolve",
    "scheduled", "track",
]  # fmt: skip


class Holder(Protocol):
    """Whoever keeps a node alive for the user to read: a tensor."""

    @property
    def node(self) -> Node: ...


_serial = itertools.count()
_live: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_realized: weakref.WeakKeyDictionary[Node, Node] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


@dataclass(eq=False)
class Run:
    """A program with everything that one run of it reads and writes."""

    program: Program
    inputs: list[Memory]
    outputs: list[Memory]
    scratch: list[Any]
    values: dict[str, int]

    def launches(self) -> list[Launch]:
        """The launches of this run."""
        inputs, outputs = [m.buffer for m in self.inputs], [m.buffer for m in self.outputs]
        return self.program.launches(inputs, outputs, self.scratch, self.values)


@dataclass(frozen=True, eq=False)
class Transfer:
    """A copy of all of `source` to `target`, which may be on another device."""

    source: Memory
    target: Memory


# Told of each step that was taken, in order; a capturing jit listens.
listeners: list[Callable[[Run | Transfer], None]] = []

# Told when a graph was interpreted, which nothing can replay.
on_interpret: list[Callable[[], None]] = []


def track(holder: Holder) -> None:
    """From now on `holder.node` counts as readable, for as long as `holder` lives."""
    _live[next(_serial)] = holder


def holders() -> list[Any]:
    """Every tracked holder that is alive."""
    # Not .values(): another thread may make a tensor while this one looks.
    return [holder for ref in _live.valuerefs() if (holder := ref()) is not None]


def resolve(node: Node) -> Node:
    """The buffer-backed node that holds the value of `node`, or `node` if nothing does yet."""
    while (found := _realized.get(node)) is not None:
        node = found
    if node.op is Op.RESHAPE:
        base = node.src[0]
        moved = resolve(base)
        if moved is not base and is_backed(moved):
            return Node(Op.RESHAPE, node.dtype, (moved,), node.shape)
    if node.op is Op.MULTI and is_backed(node):
        moved = tuple(resolve(source) for source in node.src)
        return node if moved == node.src else node.replace(src=moved)
    return node


def remember(node: Node, memory: Node) -> None:
    """From now on `memory` is where the value of `node` is."""
    _realized[node] = memory


def is_backed(node: Node) -> bool:
    """Whether a node is a BUFFER, a RESHAPE of one, or a MULTI of such."""
    while node.op is Op.RESHAPE:
        node = node.src[0]
    if node.op is Op.MULTI:
        return all(is_backed(part) for part in node.src)
    return node.op is Op.BUFFER


def _current(roots: Iterable[Node]) -> tuple[tuple[Node, ...], list[Node]]:
    """`roots` with everything known replaced by its memory, and all of their nodes."""
    roots = tuple(roots)
    known: dict[Node, Node] = {}

    def is_unknown(node: Node) -> bool:
        memory = resolve(node)
        if memory is not node:
            known[node] = memory
        return memory is node

    while True:
        # Again after each round: with its sources replaced, a node may be a known one, too.
        order = toposort(roots, is_unknown)
        if not known:
            return roots, order
        roots = substitute(roots, known)
        known.clear()


def realize(outputs: Sequence[tuple[Node, Any]]) -> list[Node]:
    """Compute every (graph, device); the result has memory of its own, and the same shape.

    For a tuple of devices it is a MULTI of such results. Raises DeviceError if a device is missing,
    OutOfMemory if one is full.
    """
    with _lock:
        nodes = [node for node, _ in outputs]
        devices = dict.fromkeys([device for _, device in outputs])
        roots, order = _current(nodes)
        ops = {node.op for node in order}
        if Op.MULTI in ops or any(isinstance(device, tuple) for device in devices):
            return _realize_shards(outputs)
        if len(devices) == 1:
            return _compute(nodes, *devices, roots, order, ops)
        done: dict[tuple[Node, str], Node] = {}
        for device in devices:
            mine = [pair for pair in outputs if pair[1] == device]
            done.update(zip(mine, realize(mine), strict=True))
        return [done[pair] for pair in outputs]


def _realize_shards(outputs: Sequence[tuple[Node, Any]]) -> list[Node]:
    """Compute graphs over several devices: each device's part as a graph of its own."""
    nodes = [node for node, _ in outputs]
    pending = [n for n in toposort(nodes) if n.op is Op.AFTER and resolve(n) is n]
    images = _current(pending)[0]
    roots = _current(nodes)[0]
    placed = partition([*roots, *images])
    jobs = _jobs([placed[root] for root in roots], [device for _, device in outputs])
    # What devices tell each other first: later it may have been overwritten.
    _transfer_copies([node for node, _ in jobs])
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
            _realized[node] = results[-1]
    return results


def _jobs(values: list[Value], devices: list[Any]) -> list[tuple[Node, str]]:
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
        _realized[effect] = memory


def _compute(
    outputs: list[Node], device: str, roots: tuple[Node, ...], order: list[Node], ops: set[Op]
) -> list[Node]:
    """Compute graphs on one device; `roots`, of the nodes `order` and ops `ops`, are current."""
    if Op.COPY in ops:
        _transfer_copies(outputs)
        roots, order = _current(outputs)
    if Op.AFTER in ops:
        values = _compute_with_effects(outputs, device, roots, order)
    else:
        values = _run(list(roots), device, [])
    lasting = _reading_memory(order)
    rows = zip(outputs, roots, values, strict=True)
    return [_settle(node, root, value, root in lasting) for node, root, value in rows]


def _compute_with_effects(
    outputs: list[Node], device: str, roots: tuple[Node, ...], order: list[Node]
) -> list[Node | None]:
    """Compute graphs that assign to memory: what overwrites a value that is still read waits."""
    pending = [n for n in toposort(outputs) if n.op is Op.AFTER and resolve(n) is n]
    images = _current(pending)[0]
    effects = [node for node in order if node.op is Op.AFTER]
    _keep_old_versions(effects)
    kept = _still_read(effects)
    copies = [Node(Op.CONTIGUOUS, effect.dtype, (effect,)) for effect in kept]
    values = _run([*roots, *copies], device, effects)
    for effect, value in zip(kept, values[len(roots) :], strict=True):
        assert value is not None  # a CONTIGUOUS is always new memory
        _realized[effect] = value
    _commit(effects)
    for effect, image in zip(pending, images, strict=True):
        if resolve(image) is not image:  # the user's own node, which tensors hold
            _realized[effect] = resolve(image)
    return values[: len(roots)]


def _run(roots: list[Node], device: str, effects: list[Node]) -> list[Node | None]:
    """Compute `roots`; gives a BUFFER for each, None where it is no new memory."""
    if all(map(is_backed, roots)):
        return [None] * len(roots)
    run = _interpret if Device[device].interprets else _execute
    return run(roots, device, effects)


def scheduled(outputs: Sequence[tuple[Node, Any]]) -> list[Kernel]:
    """The kernels that `realize` would run for `outputs`, device by device; runs nothing."""
    with _lock:
        roots = list(_current(node for node, _ in outputs)[0])
        placed = partition(roots)
        jobs = _jobs([placed[root] for root in roots], [device for _, device in outputs])
        jobs = _with_buffers_for_copies(jobs)
        kernels: list[Kernel] = []
        for device in dict.fromkeys(device for _, device in jobs):
            stored = [_stored_below(node) for node, home in jobs if home == device]
            mine = [node for node in stored if not is_backed(node)]
            plain, _ = unbind(mine)
            if plain:
                steps, _ = schedule(plain, device, Device[device].target)
                kernels += [kernel for _, kernel in steps]
        return kernels


def _with_buffers_for_copies(jobs: list[tuple[Node, str]]) -> list[tuple[Node, str]]:
    """The same work with a BUFFER for each COPY; what the COPYs copy is work of its own."""
    sources: list[tuple[Node, str]] = []
    arrived: dict[Node, Node] = {}
    for copy in toposort(node for node, _ in jobs):
        if copy.op is not Op.COPY:
            continue
        source = copy.src[0].substitute(arrived)
        sources.append((source, _device_of(source, copy.arg)))
        ref = BufferRef(Token(), size_product(copy.shape), copy.arg)
        buffer = Node(Op.BUFFER, copy.dtype, (), ref)
        arrived[copy] = Node(Op.RESHAPE, copy.dtype, (buffer,), copy.shape)
    return [*sources, *((node.substitute(arrived), device) for node, device in jobs)]


def _settle(node: Node, root: Node, value: Node | None, remember: bool) -> Node:
    """The memory of one output. A constant graph is not remembered: it has no device."""
    backed = resolve(root)
    if not is_backed(backed):
        assert value is not None
        shaped = value.shape != node.shape
        backed = Node(Op.RESHAPE, node.dtype, (value,), node.shape) if shaped else value
    for known in (root, node):
        if remember and resolve(known) is not backed:
            _realized[known] = backed
    return backed


def _execute(roots: list[Node], device: str, effects: list[Node]) -> list[Node | None]:
    """Run `roots` as kernels; gives a BUFFER for each, None where it is no new memory."""
    roots = [_stored_below(root) for root in roots]
    todo = [root for root in dict.fromkeys(roots) if not is_backed(root)]
    if not todo:
        return [None] * len(roots)
    program, inputs, values = program_of(todo, device)
    memories = [memory_of(ref) for ref in inputs]
    for memory in memories:
        if memory.device != device:
            raise InternalError(f"[realize] a kernel on {device} reads memory on {memory.device}")
    outputs = [
        new_memory(device, dtype, size_with(size, values), image)
        for dtype, size, image in program.outputs
    ]
    run_program(program, memories, outputs, values)
    nodes = [adopt(memory) for memory in outputs]
    numbers = dict(zip(todo, program.roots, strict=True))
    found = [numbers.get(root) for root in roots]
    return [None if number is None else nodes[number] for number in found]


def _stored_below(root: Node) -> Node:
    """What gets memory anyway, where `root` is only another shape of it."""
    base = root
    while base.op is Op.RESHAPE:
        base = base.src[0]
    return base if base.op in (Op.CONTIGUOUS, Op.SCAN, Op.SCATTER, Op.AFTER) else root


def run_program(
    program: Program, inputs: list[Memory], outputs: list[Memory], values: dict[str, int]
) -> None:
    """Launch every kernel of `program` on these buffers, and count it."""
    opened = Device[program.device]
    allocator = opened.allocator
    scratch = [
        allocator.alloc(block) if isinstance(block, int) else allocator.alloc_image(block)
        for block in program.scratch
    ]
    run = Run(program, inputs, outputs, scratch, values)
    launches = run.launches()
    start = time.perf_counter()
    if settings.DEBUG >= 2:
        report_kernels(program, opened.runtime.call_list(launches).run_timed(), opened)
    elif launches:
        opened.runtime.run(launches)
    count_program(program, time.perf_counter() - start)
    for listen in listeners:
        listen(run)


def count_program(program: Program, seconds: float) -> None:
    """Add one run of `program` to GlobalCounters."""
    GlobalCounters.kernel_count += len(program.kernels)
    GlobalCounters.global_ops += program.ops
    GlobalCounters.global_mem += program.bytes
    GlobalCounters.time_sum_s += seconds
    GlobalCounters.mem_used = Device[program.device].allocator.stats.live


def _interpret(roots: list[Node], device: str, effects: list[Node]) -> list[Node | None]:
    """Run `roots` through the reference interpreter."""
    from ..ir.interpret import interpret_many  # brings NumPy, which only this path needs at once

    memory = {_buffer_below(e).arg: read(_buffer_below(e).arg).copy() for e in effects}
    plain, bound = unbind(roots)
    values = interpret_many(plain, lambda ref: memory[ref] if ref in memory else read(ref), bound)
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


def _transfer_copies(outputs: list[Node]) -> None:
    """Compute the source of each COPY on its own device, and move it."""
    for copy in toposort(outputs, lambda n: resolve(n) is n):
        if copy.op is not Op.COPY or resolve(copy) is not copy:
            continue
        flat = realize([(copy.src[0], _device_of(copy.src[0], copy.arg))])[0]
        while flat.op is Op.RESHAPE:
            flat = flat.src[0]
        step = Transfer(memory_of(flat.arg), new_memory(copy.arg, copy.dtype, flat.arg.size))
        transfer(step.source, step.target)
        for listen in listeners:
            listen(step)
        _realized[copy] = Node(Op.RESHAPE, copy.dtype, (adopt(step.target),), copy.shape)


def _device_of(node: Node, default: str) -> str:
    """Where the memory that a graph reads is."""
    for item in reversed(node.toposort(lambda n: n.op is not Op.COPY)):
        if item.op is Op.COPY:
            return item.arg
        if item.op is Op.BUFFER:
            return item.arg.device
    return default


def _reading_memory(order: list[Node]) -> set[Node]:
    found: set[Node] = set()
    for node in order:
        if node.op is Op.BUFFER or any(source in found for source in node.src):
            found.add(node)
    return found


# -- assignments --------------------------------------------------------------------------------


def _commit(effects: list[Node]) -> None:
    """Memory has been overwritten: each last effect becomes the next version of its buffer."""
    overwritten = _overwritten(effects)
    for effect in effects:
        if effect in overwritten:
            continue
        ref = _buffer_below(effect).arg
        new = replace(ref, version=ref.version + _depth(effect))
        memory_of(ref).version = new.version
        _realized[effect] = Node(Op.BUFFER, effect.dtype, (), new)


def _depth(effect: Node) -> int:
    count = 0
    while effect.op in (Op.AFTER, Op.RESHAPE):
        count += effect.op is Op.AFTER
        effect = effect.src[0]
    return count


def _buffer_below(effect: Node) -> Node:
    while effect.op in (Op.AFTER, Op.RESHAPE):
        effect = effect.src[0]
    return effect


def _overwritten(effects: list[Node]) -> set[Node]:
    return {effect.src[0] for effect in effects}


def _reachable(stop: set[Node]) -> set[Node]:
    """What live holders read without going through a node of `stop`."""
    roots = dict.fromkeys(resolve(holder.node) for holder in holders())
    inside = lambda n: n not in stop and n not in _realized
    return {resolve(n) for n in toposort(roots, inside)}


def _still_read(effects: list[Node]) -> list[Node]:
    """Effects that another one overwrites, although their own value can still be read."""
    if not effects:
        return []
    overwritten, reachable = _overwritten(effects), _reachable(set(effects))
    return [effect for effect in effects if effect in overwritten and effect in reachable]


def _keep_old_versions(effects: list[Node]) -> None:
    """Copy the memory that effects will overwrite, where a holder can still read it."""
    if not effects:
        return
    reachable = _reachable(set(effects))
    for base in _overwritten(effects):
        if base.op is Op.BUFFER and base in reachable:
            remember(base, from_host(base.arg.device, base.dtype, read(base.arg)))
