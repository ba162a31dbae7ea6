"""Compute graphs: lazy nodes in, buffer-backed nodes out.

    [node] = realize([(x + 1, "CPU")])  ->  RESHAPE(BUFFER) of the same shape

What has been computed is remembered, weakly, so that every other graph with the same node reads
the memory (`resolve`). An assignment overwrites memory in place: whatever a live holder (see
`track`) can still read of the old version is copied out first.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol

from ..ir.interpret import interpret_many
from ..ir.node import Node
from ..ir.op import Op
from .memory import from_host, read, write

__all__ = ["Device", "Holder", "holders", "is_backed", "realize", "resolve", "track"]


class Device:
    """Names of devices."""

    DEFAULT: ClassVar[str] = "CPU"

    @staticmethod
    def canonicalize(name: str | None) -> str:
        """The one spelling of a device: upper case, without ":0"; None is the default."""
        return Device.DEFAULT if name is None else name.upper().removesuffix(":0")


class Holder(Protocol):
    """Whoever keeps a node alive for the user to read: a tensor."""

    @property
    def node(self) -> Node: ...


_serial = itertools.count()
_live: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_realized: weakref.WeakKeyDictionary[Node, Node] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def track(holder: Holder) -> None:
    """From now on `holder.node` counts as readable, for as long as `holder` lives."""
    _live[next(_serial)] = holder


def holders() -> list[Any]:
    """Every tracked holder that is alive."""
    return list(_live.values())


def resolve(node: Node) -> Node:
    """The buffer-backed node that holds the value of `node`, or `node` if nothing does yet."""
    while (found := _realized.get(node)) is not None:
        node = found
    return node


def is_backed(node: Node) -> bool:
    """Whether a node is a BUFFER or a RESHAPE of one."""
    while node.op is Op.RESHAPE:
        node = node.src[0]
    return node.op is Op.BUFFER


def _current(roots: Iterable[Node]) -> tuple[Node, list[Node]]:
    """The SINK of `roots` with everything known replaced by its memory, and its nodes."""
    sink = Node.sink(roots)
    known = {n: resolve(n) for n in sink.toposort(lambda n: n not in _realized)}
    sink = sink.substitute({n: memory for n, memory in known.items() if n is not memory})
    return sink, sink.toposort()


def realize(outputs: Sequence[tuple[Node, str]]) -> list[Node]:
    """Compute every (graph, device); the result has memory of its own, and the same shape.

    Raises DeviceError if a device is missing, OutOfMemory if one is full.
    """
    with _lock:
        todo = [pair for pair in dict.fromkeys(outputs) if not is_backed(resolve(pair[0]))]
        done = dict(zip(todo, _compute(todo), strict=True)) if todo else {}
        return [done[pair] if pair in done else resolve(pair[0]) for pair in outputs]


def _compute(outputs: Sequence[tuple[Node, str]]) -> list[Node]:
    sink, order = _current(node for node, _ in outputs)
    effects = [node for node in order if node.op is Op.AFTER]
    _keep_old_versions(effects)
    memory = {_buffer_below(e).arg: read(_buffer_below(e).arg).copy() for e in effects}
    kept = _still_read(effects)
    values = interpret_many(
        [*sink.src, *kept], lambda ref: memory[ref] if ref in memory else read(ref)
    )
    for effect, value in zip(kept, values[len(sink.src) :], strict=True):
        _realized[effect] = from_host(_buffer_below(effect).arg.device, effect.dtype, value)
    _commit(effects, memory)
    lasting = _reading_memory(order)
    rows = zip(outputs, sink.src, values, strict=False)
    return [_settle(output, root, value, root in lasting) for output, root, value in rows]


def _settle(output: tuple[Node, str], root: Node, value: Any, remember: bool) -> Node:
    """The memory of one output. A constant graph is not remembered: it has no device."""
    node, device = output
    if is_backed(resolve(root)):
        backed = resolve(root)
    else:
        buffer = from_host(device, node.dtype, value)
        shaped = buffer.shape != node.shape
        backed = Node(Op.RESHAPE, node.dtype, (buffer,), node.shape) if shaped else buffer
    for known in (root, node):
        if remember and resolve(known) is not backed:
            _realized[known] = backed
    return backed


def _reading_memory(order: list[Node]) -> set[Node]:
    found: set[Node] = set()
    for node in order:
        if node.op is Op.BUFFER or any(source in found for source in node.src):
            found.add(node)
    return found


def _commit(effects: list[Node], memory: dict[Any, Any]) -> None:
    """Write the assigned memory; each last effect becomes the next version of its buffer."""
    overwritten = _overwritten(effects)
    for effect in effects:
        if effect in overwritten:
            continue
        ref = _buffer_below(effect).arg
        new = replace(ref, version=ref.version + _depth(effect))
        write(new, memory[ref])
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


def _reachable(effects: list[Node]) -> set[Node]:
    """What live holders read without going through an effect of this batch."""
    stop = set(effects)
    sink = Node.sink(resolve(holder.node) for holder in holders())
    inside = lambda n: n not in stop and n not in _realized  # noqa: E731
    return {resolve(n) for n in sink.toposort(inside)}


def _still_read(effects: list[Node]) -> list[Node]:
    """Effects that another one overwrites, although their own value can still be read."""
    if not effects:
        return []
    overwritten, reachable = _overwritten(effects), _reachable(effects)
    return [effect for effect in effects if effect in overwritten and effect in reachable]


def _keep_old_versions(effects: list[Node]) -> None:
    """Copy the memory that effects will overwrite, where a holder can still read it."""
    if not effects:
        return
    reachable = _reachable(effects)
    for base in _overwritten(effects):
        if base.op is Op.BUFFER and base in reachable:
            _realized[base] = from_host(base.arg.device, base.dtype, read(base.arg))
