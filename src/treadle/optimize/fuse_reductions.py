"""Fusion of reductions: those over the same elements become one loop.

    sum of x[r0, r1] over r1, sum of x[r0, r2]**2 over r2   ->  both over r1: x is read once

Joined are those of one nest that load the same element at each step, if none needs the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.loops import closed_ranges, free_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Reduce, bound_of
from .moves import Move, Moves
from .nest import Nest
from .records import Reduction

__all__ = ["FuseReductions", "fuse_reductions"]


def fuse_reductions(moves: Moves) -> None:
    """Give reductions that read the same elements the same loops."""
    while (found := _joinable(moves)) is not None:
        moves.make(FuseReductions(*map(moves.name_of, found)))


@dataclass(frozen=True)
class FuseReductions(Move):
    """The reduction `other` runs in the loops of `one`."""

    word = "fuse_reductions"

    one: Reduction
    other: Reduction

    def apply(self, moves: Moves) -> None:
        one, other = moves.reduce_of(self.one), moves.reduce_of(self.other)
        loops = dict(zip(closed_ranges(other), closed_ranges(one), strict=True))
        moves.root = moves.root.substitute({other: other.substitute(loops)})


def _joinable(moves: Moves) -> tuple[Node, Node] | None:
    """Two reductions of one nest, the second of which can run in the loops of the first.

    Those are always the loops of smaller numbers: what reads like two others, which read nothing
    alike, would change between their loops for ever.
    """
    for nest in moves.open_nests():
        known: dict[tuple[object, ...], list[Node]] = {}
        for reduce, key in _whole_reductions(nest):
            for other in known.setdefault(key, []):
                if closed_ranges(other) != closed_ranges(reduce) and _share_reads(other, reduce):
                    one, later = sorted((other, reduce), key=_numbers)
                    return one, later
            known[key].append(reduce)
    return None


def _whole_reductions(nest: Nest) -> list[tuple[Node, tuple[object, ...]]]:
    """The outermost reductions, each with what it must have in common with one it is joined with.

    How many reductions stand one below the other tells what needs what: those of equal depth do
    not need each other, nor does any that both need.
    """
    free, depths = free_ranges(nest.node), {}
    found = []
    for node in nest.node.toposort():
        depth = max((depths[s] for s in node.src), default=0)
        depths[node] = depth + (node.op is Op.REDUCE)
        if node.op is Op.REDUCE and free[node] <= frozenset(nest.loops):
            sizes = tuple(bound_of(r) for r in closed_ranges(node))
            found.append((node, (depth, free[node], sizes)))
    return found


def _numbers(reduce: Node) -> list[int]:
    return [loop.arg.number for loop in closed_ranges(reduce)]


def _share_reads(one: Node, other: Node) -> bool:
    """Whether both load the same element of the same memory at each step."""
    loops = dict(zip(closed_ranges(other), closed_ranges(one), strict=True))
    loads = {load.substitute(loops) for load in _loads(other)}
    return not loads.isdisjoint(_loads(one))


def _loads(reduce: Node) -> list[Node]:
    return [n for n in Reduce.of(reduce).value.toposort() if n.op is Op.LOAD]
