"""Which elements of a kernel are looked at: the ends of its loops, before moves and after them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.ir.args import ParamRef
from treadle.ir.interpret_kernel import KernelMeaning, digits, sampled_steps, steps_and
from treadle.ir.node import Node
from treadle.ir.op import Op


@pytest.mark.parametrize("sizes", [[5000], [300, 7, 40], [2, 100_000, 3, 3], [1, 4000]])
@pytest.mark.parametrize("seed", range(3))
def test_the_first_and_last_two_steps_of_each_loop_are_sampled(sizes: list[int], seed: int) -> None:
    found = sampled_steps(sizes, 64, seed)
    assert all(len(step) == 64 for step in found)
    for step, size in zip(found, sizes, strict=True):
        assert {0, min(1, size - 1), max(0, size - 2), size - 1} <= set(step.tolist())
        assert step.min() >= 0
        assert step.max() < size


def test_known_steps_are_among_as_many_as_are_asked_for() -> None:
    known = [np.array([17, 23]), np.array([5, 6])]
    found = steps_and(known, [100, 50], 40, 0)
    assert [step[:2].tolist() for step in found] == [[17, 23], [5, 6]]
    assert len(found[0]) == 40
    assert len(steps_and(known, [6, 5], 40, 0)[0]) == 30  # all


SIZES, TILES = (300, 130), (9, 12, 16)  # rows, columns; rows of a tile, tiles of a chunk, lanes


def _stored(places: Node, loops: list[Node], gate: Node | None = None) -> Node:
    memory = Node(Op.PARAM, dtypes.float32, (), ParamRef(0, math.prod(SIZES)))
    value = Node.const(dtypes.float32, 1.0)
    gates = () if gate is None else (gate,)
    store = Node(Op.STORE, dtypes.void, (memory, places, value, *gates))
    return Node(Op.SINK, dtypes.void, (Node(Op.END, dtypes.void, (store, *loops), 1),))


def _tiled() -> Node:
    """The kernel below in tiles, in chunks of those, in other loops inside of one another."""
    rows, tiles, lanes = TILES
    chunk, tile, row, block, lane = (
        Node.range(size, number)
        for number, size in enumerate((3, tiles, rows, -(-SIZES[1] // lanes), lanes), 5)
    )
    y, x = (chunk * tiles + tile) * rows + row, block * lanes + lane
    inside = (y < SIZES[0]) & (x < SIZES[1])
    return _stored(y * SIZES[1] + x, [chunk, tile, row, block, lane], inside)


@pytest.mark.parametrize("seed", range(5))
def test_the_ends_of_tiles_and_chunks_are_looked_at(seed: int) -> None:
    y, x = (Node.range(size, number) for number, size in enumerate(SIZES))
    plain = KernelMeaning(_stored(y * SIZES[1] + x, [y, x]), {}, {})
    wanted = KernelMeaning(_tiled(), {}, {}).places(200, seed)
    [found] = plain.stores(400, seed, wanted)
    assert len(found.places) == 400
    assert set(wanted[0].tolist()) <= set(found.places.tolist())
    row, column = digits(found.places, [*SIZES])
    rows, tiles, lanes = TILES
    for size, step in ((rows, row % rows), (tiles, row // rows % tiles), (lanes, column % lanes)):
        assert {0, 1, size - 2, size - 1} <= set(step.tolist())
    assert {0, rows * tiles - 1} <= set((row % (rows * tiles)).tolist())


def test_places_that_a_store_has_not_are_left_out() -> None:
    y, x = (Node.range(size, number) for number, size in enumerate(SIZES))
    every_second = KernelMeaning(_stored((y * SIZES[1] + x) * 2 + 10, [y, x]), {}, {})
    wanted = {0: np.array([10, 11, 12, 9, 2 * 299 * 130 + 2 * 129 + 10, 1 << 40])}
    [found] = every_second.stores(20, 0, wanted)
    assert found.places[:3].tolist() == [10, 12, 2 * 299 * 130 + 2 * 129 + 10]
    assert len(found.places) == 20
    assert found.places.max() <= wanted[0][4]
