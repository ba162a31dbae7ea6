"""The order of a kernel's stores, and whether one loop nest can hold them at all.

    x = f(x, y); y = g(y, old x)   ->  y's store first: it loads x, which x's store overwrites
    x = old y; y = old x           ->  no order is right

All stores of a nest run at each step of its loops, one after the other. What a store overwrites may
be loaded there only at the place it writes, and before it does.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Access, End
from .kernel import Kernel

__all__ = ["in_order", "is_safe"]


def in_order(stores: Sequence[Node]) -> list[Node]:
    """`stores`, each behind those that have yet to load what it overwrites.

    As they are given, if there is no such order.
    """
    loads = {store: _loads(store) for store in stores}
    waiting, ordered, loaded = list(stores), [], frozenset()
    while waiting:
        first = next((s for s in waiting if not _is_needed(s, waiting, loads, loaded)), None)
        if first is None:
            return list(stores)
        waiting.remove(first)
        ordered.append(first)
        loaded |= loads[first]
    return ordered


def _is_needed(
    store: Node, others: list[Node], loads: dict[Node, frozenset[Node]], loaded: frozenset[Node]
) -> bool:
    """Whether one of `others` loads what `store` overwrites, later than `store` itself could."""
    known = loaded | loads[store]
    memory = Access.of(store).memory
    return any(Access.of(n).memory is memory for other in others for n in loads[other] - known)


def _loads(store: Node) -> frozenset[Node]:
    return frozenset(n for n in store.toposort() if n.op is Op.LOAD)


def is_safe(kernel: Kernel) -> bool:
    """Whether the STOREs of a kernel's last nest load everything before they overwrite it.

    No kernel both reads and writes a texture.
    """
    stores, loaded = End.of(kernel.nest).effects, frozenset[Node]()
    every = frozenset().union(*map(_loads, stores))
    for store in stores:
        own = Access.of(store)
        loaded |= _loads(store)
        mine = [load for load in every if Access.of(load).memory is own.memory]
        if any(Access.of(load) != own or load not in loaded for load in mine):
            return False
        if mine and own.memory.arg.image:
            return False
    return len({Access.of(store).memory for store in stores}) == len(stores)
