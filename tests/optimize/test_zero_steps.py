"""Steps in which the rows of a tile are zero: found by their gates, and left out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from treadle import Tensor
from treadle.dtype import dtypes
from treadle.ir.args import ParamRef
from treadle.ir.conditions import all_of
from treadle.ir.evaluate import evaluate
from treadle.ir.loops import Split
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.views import Load
from treadle.optimize.matmul import TileMatmul
from treadle.optimize.zero_steps import rows_with_own_steps, share_of_steps, spans_of, splits_of
from treadle.target import parse_target

from .references import kernel

ROW, PLACE, STEP, TAP = LOOPS = tuple(Node.range(size, n) for n, size in enumerate((40, 3, 4, 5)))
MEMORY = Node(Op.PARAM, dtypes.float32, (), ParamRef(0, 1 << 20))


def factor(*gates):
    index = ROW * 100 + STEP * 15 + PLACE * 5 + TAP
    zero = Node.const(dtypes.float32, 0)
    return Load(MEMORY, index, all_of(gates), zero, dtypes.float32).node()


GATES = {
    "ends": [STEP * 3 + PLACE < 8],
    "begins": [~(STEP * 3 + PLACE < 2)],
    "runs back": [~(STEP * 3 + 9 < PLACE * 4), ~(6 < STEP * -3 + PLACE * 2 + 9)],
    "both": [STEP * 3 + PLACE < 11, ~(STEP * 3 + PLACE < 2)],
    "of two": [STEP * 3 + PLACE < 10, TAP < PLACE + 2],
}


@pytest.mark.parametrize("name", GATES)
def test_the_steps_that_are_left_are_those_in_which_all_gates_hold(name):
    gates, steps = GATES[name], (STEP, TAP)
    around = rows_with_own_steps(factor(*gates), (ROW, PLACE), steps)
    assert around == (PLACE,)
    spans = spans_of(factor(*gates), around, steps)
    total = 0
    for place in range(3):
        at = {PLACE: place}
        limits = {s: [int(evaluate(e, at)) for e in (p.begin, p.end)] for s, p in spans.items()}
        for step, tap in itertools.product(range(4), range(5)):
            holds = all(evaluate(gate, {**at, STEP: step, TAP: tap}) for gate in gates)
            found = {STEP: step, TAP: tap}
            inside = all(low <= found[s] < high for s, (low, high) in limits.items())
            assert holds == inside
            total += holds
    assert share_of_steps(spans) == pytest.approx(total / 60)


def test_rows_that_are_many_have_no_tiles_of_their_own():
    band = [STEP * 20 + PLACE < ROW]
    assert rows_with_own_steps(factor(*band), (ROW, PLACE), (STEP, TAP)) == ()


def test_gates_of_steps_or_of_rows_alone_say_nothing():
    assert rows_with_own_steps(factor(STEP < 3, PLACE < 2), (ROW, PLACE), (STEP, TAP)) == ()


def test_numbers_that_launches_know_say_nothing():
    size = Node.variable("size", 1, 9)
    assert rows_with_own_steps(factor(STEP * 3 + PLACE < size), (ROW, PLACE), (STEP, TAP)) == ()


WINDOWS = {
    "forward": [~(ROW + STEP < 2), ROW + STEP < 40],
    "backward": [~(ROW + 3 < STEP), ROW < STEP + 37],
    "with strides": [~(ROW * 2 + STEP * 3 < 7), ROW * 2 + STEP * 3 < 80],
    "at one end": [ROW + STEP < 41],
}
GRID, OF_TILE = Node.range(7, 10, "grid"), Node.range(6, 11, "unroll")
TILES = {ROW: Split(GRID * 6 + OF_TILE, (GRID, OF_TILE), GRID * 6 + OF_TILE < 40)}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_tile_has_the_steps_of_all_of_its_rows(name):
    gates = WINDOWS[name]
    spans = spans_of(factor(*gates), (ROW,), (STEP, TAP))
    ((step, split),) = splits_of(spans, TILES, ROW).items()
    assert step is STEP
    (left,) = split.ranges
    for tile in range(7):
        count = int(evaluate(left.src[0], {GRID: tile}))
        found = {int(evaluate(split.expr, {GRID: tile, left: n})) for n in range(count)}
        rows = range(tile * 6, min(tile * 6 + 6, 40))
        holds = lambda row, n: all(evaluate(gate, {ROW: row, STEP: n}) for gate in gates)
        needed = {n for n in range(4) if any(holds(row, n) for row in rows)}
        assert needed <= found
        assert found == needed or (tile == 6 and found > needed)  # rows beyond the last count too


def test_all_steps_are_taken_where_ends_fall_and_rise_or_lie_along_other_rows():
    valley = spans_of(factor(~(STEP < 3 - ROW), ~(STEP < ROW - 36)), (ROW,), (STEP, TAP))
    assert valley.keys() == {STEP}
    assert splits_of(valley, TILES, ROW) == {}
    across = spans_of(factor(*WINDOWS["forward"]), (ROW,), (STEP, TAP))
    assert splits_of(across, TILES, PLACE) == {}


@pytest.mark.parametrize(
    ("channels", "out", "size", "window", "stride", "groups"),
    [(64, 48, 31, 3, 2, 1), (80, 32, 38, 3, 2, 2), (24, 64, 45, 5, 2, 1), (32, 40, 40, 5, 3, 1),
     (64, 32, 33, 7, 2, 1), (32, 32, 30, 7, 3, 1)],
)  # fmt: skip
@pytest.mark.parametrize("scale", [None, 0.5])
def test_gradients_to_images_multiply_no_zeros(channels, out, size, window, stride, groups, scale):
    rng = np.random.default_rng(0)
    x = Tensor.zeros(2, channels, size, size, device="CPU").contiguous().realize()
    w = rng.standard_normal((out, channels // groups, window, window)).astype(np.float32)
    weight = Tensor(w, device="CPU")
    how = {"stride": stride, "padding": window // 2, "groups": groups}
    y = x.conv2d(weight if scale is None else weight * scale, **how)
    g = rng.standard_normal(y.shape).astype(np.float32)
    found = y.gradient(x, gradient=Tensor(g, device="CPU"))[0]
    _, _, moves = kernel(found, parse_target("x86-64-v4"))
    assert [move.is_uniform for move in moves.of_kind(TileMatmul)] == [True]
    np.testing.assert_allclose(
        found.numpy(), image_gradient(x.shape, w * (scale or 1), g, **how), rtol=1e-4, atol=1e-4
    )


def image_gradient(shape, weight, arriving, stride, padding, groups):
    """What each place of a window adds to the image, in float64."""
    batch, channels, high, wide = shape
    image = np.zeros((batch, channels, high + 2 * padding, wide + 2 * padding))
    rows, columns = arriving.shape[2:]
    inner, outer = channels // groups, weight.shape[0] // groups
    for group, i, j in itertools.product(range(groups), *map(range, weight.shape[2:])):
        kept = slice(group * inner, (group + 1) * inner)
        some = slice(group * outer, (group + 1) * outer)
        part = np.einsum("nohw,oc->nchw", arriving[:, some].astype(float), weight[some, :, i, j])
        place = (slice(i, i + rows * stride, stride), slice(j, j + columns * stride, stride))
        image[:, kept, place[0], place[1]] += part
    return image[:, :, padding : padding + high, padding : padding + wide]
