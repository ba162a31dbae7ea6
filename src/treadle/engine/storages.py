"""Storages: what writing to a tensor changes, and who sees it.

    x = Tensor([1.0, 2.0, 3.0])       a tensor owns a storage: its latest values
    v = x[1:]                         a view names the storage, and shows a part of it
    v.assign(7)                       both see the new values; other views keep theirs
    u = v[0]; u += 1                  u, v and x see them: what a view was taken of is on the way

A storage is made when a view of its tensor is taken, or when the tensor is written to. Its values
are any graph; where only a part is written they lie in memory, which no other storage writes to.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, cast

from ..ir.args import Placeholder, Token
from ..ir.node import Node
from ..ir.op import Op
from ..ir.shape import Shape
from ..ir.versions import stored_below
from ..ir.views import operand
from .call_scope import ValueOfCall, is_running
from .change_counters import changes
from .realized import Holder, holders, resolve

if TYPE_CHECKING:
    from .devices import Placement

__all__ = [
    "Captured", "FirstCall", "Moves", "Promised", "Storage", "Stored", "base_of", "bases_to_write",
    "capturing", "claimed", "first_call", "held_nodes", "is_behind", "is_last", "next_storage",
    "on_the_way", "overwritten", "rename", "shown", "storage_of", "written",
]  # fmt: skip

Moves: TypeAlias = tuple[tuple[Op, Any], ...]  # op and arg, the innermost first

_serials = itertools.count()


class Stored(Holder, Protocol):
    """A tensor as the engine sees it: what it shows of which storage."""

    @property
    def _storage(self) -> Storage | None: ...

    @_storage.setter
    def _storage(self, storage: Storage | None, /) -> None: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def node(self) -> Node: ...

    @node.setter
    def node(self, node: Node, /) -> None: ...

    @property
    def device(self) -> str | tuple[str, ...]: ...

    @property
    def is_leaf(self) -> bool: ...

    @property
    def _requires_grad(self) -> bool | None: ...

    @_requires_grad.setter
    def _requires_grad(self, value: bool | None, /) -> None: ...

    @property
    def _moves(self) -> Moves | None: ...

    @_moves.setter
    def _moves(self, moves: Moves | None, /) -> None: ...

    @property
    def _above(self) -> Sequence[Callable[[], Stored | None]]: ...


class Promised(Protocol):
    """What the node over a buffer will be like that nobody has asked for yet."""

    def node(self, buffer: object, /) -> Node:
        """The node, made now."""
        ...


class Captured(Stored, Protocol):
    """A tensor as captured functions see it: they tell it what they have done to it."""

    grad: Any

    @classmethod
    def _in_memory(
        cls, node: Node, device: Placement, requires_grad: bool | None = None
    ) -> Self: ...

    def requires_grad_(self, requires_grad: bool | None = True) -> Self: ...

    def _to_be(self, buffer: object, promise: Promised) -> Self:
        """One like it in `buffer`, of which the promise says what it will be."""
        ...

    def _show(self, node: Node) -> None:
        """It has been left with the values of `node`."""
        ...

    def _given(self, node: Node, own: Node | None) -> None:
        """A captured function has written `node` to it; a view shows `own` instead."""
        ...

    def _computed(self, node: Node) -> None:
        """Its values are in memory at `node`."""
        ...


class Storage:
    """The latest values of a tensor, in its shape, on its device.

    `owner` is that tensor, as long as it lives. `is_graded`: gradients flow through the graph of
    the values, so that memory does not stand for it. Numbers of later storages are higher.
    """

    __slots__ = ("__weakref__", "device", "is_graded", "node", "number", "owner")

    def __init__(self, owner: Stored, node: Node) -> None:
        self.node, self.device = node, owner.device
        self.is_graded = owner._requires_grad is True and not owner.is_leaf
        self.owner: weakref.ref[Stored] | None = weakref.ref(owner)
        self.number = next(_serials)

    def _show(self, node: Node) -> None:
        """It has the values of `node`, and its owner shows them."""
        self.node = node
        if (owner := self.tensor()) is not None:
            owner.node = node

    def tensor(self) -> Stored | None:
        """The tensor that owns it, or None."""
        return None if self.owner is None else self.owner()


def shown(moves: Moves, node: Node) -> Node:
    """What movements show of `node`."""
    for op, arg in moves:
        node = Node(op, node.dtype, (node,), arg)
    return node


def is_behind(tensor: Stored) -> bool:
    """Whether a view may show an older version than its storage has by now."""
    moves, storage, node = tensor._moves, tensor._storage, tensor.node
    if moves is None or storage is None or node is (now := shown(moves, storage.node)):
        return False
    there = shown(moves, resolve(storage.node))
    return resolve(node) not in (resolve(now), resolve(there))  # one of them may be computed by now


def is_last(tensor: Stored, node: Node) -> bool:
    """Whether a view shows, as `node`, all that anybody can still see of its storage."""
    if tensor._moves is None or tensor._storage is None or not _is_alone(tensor):
        return False
    return _shows(tensor._moves, node, tensor._storage.node)


def _shows(moves: Moves, node: Node, base: Node) -> bool:
    """Whether `node` is what the movements show of `base`, with or without its gradients."""
    for op, arg in reversed(moves):
        while node.op is Op.DETACH:
            node = operand(node)
        if node.op is not op or node.arg != arg:
            return False
        node = operand(node)
    while node is not base and node.op is Op.DETACH:
        node = operand(node)
    return node is base


def held_nodes() -> Iterator[tuple[Stored, Node]]:
    """What can still be read: each tensor with its node, and each view of a tensor that is gone
    with the values that a write to a part of that view would leave around it.
    """
    for holder in holders():
        yield holder, (node := holder.node)
        if holder._moves is None or holder._storage is None:
            continue
        if holder._storage.tensor() is None and not is_last(holder, node):
            yield holder, holder._storage.node


def on_the_way(tensor: Stored) -> list[Stored]:
    """The view `tensor`, and the views that it was taken of, up to the owner: they see a write."""
    if tensor._moves is None:
        return []
    above = [view for ref in tensor._above if (view := ref()) is not None]
    return [tensor, *(view for view in above if view._storage is tensor._storage)]


def storage_of(tensor: Stored) -> Storage:
    """The storage that writes to `tensor` go to, made here if it has none yet."""
    if tensor._storage is None:
        tensor._storage = Storage(tensor, tensor.node)
        if tensor._moves is not None:  # a view whose owner is gone
            tensor._storage.owner = None
    return tensor._storage


def next_storage() -> int:
    """A number between those of the storages so far and all later ones."""
    return next(_serials)


class Capturing(Protocol):
    """Who wants to know what a function does while it is captured."""

    def wrote(self, storage: Storage, tensor: Stored) -> None:
        """`storage` is about to be written to through `tensor`."""
        ...

    def replaced(self, tensor: Stored) -> None:
        """`tensor` is about to become another one."""
        ...

    def may_write(self, token: Token) -> bool:
        """Whether replays can write to this memory as the function does."""
        ...

    def is_inside(self, token: Token) -> bool:
        """Whether this is a name of memory that only the function has read."""
        ...

    def suspended(self) -> AbstractContextManager[None]:
        """A block whose work is none of the function's."""
        ...


@dataclass(eq=False)
class FirstCall:
    """The first call of a function, which runs plainly: what it writes to, and the graphs of
    tensors around it, with their devices. Holders with numbers below `began` are from before.
    """

    outside: Mapping[Node, Placement]
    began: int
    writes: set[Storage] = field(default_factory=set)


# The first call that runs in this thread.
first_call = ValueOfCall[FirstCall | None]()


class _Active(threading.local):
    """The capture that runs in this thread.

    It runs while the call that began it does, whatever has ended that call: an interrupt may come
    before any line of what tidies up.
    """

    _active: Capturing | None = None
    _call: FrameType | None = None

    @property
    def active(self) -> Capturing | None:
        """The capture, but for where it is suspended."""
        found = self._active
        if found is None or is_running(self._call):
            return found
        self.end()
        return None

    @property
    def is_repeated(self) -> bool:
        """Whether what runs is a function that will be replayed: its first call, or a capture."""
        return first_call.value is not None or self.active is not None

    def begin(self, capture: Capturing) -> None:
        """The call of this function runs what is captured, until it returns or calls `end`."""
        self._call, self._active = sys._getframe(1), capture
        changes.begin(capture)

    def end(self) -> None:
        """Nothing is captured any more."""
        changes.end(self._active)
        self._active = self._call = None

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """A block in which nothing is captured."""
        before = self._active
        try:
            self._active = None
            yield
        finally:
            self._active = before


capturing = _Active()

# Memory is written to for one storage alone, and no version of it twice.
_claims: weakref.WeakKeyDictionary[Token, weakref.ref[Storage]] = weakref.WeakKeyDictionary()
overwritten: weakref.WeakSet[Node] = weakref.WeakSet()

# Storages with values that a write has left to be computed, and some that are computed by now.
written: weakref.WeakSet[Storage] = weakref.WeakSet()


def base_of(node: Node, is_graded: bool = False) -> Node | None:
    """The whole buffer (BUFFER or AFTER) that `node` is a reshape of, or None.

    Where it `is_graded`, the memory of what has been computed does not count.
    """
    node = node if is_graded else resolve(node)
    while node.op is Op.RESHAPE:
        node = operand(node) if is_graded else resolve(operand(node))
    return node if node.op in (Op.BUFFER, Op.AFTER) else None


def bases_to_write(storage: Storage) -> list[Node] | None:
    """The memory that writes to `storage` go to, on each of its devices; None if there is none.

    From then on nothing else writes there.
    """
    node = storage.node if storage.is_graded else resolve(storage.node)
    if not isinstance(storage.device, tuple):
        parts: tuple[Node, ...] = (node,)
    elif node.op is Op.MULTI:
        parts = node.src
    else:
        return None
    bases = [base_of(part, storage.is_graded) for part in parts]
    found = [base for base in bases if base is not None and _is_free(storage, base)]
    if len(found) < len(parts):
        return None
    for base in found:
        _claims[_token(base)] = weakref.ref(storage)
    return found


def _token(base: Node) -> Token:
    return stored_below(base).arg.token


def _is_free(storage: Storage, base: Node) -> bool:
    token = _token(base)
    if base in overwritten or isinstance(token, Placeholder):
        return False
    capture = capturing.active
    if capture is not None and not capture.may_write(token):
        return False
    return claimed(token) in (None, storage)


def claimed(token: Token) -> Storage | None:
    """The storage that the memory of `token` is written to for, if there is one."""
    reference = _claims.get(token)
    return None if reference is None else reference()


def rename(storage: Storage, names: Iterable[Node]) -> None:
    """More names of the memory of `storage`: it is written to for no other one by any of them."""
    for name in names:
        _claims[name.arg.token] = weakref.ref(storage)


class _Probe:
    __slots__ = ("__weakref__", "_requires_grad", "_storage", "device", "is_leaf")


def _count(holder: Stored) -> int:
    return sys.getrefcount(holder._storage)


def _counted_once() -> int:
    probe = _Probe()
    probe.device, probe.is_leaf, probe._requires_grad = "", False, None
    probe._storage = Storage(cast("Stored", probe), Node.index(0))
    return _count(cast("Stored", probe))


_ONCE = _counted_once()


def _is_alone(tensor: Stored) -> bool:
    """Whether nobody but `tensor` has its storage: no owner, and no other view."""
    return _count(tensor) <= _ONCE
