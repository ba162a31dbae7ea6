"""Communication as graph operations: lists of nodes, one for each device, and COPYs between them.

    all_reduce([a on CPU, b on CPU:1], ADD)   ->  [a + COPY(b), COPY(a) + b]

Nothing here is new to a runtime: a collective is copies and additions, scheduled like all else.
Small tensors are exchanged whole; larger ones by a reduce-scatter and an all-gather, which move
2 (n - 1) / n of a tensor to and from each of n devices instead of n - 1 (Patarasuk and Yuan, 2009,
"Bandwidth optimal all-reduce algorithms for clusters of workstations").
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce as fold

from ..dtype import dtypes
from ..ir.node import Node, alu
from ..ir.op import Op
from ..ir.shape import Shape, simple_shape, size_product
from ..ir.views import operand

__all__ = [
    "Piece", "all_gather", "all_reduce", "copy_to", "cut", "expanded", "joined", "padded",
    "pieces", "reduce_scatter", "reshaped",
]  # fmt: skip

SMALL = 1 << 12  # elements; fewer are exchanged whole

Piece = tuple[int, int]


def pieces(size: int, count: int) -> list[Piece]:
    """(begin, end) of `count` nearly equal pieces; the first ones are larger where it must be.

    pieces(7, 3) == [(0, 3), (3, 5), (5, 7)]
    """
    small, more = divmod(size, count)
    ends = [small * (i + 1) + min(i + 1, more) for i in range(count)]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def copy_to(node: Node, device: str) -> Node:
    """The same values on `device`: what they repeat goes there once."""
    if node.op is Op.EXPAND:
        return expanded(copy_to(operand(node), device), node.shape)
    if node.op is Op.COPY and node.arg == device:
        return node
    return Node(Op.COPY, node.dtype, (node,), device)


def reshaped(node: Node, shape: Shape) -> Node:
    """The same elements in another shape."""
    shape = simple_shape(shape)
    return node if node.shape == shape else Node(Op.RESHAPE, node.dtype, (node,), shape)


def cut(node: Node, axis: int, piece: Piece) -> Node:
    """A piece of one axis; what is repeated along others is, too."""
    if piece == (0, node.shape[axis]):
        return node
    size = piece[1] - piece[0]
    if node.op is Op.EXPAND and size:
        once = operand(node)
        shape = tuple(size if at == axis else n for at, n in enumerate(node.shape))
        return expanded(once if once.shape[axis] == 1 else cut(once, axis, piece), shape)
    arg = tuple(piece if at == axis else (0, n) for at, n in enumerate(node.shape))
    return Node(Op.SHRINK, node.dtype, (node,), arg)


def padded(node: Node, axis: int, before: int, after: int) -> Node:
    """With zeros around it on one axis."""
    if not before + after:
        return node
    arg = tuple((before, after) if at == axis else (0, 0) for at in range(len(node.shape)))
    return Node(Op.PAD, node.dtype, (node,), arg)


def expanded(node: Node, shape: Shape) -> Node:
    """With its axes of size 1 repeated."""
    return node if node.shape == shape else Node(Op.EXPAND, node.dtype, (node,), shape)


def joined(parts: Sequence[Node], axis: int) -> Node:
    """Parts of one device, one after the other on an axis; what all repeat is repeated then."""
    total = sum(part.shape[axis] for part in parts)
    shape = tuple(total if at == axis else n for at, n in enumerate(parts[0].shape))
    if all(part.op is Op.EXPAND for part in parts):
        once = [operand(part) for part in parts]
        sides = {(*part.shape[:axis], *part.shape[axis + 1 :]) for part in once}
        if len(sides) == 1 and sum(part.shape[axis] for part in once) == total:
            return expanded(joined(once, axis), shape)
    column = tuple(total if at == axis else 1 for at in range(len(shape)))
    places = Node(Op.IOTA, dtypes.int32, (), total)
    places = Node(Op.EXPAND, dtypes.int32, (reshaped(places, column),), shape)
    begin, result = 0, None
    for part in parts:
        size = part.shape[axis]
        room = tuple(
            (begin, total - begin - size) if at == axis else (0, 0) for at in range(len(shape))
        )
        padded = Node(Op.PAD, part.dtype, (part,), room)
        result = padded if result is None else (places < begin).where(result, padded)
        begin += size
    assert result is not None
    return result


def reduce_scatter(parts: Sequence[Node], devices: Sequence[str], op: Op, axis: int) -> list[Node]:
    """The combination of all parts, cut along `axis`: each device gets its piece."""
    found = []
    for piece, device in zip(pieces(parts[0].shape[axis], len(parts)), devices, strict=True):
        mine = [
            cut(part, axis, piece) if home == device else copy_to(cut(part, axis, piece), device)
            for part, home in zip(parts, devices, strict=True)
        ]
        found.append(fold(lambda a, b: alu(op, a, b), mine))
    return found


def all_gather(parts: Sequence[Node], devices: Sequence[str], axis: int) -> list[Node]:
    """The whole, on every device, of what each has a piece of."""
    return [
        joined(
            [
                part if home == device else copy_to(part, device)
                for part, home in zip(parts, devices, strict=True)
            ],
            axis,
        )
        for device in devices
    ]


def all_reduce(parts: Sequence[Node], devices: Sequence[str], op: Op) -> list[Node]:
    """The combination of all parts, on every device.

    Each device sends of its part and adds to it, so the part is stored.
    """
    shape = parts[0].shape
    parts = [Node(Op.CONTIGUOUS, part.dtype, (part,)) for part in parts]
    size = size_product(shape)
    if not isinstance(size, int) or size < max(SMALL, len(parts)):
        return [
            fold(
                lambda a, b: alu(op, a, b),
                [
                    part if home == device else copy_to(part, device)
                    for part, home in zip(parts, devices, strict=True)
                ],
            )
            for device in devices
        ]
    flat = [reshaped(part, (size,)) for part in parts]
    scattered = reduce_scatter(flat, devices, op, 0)
    return [reshaped(whole, shape) for whole in all_gather(scattered, devices, 0)]
