"""Layers and losses against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.errors import ShapeError

from .oracle import compare

torch = pytest.importorskip("torch")
F = torch.nn.functional
RNG = np.random.default_rng(13)
LABELS = np.array([2, 0, -1, 1])


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def test_linear_layernorm_and_batchnorm_match_pytorch(device):
    compare(device, lambda x, w, b: x.linear(w, b), lambda x, w, b: x @ w + b,
            normal(2, 3, 4), normal(4, 5), normal(5))  # fmt: skip
    compare(device, lambda x: x.layernorm(), lambda x: F.layer_norm(x, x.shape[-1:]),
            normal(3, 8), rtol=1e-4, atol=1e-5)  # fmt: skip
    mean, var = normal(3), np.abs(normal(3)) + 0.5
    compare(
        device, lambda x, w, b, m, v: x.batchnorm(w, b, m, (v + 1e-5).rsqrt()),
        lambda x, w, b, m, v: F.batch_norm(x, m.detach(), v.detach(), w, b),
        normal(2, 3, 4, 4), normal(3), normal(3), mean, var, grad=False, atol=1e-5,
    )  # fmt: skip


def test_sequential_calls_each_in_turn(device):
    x = Tensor([-1.0, 2.0], device=device)
    assert x.sequential([Tensor.relu, lambda t: t + 1]).tolist() == [1, 3]


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}])
def test_attention_matches_pytorch_in_value_and_gradients(device, options):
    arrays = normal(2, 4, 5, 8), normal(2, 4, 5, 8), normal(2, 4, 5, 8)
    compare(
        device, lambda q, k, v: q.scaled_dot_product_attention(k, v, **options),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options), *arrays,
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_attention_takes_masks_and_grouped_heads(device):
    q, k, v = normal(1, 4, 3, 8), normal(1, 2, 5, 8), normal(1, 2, 5, 8)
    mask = np.array([[1, 1, 0, 1, 0]] * 3, bool)
    compare(
        device,
        lambda q, k, v, m: q.scaled_dot_product_attention(k, v, attn_mask=m, enable_gqa=True),
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, enable_gqa=True),
        q, k, v, mask, rtol=1e-4, atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropies_match_pytorch(device, reduction, smoothing):
    both = {"reduction": reduction, "label_smoothing": smoothing}
    compare(
        device, lambda x, y: x.sparse_categorical_crossentropy(y, **both),
        lambda x, y: F.cross_entropy(x, y, ignore_index=-1, **both), normal(4, 3), LABELS,
    )  # fmt: skip
    compare(device, lambda x, y: x.cross_entropy(y, **both),
            lambda x, y: F.cross_entropy(x, y, **both), normal(4, 3), np.abs(LABELS))  # fmt: skip
    probabilities = np.abs(normal(4, 3)) / 3
    got = Tensor(normal(4, 3), device=device)
    want = F.cross_entropy(torch.tensor(got.numpy()), torch.tensor(probabilities), **both)
    ours = got.cross_entropy(Tensor(probabilities, device=device), **both)
    np.testing.assert_allclose(ours.numpy(), want.numpy(), rtol=1e-5)


def test_cross_entropy_takes_further_axes(device):
    labels = RNG.integers(0, 3, size=(2, 4))
    compare(device, lambda x, y: x.cross_entropy(y), F.cross_entropy, normal(2, 3, 4), labels)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_weighs_classes_and_ignores_labels(reduction):
    labels, w = np.array([[2, -100, 0, 1], [1, 1, -100, 2]]), np.array([1, 2, 0.5], np.float32)
    for options in ({}, {"ignore_index": 1}, {"ignore_index": 1, "label_smoothing": 0.2}):
        compare(
            "CPU", lambda x, y, o=options: x.cross_entropy(y, reduction, weight=Tensor(w), **o),
            lambda x, y, o=options: F.cross_entropy(x, y, torch.tensor(w), reduction=reduction,
                                                    **o),
            normal(2, 3, 4), np.abs(labels) % 3 if options else labels,
        )  # fmt: skip
    compare(
        "CPU", lambda x, y: x.cross_entropy(y, reduction),
        lambda x, y: F.cross_entropy(x, y, reduction=reduction), normal(2, 3, 4), labels,
    )  # fmt: skip


def test_no_label_is_taken_for_the_ignored_one_by_wrapping():
    logits = Tensor(np.zeros((1, 200), np.float32))
    loss = logits.cross_entropy(Tensor(np.array([156], np.uint8)))  # -100 + 256
    assert loss.item() == pytest.approx(np.log(200), rel=1e-5)


def test_a_loss_refuses_what_makes_no_sense():
    x, labels = Tensor(normal(4, 3)), Tensor([0, 1, 2, 0])
    with pytest.raises(
        ShapeError, match=r"weight has shape \(2,\), expected one for each of the 3"
    ):
        x.cross_entropy(labels, weight=Tensor([1.0, 2.0]))
    for call, text in (
        (lambda: x.cross_entropy(labels, label_smoothing=1.5), "label_smoothing is a part of 1"),
        (lambda: x.huber_loss(x, delta=0.0), "delta is a distance above 0, not 0.0"),
        (lambda: x.smooth_l1_loss(x, beta=-1.0), "beta is a distance of at least 0, not -1.0"),
        (lambda: x.softshrink(-0.5), "lambd is a distance of at least 0, not -0.5"),
        (lambda: x.hardtanh(1.0, -1.0), "no number is between 1.0 and -1.0"),
        (lambda: x.isclose(x, rtol=-1.0), "tolerances are at least 0, not -1.0 and 1e-08"),
    ):
        with pytest.raises(ValueError, match=text):
            call()


def test_binary_cross_entropies_match_pytorch(device):
    probabilities = np.array([0.0, 0.2, 0.9, 1.0], np.float32)
    targets = np.array([0.0, 1.0, 0.5, 0.0], np.float32)
    compare(device, lambda x, y: x.binary_crossentropy(y), F.binary_cross_entropy,
            probabilities, targets, grad=False)  # fmt: skip
    logits = np.array([-200.0, -1.0, 0.0, 300.0], np.float32)
    compare(device, lambda x, y: x.binary_crossentropy_logits(y),
            F.binary_cross_entropy_with_logits, logits, targets, grad=False)  # fmt: skip
    compare(
        device, lambda x: x.binary_crossentropy_logits(Tensor(targets, device=device)),
        lambda x: F.binary_cross_entropy_with_logits(x, torch.tensor(targets)), logits,
    )  # fmt: skip


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_loss_matches_pytorch(device, reduction):
    logs, weight = normal(4, 3), np.array([1.0, 2.0, 0.5], np.float32)
    compare(
        device, lambda x, y, w: x.nll_loss(y, w, ignore_index=-1, reduction=reduction),
        lambda x, y, w: F.nll_loss(x, y, w.detach(), ignore_index=-1, reduction=reduction),
        logs, LABELS, weight, grad=False,
    )  # fmt: skip


def test_dropout_drops_only_while_training(device):
    Tensor.manual_seed(3)
    x = Tensor.ones(10_000, device=device)
    assert x.dropout(0.3).node is x.node
    with Tensor.train():
        kept = x.dropout(0.3).numpy()
        assert x.dropout(1.0).sum().item() == 0
    assert not Tensor.training
    assert set(np.unique(kept.round(4))) == {0.0, np.float32(1 / 0.7).round(4)}
    assert abs((kept == 0).mean() - 0.3) < 0.02
    with pytest.raises(ValueError, match=r"\[dropout\]"):
        x.dropout(1.5)


def test_labels_of_another_shape_are_refused():
    with pytest.raises(ShapeError, match=r"\[sparse_categorical_crossentropy\] labels of shape"):
        Tensor.ones(4, 3).sparse_categorical_crossentropy(Tensor([1, 2]))


def test_a_row_that_a_mask_leaves_nothing_gives_zero_and_no_gradient(device):
    q, k, v = (Tensor(normal(4, 8), device=device) for _ in range(3))
    q.requires_grad = True
    allowed = np.tri(4, dtype=bool)
    allowed[2] = False
    mask = Tensor(allowed, device=device)
    for given in (mask, mask.where(0.0, -np.inf)):
        result = q.scaled_dot_product_attention(k, v, attn_mask=given)
        result.sum().backward()
        assert not result.numpy()[2].any()
        assert result.numpy()[3].all()
        assert not q.grad.numpy()[2].any()
        assert np.isfinite(q.grad.numpy()).all()
        q.grad = None
