"""Kernels that store to a texture: each step makes a whole texel, since nothing less is written.

image = a @ b  ->  r = 4 * texel + vector(4); the texels become work items, or slices of the grid
"""

from __future__ import annotations

from ..errors import InternalError
from ..ir.loops import Split, loop_size
from ..ir.op import Op
from ..ir.views import Store
from ..target import Target
from .loop_moves import reorder, replace_loops
from .moves import Moves
from .nest import Nest, stride

__all__ = ["schedule_texels"]

TEXEL = 4
SLICES = 64  # of a grid at least, where there is work for so many


def schedule_texels(moves: Moves, target: Target) -> None:
    """Schedule every nest that stores to a texture; what it is staged from is left to others."""
    for nest in moves.nests():
        stores = [Store.of(n) for n in nest.effects if n.op is Op.STORE]
        stores = [store for store in stores if store.memory.op is Op.PARAM]
        if any(store.memory.arg.image for store in stores):
            _schedule(moves, nest, stores[0], target)


def _schedule(moves: Moves, nest: Nest, store: Store, target: Target) -> None:
    along = next((r for r in nest.loops if stride(store.index, r) == 1), None)
    if along is None or loop_size(along) % TEXEL:
        raise InternalError(f"a texture is written in whole texels, not by {store.node()!r}")
    order = (*(r for r in nest.loops if r is not along), along)
    reorder(moves, nest, order)
    texels = loop_size(along) // TEXEL
    if target.workgroup is not None:
        inner, kind = min(target.workgroup.work_items, texels), "local"
    else:
        inner, kind = max(1, texels // SLICES), "loop"
    while texels % inner:
        inner -= 1
    splits = {along: moves.tiled(loop_size(along), (inner, kind), (TEXEL, "vector"), outer="grid")}
    for r in order[:-1]:
        new = moves.loop(loop_size(r), "grid")
        splits[r] = Split(new, (new,))
    replace_loops(moves, splits, "texel_groups")
