"""The transpose of a block of vectors, in registers.

a0 a1 a2 a3   b0 b1 b2 b3   ..   transposed(rows)  ->  a0 b0 c0 d0   a1 b1 c1 d1   ..

Vectors consist of parts that instructions treat alike. A block is turned within parts by taking
elements of two rows in turn, then part by part. Each step is one instruction without a table of
places: such tables would keep registers from accumulators, in all loops around.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.choices import take
from ..ir.node import Node
from ..ir.op import Op
from .lanes import shuffled

__all__ = ["transposed"]

PART = 16  # bytes


def transposed(rows: Sequence[Node]) -> list[Node]:
    """For each lane a vector of its elements of all rows: two to the power of n, not over lanes."""
    dtype = rows[0].dtype
    part = min(dtype.count, PART // dtype.scalar.itemsize)
    size = min(part, len(rows))
    take("register_transpose")
    groups = [_woven(rows[n : n + size], part) for n in range(0, len(rows), size)]
    columns: dict[int, Node] = {}
    for number, vectors in enumerate(zip(*groups, strict=True)):
        # A part of these vectors holds the elements of `size` rows in some neighbouring columns.
        found = _side_by_side(vectors, size)
        for place, column in enumerate(found):
            in_part = part // size
            columns[place // in_part * part + number * in_part + place % in_part] = column
    return [columns[lane] for lane in range(dtype.count)]


def _woven(rows: Sequence[Node], part: int) -> list[Node]:
    """The rows, no more than elements of a part, with neighbours above each other side by side."""
    vectors, half = list(rows), len(rows) // 2
    for _ in range(len(rows).bit_length() - 1):
        pairs = zip(vectors[:half], vectors[half:], strict=True)
        vectors = [_in_turn(*pair, part, at) for pair in pairs for at in (0, part // 2)]
    return vectors


def _in_turn(first: Node, second: Node, part: int, at: int) -> Node:
    """Elements of two vectors in turn: of half of each part, from `at` on."""
    lanes = first.dtype.count
    order = [n // part * part + at + n % part // 2 + n % 2 * lanes for n in range(lanes)]
    return shuffled(first, second, order)


def _side_by_side(vectors: Sequence[Node], size: int) -> list[Node]:
    """For each run of `size` elements the same runs of all vectors, as one vector."""
    lanes = vectors[0].dtype.count
    if len(vectors) * size < lanes:
        return [_joined(vectors, first, size) for first in range(0, lanes, size)]
    vectors = list(vectors)
    for _ in range(len(vectors).bit_length() - 1):
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
        vectors = [_every_second(*pair, size, at) for at in (0, size) for pair in pairs]
    return vectors


def _every_second(first: Node, second: Node, size: int, at: int) -> Node:
    """Every second run of `size` elements of two vectors, from `at` on."""
    order = [n // size * 2 * size + at + n % size for n in range(first.dtype.count)]
    return shuffled(first, second, order)


def _joined(vectors: Sequence[Node], first: int, size: int) -> Node:
    """The run of `size` elements from `first` on of all vectors."""
    dtype = vectors[0].dtype
    if len(vectors) * size == 1:
        return Node(Op.EXTRACT, dtype.scalar, tuple(vectors), first)
    run = range(first, first + size)
    if len(vectors) == 1:
        return shuffled(vectors[0], vectors[0], run)
    if len(vectors) == 2:
        return shuffled(vectors[0], vectors[1], (*run, *(dtype.count + n for n in run)))
    half = len(vectors) // 2
    left, right = _joined(vectors[:half], first, size), _joined(vectors[half:], first, size)
    return shuffled(left, right, range(2 * left.dtype.count))
