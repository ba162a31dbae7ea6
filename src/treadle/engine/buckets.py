"""Calls of groups of processes that do not wait for each other: in which order, and which as one.

    Exchange([a, b, c], make)       small sums a and b are one bucket, c is one of its own
        .arrived(source of b, m)    nothing can be made yet
        .arrived(source of a, m)    make([a, b], [their memory])
        .finish()                   make([c], ...), which has to have arrived by then

All processes make the same calls. So the order, and what goes together, follow from the calls
alone: not from what one process has in memory already, or from what it has to compute first.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from ..ir.node import Node
from ..ir.op import Op
from .memory import Memory
from .realized import resolve
from .steps import SMALL

__all__ = ["Exchange", "buckets_of", "independent_calls"]

Make = Callable[[Sequence[Node], list[Memory]], None]
SIZE = 1 << 20  # bytes of a bucket


class Exchange:
    """`calls`, which are made by `make`, one bucket after the other, when what it reads is there.

    What reads nothing is made at the end.
    """

    def __init__(self, calls: Iterable[Node], make: Make) -> None:
        self._waiting = deque(buckets_of(calls))
        self._make = make
        self._here: dict[Node, Memory] = {}

    def arrived(self, source: Node, memory: Memory) -> None:
        """What calls read is in memory: those that wait for nothing else are made."""
        self._here[source] = memory
        while self._waiting and all(call.src and self._has(call) for call in self._waiting[0]):
            self._next()

    def finish(self) -> None:
        """Make those that are left."""
        while self._waiting:
            self._next()

    def _has(self, call: Node) -> bool:
        return all(source in self._here for source in call.src)

    def _next(self) -> None:
        calls = self._waiting.popleft()
        self._make(calls, [self._here[source] for call in calls for source in call.src])


def buckets_of(calls: Iterable[Node]) -> list[list[Node]]:
    """What is made as one: small sums, as far as they follow each other and have room."""
    found: list[list[Node]] = []
    room = 0
    for call in calls:
        size = _nbytes(call)
        if found and size <= room and _go_together(found[-1][0], call):
            found[-1].append(call)
            room -= size
        else:
            found.append([call])
            room = SIZE - size
    return found


def _go_together(one: Node, other: Node) -> bool:
    if one.arg.kind != "all_reduce" or other.arg.kind != "all_reduce":
        return False
    is_alike = (one.arg.group, one.arg.op, one.dtype) == (
        other.arg.group, other.arg.op, other.dtype,
    )  # fmt: skip
    return is_alike and max(_nbytes(one), _nbytes(other)) <= SMALL


def _nbytes(call: Node) -> int:
    return math.prod(call.shape) * call.dtype.itemsize


def _is_pending_call(node: Node) -> bool:
    """Whether processes have yet to make the call that a node is, if it is one."""
    return node.op is Op.COLLECTIVE and resolve(node) is node


def independent_calls(pending: Sequence[Node]) -> list[Node]:
    """The calls among nodes `pending`, in their order, that are behind no other one.

    All processes find the same: nothing that is behind a pending call is known to one of them.
    """
    behind: dict[Node, bool] = {}
    found: list[Node] = []
    for node in pending:
        is_left = resolve(node) is node
        behind[node] = is_left and any(behind[s] or _is_pending_call(s) for s in node.src)
        if not behind[node] and _is_pending_call(node):
            found.append(node)
    return found
