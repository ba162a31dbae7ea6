"""Calls of groups without a graph: a line of the program makes one again, on plain memory.

    again = PlainCall.of(node, x, result)       None where it takes more than memory
    result = again.made(x)                      None where something is not as it was: make a graph

A graph is for what is computed later, or differentiated. A call of what is in memory is made at
once, and to make a node of it, to look below it and to find its step takes longer than a small one.
"""

from __future__ import annotations

from math import prod
from types import CodeType
from typing import TYPE_CHECKING, NamedTuple, cast

from ..dtype import _to_np_dtype
from ..ir.node import Node
from ..ir.op import Op
from ..ir.origin import origin_of
from ..runtime.communicator import Call, Communicator
from .arguments import Glance, at_a_glance
from .background_calls import call_in_order, take_part_in_order
from .devices import Device
from .fast_replay import Settled
from .memory import Memory, Promise, adopt
from .run import lock
from .steps import SMALL
from .storages import Captured, claimed, first_call

if TYPE_CHECKING:
    import numpy as np

__all__ = ["PlainCall"]

_KINDS = frozenset(("all_reduce", "reduce_scatter", "all_gather", "all_to_all"))


class _Placed(NamedTuple):
    """What the node over memory will be like, as a `Promise` says it of a buffer."""

    shape: tuple[int, ...]

    def node(self, memory: object) -> Node:
        return adopt(cast("Memory", memory), self.shape)


class PlainCall:
    """The call that a line made, of one operand in `given` shape, with a new result each time."""

    __slots__ = (
        "_call", "_given", "_group", "_like", "_line", "_nbytes", "_promise", "_settled"
    )  # fmt: skip

    def __init__(self, node: Node, line: CodeType, where: str, glance: Glance, like: Captured):
        arg = node.arg
        self._settled, self._line, self._like = Settled([glance]), line, like
        self._group = cast("Communicator", arg.group)
        self._call = Call(arg.kind, arg.op, arg.peer, where)
        self._given = cast("tuple[int, ...]", glance.shape)
        self._promise = Promise(node.dtype, prod(arg.shape), glance.device, arg.shape)
        self._nbytes = self._promise.size * node.dtype.itemsize

    @classmethod
    def of(cls, node: Node, x: Captured, result: Captured) -> PlainCall | None:
        """For a call that has been made of `x`, and its result."""
        origin, glances = origin_of(node), Glance.of([x], {})
        if node.arg.kind not in _KINDS or origin is None or glances is None or 0 in x.shape:
            return None
        runtime = Device[glances[0].device].runtime
        if not (runtime.shares_memory and runtime.has_addresses):
            return None
        # one of no values, which keeps no memory
        like = result._to_be(None, Promise(node.dtype, 0, glances[0].device, (0,)))
        return cls(node, origin.code, origin.where, glances[0], like)

    def made(self, x: Captured) -> Captured | None:
        """The result for `x`, of the type of the first one. Raises DistributedError."""
        if first_call.value is not None or not self._settled.still(self):
            return None
        with lock:
            memory = None if _may_be_graded(x) else at_a_glance((x,), self._settled.glances)
            if memory is None:
                return None
            return self._made_of(memory[0])

    def _made_of(self, memory: Memory) -> Captured:
        from numpy import frombuffer

        dtype, size, device, shape = promise = self._promise
        given = memory.array().reshape(self._given)
        buffer = Device[device].allocator.alloc(self._nbytes)
        result: np.ndarray = frombuffer(buffer.view(), _to_np_dtype(dtype), size).reshape(shape)
        if max(self._nbytes, given.nbytes) <= SMALL:
            take_part_in_order(self._group, self._call, given, result)
            return self._like._to_be(buffer, promise)
        target = Memory(buffer, dtype, size, device)
        job = call_in_order(self._group.steps(self._call, given, result))
        target.arrives(job.wait)
        memory.read_by(job.wait)
        return self._like._to_be(target, _Placed(shape))

    def moved_since(self) -> bool:
        """Nothing is read but the operand, which is looked at each time."""
        return False


def _may_be_graded(x: Captured) -> bool:
    """Whether gradients may be asked for through `x`, or it has no memory of its own."""
    node = x.node
    if x._requires_grad is True or node.memory is not None:
        return True
    base = node.src[0] if node.op is Op.RESHAPE else node
    if base.op is not Op.BUFFER:
        return True
    storage = claimed(base.arg.token)
    owner = None if storage is None else storage.tensor()
    return owner is not None and owner.is_leaf
