"""Layers give PyTorch's values for the same parameters, and gradients for the same loss."""

import numpy as np
import pytest

from treadle import GlobalCounters, Tensor, nn
from treadle.config import Context
from treadle.errors import DTypeError, IndexOutOfRange, ShapeError

from .oracle import copy_parameters, seeded

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this module")

# (name, layer, its PyTorch twin, input shape)
LAYERS = [
    ("linear", lambda: nn.Linear(5, 3), lambda: torch.nn.Linear(5, 3), (2, 4, 5)),
    (
        "linear without bias",
        lambda: nn.Linear(5, 3, bias=False),
        lambda: torch.nn.Linear(5, 3, bias=False),
        (2, 5),
    ),
    (
        "conv1d",
        lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1),
        lambda: torch.nn.Conv1d(4, 6, 3, stride=2, padding=1),
        (2, 4, 9),
    ),
    (
        "conv2d",
        lambda: nn.Conv2d(3, 4, 3, padding=1),
        lambda: torch.nn.Conv2d(3, 4, 3, padding=1),
        (2, 3, 6, 5),
    ),
    (
        "conv2d with groups, stride and dilation",
        lambda: nn.Conv2d(4, 6, (3, 2), stride=2, dilation=(1, 2), groups=2, bias=False),
        lambda: torch.nn.Conv2d(4, 6, (3, 2), stride=2, dilation=(1, 2), groups=2, bias=False),
        (2, 4, 7, 8),
    ),
    (
        "conv2d that keeps the size",
        lambda: nn.Conv2d(2, 3, (4, 3), padding="same"),
        lambda: torch.nn.Conv2d(2, 3, (4, 3), padding="same"),
        (1, 2, 6, 5),
    ),
    (
        "conv1d of whole windows",
        lambda: nn.Conv1d(2, 3, 3, padding="valid"),
        lambda: torch.nn.Conv1d(2, 3, 3, padding="valid"),
        (2, 2, 6),
    ),
    (
        "conv_transpose1d",
        lambda: nn.ConvTranspose1d(4, 3, 3, stride=2),
        lambda: torch.nn.ConvTranspose1d(4, 3, 3, stride=2),
        (2, 4, 5),
    ),
    (
        "conv_transpose2d",
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        lambda: torch.nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        (2, 4, 4, 3),
    ),
    (
        "conv3d",
        lambda: nn.Conv3d(2, 4, (2, 3, 3), stride=(1, 2, 1), padding=1, groups=2),
        lambda: torch.nn.Conv3d(2, 4, (2, 3, 3), stride=(1, 2, 1), padding=1, groups=2),
        (2, 2, 3, 5, 4),
    ),
    (
        "conv_transpose3d",
        lambda: nn.ConvTranspose3d(3, 2, 2, stride=2, padding=(0, 1, 0), output_padding=1),
        lambda: torch.nn.ConvTranspose3d(3, 2, 2, stride=2, padding=(0, 1, 0), output_padding=1),
        (1, 3, 2, 3, 2),
    ),
    (
        "group norm",
        lambda: nn.GroupNorm(2, 6),
        lambda: torch.nn.GroupNorm(2, 6),
        (3, 6, 4, 2),
    ),
    (
        "instance norm",
        lambda: nn.InstanceNorm(4),
        lambda: torch.nn.InstanceNorm2d(4, affine=True),
        (2, 4, 3, 3),
    ),
    (
        "instance norm of sequences, without parameters",
        lambda: nn.InstanceNorm1d(4, affine=False),
        lambda: torch.nn.InstanceNorm1d(4),
        (2, 4, 5),
    ),
    ("layer norm", lambda: nn.LayerNorm(6), lambda: torch.nn.LayerNorm(6), (2, 3, 6)),
    (
        "layer norm over two axes",
        lambda: nn.LayerNorm((3, 6), elementwise_affine=False),
        lambda: torch.nn.LayerNorm((3, 6), elementwise_affine=False),
        (2, 3, 6),
    ),
    ("rms norm", lambda: nn.RMSNorm(6), lambda: torch.nn.RMSNorm(6, eps=1e-6), (2, 3, 6)),
    (
        "batch norm while judging",
        lambda: nn.BatchNorm(4),
        lambda: torch.nn.BatchNorm2d(4).eval(),
        (3, 4, 2, 2),
    ),
]


@pytest.mark.filterwarnings("ignore:Using padding='same'")  # PyTorch's word on even kernels
@pytest.mark.parametrize(
    ("make", "twin", "shape"), [c[1:] for c in LAYERS], ids=[c[0] for c in LAYERS]
)
def test_a_layer_and_its_gradients_agree_with_pytorch(make, twin, shape):
    layer, oracle, data = make(), twin(), seeded(*shape)
    copy_parameters(layer, oracle)
    x, tx = Tensor(data, requires_grad=True), torch.tensor(data, requires_grad=True)
    out, expected = layer(x), oracle(tx)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=2e-5, atol=2e-5)
    out.square().sum().backward()
    expected.square().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), tx.grad.numpy(), rtol=2e-4, atol=2e-4)
    for name, parameter in oracle.named_parameters():
        grad = nn.state.get_state_dict(layer)[name].grad
        np.testing.assert_allclose(grad.numpy(), parameter.grad.numpy(), rtol=2e-4, atol=2e-3)


def test_layer_norm_2d_normalises_the_channels_of_each_pixel():
    data = seeded(2, 5, 3, 4)
    oracle = torch.nn.functional.layer_norm(torch.tensor(data).permute(0, 2, 3, 1), (5,))
    ours = nn.LayerNorm2d(5)(Tensor(data))
    np.testing.assert_allclose(ours.numpy(), oracle.permute(0, 3, 1, 2).numpy(), atol=1e-5)


def test_batch_norm_in_training_uses_the_batch_and_updates_its_running_state():
    data, ours, oracle = seeded(4, 3, 2, 5), nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3)
    with Context(TRAINING=1):
        for scale in (1.0, 2.0, 3.0):
            out, expected = ours(Tensor(data * scale)), oracle(torch.tensor(data * scale))
            np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(ours.running_mean.numpy(), oracle.running_mean.numpy(), atol=1e-6)
    np.testing.assert_allclose(ours.running_var.numpy(), oracle.running_var.numpy(), rtol=1e-5)
    assert ours.num_batches_tracked.item() == 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_batch_norm_of_halves_trains_and_stays_one(dtype):
    layer = nn.BatchNorm(16)
    for name in ("weight", "bias", "running_mean", "running_var"):
        setattr(layer, name, getattr(layer, name).cast(dtype).realize())
    values = np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32) * 3 + 1
    with Tensor.train():
        assert layer(Tensor(values).cast(dtype)).dtype == dtype
    assert layer.running_mean.dtype == layer.running_var.dtype == dtype
    assert layer(Tensor(values).cast(dtype)).dtype == dtype
    moved = [0.1 * values.mean(0), 0.9 + 0.1 * values.var(0, ddof=1)]
    found = [x.float().numpy() for x in (layer.running_mean, layer.running_var)]
    np.testing.assert_allclose(found, moved, rtol=2e-2, atol=2e-3)


def test_an_instance_norm_that_tracks_its_statistics_uses_them_when_it_does_not_train():
    data = seeded(4, 3, 2, 5)
    ours = nn.InstanceNorm2d(3, track_running_stats=True)
    oracle = torch.nn.InstanceNorm2d(3, affine=True, track_running_stats=True)
    with Context(TRAINING=1):
        for scale in (1.0, 2.0, 3.0):
            out, expected = ours(Tensor(data * scale)), oracle(torch.tensor(data * scale))
            np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), atol=1e-5)
    np.testing.assert_allclose(ours.running_mean.numpy(), oracle.running_mean.numpy(), atol=1e-6)
    np.testing.assert_allclose(ours.running_var.numpy(), oracle.running_var.numpy(), rtol=1e-5)
    expected = oracle.eval()(torch.tensor(data)).detach().numpy()
    np.testing.assert_allclose(ours(Tensor(data)).numpy(), expected, atol=1e-5)


def test_batch_norm_refuses_to_train_on_one_value_a_channel():
    with Context(TRAINING=1), pytest.raises(ShapeError, match="more than one value"):
        nn.BatchNorm(3)(Tensor.ones(1, 3))


def test_batch_norm_without_affine_has_no_parameters_to_train():
    layer = nn.BatchNorm(3, affine=False)
    assert all(t.requires_grad is False for t in nn.state.get_parameters(layer))
    assert layer(Tensor.ones(2, 3)).shape == (2, 3)


def test_embedding_reads_the_rows_of_its_table():
    layer, rows = nn.Embedding(7, 4), np.array([[1, 6], [0, 1]], np.int32)
    table = layer.weight.numpy()
    np.testing.assert_array_equal(layer(Tensor(rows)).numpy(), table[rows])


def test_the_gradient_of_an_embedding_adds_up_over_repeated_rows():
    layer = nn.Embedding(4, 2)
    layer.weight.requires_grad = True
    layer(Tensor([1, 1, 3])).sum().backward()
    np.testing.assert_array_equal(layer.weight.grad.numpy(), [[0, 0], [2, 2], [0, 0], [1, 1]])


@pytest.mark.parametrize("outside", [-1, 7])
def test_embedding_refuses_rows_that_are_not_there(outside):
    layer = nn.Embedding(7, 4)
    rows = layer(Tensor([0, outside]))
    with pytest.raises(IndexOutOfRange, match=rf"\[Embedding\] {outside} lies outside"):
        rows.numpy()


def test_embedding_refuses_indices_that_are_not_integers():
    with pytest.raises(DTypeError, match=r"\[Embedding\] indices must be integers"):
        nn.Embedding(4, 2)(Tensor([0.0, 1.0]))


@pytest.mark.parametrize(
    "make",
    [lambda: nn.Conv2d(3, 4, 3, groups=2), lambda: nn.GroupNorm(2, 5)],
    ids=["conv groups", "norm groups"],
)
def test_groups_that_do_not_divide_the_channels_are_refused_when_the_layer_is_made(make):
    with pytest.raises(ShapeError, match="must divide"):
        make()


def test_same_padding_with_a_stride_is_refused():
    with pytest.raises(ShapeError, match="needs stride 1"):
        nn.Conv2d(1, 1, 3, stride=2, padding="same")
    with pytest.raises(ShapeError, match=r"\[Conv1d\] padding is numbers, 'same' or 'valid'"):
        nn.Conv1d(1, 1, 3, padding="full")


def test_layer_norm_refuses_other_last_axes():
    with pytest.raises(ShapeError, match=r"the last axes must be \(4,\), got shape \(2, 3\)"):
        nn.LayerNorm(4)(Tensor.ones(2, 3))


def test_parameters_start_within_the_fan_in_bound_and_fill_it():
    weight = nn.Linear(64, 50).weight.numpy()
    assert np.abs(weight).max() <= 1 / 8
    assert np.abs(weight).max() > 0.9 / 8
    assert abs(weight.mean()) < 0.01


def test_random_parameters_are_computed_once():
    layer, x = nn.Linear(16, 16), Tensor.ones(2, 16).realize()
    assert not layer.weight.is_realized
    first = layer(x).numpy()
    assert layer.weight.is_realized
    GlobalCounters.reset()
    np.testing.assert_array_equal(layer(x).numpy(), first)
    assert GlobalCounters.kernel_count == 1
