"""Images between convolutions: in which order they are stored."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, TinyJit
from treadle.engine.realized import current
from treadle.ir.op import Op
from treadle.schedule.passes import schedule
from treadle.target import parse_target

TARGET = parse_target("x86-64-v4")
RANDOM = np.random.default_rng(8)


def stored(*tensors, target=TARGET):
    """(op, shape) of what each kernel stores, without axes of one element."""
    roots, _ = current(t.node for t in tensors)
    found = [r for k in schedule(roots, "CPU", target)[0] for r in k.roots]
    return [(r.op, tuple(size for size in r.shape if size != 1)) for r in found]


def values(*shape):
    fan_in = np.prod(shape[1:]) if len(shape) == 4 and shape[2] < 8 else 1
    return (RANDOM.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32)


def weights(*shapes, device="CPU", dtype=np.float32):
    return [Tensor(values(*shape).astype(dtype), device=device).realize() for shape in shapes]


def chain(x, v, w):
    return x.conv2d(v, padding=1).relu().conv2d(w, padding=1)


def residual(x, v, w):
    x = x.conv2d(v, padding=1).relu()
    return (x + x.conv2d(w, padding=1)).relu().conv2d(w, padding=1).mean((2, 3))


def pooled(x, v, w):
    x = x.conv2d(v, padding=1).relu().max_pool2d((2, 2))
    scores = x.conv2d(w, stride=2, padding=1).relu().flatten(1)
    return scores @ w.reshape(-1, 18)[:512]


def strided(x, v, w):
    return x.conv2d(v, stride=2, padding=1).relu().conv2d(w, stride=2, dilation=1, padding=2)


def one_axis(x, v, w):
    x, v, w = (t[:, :, 0] for t in (x, v, w))
    return x.conv2d(v, padding=1).relu().conv2d(w, padding=1)


NETWORKS = [chain, residual, pooled, strided, one_axis]
SHAPES = (2, 3, 16, 16), (32, 3, 3, 3), (32, 32, 3, 3)


def test_an_image_that_a_convolution_reads_has_channels_last():
    first, last = stored(chain(*weights(*SHAPES)))
    assert first == (Op.CONTIGUOUS, (2, 16, 16, 32))
    assert last[1] == (2, 32, 16, 16)  # what the user sees


def test_what_is_read_and_stored_beside_an_image_goes_along():
    found = stored(residual(*weights(*SHAPES)))
    assert found[:-1] == [(Op.CONTIGUOUS, (2, 16, 16, 32))] * 2


def test_an_image_whose_few_pixels_are_summed_has_channels_last():
    def network(size):
        x, v, w = weights((2, 3, size, size), (32, 3, 3, 3), (32, 32, 3, 3))
        image = x.conv2d(v, padding=1).relu().conv2d(w, padding=1).relu()
        return stored(image.mean((2, 3)))

    assert network(8)[1] == (Op.CONTIGUOUS, (2, 8, 8, 32))
    assert network(16)[1][1] == (2, 32, 16, 16)


def test_few_channels_stay_as_they_are():
    small = weights((2, 3, 16, 16), (8, 3, 3, 3), (8, 8, 3, 3))
    assert not any(op is Op.CONTIGUOUS for op, _ in stored(chain(*small)))


@pytest.mark.parametrize("target", [None, parse_target("sm_80")], ids=["unknown", "workgroups"])
def test_other_targets_store_rows_of_pixels(target):
    found = stored(chain(*weights(*SHAPES)), target=target)
    assert not any(op is Op.CONTIGUOUS for op, _ in found)


def test_what_a_gradient_sums_over_pixels_stays_as_it_is():
    x, v, w = weights(*SHAPES)
    loss = chain(x, v, w).square().mean()
    found = stored(loss, *loss.gradient(v, w))
    assert not any(op is Op.CONTIGUOUS for op, _ in found)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("network", NETWORKS)
def test_values_do_not_depend_on_the_order(network, captured):
    given = [values(*shape) for shape in SHAPES]
    x, v, w = (Tensor(g, device="CPU").realize() for g in given)
    run = lambda x: network(x, v, w).realize()
    step = TinyJit(run) if captured else run
    for _ in range(3):
        found = step(x)
    exact = network(*(Tensor(g.astype(np.float64), device="REF") for g in given))
    np.testing.assert_allclose(found.numpy(), exact.numpy(), rtol=1e-4, atol=1e-4)


def test_a_pool_stores_channels_last_between_convolutions():
    x, v, w = weights(*SHAPES)
    found = stored(pooled(x, v, w))
    assert found[:2] == [(Op.CONTIGUOUS, (2, 16, 16, 32)), (Op.CONTIGUOUS, (2, 8, 8, 32))]
