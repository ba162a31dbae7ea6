"""Schedules for processors: what is tiled, packed, kept in cache, cut; values of awkward shapes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from treadle import Context, Tensor
from treadle.engine.run import scheduled
from treadle.ir.choices import choices_of
from treadle.ir.interval import bounds
from treadle.ir.loops import loop_size
from treadle.ir.op import Op
from treadle.ir.rules.index import linear_terms
from treadle.ir.views import Load
from treadle.lower.passes import lower
from treadle.optimize.cached_rows import CacheGatheredRow, CacheRow
from treadle.optimize.heuristic import optimize
from treadle.optimize.loop_digits import Merge
from treadle.optimize.loop_moves import Loops
from treadle.optimize.moves import Moves
from treadle.optimize.records import Loop, Reduction
from treadle.optimize.reduction_moves import SplitReduction
from treadle.optimize.tile_reduction import TileReduction
from treadle.target import parse_target

TARGET = parse_target("x86-64-v3")
RANDOM = np.random.default_rng(12)


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def filled(*shape):
    return Tensor(np.ones(shape, np.float32)).realize()


def optimized(tensor):
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    return optimize(kernel.ast, TARGET)


def kinds(ast):
    return {n.arg.kind for n in ast.toposort() if n.op is Op.RANGE}


def scopes(ast):
    return sorted({n.arg.scope for n in ast.toposort() if n.op is Op.STAGE})


def test_a_matmul_gets_a_register_tile_and_packed_operands():
    ast, log = optimized(filled(600, 300) @ filled(300, 256))
    (tiled,) = log
    assert isinstance(tiled, TileReduction)
    assert (tiled.rows, tiled.columns) == ("packed", "each worker")
    assert scopes(ast) == ["grid", "shared"]
    assert {"grid", "unroll", "vector"} <= kinds(ast)


def test_rows_that_lie_across_the_steps_are_packed_for_a_few_steps_at_a_time():
    with choices_of() as found:
        optimized(filled(256, 300).T @ filled(256, 130))
    assert "striped_packing" in found
    for x in (filled(256, 64).T, filled(600, 256)):  # its steps are near; rows lie along them
        with choices_of() as found:
            optimized(x @ filled(256, 300))
        assert "packed_rows" in found
        assert "striped_packing" not in found
    for steps, rows in ((203, 520), (9, 300), (16, 131)):
        x, y = numbers(steps, rows), numbers(steps, 130)
        wanted = x.T.astype(np.float64) @ y
        found = (Tensor(x, device="CPU").T @ Tensor(y, device="CPU")).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_few_rows_are_read_where_they_are_if_they_lie_along_the_steps():
    most = TARGET.l2 // 2 // (4 * 256)
    many, few, across = filled(most + 1, 256), filled(most, 256), filled(256, 30).T
    for x, rows in ((many, "packed"), (few, "in place"), (across, "packed")):
        (tiled,) = optimized(x @ filled(256, 320))[1].of_kind(TileReduction)
        assert tiled.rows == rows
    for rows, steps, columns in ((30, 250, 331), (2, 1000, 257), (13, 64, 640), (130, 512, 256)):
        x, y = numbers(rows, steps), numbers(steps, columns)
        found = (Tensor(x, device="CPU") @ Tensor(y, device="CPU")).numpy()
        np.testing.assert_allclose(found, x.astype(np.float64) @ y, rtol=1e-4, atol=1e-4)


def test_the_smaller_factor_is_packed_as_a_whole_where_that_spares_much_memory():
    tall, wide = filled(4096, 1024), filled(4096, 128)
    for product, is_swapped in ((tall.T @ wide, True), (wide.T @ tall, False)):
        tiled = optimized(product)[1].of_kind(TileReduction)
        assert {move.is_swapped for move in tiled} == {is_swapped}
    x, y = numbers(3000, 1024), numbers(3000, 130)
    found = (Tensor(x, device="CPU").T @ Tensor(y, device="CPU")).numpy()
    np.testing.assert_allclose(found, x.T.astype(np.float64) @ y, rtol=1e-3, atol=1e-3)


def joined(*rows):
    """Rows side by side, made as the gradient of taking them apart is."""
    total, at = 0, 0
    width = sum(row.shape[1] for row in rows)
    for row in rows:
        total = total + (row * 2).pad(((0, 0), (at, width - at - row.shape[1])))
        at += row.shape[1]
    return total


def beside(schedule, name):
    """The loops that became pieces side by side, and how many."""
    parts = [part for move in schedule.of_kind(Loops) for part in move.parts]
    unrolled = lambda part: [e.size for e in part.extents if e.kind == "unroll"]
    return [(part.loop, *unrolled(part)) for part in parts if name in part.reasons]


@pytest.mark.parametrize(
    ("widths", "pieces"), [((64, 64, 64), 3), ((128, 64), 3), ((40, 56), None), ((16,) * 9, None)]
)
def test_rows_of_pieces_are_computed_piece_beside_piece(widths, pieces):
    log = optimized(joined(*(filled(6, width) for width in widths)))[1]
    assert beside(log, "split_concat") == ([(1, pieces)] if pieces else [])
    rows = [numbers(6, width) for width in widths]
    result = joined(*(Tensor(row, device="CPU") for row in rows)).numpy()
    np.testing.assert_array_equal(result, np.concatenate(rows, 1) * 2)


def test_padding_divides_a_loop_as_parts_do():
    program = lambda x: x.pad(((0, 0), (64, 128))) * 2
    assert [n for _, n in beside(optimized(program(filled(6, 64)))[1], "split_concat")] == [4]
    x = numbers(6, 64)
    found = program(Tensor(x, device="CPU")).numpy()
    np.testing.assert_array_equal(found, np.pad(x * 2, ((0, 0), (64, 128))))


def test_pieces_of_one_vector_have_no_loop_over_vectors():
    ast, log = optimized(joined(filled(6, 8), filled(6, 8)))
    assert beside(log, "split_concat") == [(1, 2)]
    assert all(loop_size(n) > 1 for n in ast.toposort() if n.op is Op.RANGE)
    rows = numbers(6, 8), numbers(6, 8)
    result = joined(*(Tensor(row, device="CPU") for row in rows)).numpy()
    np.testing.assert_array_equal(result, np.concatenate(rows, 1) * 2)


@pytest.mark.parametrize(
    ("heights", "pieces"), [((64, 64), 2), ((128, 64), 3), ((40, 9), None), ((16,) * 9, None)]
)
def test_rows_that_follow_others_are_computed_beside_them(heights, pieces):
    """A step of the grid copies a row of each piece, without a mask."""
    ast, log = optimized(Tensor.cat(*(filled(height, 96) for height in heights), dim=0))
    assert beside(log, "split_concat_rows") == ([(0, pieces)] if pieces else [])
    (phase,) = lower(ast, len(heights) + 1, TARGET).phases
    loads = [n for n in phase.program.src if n.op is Op.LOAD]
    assert all(len(load.src) == 2 for load in loads) == bool(pieces)
    rows = [numbers(height, 96) for height in heights]
    result = Tensor.cat(*(Tensor(row, device="CPU") for row in rows), dim=0).numpy()
    np.testing.assert_array_equal(result, np.concatenate(rows))


def test_small_products_are_left_alone():
    _, log = optimized(filled(4, 4) @ filled(4, 4))
    assert not log.of_kind(TileReduction)


def test_long_reductions_are_cut_into_chunks_and_short_ones_are_not():
    ast, log = optimized(filled(1_000_000).sum())
    assert scopes(ast) == ["grid"]
    (cut,) = log.of_kind(SplitReduction)
    assert cut.chunks == 61
    assert not optimized(filled(1000).sum())[1].of_kind(SplitReduction)


@pytest.mark.parametrize("size", [1_648_519, 999_983])
@pytest.mark.parametrize("name", ["sum", "max", "var", "argmax"])
def test_long_reductions_of_any_length_have_no_mask_in_each_step(size, name):
    """What is behind the last whole block is a reduction of its own, of less than a block."""
    ast, _ = optimized(filled(size).max())
    loads = [Load.of(n) for n in ast.toposort() if n.op is Op.LOAD]
    first = {load: bounds(load.index)[0] for load in loads}
    assert min(first.values()) == 0
    assert all(first[load] > 0.9 * size for load in loads if load.is_gated)
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)  # no sum near 0
    exact = getattr(x.astype(np.float64), name)()
    found = getattr(Tensor(x, device="CPU"), name)(**{"correction": 0} if name == "var" else {})
    np.testing.assert_allclose(found.item(), exact, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("padding", [0, 3])
def test_the_columns_of_large_windows_stand_side_by_side(padding):
    """Their masks are those of all rows of a window, and results do not wait for each other."""
    image, weight = numbers(2, 8, 30, 40), numbers(8, 1, 7, 7)
    x, w = (Tensor(a, device="CPU").realize() for a in (image, weight))
    result = x.conv2d(w, groups=8, padding=padding)
    _, log = optimized(result)
    assert beside(log, "unrolled_reduction")
    wide = np.pad(image.astype(np.float64), ((0, 0), (0, 0), *[(padding, padding)] * 2))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (7, 7), (2, 3))
    exact = (windows * weight.reshape(8, 1, 1, 7, 7)).sum((-2, -1))
    np.testing.assert_allclose(result.numpy(), exact, rtol=0, atol=3e-5)


@pytest.mark.parametrize("rows", [3, 17])
def test_a_few_long_rows_are_cut_while_their_sum_is_not(rows):
    x, labels = numbers(rows, 33_544), np.arange(rows) * 1000
    found = Tensor(x, device="CPU").sparse_categorical_crossentropy(Tensor(labels, device="CPU"))
    wide = x.astype(np.float64)
    exact = np.log(np.exp(wide).sum(1)) - wide[np.arange(rows), labels]
    np.testing.assert_allclose(found.item(), exact.mean(), rtol=1e-6)


@pytest.mark.parametrize("columns", [16, 64, 200])
def test_columns_that_one_worker_would_sum_alone_are_cut_into_chunks_of_rows(columns):
    assert scopes(optimized(filled(20_000, columns).sum(0))[0]) == ["grid"]
    assert not scopes(optimized(filled(100, columns).sum(0))[0])


@pytest.mark.parametrize("columns", [3, 64])
def test_statistics_of_few_columns_that_build_on_each_other(columns):
    x = numbers(100_000, columns)
    both = Tensor(x).var_mean(0)
    Tensor.realize(*both)
    exact = x.astype(np.float64)
    for mine, own in zip(both, (exact.var(0, ddof=1), exact.mean(0)), strict=True):
        np.testing.assert_allclose(mine.numpy(), own, rtol=2e-6, atol=1e-7)


def test_exponentials_that_are_needed_twice_are_kept_in_cache():
    ast, log = optimized(filled(64, 128).softmax())
    assert CacheRow(Reduction((Loop(2),)), Loop(1), 0, first=Loop(4)) in log
    assert scopes(ast) == ["shared"]
    for tensor in (filled(64, 63).softmax(), filled(64, 80_000).softmax()):
        assert not optimized(tensor)[1].of_kind(CacheRow)


def test_whatever_is_costly_and_needed_twice_is_kept_in_cache():
    program = lambda x: x.tanh() - x.tanh().max(1, keepdim=True)
    ast, log = optimized(program(filled(64, 128)))
    assert log.of_kind(CacheRow)
    assert scopes(ast) == ["shared"]
    x = numbers(64, 128)
    exact = np.tanh(x.astype(np.float64))
    found = program(Tensor(x, device="CPU")).numpy()
    np.testing.assert_allclose(found, exact - exact.max(1, keepdims=True), atol=1e-6)


def test_neighbouring_loops_merge_where_memory_allows():
    assert optimized(filled(8, 9) + filled(8, 9))[1][0] == Merge(Loop(0), Loop(1), first=Loop(2))
    assert not optimized(filled(8, 9).T + 1)[1].of_kind(Merge)


@pytest.mark.parametrize(
    ("size", "inner", "guarded"), [(12, 4, False), (13, 4, True), (3, 4, True)]
)
def test_tiles_are_guarded_where_they_do_not_divide_the_loop(size, inner, guarded):
    (kernel,) = scheduled([((filled(5) + 1).node, "CPU")])
    moves = Moves(kernel.ast, TARGET)
    split = moves.tiled(size, (inner, "vector"))
    covered = loop_size(*split.ranges)
    assert covered == -(-size // inner) * inner
    assert (split.guard.op is not Op.CONST) == guarded


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1, 1), (3, 64, 65), (63, 65, 64), (65, 63, 1), (250, 251, 249)]
)
def test_matmuls_of_awkward_sizes(m, k, n):
    a, b = numbers(m, k), numbers(k, n)
    for x, y in ((Tensor(a), Tensor(b)), (Tensor(a.T.copy()).T, Tensor(b.T.copy()).T)):
        np.testing.assert_allclose((x @ y).numpy(), a @ b, rtol=1e-4, atol=1e-4)


def test_a_long_reduction_inside_a_matmul():
    a, b = numbers(9, 40_000), numbers(40_000, 17)
    found = (Tensor(a) @ Tensor(b)).numpy()
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=1e-3, atol=2e-2)


@pytest.mark.parametrize("size", [7, 56, 64])
def test_the_lanes_of_convolutions_are_channels(size):
    image = filled(1, 64, size, size).conv2d(filled(128, 64, 3, 3), padding=1)
    (kernel,) = scheduled([(image.node, image.device)])
    _, log = optimize(kernel.ast, parse_target("x86-64-v4"))
    assert [move.is_swapped for move in log.of_kind(TileReduction)] == [True]


@pytest.mark.parametrize(("channels", "size", "window"), [(12, 66, 7), (16, 102, 3), (24, 40, 5)])
def test_gradients_to_weights_read_the_image_where_packing_goes_pixel_by_pixel(
    channels, size, window
):
    """Places in a window are too short for vectors, and those at the borders have masks."""
    around, weight = window // 2, filled(channels, 24, window, window)
    x, slope = numbers(2, 24, size, size), numbers(2, channels, size, size)
    image, arrived = (Tensor(t, device="CPU").realize() for t in (x, slope))
    gradient = image.conv2d(weight, padding=around).gradient(weight, gradient=arrived)[0]
    (kernel,) = scheduled([(gradient.node, gradient.device)])
    _, log = optimize(kernel.ast, parse_target("x86-64-v4"))
    assert {move.rows for move in log.of_kind(TileReduction)} == {"image"}
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (around, around), (around, around)])
    found = gradient.numpy()
    for i, j in itertools.product(range(window), repeat=2):
        part = padded[:, :, i : i + size, j : j + size]
        wanted = np.tensordot(slope.astype(np.float64), part, axes=((0, 2, 3), (0, 2, 3)))
        np.testing.assert_allclose(found[:, :, i, j], wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("channels", "size", "window"), [(32, 16, 7), (96, 19, 5), (40, 23, 3)])
def test_depthwise_gradients_to_weights_have_lanes_of_channels_that_lie_last(
    channels, size, window
):
    """What is read in each step lies side by side; results lie apart, and are stored once."""
    x, slope = numbers(4, size, size, channels), numbers(4, size, size, channels)
    weight = Tensor.zeros(channels, 1, window, window, device="CPU")

    def gradient(x, slope):
        image, arrived = (t.permute(0, 3, 1, 2) for t in (x, slope))
        result = image.conv2d(weight, groups=channels, padding=window // 2)
        return result.gradient(weight, gradient=arrived)[0]

    given = [Tensor(t, device="CPU").realize() for t in (x, slope)]
    with choices_of() as found:
        optimized(gradient(*given))
    assert "lane_results" in found
    around = window // 2
    padded = np.pad(x.astype(np.float64), [(0, 0), (around, around), (around, around), (0, 0)])
    wanted = [
        [(padded[:, i : i + size, j : j + size] * slope).sum((0, 1, 2)) for j in range(window)]
        for i in range(window)
    ]
    found = gradient(*given).numpy()[:, 0].transpose(1, 2, 0)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("channels", "size", "window"), [(32, 16, 7), (96, 19, 5), (40, 8, 7)])
def test_depthwise_gradients_of_channels_that_lie_last_have_lanes_of_them(channels, size, window):
    """Results go to images whose channels lie first, and are added to such."""
    slope, before = numbers(4, size, size, channels), numbers(4, channels, size, size)
    weight = numbers(channels, 1, window, window)
    around = window // 2
    given = [Tensor(t, device="CPU").realize() for t in (slope, weight, before)]

    def gradient(slope, weight, before):
        image = Tensor.zeros(4, channels, size, size, device="CPU")
        result = image.conv2d(weight, groups=channels, padding=around)
        arrived = slope.permute(0, 3, 1, 2)
        return before + result.gradient(image, gradient=arrived)[0]

    with choices_of() as found:
        optimized(gradient(*given))
    assert "lane_results" in found
    padded = np.pad(slope.astype(np.float64), [(0, 0), (around, around), (around, around), (0, 0)])
    wanted = before.astype(np.float64)
    for i, j in itertools.product(range(window), repeat=2):
        part = padded[:, window - 1 - i :][:, :size, window - 1 - j :][:, :, :size]
        wanted += (part * weight[:, 0, i, j]).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(gradient(*given).numpy(), wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_of_small_images(stride):
    x, w = numbers(2, 40, 7, 7), numbers(70, 40, 3, 3)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    expected = np.einsum("bcyxij,ocij->boyx", windows[:, :, ::stride, ::stride], w)
    result = Tensor(x).conv2d(Tensor(w), stride=stride, padding=1).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(1,), (63,), (65, 3), (3, 5000), (70_000,), (35_000, 3)])
def test_reductions_over_every_axis(shape):
    data = RANDOM.integers(-9, 9, shape).astype(np.int32)
    x = Tensor(data).realize()
    for axis in (None, *range(len(shape))):
        np.testing.assert_array_equal(x.sum(axis=axis).numpy(), data.sum(axis=axis))
        np.testing.assert_array_equal(x.argmin(axis=axis).numpy(), data.argmin(axis=axis))


@pytest.mark.parametrize("size", [1, 63, 64, 65, 5000])
def test_rows_of_statistics(size):
    data = numbers(5, size)
    power = np.exp(data - data.max(1, keepdims=True))
    np.testing.assert_allclose(
        Tensor(data).softmax().numpy(), power / power.sum(1, keepdims=True), rtol=1e-4, atol=1e-6
    )


def _scatter_add(axis, shape):
    places = Tensor(np.zeros(shape, np.int32)).realize()
    return filled(64, 64).scatter_reduce(axis, places, filled(*shape), "sum")


def test_scatters_along_an_axis_share_lines_or_strips_of_them_among_workers():
    _, rows = optimized(_scatter_add(1, (64, 16)))
    (part,) = rows[-1].parts
    assert [(e.kind, e.size) for e in part.extents] == [("grid", 64)]
    _, columns = optimized(_scatter_add(0, (16, 64)))
    (strips,) = [part for move in columns.of_kind(Loops) for part in move.parts
                 if "scatter_strips" in part.reasons]  # fmt: skip
    assert [(e.kind, e.size) for e in strips.extents] == [("grid", 8), ("loop", 8)]


def test_a_scatter_of_whole_rows_takes_its_places_in_order():
    index = Tensor(np.zeros(8, np.int32)).realize()
    table = filled(64, 64)
    gradient = table[index].gradient(table, gradient=filled(8, 64))[0]
    ast, _ = optimized(gradient)
    scatter = ast.src[-1]
    places = scatter.src[-1]
    assert (places.arg.kind, loop_size(places)) == ("loop", 8)


def test_a_pass_of_a_sort_moves_each_line_in_order_and_lines_in_parallel():
    kernels = scheduled([(filled(16, 1000).argsort().node, "CPU")])
    moved = [k for k in kernels if any(n.op is Op.TICKET for n in k.ast.toposort())]
    assert len(moved) == 4
    ast, _ = optimize(moved[1].ast, TARGET)
    (lines, steps) = ast.src[0].src[1:]
    assert (lines.arg.kind, loop_size(lines)) == ("grid", 16)
    assert (steps.arg.kind, loop_size(steps)) == ("loop", 1000)


def test_top_k_never_sorts_all_of_a_line():
    kernels = scheduled([(filled(4, 4096).topk(8)[1].node, "CPU")])
    assert not any(n.op is Op.TICKET for k in kernels for n in k.ast.toposort())


def test_rows_that_are_gathered_from_are_kept_if_much_of_them_is_read():
    x, places = numbers(40, 500), RANDOM.integers(-3, 510, (40, 133)).astype(np.int32)
    gathered = Tensor(x).realize().gather(1, Tensor(places).realize())
    assert optimized(gathered)[1].of_kind(CacheGatheredRow)
    inside = (places >= 0) & (places < 500)
    expected = np.where(inside, np.take_along_axis(x, np.clip(places, 0, 499), 1), 0)
    with Context(CHECK_INDEX=0):  # what is out of range reads 0
        np.testing.assert_array_equal(gathered.numpy(), expected)
    few = Tensor(x).realize().gather(1, Tensor(places[:, :9]).realize())
    assert not optimized(few)[1].of_kind(CacheGatheredRow)


def test_rows_that_are_padding_are_not_read():
    x = numbers(40, 500)
    places = RANDOM.integers(0, 500, (44, 133)).astype(np.int32)
    padded = Tensor(x).realize().pad(((2, 2), (0, 0)))
    gathered = padded.gather(1, Tensor(places).realize())
    assert not optimized(gathered)[1].of_kind(CacheGatheredRow)
    expected = np.take_along_axis(np.pad(x, ((2, 2), (0, 0))), places, 1)
    np.testing.assert_array_equal(gathered.numpy(), expected)


def test_a_sum_over_several_loops_packs_what_is_contiguous():
    """The larger factor decides which of the loops is innermost: turned around, it is packed."""
    image, weights = numbers(64, 4, 4, 32), numbers(10, 32, 4, 4)
    x, w = (Tensor(v, device="CPU").realize() for v in (image, weights))
    found = x.permute(0, 3, 1, 2).reshape(64, 512) @ w.reshape(10, 512).T
    ast, _ = optimized(found)
    assert _is_loaded_in_rows(ast, 64 * 512)
    exact = np.einsum("bhwc,ochw->bo", image.astype(np.float64), weights)
    np.testing.assert_allclose(found.numpy(), exact, rtol=1e-4, atol=1e-4)


def _is_loaded_in_rows(ast, size):
    """Whether memory of `size` elements is packed with the loop innermost in which it lies."""
    (load,) = (n for n in ast.toposort() if n.op is Op.LOAD and n.src[0].arg.size == size)
    steps, _ = linear_terms(load.src[1])
    return any(r.arg.kind in ("vector", "unroll") and step == 1 for r, step in steps.items())


@pytest.mark.parametrize("step", [-4, -3, -1, 2, 3, 4])
@pytest.mark.parametrize("word", ["sum", "max", "softmax"])
def test_reductions_of_lanes_a_few_elements_apart_have_lanes(step, word):
    x = numbers(30, 1201)
    result = getattr(Tensor(x, device="CPU")[:, ::step], word)(1)
    with choices_of() as found:
        lower(optimized(result)[0], 2, TARGET)
    assert {"lane_reduction", "strided_lanes"} <= {*found}
    y = x[:, ::step].astype(np.float64)
    shifted = np.exp(y - y.max(1, keepdims=True))
    expected = {
        "sum": y.sum(1),
        "max": y.max(1),
        "softmax": shifted / shifted.sum(1, keepdims=True),
    }
    np.testing.assert_allclose(result.numpy(), expected[word], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("width", [2, 3])
def test_rows_of_a_few_elements_have_lanes_of_rows(width):
    x, column = numbers(4001, width), numbers(4001, 1)
    result = Tensor(x, device="CPU") * Tensor(column, device="CPU")
    with choices_of() as found:
        optimized(result)
    assert "lane_results" in found
    np.testing.assert_array_equal(result.numpy(), x * column)
