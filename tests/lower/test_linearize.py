"""Where nodes, loops and barriers stand in a phase."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.ir.args import LocalRef, ParamRef
from treadle.ir.loops import loop_size, number_of
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.lower.linearize import linearize, param_bytes, phase_ends

from .programs import meaning, run

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


F32, VOID = dtypes.float32, dtypes.void
OUT, X = (Node(Op.PARAM, F32, (), ParamRef(slot, 64)) for slot in (0, 1))
R, J, K = (Node.range(4, number) for number in range(3))


def load(place):
    return Node(Op.LOAD, F32, (X, place))


def kernel(value, *loops, place=None):
    store = Node(Op.STORE, VOID, (OUT, number_of(loops) if place is None else place, value))
    return Node(Op.END, VOID, (store, *loops), 1)


def positions(phase):
    """How many loops are around each node of a program."""
    depth, found = 0, {}
    for node in phase.program.src:
        depth += (node.op is Op.RANGE) - (node.op is Op.END)
        found[node] = depth
    return found


def test_what_does_not_change_in_a_loop_is_computed_before_it():
    root = Node.sink([kernel(load(R) * 3 + load(J), R, J)])
    (phase,) = linearize(root)
    depths = positions(phase)
    assert depths[load(R)] == depths[load(R) * 3] == 1
    assert depths[load(J)] == 2  # as written: loops stand in the order of the END
    assert depths[X] == 0
    memory = {slot: np.arange(64, dtype=np.float32) + slot for slot in (0, 1)}
    np.testing.assert_array_equal(run([phase], memory)[0], meaning(root, memory)[0])


def test_a_loop_is_closed_behind_its_body_and_a_grid_never():
    worker = Node.range(4, 0, "grid")
    (phase,) = linearize(Node.sink([kernel(load(J), worker, J)]))
    assert [n.src for n in phase.program.src if n.op is Op.END] == [(J,)]
    assert phase.grid == (worker,)


def test_what_fills_memory_for_all_is_a_phase_before():
    scratch = Node(Op.PARAM, F32, (), ParamRef(2, 4))
    fill = Node(Op.END, VOID, (Node(Op.STORE, VOID, (scratch, K, load(K))), K), 1)
    read = Node(Op.LOAD, F32, (Node(Op.AFTER, F32, (scratch, fill)), 3 - R))
    first, second = linearize(Node.sink([kernel(read, R)]))
    assert first.params == [(X, False), (scratch, True)]
    assert second.params == [(OUT, True), (scratch, False)]
    assert phase_ends(Node.sink([kernel(read, R)]))[0] is fill
    memory = {slot: np.arange(64, dtype=np.float32) for slot in (0, 1, 2)}
    after = run([first, second], memory)
    np.testing.assert_array_equal(after[0][:4], [3, 2, 1, 0])


def in_workgroups(fill_loops, around):
    """Shared memory that is filled in `fill_loops`, and read in J, inside of `around`."""
    local = Node(Op.LOCAL, F32, (), LocalRef(0, 4))
    place = fill_loops[-1]
    store = Node(Op.STORE, VOID, (local, place, load(place + around * 4)))
    fill = Node(Op.END, VOID, (store, *fill_loops), 1)
    read = Node(Op.LOAD, F32, (Node(Op.AFTER, F32, (local, fill)), 3 - J))
    return Node.sink([kernel(read, around, J)])


def test_all_work_items_meet_between_filling_and_reading_shared_memory():
    grid = Node.range(4, 0, "grid")
    (phase,) = linearize(in_workgroups((K,), grid), work_items=32, has_workgroups=True)
    ops = [n.op for n in phase.program.src if n.op in (Op.STORE, Op.LOAD, Op.BARRIER)]
    assert ops == [Op.LOAD, Op.STORE, Op.BARRIER, Op.LOAD, Op.STORE]


def test_before_a_loop_fills_shared_memory_again_all_work_items_have_read_it():
    (phase,) = linearize(in_workgroups((K,), R), work_items=32, has_workgroups=True)
    ops = [n.op for n in phase.program.src if n.op in (Op.STORE, Op.BARRIER)]
    assert ops == [Op.STORE, Op.BARRIER, Op.STORE, Op.BARRIER]
    assert positions(phase)[[n for n in phase.program.src if n.op is Op.BARRIER][-1]] == 1


@pytest.mark.parametrize(("work_items", "has_workgroups"), [(1, True), (32, False)])
def test_one_work_item_meets_nobody(work_items, has_workgroups):
    (phase,) = linearize(in_workgroups((K,), R), work_items, has_workgroups)
    assert not [n for n in phase.program.src if n.op is Op.BARRIER]


def test_a_load_of_what_a_loop_stores_stands_in_the_loop():
    old = Node(Op.LOAD, F32, (OUT, Node.index(0)))
    store = Node(Op.STORE, VOID, (OUT, Node.index(0), old + 1))
    (phase,) = linearize(Node.sink([Node(Op.END, VOID, (store, R), 1)]))
    assert positions(phase)[old] == 1
    after = run([phase], {0: np.zeros(64, np.float32), 1: np.zeros(64, np.float32)})
    assert after[0][0] == 4


def test_memory_of_a_worker_is_filled_anew_in_each_step_of_the_grid():
    """Its first store may be of a constant, which the step before has overwritten."""
    worker, total = Node.range(4, 0, "grid"), Node(Op.LOCAL, F32, (), LocalRef(0, 1))
    start = Node(Op.STORE, VOID, (total, Node.index(0), Node.const(F32, 0.0)))
    filled = Node(Op.AFTER, F32, (total, start))
    added = Node(Op.LOAD, F32, (filled, Node.index(0))) + load(worker * 4 + K)
    end = Node(Op.END, VOID, (Node(Op.STORE, VOID, (filled, Node.index(0), added)), K), 1)
    read = Node(Op.LOAD, F32, (Node(Op.AFTER, F32, (total, end)), Node.index(0)))
    phases = linearize(Node.sink([kernel(read, worker)]))
    assert positions(phases[0])[start] == 1
    after = run(phases, {slot: np.arange(64, dtype=np.float32) for slot in (0, 1)})
    np.testing.assert_array_equal(after[0][:4], np.arange(16).reshape(4, 4).sum(1))


def test_a_phase_names_its_variables_and_the_bytes_of_its_memory():
    count = Node.variable("count", 1, 9)
    (phase,) = linearize(Node.sink([kernel(load(R + count), R)]))
    assert phase.variables == ["count"]
    assert param_bytes(OUT) == 64 * 4
    assert phase.launched == phase.work_items == 1
    assert phase.code is phase.program
