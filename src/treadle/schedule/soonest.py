"""Another order of kernels: those first that some results need, each as soon as it can be.

soonest([a, b, c], [what c stores])  ->  [a, c, b], where c reads what a stores

So the last layers' gradients are there, and on their way to other processes, while kernels compute
those of the first ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.node import Node
from ..ir.op import Op
from .kernel import Kernel

__all__ = ["soonest"]


def soonest(kernels: Sequence[Kernel], wanted: Sequence[Node]) -> list[Kernel]:
    """`kernels`, of a graph without assignments, in the order in which `wanted` is stored."""
    before = _before(kernels)
    order: dict[int, None] = {}
    for node in wanted:
        for number, kernel in enumerate(kernels):
            if node in kernel.roots:
                _enter(number, before, order)
    order |= dict.fromkeys(range(len(kernels)))
    return [kernels[number] for number in order]


def _before(kernels: Sequence[Kernel]) -> list[set[int]]:
    """For each kernel, the earlier ones that concern memory which it concerns, if one writes it."""
    found: list[set[int]] = []
    users: dict[object, list[tuple[int, bool]]] = {}
    for number, kernel in enumerate(kernels):
        needs: set[int] = set()
        for slot, buffer in enumerate(kernel.buffers):
            key = buffer.arg.token if buffer.op is Op.BUFFER else buffer
            writes = slot in kernel.writes
            before = users.setdefault(key, [])
            needs.update(n for n, wrote in before if n != number and (wrote or writes))
            before.append((number, writes))
        found.append(needs)
    return found


def _enter(last: int, before: Sequence[set[int]], order: dict[int, None]) -> None:
    """Add kernel `last` to `order`, behind those that it needs, as they stood."""
    needed, rest = {last}, [last]
    while rest:
        new = before[rest.pop()] - needed
        needed |= new
        rest += new
    order |= dict.fromkeys(sorted(needed - order.keys()))
