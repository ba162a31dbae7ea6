"""Realized nodes: the memory that holds a node's value, and who can still ask for it.

    remember(node, memory)    resolve(node) -> memory    current([graph]) -> the graph on memory

Remembered in the node, so that every other graph with the same node reads the memory, and nothing
is kept for a node that nobody has.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from ..forks import fork_safe
from ..ir.args import Placeholder, Token
from ..ir.node import Node, substitute, toposort
from ..ir.op import Op
from ..ir.views import behind_reshape, operand
from ..ir.weak import Reference, inside
from .change_counters import changes

__all__ = [
    "Holder", "born_since", "current", "forget", "holders", "is_backed", "is_born_since",
    "is_known", "next_number", "remember", "resolve", "track", "tracked_since",
]  # fmt: skip


class Holder(Protocol):
    """Whoever keeps a node alive for the user to read: a tensor."""

    @property
    def node(self) -> Node: ...

    @node.setter
    def node(self, node: Node, /) -> None: ...


_serial = itertools.count()
_live: weakref.WeakValueDictionary[int, Holder] = weakref.WeakValueDictionary()
_references, _forget = inside(_live)  # each operation tracks a tensor
_tracking = fork_safe(threading.RLock())  # handlers of signals and finalizers make tensors, too
_latest = -1  # the number of the holder that was tracked last
_set_memory = Node.__dict__["memory"].__set__


def track(holder: Holder, number: int | None = None) -> int:
    """From now on `holder.node` counts as readable, for as long as `holder` lives.

    Called again, with the `number` that it returned, whenever the node is another.
    """
    global _latest
    with _tracking:
        reference = None if number is None else _references.pop(number, None)
        is_new = reference is None
        if reference is None:
            reference = Reference(holder, _forget)
        while (new := next(_serial)) < _latest:  # one of those has tracked another just now
            pass
        if is_new:
            reference.born, reference.thread = new, threading.get_ident()
        reference.key = _latest = new
        _references[new] = reference
    if number is not None:
        changes.of_meaning()
    return new


def tracked_since(number: int) -> list[Holder]:
    """The holders with numbers from `number` on: those that are new or have another node."""
    found: list[Holder] = []
    if _latest < number:
        return found
    for ref in reversed([*_references.values()]):  # in order of their numbers
        if ref.key < number:
            break
        if (holder := ref()) is not None:
            found.append(holder)
    return found


def born_since(number: int) -> list[Any]:
    """The holders that this thread has made since `number` or later."""
    found: list[Holder] = []
    mine = threading.get_ident()
    for ref in reversed([*_references.values()]):
        if ref.key < number:
            break
        if ref.born >= number and ref.thread == mine and (holder := ref()) is not None:
            found.append(holder)
    return found


def is_born_since(number: int, holder: Holder) -> bool:
    """Whether this thread has made a holder since `number`, or later."""
    return any(each is holder for each in born_since(number))


def next_number() -> int:
    """A number between those of the holders that are tracked so far and all later ones."""
    with _tracking:
        return next(_serial)


def holders() -> list[Any]:
    """Every tracked holder that is alive."""
    # Not .values(): another thread may make a tensor while this one looks.
    return [holder for ref in _live.valuerefs() if (holder := ref()) is not None]


def resolve(node: Node) -> Node:
    """The buffer-backed node that holds the value of `node`, or `node` if nothing does.

    What nobody could ask for may be overwritten: it is computed anew for whoever makes it again.
    """
    first = node
    while (found := node.memory) is not None:
        node = found
    if node is not first and first.op is not Op.AFTER and _is_overwritten(node):
        forget(first)
        return first
    if node.op is Op.RESHAPE:
        base = operand(node)
        if base.op is Op.BUFFER and base.memory is None:
            return node
        moved = resolve(base)
        if moved is not base and is_backed(moved):
            return Node(Op.RESHAPE, node.dtype, (moved,), node.shape)
    if node.op is Op.MULTI and is_backed(node):
        moved = tuple(resolve(source) for source in node.src)
        return node if moved == node.src else node.replace(src=moved)
    return node


def _is_overwritten(node: Node) -> bool:
    """Whether memory holds another version than that which `node` names."""
    node = behind_reshape(node)
    if node.op is Op.MULTI:
        return any(map(_is_overwritten, node.src))
    if node.op is not Op.BUFFER or node.memory is not None:
        return False
    ref = node.arg
    return type(ref.token) is Token and ref.token.memory.version != ref.version


def remember(node: Node, memory: Node) -> None:
    """From now on `memory` is where the value of `node` is."""
    _set_memory(node, memory)


def forget(node: Node) -> None:
    """From now on `node` is a graph again."""
    _set_memory(node, None)


def is_known(node: Node) -> bool:
    """Whether this very node has been computed, or overwritten by what is remembered for it."""
    if node.memory is None:
        return False
    resolve(node)  # which forgets what is not there any more
    return node.memory is not None


def is_backed(node: Node) -> bool:
    """Whether a node is a BUFFER, a RESHAPE of one, or a MULTI of such."""
    node = behind_reshape(node)
    if node.op is Op.MULTI:
        return all(is_backed(part) for part in node.src)
    return node.op is Op.BUFFER and not isinstance(node.arg.token, Placeholder)


def current(roots: Iterable[Node]) -> tuple[tuple[Node, ...], list[Node]]:
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
