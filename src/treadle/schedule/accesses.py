"""How a kernel walks through memory, as far as merging it with another is concerned.

    sum of x[r0, r1] over r1   ->  row by row: 4 bytes for each (r0, r1)
    sum of x[r1, r0] over r1   ->  lane by lane: neighbouring results read neighbours

Two kernels that walk alike share what they load; others would only be in each other's way.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from ..ir.loops import closed_ranges, free_ranges, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import TRANSCENDENTAL, Op
from ..ir.rules.index import linear_terms
from ..ir.views import Access, Store, Update, bound_of, memory_of
from .kernel import Kernel

__all__ = ["Accesses", "accesses_of"]

WORKERS, SMALL = 64, 1 << 20  # rows that keep all workers busy; bytes that one alone soon has
IN_CACHES = 1 << 25  # bytes
LARGE = 2  # what is this part of a kernel's largest load, at least, is worth sharing


@dataclass(frozen=True, eq=False)
class Accesses:
    """`bytes` that a kernel moves, each element once; `memory` is what it stores and mostly loads.

    `walks` says how its reductions, and what is not contiguous, go through memory. `nest`: its
    reductions can be computed in one loop nest, each in a loop or between two. Scans take the loops
    `in_order` step by step, so that only `rows` are for workers; `along_row`, it is the last one.
    What `is_costly` has exponentials, reductions or such.
    """

    bytes: int
    memory: frozenset[object]
    walks: frozenset[object]
    nest: bool
    in_order: frozenset[Node]
    rows: int
    is_costly: bool
    along_row: bool

    def go_with(self, other: Accesses) -> bool:
        """Whether both walk through memory alike; what has no reductions goes with all.

        But what is large or costly and no scan is not held up by one, which computes a vector at a
        time in each of its rows, and may have few. Two scans along rows do so one behind the other,
        which takes longer than caches save.
        """
        nbytes = self.bytes + other.bytes
        is_large = nbytes > SMALL and min(self.rows, other.rows) < WORKERS
        is_held_up = is_large or self.is_costly or other.is_costly
        if self.in_order == other.in_order:
            is_held_up = self.along_row and SMALL < nbytes < IN_CACHES
        is_crossed = len(self.in_order | other.in_order) > 1
        alike = not self.walks or not other.walks or self.walks == other.walks
        return alike and not is_crossed and not is_held_up


def accesses_of(kernel: Kernel) -> Accesses:
    """The Accesses of a kernel's last loop nest."""
    end = kernel.nest
    loops = tuple(sorted(closed_ranges(end), key=lambda r: r.arg.number))  # scans have theirs last
    order, free, names = end.toposort(), free_ranges(end), kernel.memory
    moved: dict[tuple[object, Op, Node], int] = {}
    walks: set[object] = set()
    for node in order:
        if node.op not in (Op.LOAD, Op.STORE):
            continue
        memory, place = names[memory_of(node).arg.slot], Access.of(node).index
        used = free[place]
        inner = sorted((r for r in used if r not in loops), key=lambda r: r.arg.number)
        key = (memory, node.op, _renamed(place, inner))
        moved_value = Store.of(node).value if node.op is Op.STORE else node
        moved[key] = moved_value.dtype.itemsize * loop_size(*used)
        walks.update(_walk(place, loops, inner, memory))
    steps = max(moved.values(), default=0)
    shared = frozenset(
        memory
        for (memory, op, _), nbytes in moved.items()
        if op is Op.STORE or nbytes * LARGE >= steps
    )
    ordered = frozenset(r for n in order if n.op is Op.UPDATE for r in Update.of(n).loops)
    rows, nest = loop_size(*(r for r in loops if r not in ordered)), _nest(end, loops, free)
    costly = any(n.op in TRANSCENDENTAL or n.op is Op.REDUCE for n in order)
    along_row, nbytes = not ordered.isdisjoint(loops[-1:]), sum(moved.values())
    return Accesses(nbytes, shared, frozenset(walks), nest, ordered, rows, costly, along_row)


def _renamed(place: Node, inner: list[Node]) -> Node:
    """A position with the loops of reductions numbered by their order: as another kernel's are."""
    numbers = itertools.count(1 << 20)
    return place.substitute({r: Node.range(bound_of(r), next(numbers)) for r in inner})


def _walk(place: Node, loops: tuple[Node, ...], inner: list[Node], memory: object) -> list[object]:
    """How a position moves with the loops, if it says anything about how to run them."""
    terms, _ = linear_terms(place)
    across = terms.pop(loops[-1], 0) if loops else 0
    along = [terms.pop(r, 0) for r in inner]
    depends = any(r in loops[-1:] or r in inner for term in terms for r in ranges_of(term))
    if depends or (not inner and across not in (0, 1)):
        return [(memory, place)]
    if 1 in along:
        return ["rows"]
    if inner and across == 1:
        return ["lanes"]
    return [(memory, place)] if inner and across else []


def _nest(end: Node, loops: tuple[Node, ...], free: dict[Node, frozenset[Node]]) -> bool:
    """Whether what reductions depend on is more and more of the loops."""
    used = [free[n] & frozenset(loops) for n in end.toposort() if n.op is Op.REDUCE]
    ordered = sorted(used, key=len)
    return all(one <= other for one, other in itertools.pairwise(ordered))
