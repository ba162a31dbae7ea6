"""Which of the user's lines each kernel of a program was made for.

    places_of(kernels, order, outputs)  ->  for each kernel, places of nodes in the graph's order
    origins_of(program, roots)          ->  for each kernel, who made those nodes of this very graph

A program runs for every graph of the same form, whichever lines made that, and comes back from disk
where nothing is scheduled. So it keeps the places of nodes, and each run looks up who made them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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

Line: TypeAlias = tuple[int, int, bool]

_MOST = 4  # lines of a kernel
_NO_WORK = {*MOVEMENT, Op.BUFFER, Op.CONST, Op.CONTIGUOUS, Op.ASSIGN, Op.AFTER}


def origins_of(program: Program, roots: Sequence[Node]) -> list[Origins]:
    """Who made what each kernel of `program` computes for `roots`, if anybody may ask for it."""
    if settings.DEBUG < 2 and capturing.active is None:
        return []
    order = toposort(unbind(roots)[0])
    found = []
    for places in program.places:
        origins = (origin_of(order[place]) for place in places)
        found.append(tuple(origin for origin in origins if origin is not None))
    return found


def places_of(
    kernels: Sequence[Kernel], order: Sequence[Node], outputs: Iterable[tuple[Node, Node]]
) -> list[tuple[int, ...]]:
    """For each kernel, where the nodes that it computes stand in `order`: one for each line, that
    of the most work first.

    `outputs` are pairs of what was asked for and what is stored for it. A node that scheduling made
    is looked up by its origin, which it has from one of the graph's.
    """
    stored = {root for kernel in kernels for root in kernel.roots}
    places = {node: place for place, node in enumerate(order)}
    lines = {_line(node): place for place, node in enumerate(order) if node.origin is not None}
    asked = _asked(toposort(stored), outputs)
    elements = _Elements()
    found = []
    for kernel in kernels:
        most: dict[Line, tuple[tuple[bool, int, int], Node]] = {}  # of each line the most work
        for number, node in enumerate(_inside(kernel, stored)):
            if (origin := asked.get(node)) is not None:
                work = (node.op not in _NO_WORK, elements.of(node), number)
                line = _line(origin)
                if line not in most or work > most[line][0]:
                    most[line] = work, origin
        ranked = sorted(most.items(), key=lambda item: item[1][0], reverse=True)
        ranked = [item for item in ranked if item[1][0][0]] or ranked[:1]  # none only moves data
        known = (places.get(origin, lines.get(line)) for line, (_, origin) in ranked)
        found.append(tuple([place for place in known if place is not None][:_MOST]))
    return found


def _inside(kernel: Kernel, stored: set[Node]) -> list[Node]:
    """What `kernel` computes, sources first; the others of the `stored` nodes it reads."""
    own = set(kernel.roots)
    below = toposort(own, lambda node: node in own or node not in stored)
    return [node for node in below if node in own or node not in stored]


def _asked(order: Sequence[Node], outputs: Iterable[tuple[Node, Node]]) -> dict[Node, Node]:
    """For nodes of `order`, sources first, the node of a known line that each is computed for.

    Where its own line is not known, that is the one of who uses it.
    """
    asked = {node: root for root, node in outputs if root.origin is not None}
    for node in reversed(order):
        if node.origin is not None:
            asked[node] = node
        elif node not in asked:
            continue
        for source in node.src:
            asked.setdefault(source, asked[node])
    return asked


def _line(node: Node) -> Line:
    """What tells a node's line from others, and its gradient from itself."""
    assert node.origin is not None
    code, instruction, _, is_gradient = node.origin
    return id(code), instruction, is_gradient


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
