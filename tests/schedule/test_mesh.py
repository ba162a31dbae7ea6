"""Graphs over a mesh of processes, as process 1 of 3 has them: what it computes, and is told."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.errors import ShapeError
from treadle.ir.args import BufferRef, Mesh, PartArg, ReduceArg, ShardArg, Token
from treadle.ir.interpret import interpret
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.verify import verify_tensor
from treadle.schedule.mesh_transfers import calls_of, with_transfers
from treadle.schedule.shard import Spread, Whole, partition, sharded, sharded_as, spread_of
from treadle.transforms.grad import gradient

F32 = dtypes.float32
MESH = Mesh("CPU", "a group", 1, 3)


def memory(*shape: int) -> Node:
    flat = Node(Op.BUFFER, F32, (), BufferRef(Token(), math.prod(shape), "CPU"))
    return Node(Op.RESHAPE, F32, (flat,), shape)


def split(axis: int, *sizes: int, other: int = 4) -> Node:
    """A matrix over the mesh, of which this process has the second piece."""
    shape = [other, other]
    shape[axis] = sizes[1]
    return Node(Op.MULTI, F32, (memory(*shape),), ShardArg(MESH, axis, sizes))


def total(node: Node, *axes: int) -> Node:
    return Node(Op.REDUCE, F32, (node,), ReduceArg(Op.ADD, axes))


def expanded(node: Node, *shape: int) -> Node:
    return Node(Op.EXPAND, F32, (node,), shape)


def told(*roots: Node) -> list[str]:
    """The kinds of calls below what this process computes of them."""
    placed = partition([*roots])
    parts = [n for root in roots for n in (placed[root].parts if isinstance(placed[root], Spread)
                                           else (placed[root].node,))]  # fmt: skip
    return [n.arg.kind for n in Node.sink(parts).toposort() if n.op is Op.COLLECTIVE]


def test_a_tensor_is_as_long_as_all_pieces_together():
    x = split(0, 3, 2, 2)
    assert x.shape == (7, 4)
    value = partition([x])[x]
    assert isinstance(value, Spread)
    assert value.bounds() == [(3, 5)]
    assert spread_of(x * 2, MESH) == ShardArg(MESH, 0, (3, 2, 2))


def test_meshes_of_other_groups_are_others():
    assert Mesh("CPU", "a group", 1, 3) == MESH
    assert MESH != Mesh("CPU", "another", 1, 3)
    assert MESH != ("CPU",)
    assert len({MESH, Mesh("CPU", "a group", 1, 3), ("CPU",)}) == 2


def test_a_part_is_cut_of_what_all_have_and_shapes_are_checked():
    arg = PartArg(ShardArg(MESH, 0, (3, 2, 2)), "CPU")
    x = memory(7, 4)
    part = Node(Op.PART, F32, (x,), arg)
    verify_tensor(part)
    values = np.arange(28, dtype=np.float32)
    found = interpret(part, lambda ref: values)
    np.testing.assert_array_equal(found, values.reshape(7, 4)[3:5])
    whole = sharded(x, MESH, 0)
    assert (whole.shape, told(whole)) == ((7, 4), [])
    with pytest.raises(ShapeError, match="no pieces of sizes"):
        Node(Op.PART, F32, (memory(6, 4),), arg)


def test_a_sum_of_the_split_axis_is_one_call_whoever_asks_for_it():
    x = split(0, 3, 2, 2)
    found = total(x, 0)
    assert told(total(x, 1)) == []
    assert told(found, found * 2) == ["all_reduce"]
    value = partition([found])[found]
    assert isinstance(value, Spread)
    assert partition([found * 3])[found * 3].parts[0].src[0] is value.parts[0]


def test_a_sum_that_is_needed_in_pieces_is_a_reduce_scatter():
    sums = total(split(0, 3, 2, 2), 0)
    piece = sharded_as(sums, ShardArg(MESH, 1, (2, 1, 1)))
    assert piece.shape == sums.shape
    assert told(piece) == ["reduce_scatter"]
    assert calls_of([piece], Node.sink([piece]).toposort()) == [piece.src[0]]
    assert len(calls_of([piece, sums], Node.sink([piece, sums]).toposort())) == 2


def test_a_change_of_the_axis_is_an_all_to_all_and_copies_are_an_all_gather():
    x = split(0, 3, 2, 2)
    assert told(sharded_as(x, ShardArg(MESH, 1, (2, 1, 1)))) == ["all_to_all"]
    assert told(sharded_as(x, ShardArg(MESH, None))) == ["all_gather"]
    assert told(sharded_as(x, ShardArg(MESH, 0, (2, 2, 3)))) == ["all_gather"]


def test_what_was_expanded_is_gathered_as_it_was():
    rows, weights = split(0, 3, 2, 2), split(0, 2, 1, 1)
    left = expanded(Node(Op.RESHAPE, F32, (rows,), (7, 1, 4)), 7, 4, 4)
    right = expanded(Node(Op.RESHAPE, F32, (weights,), (1, 4, 4)), 7, 4, 4)
    (product,) = with_transfers([left * right])
    [call] = calls_of([product], Node.sink([product]).toposort())
    assert (call.op, call.src) == (Op.PART, (weights,))
    assert told(product) == ["all_gather"]
    assert with_transfers([product]) == [product]
    assert spread_of(product, MESH).axis == 0


def test_gradients_of_what_is_gathered_are_added_up_in_pieces():
    rows, weights = split(0, 3, 2, 2), split(0, 2, 1, 1)
    right = expanded(Node(Op.RESHAPE, F32, (weights,), (1, 4, 4)), 7, 4, 4)
    left = expanded(Node(Op.RESHAPE, F32, (rows,), (7, 1, 4)), 7, 4, 4)
    (loss,) = with_transfers([total(left * right, 0, 1, 2)])
    [found] = gradient(loss, [weights], Node.const(F32, 1).cast(F32))
    assert found is not None
    assert spread_of(found, MESH) == weights.arg
    assert told(found) == ["reduce_scatter"]


def test_the_gradient_of_what_was_spread_comes_back_to_its_device():
    x = memory(7, 4)
    loss = total(sharded(x, MESH, 0) * 2.0, 0, 1)
    [found] = gradient(loss, [x], Node.const(F32, 1))
    assert found is not None
    value = partition([found])[found]
    assert isinstance(value, Whole)
    assert (value.device, value.node.shape) == ("CPU", (7, 4))


def test_the_place_of_an_extreme_is_looked_for_in_pieces_whose_winners_all_have():
    x = split(0, 3, 2, 2)
    place = Node(Op.REDUCE, dtypes.int32, (x,), ReduceArg(Op.MAX, (0,), is_place=True))
    verify_tensor(place)
    assert told(place) == ["all_gather", "all_gather"]
    value = partition([place])[place]
    assert isinstance(value, Spread)
    assert (value.arg, value.parts[0].shape) == (ShardArg(MESH, None), (1, 4))
    gathered = [n for n in value.parts[0].toposort() if n.op is Op.COLLECTIVE]
    assert all(3 * 4 >= math.prod(n.shape) for n in gathered)  # three winners of each column
