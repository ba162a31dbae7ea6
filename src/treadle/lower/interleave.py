"""Vectors woven into one another, lane by lane.

v0, v1, v2   ->   three vectors: v0[0] v1[0] v2[0] v0[1] v1[1] ...
"""

from __future__ import annotations

from ..dtype import dtypes
from ..ir.node import Node
from ..ir.op import Op

__all__ = ["interleaved", "joined"]

HALF_LINE = 32  # bytes: the least that is stored around the caches


def interleaved(vectors: list[Node], width: int = 0) -> list[Node]:
    """The first lanes of all `vectors`, then their second ones and so on, in as many vectors.

    In fewer that are wider, if two or more of them fit into `width` bytes.
    Floats narrower than 32 bits are no type of their own on most processors: their bits are moved.
    """
    dtype = vectors[0].dtype
    if not dtype.is_float or dtype.scalar.bits >= 32:
        return _woven(vectors, width)
    unsigned = dtypes.uint16 if dtype.scalar.bits == 16 else dtypes.uint8
    bits = [vector.bitcast(unsigned.vec(dtype.count)) for vector in vectors]
    return [piece.bitcast(dtype.scalar.vec(piece.dtype.count)) for piece in _woven(bits, width)]


def _woven(vectors: list[Node], width: int) -> list[Node]:
    """They come out as vectors of up to `width` bytes.

    Where joining them first leaves an even number, they are woven in pairs until it does not, each
    with the one half of them further on.
    """
    count = len(vectors)
    if count == 1:
        return vectors
    group = _group(vectors, width)
    left = count // group
    if left % 2 == 0:
        half = count // 2
        pairs = [_pair(vectors[n], vectors[n + half]) for n in range(half)]
        low, high = zip(*pairs, strict=True)
        return _woven(list(low), width) + _woven(list(high), width)
    sources = [_concatenated(vectors[n::left]) for n in range(left)]
    return [_piece(sources, number, count) for number in range(left)]


def _group(vectors: list[Node], width: int) -> int:
    """How many of them fit into one vector, of those numbers that divide theirs."""
    group = 1
    while len(vectors) % (2 * group) == 0 and 2 * group * vectors[0].dtype.itemsize <= width:
        group *= 2
    return group


def _pair(first: Node, second: Node) -> tuple[Node, Node]:
    """Two vectors in turn, as two vectors."""
    lanes = first.dtype.count
    woven = [place for n in range(lanes) for place in (n, lanes + n)]
    low, high = (
        Node(Op.SHUFFLE, first.dtype, (first, second), tuple(woven[at : at + lanes]))
        for at in (0, lanes)
    )
    return low, high


def _piece(sources: list[Node], number: int, count: int) -> Node:
    """Vector `number` of the result: each of `sources` puts its lanes where they belong.

    The `count` vectors that are woven stand in the sources in turn: in the first source are the
    first one and those `len(sources)` further on.
    """
    width, left = sources[0].dtype.count, len(sources)
    lanes = width * left // count
    places = []
    for n in range(width):
        lane, vector = divmod(number * width + n, count)
        places.append((lane + vector // left * lanes, vector % left))
    made = sources[0]
    if left == 1:
        return Node(Op.SHUFFLE, made.dtype, (made, made), tuple(at for at, _ in places))
    for turn, source in enumerate(sources[1:], 1):
        # What is not there yet may be anything: lane 0 of what has been made.
        earlier = [
            (at if turn == 1 else n) if own < turn else 0 for n, (at, own) in enumerate(places)
        ]
        order = tuple(
            width + at if own == turn else before
            for before, (at, own) in zip(earlier, places, strict=True)
        )
        made = Node(Op.SHUFFLE, made.dtype, (made, source), order)
    return made


def _concatenated(vectors: list[Node]) -> Node:
    """Two to the power of n vectors as one."""
    while len(vectors) > 1:
        vectors = [_both(*pair) for pair in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0]


def _both(first: Node, second: Node) -> Node:
    lanes = first.dtype.count
    wide, order = first.dtype.scalar.vec(2 * lanes), tuple(range(2 * lanes))
    return Node(Op.SHUFFLE, wide, (first, second), order)


def joined(vectors: list[Node]) -> list[Node]:
    """Neighbouring vectors of narrow elements as fewer that fill half a line of memory each."""
    while len(vectors) % 2 == 0 and vectors[0].dtype.itemsize < HALF_LINE:
        vectors = [_both(*pair) for pair in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors
