"""The order of kernels: after what they read, and before what they read is overwritten.

    soonest([a, b, c], [what c stores])  ->  [a, c, b], where c reads what a stores

In that other order, kernels that some results need come first, each as soon as it can. So the last
layers' gradients are there, and on their way to other processes, while those of the first ones are
computed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

from ..errors import InternalError
from ..ir.node import Node, rebuild
from ..ir.op import MOVEMENT, Op
from ..ir.versions import view_base
from ..ir.views import After, Assign, operand
from .kernel import Kernel

__all__ = ["copy_old_versions", "needs_of", "order_roots", "soonest", "topological"]

T = TypeVar("T", bound=Hashable)


def needs_of(
    reads: dict[Node, frozenset[Node]], kernels: dict[Node, Node]
) -> dict[Node, set[Node]]:
    """For each root of `reads` (root -> versions and stored nodes read) those that run before.

    `kernels` maps each root to the one that its kernel goes by. What another root has to wait for
    anyway is not repeated: of a memory's versions, only the last concern who reads or overwrites.
    """
    before: dict[Node, set[Node]] = {root: set() for root in reads}
    readers: dict[Node, set[Node]] = {}
    for root, versions in reads.items():
        for version in versions:
            readers.setdefault(version, set()).add(root)
            for recent in _recent(version, root, kernels):
                before[root].update(_makers(recent, root, kernels))
    for root in reads:
        if root.op is Op.ASSIGN:
            for recent in _recent(view_base(Assign.of(root).target), root, kernels):
                before[root].update(readers.get(recent, set()) - {root})
                before[root].update(_makers(recent, root, kernels))
    return before


def _recent(version: Node, root: Node, kernels: dict[Node, Node]) -> Iterator[Node]:
    """`version` and those before it, back to one that another root's ASSIGN to the last made.

    That one waits itself for whatever concerns the versions further back.
    """
    for recent in _versions_from(version):
        yield recent
        if recent.op is Op.AFTER:
            older, effects = After.of(recent)
            makers = (n for n in effects if kernels.get(n, root) is not root)
            if any(view_base(Assign.of(n).target) is view_base(older) for n in makers):
                return


def _makers(version: Node, root: Node, kernels: dict[Node, Node]) -> set[Node]:
    """The roots but `root` that make a version of memory, or store a node."""
    made = After.of(version).effects if version.op is Op.AFTER else (version,)
    return {kernels[node] for node in made if node in kernels} - {root}


def order_roots(
    before: dict[Node, set[Node]], reads: dict[Node, frozenset[Node]]
) -> tuple[list[Node], Node | None]:
    """The roots, each after those `before` it.

    The second result is None, or an ASSIGN that waits for itself, by way of a reader of what it
    overwrites: its value must be stored first, or the reader get a copy.
    """
    order = topological(before)
    return order, None if len(order) == len(before) else _assign_in_cycle(before, set(order), reads)


def _versions_from(version: Node) -> Iterator[Node]:
    """`version` and all those that it overwrote, the newest first."""
    yield version
    while version.op is Op.AFTER:
        version = view_base(After.of(version).value)
        yield version


def _versions_overwritten(assign: Node) -> Iterator[Node]:
    return _versions_from(view_base(Assign.of(assign).target))


def copy_old_versions(outputs: list[Node], assign: Node) -> list[Node]:
    """The same values, where all that reads what `assign` overwrites reads a copy of it."""
    old = set(_versions_overwritten(assign))
    read: dict[Node, Node] = {}
    written: dict[Node, Node] = {}  # the same nodes as targets of assignments
    for node in Node.sink(outputs).toposort():
        src = tuple(read[s] for s in node.src)
        target = (written[operand(node)], *src[1:]) if node.op in _THROUGH else src
        written[node] = rebuild(node, target)
        read[node] = rebuild(node, src) if node.op in MOVEMENT else written[node]
        if node in old:
            read[node] = Node(Op.CONTIGUOUS, node.dtype, (read[node],))
    return [written[node] if node.op is Op.AFTER else read[node] for node in outputs]


_THROUGH = MOVEMENT | {Op.ASSIGN, Op.AFTER}  # they have the memory of their first source


def topological(before: dict[T, set[T]]) -> list[T]:
    """The keys, each after those it waits for; without those that wait for themselves."""
    order: list[T] = []
    waiting = {key: len(needs) for key, needs in before.items()}
    after: dict[T, list[T]] = {key: [] for key in before}
    for key, needs in before.items():
        for need in needs:
            after[need].append(key)
    ready = [key for key, count in waiting.items() if count == 0]
    ready.reverse()
    while ready:
        key = ready.pop()
        order.append(key)
        for user in reversed(after[key]):
            waiting[user] -= 1
            if waiting[user] == 0:
                ready.append(user)
    return order


def _assign_in_cycle(
    before: dict[Node, set[Node]], done: set[Node], reads: dict[Node, frozenset[Node]]
) -> Node:
    """An ASSIGN that waits for a reader of what it overwrites, which in turn waits for it."""
    root = next(root for root in before if root not in done)
    path: dict[Node, int] = {}
    while root not in path:
        path[root] = len(path)
        root = next(need for need in before[root] if need not in done)
    cycle = list(path)[path[root] :]
    for root, need in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        if root.op is Op.ASSIGN and not reads[need].isdisjoint(_versions_overwritten(root)):
            return root
    raise InternalError("[schedule] kernels need each other's results")


def soonest(kernels: Sequence[Kernel], wanted: Sequence[Node]) -> list[Kernel]:
    """`kernels`, of a graph without assignments, in the order in which `wanted` is stored."""
    before = _needed(kernels)
    order: dict[int, None] = {}
    for node in wanted:
        for number, kernel in enumerate(kernels):
            if node in kernel.roots:
                needed = (n for n in range(number) if before[number] >> n & 1)
                order |= dict.fromkeys((*needed, number))
    order |= dict.fromkeys(range(len(kernels)))
    return [kernels[number] for number in order]


def _needed(kernels: Sequence[Kernel]) -> list[int]:
    """For each kernel, as bits, the earlier ones that it needs, and all that those need.

    These concern memory which it concerns, and one of both writes it.
    """
    found: list[int] = []
    users: dict[object, list[tuple[int, bool]]] = {}
    for number, kernel in enumerate(kernels):
        needed, written = 0, kernel.written
        for key in kernel.memory:
            before = users.setdefault(key, [])
            for other, wrote in before:
                if other != number and (wrote or key in written):
                    needed |= 1 << other | found[other]
            before.append((number, key in written))
        found.append(needed)
    return found
