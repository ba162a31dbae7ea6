"""Hints that fetch the next panel of a matrix while this one is multiplied.

    for panel (grid): for tile: for step: load(panel, step, line 0), ..., load(panel, step, line n)
      ->  the same, and in each step PREFETCH(panel + 1, line (tile * steps + step) >> shift)

The first tile of each panel waits for memory, all others find the panel in the second-level cache.
Processors fetch ahead along lines, but not from the end of one panel to the next. So the tiles ask
for the next panel, line by line and spread over most of their steps: memory delivers no faster, and
tiles that asked for more would wait. Where a worker packs its panels itself, the hints are for what
it will pack next.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence

from ..dtype import dtypes
from ..ir.loops import loop_size
from ..ir.node import Node, alu, behind_after
from ..ir.op import Op
from ..ir.rules.index import linear_terms
from ..ir.views import memory_of
from .nontemporal_stores import CACHE_LINE, split_index
from .prefetch_hints import Loop, Row, are_constant, at_most, following_row, is_plain, ranges_of

__all__ = ["hint_for_packing", "hint_for_panel"]

MOST_INSIDE = 8  # steps of the loops inside of a step that packs


def hint_for_panel(
    row: Row, loops: list[Node], grid: Sequence[Node], l1: int, l2: int
) -> Node | None:
    """The PREFETCH for the panel of `row`, None where there is no next one or it is not worth it.

    The outermost loop behind the grid are the tiles; a panel is read anew in each of them.
    """
    memory, index = row.first.memory, row.first.index
    if not is_plain(memory) or len(loops) < len(grid) + 2:
        return None
    tile, *steps = loops[len(grid) :]
    used = ranges_of(index)
    if tile in used or not used.issuperset(steps) or not are_constant([tile, *steps]):
        return None
    lines = -(-row.nbytes // CACHE_LINE)
    nbytes = loop_size(*steps) * row.nbytes
    following = following_row(index, grid)
    if following is None or loop_size(tile) < lines or not l1 <= nbytes <= l2 // 2:
        return None
    per_line = CACHE_LINE // memory.dtype.scalar.itemsize
    place = _evenly(following, tile, steps, nbytes // CACHE_LINE, per_line)
    if place is None:
        place = following + at_most(tile, lines - 1) * per_line
    return Node(Op.PREFETCH, dtypes.void, (memory, place), 2)


def _evenly(
    panel: Node, tile: Node, steps: Sequence[Node], lines: int, per_line: int
) -> Node | None:
    """The place of each line of a panel in turn, in equally many steps of the tiles.

    None where its steps do not lie side by side, in the order of `steps`.
    """
    terms, _ = linear_terms(panel)
    sizes = [loop_size(r) for r in steps]
    count = math.prod(sizes)
    apart, number = lines * per_line // count, tile.like(0)
    for n, step in enumerate(steps):
        inside = math.prod(sizes[n + 1 :])
        if terms.get(step) != apart * inside:
            return None
        number += step * inside
    shift = (loop_size(tile) * count // lines).bit_length() - 1
    if lines * per_line % count or (lines << shift) % count:
        return None
    number += at_most(tile, (lines << shift) // count - 1) * count
    first = panel.substitute({step: step.like(0) for step in steps})
    return first + alu(Op.SHR, number, number.like(shift)) * per_line


def hint_for_packing(
    fill: Loop, loops: list[Node], body: Sequence[Node], grid: Sequence[Node], l1: int, l2: int
) -> Node | None:
    """The PREFETCH for what `fill` will pack next, in a loop that multiplies by what it packed.

    A step of `fill`, with those of short loops inside of it, loads lines that lie equally far
    apart. They are asked for one after the other, in equally many steps of the tiles.
    """
    filled = {behind_after(store.memory) for store in fill.stores}
    reads = {memory_of(n) for n in body if n.op is Op.LOAD}
    if not filled & reads or len(loops) != len(grid) + 2:
        return None
    tile, step, (packing, *inner) = *loops[-2:], fill.inside(grid)
    if not are_constant([tile, step, packing, *inner]) or loop_size(*inner) > MOST_INSIDE:
        return None
    loads = [
        (load, base, place)
        for load in fill.loads
        if is_plain(load.memory)
        for base, place in _places_in(load.index, inner)
    ]
    places = sorted({place for _, _, place in loads})
    bases = {(load.memory, load.dtype, base) for load, base, _ in loads}
    apart = {more - less for less, more in itertools.pairwise(places)}
    if len(bases) != 1 or len(apart) != 1:
        return None
    ((memory, dtype, base),) = bases
    following = None if base is None else following_row(base, grid)
    nbytes = dtype.itemsize * len(places) * loop_size(packing)
    bits = (len(places) - 1).bit_length()
    turns = loop_size(tile) * loop_size(step) // (loop_size(packing) << bits)
    if following is None or turns == 0 or not l1 <= nbytes <= l2 // 2:
        return None
    shift = turns.bit_length() - 1
    used = max(1, (loop_size(packing) << bits + shift) // loop_size(step))
    number = at_most(tile, used - 1) * loop_size(step) + step
    number = alu(Op.SHR, number, number.like(shift))
    line = alu(Op.AND, number, number.like((1 << bits) - 1))
    if len(places) < 1 << bits:
        line = at_most(line, len(places) - 1)
    now = alu(Op.SHR, number, number.like(bits))
    place = following.substitute({packing: now}) + places[0] + line * apart.pop()
    return Node(Op.PREFETCH, dtypes.void, (memory, place), 2)


def _places_in(index: Node, loops: Sequence[Node]) -> list[tuple[Node | None, int]]:
    """`index` as what varies and what is added to it, in each step of `loops`."""
    terms, _ = linear_terms(index)
    base, first = split_index(index.substitute({r: r.like(0) for r in loops}))
    apart = [terms.get(r, 0) for r in loops]
    steps = itertools.product(*(range(loop_size(r)) for r in loops))
    return [(base, first + sum(map(operator.mul, step, apart))) for step in steps]
