"""Where in its memory a STAGE keeps an element."""

from __future__ import annotations

from ..ir.node import Node, alu, as_index
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.shape import strides_of

__all__ = ["alignment_of", "place_in"]

SHARED_ALIGNMENT = 16
PIECE = 16  # bytes that change places as a whole
ROWS = 8
BLOCK = 1024  # so many rows of 128 bytes


def alignment_of(stage: Node) -> int:
    """What the address of its memory is a multiple of."""
    return BLOCK if stage.arg.is_swizzled else SHARED_ALIGNMENT


def place_in(stage: Node, index: tuple[Node, ...]) -> Node:
    """Where in its memory a STAGE keeps the element at `index`."""
    sizes = stage.arg.sizes
    if stage.arg.is_swizzled:
        index = (*index[:-1], _swizzled(index[:-1], index[-1], stage))
    return simplify(_flat(index, sizes))


def _flat(index: tuple[Node, ...], sizes: tuple[int, ...]) -> Node:
    total = Node.index(0)
    for item, stride in zip(index, strides_of(sizes), strict=True):
        total = total + item * as_index(stride)
    return total


def _swizzled(row: tuple[Node, ...], place: Node, stage: Node) -> Node:
    """The place in a row of the element at `place`, with the row's pieces in their order."""
    each = PIECE // stage.dtype.itemsize
    number = simplify(_flat(row, stage.arg.sizes[:-1]) % ROWS)
    return alu(Op.XOR, simplify(place // each), number) * each + simplify(place % each)
