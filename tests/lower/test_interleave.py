"""Values that lie side by side in memory are vectors of their own that are woven together."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.engine.run import scheduled
from treadle.ir.evaluate import evaluate
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.lower.block_stores import interleaved
from treadle.lower.expand import expand
from treadle.optimize.heuristic import optimize
from treadle.target import parse_target

TARGET = parse_target("x86-64-v4")
RANDOM = np.random.default_rng(5)


def stacked(vectors, dtype):
    lanes = (tuple(Node.const(dtype, number) for number in vector) for vector in vectors)
    return [Node(Op.STACK, dtype.vec(len(row)), row) for row in lanes]


@pytest.mark.parametrize("width", [0, 32, 64])
@pytest.mark.parametrize("count", range(1, 13))
@pytest.mark.parametrize("lanes", [2, 8, 16])
def test_narrow_vectors_are_woven_as_ones_of_the_whole_width(lanes, count, width):
    given = np.arange(count * lanes, dtype=np.uint8).reshape(count, lanes)
    pieces = interleaved(stacked(given.tolist(), dtypes.uint8), width)
    assert all(lanes <= piece.dtype.count <= max(lanes, width) for piece in pieces)
    if width == 64 and lanes == 16:
        assert len(pieces) == count // math.gcd(count, 4)
    found = np.concatenate([evaluate(piece, {}) for piece in pieces])
    np.testing.assert_array_equal(found, given.T.reshape(-1))


@pytest.mark.parametrize("lanes", [2, 4, 16])
@pytest.mark.parametrize("count", range(1, 9))
def test_first_lanes_come_first_then_the_second_ones(count, lanes):
    given = np.arange(count * lanes, dtype=np.float32).reshape(count, lanes)
    pieces = interleaved(stacked(given.tolist(), dtypes.float32))
    assert len(pieces) == count
    found = np.concatenate([evaluate(piece, {}) for piece in pieces])
    np.testing.assert_array_equal(found, given.T.reshape(-1))


def test_the_bits_of_halves_are_moved():
    wide = stacked([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], dtypes.float32)
    pieces = interleaved([vector.cast(dtypes.float16.vec(2)) for vector in wide])
    shuffles = [n for piece in pieces for n in piece.toposort() if n.op is Op.SHUFFLE]
    assert {n.dtype.scalar for n in shuffles} == {dtypes.uint16}
    assert np.concatenate([evaluate(piece, {}) for piece in pieces]).tolist() == [1, 3, 5, 2, 4, 6]


def images(*shape, count=3, dtype=np.float32):
    return [(100 * RANDOM.standard_normal(shape)).astype(dtype) for _ in range(count)]


def scheduled_kernel(tensor):
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    return optimize(kernel.ast, TARGET)


@pytest.mark.parametrize("count", [2, 3, 4, 6, 8])
def test_channels_that_are_stacked_are_stored_as_whole_vectors(count):
    channels = [Tensor(x, device="CPU") for x in images(4, 64, count=count)]
    ast, log = scheduled_kernel(Tensor.stack(*channels, dim=-1) * 2)
    assert "interleaved_results" in log[-1].choices
    sizes = {e.kind: e.size for part in log[-1].parts for e in part.extents}
    assert (sizes["unroll"], sizes["vector"]) == (count, 16)
    stores = [n for n in expand(ast, True).toposort() if n.op is Op.STORE]
    assert [n.src[2].dtype.count for n in stores] == [16] * count
    assert all(len(n.src) == 3 for n in stores)  # no masks


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8, np.int64, np.float64])
@pytest.mark.parametrize("width", [16, 37, 200])
@pytest.mark.parametrize("count", [2, 3])
def test_stacked_channels_hold_what_numpys_hold(count, width, dtype):
    given = images(3, width, count=count, dtype=dtype)
    made = Tensor.stack(*(Tensor(x, device="CPU") for x in given), dim=-1) + 1
    np.testing.assert_array_equal(made.numpy(), np.stack(given, -1) + dtype(1))


def test_rows_that_share_what_they_read_are_computed_at_once():
    rows, shared = (Tensor(x, device="CPU") for x in (images(8, 2, 64)[0], images(8, 1, 64)[0]))
    made = Tensor.stack(rows + shared, rows - shared, rows * shared, dim=-1)
    ast, _ = scheduled_kernel(made)
    loads = [n for n in expand(ast, True).toposort() if n.op is Op.LOAD]
    assert len(loads) == 3
    x, y = rows.numpy(), shared.numpy()
    np.testing.assert_array_equal(made.numpy(), np.stack([x + y, x - y, x * y], -1))


def test_what_all_channels_share_is_computed_once():
    x = RANDOM.standard_normal((5, 48)).astype(np.float32)
    t = Tensor(x, device="CPU")
    made = Tensor.stack(t.exp(), t.exp() + 1, -t.exp(), dim=-1)
    expected = np.stack([np.exp(x), np.exp(x) + 1, -np.exp(x)], -1)
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-6)


def test_an_image_with_a_factor_for_each_pixel_is_left_alone():
    image, factor = Tensor(images(8, 64, 3, count=1)[0]), Tensor(images(8, 64, count=1)[0])
    _, log = scheduled_kernel(image * factor.unsqueeze(-1))
    assert "interleaved_results" not in log.choices()
