"""Steps in which the rows of a tile are zero: found by their gates, and left out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from treadle import Tensor
from treadle.dtype import dtypes
from treadle.ir.args import ParamRef, ReduceArg
from treadle.ir.conditions import all_of
from treadle.ir.evaluate import evaluate
from treadle.ir.loops import Split
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.views import Load, Reduce
from treadle.optimize.tile_problem import rows_with_own_steps, share_of_steps, spans_of, splits_of
from treadle.optimize.tile_reduction import TileReduction
from treadle.target import parse_target

from .references import kernel

ROW, PLACE, STEP, TAP = LOOPS = tuple(Node.range(size, n) for n, size in enumerate((40, 3, 4, 5)))
ZERO = Node.const(dtypes.float32, 0)
MEMORY = Node(Op.PARAM, dtypes.float32, (), ParamRef(0, 1 << 20))


def factor(*gates):
    index = ROW * 100 + STEP * 15 + PLACE * 5 + TAP
    return Load(MEMORY, index, all_of(gates), ZERO, dtypes.float32).node()


def reduction(*gates):
    """A sum over both steps of a product with such a factor."""
    weight = Load(MEMORY, STEP, Node.const(dtypes.bool, True), ZERO, dtypes.float32).node()
    return Reduce(factor(*gates) * weight, (STEP, TAP), ReduceArg(Op.ADD)).node()


GATES = {
    "ends": [STEP * 3 + PLACE < 8],
    "begins": [~(STEP * 3 + PLACE < 2)],
    "runs back": [~(STEP * 3 + 9 < PLACE * 4), ~(6 < STEP * -3 + PLACE * 2 + 9)],
    "both": [STEP * 3 + PLACE < 11, ~(STEP * 3 + PLACE < 2)],
    "of two": [STEP * 3 + PLACE < 10, TAP < PLACE + 2],
}


@pytest.mark.parametrize("name", GATES)
def test_the_steps_that_are_left_are_those_in_which_all_gates_hold(name):
    gates = GATES[name]
    around = rows_with_own_steps(reduction(*gates), (ROW, PLACE))
    assert around == (PLACE,)
    spans = spans_of(reduction(*gates), around)
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
    assert rows_with_own_steps(reduction(*band), (ROW, PLACE)) == ()


def test_gates_of_steps_or_of_rows_alone_say_nothing():
    assert rows_with_own_steps(reduction(STEP < 3, PLACE < 2), (ROW, PLACE)) == ()


def test_numbers_that_launches_know_say_nothing():
    size = Node.variable("size", 1, 9)
    assert rows_with_own_steps(reduction(STEP * 3 + PLACE < size), (ROW, PLACE)) == ()


WINDOWS = {
    "forward": [~(ROW + STEP < 2), ROW + STEP < 40],
    "backward": [~(ROW + 3 < STEP), ROW < STEP + 37],
    "with strides": [~(ROW * 2 + STEP * 3 < 7), ROW * 2 + STEP * 3 < 80],
    "at one end": [ROW + STEP < 41],
    "steep": [ROW < STEP * 12 + 8, ~(ROW + 12 < STEP * 12)],
}
GRID, OF_TILE = Node.range(7, 10, "grid"), Node.range(6, 11, "unroll")
TILES = {ROW: Split(GRID * 6 + OF_TILE, (GRID, OF_TILE), GRID * 6 + OF_TILE < 40)}


def steps_of_tiles(*gates):
    """For each tile the steps that it has, and those that its rows need."""
    splits = splits_of(spans_of(reduction(*gates), (ROW,)), TILES)
    assert splits.keys() <= {STEP}
    split = splits.get(STEP, Split(STEP, (STEP,)))
    (left,) = split.ranges
    for tile in range(7):
        count = int(evaluate(left.src[0], {GRID: tile}))
        found = {int(evaluate(split.expr, {GRID: tile, left: n})) for n in range(count)}
        rows = range(tile * 6, min(tile * 6 + 6, 40))
        holds = lambda row, n: all(evaluate(gate, {ROW: row, STEP: n}) for gate in gates)
        yield tile, found, {n for n in range(4) if any(holds(row, n) for row in rows)}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_tile_has_the_steps_of_all_of_its_rows(name):
    for tile, found, needed in steps_of_tiles(*WINDOWS[name]):
        assert needed <= found
        assert found == needed or (tile == 6 and found > needed)  # rows beyond the last count too


def test_ends_that_fall_and_rise_leave_no_step_out_that_a_row_needs():
    found = [
        (mine, needed) for _, mine, needed in steps_of_tiles(~(STEP < 3 - ROW), ~(STEP < ROW - 36))
    ]
    assert all(needed <= mine for mine, needed in found)
    assert found[3] == (set(range(4)), set(range(4)))


def test_rows_whose_places_in_a_tile_turn_over_leave_all_steps():
    spans = spans_of(reduction(*WINDOWS["forward"]), (ROW,))
    turned = Split((GRID * 6 + OF_TILE) % 40, (GRID, OF_TILE))
    assert splits_of(spans, {ROW: turned}) == {}


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
    assert [move.is_uniform for move in moves.of_kind(TileReduction)] == [True]
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
