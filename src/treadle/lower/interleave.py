"""Vectors that are stored in turn, lane by lane: shuffled into whole vectors of memory.

out[3 * lane + c] = v_c, c = 0, 1, 2   ->   three vectors: v0[0] v1[0] v2[0] v0[1] v1[1] ...
"""

from __future__ import annotations

from ..dtype import dtypes
from ..ir.loops import TRUE
from ..ir.node import Node
from ..ir.op import Op
from .lanes import broadcast, lane_condition

__all__ = ["interleaved", "joined", "store_interleaved"]

HALF_LINE = 32  # bytes: the least that is stored around the caches


def store_interleaved(
    memory: Node, base: Node, values: list[Node], gate: Node, vector: Node
) -> tuple[Node, ...]:
    """The STOREs of `values` in turn from `base` on, for the lanes where `gate` holds."""
    lanes = vector.src[0].arg
    pieces = interleaved([broadcast(value, lanes) for value in values])
    stores, place = [], 0
    for piece in joined(pieces) if gate is TRUE else pieces:
        src = [memory, base + place, piece]
        if gate is not TRUE:
            src.append(lane_condition(gate, vector, place, len(values)))
        stores.append(Node(Op.STORE, dtypes.void, tuple(src)))
        place += piece.dtype.count
    return tuple(stores)


def interleaved(vectors: list[Node]) -> list[Node]:
    """The first lanes of all `vectors`, then their second ones and so on, as as many vectors.

    Floats narrower than 32 bits are no type of their own on most processors: their bits are moved.
    """
    dtype = vectors[0].dtype
    if not dtype.is_float or dtype.scalar.bits >= 32:
        return _woven(vectors)
    unsigned = dtypes.uint16 if dtype.scalar.bits == 16 else dtypes.uint8
    bits = [vector.bitcast(unsigned.vec(dtype.count)) for vector in vectors]
    return [piece.bitcast(dtype) for piece in _woven(bits)]


def _woven(vectors: list[Node]) -> list[Node]:
    """An even number of them is first woven in pairs, each with the one half of them further on."""
    count = len(vectors)
    if count == 1:
        return vectors
    if count % 2:
        return [_piece(vectors, number) for number in range(count)]
    half = count // 2
    pairs = [_pair(vectors[n], vectors[n + half]) for n in range(half)]
    low, high = zip(*pairs, strict=True)
    return _woven(list(low)) + _woven(list(high))


def _pair(first: Node, second: Node) -> tuple[Node, Node]:
    """Two vectors in turn, as two vectors."""
    lanes = first.dtype.count
    woven = [place for n in range(lanes) for place in (n, lanes + n)]
    low, high = (
        Node(Op.SHUFFLE, first.dtype, (first, second), tuple(woven[at : at + lanes]))
        for at in (0, lanes)
    )
    return low, high


def _piece(vectors: list[Node], number: int) -> Node:
    """Vector `number` of the result: each of `vectors` puts its lanes where they belong."""
    lanes, count = vectors[0].dtype.count, len(vectors)
    places = [divmod(number * lanes + n, count) for n in range(lanes)]
    made = vectors[0]
    for turn, vector in enumerate(vectors[1:], 1):
        # What is not there yet may be anything: lane 0 of what has been made.
        earlier = [
            (at if turn == 1 else n) if own < turn else 0 for n, (at, own) in enumerate(places)
        ]
        order = tuple(
            lanes + at if own == turn else before
            for before, (at, own) in zip(earlier, places, strict=True)
        )
        made = Node(Op.SHUFFLE, made.dtype, (made, vector), order)
    return made


def joined(vectors: list[Node]) -> list[Node]:
    """Neighbouring vectors of narrow elements as fewer that fill half a line of memory each."""
    while len(vectors) % 2 == 0 and vectors[0].dtype.itemsize < HALF_LINE:
        lanes = vectors[0].dtype.count
        wide, order = vectors[0].dtype.scalar.vec(2 * lanes), tuple(range(2 * lanes))
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [Node(Op.SHUFFLE, wide, pair, order) for pair in pairs]
    return vectors
