"""Convolutions whose pixels lie innermost: turned results, and steps that meet no pixel."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Device, Tensor
from treadle.engine.run import scheduled
from treadle.errors import DeviceError
from treadle.ir.loops import has_fixed_size
from treadle.ir.op import Op
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.optimize.tile_reduction import TileReduction
from treadle.target import parse_target

RANDOM = np.random.default_rng(11)
TARGETS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
HALVES = "x86_64,znver4"  # whose vectors of half the lanes are as quick
CASES = {
    "rows of two tiles": ((2, 16, 28, 28), (32, 16, 5, 5), {"padding": 2}),
    "tiles that end beyond the image": ((2, 32, 28, 28), (64, 32, 3, 3), {"padding": 1}),
    "one image": ((1, 32, 14, 14), (64, 32, 3, 3), {"padding": 1}),
    "dilated": ((2, 32, 20, 24), (64, 32, 3, 3), {"padding": 2, "dilation": 2}),
    "strides": ((3, 32, 27, 27), (64, 32, 3, 3), {"padding": 1, "stride": 2}),
    "in groups": ((2, 64, 28, 28), (64, 32, 3, 3), {"padding": 1, "groups": 2}),
    "odd channels": ((2, 33, 13, 15), (37, 33, 3, 3), {"padding": 1}),
    "channels of one vector and a half": ((2, 24, 20, 22), (40, 24, 3, 3), {"padding": 1}),
    "windows wider than the image": ((4, 32, 7, 7), (40, 32, 7, 7), {"padding": 6, "dilation": 2}),
    "strides on small images": ((8, 48, 8, 9), (32, 48, 5, 5), {"padding": 2, "stride": 2}),
    "more images than a tile has rows": ((17, 32, 6, 5), (24, 32, 5, 3), {"padding": (2, 1)}),
    "more border than window": ((2, 32, 14, 14), (32, 32, 3, 3), {"padding": 4}),
}


def values(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def skip_without(target):
    """Skips a test whose kernels this processor cannot run."""
    try:
        Device[f"CPU:LLVM:{target}"].synchronize()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("target", [*TARGETS, HALVES])
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_the_interpreter(name, target):
    skip_without(target)
    image, weight, options = CASES[name]
    given = values(*image), values(*weight)
    found, exact = (
        convolved([Tensor(v.astype(kind), device=device) for v in given], options)
        for kind, device in (("float32", f"CPU:LLVM:{target}"), ("float64", "REF"))
    )
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())


def convolved(tensors, options):
    x, w = (t.realize().requires_grad_() for t in tensors)
    result = x.conv2d(w, **options)
    (result * result).sum().backward()
    return [t.numpy() for t in (result, x.grad, w.grad)]


@pytest.mark.parametrize("target", TARGETS)
def test_tiles_are_turned_before_they_are_stored(target):
    # of 576 pixels tiles of 4, 6 and 8 leave none: SSE has no masks for what they would leave
    phases = phases_of((2, 32, 24, 24), (64, 32, 3, 3), parse_target(target))
    stored = [n.src[2] for n in phases[-1].program.src if n.op is Op.STORE]
    assert stored
    assert all(value.dtype.count > 1 for value in stored)


def test_steps_beyond_a_border_are_left_out():
    # tiles have rows of one line of the image: 4, 6, 8 and 12 divide it
    phases = phases_of((2, 16, 24, 24), (32, 16, 5, 5), parse_target("x86-64-v4"))
    loops = [n for n in phases[-1].program.src if n.op is Op.RANGE]
    assert [n for n in loops if not has_fixed_size(n)]
    weight = values(32, 16, 5, 5)
    weight[:, :, :2] = np.inf
    skip_without("x86-64-v4")
    x = Tensor(values(2, 16, 24, 24), device="CPU:LLVM:x86-64-v4")
    result = x.conv2d(Tensor(weight, device="CPU:LLVM:x86-64-v4"), padding=2).numpy()
    assert np.isfinite(result[:, :, 0]).all()
    assert not np.isfinite(result[:, :, 1]).any()


def test_all_padding_is_left_out_where_the_rows_of_a_tile_have_the_same():
    """Of an image's own rows and columns: the results of its corners do not meet these weights."""
    skip_without("x86-64-v4")
    weight = values(32, 64, 5, 5)
    weight[:, :, :2], weight[:, :, :, :2] = np.inf, np.nan
    x = Tensor(values(8, 64, 7, 7), device="CPU:LLVM:x86-64-v4").realize()
    result = x.conv2d(Tensor(weight, device="CPU:LLVM:x86-64-v4").realize(), padding=2)
    (kernel,) = scheduled([(result.node, x.device)])
    _, schedule = optimize(kernel.ast, parse_target("x86-64-v4"))
    assert [move.is_uniform for move in schedule if isinstance(move, TileReduction)] == [True]
    found = result.numpy()
    assert np.isfinite(found[:, :, 0, 0]).all()
    assert not np.isfinite(found[:, :, 1]).any()
    assert not np.isfinite(found[:, :, :, 1]).any()


def phases_of(image, weight, target):
    x, w = (Tensor(values(*shape), device="CPU").realize() for shape in (image, weight))
    result = x.conv2d(w, padding=weight[-1] // 2)
    (kernel,) = scheduled([(result.node, "CPU")])
    return lower(optimize(kernel.ast, target)[0], len(kernel.buffers), target).phases
