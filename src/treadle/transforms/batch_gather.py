"""GATHER and SCATTER of a batch, in which each example may have indices of its own.

Along an axis, every line has its own places anyway. One list of places for all lines, different in
each example, becomes one list for all examples: the axis and that of the examples are made one.
"""

from __future__ import annotations

from dataclasses import replace

from ..dtype import dtypes
from ..ir.args import GatherArg
from ..ir.builders import iota_along, permute, repeated, reshape
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Gather, places_of

__all__ = ["gather", "scatter"]


def gather(node: Node, source: Node | None, index: Node | None, size: int) -> Node:
    """`node` of batched sources; None for one that is the same in all `size` examples."""
    axis = node.arg.axis
    if node.arg.along:
        pairs = zip(node.src, (source, index), strict=True)
        lines = tuple(repeated(s, size) if part is None else part for s, part in pairs)
        return Node(Op.GATHER, node.dtype, lines, GatherArg(axis + 1, along=True))
    if index is None:
        assert source is not None
        return Node(Op.GATHER, node.dtype, (source, places_of(node)), GatherArg(axis + 1))
    if source is None:
        found = Node(Op.GATHER, node.dtype, (Gather.of(node).source, index), GatherArg(axis))
        return permute(found, (axis, *(i for i in range(len(found.shape)) if i != axis)))
    places = _places(index, source.shape[axis + 1], size)
    found = Node(Op.GATHER, node.dtype, (_merged(source, axis), places), GatherArg(0))
    return _after_first(found, len(index.shape), axis)


def scatter(node: Node, base: Node, index: Node | None, values: Node, size: int) -> Node:
    """`node` of batched sources; None for places that are the same in all `size` examples."""
    axis = node.arg.axis
    arg = replace(node.arg, axis=axis + 1)
    if node.arg.along:
        places = repeated(places_of(node), size) if index is None else index
        return Node(Op.SCATTER, node.dtype, (base, places, values), arg)
    if index is None:
        return Node(Op.SCATTER, node.dtype, (base, places_of(node), values), arg)
    count, n = len(index.shape) - 1, base.shape[axis + 1]
    # (size, before.., places.., behind..) -> (size, places.., before.., behind..)
    rank = len(values.shape)
    lines = [0, *range(axis + 1, axis + 1 + count)]
    moved = permute(values, (*lines, *(i for i in range(rank) if i not in lines)))
    sources = (_merged(base, axis), _places(index, n, size), moved)
    found = Node(Op.SCATTER, node.dtype, sources, replace(node.arg, axis=0))
    apart = reshape(found, (size, n, *found.shape[1:]))
    return _after_first(apart, 2, axis)


def _merged(x: Node, axis: int) -> Node:
    """(examples, before.., n, behind..), n at `axis` + 1, as (examples * n, before.., behind..)."""
    order = (0, axis + 1, *(i for i in range(1, len(x.shape)) if i != axis + 1))
    moved = permute(x, order)
    return reshape(moved, (moved.shape[0] * moved.shape[1], *moved.shape[2:]))


def _places(index: Node, n: int, size: int) -> Node:
    """Each example's places among those of all of them; -1, which is none, where it had none."""
    wide = dtypes.int64 if size * n >= 1 << 31 else dtypes.int32
    inside = index < n if index.dtype.is_unsigned else (index >= 0) & (index < n)
    first = iota_along(index.shape, 0, wide) * n
    return inside.where(index.cast(wide) + first, -1)


def _after_first(x: Node, count: int, place: int) -> Node:
    """The axes 1 to `count` - 1 moved behind the `place` axes that follow them."""
    order = range(len(x.shape))
    rest = order[count:]
    return permute(x, (0, *rest[:place], *order[1:count], *rest[place:]))
