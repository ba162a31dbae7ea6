"""Nodes whose sources mean different things, with these sources by name.

    Load.of(node).index                                  node.src[1]
    Store.of(node).gate                                  node.src[3], TRUE where there is none
    Stage.of(node)._replace(value=x, loops=()).node()    the same STAGE with two sources changed

A view is a value: it is made where a node is read, and makes a node again. It trusts the node to be
of its op. The sources of an elementwise op are unpacked instead: `condition, yes, no = node.src`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ..dtype import DType, dtypes
from .args import GatherArg, ReduceArg, RegisterRef, ScatterArg, StageArg, TensorBox
from .conditions import TRUE
from .node import Node, behind_after
from .op import Op

__all__ = [
    "Access", "After", "Assign", "Box", "End", "Gather", "Load", "Reduce", "Register", "Scatter",
    "Stage", "Store", "Ticket", "Update", "Where", "behind_broadcast", "behind_reshape", "bound_of",
    "factors_of", "memory_of", "operand", "operands", "places_of", "with_loops",
    "words_and_others",
]  # fmt: skip

Nodes = tuple[Node, ...]


def operand(node: Node) -> Node:
    """The one source of a node, or the first of several: what is converted, moved or cut."""
    return node.src[0]


def behind_reshape(node: Node) -> Node:
    """What RESHAPEs are of."""
    while node.op is Op.RESHAPE:
        node = node.src[0]
    return node


def operands(node: Node) -> tuple[Node, Node]:
    """Both sources of a node with two: left and right, or a value and a number."""
    left, right = node.src
    return left, right


def words_and_others(node: Node) -> tuple[Nodes, Nodes]:
    """The words of x that a WGMMA is given, if it is, and where units find all else."""
    return node.src[: node.arg.words], node.src[node.arg.words :]


def behind_broadcast(node: Node) -> Node:
    """What all lanes of a BROADCAST are; any other node is itself."""
    while node.op is Op.BROADCAST:
        node = node.src[0]
    return node


def memory_of(access: Node) -> Node:
    """The memory that a LOAD, STORE, PREFETCH, LINE, BOX or FRAGMENT is about, without AFTERs."""
    return behind_after(access.src[0])


def bound_of(loop: Node) -> Node:
    """What a RANGE stays below: a constant, or a number that is known at launch."""
    return loop.src[0]


def factors_of(node: Node, count: int) -> tuple[Nodes, Nodes]:
    """The registers of both factors of a MMA: the first `count` are the left one's."""
    return node.src[:count], node.src[count:]


def places_of(node: Node) -> Node:
    """The indices that a GATHER reads at, or a SCATTER writes to."""
    return node.src[1]


class Access(NamedTuple):
    """What LOAD, STORE and PREFETCH begin with: element `index` of `memory`."""

    memory: Node
    index: Node

    @classmethod
    def of(cls, node: Node) -> Access:
        return cls(node.src[0], node.src[1])


@cache
def _zero(dtype: DType) -> Node:
    return Node.const(dtype, 0)


class Load(NamedTuple):
    """LOAD: `memory[index]`, or `other` where `gate` does not hold."""

    memory: Node
    index: Node
    gate: Node
    other: Node
    dtype: DType

    @classmethod
    def of(cls, node: Node) -> Load:
        memory, index, *gated = node.src
        gate, other = gated or (TRUE, _zero(node.dtype))
        return cls(memory, index, gate, other, node.dtype)

    @property
    def is_gated(self) -> bool:
        return self.gate is not TRUE

    def node(self) -> Node:
        gated = (self.gate, self.other) if self.is_gated else ()
        return Node(Op.LOAD, self.dtype, (self.memory, self.index, *gated))


class Store(NamedTuple):
    """STORE: `memory[index] = value` where `gate` holds; `how` is the node's arg."""

    memory: Node
    index: Node
    value: Node
    gate: Node = TRUE
    how: object = None

    @classmethod
    def of(cls, node: Node) -> Store:
        memory, index, value, *gate = node.src
        return cls(memory, index, value, gate[0] if gate else TRUE, node.arg)

    @property
    def is_gated(self) -> bool:
        return self.gate is not TRUE

    def node(self) -> Node:
        gated = (self.gate,) if self.is_gated else ()
        return Node(Op.STORE, dtypes.void, (self.memory, self.index, self.value, *gated), self.how)


class Reduce(NamedTuple):
    """REDUCE in a kernel: `value` combined as `arg` says over `loops`."""

    value: Node
    loops: Nodes
    arg: ReduceArg

    @classmethod
    def of(cls, node: Node) -> Reduce:
        return cls(node.src[0], node.src[1:], node.arg)

    def node(self) -> Node:
        return Node(Op.REDUCE, self.value.dtype, (self.value, *self.loops), self.arg)


class End(NamedTuple):
    """END: `effects`, looped over `loops`."""

    effects: Nodes
    loops: Nodes

    @classmethod
    def of(cls, node: Node) -> End:
        return cls(node.src[: node.arg], node.src[node.arg :])

    def node(self) -> Node:
        return Node(Op.END, dtypes.void, (*self.effects, *self.loops), len(self.effects))


class Stage(NamedTuple):
    """STAGE: `value`, where `gate`, kept at `filled` over `loops`, and read at `read`.

    Both places have an index for each axis of `arg.sizes`.
    """

    value: Node
    gate: Node
    filled: Nodes
    read: Nodes
    loops: Nodes
    arg: StageArg
    dtype: DType

    @classmethod
    def of(cls, node: Node) -> Stage:
        n = len(node.arg.sizes)
        value, gate, *more = node.src
        filled, read, loops = tuple(more[:n]), tuple(more[n : 2 * n]), tuple(more[2 * n :])
        return cls(value, gate, filled, read, loops, node.arg, node.dtype)

    @property
    def filling(self) -> Nodes:
        """What is kept, where, and in which loops: all but where it is read."""
        return (self.value, self.gate, *self.filled, *self.loops)

    def node(self) -> Node:
        src = (self.value, self.gate, *self.filled, *self.read, *self.loops)
        return Node(Op.STAGE, self.dtype, src, self.arg)


class Register(NamedTuple):
    """REGISTER: a mutable value that is `start` at the beginning of each iteration of `loops`."""

    start: Node
    loops: Nodes
    arg: RegisterRef
    dtype: DType

    @classmethod
    def of(cls, node: Node) -> Register:
        return cls(node.src[0], node.src[1:], node.arg, node.dtype)

    def node(self) -> Node:
        return Node(Op.REGISTER, self.dtype, (self.start, *self.loops), self.arg)


class Update(NamedTuple):
    """UPDATE: `register` combined by `op` with `value`, or set to it, in each step of `loops`."""

    register: Node
    value: Node
    loops: Nodes
    op: Op | None

    @classmethod
    def of(cls, node: Node) -> Update:
        return cls(node.src[0], node.src[1], node.src[2:], node.arg)

    def node(self) -> Node:
        return Node(Op.UPDATE, dtypes.void, (self.register, self.value, *self.loops), self.op)


class Ticket(NamedTuple):
    """TICKET: what `stage` has at its place, where one is added, in each step of `loops`."""

    stage: Node
    loops: Nodes
    dtype: DType

    @classmethod
    def of(cls, node: Node) -> Ticket:
        return cls(node.src[0], node.src[1:], node.dtype)

    def node(self) -> Node:
        return Node(Op.TICKET, self.dtype, (self.stage, *self.loops))


class After(NamedTuple):
    """AFTER: `value`, once `effects` have happened."""

    value: Node
    effects: Nodes

    @classmethod
    def of(cls, node: Node) -> After:
        return cls(node.src[0], node.src[1:])

    def node(self) -> Node:
        return Node(Op.AFTER, self.value.dtype, (self.value, *self.effects))


class Where(NamedTuple):
    """WHERE: `yes` where `condition` holds, else `no`."""

    condition: Node
    yes: Node
    no: Node

    @classmethod
    def of(cls, node: Node) -> Where:
        return cls(*node.src)

    def node(self) -> Node:
        return Node(Op.WHERE, self.yes.dtype, (self.condition, self.yes, self.no))


class Assign(NamedTuple):
    """ASSIGN: `value` is written into `target`, a view of a buffer."""

    target: Node
    value: Node

    @classmethod
    def of(cls, node: Node) -> Assign:
        return cls(*node.src)

    def node(self) -> Node:
        return Node(Op.ASSIGN, self.target.dtype, (self.target, self.value))


class Box(NamedTuple):
    """BOX: the box `arg` of a tensor in `memory` that begins at `place`, an index for each axis.

    In a program `mbarrier`, an array and a place in it, counts the bytes that have arrived.
    """

    memory: Node
    place: Nodes
    mbarrier: Nodes
    arg: TensorBox
    dtype: DType

    @classmethod
    def of(cls, node: Node) -> Box:
        axes = len(node.arg.box)
        memory, *more = node.src
        return cls(memory, tuple(more[:axes]), tuple(more[axes:]), node.arg, node.dtype)

    def node(self) -> Node:
        return Node(Op.BOX, self.dtype, (self.memory, *self.place, *self.mbarrier), self.arg)


class Gather(NamedTuple):
    """GATHER: elements of `source` at the places `index` along an axis, as `arg` says."""

    source: Node
    index: Node
    arg: GatherArg

    @classmethod
    def of(cls, node: Node) -> Gather:
        source, index = node.src
        return cls(source, index, node.arg)

    def node(self) -> Node:
        return Node(Op.GATHER, self.source.dtype, (self.source, self.index), self.arg)


class Scatter(NamedTuple):
    """SCATTER: `base` with `values` combined into the places `index` along an axis."""

    base: Node
    index: Node
    values: Node
    arg: ScatterArg

    @classmethod
    def of(cls, node: Node) -> Scatter:
        base, index, values = node.src
        return cls(base, index, values, node.arg)

    def node(self) -> Node:
        src = (self.base, self.index, self.values)
        return Node(Op.SCATTER, self.base.dtype, src, self.arg)


_CLOSING = {Op.REDUCE: Reduce, Op.END: End, Op.STAGE: Stage}


def with_loops(node: Node, loops: Nodes) -> Node:
    """A REDUCE, END or STAGE over other loops."""
    return _CLOSING[node.op].of(node)._replace(loops=loops).node()
