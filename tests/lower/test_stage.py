"""Values that a kernel keeps: in which memory, filled by whom, and read where."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.errors import InternalError
from treadle.ir.args import LocalRef, ParamRef, StageArg
from treadle.ir.conditions import TRUE
from treadle.ir.loops import closed_ranges
from treadle.ir.node import Node, behind_after
from treadle.ir.op import Op
from treadle.ir.verify import verify_kernel
from treadle.lower.linearize import linearize
from treadle.lower.stage import lower_stages

from .programs import meaning, run

F32 = dtypes.float32
RANDOM = np.random.default_rng(13)
OUT, X = (Node(Op.PARAM, F32, (), ParamRef(slot, 64)) for slot in (0, 1))
R, J, F, G = (Node.range(8, number) for number in range(4))


def load(place: Node) -> Node:
    return Node(Op.LOAD, F32, (X, place))


def kept(scope: str, value: Node, read: Node, gate: Node = TRUE, loop: Node = F) -> Node:
    """`value` of each step of `loop`, as it is in step `read`."""
    return Node(Op.STAGE, F32, (value, gate, loop, read, loop), StageArg(scope, (8,)))


def kernel(value: Node) -> Node:
    store = Node(Op.STORE, dtypes.void, (OUT, R * 8 + J, value))
    return Node.sink([Node(Op.END, dtypes.void, (store, R, J), 1)])


def of(root: Node, op: Op) -> list[Node]:
    return [node for node in root.toposort() if node.op is op]


def lowered(root: Node) -> tuple[Node, list[Node]]:
    """`root` without STAGEs, after a comparison of what both do with random numbers."""
    found, scratch = lower_stages(root, 2)
    verify_kernel(found)
    assert not of(found, Op.STAGE)
    memory = {slot: RANDOM.integers(-9, 9, 64).astype(np.float32) for slot in (0, 1)}
    own = {param.arg.slot: np.full(param.arg.size, 99, np.float32) for param in scratch}
    after = run(linearize(found), memory | own)
    np.testing.assert_array_equal(after[0], meaning(root, memory)[0])
    return found, scratch


def test_a_row_for_each_worker_is_filled_where_it_is_needed():
    found, scratch = lowered(kernel(kept("shared", load(R * 8 + F) * 2, 7 - J)))
    assert scratch == []
    (memory,) = of(found, Op.LOCAL)
    assert memory.arg == LocalRef(0, 8)
    (phase,) = linearize(found)
    ops = [(n.op, n) for n in phase.program.src if n.op in (Op.RANGE, Op.STORE)]
    assert [node for op, node in ops if op is Op.RANGE] == [R, F, J]


def test_a_value_for_all_workers_is_filled_in_a_phase_before():
    found, scratch = lowered(kernel(kept("grid", load(F) * 2, 7 - J)))
    (memory,) = scratch
    assert memory.arg == ParamRef(2, 8)
    first, second = linearize(found)
    assert first.params == [(X, False), (memory, True)]
    assert second.params == [(OUT, True), (memory, False)]


def test_a_load_waits_for_the_loop_that_fills_what_it_reads():
    found, _ = lowered(kernel(kept("grid", load(F), J)))
    (read,) = (n for n in of(found, Op.LOAD) if behind_after(n.src[0]) is not X)
    memory, end = read.src[0].src
    assert closed_ranges(end) == (F,)
    assert end.src[0].src[0] is memory


def test_what_differs_in_its_places_alone_is_kept_once():
    both = kept("grid", load(F), J) - kept("grid", load(F), 7 - J)
    found, scratch = lowered(kernel(both))
    assert len(scratch) == 1
    assert len(of(found, Op.STORE)) == 2


def test_different_values_are_kept_beside_each_other():
    doubled = load(G) * 2
    _, scratch = lowered(kernel(kept("grid", load(F), J) - kept("grid", doubled, J, loop=G)))
    assert [param.arg.slot for param in scratch] == [2, 3]
    found, _ = lowered(kernel(kept("shared", load(F), J) - kept("shared", doubled, J, loop=G)))
    assert sorted(local.arg.number for local in of(found, Op.LOCAL)) == [0, 1]


def test_steps_behind_a_gate_fill_nothing():
    found, _ = lowered(kernel(kept("shared", load(F), J % 5, F < 5)))
    (store,) = (n for n in of(found, Op.STORE) if behind_after(n.src[0]).op is Op.LOCAL)
    assert store.src[3] is (F < 5)
    found, _ = lowered(kernel(kept("shared", load(F), J)))
    assert {len(store.src) for store in of(found, Op.STORE)} == {3}


def test_a_row_of_a_row_is_filled_after_it():
    once = kept("shared", load(R * 8 + F) + 1, 7 - G)
    found, _ = lowered(kernel(kept("shared", once * 2, 7 - J, loop=G)))
    assert len(of(found, Op.LOCAL)) == 2
    (phase,) = linearize(found)
    assert [n for n in phase.program.src if n.op is Op.RANGE] == [R, F, G, J]


def test_a_ticket_counts_in_the_memory_that_it_is_drawn_from():
    i32 = dtypes.int32
    counter = Node(Op.STAGE, i32, (F.cast(i32), TRUE, F, R % 2, F), StageArg("shared", (8,)))
    ticket = Node(Op.TICKET, i32, (counter, R))
    store = Node(Op.STORE, dtypes.void, (OUT, ticket.cast(dtypes.index), load(R)))
    found, _ = lower_stages(Node.sink([Node(Op.END, dtypes.void, (store, R), 1)]), 2)
    assert not of(found, Op.TICKET)
    after = run(linearize(found), {0: np.zeros(64, "f4"), 1: np.arange(64, dtype="f4")})
    # steps 0, 2, 4, 6 draw 0, 1, 2, 3; steps 1, 3, 5, 7 draw 1, 2, 3, 4
    np.testing.assert_array_equal(after[0][:5], [0, 2, 4, 6, 7])


def test_a_value_for_all_workers_depends_on_no_loop_of_one():
    with pytest.raises(InternalError, match="is filled inside of loops"):
        lower_stages(kernel(kept("grid", load(R * 8 + F), J)), 2)


@pytest.mark.parametrize("scope", ["shared", "grid"])
def test_memory_is_as_large_as_what_is_read_of_it(scope: str) -> None:
    """A loop of 8 in pieces of 3 reads a ninth element, and makes nothing of it."""
    outer, inner = Node.range(3, 5), Node.range(3, 6)
    place = outer * 3 + inner
    value = kept(scope, load(F), place)
    store = Node(Op.STORE, dtypes.void, (OUT, R * 8 + place, value, place < 8))
    end = Node(Op.END, dtypes.void, (store, R, outer, inner), 1)
    found, scratch = lowered(Node.sink([end]))
    sizes = [node.arg.size for node in (*of(found, Op.LOCAL), *scratch)]
    assert sizes == [9]
    assert set(scratch) <= set(of(found, Op.PARAM))
