"""The results of a matrix unit as loops: what its map of lanes and elements says, made of RANGEs.

extents(unit.out, 0)         ->  ((2, "unroll"), (8, "local")): mma.sync's rows, outermost first
unit_loops(row, column, out) ->  which loops are digits of the lane's number, and the element's
place_in(held, lane, number) ->  row and column that a lane's work item holds as such an element
"""

from __future__ import annotations

from typing import NamedTuple

from ..ir.args import RangeKind
from ..ir.loops import Split
from ..ir.node import Node
from ..ir.rules.index import simplify
from ..target import Fragment

__all__ = ["UnitLoops", "extents", "place_in", "unit_loops"]


def extents(
    out: Fragment, axis: int, innermost: RangeKind = "unroll"
) -> tuple[tuple[int, RangeKind], ...]:
    """The loops along an axis of a unit's results: (extent, kind), outermost first.

    The `innermost` of those of elements has that kind.
    """
    kinds, last = [], innermost
    for part in reversed(out.parts(axis)):
        kinds.append((part.extent, "local" if part.is_lane else last))
        last = last if part.is_lane else "unroll"
    return tuple(reversed(kinds))


class UnitLoops(NamedTuple):
    """The loops of rows and columns of a tile of units.

    `rows` and `columns` are those outside of a unit; `lane` are the digits of the lane's number in
    its results, from the lowest on, and `element` is the number of a work item's element.
    """

    rows: tuple[Node, ...]
    columns: tuple[Node, ...]
    lane: tuple[Node, ...]
    element: Node


def unit_loops(row: Split, column: Split, out: Fragment) -> UnitLoops:
    """What the loops of both mean, of which the innermost are those of `extents`."""
    outer, lane, element = [], {}, Node.index(0)
    for axis, split in enumerate((row, column)):
        loops, parts = [r for r in split.ranges if r.arg.kind != "grid"], out.parts(axis)
        inner = len(loops) - len(parts)
        outer.append(tuple(loops[:inner]))
        for loop, part in zip(loops[inner:], parts, strict=True):
            if part.is_lane:
                lane[part.weight] = loop
            else:
                element = element + loop * part.weight
    digits = tuple(lane[weight] for weight in sorted(lane))
    return UnitLoops(outer[0], outer[1], digits, simplify(element))


def place_in(held: Fragment, lane: tuple[Node, ...], number: Node) -> tuple[Node, Node]:
    """The row and the column of element `number` of a work item, by the digits of its lane."""
    place = [Node.index(0), Node.index(0)]
    values = [*lane]
    for digit in held.elements:
        values.append(number % digit.extent)
        number = number // digit.extent
    for digit, value in zip((*held.lanes, *held.elements), values, strict=True):
        if digit.axis is not None:
            place[digit.axis] = place[digit.axis] + value * digit.step
    return simplify(place[0]), simplify(place[1])
