"""Kernels that store to a texture: each step makes a whole texel, since nothing less is written.

image = a @ b  ->  r = 4 * texel + vector(4); the texels become work items, or slices of the grid
"""

from __future__ import annotations

from ..errors import InternalError
from ..ir.loops import loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Store
from ..target import Target
from .loop_digits import Merge
from .loop_moves import reorder, replace_loops
from .moves import Moves
from .nest import Nest, stride
from .records import Loop

__all__ = ["loops_of_texels", "schedule_texels"]

TEXEL = 4
SLICES = 64  # of a grid at least, where there is work for so many


def schedule_texels(moves: Moves, target: Target) -> None:
    """Schedule every nest that stores to a texture; what it is staged from is left to others."""
    for nest in filter(loops_of_texels, moves.nests()):
        _schedule(moves, nest, target)


def loops_of_texels(nest: Nest) -> frozenset[Node]:
    """The loops that `nest` stores whole texels along, which are its lanes; none without textures.

    A reduction that differs along them is computed for four results at once: it has no lanes of its
    own.
    """
    if not any(store.memory.arg.image for store in _stores(nest)):
        return frozenset()
    loops, size = [_loop_of_stride(nest, 1)], 1
    while (size := size * loop_size(loops[-1])) % TEXEL:
        loops.append(_loop_of_stride(nest, size))
    return frozenset(loops)


def _stores(nest: Nest) -> list[Store]:
    """What a nest stores to the kernel's arguments."""
    stores = [Store.of(n) for n in nest.effects if n.op is Op.STORE]
    return [store for store in stores if store.memory.op is Op.PARAM]


def _schedule(moves: Moves, nest: Nest, target: Target) -> None:
    number = moves.number_of(nest)
    while loop_size(along := _loop_of_stride(nest, 1)) % TEXEL:  # two rows of an image, maybe
        outer = _loop_of_stride(nest, loop_size(along))
        moves.make(Merge(Loop.of(outer), Loop.of(along)))
        nest = moves.nest_of(number)
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
    splits |= moves.whole(order[:-1], "grid")
    replace_loops(moves, splits, "texel_groups")


def _loop_of_stride(nest: Nest, apart: int) -> Node:
    store = _stores(nest)[0]
    found = next((r for r in nest.loops if stride(store.index, r) == apart), None)
    if found is None:
        raise InternalError(f"a texture is written in whole texels, not by {store.node()!r}")
    return found
