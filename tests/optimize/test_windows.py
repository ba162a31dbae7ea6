"""Images as rows of a matmul: read from one copy with borders, wherever windows overlap."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from treadle import Tensor
from treadle.compile.llvm import LLVMCompiler
from treadle.engine.run import scheduled
from treadle.ir.loops import closed_ranges
from treadle.ir.op import Op
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.optimize.nest import stride
from treadle.optimize.reduction_moves import SplitReduction
from treadle.optimize.tile_reduction import TileReduction
from treadle.render.llvm import LLVMRenderer
from treadle.target import parse_target

TARGET = parse_target("x86-64-v4")
RANDOM = np.random.default_rng(5)


def values(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def convolution(image, weight, **options):
    return image.conv2d(weight, **options)


def log_of(tensor):
    return [move for k in scheduled([(tensor.node, "CPU")]) for move in optimize(k.ast, TARGET)[1]]


def rows_of(log):
    """How each product reads its rows."""
    return [move.rows for move in log if isinstance(move, TileReduction)]


CASES = {
    "borders": ((1, 64, 7, 7), (128, 64, 3, 3), {"padding": 1}),
    "no borders": ((1, 64, 9, 8), (128, 64, 3, 3), {}),
    "one axis": ((1, 48, 6, 11), (96, 48, 1, 5), {"padding": (0, 2)}),
    "dilated": ((1, 64, 10, 9), (128, 64, 3, 3), {"dilation": 2, "padding": 2}),
    "a batch": ((3, 64, 5, 5), (160, 64, 3, 3), {"padding": 1}),
    "rows of an odd number": ((1, 50, 7, 5), (130, 50, 3, 3), {"padding": 1}),
    "many channels": ((1, 512, 5, 5), (64, 512, 3, 3), {"padding": 1}),
    "in groups": ((1, 128, 6, 6), (256, 64, 3, 3), {"padding": 1, "groups": 2}),
    "strides": ((1, 64, 14, 14), (128, 64, 3, 3), {"stride": 2, "padding": 1}),
    "strides of three": ((1, 48, 20, 15), (96, 48, 5, 4), {"stride": 3, "padding": 2}),
    "strides and a batch": ((3, 64, 9, 9), (160, 64, 3, 3), {"stride": 2, "padding": 1}),
}


@pytest.mark.parametrize("name", CASES)
def test_windows_are_read_from_one_copy_of_the_image(name):
    image_shape, weight_shape, options = CASES[name]
    image, weight = values(*image_shape), values(*weight_shape)
    x, w = (Tensor(v, device="CPU").realize() for v in (image, weight))
    found = convolution(x, w, **options)
    assert "image" in rows_of(log_of(found))
    exact = convolution(
        *(Tensor(v.astype(np.float64), device="REF") for v in (image, weight)), **options
    )
    np.testing.assert_allclose(found.numpy(), exact.numpy(), rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("name", CASES)
def test_an_image_with_its_channels_innermost_is_read_where_it_is(name):
    image_shape, weight_shape, options = CASES[name]
    image, weight = values(*image_shape), values(*weight_shape)
    x = Tensor(image.transpose(0, 2, 3, 1), device="CPU").realize().permute(0, 3, 1, 2)
    found = convolution(x, Tensor(weight, device="CPU").realize(), **options)
    assert not {"image", "packed"} & set(rows_of(log_of(found)))
    exact = convolution(
        *(Tensor(v.astype(np.float64), device="REF") for v in (image, weight)), **options
    )
    np.testing.assert_allclose(found.numpy(), exact.numpy(), rtol=1e-4, atol=2e-4)


def test_targets_that_choose_no_addresses_copy_it_all_the_same():
    x = Tensor(values(1, 14, 14, 64)).realize().permute(0, 3, 1, 2)
    w = Tensor(values(128, 64, 3, 3)).realize()
    (kernel,) = scheduled([(x.conv2d(w, padding=1).node, "CPU")])
    assert rows_of(optimize(kernel.ast, TARGET)[1]) == ["image in place"]
    other = replace(TARGET, chooses_addresses=False)
    assert rows_of(optimize(kernel.ast, other)[1]) == ["image"]


@pytest.mark.parametrize(
    ("image", "weight", "options"),
    [
        pytest.param((1, 64, 14, 14), (128, 64, 2, 2), {"stride": 2}, id="side by side"),
        pytest.param((1, 64, 7, 7), (128, 64, 1, 1), {}, id="one pixel"),
        pytest.param((8, 3, 32, 32), (64, 3, 3, 3), {"padding": 1}, id="few channels"),
    ],
)
def test_other_windows_are_packed(image, weight, options):
    x, w = Tensor(values(*image)).realize(), Tensor(values(*weight)).realize()
    log = log_of(convolution(x, w, **options))
    assert rows_of(log)
    assert not {"image", "image in place"} & set(rows_of(log))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("channels", [1, 3])
def test_few_channels_stay_outermost(batch, channels):
    """What lies innermost does not matter where single elements are read."""
    image, weight = values(batch, channels, 27, 30), values(32, channels, 7, 7)
    x, w = (Tensor(v, device="CPU").realize() for v in (image, weight))
    found = convolution(x, w, stride=2, padding=3).permute(0, 2, 3, 1).contiguous()
    assert "image" in rows_of(log_of(found))
    reference = (Tensor(v.astype(np.float64), device="REF") for v in (image, weight))
    exact = convolution(*reference, stride=2, padding=3).permute(0, 2, 3, 1)
    np.testing.assert_allclose(found.numpy(), exact.numpy(), rtol=1e-4, atol=2e-4)


GRADIENTS = {
    "borders": ((2, 20, 14, 14), (32, 20, 3, 3), {"padding": 1}),
    "no borders": ((2, 20, 15, 12), (32, 20, 3, 3), {}),
    "cut into chunks": ((3, 12, 40, 41), (64, 12, 3, 3), {"padding": 1}),
    "chunks that do not fit": ((1, 12, 49, 133), (64, 12, 3, 3), {}),
    "dilated, cut into chunks": ((3, 12, 41, 40), (64, 12, 3, 3), {"padding": 2, "dilation": 2}),
    "strides": ((2, 20, 29, 28), (32, 20, 3, 3), {"padding": 1, "stride": 2}),
    "strides, cut into chunks": ((2, 3, 90, 91), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
    "in groups": ((2, 40, 14, 14), (64, 20, 3, 3), {"padding": 1, "groups": 2}),
    "one channel": ((2, 1, 30, 31), (64, 1, 5, 5), {"padding": 2}),
    "prime sizes, cut into images": ((8, 6, 71, 73), (16, 6, 3, 3), {"padding": 1}),
}


def gradient_to_weight(image, weight, arriving, options, device="CPU"):
    x, w, g = (Tensor(v, device=device).realize() for v in (image, weight, arriving))
    return x.conv2d(w, **options).gradient(w, gradient=g)[0]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 3, 1, 0), (3, 1, 2, 0)])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_to_weights_read_the_image_where_it_is(name, order):
    """Their rows are places of a window; channels, pixels or places may be outermost."""
    image_shape, weight_shape, options = GRADIENTS[name]
    image, weight = values(*image_shape), values(*weight_shape)
    arriving = values(*Tensor(image).conv2d(Tensor(weight), **options).shape)
    found = gradient_to_weight(image, weight, arriving, options).permute(*order).contiguous()
    assert "image" in rows_of(log_of(found))
    exact = gradient_to_weight(
        *(v.astype(np.float64) for v in (image, weight, arriving)), options, "REF"
    )
    atol = 3e-5 * float(np.abs(exact.numpy()).max())
    np.testing.assert_allclose(found.numpy(), exact.permute(*order).numpy(), rtol=0, atol=atol)


def test_images_of_prime_sizes_are_not_cut_but_told_apart():
    """Rows of pixels in uneven chunks have masks, under which no window is seen any more."""
    image, weight, arriving = values(8, 24, 71, 73), values(16, 24, 3, 3), values(8, 16, 71, 73)
    log = log_of(gradient_to_weight(image, weight, arriving, {"padding": 1}))
    assert [move.chunks for move in log if isinstance(move, SplitReduction)] == [8]
    assert "image" in rows_of(log)


@pytest.mark.parametrize("batch", [1, 3])
def test_pixels_of_one_place_are_read_without_any_copy(batch):
    """One panel of outputs meets each element of the image once: to pack it would be a waste."""
    image, weight = values(batch, 70, 24, 24), values(64, 70, 1, 1)
    arriving = values(batch, 64, 24, 24)
    found = gradient_to_weight(image, weight, arriving, {})
    log = log_of(found)
    tiled = [move for move in log if isinstance(move, TileReduction)]
    assert {(move.rows, move.columns) for move in tiled} == {("in place", "each worker")}
    exact = np.einsum("boyx,bcyx->oc", arriving.astype(np.float64), image.astype(np.float64))
    atol = 3e-5 * float(np.abs(exact).max())
    np.testing.assert_allclose(found.numpy()[:, :, 0, 0], exact, rtol=0, atol=atol)


BACKWARDS = {
    "borders": ((2, 32, 14, 14), (64, 32, 5, 5), {"padding": 2}),
    "no borders": ((2, 32, 14, 13), (64, 32, 5, 5), {}),
    "much padding": ((1, 32, 9, 8), (64, 32, 3, 3), {"padding": 3}),
    "even windows": ((1, 32, 12, 11), (64, 32, 4, 2), {"padding": (1, 0)}),
    "one axis": ((1, 48, 6, 11), (96, 48, 1, 5), {"padding": (0, 2)}),
    "dilated": ((2, 32, 14, 13), (64, 32, 3, 3), {"padding": 2, "dilation": 2}),
    "in groups": ((2, 128, 14, 14), (128, 32, 3, 3), {"padding": 1, "groups": 4}),
    # Places between two strides have equally many steps here; else see test_zero_steps.py.
    "strides": ((2, 32, 29, 28), (64, 32, 4, 4), {"padding": 1, "stride": 2}),
    "cut into chunks": ((1, 32, 3, 200), (48, 32, 1, 96), {"padding": (0, 48)}),
    "chunks that do not fit": ((1, 32, 3, 200), (48, 32, 1, 97), {"padding": (0, 48)}),
    "dilated, cut into chunks": ((1, 32, 3, 300), (48, 32, 1, 96), {"dilation": (1, 2)}),
}


def gradient_to_image(image, weight, arriving, options, device="CPU"):
    x, w, g = (Tensor(v, device=device).realize() for v in (image, weight, arriving))
    return x.conv2d(w, **options).gradient(x, gradient=g)[0]


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize("name", BACKWARDS)
def test_gradients_to_images_read_what_arrives_where_it_is(name, last):
    """Their windows run backwards: the last place of the window reads the first pixel."""
    image_shape, weight_shape, options = BACKWARDS[name]
    image, weight = values(*image_shape), values(*weight_shape)
    arriving = values(*Tensor(image).conv2d(Tensor(weight), **options).shape)
    order = (0, 2, 3, 1) if last else (0, 1, 2, 3)
    found = gradient_to_image(image, weight, arriving, options).permute(*order).contiguous()
    assert "image" in rows_of(log_of(found))
    exact = gradient_to_image(
        *(v.astype(np.float64) for v in (image, weight, arriving)), options, "REF"
    )
    atol = 3e-5 * float(np.abs(exact.numpy()).max())
    np.testing.assert_allclose(found.numpy(), exact.permute(*order).numpy(), rtol=0, atol=atol)


def test_windows_with_strides_may_run_backwards():
    def product(image, weight, device):
        x, w = (Tensor(v, device=device).realize() for v in (image, weight))
        windows = x.unfold(2, 3, 2).unfold(3, 4, 2).flip((4, 5))
        return windows.permute(0, 2, 3, 1, 4, 5).reshape(-1, 64 * 12) @ w

    image, weight = values(1, 64, 28, 29), values(64 * 12, 128)
    found = product(image, weight, "CPU")
    assert "image" in rows_of(log_of(found))
    exact = product(image.astype(np.float64), weight.astype(np.float64), "REF")
    np.testing.assert_allclose(found.numpy(), exact.numpy(), rtol=1e-4, atol=2e-4)


def test_partial_sums_of_gradients_to_weights_are_stored_as_tiles_hold_them():
    image, weight, options = values(8, 64, 28, 28), values(64, 64, 3, 3), {"padding": 1}
    gradient = gradient_to_weight(image, weight, values(8, 64, 28, 28), options)
    (kernel,) = scheduled([(gradient.node, "CPU")])
    ast, _ = optimize(kernel.ast, TARGET)
    partial = next(n for n in ast.toposort() if n.op is Op.STAGE and n.src[0].op is Op.REDUCE)
    assert partial.arg.sizes == (4, 64 * 9, 64)
    stored = partial.src[4]
    assert any(stride(stored, r) == 1 for r in closed_ranges(partial) if r.arg.kind == "vector")


LOOP = re.compile(r"^(\.LBB\w+):\n((?:(?!\.LBB\w+:).*\n)*?\s+j\w+\s+\1)$", re.MULTILINE)


@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
def test_no_sum_of_a_tile_leaves_its_register(last):
    """Half of them or more are sums: a step's vectors stay, one element is spread at a time.

    Where the borders are is not asked in the loop over channels, but once for all of them.
    """
    w = Tensor(values(256, 64, 3, 3), device="CPU").realize()
    x = Tensor(values(1, 14, 14, 64) if last else values(1, 64, 14, 14), device="CPU").realize()
    x = x.permute(0, 3, 1, 2) if last else x
    result = x.conv2d(w, padding=1)
    result = result.permute(0, 2, 3, 1).contiguous() if last else result
    (kernel,) = scheduled([(result.node, "CPU")])
    ast, log = optimize(kernel.ast, TARGET)
    (tiled,) = log.of_kind(TileReduction)
    sums = math.prod(tiled.tile.each)
    assert sums >= 16
    assert tiled.rows == ("image in place" if last else "image")
    lowered = lower(ast, len(kernel.buffers), TARGET)
    renderer = LLVMRenderer(triple=TARGET.triple, vector_bits=512)
    text = renderer.render("f", lowered.phases, lowered.variables)
    bodies = [body for _, body in LOOP.findall(LLVMCompiler(TARGET).assembly(text))]
    (inner,) = (body for body in bodies if "vfmadd" in body)
    assert inner.count("vfmadd") == sums
    assert "%rsp" not in inner
    assert not re.search(r"vmov\w+\s+%zmm\d+, %zmm\d+", inner)
    assert "cmov" not in inner
