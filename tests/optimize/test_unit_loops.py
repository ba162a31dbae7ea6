"""The loops of a unit's results, of NVIDIA and of AMD: what lane and element count is the map."""

import itertools
import math

import pytest

from treadle.ir.loops import loop_size
from treadle.ir.node import Node
from treadle.ir.rules.index import simplify
from treadle.optimize.moves import Moves
from treadle.optimize.shared_tiles import extents, place_in, unit_loops
from treadle.target import CDNA3, MMA, RDNA3, RDNA4, parse_target

TARGET = parse_target("sm_80")
UNITS = {
    "mma": MMA["float16"], "rdna3": RDNA3["float16"], "rdna4": RDNA4["int8"],
    "cdna3": CDNA3["float16", 32],
}  # fmt: skip


def at(node, values):
    return simplify(node.substitute(values)).value


@pytest.mark.parametrize("name", UNITS)
def test_each_step_of_the_loops_is_held_where_the_map_says(name):
    _, _, out = UNITS[name].held
    moves = Moves(Node.sink([]), TARGET)
    row = moves.tiled(out.shape[0], *extents(out, 0))
    column = moves.tiled(out.shape[1], *extents(out, 1, "vector"))
    loops = unit_loops(row, column, out)
    assert math.prod(loop_size(r) for r in loops.lane) == out.width
    ranges = (*row.ranges, *column.ranges)
    for steps in itertools.product(*(range(loop_size(r)) for r in ranges)):
        values = {r: Node.index(n) for r, n in zip(ranges, steps, strict=True)}
        lane, weight = 0, 1
        for loop in loops.lane:
            lane, weight = lane + weight * at(loop, values), weight * loop_size(loop)
        place = (at(row.expr, values), at(column.expr, values))
        assert out.place(lane, at(loops.element, values)) == place
        held = place_in(out, loops.lane, loops.element)
        assert tuple(at(part, values) for part in held) == place


def test_loops_of_lanes_are_work_items_and_neighbours_are_a_vector():
    _, _, out = UNITS["mma"].held
    assert extents(out, 0) == ((2, "unroll"), (8, "local"))
    assert extents(out, 1, "vector") == ((4, "local"), (2, "vector"))
