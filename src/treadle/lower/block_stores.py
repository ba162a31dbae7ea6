"""Stores of a block: lanes that lie apart, of rows that lie side by side, as vectors of memory.

    out[lane * far + n] = v_n[lane], n = 0 .. 5
      ->  for each lane a vector of v_0[lane] .. v_5[lane], stored under a mask of six
    out[lane * 3 + n] = v_n[lane], n = 0 .. 2
      ->  three vectors: v_0[0] v_1[0] v_2[0] v_0[1] v_1[1] ...

The vectors are rows of a block that is turned in registers. Where the next lane begins behind the
last row, they are woven into one another, and whole vectors are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..dtype import DType, dtypes
from ..ir.choices import take
from ..ir.conditions import TRUE
from ..ir.loops import free_ranges, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Store
from .lanes import broadcast, contiguous, lane_condition, shuffled, without_lane
from .register_transpose import transposed

__all__ = ["Block", "find_block", "find_dense_block", "interleaved"]

HALF_LINE = 32  # bytes: the least that is stored around the caches
MASKED_BYTES = 4  # the least size of elements that masks are about, on all targets that have any
Places = Callable[[dict[Node, int]], tuple[Node, Node]]


class Block(NamedTuple):
    """Lanes of `vector` times the rows of the unrolled RANGE `side`.

    `base` is where the first lane begins, if all rows of a lane lie before the next lane.
    """

    vector: Node
    side: Node
    base: Node | None = None

    def stores(
        self, memory: Node, rows: list[Node], at: Places, has_masks: bool, width: int
    ) -> tuple[Node, ...]:
        """The STOREs of `rows`, a vector for each step of `side`.

        `at` gives the index and the gate of a lane, or of all of them, in terms of `side`. `width`
        is how many bytes can be moved anywhere at once.
        """
        if self.base is not None:
            _, gate = at({})
            return self._woven(memory, self.base, rows, gate, width)
        places = [at({self.vector: lane}) for lane in range(loop_size(self.vector))]
        return tuple(self._turned(memory, rows, places, has_masks))

    def _woven(
        self, memory: Node, base: Node, rows: list[Node], gate: Node, width: int
    ) -> tuple[Node, ...]:
        take("interleaved_stores")
        wide = [broadcast(row, loop_size(self.vector)) for row in rows]
        is_whole = gate is TRUE
        pieces = _joined(interleaved(wide, width), HALF_LINE) if is_whole else interleaved(wide)
        stores, place = [], 0
        for piece in pieces:
            mask = TRUE if is_whole else lane_condition(gate, self.vector, place, len(rows))
            stores.append(Store(memory, base + place, piece, mask).node())
            place += piece.dtype.count
        return tuple(stores)

    def _turned(
        self,
        memory: Node,
        rows: list[Node],
        places: Sequence[tuple[Node, Node]],
        has_masks: bool,
    ) -> Iterator[Node]:
        """Without masks as many rows at a time are turned as fill a vector."""
        take("transposed_stores")
        first, is_padded = 0, _has_masks(rows[0].dtype, has_masks)
        while first < len(rows):
            left = min(len(places), len(rows) - first)
            size = 1 << ((left - 1).bit_length() if is_padded else left.bit_length() - 1)
            block = rows[first : first + size]
            columns = transposed([*block, *([block[-1]] * (size - len(block)))])
            row = Node.range(size, self.side.arg.number, "vector")
            for column, (index, gate) in zip(columns, places, strict=True):
                here = {self.side: row + first}
                base = contiguous(simplify(index.substitute(here)), row)
                held = simplify(gate.substitute(here) & (row < len(block)))
                assert base is not None  # by find_block
                if held.op is Op.CONST and not held.arg:
                    continue
                mask = lane_condition(held, row) if row in ranges_of(held) else held
                yield Store(memory, base, column, mask).node()
            first += len(block)


def find_dense_block(
    store: Store, index: Node, vector: Node, sides: Sequence[Node]
) -> Block | None:
    """The block of a STORE at `index` whose lanes lie as far apart as it has rows."""
    found, tied = without_lane(index, vector), ranges_of(store.gate)
    for side in sides:
        is_dense = found is not None and loop_size(side) == found[1]
        if is_dense and side not in tied and contiguous(store.index, side) is not None:
            return Block(vector, side, found and found[0])
    return None


def find_block(store: Store, vector: Node, sides: Sequence[Node], has_masks: bool) -> Block | None:
    """The block of a STORE that is contiguous in an unrolled RANGE, and can be turned over."""
    below = Node.sink((store.index, store.gate))
    if any(n.op in (Op.LOAD, Op.REDUCE) for n in below.toposort()):
        return None
    tied = free_ranges(below)[store.gate]
    for side in sides:
        is_free = side not in tied or _has_masks(store.value.dtype, has_masks)
        if is_free and loop_size(side) > 1 and contiguous(store.index, side) is not None:
            return Block(vector, side)
    return None


def _has_masks(dtype: DType, has_masks: bool) -> bool:
    return has_masks and dtype.scalar.itemsize >= MASKED_BYTES


# -- vectors woven into one another, lane by lane -------------------------------------------------


def interleaved(vectors: list[Node], width: int = 0) -> list[Node]:
    """The first lanes of all `vectors`, then their second ones and so on, in as many vectors.

    v0, v1, v2  ->  three vectors: v0[0] v1[0] v2[0] v0[1] v1[1] ...

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
    sources = [_joined(vectors[n::left], width)[0] for n in range(left)]
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
    return shuffled(first, second, woven[:lanes]), shuffled(first, second, woven[lanes:])


def _piece(sources: list[Node], number: int, count: int) -> Node:
    """Vector `number` of the result: each of `sources` puts its lanes where they belong.

    The `count` vectors that are woven stand in the sources in turn: in the first source are the
    first one and those `len(sources)` further on.
    """
    width, left = sources[0].dtype.count, len(sources)
    lanes = width * left // count
    begins = (divmod(number * width + n, count) for n in range(width))
    places = [(lane + vector // left * lanes, vector % left) for lane, vector in begins]
    made = sources[0]
    if left == 1:
        return shuffled(made, made, (at for at, _ in places))
    for turn, source in enumerate(sources[1:], 1):
        # What is not there yet may be anything: lane 0 of what has been made.
        earlier = [
            (at if turn == 1 else n) if own < turn else 0 for n, (at, own) in enumerate(places)
        ]
        pairs = zip(earlier, places, strict=True)
        order = (width + at if own == turn else before for before, (at, own) in pairs)
        made = shuffled(made, source, order)
    return made


def _joined(vectors: list[Node], nbytes: int) -> list[Node]:
    """Neighbouring vectors as fewer, twice as wide again and again, that fill `nbytes` each."""
    while len(vectors) % 2 == 0 and vectors[0].dtype.itemsize < nbytes:
        both = range(2 * vectors[0].dtype.count)
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [shuffled(*pair, both) for pair in pairs]
    return vectors
