"""Copies and lanes: what becomes of loads, stores and reductions, and that they mean the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.errors import InternalError
from treadle.ir.args import ParamRef, ReduceArg, RegisterRef
from treadle.ir.loops import loop_size
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.lower.expand import expand
from treadle.lower.linearize import linearize
from treadle.lower.registers import lower_reduces

from .programs import meaning, run

F32 = dtypes.float32
RANDOM = np.random.default_rng(11)
OUT, X = (Node(Op.PARAM, F32, (), ParamRef(slot, 256)) for slot in (0, 1))
KINDS = ("loop", "unroll", "vector")


def load(place: Node, *gate: Node) -> Node:
    other = (Node.const(F32, 0),) if gate else ()
    return Node(Op.LOAD, F32, (X, place, *gate, *other))


def kernel(place: Node, value: Node, *loops: Node, gate: Node | None = None) -> Node:
    src = (OUT, place, value) if gate is None else (OUT, place, value, gate)
    store = Node(Op.STORE, dtypes.void, src)
    return Node.sink([Node(Op.END, dtypes.void, (store, *loops), 1)])


def total(op: Op, value: Node, *loops: Node) -> Node:
    return Node(Op.REDUCE, value.dtype, (value, *loops), ReduceArg(op))


def of(root: Node, *ops: Op) -> list[Node]:
    return [node for node in root.toposort() if node.op in ops]


def same(root: Node, **options: bool) -> Node:
    """`root` expanded, after a comparison of what both do with random numbers."""
    memory = {slot: RANDOM.integers(-9, 9, 256).astype(np.float32) for slot in (0, 1)}
    found = expand(root, **options)
    assert not [r for r in of(found, Op.RANGE) if r.arg.kind in ("unroll", "vector")]
    after = run(linearize(lower_reduces(found)), memory)
    np.testing.assert_array_equal(after[0], meaning(root, memory)[0])
    return found


def test_an_unrolled_loop_is_a_copy_for_each_step():
    i, u = Node.range(8, 0), Node.range(4, 1, "unroll")
    found = same(kernel(i * 4 + u, load(i * 4 + u) + 1, i, u))
    assert len(of(found, Op.STORE)) == len(of(found, Op.LOAD)) == 4


def test_what_does_not_depend_on_an_unrolled_loop_is_there_once():
    i, u = Node.range(8, 0), Node.range(4, 1, "unroll")
    found = same(kernel(i * 4 + u, load(i) * 3, i, u))
    assert len(of(found, Op.STORE)) == 4
    assert len(of(found, Op.LOAD)) == len(of(found, Op.MUL)) - 1 == 1  # one of the place i * 4


def test_lanes_side_by_side_are_one_access():
    i, v = Node.range(8, 0), Node.range(8, 1, "vector")
    found = same(kernel(i * 8 + v, load(i * 8 + v) + 1, i, v))
    (store,), (read,) = of(found, Op.STORE), of(found, Op.LOAD)
    assert read.dtype.count == store.src[2].dtype.count == 8


def test_lanes_apart_are_an_access_each():
    i, v = Node.range(4, 0), Node.range(8, 1, "vector")
    found = same(kernel(i * 8 + v, load(i * 24 + v * 3), i, v))
    assert [n.dtype.count for n in of(found, Op.LOAD)] == [1] * 8
    assert [n.src[2].dtype.count for n in of(found, Op.STORE)] == [8]
    found = same(kernel(i * 24 + v * 3, load(i * 8 + v), i, v))
    assert [n.dtype.count for n in of(found, Op.LOAD)] == [8]
    assert [n.src[2].dtype.count for n in of(found, Op.STORE)] == [1] * 8


def test_a_value_that_lanes_share_is_loaded_once():
    i, v = Node.range(8, 0), Node.range(8, 1, "vector")
    found = same(kernel(i * 8 + v, load(i) + load(v), i, v))
    assert sorted(n.dtype.count for n in of(found, Op.LOAD)) == [1, 8]


def test_lanes_that_turn_out_to_read_one_element_load_it_once():
    i, v = Node.range(4, 0), Node.range(8, 1, "vector")
    found = same(kernel(i * 8 + v, load(i + v // 8), i, v))
    assert [n.dtype.count for n in of(found, Op.LOAD)] == [1]
    assert not of(found, Op.STACK)


def test_lanes_of_two_rows_are_a_masked_load_of_each():
    i, v = Node.range(4, 0), Node.range(8, 1, "vector")
    place = i * 8 + v
    found = same(kernel(place, load(place // 9 * 11 + place % 9), i, v), has_masks=True)
    assert [(n.dtype.count, len(n.src)) for n in of(found, Op.LOAD)] == [(8, 4)] * 2


def test_a_square_block_across_is_loaded_by_rows():
    u, v = Node.range(4, 0, "unroll"), Node.range(4, 1, "vector")
    found = same(kernel(u * 4 + v, load(v * 16 + u), u, v))
    assert [n.dtype.count for n in of(found, Op.LOAD)] == [4] * 4
    assert of(found, Op.SHUFFLE)


def test_copies_between_lanes_are_stored_together():
    u, v = Node.range(2, 0, "unroll"), Node.range(8, 1, "vector")
    found = same(kernel(v * 2 + u, load(u * 8 + v), u, v))
    assert {n.src[2].dtype.count for n in of(found, Op.STORE)} == {8}
    assert len(of(found, Op.STORE)) == 2


def test_a_gate_that_a_copy_fails_leaves_it_out():
    u = Node.range(4, 0, "unroll")
    found = same(kernel(u, load(u, u < 2) + 1, u, gate=u < 3))
    assert len(of(found, Op.LOAD)) == 2
    assert [len(n.src) for n in of(found, Op.LOAD)] == [2, 2]
    stores = [n for n in of(found, Op.STORE) if len(n.src) == 3]
    assert len(stores) == 3


def test_a_gate_of_lanes_is_a_vector_and_one_of_a_loop_is_none():
    i, v = Node.range(8, 0), Node.range(8, 1, "vector")
    found = same(kernel(i * 8 + v, load(i * 8 + v, i * 8 + v < 37), i, v))
    assert [n.src[2].dtype.count for n in of(found, Op.LOAD)] == [8]
    found = same(kernel(i * 8 + v, load(i * 8 + v, i < 5), i, v))
    assert [n.src[2].dtype.count for n in of(found, Op.LOAD)] == [1]


def test_each_copy_of_a_reduction_has_an_accumulator():
    i, u, k = Node.range(4, 0), Node.range(4, 1, "unroll"), Node.range(8, 2)
    found = same(kernel(i * 4 + u, total(Op.ADD, load(i * 32 + u * 8 + k), k), i, u))
    assert len(of(found, Op.REDUCE)) == 4
    assert {n.src[1:] for n in of(found, Op.REDUCE)} == {(k,)}


@pytest.mark.parametrize("op", [Op.ADD, Op.MAX, Op.MIN])
def test_steps_of_an_unrolled_reduction_are_combined_after_its_loop(op):
    i, k, u = Node.range(4, 0), Node.range(8, 1), Node.range(4, 2, "unroll")
    found = same(kernel(i, total(op, load(i * 32 + k * 4 + u), k, u), i))
    assert len(of(found, Op.REDUCE)) == 4
    assert all(n.src[0].op is Op.LOAD for n in of(found, Op.REDUCE))


@pytest.mark.parametrize("op", [Op.ADD, Op.MAX, Op.MIN])
def test_lanes_of_a_reduction_are_combined_after_its_loop(op):
    i, k, v = Node.range(4, 0), Node.range(8, 1), Node.range(8, 2, "vector")
    found = same(kernel(i, total(op, load(i * 64 + k * 8 + v), k, v), i))
    (across,) = of(found, Op.HREDUCE)
    assert across.arg is op
    assert across.src[0].op is Op.REDUCE
    assert across.src[0].dtype.count == 8


def test_a_value_that_lanes_share_is_added_for_each_of_them():
    i, v = Node.range(4, 0), Node.range(8, 1, "vector")
    found = same(kernel(i, total(Op.ADD, load(i), v), i))
    assert of(found, Op.HREDUCE)


def running(*, outer: Node, loop: Node) -> Node:
    """Running sums of rows of 8."""
    register = Node(Op.REGISTER, F32, (Node.const(F32, 0), outer), RegisterRef(0))
    update = Node(Op.UPDATE, dtypes.void, (register, load(outer * 8 + loop), loop), Op.ADD)
    value = Node(Op.AFTER, F32, (register, update))
    return kernel(outer * 8 + loop, value, outer, loop)


def test_copies_of_a_register_are_different_ones():
    outer = Node.range(4, 0, "unroll")
    found = same(running(outer=outer, loop=Node.range(8, 1)))
    registers = of(found, Op.REGISTER)
    assert len({r.arg.number for r in registers}) == len(registers) == 4


def test_a_register_may_have_lanes():
    found = same(running(outer=Node.range(4, 0, "vector"), loop=Node.range(8, 1)))
    assert [r.dtype.count for r in of(found, Op.REGISTER)] == [4]


def test_a_total_may_run_along_lanes():
    found = same(running(outer=Node.range(4, 0), loop=Node.range(8, 1, "vector")))
    assert [n.src[2].dtype.count for n in of(found, Op.STORE)] == [8]


def test_two_vector_loops_never_meet():
    v, w = Node.range(4, 0, "vector"), Node.range(4, 1, "vector")
    with pytest.raises(InternalError, match="two vector ranges meet"):
        expand(kernel(v * 4 + w, load(v * 4 + w), v, w))


PLACES = {
    "rows": lambda i, j, k: (i * 4 + j, (i * 4 + j) * 4 + k),
    "columns": lambda i, j, k: (j * 4 + i, (k * 4 + j) * 4 + i),
    "apart": lambda i, j, k: (i * 12 + j * 3, j * 16 + i * 3 + k),
    "short rows": lambda i, j, k: (i * 4 + j, (i * 4 + j) // 3 * 5 + (i * 4 + j) % 3 + k),
}
MIXED = [kinds for kinds in itertools.product(KINDS, repeat=3) if kinds.count("vector") < 2]


@pytest.mark.parametrize("has_masks", [False, True])
@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("kinds", MIXED, ids=" ".join)
def test_loops_of_any_kind_compute_the_same(kinds, name, has_masks):
    i, j, k = (Node.range(4, number, kind) for number, kind in enumerate(kinds))
    place, source = PLACES[name](i, j, k)
    value = total(Op.ADD, load(source, source < 51) * load(k), k)
    found = same(kernel(place, value, i, j, gate=i + j < 6), has_masks=has_masks)
    loops = {r for r in of(found, Op.RANGE) if loop_size(r) == 4}
    assert loops == {r for r in (i, j, k) if r.arg.kind == "loop"}
