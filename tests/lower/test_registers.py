"""Reductions in registers: where they begin, which loops they share, and what they come to."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.ir.accumulators import identity
from treadle.ir.args import ParamRef, ReduceArg, RegisterRef
from treadle.ir.choices import choices_of
from treadle.ir.loops import closed_ranges
from treadle.ir.node import Node, behind_after
from treadle.ir.op import Op
from treadle.ir.verify import verify_kernel
from treadle.lower.linearize import linearize
from treadle.lower.registers import lower_reduces

from .programs import meaning, run

F32 = dtypes.float32
RANDOM = np.random.default_rng(12)
OUT, X, Y, *MORE = (Node(Op.PARAM, F32, (), ParamRef(slot, 64)) for slot in range(5))
OUTS = (OUT, *MORE)
R, K, L = (Node.range(size, number) for number, size in enumerate((4, 8, 8)))


def load(memory: Node, place: Node) -> Node:
    return Node(Op.LOAD, F32, (memory, place))


def total(op: Op, value: Node, *loops: Node) -> Node:
    return Node(Op.REDUCE, value.dtype, (value, *loops), ReduceArg(op))


def kernel(*values: Node, loops: tuple[Node, ...] = (R,)) -> Node:
    """Stores each value to memory of its own."""
    stores = [
        Node(Op.STORE, dtypes.void, (out, R, value))
        for out, value in zip(OUTS, values, strict=False)
    ]
    return Node.sink([Node(Op.END, dtypes.void, (*stores, *loops), len(stores))])


def lowered(root: Node) -> Node:
    """`root` without reductions, after a comparison of what both do with random numbers."""
    found = lower_reduces(root)
    verify_kernel(found)
    assert not of(found, Op.REDUCE)
    memory = {slot: RANDOM.integers(-9, 9, 64).astype(np.float32) for slot in range(5)}
    after, wanted = run(linearize(found), memory), meaning(root, memory)
    for slot in memory:
        np.testing.assert_array_equal(after[slot], wanted[slot])
    return found


def of(root: Node, op: Op) -> list[Node]:
    return [node for node in root.toposort() if node.op is op]


ROW, COLUMN = load(X, R * 8 + K), load(Y, K * 8 + R)


@pytest.mark.parametrize("op", [Op.ADD, Op.MUL, Op.MAX, Op.MIN])
def test_a_register_begins_at_what_changes_nothing(op):
    (register,) = of(lowered(kernel(total(op, ROW, K))), Op.REGISTER)
    assert register.src == (identity(op, F32), R)


def test_the_result_is_read_behind_the_end_of_the_loop():
    found = lowered(kernel(total(Op.ADD, ROW, K)))
    (after,), (update,) = of(found, Op.AFTER), of(found, Op.UPDATE)
    register, end = after.src
    assert register is update.src[0]
    assert closed_ranges(end) == (K,)
    assert end.src[0] is update
    assert update.src[1] is ROW


def test_reductions_over_the_same_loops_share_them():
    with choices_of() as choices:
        found = lowered(kernel(total(Op.ADD, ROW, K), total(Op.MAX, COLUMN, K)))
    assert "shared_loops" not in choices  # of stores and reductions: that is another choice
    assert [end.arg for end in of(found, Op.END) if closed_ranges(end) == (K,)] == [2]
    assert len({r.arg.number for r in of(found, Op.REGISTER)}) == 2


def test_reductions_over_other_loops_do_not():
    found = lowered(kernel(total(Op.ADD, ROW, K), total(Op.MAX, load(X, R * 8 + L), L)))
    assert [end.arg for end in of(found, Op.END) if R not in closed_ranges(end)] == [1, 1]


def test_what_is_stored_in_the_loops_of_a_reduction_shares_them():
    copy = Node(Op.STORE, dtypes.void, (OUT, K + 32, load(X, K) * 2))
    whole = total(Op.ADD, load(X, K), K)
    stored = Node(Op.STORE, dtypes.void, (OUT, R, whole))
    end = Node(Op.END, dtypes.void, (Node(Op.END, dtypes.void, (copy, K), 1), stored, R), 2)
    with choices_of() as choices:
        found = lower_reduces(Node.sink([end]))
    assert "shared_loops" in choices
    (shared,) = (end for end in of(found, Op.END) if closed_ranges(end) == (K,))
    assert {effect.op for effect in shared.src[: shared.arg]} == {Op.STORE, Op.UPDATE}


def test_a_reduction_of_what_another_one_gives_comes_after_it():
    largest = total(Op.MAX, ROW, K)
    found = lowered(kernel(total(Op.ADD, load(X, R * 8 + L) - largest, L)))
    first, second = (end for end in of(found, Op.END) if R not in closed_ranges(end))
    assert closed_ranges(first) == (K,)
    assert first in second.toposort()


def test_the_second_of_two_sums_goes_on_in_the_register_of_the_first():
    one, other = total(Op.ADD, ROW, K), total(Op.ADD, load(Y, L * 8 + R), L)
    with choices_of() as choices:
        found = lowered(kernel(one + other))
    assert "continued_sums" in choices
    first, second = of(found, Op.REGISTER)
    assert first.src[0] is identity(Op.ADD, F32)
    assert behind_after(second.src[0]) is first
    assert not [n for n in of(found, Op.ADD) if n.dtype is F32]


def test_phases_share_no_loops():
    stored, grids = MORE[0], [Node.range(4, number, "grid") for number in (4, 5)]
    largest = [total(Op.MAX, load(X, g * 8 + K), K) for g in grids]

    def phase(memory: Node, grid: Node, value: Node) -> Node:
        store = Node(Op.STORE, dtypes.void, (memory, grid, value))
        return Node(Op.END, dtypes.void, (store, grid), 1)

    filled = Node(Op.AFTER, F32, (stored, phase(stored, grids[0], largest[0])))
    root = Node.sink([phase(OUT, grids[1], total(Op.ADD, load(filled, R), R) + largest[1])])
    found = lower_reduces(root)
    assert [end.arg for end in of(found, Op.END) if closed_ranges(end) == (K,)] == [1, 1]
    memory = {slot: RANDOM.integers(-9, 9, 64).astype(np.float32) for slot in range(4)}
    rows = memory[1][:32].reshape(4, 8).max(1)
    np.testing.assert_array_equal(run(linearize(found), memory)[0][:4], rows.sum() + rows)


def test_what_shares_loops_with_a_sum_that_goes_on_waits_for_its_beginning():
    one, other = total(Op.ADD, ROW, K), total(Op.ADD, load(Y, L * 8 + R), L)
    found = lowered(kernel(total(Op.MAX, load(X, R * 8 + L), L), one + other))
    first, second = (end for end in of(found, Op.END) if R not in closed_ranges(end))
    assert [closed_ranges(end) for end in (first, second)] == [(K,), (L,)]


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(lambda one, other: (one + other, one), id="one is wanted, too"),
        pytest.param(lambda one, other: (one - other,), id="it is a difference"),
        pytest.param(lambda one, other: (other + one,), id="the later one stands first"),
    ],
)
def test_sums_begin_anew(values):
    one, other = total(Op.ADD, ROW, K), total(Op.ADD, load(Y, L * 8 + R), L)
    found = lowered(kernel(*values(one, other)))
    assert {r.src[0] for r in of(found, Op.REGISTER)} == {identity(Op.ADD, F32)}


def test_sums_inside_of_different_loops_begin_anew():
    one, other = total(Op.ADD, ROW, K), total(Op.ADD, load(Y, L), L)
    found = lowered(kernel(one + other))
    assert {r.src[0] for r in of(found, Op.REGISTER)} == {identity(Op.ADD, F32)}


def test_products_that_share_a_factor_in_all_lanes_stand_together():
    def wide(node: Node) -> Node:
        return Node(Op.BROADCAST, F32.vec(4), (node,))

    factors = [wide(load(X, K)), wide(load(X, K + 8))]
    lanes = [Node(Op.LOAD, F32.vec(4), (Y, K * 4 + n * 8)) for n in range(2)]
    sums = [total(Op.ADD, factors[n % 2] * lanes[n // 2], K) for n in range(4)]
    stores = [Node(Op.STORE, dtypes.void, (OUT, Node.index(4 * n), s)) for n, s in enumerate(sums)]
    found = lower_reduces(Node.sink([Node(Op.END, dtypes.void, tuple(stores), 4)]))
    order = [update.src[1].src[0] for update in of(found, Op.END)[0].src[:4]]
    assert order == [factors[0], factors[0], factors[1], factors[1]]


def test_new_registers_are_none_of_those_that_are_there():
    register = Node(Op.REGISTER, F32, (Node.const(F32, 0),), RegisterRef(7))
    update = Node(Op.UPDATE, dtypes.void, (register, load(X, L), L), Op.ADD)
    running = Node(Op.AFTER, F32, (register, update))
    store = Node(Op.STORE, dtypes.void, (OUT, L, running * total(Op.ADD, load(Y, K), K)))
    found = lowered(Node.sink([Node(Op.END, dtypes.void, (store, L), 1)]))
    assert sorted(r.arg.number for r in of(found, Op.REGISTER)) == [7, 8]
