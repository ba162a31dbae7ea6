"""Stores of a transposed tile: lanes that lie far apart become vectors of neighbours.

    out[lane * far + n] = v_n[lane], n = 0 .. 5
      ->  for each lane a vector of v_0[lane] .. v_5[lane], stored under a mask of six

The vectors are rows of a block that is turned in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..dtype import DType
from ..ir.choices import take
from ..ir.loops import free_ranges, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Store
from .lanes import contiguous, lane_condition
from .register_transpose import transposed

__all__ = ["find_side", "store_transposed"]

MASKED_BYTES = 4  # the least size of elements that masks are about, on all targets that have any


def find_side(store: Store, sides: Sequence[Node], has_masks: bool) -> Node | None:
    """Which of the unrolled RANGEs `sides` a STORE is contiguous in, and can be turned over."""
    below = Node.sink((store.index, store.gate))
    if any(n.op in (Op.LOAD, Op.REDUCE) for n in below.toposort()):
        return None
    tied = free_ranges(below)[store.gate]
    for side in sides:
        is_free = side not in tied or _has_masks(store.value.dtype, has_masks)
        if is_free and loop_size(side) > 1 and contiguous(store.index, side) is not None:
            return side
    return None


def store_transposed(
    memory: Node,
    rows: Sequence[Node],
    side: Node,
    places: Sequence[tuple[Node, Node]],
    has_masks: bool,
) -> Iterator[Node]:
    """The STOREs of `rows`, a vector for each step of `side`.

    `places` holds for each lane its index and its gate, in terms of `side`. Without masks as many
    rows at a time are turned as fill a vector.
    """
    take("transposed_stores")
    lanes, first = len(places), 0
    is_padded = _has_masks(rows[0].dtype, has_masks)
    while first < len(rows):
        left = min(lanes, len(rows) - first)
        size = 1 << ((left - 1).bit_length() if is_padded else left.bit_length() - 1)
        block = rows[first : first + size]
        columns = transposed([*block, *([block[-1]] * (size - len(block)))])
        row = Node.range(size, side.arg.number, "vector")
        for column, (index, gate) in zip(columns, places, strict=True):
            here = {side: row + first}
            base = contiguous(simplify(index.substitute(here)), row)
            held = simplify(gate.substitute(here) & (row < len(block)))
            assert base is not None  # by find_side
            if held.op is Op.CONST and not held.arg:
                continue
            is_one = row not in ranges_of(held)
            mask = held if is_one else lane_condition(held, row)
            yield Store(memory, base, column, mask).node()
        first += len(block)


def _has_masks(dtype: DType, has_masks: bool) -> bool:
    return has_masks and dtype.scalar.itemsize >= MASKED_BYTES
