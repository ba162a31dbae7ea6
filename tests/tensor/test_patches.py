"""Patches, places in images, rarer layers and losses, against PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle import Tensor
from treadle.errors import DTypeError, ShapeError

from .oracle import compare

torch = pytest.importorskip("torch")
F = torch.nn.functional
rng = np.random.default_rng(9)
X = rng.standard_normal((2, 3, 5, 6)).astype(np.float32)
ROWS = rng.standard_normal((4, 3)).astype(np.float32)


def test_patches_become_columns_and_add_up_again(device):
    how = ((2, 3), 1, (1, 0), (2, 1))
    compare(device, lambda t: t.im2col(*how), lambda t: F.unfold(t, *how), X)
    columns = F.unfold(torch.tensor(X), *how).numpy()
    compare(device, lambda t: t.col2im((5, 6), *how), lambda t: F.fold(t, (5, 6), *how), columns)
    assert Tensor(X[0], device=device).im2col(2, dilation=2).shape == (12, 12)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_moved_images_are_pytorchs(padding):
    maps = np.array([[[0.9, 0.3, 0.2], [-0.4, 1.5, 0.1]]] * 2, np.float32)

    def theirs(x, m):
        places = F.affine_grid(m, (2, 3, 4, 4), align_corners=False)
        return F.grid_sample(x, places, "bilinear", padding, align_corners=False)

    compare(
        "CPU", lambda x, m: x.grid_sample(m.affine_grid((2, 3, 4, 4)), padding_mode=padding),
        theirs, X, maps, rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_places_that_are_no_numbers_read_nothing(device):
    grid = np.full((2, 1, 2, 2), np.nan, np.float32)
    grid[:, :, 1] = 1e30
    found = Tensor(X, device=device).grid_sample(Tensor(grid, device=device))
    assert found[..., 1].abs().max().item() == 0


def test_bags_of_rows(device):
    weight, index = Tensor(ROWS, device=device), Tensor([1, 3, 0, 1, 2], device=device)
    starts = Tensor([0, 3, 3], device=device)
    total = index.embedding_bag(weight, starts, "sum")
    wanted = [ROWS[[1, 3, 0]].sum(0), np.zeros(3), ROWS[[1, 2]].sum(0)]
    np.testing.assert_allclose(total.numpy(), wanted, rtol=1e-6)
    largest = index.embedding_bag(weight, starts, "max", padding_idx=-1)
    np.testing.assert_allclose(largest.numpy()[0], ROWS[[1, 0]].max(0))
    mean = index[:4].reshape(2, 2).embedding_bag(weight)
    np.testing.assert_allclose(mean.numpy(), ROWS[[[1, 3], [0, 1]]].mean(1), rtol=1e-6)


def test_whole_channels_are_dropped_and_moments_kept(device):
    Tensor.manual_seed(3)
    ones = Tensor.ones(64, 8, 5, device=device)
    assert ones.feature_dropout().node is ones.node
    with Tensor.train():
        channels = ones.feature_dropout(0.5).numpy()
        noise = Tensor.randn(200, 200, device=device).alpha_dropout(0.3)
        shared = ones.feature_alpha_dropout(0.5).numpy()
        slopes = ones.neg().rrelu(0.1, 0.3).numpy()
    assert set(np.unique(channels)) == {0.0, 2.0}
    assert np.all(channels == channels[..., :1])
    assert np.all(shared == shared[..., :1])
    assert abs(noise.mean().item()) < 0.02
    assert abs(noise.std().item() - 1) < 0.02
    assert -0.3 <= slopes.min() < -0.25
    assert -0.15 < slopes.max() <= -0.1
    np.testing.assert_allclose(ones.neg().rrelu(0.1, 0.3).numpy(), -0.2, rtol=1e-6)


def test_sequences_without_alignment_cost_what_pytorch_says():
    logs = rng.standard_normal((6, 2, 4)).astype(np.float32)
    labels, lengths, sizes = np.array([[1, 2, 2], [3, 1, 0]], np.int64), (6, 5), (3, 2)

    def theirs(x):
        return F.ctc_loss(x.log_softmax(2), torch.tensor(labels), lengths, sizes, reduction="none")

    def ours(x):
        return x.log_softmax(2).ctc_loss(Tensor(labels), lengths, sizes, reduction="none")

    compare("CPU", ours, theirs, logs, rtol=1e-4, atol=1e-5)
    short = Tensor(logs[:2]).log_softmax(2)
    assert short.ctc_loss(Tensor(labels), (2, 2), sizes, reduction="none").tolist()[0] == math.inf
    kept = short.ctc_loss(Tensor(labels), (2, 2), sizes, reduction="none", zero_infinity=True)
    assert kept.tolist()[0] == 0.0
    flat = Tensor(np.array([1, 2, 2, 3, 1]))
    one = Tensor(logs).log_softmax(2).ctc_loss(flat, lengths, sizes)
    both = F.ctc_loss(torch.tensor(logs).log_softmax(2), torch.tensor(labels), lengths, sizes)
    np.testing.assert_allclose(one.item(), both.item(), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.im2col(9), ShapeError, r"\[im2col\] patches that span \(9, 9\)"),
        (lambda x: x[0, 0].im2col(1), ShapeError, "takes 4 axes, or one less"),
        (lambda x: x[0].col2im((5, 6), 2), ShapeError, "do not make images"),
        (lambda x: x.grid_sample(x), ShapeError, "images .* and places .* do not fit"),
        (lambda x: x.grid_sample(x[:, :2, :2, :2], "cubic"), ShapeError, "mode 'cubic'"),
        (lambda x: x.grid_sample(x[:, :2, :2, :2].double()), DTypeError, "of one dtype"),
        (lambda x: x.affine_grid((2, 3, 4, 4)), ShapeError, r"expected \(N, 2, 3\)"),
        (lambda x: x.rms_norm(5), ShapeError, "does not end in"),
        (lambda x: x.channel_shuffle(2), ShapeError, "no 2 equal groups"),
        (lambda x: x.embedding_bag(x), DTypeError, "takes integers"),
        (lambda x: x.int()[0, 0, 0].embedding_bag(x[0, 0]), ShapeError, "needs offsets"),
        (lambda x: x[0, 0, 0].feature_dropout(), ShapeError, r"\[feature_dropout\]"),
        (lambda x: x.alpha_dropout(1.5), ValueError, "a probability"),
        (lambda x: x[0, 0].multi_margin_loss(x[0, 0, :, 0]), DTypeError, "labels are integers"),
        (lambda x: x[0, 0].triplet_margin_loss(x[0, 0], x[0]), ShapeError, "as many axes"),
        (lambda x: x[0].ctc_loss(x.int()[0, 0], (5,), (6, 6, 6)), ShapeError, "one length for"),
        (lambda x: x.bilinear(x, x), ShapeError, r"\[bilinear\]"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(Tensor(X, device="CPU"))
