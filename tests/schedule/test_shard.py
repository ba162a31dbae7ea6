"""Graphs over devices: how the value of each op is spread, what is sent for it, and its meaning."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.errors import DeviceError
from treadle.ir.args import BufferRef, GatherArg, ReduceArg, ScanArg, ShardArg, SortArg, Token
from treadle.ir.interpret import interpret
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.schedule.shard import Spread, Whole, partition, sharded, spread_of, spread_over

F32, I32 = dtypes.float32, dtypes.int32
TWO, THREE = ("CPU", "CPU:1"), ("CPU", "CPU:1", "CPU:2")


def memory(*shape: int, device: str = "CPU", dtype=F32) -> Node:
    flat = Node(Op.BUFFER, dtype, (), BufferRef(Token(), math.prod(shape), device))
    return Node(Op.RESHAPE, dtype, (flat,), shape)


def data(ref: BufferRef) -> np.ndarray:
    return np.arange(ref.size) * 7 % 11  # small numbers: sums of them are exact


def values(node: Node) -> np.ndarray:
    return interpret(node, lambda ref: data(ref).astype(np.float32))


def view(op: Op, node: Node, arg: object) -> Node:
    return Node(op, node.dtype, (node,), arg)


def total(node: Node, *axes: int) -> Node:
    return view(Op.REDUCE, node, ReduceArg(Op.ADD, axes))


def copies(value: Spread | Whole) -> list[Node]:
    """The COPYs below a value, but for those that spread its operands."""
    parts = value.parts if isinstance(value, Spread) else (value.node,)
    found = {n for part in parts for n in part.toposort() if n.op is Op.COPY}
    return [n for n in found if not _spreads(n)]


def _spreads(copy: Node) -> bool:
    """Whether a COPY sends a piece of memory as it is."""
    return all(n.op in (Op.BUFFER, Op.RESHAPE, Op.SHRINK) for n in copy.src[0].toposort())


def check(node: Node) -> Spread | Whole:
    """Where the value of `node` is, which has to be what its graph says."""
    value = partition([node])[node]
    if isinstance(value, Whole):
        np.testing.assert_array_equal(values(value.node), values(node))
        return value
    expected = values(node)
    found = [values(part) for part in value.parts]
    if value.axis is None:
        for each in found:
            np.testing.assert_array_equal(each, expected)
    else:
        assert sum(value.sizes()) == node.shape[value.axis]
        np.testing.assert_array_equal(np.concatenate(found, value.axis), expected)
    return value


# op, the axis along which (8, 6) is split -> the axis of the result, whether parts are sent
RESHAPED = (2, 4, 6)
RULES = {
    "elementwise": (lambda x: x * 2, {0: 0, 1: 1, None: None}),
    "a sum of rows": (lambda x: total(x, 1), {0: 0, 1: "sent", None: None}),
    "a sum of columns": (lambda x: total(x, 0), {0: "sent", 1: 1, None: None}),
    "transposed": (lambda x: view(Op.PERMUTE, x, (1, 0)), {0: 1, 1: 0, None: None}),
    "split axes": (lambda x: view(Op.RESHAPE, x, RESHAPED), {0: 0, 1: 2, None: None}),
    "merged axes": (lambda x: view(Op.RESHAPE, x, (48,)), {0: 0, 1: "sent", None: None}),
    "padded rows": (lambda x: view(Op.PAD, x, ((1, 1), (0, 0))), {0: "sent", 1: 1, None: None}),
    "flipped rows": (lambda x: view(Op.FLIP, x, (0,)), {0: "sent", 1: 1, None: None}),
    "all rows of some columns": (
        lambda x: view(Op.SHRINK, x, ((0, 8), (1, 4))), {0: 0, 1: "sent", None: None},
    ),
    "a scan down": (lambda x: view(Op.SCAN, x, ScanArg(Op.ADD, 0)), {0: "sent", 1: 1, None: None}),
    "a scan across": (
        lambda x: view(Op.SCAN, x, ScanArg(Op.ADD, 1)), {0: 0, 1: "sent", None: None},
    ),
    "made contiguous": (lambda x: Node(Op.CONTIGUOUS, F32, (x,)), {0: 0, 1: 1, None: None}),
}  # fmt: skip
CASES = [(name, axis) for name, (_, results) in RULES.items() for axis in results]


@pytest.mark.parametrize("devices", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize(("name", "axis"), CASES)
def test_an_op_on_pieces_stays_on_them_where_it_can(name, axis, devices):
    make, results = RULES[name]
    if (name, axis, len(devices)) == ("split axes", 0, 3):  # pieces of 3, 3, 2 are no rows of 4
        results = {axis: "sent"}
    value = check(make(sharded(memory(8, 6), devices, axis)))
    assert isinstance(value, Spread)
    assert value.arg.devices == devices
    assert value.axis == (None if results[axis] == "sent" else results[axis])
    assert bool(copies(value)) == (results[axis] == "sent")


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_each_device_has_its_piece(axis):
    node = sharded(memory(8, 6), THREE, axis)
    assert node.arg == ShardArg(THREE, axis)
    assert node.shape == (8, 6)
    assert spread_of(node, THREE).axis == axis
    shapes = {None: [(8, 6)] * 3, 0: [(3, 6), (3, 6), (2, 6)], 1: [(8, 2)] * 3}
    assert [part.shape for part in node.src] == shapes[axis]
    assert [p.arg for p in node.src if p.op is Op.COPY] == list(THREE)


def test_constants_are_everywhere_and_never_sent():
    node = sharded(view(Op.EXPAND, view(Op.RESHAPE, Node.const(F32, 2), (1,)), (8,)), TWO, 0)
    assert not [n for n in node.toposort() if n.op is Op.COPY]


def test_operands_split_alike_meet_on_their_devices():
    value = check(sharded(memory(8, 6), TWO, 0) + sharded(memory(8, 6), TWO, 0))
    assert value.axis == 0
    assert copies(value) == []


def test_a_piece_of_what_is_split_otherwise_is_sent():
    one, other = sharded(memory(8, 6), TWO, 0), sharded(memory(8, 6), TWO, 1)
    assert check(one + other * 2).axis == 0
    assert check(sharded(memory(8, 6), TWO, None) + other).axis == 1


def test_what_is_on_one_device_goes_along_piece_by_piece():
    value = check(sharded(memory(8, 6), TWO, 0) + memory(8, 6) * 2)
    assert value.axis == 0
    assert [(copy.shape, copy.arg) for copy in copies(value)] == [((4, 6), "CPU:1")]


def test_rows_of_one_piece_stay_on_its_device():
    rows = view(Op.SHRINK, sharded(memory(8, 6), TWO, 0), ((5, 7), (0, 6)))
    value = check(rows)
    assert isinstance(value, Whole)
    assert value.device == "CPU:1"
    assert copies(value) == []
    assert isinstance(check(view(Op.SHRINK, rows.src[0], ((3, 6), (0, 6)))), Spread)


def test_places_that_are_split_give_results_that_are():
    source = memory(5, 6)
    where = Node(Op.IOTA, I32, (), 4)
    places = Node(Op.MULTI, I32, (where, where), ShardArg(TWO, 0))
    value = check(Node(Op.GATHER, F32, (source, places), GatherArg(0)))
    assert value.axis == 0
    square = view(Op.RESHAPE, where, (2, 2))
    places = Node(Op.MULTI, I32, (square, square), ShardArg(TWO, 1))
    assert check(Node(Op.GATHER, F32, (source, places), GatherArg(1))).axis == 2


def test_a_source_split_along_another_axis_gives_results_that_are():
    where = view(Op.RESHAPE, Node(Op.IOTA, I32, (), 4), (2, 2))
    value = check(Node(Op.GATHER, F32, (sharded(memory(5, 6), TWO, 0), where), GatherArg(1)))
    assert value.axis == 0
    split = sharded(memory(5, 6), TWO, 1)
    value = check(Node(Op.GATHER, F32, (split, where), GatherArg(0)))
    assert value.axis == 2
    assert copies(value) == []


@pytest.mark.parametrize(("axis", "result"), [(0, 0), (1, None)])
def test_lines_are_sorted_where_they_are_whole(axis, result):
    keys = view(Op.RESHAPE, Node(Op.IOTA, dtypes.uint32, (), 48), (8, 6))
    parts = sharded(keys, TWO, axis)
    value = partition([node := Node(Op.SORT, I32, (parts,), SortArg(1, 6))])[node]
    assert value.axis == result


def test_different_devices_do_not_meet():
    one, other = sharded(memory(8, 6), TWO, 0), sharded(memory(8, 6), THREE, 0)
    with pytest.raises(DeviceError, match=r"\[add\] of operands of shapes .* spread both over"):
        partition([one + other])


def test_an_op_is_where_its_first_operand_is():
    x, y = memory(4, device="CPU:1"), memory(4)
    value = check(x + y)
    assert isinstance(value, Whole)
    assert value.device == "CPU:1"
    (copy,) = (n for n in value.node.toposort() if n.op is Op.COPY)
    assert (copy.src[0], copy.arg) == (y, "CPU:1")
    assert check(Node.const(F32, 1) + 1).device is None


def test_a_whole_value_is_wanted_on_any_device():
    value = partition([node := sharded(memory(8, 6), TWO, 0)])[node]
    for device in ("CPU", "CPU:1", "CPU:5"):
        np.testing.assert_array_equal(values(value.on(device)), values(node))
    same = spread_over(value, TWO)
    assert same is value
    wide = spread_over(value, THREE)
    assert (wide.axis, wide.arg.devices) == (None, THREE)
    assert value.bounds() == [(0, 4), (4, 8)]
    assert value.node() is Node(Op.MULTI, F32, value.parts, node.arg)
