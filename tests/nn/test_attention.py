"""Multi-head attention agrees with PyTorch's layer: values, weights, masks and gradients."""

import numpy as np
import pytest

from treadle import Tensor, nn
from treadle.errors import DTypeError, ShapeError

from .oracle import copy_parameters, seeded

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this module")

FUTURE = np.triu(np.ones((3, 3), bool), 1)
PADDING = np.array([[False, False, True], [False, True, True]])
MASKS = [
    ("no mask", {}),
    ("bool mask", {"attn_mask": FUTURE}),
    ("float mask", {"attn_mask": seeded(3, 3)}),
    ("a mask for each head", {"attn_mask": seeded(4, 3, 3)}),
    ("padding", {"key_padding_mask": PADDING}),
    ("padding and a mask", {"key_padding_mask": PADDING, "attn_mask": FUTURE}),
]


def twins(*sizes, **options):
    ours = nn.MultiheadAttention(*sizes, **options)
    oracle = torch.nn.MultiheadAttention(*sizes, **options)
    with torch.no_grad(), Tensor.no_grad():
        copy_parameters(ours, oracle)
        for name, value in oracle.named_parameters():
            value.mul_(0.3)
            nn.state.get_state_dict(ours)[name].assign(Tensor(value.numpy())).realize()
    return ours, oracle


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("masks", [m[1] for m in MASKS], ids=[m[0] for m in MASKS])
def test_values_weights_and_gradients_agree_with_pytorch(masks, average):
    ours, oracle = twins(4, 2, batch_first=True)
    x = Tensor(seeded(2, 3, 4), requires_grad=True)
    tx = torch.tensor(seeded(2, 3, 4), requires_grad=True)
    given = {name: Tensor(mask) for name, mask in masks.items()}
    out, weights = ours(x, average_attn_weights=average, **given)
    given = {name: torch.tensor(mask) for name, mask in masks.items()}
    if len(given) == 2:  # PyTorch wants both masks of one type
        given["attn_mask"] = torch.tensor(FUTURE)
    expected, expected_weights = oracle(tx, tx, tx, average_attn_weights=average, **given)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(weights.numpy(), expected_weights.detach().numpy(), atol=1e-6)
    out.square().sum().backward()
    expected.square().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), tx.grad.numpy(), atol=1e-4)


def test_other_sizes_of_keys_and_values_with_the_time_first():
    ours, oracle = twins(4, 2, kdim=3, vdim=5, bias=False)
    parts = [seeded(3, 2, 4), seeded(6, 2, 3), seeded(6, 2, 5)]
    out, weights = ours(*map(Tensor, parts))
    expected, expected_weights = oracle(*map(torch.tensor, parts))
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(weights.numpy(), expected_weights.detach().numpy(), atol=1e-6)


def test_a_sequence_without_a_batch():
    ours, oracle = twins(4, 2)
    out, weights = ours(Tensor(seeded(3, 4)))
    tx = torch.tensor(seeded(3, 4))
    expected, expected_weights = oracle(tx, tx, tx)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(weights.numpy(), expected_weights.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("padding", [None, Tensor([[False, False, False], [False, True, True]])])
def test_causal_attention_is_the_mask_of_what_comes_later(padding):
    layer, x = nn.MultiheadAttention(4, 2, batch_first=True), Tensor(seeded(2, 3, 4))
    out, weights = layer(x, is_causal=True, key_padding_mask=padding)
    expected, expected_weights = layer(x, attn_mask=Tensor(FUTURE), key_padding_mask=padding)
    np.testing.assert_allclose(out.numpy(), expected.numpy(), atol=1e-6)
    np.testing.assert_allclose(weights.numpy(), expected_weights.numpy(), atol=1e-6)
    assert (weights.numpy()[:, FUTURE] == 0).all()


def test_grouped_queries_share_the_heads_of_keys_and_values():
    grouped = nn.MultiheadAttention(8, 4, batch_first=True, num_kv_heads=2)
    full = nn.MultiheadAttention(8, 4, batch_first=True)
    assert grouped.in_proj_weight.shape == (16, 8)
    q, k, v = grouped.in_proj_weight.split((8, 4, 4))
    k, v = (t.reshape(2, 2, 8).repeat_interleave(2, 0).reshape(8, 8) for t in (k, v))
    with Tensor.no_grad():
        full.in_proj_weight.assign(q.cat(k, v)).realize()
    full.out_proj = grouped.out_proj
    x = Tensor(seeded(2, 3, 8))
    for mine, expected in zip(grouped(x), full(x), strict=True):
        np.testing.assert_allclose(mine.numpy(), expected.numpy(), atol=1e-6)


def test_weights_that_are_not_needed_are_not_made():
    assert nn.MultiheadAttention(4, 2)(Tensor(seeded(3, 1, 4)), need_weights=False)[1] is None


@pytest.mark.parametrize("options", [{"num_heads": 3}, {"num_heads": 4, "num_kv_heads": 3}])
def test_heads_that_do_not_divide_are_refused(options):
    with pytest.raises(ShapeError, match="must divide"):
        nn.MultiheadAttention(8, **options)


def test_inputs_and_masks_that_do_not_fit_are_refused():
    layer, x = nn.MultiheadAttention(4, 2), Tensor.zeros(3, 2, 4)
    with pytest.raises(ShapeError, match=r"expected last axes \(4, 4, 4\)"):
        layer(Tensor.zeros(3, 2, 5))
    with pytest.raises(ShapeError, match=r"one batch size \(axis 1\)"):
        layer(x, Tensor.zeros(3, 1, 4))
    with pytest.raises(ShapeError, match=r"attn_mask has shape \(2, 3\), expected \(3, 3\)"):
        layer(x, attn_mask=Tensor.zeros(2, 3))
    with pytest.raises(DTypeError, match="must be bool"):
        layer(x, attn_mask=Tensor.zeros(3, 3, dtype="int32"))
