"""Phases whose grids are the same RANGEs become one.

    END(STORE y, g, i); END(STORE parts[g] = REDUCE(.., i), g)
      ->  END(END(STORE y, i), STORE parts[g] = REDUCE(.., i), g)

A schedule gives several nests one grid where a worker shall do all of it step by step, see
optimize/output_reductions.py. What the loops inside have in common is for registers.py.
"""

from __future__ import annotations

from ..ir.loops import closed_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import End
from .linearize import phase_ends

__all__ = ["join_phases"]


def join_phases(root: Node) -> Node:
    """The kernel `root`, whose STAGEs are lowered, with one phase for each grid."""
    grids: dict[frozenset[Node], list[Node]] = {}
    for end in phase_ends(root):
        if grid := _grid(end):
            grids.setdefault(frozenset(grid), []).append(end)
    for ends in grids.values():
        if len(ends) > 1:
            grid = _grid(ends[0])
            effects = tuple(effect for end in ends for effect in _inside(end, grid))
            joined = End(effects, grid).node()
            root = root.substitute(dict.fromkeys(ends, joined))
    return root if root.op is not Op.SINK else Node.sink(dict.fromkeys(root.src))


def _grid(end: Node) -> tuple[Node, ...]:
    return tuple(r for r in closed_ranges(end) if r.arg.kind == "grid")


def _inside(end: Node, grid: tuple[Node, ...]) -> tuple[Node, ...]:
    """What a phase does in each step of its grid."""
    effects, loops = End.of(end)
    inner = tuple(r for r in loops if r not in grid)
    return (End(effects, inner).node(),) if inner else effects
