"""Slices that are on their way while others are used: in time, in place, and none too many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.errors import InternalError
from treadle.ir.args import ParamRef, ReduceArg, StageArg
from treadle.ir.choices import choices_of
from treadle.ir.conditions import TRUE
from treadle.ir.evaluate import evaluate
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.verify import verify_kernel
from treadle.ir.views import Stage
from treadle.lower.expand import expand
from treadle.lower.linearize import linearize
from treadle.lower.multi_buffering import (
    ASYNCHRONOUS,
    alignment_of,
    lower_buffered_stages,
    place_in,
)
from treadle.lower.registers import lower_reduces
from treadle.lower.stage import lower_stages

from .programs import meaning, run

F32, VOID = dtypes.float32, dtypes.void
RANDOM = np.random.default_rng(14)
STEPS = 6
OUT, X, Y = (Node(Op.PARAM, F32, (), ParamRef(slot, STEPS * 8)) for slot in range(3))
J, S = Node.range(8, 0, "grid"), Node.range(STEPS, 1)
F = Node.range(8, 2, "unroll")  # what a work item fills


def slices(memory: Node, read: Node, buffers: int, fill: str = "copies") -> Node:
    """Element `read` of the slice of 8 elements of step S."""
    value = Node(Op.LOAD, F32, (memory, S * 8 + F))
    arg = StageArg("shared", (8,), buffers=buffers, fill=fill)
    return Node(Op.STAGE, F32, (value, TRUE, F, read, F), arg)


def kernel(value: Node) -> Node:
    """The sums over all steps."""
    total = Node(Op.REDUCE, F32, (value, S), ReduceArg(Op.ADD))
    store = Node(Op.STORE, VOID, (OUT, J, total))
    return Node.sink([Node(Op.END, VOID, (store, J), 1)])


def of(root: Node, op: Op) -> list[Node]:
    return [node for node in root.toposort() if node.op is op]


def lowered(root: Node) -> Node:
    """`root` with pipelines, after a comparison of what both do with random numbers."""
    found = lower_buffered_stages(root)
    verify_kernel(found)
    assert not of(found, Op.STAGE)
    memory = {slot: RANDOM.integers(-9, 9, STEPS * 8).astype(np.float32) for slot in range(3)}
    phases = linearize(lower_reduces(expand(found)), work_items=2, has_workgroups=True)
    np.testing.assert_array_equal(run(phases, memory)[0], meaning(root, memory)[0])
    return found


@pytest.mark.parametrize("fill", ["copies", "stores"])
@pytest.mark.parametrize("buffers", [2, 3, 4, 8])
def test_slices_arrive_in_time(buffers, fill):
    found = lowered(kernel(slices(X, 7 - J, buffers, fill)))
    (memory,) = of(found, Op.LOCAL)
    assert memory.arg.size == buffers * 8
    (wait,) = of(found, Op.WAIT)
    assert wait.arg == buffers - 2  # groups that may still be on their way
    assert wait.src[0] is S
    assert len(of(found, Op.COMMIT)) == buffers  # all but one before the loop
    assert {s.arg for s in of(found, Op.STORE) if s.src[0] is not OUT} == {
        ASYNCHRONOUS if fill == "copies" else None
    }


def test_each_step_reads_the_buffer_that_its_slice_is_in():
    found = lowered(kernel(slices(X, J, 3)))
    (read,) = (n for n in of(found, Op.LOAD) if n.src[0].op is Op.AFTER)
    for step in range(STEPS):
        at = {S: step, J: 5}
        assert int(evaluate(read.src[1], at)) == step % 3 * 8 + 5


def test_nothing_behind_the_last_step_is_read():
    found = lowered(kernel(slices(X, J, 3)))
    gates = [n.src[2] for n in of(found, Op.LOAD) if n.src[0] is X and len(n.src) == 4]
    (gate,) = gates  # of the slice that is filled in the loop
    assert [bool(evaluate(gate, {S: step})) for step in range(STEPS)] == [True] * 4 + [False] * 2


def test_stages_of_one_loop_share_its_wait():
    found = lowered(kernel(slices(X, J, 3) * slices(Y, 7 - J, 3)))
    assert len(of(found, Op.WAIT)) == 1
    assert len(of(found, Op.COMMIT)) == 3
    assert sorted(local.arg.number for local in of(found, Op.LOCAL)) == [0, 1]


def test_slices_are_those_of_the_innermost_loop():
    outer, inner = Node.range(2, 0), Node.range(3, 1)
    value = slices(X, J, 2).substitute({S: outer * 3 + inner})
    total = Node(Op.REDUCE, F32, (value, outer, inner), ReduceArg(Op.ADD))
    store = Node(Op.STORE, VOID, (OUT, J, total))
    found = lowered(Node.sink([Node(Op.END, VOID, (store, J), 1)]))
    assert [wait.src[0] for wait in of(found, Op.WAIT)] == [inner]


def test_what_is_read_twice_is_in_memory_once():
    found = lowered(kernel(slices(X, J, 2) * slices(X, 7 - J, 2)))
    assert len(of(found, Op.LOCAL)) == 1
    one, other = slices(X, J, 2), slices(X, 7 - J, 2)
    another = slices(Y, J, 2)
    assert Stage.of(one).filling == Stage.of(other).filling != Stage.of(another).filling


def test_choices_say_how_slices_arrive():
    for fill, expected in (("copies", True), ("stores", False)):
        with choices_of() as choices:
            lower_buffered_stages(kernel(slices(X, J, 2, fill)))
        assert "multi_buffering" in choices
        assert ("asynchronous_copies" in choices) == expected


def test_one_buffer_is_no_pipeline():
    root = kernel(slices(X, J, 1, "stores"))
    assert lower_buffered_stages(root) is root


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (slices(X, J, 2) * slices(Y, J, 3), "have .2, 3. buffers"),
        (slices(X, J, 2).substitute({F: Node.range(8, 3)}), "is filled in loops"),
    ],
    ids=["two sizes", "a loop inside"],
)
def test_what_is_no_pipeline_is_refused(value, message):
    with pytest.raises(InternalError, match=message):
        lower_buffered_stages(kernel(value))


@pytest.mark.parametrize("others", [1, 3], ids=["alone", "beside slices"])
def test_what_no_loop_changes_is_filled_once_before_the_loop(others):
    row = slices(Y, 7 - J, 3).substitute({S: Node.index(0)})
    value = row * (slices(X, J, others) if others > 1 else Node(Op.LOAD, F32, (X, S * 8 + J)))
    root = kernel(value)
    found, scratch = lower_stages(root, 3)
    assert not scratch
    assert sorted(n.arg.size for n in of(found, Op.LOCAL)) == [8, 24][: 1 + (others > 1)]
    fills = [s for s in of(found, Op.STORE) if s.src[0] is not OUT]
    (once,) = (s for s in fills if Y in s.toposort())
    assert S not in once.toposort()
    memory = {slot: RANDOM.integers(-9, 9, STEPS * 8).astype(np.float32) for slot in range(3)}
    phases = linearize(lower_reduces(expand(found)), work_items=2, has_workgroups=True)
    np.testing.assert_array_equal(run(phases, memory)[0], meaning(root, memory)[0])


ROWS = Node.range(16, 3)


def places(dtype, swizzle, sizes=(16, 64)):
    """Where each element of a tile is."""
    arg = StageArg("shared", sizes, swizzle=swizzle)
    value = Node.const(dtype, 0)
    row, column = Node.range(sizes[0], 3), Node.range(sizes[1], 4)
    stage = Node(Op.STAGE, dtype, (value, TRUE, row, column, row, column, row, column), arg)
    place = place_in(stage, (row, column))
    grid = np.indices(sizes)
    return stage, np.broadcast_to(evaluate(place, {row: grid[0], column: grid[1]}), sizes)


def test_rows_stand_one_behind_the_other():
    stage, found = places(F32, 0)
    np.testing.assert_array_equal(found, np.arange(16 * 64).reshape(16, 64))
    assert alignment_of(stage) == 16


@pytest.mark.parametrize(
    ("dtype", "columns", "swizzle"),
    [(dtypes.float16, 64, 128), (dtypes.float32, 16, 64), (dtypes.int8, 32, 32)],
    ids=str,
)
def test_pieces_of_swizzled_lines_change_places(dtype, columns, swizzle):
    stage, found = places(dtype, swizzle, (16, columns))
    each, lines = 16 // dtype.itemsize, 128 // swizzle
    for row in range(16):
        turn = row // lines % (swizzle // 16)
        pieces = (np.arange(columns) // each) ^ turn
        expected = row * columns + pieces * each + np.arange(columns) % each
        np.testing.assert_array_equal(found[row], expected)
    assert alignment_of(stage) == 8 * swizzle


def test_a_swizzled_piece_is_found_by_turning_the_place_of_its_line():
    arg = StageArg("shared", (16, 64), swizzle=128)
    stage = Node(Op.STAGE, dtypes.float16, (Node.const(dtypes.float16, 0), TRUE), arg)
    for number in range(8):
        place = place_in(stage, (ROWS, Node.index(8 * number)), J * 1024)
        for row in range(16):
            expected = 3 * 1024 + row * 64 + (number ^ row % 8) * 8
            assert int(evaluate(place, {ROWS: row, J: 3})) == expected


def test_a_constant_that_carries_is_no_turn_of_bits():
    arg = StageArg("shared", (16, 64), swizzle=128)
    stage = Node(Op.STAGE, dtypes.float16, (Node.const(dtypes.float16, 0), TRUE), arg)
    piece = Node.range(7, 5)
    place = place_in(stage, (ROWS, piece * 8 + 8))
    for row in range(16):
        for number in range(7):
            expected = row * 64 + ((number + 1) ^ row % 8) * 8
            assert int(evaluate(place, {ROWS: row, piece: number})) == expected


def test_buffers_of_another_count_need_other_memory():
    stage = slices(X, J, 2)
    wider = stage.replace(arg=replace(stage.arg, buffers=5))
    found = lowered(kernel(wider))
    assert [local.arg.size for local in of(found, Op.LOCAL)] == [40]
