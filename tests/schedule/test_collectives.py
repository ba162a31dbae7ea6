"""Communication as graphs: what each device gets, and how much is sent for that."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.ir.args import BufferRef, Token
from treadle.ir.builders import cut, expand, padded, reshape
from treadle.ir.interpret import interpret
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.schedule.collectives import (
    SMALL,
    all_gather,
    all_reduce,
    copy_to,
    joined,
    pieces,
    reduce_scatter,
)

I32 = dtypes.int32
DEVICES = ("CPU", "CPU:1", "CPU:2", "CPU:3")
FOLDS = {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum, Op.MIN: np.minimum}


def part(device: str, *shape: int) -> Node:
    flat = Node(Op.BUFFER, I32, (), BufferRef(Token(), math.prod(shape), device))
    return reshape(flat, shape)


def data(ref: BufferRef) -> np.ndarray:
    """Different numbers on each device."""
    return np.random.default_rng(DEVICES.index(ref.device)).integers(-3, 4, ref.size, np.int32)


def values(node: Node) -> np.ndarray:
    return interpret(node, data)


def homes(node: Node) -> dict[Node, str | None]:
    """The device of each value under `node`: operands of one op are on one device."""
    found: dict[Node, str | None] = {}
    for item in node.toposort():
        devices = {found[s] for s in item.src} - {None}
        if item.op is Op.BUFFER:
            found[item] = item.arg.device
        elif item.op is Op.COPY:
            assert devices != {item.arg}  # else it is there already
            found[item] = item.arg
        else:
            assert len(devices) <= 1, item
            found[item] = next(iter(devices), None)
    return found


def sent(nodes: list[Node]) -> int:
    """How many elements all devices send together."""
    copies = {n for node in nodes for n in node.toposort() if n.op is Op.COPY}
    return sum(math.prod(copy.shape) for copy in copies)


@pytest.mark.parametrize("size", [1, 7, 12, 100])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_pieces_follow_each_other_and_differ_by_one(size, count):
    found = pieces(size, count)
    assert len(found) == count
    assert [0, *(end for _, end in found)] == [*(begin for begin, _ in found), size]
    sizes = [end - begin for begin, end in found]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1


def test_nothing_is_done_where_nothing_changes():
    x = part("CPU", 4, 3)
    assert reshape(x, (4, 3)) is cut(x, 0, (0, 4)) is padded(x, 1, 0, 0) is x
    assert expand(x, (4, 3)) is x
    there = copy_to(x, "CPU:1")
    assert copy_to(there, "CPU:1") is there
    assert copy_to(there, "CPU").src == (there,)


def test_small_changes_are_numpys():
    x = part("CPU", 4, 3)
    found = values(x)
    np.testing.assert_array_equal(values(cut(x, 1, (1, 3))), found[:, 1:3])
    np.testing.assert_array_equal(values(padded(x, 0, 2, 1)), np.pad(found, ((2, 1), (0, 0))))
    row = cut(x, 0, (2, 3))
    np.testing.assert_array_equal(values(expand(row, (5, 3))), np.repeat(found[2:3], 5, 0))


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_of_any_sizes_are_joined_in_order(axis):
    shapes = [(n, 4) if axis == 0 else (4, n) for n in (1, 3, 2)]
    parts = [part("CPU", *shape) for shape in shapes]
    expected = np.concatenate([values(p) for p in parts], axis)
    np.testing.assert_array_equal(values(joined(parts, axis)), expected)


COUNTS = pytest.mark.parametrize("count", [2, 3, 4])
OPS = pytest.mark.parametrize("op", FOLDS, ids=lambda op: op.name)


@OPS
@COUNTS
@pytest.mark.parametrize("size", [5, SMALL, SMALL + 3], ids=["small", "large", "uneven"])
def test_every_device_gets_the_combination_of_all(size, count, op):
    devices = DEVICES[:count]
    parts = [part(device, size) for device in devices]
    expected = FOLDS[op].reduce([values(p) for p in parts])
    found = all_reduce(parts, devices, op)
    for node, device in zip(found, devices, strict=True):
        assert homes(node)[node] == device
        np.testing.assert_array_equal(values(node), expected)


@COUNTS
def test_of_large_tensors_each_device_sends_less_than_two(count):
    """2 (n - 1) / n of a tensor by each of n devices; whole ones would be n - 1."""
    devices, size = DEVICES[:count], 12 * SMALL
    parts = [part(device, size) for device in devices]
    assert sent(all_reduce(parts, devices, Op.ADD)) == 2 * (count - 1) * size
    few = [part(device, SMALL - 1) for device in devices]
    assert sent(all_reduce(few, devices, Op.ADD)) == count * (count - 1) * (SMALL - 1)


@COUNTS
@pytest.mark.parametrize("axis", [0, 1])
def test_a_piece_of_the_combination_is_sent_to_who_has_it(count, axis):
    devices = DEVICES[:count]
    parts = [part(device, 6, 7) for device in devices]
    whole = np.add.reduce([values(p) for p in parts])
    found = reduce_scatter(parts, devices, Op.ADD, axis)
    for node, device, (begin, end) in zip(
        found, devices, pieces(whole.shape[axis], count), strict=True
    ):
        assert homes(node)[node] == device
        np.testing.assert_array_equal(values(node), whole.take(range(begin, end), axis))
    assert sent(found) == (count - 1) * whole.size


@COUNTS
@pytest.mark.parametrize("axis", [0, 1])
def test_every_device_gets_all_pieces_in_order(count, axis):
    devices = DEVICES[:count]
    parts = [part(d, *((n + 1, 4) if axis == 0 else (4, n + 1))) for n, d in enumerate(devices)]
    expected = np.concatenate([values(p) for p in parts], axis)
    found = all_gather(parts, devices, axis)
    for node, device in zip(found, devices, strict=True):
        assert homes(node)[node] == device
        np.testing.assert_array_equal(values(node), expected)
    assert sent(found) == (count - 1) * expected.size
