"""What a tensor consists of: a node on a device, the storage behind it, whether it has gradients.

    t.node      the graph that computes the values, or the buffer that holds them
    t._storage  what writes to it go to; a view shows a part of one by its `_moves`

No operation is defined on it yet. `inplace` and `printing` are functions over it.
"""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from typing import Self

from ...dtype import DType
from ...engine.collectives import with_calls
from ...engine.realized import is_backed, resolve, track
from ...engine.run import lock
from ...engine.storages import Moves, Promised, Storage, capturing
from ...ir.args import Mesh
from ...ir.node import Node
from ...ir.origin import mark
from ...ir.shape import Shape
from ..modes import Modes
from ..types import Placement

__all__ = ["State"]

_new = object.__new__


class State(metaclass=Modes):
    """The parts of a tensor, and how they are set."""

    __slots__ = (
        "__weakref__", "_above", "_lent", "_moves", "_node", "_number", "_promised",
        "_requires_grad", "_storage", "device", "grad", "is_leaf",
    )  # fmt: skip

    device: Placement  # a name; several devices that share the tensor are a tuple of names
    grad: Self | None
    is_leaf: bool
    _node: Node | None
    _number: int
    _promised: tuple[object, Promised]  # a buffer and what its node will be; only where it has none
    _storage: Storage | None  # what writes go to; None for a tensor of its own, not written yet
    _above: tuple[weakref.ref[State], ...]  # the views that a view was taken of, the nearest first
    _moves: Moves | None  # how a view shows the storage; None for a tensor that owns its own
    _lent: tuple[object, ...]  # buffers that others know by address; not there before they ask

    @classmethod
    def _of(cls, node: Node, device: Placement, requires_grad: bool | None = None) -> Self:
        """A tensor of `node`, as it is."""
        mark(node)
        if isinstance(device, Mesh):
            [node] = with_calls([node], device)
        return cls._in_memory(node, device, requires_grad)

    @classmethod
    def _in_memory(cls, node: Node, device: Placement, requires_grad: bool | None = None) -> Self:
        """The same of a node that no line has to answer for: its values are there."""
        self = object.__new__(cls)
        self._set(node, device, requires_grad)
        return self

    def _set(self, node: Node, device: Placement, requires_grad: bool | None) -> None:
        self.device, self.grad = device, None
        self._requires_grad, self.is_leaf = requires_grad, False
        self._storage, self._moves, self._above = None, None, ()
        self._node = node  # which whoever finds the tensor by its number asks for
        self._number = track(self)

    def _to_be(self, buffer: object, promise: Promised) -> Self:
        """A tensor like this one in `buffer`, which has no node before somebody asks.

        Results of captured steps are most often read once, given to the next, or dropped.
        """
        new = _new(type(self))
        new.device, new.grad = self.device, None
        new._requires_grad, new.is_leaf = self._requires_grad, False
        new._storage, new._moves, new._above = None, self._moves and (), ()
        new._node, new._promised = None, (buffer, promise)
        return new

    def _fulfil(self) -> Node:
        with lock:  # or two threads would make a node each
            if (node := self._node) is None:
                buffer, promise = self._promised
                capture = capturing.active  # a result of another function's replay is from before
                with nullcontext() if capture is None else capture.suspended():
                    node = promise.node(buffer)
                self._number = track(self)
                self._node = node
                del self._promised
            return node

    @property
    def node(self) -> Node:
        """The graph that computes the values, or the buffer that holds them."""
        node = self._node
        return self._fulfil() if node is None else node

    @node.setter
    def node(self, node: Node) -> None:
        if node is not self.node:
            self._node = node
            self._number = track(self, self._number)

    @property
    def shape(self) -> Shape:
        """The size of each axis: integers, or symbolic sizes."""
        return self.node.shape

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.node.dtype

    @property
    def is_realized(self) -> bool:
        """Whether the values are in memory already."""
        return is_backed(resolve(self.node))
