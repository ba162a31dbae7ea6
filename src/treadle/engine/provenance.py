"""Which of the user's lines each kernel of a program was made for.

    places_of(kernels, order, derived, outputs)  ->  for each kernel, places of nodes in `order`
    origins_of(program, roots)                   ->  for each kernel, who made those of `roots`

A program runs for every graph of the same form, whichever lines made that, and comes back from disk
where nothing is scheduled. So it keeps the places of nodes, and each run looks up who made them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from ..config import settings
from ..ir.node import Node, toposort
from ..ir.op import MOVEMENT, Op
from ..ir.origin import Origin, origin_of
from ..ir.shape import Shape, size_max, size_product
from ..ir.symbolic import unbind
from ..schedule.kernel import Kernel
from .program import Program
from .storages import capturing

__all__ = ["Origins", "origins_of", "places_of"]

Origins: TypeAlias = tuple[Origin, ...]  # the line with most of the work first

_MOST_NODES, _MOST_LINES = 12, 4  # of a kernel
_NO_WORK = {*MOVEMENT, Op.BUFFER, Op.CONST, Op.CONTIGUOUS, Op.ASSIGN, Op.AFTER}


def origins_of(program: Program, roots: Sequence[Node]) -> list[Origins]:
    """Who made what each kernel of `program` computes for `roots`, if anybody may ask for it."""
    if settings.DEBUG < 2 and capturing.active is None:
        return []
    order = toposort(unbind(roots)[0])
    owners = _owners({node: node for node in order if node.origin is not None}, order)
    found: list[Origins] = []
    for places in program.places:
        lines: dict[object, Origin] = {}
        for place in places:
            origin = origin_of(owners.get(order[place], order[place]))
            if origin is not None:
                lines.setdefault((origin.code, origin.instruction, origin.is_gradient), origin)
        found.append(tuple([*lines.values()][:_MOST_LINES]))
    return found


def places_of(
    kernels: Sequence[Kernel],
    order: Sequence[Node],
    derived: Mapping[Node, Node],
    outputs: Iterable[tuple[Node, Node]],
) -> list[tuple[int, ...]]:
    """For each kernel, where the nodes that it computes stand in `order`, that of the most work
    first; a few of them.

    `derived` says what scheduling made nodes of, `outputs` are pairs of what was asked for and what
    is stored for it. Any other node stands where the one does that it is computed for.
    """
    stored = {root for kernel in kernels for root in kernel.roots}
    places = {node: place for place, node in enumerate(order)}
    scheduled = toposort(stored)
    known = {node: root for root, node in outputs} | dict(zip(order, order, strict=True))
    for made, node in derived.items():  # in the order in which they were made
        if node in known:
            known.setdefault(made, known[node])
    owners, elements = _owners(known, scheduled), _Elements()
    found = []
    for kernel in kernels:
        most: dict[int, tuple[bool, int, int]] = {}
        for number, node in enumerate(_inside(kernel, stored)):
            if node in owners:
                place = places[owners[node]]
                work = (node.op not in _NO_WORK, elements.of(node), number)
                most[place] = max(work, most.get(place, work))
        ranked = sorted(most, key=lambda place: most[place], reverse=True)
        worked = [place for place in ranked if most[place][0]]
        found.append(tuple(worked[:_MOST_NODES] or ranked[:1]))
    return found


def _owners(known: dict[Node, Node], order: Sequence[Node]) -> dict[Node, Node]:
    """`known`, and for each other node of `order`, sources first, what is known of its user."""
    owners = dict(known)
    for node in reversed(order):
        if (owner := owners.get(node)) is not None:
            for source in node.src:
                owners.setdefault(source, owner)
    return owners


def _inside(kernel: Kernel, stored: set[Node]) -> list[Node]:
    """What `kernel` computes, sources first; the others of the `stored` nodes it reads."""
    own = set(kernel.roots)
    below = toposort(own, lambda node: node in own or node not in stored)
    return [node for node in below if node in own or node not in stored]


class _Elements:
    """How many elements nodes go through."""

    def __init__(self) -> None:
        self._sizes: dict[Shape, int] = {}

    def of(self, node: Node) -> int:
        """The elements of the largest of a node and its sources."""
        return max(self._size(node.shape), *(self._size(s.shape) for s in node.src), 0)

    def _size(self, shape: Shape) -> int:
        found = self._sizes.get(shape)
        if found is None:
            found = self._sizes[shape] = size_max(size_product(shape))
        return found
