"""What loops read and write: runs of neighbours, stretches, and what caches say of memory."""

from __future__ import annotations

import pytest

from treadle.dtype import dtypes
from treadle.ir.args import ParamRef
from treadle.ir.loops import loop_size
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.views import After, End, Load, Store
from treadle.lower.linearize import linearize
from treadle.lower.streams import Caches, runs_of, stretches

F32 = dtypes.float32
X, Y = (Node(Op.PARAM, F32, (), ParamRef(slot, 1 << 10)) for slot in (0, 1))
R, S = Node.range(8, 0), Node.range(4, 1)
ROW = R * 128


def load(memory, index, lanes=4):
    return Node(Op.LOAD, F32.vec(lanes), (memory, index))


def bytes_of(run):
    return run.spans[0].begin, run.nbytes


def test_neighbours_are_one_run_in_whatever_order_they_are_read():
    found = runs_of([load(X, ROW + 8), load(X, ROW), load(X, ROW + 4), load(X, ROW + 12, 1)])
    assert [bytes_of(run) for run in found] == [(0, 52)]
    assert found[0].index is ROW
    assert [span.begin for span in found[0].spans] == [0, 16, 32, 48]


def test_a_gap_another_base_and_other_memory_begin_runs():
    nodes = [load(X, ROW), load(X, ROW + 8), load(X, ROW + S), load(Y, ROW + 4)]
    assert sorted(map(bytes_of, runs_of(nodes))) == [(0, 16), (0, 16), (16, 16), (32, 16)]


def test_what_overlaps_is_one_run():
    (run,) = runs_of([load(X, ROW, 8), load(X, ROW + 2, 2), load(X, ROW + 6, 4)])
    assert bytes_of(run) == (0, 40)


def test_memory_that_is_read_after_something_is_the_same():
    later = After(X, (load(Y, ROW),)).node()
    (run,) = runs_of([load(X, ROW), load(later, ROW + 4)])
    assert bytes_of(run) == (0, 32)


def test_a_run_may_begin_behind_a_constant():
    (run,) = runs_of([load(X, Node.index(20)), load(X, Node.index(24))])
    assert (run.base, run.index.arg, bytes_of(run)) == (None, 20, (80, 32))


def test_stretches_hold_every_node_once_and_know_the_innermost_loops():
    value = Load.of(Node(Op.LOAD, F32, (X, ROW + S))).node()
    inner = End((Store(Y, ROW + S, value).node(),), (S,)).node()
    beside = Store(X, ROW, Node.const(F32, 1)).node()
    (phase,) = linearize(Node.sink([End((inner, beside), (R,)).node()]))
    found = [*stretches(phase.program.src)]
    nodes = [n for stretch in found for n in stretch.body]
    assert nodes == [n for n in phase.program.src if n.op not in (Op.RANGE, Op.END)]
    (loop,) = (stretch for stretch in found if stretch.is_loop)
    assert list(map(loop_size, loop.loops)) == [8, 4]
    assert loop.end is not None
    assert loop.places == [*loop.loops, loop.end]
    assert ([s.memory for s in loop.stores], [one.memory for one in loop.loads]) == ([Y], [X])


CACHES = Caches(32 << 10, 512 << 10, 1 << 20)


@pytest.mark.parametrize(
    ("size", "is_panel", "has_room"),
    [
        (16 << 10, False, True),
        (32 << 10, True, True),
        (256 << 10, True, True),
        (257 << 10, False, False),
    ],
)
def test_a_panel_outgrows_the_first_cache_and_two_fit_the_second(size, is_panel, has_room):
    assert (CACHES.is_panel(size), CACHES.has_room(size)) == (is_panel, has_room)


def test_memory_is_far_that_the_last_cache_does_not_hold():
    near, far = (Node(Op.PARAM, F32, (), ParamRef(0, n)) for n in (1 << 18, (1 << 18) + 1))
    assert [CACHES.is_far(memory) for memory in (near, far)] == [False, True]
    assert not CACHES.is_far(Node(Op.LOAD, F32, (far, R)))
