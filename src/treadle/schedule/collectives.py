"""Communication as graph operations: lists of nodes, one for each device, and COPYs between them.

    all_reduce([a on CPU, b on CPU:1], ADD)   ->  [a + COPY(b), COPY(a) + b]

Nothing here is new to a runtime: a collective is copies and additions, scheduled like all else.
Small tensors are exchanged whole; larger ones by a reduce-scatter and an all-gather, which move
2 (n - 1) / n of a tensor to and from each of n devices instead of n - 1 (Patarasuk and Yuan, 2009,
"Bandwidth optimal all-reduce algorithms for clusters of workstations").
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from functools import reduce as fold
from itertools import accumulate, pairwise

from ..ir.builders import cut, expand, iota_along, padded, reshape, with_size
from ..ir.node import Node, alu
from ..ir.op import Op
from ..ir.shape import size_product
from ..ir.views import operand

__all__ = [
    "Piece", "all_gather", "all_reduce", "bounds_of", "brought", "copy_to", "joined", "pieces",
    "reduce_scatter",
]  # fmt: skip

SMALL = 1 << 12  # elements; fewer are exchanged whole

Piece = tuple[int, int]


def pieces(size: int, count: int) -> list[Piece]:
    """(begin, end) of `count` nearly equal pieces; the first ones are larger where it must be.

    pieces(7, 3) == [(0, 3), (3, 5), (5, 7)]
    """
    small, more = divmod(size, count)
    return bounds_of([small + (i < more) for i in range(count)])


def bounds_of(sizes: Sequence[int]) -> list[Piece]:
    """(begin, end) of pieces of these sizes, one behind the other."""
    return list(pairwise([0, *accumulate(sizes)]))


def copy_to(node: Node, device: str) -> Node:
    """The same values on `device`: what they repeat goes there once."""
    if node.op is Op.EXPAND:
        return expand(copy_to(operand(node), device), node.shape)
    if node.op is Op.COPY and node.arg == device:
        return node
    return Node(Op.COPY, node.dtype, (node,), device)


def brought(parts: Sequence[Node], homes: Sequence[str], device: str) -> list[Node]:
    """Parts, each of which is on one of `homes`, all on `device`."""
    return [
        part if home == device else copy_to(part, device)
        for part, home in zip(parts, homes, strict=True)
    ]


def joined(parts: Sequence[Node], axis: int) -> Node:
    """Parts of one device, one after the other on an axis; what all repeat is repeated then."""
    total = sum(part.shape[axis] for part in parts)
    shape = with_size(parts[0].shape, axis, total)
    if all(part.op is Op.EXPAND for part in parts):
        once = [operand(part) for part in parts]
        sides = {with_size(part.shape, axis, 1) for part in once}
        if len(sides) == 1 and sum(part.shape[axis] for part in once) == total:
            return expand(joined(once, axis), shape)
    places = iota_along(shape, axis)
    bounds = bounds_of([part.shape[axis] for part in parts])
    apart = [padded(p, axis, b, total - e) for p, (b, e) in zip(parts, bounds, strict=True)]
    result = apart[0]
    for alone, (begin, _) in zip(apart[1:], bounds[1:], strict=True):
        result = (places < begin).where(result, alone)
    return result


def reduce_scatter(parts: Sequence[Node], devices: Sequence[str], op: Op, axis: int) -> list[Node]:
    """The combination of all parts, cut along `axis`: each device gets its piece."""
    places = zip(pieces(parts[0].shape[axis], len(parts)), devices, strict=True)
    return [
        fold(partial(alu, op), brought([cut(part, axis, piece) for part in parts], devices, device))
        for piece, device in places
    ]


def all_gather(parts: Sequence[Node], devices: Sequence[str], axis: int) -> list[Node]:
    """The whole, on every device, of what each has a piece of."""
    return [joined(brought(parts, devices, device), axis) for device in devices]


def all_reduce(parts: Sequence[Node], devices: Sequence[str], op: Op) -> list[Node]:
    """The combination of all parts, on every device.

    Each device sends of its part and adds to it, so the part is stored.
    """
    shape = parts[0].shape
    parts = [Node(Op.CONTIGUOUS, part.dtype, (part,)) for part in parts]
    size = size_product(shape)
    if not isinstance(size, int) or size < max(SMALL, len(parts)):
        return [fold(partial(alu, op), brought(parts, devices, device)) for device in devices]
    flat = [reshape(part, (size,)) for part in parts]
    scattered = reduce_scatter(flat, devices, op, 0)
    return [reshape(whole, shape) for whole in all_gather(scattered, devices, 0)]
