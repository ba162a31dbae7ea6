"""Views: the sources of a node by name, and nodes made of such names."""

from __future__ import annotations

import pytest

from treadle.dtype import dtypes
from treadle.ir.args import (
    BufferRef,
    GatherArg,
    ParamRef,
    ReduceArg,
    RegisterRef,
    ScatterArg,
    StageArg,
    TensorBox,
    Token,
)  # fmt: skip
from treadle.ir.conditions import TRUE
from treadle.ir.loops import closed_ranges
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.views import (
    After,
    Assign,
    Box,
    End,
    Gather,
    Load,
    Reduce,
    Register,
    Scatter,
    Stage,
    Store,
    Ticket,
    Update,
    Where,
    behind_broadcast,
    bound_of,
    memory_of,
    operand,
    operands,
    with_loops,
)  # fmt: skip

F = dtypes.float32
MEMORY = Node(Op.PARAM, F, (), ParamRef(0, 64))
ROW, COLUMN = Node.range(8, 0), Node.range(4, 1)
GATE = ROW < 5
VALUE = Node.const(F, 2.5)


def test_a_load_without_a_gate_is_read_everywhere() -> None:
    load = Load.of(Node(Op.LOAD, F, (MEMORY, ROW)))
    assert (load.memory, load.index, load.gate, load.other.value) == (MEMORY, ROW, TRUE, 0)
    assert not load.is_gated


def test_a_gate_makes_a_load_of_four_sources_and_its_absence_one_of_two() -> None:
    plain = Node(Op.LOAD, F, (MEMORY, ROW))
    gated = Load.of(plain)._replace(gate=GATE, other=VALUE).node()
    assert gated.src == (MEMORY, ROW, GATE, VALUE)
    assert Load.of(gated)._replace(gate=TRUE).node() is plain


def test_a_store_keeps_how_it_stores() -> None:
    store = Store(MEMORY, ROW, VALUE, GATE, "how").node()
    assert (store.dtype, store.src, store.arg) == (dtypes.void, (MEMORY, ROW, VALUE, GATE), "how")
    assert Store.of(store)._replace(gate=TRUE).node().src == (MEMORY, ROW, VALUE)


def test_a_stage_has_a_place_for_each_axis_to_fill_and_to_read() -> None:
    arg = StageArg("shared", (8, 4))
    node = Node(Op.STAGE, F, (VALUE, TRUE, ROW, COLUMN, COLUMN, ROW, ROW, COLUMN), arg)
    stage = Stage.of(node)
    assert (stage.filled, stage.read, stage.loops) == ((ROW, COLUMN), (COLUMN, ROW), (ROW, COLUMN))
    assert Stage.of(stage._replace(loops=()).node()).loops == ()


BOX = TensorBox(0, (8, 8), (8,), (4, 4))
KEPT = Node(Op.STAGE, F, (VALUE, GATE, ROW, COLUMN, ROW), StageArg("grid", (8,)))
MADE = {
    Load: Node(Op.LOAD, F, (MEMORY, ROW, GATE, VALUE)),
    Store: Node(Op.STORE, dtypes.void, (MEMORY, ROW, VALUE)),
    Reduce: Node(Op.REDUCE, F, (VALUE, ROW, COLUMN), ReduceArg(Op.ADD, ())),
    End: Node(Op.END, dtypes.void, (Store(MEMORY, ROW, VALUE).node(), ROW, COLUMN), 1),
    Stage: KEPT,
    Register: Node(Op.REGISTER, F, (VALUE, ROW), RegisterRef(3)),
    Ticket: Node(Op.TICKET, dtypes.int32, (KEPT, ROW)),
    Update: Node(Op.UPDATE, dtypes.void, (MEMORY, VALUE, COLUMN), Op.ADD),
    Where: GATE.where(VALUE, 0.5),
    After: Node(Op.AFTER, F, (MEMORY, ROW, COLUMN)),
    Box: Node(Op.BOX, F, (MEMORY, ROW, COLUMN), BOX),
}


@pytest.mark.parametrize("view", MADE)
def test_a_view_makes_the_node_that_it_was_made_of(view: type) -> None:
    assert view.of(MADE[view]).node() is MADE[view]


def test_what_fills_a_stage_says_nothing_of_where_it_is_read() -> None:
    stage = Stage.of(KEPT)
    assert stage.filling == (VALUE, GATE, ROW, ROW)
    assert Stage.of(stage._replace(read=(ROW,)).node()).filling == stage.filling


@pytest.mark.parametrize("view", [Reduce, End, Stage])
def test_what_closes_loops_is_made_anew_over_others(view: type) -> None:
    other = with_loops(MADE[view], (COLUMN,))
    assert closed_ranges(other) == (COLUMN,)
    assert with_loops(other, closed_ranges(MADE[view])) is MADE[view]


def test_views_of_whole_tensors_name_their_sources() -> None:
    lines = Node(Op.BUFFER, F, (), BufferRef(Token(), 12, "CPU"))
    places = Node(Op.BUFFER, dtypes.int32, (), BufferRef(Token(), 3, "CPU"))
    gather = Node(Op.GATHER, F, (lines, places), GatherArg(0))
    assert (Gather.of(gather).source, Gather.of(gather).index) == (lines, places)
    assert Gather.of(gather).node() is gather
    scatter = Node(Op.SCATTER, F, (lines, places, gather), ScatterArg(0, Op.ADD))
    assert Scatter.of(scatter).values is gather
    assert Scatter.of(scatter).node() is scatter
    assign = Node(Op.ASSIGN, F, (lines, lines))
    assert Assign.of(assign).node() is assign


def test_a_box_has_a_place_on_each_axis_and_perhaps_an_mbarrier() -> None:
    counted = Box.of(MADE[Box])._replace(mbarrier=(MEMORY, ROW)).node()
    assert (Box.of(counted).place, Box.of(counted).mbarrier) == ((ROW, COLUMN), (MEMORY, ROW))
    assert Box.of(MADE[Box]).mbarrier == ()


def test_memory_is_found_behind_what_it_waits_for() -> None:
    filled = After(MEMORY, (Store(MEMORY, ROW, VALUE).node(),)).node()
    assert memory_of(Node(Op.LOAD, F, (filled, ROW))) is MEMORY
    assert memory_of(Store(MEMORY, ROW, VALUE).node()) is MEMORY


def test_all_lanes_of_a_broadcast_are_one_value() -> None:
    assert behind_broadcast(Node.const(F.vec(4), 2.5)) is VALUE
    assert behind_broadcast(ROW) is ROW


def test_operands_of_another_number_are_refused() -> None:
    total = Node(Op.ADD, F, (VALUE, Node(Op.LOAD, F, (MEMORY, ROW))))
    assert operands(total) == total.src
    assert operand(total) is VALUE
    with pytest.raises(ValueError, match="unpack"):
        operands(GATE.where(ROW, COLUMN))
    assert bound_of(ROW).value == 8
