"""The order in which a phase's loops stand."""

from __future__ import annotations

import itertools

import pytest

from treadle.dtype import dtypes
from treadle.ir.args import ParamRef
from treadle.ir.loops import loop_size
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.lower.linearize import linearize

SIZES = {"grid": 5, "loop": 7}


@pytest.mark.parametrize("kinds", sorted(set(itertools.permutations(("grid", "loop", "grid")))))
def test_a_grid_is_around_all_loops(kinds):
    loops = [Node.range(SIZES[kind], number, kind) for number, kind in enumerate(kinds)]
    place = Node.index(0)
    for r in loops:
        place = place * loop_size(r) + r
    memory = Node(Op.PARAM, dtypes.int32, (), ParamRef(0, 5 * 7 * 5))
    store = Node(Op.STORE, dtypes.void, (memory, place, place.cast(dtypes.int32)))
    end = Node(Op.END, dtypes.void, (store, *loops), 1)
    (phase,) = linearize(Node.sink([end]))
    order = [node.arg.kind for node in phase.program.src if node.op is Op.RANGE]
    assert order == ["grid", "grid", "loop"]
    assert {r.arg.kind for r in phase.grid} == {"grid"}
