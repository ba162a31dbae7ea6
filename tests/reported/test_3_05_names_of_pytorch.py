"""What PyTorch's users write works, or its error says what to write instead."""

import inspect

import numpy as np
import pytest

import treadle
from treadle import Tensor, nn
from treadle.errors import ArgumentError, ShapeError, UserError
from treadle.spellings import spellings_of

X = np.array([[1.0, 4.0, 2.0], [5.0, 3.0, 6.0]], np.float32)


@pytest.mark.parametrize(
    "name",
    ["sum", "mean", "max", "min", "prod", "std", "var", "all", "any", "argmax", "argmin", "softmax",
     "log_softmax", "cumsum", "cumprod", "logsumexp", "flip", "amax", "count_nonzero"],
)  # fmt: skip
def test_3_05_dim_is_taken_wherever_axis_is(name, device):
    x = Tensor(X, device=device)
    by_axis, by_dim = getattr(x, name)(axis=1), getattr(x, name)(dim=1)
    assert by_dim.tolist() == by_axis.tolist()


def test_3_05_axis_is_taken_wherever_dim_is():
    x = Tensor(X)
    assert Tensor.cat(x, x, axis=1).shape == (2, 6)
    assert x.unsqueeze(axis=0).shape == (1, 2, 3)
    assert x.sort(axis=1)[0].tolist() == np.sort(X, axis=1).tolist()
    assert x.sum(dim=0, keepdims=True).shape == (1, 3)
    assert x.permute(dims=(1, 0)).shape == (3, 2)


def test_3_05_every_method_with_an_axis_takes_the_other_name():
    missing = []
    for name, member in inspect.getmembers_static(Tensor):
        function = getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        plain = inspect.unwrap(function)
        if spellings_of(plain) and function is plain:  # the wrapper is what knows them
            missing.append(name)
    assert missing == []


def test_3_05_an_argument_under_both_names_is_refused():
    with pytest.raises(ArgumentError, match=r"\[sum\] dim is another name of axis"):
        Tensor(X).sum(axis=0, dim=0)


def test_3_05_clamp_takes_min_and_max(device):
    x = Tensor(X, device=device)
    assert x.clamp(min=2, max=4).tolist() == np.clip(X, 2, 4).tolist()
    assert x.clamp(max=4).tolist() == np.minimum(X, 4).tolist()


def test_3_05_products_and_short_methods():
    x, batch = Tensor(X), Tensor(np.stack([X, X + 1]))
    np.testing.assert_allclose(x.mm(x.T).numpy(), X @ X.T)
    np.testing.assert_allclose(x.mv(x[0]).numpy(), X @ X[0])
    np.testing.assert_allclose(
        batch.bmm(batch.transpose(1, 2)).numpy(), batch.numpy() @ batch.numpy().transpose(0, 2, 1)
    )
    assert (x.dim(), x.cpu().device, x.cpu().tolist()) == (2, "CPU", X.tolist())
    with pytest.raises(ShapeError, match=r"\[bmm\] takes 3 and 3 axes"):
        x.bmm(x)
    with pytest.raises(ShapeError, match=r"\[bmm\] 2 matrices and 1 of them"):
        batch.bmm(batch[:1].transpose(1, 2))


# -- layers ----------------------------------------------------------------------------------------


def test_3_05_sequential_calls_its_layers_and_names_their_parameters():
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(inplace=True), Tensor.sigmoid)
    x = Tensor.rand(3, 2, 2)
    assert net(x).shape == (3, 8)
    assert net(x).tolist() == net[1](x.flatten(1)).relu().sigmoid().tolist()
    assert list(nn.state.get_state_dict(net)) == ["1.weight", "1.bias"]
    named = nn.Sequential({"first": nn.Linear(4, 8), "act": nn.GELU()})
    assert list(nn.state.get_state_dict(named)) == ["first.weight", "first.bias"]
    with pytest.raises(ArgumentError, match=r"\[Sequential\] layer 1 is 3"):
        nn.Sequential(nn.ReLU(), 3)


LAYERS = {
    nn.ReLU(): lambda x: x.relu(), nn.LeakyReLU(0.2): lambda x: x.leaky_relu(0.2),
    nn.ELU(2.0): lambda x: x.elu(2.0), nn.GELU("tanh"): lambda x: x.gelu("tanh"),
    nn.SiLU(): lambda x: x.silu(), nn.Hardtanh(-2, 2): lambda x: x.hardtanh(-2, 2),
    nn.Softplus(2.0): lambda x: x.softplus(2.0), nn.Softmax(dim=1): lambda x: x.softmax(1),
    nn.LogSoftmax(dim=-1): lambda x: x.log_softmax(-1), nn.Sigmoid(): lambda x: x.sigmoid(),
    nn.Tanh(): lambda x: x.tanh(), nn.GLU(1): lambda x: x.glu(1),
    nn.Threshold(1.0, 9.0): lambda x: x.threshold(1.0, 9.0),
    nn.PReLU(): lambda x: x.leaky_relu(0.25), nn.Identity("anything"): lambda x: x,
    nn.Dropout(0.5): lambda x: x, nn.MaxPool2d(2): lambda x: x.max_pool2d((2, 2)),
    nn.MaxPool1d(2): lambda x: x.max_pool2d((2,)), nn.AvgPool2d(3, 1): lambda x: x.avg_pool2d(3, 1),
    nn.AdaptiveAvgPool2d(1): lambda x: x.mean((2, 3), keepdim=True),
    nn.AdaptiveMaxPool2d((1, 1)): lambda x: x.max((2, 3), keepdim=True),
    nn.ZeroPad2d(1): lambda x: x.pad((1, 1, 1, 1)),
    nn.ReflectionPad1d((1, 2)): lambda x: x.pad((1, 2), mode="reflect"),
    nn.ConstantPad2d((1, 0, 0, 1), 3.0): lambda x: x.pad((1, 0, 0, 1), value=3.0),
    nn.Flatten(): lambda x: x.reshape(2, -1),
    nn.Unflatten(1, (2, 2)): lambda x: x.unflatten(1, (2, 2)),
    nn.PixelShuffle(2): lambda x: x.pixel_shuffle(2),
    nn.Upsample(scale_factor=2): lambda x: x.interpolate(scale_factor=2, mode="nearest"),
    nn.Unfold(2): lambda x: x.im2col(2),
}  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_3_05_a_layer_is_the_method_of_its_name(layer):
    x = Tensor(np.linspace(-3, 3, 2 * 4 * 6 * 6, dtype=np.float32).reshape(2, 4, 6, 6))
    np.testing.assert_allclose(layer(x).numpy(), LAYERS[layer](x).numpy(), rtol=1e-6)


def test_3_05_dropout_layers_drop_in_training():
    x = Tensor.ones(4, 8, 3, 3)
    with Tensor.train():
        some = nn.Dropout(0.5)(x).numpy()
        channels = nn.Dropout2d(0.5)(x).numpy().sum((2, 3))
    assert 0 < (some == 0).sum() < some.size
    assert set(np.unique(channels)) == {0.0, 18.0}


def test_3_05_losses_are_layers_too():
    x, y = Tensor(X), Tensor(X * 0.5 + 1)
    assert nn.MSELoss()(x, y).item() == x.mse_loss(y).item()
    assert nn.L1Loss(reduction="sum")(x, y).item() == x.l1_loss(y, reduction="sum").item()
    labels, weight = Tensor([2, 0]), Tensor([1.0, 2.0, 3.0])
    loss = nn.CrossEntropyLoss(weight=weight, label_smoothing=0.1)
    want = x.cross_entropy(labels, weight=weight, label_smoothing=0.1)
    assert loss(x, labels).item() == want.item()
    assert list(nn.state.get_state_dict(loss)) == ["weight"]
    target = (y > 2).float()
    want = x.binary_crossentropy_logits(target)
    assert nn.BCEWithLogitsLoss()(x, target).item() == want.item()


def test_3_05_layers_take_the_names_of_pytorchs_parameters():
    assert nn.Embedding(num_embeddings=5, embedding_dim=3).weight.shape == (5, 3)
    assert nn.BatchNorm2d(num_features=3).weight.shape == (3,)


# -- gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_3_05_clip_grad_norm_scales_all_gradients_together(norm_type, device):
    a = Tensor([3.0, 0.0], requires_grad=True, device=device)
    b = Tensor([[4.0]], requires_grad=True, device=device)
    (a.square().sum() + b.square().sum()).backward()
    before = np.array([6.0, 0.0, 8.0])
    norm = nn.clip_grad_norm_([a, b], 1.0, norm_type)
    after = np.concatenate([a.grad.numpy(), b.grad.numpy().ravel()])
    want = np.linalg.norm(before, norm_type)
    np.testing.assert_allclose(norm.numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(after, before / want, rtol=1e-5)
    nn.clip_grad_value_([a], 0.25)
    assert a.grad.numpy().max() <= 0.25


def test_3_05_clipping_nothing_is_refused():
    with pytest.raises(UserError, match="none of the 1 parameters has a gradient"):
        nn.clip_grad_norm_([Tensor([1.0], requires_grad=True)], 1.0)


# -- what is missing -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: Tensor(X).cuda, 'write x.to("CUDA")'),
        (lambda: Tensor(X).add_, "write x += y"),
        (lambda: Tensor(X).t_, "write x = x.T"),
        (lambda: Tensor(X).abs_, "x.assign(x.abs(...))"),
        (lambda: Tensor(X).register_hook, "there are no hooks"),
        (lambda: Tensor(X).summ, "did you mean x.sum"),
        (lambda: Tensor.as_tensor, "a Tensor has no as_tensor"),
        (lambda: treadle.zeros, "write Tensor.zeros(...)"),
        (lambda: treadle.no_grad, "Tensor.no_grad"),
        (lambda: nn.Module, "any class with a __call__ is a model"),
        (lambda: nn.Relu, "did you mean nn.ReLU"),
        (lambda: nn.functional.relu, "write x.relu(...)"),
        (lambda: nn.functional.conv1d, "write x.conv2d(weight, bias)"),
        (lambda: nn.Linear(2, 3).parameters, "nn.state.get_parameters(model)"),
        (lambda: nn.Sequential(nn.ReLU()).state_dict, "nn.state.get_state_dict(model)"),
        (lambda: nn.ReLU().forward, "__call__ is what runs"),
    ],
)
def test_3_05_a_missing_name_says_what_to_write(ask, said):
    with pytest.raises(AttributeError) as found:
        ask()
    assert said in str(found.value)


def test_3_05_asking_for_a_missing_name_is_still_an_answer():
    x = Tensor(X)
    assert not hasattr(x, "cuda")
    assert not hasattr(x, "__cuda_something__")
    assert getattr(x, "grad_fn", None) is None
    assert not hasattr(Tensor, "zero_")
