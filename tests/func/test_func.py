"""Transforms of functions, against torch.func: values, tangents, batches, and what nests."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import treadle
from treadle import Tensor, TinyJit, dtypes, nn
from treadle.errors import DTypeError, ShapeError, UserError

torch = pytest.importorskip("torch", reason="PyTorch is the oracle: pip install treadle[oracle]")
tf = pytest.importorskip("torch.func")

pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated"),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
]

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 4)).astype(np.float32)
W = RNG.normal(size=(4, 2)).astype(np.float32)
V = RNG.normal(size=4).astype(np.float32)


class Pair(NamedTuple):
    a: Any
    b: Any


def same(ours, theirs, rtol=1e-5, atol=1e-6):
    """Trees of the same form with the same numbers."""
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        ours, theirs = list(ours.values()), list(theirs.values())
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            same(a, b, rtol, atol)
        return
    assert ours.shape == tuple(theirs.shape)
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=rtol, atol=atol)


def loss(w, x):
    return ((x @ w).tanh() ** 2).sum()


def layer(x, w):
    return (x @ w).tanh()


# -- gradients --------------------------------------------------------------------------------


@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1, 0), -1])
def test_gradients_are_for_the_arguments_that_are_named(argnums):
    ours = treadle.grad(loss, argnums)(Tensor(W), Tensor(X))
    theirs = tf.grad(loss, argnums)(torch.tensor(W), torch.tensor(X))
    assert isinstance(ours, tuple) == isinstance(argnums, tuple)
    same(ours, theirs)


def test_a_tree_of_parameters_has_a_tree_of_gradients():
    def model(p, x):
        return (x @ p["layers"][0] + p["layers"][1]).sum() * p["scale"]

    def tree(kind):
        return {"layers": [kind(W), kind(W[0])], "scale": kind(np.float32(2)), "unused": kind(V)}

    ours = treadle.grad(model)(tree(Tensor), Tensor(X))
    same(ours, tf.grad(model)(tree(torch.tensor), torch.tensor(X)))
    found = treadle.grad(lambda p: (p.a * p.b).sum())(Pair(Tensor(V), Tensor(V)))
    assert isinstance(found, Pair)
    np.testing.assert_array_equal(found.b.numpy(), V)


def test_the_value_comes_along_and_so_does_what_else_is_returned():
    value, found = treadle.value_and_grad(loss)(Tensor(W), Tensor(X))
    theirs = tf.grad_and_value(loss)(torch.tensor(W), torch.tensor(X))
    same((found, value), theirs)

    def with_aux(w, x):
        y = x @ w
        return y.sum(), {"y": y, "name": "aux"}

    found, aux = treadle.grad(with_aux, has_aux=True)(Tensor(W), x=Tensor(X))
    np.testing.assert_allclose(aux["y"].numpy(), X @ W, rtol=1e-5)
    assert aux["name"] == "aux"
    (value, aux), again = treadle.value_and_grad(with_aux, has_aux=True)(Tensor(W), Tensor(X))
    np.testing.assert_allclose(again.numpy(), found.numpy())
    assert value.item() == pytest.approx(float((X @ W).sum()), rel=1e-5)


def test_gradients_of_gradients_do_not_mix_up_their_variables():
    x = Tensor(2.0)
    assert treadle.grad(lambda x: x * treadle.grad(lambda y: x + y)(Tensor(1.0)))(x).item() == 1
    assert treadle.grad(lambda x: x * treadle.grad(lambda y: x * y)(x))(x).item() == 4
    assert treadle.grad(lambda y: x * y * y)(x).item() == 8  # the x from around is constant
    third = treadle.grad(treadle.grad(treadle.grad(lambda x: x**4)))
    assert third(x).item() == pytest.approx(48)


def test_numbers_may_be_read_inside_of_a_gradient():
    def branchy(x):
        return x * 3 if x.item() > 0 else x * x

    assert treadle.grad(branchy)(Tensor(2.0)).item() == 3
    assert treadle.grad(branchy)(Tensor(-2.0)).item() == -4
    realized = treadle.grad(lambda x: (x * x).realize() * x)
    assert realized(Tensor(2.0)).item() == 12


def test_no_grad_counts_inside_of_the_function_and_around_it():
    x = Tensor(3.0, requires_grad=True)

    def half(x):
        with Tensor.no_grad():
            constant = x * 1
        return x * constant

    assert treadle.grad(half)(x).item() == 3
    with Tensor.no_grad():
        found = treadle.grad(lambda x: x * x)(x)
    assert found.item() == 6
    assert not found.requires_grad


def test_leaves_around_the_function_get_their_gradients():
    w = Tensor(W, requires_grad=True)
    other = torch.tensor(W, requires_grad=True)
    penalty = treadle.grad(lambda x: layer(x, w).sum())(Tensor(X))
    assert penalty.requires_grad
    (penalty**2).sum().backward()
    (tf.grad(lambda x: layer(x, other).sum())(torch.tensor(X)) ** 2).sum().backward()
    same(w.grad, other.grad)
    assert not treadle.grad(loss)(Tensor(W), Tensor(X)).requires_grad


def test_assignments_inside_are_differentiated():
    def assigned(x):
        y = x * 2
        y[1:3] = x[:2] ** 2
        return (y * Tensor(V)).sum()

    def theirs(x):
        y = x * 2
        y = torch.cat([y[:1], x[:2] ** 2, y[3:]])
        return (y * torch.tensor(V)).sum()

    x = Tensor(V)
    same(treadle.grad(assigned)(x), tf.grad(theirs)(torch.tensor(V)))
    tangent = treadle.jvp(assigned, (x,), (Tensor.ones(4),))
    same(tangent, tf.jvp(theirs, (torch.tensor(V),), (torch.ones(4),)))
    rows = treadle.vmap(assigned)(Tensor(X))
    same(rows, tf.vmap(theirs)(torch.tensor(X)))
    np.testing.assert_array_equal(x.numpy(), V)


@pytest.mark.parametrize("place", [slice(None), slice(0, 4), ...])
def test_examples_that_are_overwritten_by_what_all_share_are_batches_still(place):
    def overwritten(x, shared):
        y = x.clone()
        y[place] = shared
        return y

    rows = treadle.vmap(overwritten, in_dims=(0, None))(Tensor(X), Tensor(V))
    np.testing.assert_array_equal(rows.numpy(), np.stack([V] * len(X)))


# -- products with Jacobians ------------------------------------------------------------------


def test_products_in_both_directions_agree_with_pytorch():
    def pair(x, w):
        y = layer(x, w)
        return {"y": y, "both": (y * 2, y.sum()), "again": y}

    ours, products = treadle.vjp(pair, Tensor(X), Tensor(W))
    theirs, their_products = tf.vjp(pair, torch.tensor(X), torch.tensor(W))
    same(ours, theirs)
    c = RNG.normal(size=(3, 2)).astype(np.float32)

    def cotangents(kind):
        return {"y": kind(c), "both": (kind(c * 2), kind(np.float32(3))), "again": kind(c)}

    same(products(cotangents(Tensor)), their_products(cotangents(torch.tensor)))
    same(products(cotangents(Tensor)), their_products(cotangents(torch.tensor)))
    moving = RNG.normal(size=(3, 4)).astype(np.float32), RNG.normal(size=(4, 2)).astype(np.float32)
    same(
        treadle.jvp(pair, (Tensor(X), Tensor(W)), tuple(map(Tensor, moving))),
        tf.jvp(pair, (torch.tensor(X), torch.tensor(W)), tuple(map(torch.tensor, moving))),
    )
    value, moved, aux = treadle.jvp(
        lambda x: ((x * 2, x.int()), "aux"), (Tensor(V),), (Tensor(V),), has_aux=True
    )
    assert aux == "aux"
    np.testing.assert_allclose(moved[0].numpy(), 2 * V)
    np.testing.assert_array_equal(moved[1].numpy(), 0)
    assert value[1].dtype is moved[1].dtype is dtypes.int32


FUNCTIONS = {
    "softmax": lambda m, x: x.softmax(-1),
    "logsumexp": lambda m, x: x.logsumexp(1),
    "max": lambda m, x: x.max(1) if m is treadle else x.max(1).values,
    "prod": lambda m, x: x.prod(0),
    "cumsum": lambda m, x: x.cumsum(1) * x,
    "cumprod": lambda m, x: x.cumprod(1),
    "sort": lambda m, x: x.sort(1)[0],
    "topk": lambda m, x: x.topk(2, 1)[0],
    "where": lambda m, x: (x > 0).where(x, x * x) if m is treadle else torch.where(x > 0, x, x * x),
    "erf": lambda m, x: x.erf(),
    "gelu": lambda m, x: x.gelu() if m is treadle else torch.nn.functional.gelu(x),
    "pow": lambda m, x: (x * x + 1) ** x,
    "std": lambda m, x: x.std(1),
    "indexing": lambda m, x: x[[2, 0, 0], 1:] * x[0, 0],
    "flip": lambda m, x: x.flip(0) * x if m is treadle else x.flip([0]) * x,
    "inverse": lambda m, x: (x @ x.T + 3 * eye(m)).inverse(),
    "logdet": lambda m, x: (x @ x.T + eye(m)).logdet(),
    "cholesky": lambda m, x: (
        (x @ x.T + eye(m)).cholesky()
        if m is treadle
        else torch.linalg.cholesky(x @ x.T + torch.eye(3))
    ),
    "singular values": lambda m, x: x.svdvals() if m is treadle else torch.linalg.svdvals(x),
    "windows": lambda m, x: x.unfold(1, 2, 1).square().sum(-1),
}


def eye(m):
    return Tensor.eye(3) if m is treadle else torch.eye(3)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents_batches_and_jacobians_of_an_operation_agree_with_pytorch(name):
    f = FUNCTIONS[name]
    batch = RNG.normal(size=(2, 3, 4)).astype(np.float32)

    def everything(m, x, t, xs):
        api = treadle if m is treadle else tf
        own = lambda x: f(m, x)
        return (
            api.jvp(own, (x,), (t,)),
            api.vmap(own)(xs),
            api.vmap(api.grad(lambda x: own(x).sum()))(xs),
            api.jacfwd(own)(x),
        )

    ours = everything(treadle, *map(Tensor, (X, batch[0], batch)))
    Tensor.realize(*[ours[0][0], ours[0][1], *ours[1:]])
    same(ours, everything(torch, *map(torch.tensor, (X, batch[0], batch))), 2e-4, 2e-5)


# -- Jacobians --------------------------------------------------------------------------------


COMPLEX = {
    "product": (lambda z, w: z * w + z / w, lambda z, w: z * w + z / w),
    "magnitude": (lambda z, w: (z * w).abs(), lambda z, w: (z * w).abs()),
    "functions": (lambda z, w: (z.exp() * w.sin()).sqrt(), lambda z, w: (z.exp() * w.sin()).sqrt()),
    "parts": (lambda z, w: z.real * w.imag + w.conj(), lambda z, w: z.real * w.imag + w.conj()),
    "spectrum": (lambda z, w: (z * w).fft(), lambda z, w: torch.fft.fft(z * w)),
    "matrices": (lambda z, w: z @ w.T, lambda z, w: z @ w.T),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_tangents_gradients_and_batches_agree_with_pytorch(name):
    ours, theirs = COMPLEX[name]
    parts = RNG.normal(size=(2, 4, 3, 5)).astype(np.float32)
    values = parts[0] + 1j * parts[1]
    mine, other = [Tensor(v) for v in values], [torch.from_numpy(v) for v in values]
    got = treadle.jvp(ours, tuple(mine[:2]), tuple(mine[2:]))
    want = torch.func.jvp(theirs, tuple(other[:2]), tuple(other[2:]))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b.resolve_conj().numpy(), 2e-5, 2e-5)
    got = treadle.grad(lambda z, w: ours(z, w).abs().sum(), (0, 1))(*mine[:2])
    want = torch.func.grad(lambda z, w: theirs(z, w).abs().sum(), (0, 1))(*other[:2])
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b.resolve_conj().numpy(), 1e-4, 1e-4)
    batch = [Tensor(np.stack([v, 2 * v])) for v in values[:2]]
    got = treadle.vmap(ours)(*batch).numpy()
    for example, result in enumerate(got):
        alone = ours(*(x[example] for x in batch)).numpy()
        np.testing.assert_allclose(result, alone, 2e-5, 2e-5)


def test_jacobians_in_both_directions_and_of_trees_agree_with_pytorch():
    def f(p, x):
        return {"a": x @ p[0], "b": (p[1] * x.sum()).sin()}

    ours, theirs = [Tensor(W), Tensor(V)], [torch.tensor(W), torch.tensor(V)]
    for name in ("jacrev", "jacfwd"):
        mine = getattr(treadle, name)(f, argnums=(0, 1))(ours, Tensor(X))
        same(mine, getattr(tf, name)(f, argnums=(0, 1))(theirs, torch.tensor(X)))
        found, aux = getattr(treadle, name)(lambda x: (x * 2, "aux"), has_aux=True)(Tensor(V))
        np.testing.assert_array_equal(found.numpy(), 2 * np.eye(4))
        assert aux == "aux"


def test_hessians_agree_with_pytorch():
    def f(x):
        return (x**3).sum() + x.prod()

    same(treadle.hessian(f)(Tensor(V)), tf.hessian(f)(torch.tensor(V)), 1e-4, 1e-5)
    ours = treadle.hessian(loss, argnums=(0, 1))(Tensor(W), Tensor(X))
    same(ours, tf.hessian(loss, argnums=(0, 1))(torch.tensor(W), torch.tensor(X)), 1e-4, 1e-4)
    rows = treadle.vmap(treadle.hessian(f))(Tensor(X))
    same(rows, tf.vmap(tf.hessian(f))(torch.tensor(X)), 1e-4, 1e-5)
    assert treadle.jacrev(lambda x: x * 2)(Tensor.zeros(0)).shape == (0, 0)


# -- batches ----------------------------------------------------------------------------------


def test_examples_lie_along_any_axis_of_any_argument():
    def f(x, p, scale):
        return {"y": (x * p["w"][0]).sum() * scale, "p": p["w"][1] * x}

    x, w, other = X, RNG.normal(size=(4, 3)).astype(np.float32), V

    def run(api, kind):
        args = (kind(x), {"w": (kind(w), kind(other))}, 3.0)
        dims = (0, {"w": (1, None)}, None)
        return api.vmap(f, in_dims=dims, out_dims={"y": 0, "p": -1})(*args)

    same(run(treadle, Tensor), run(tf, torch.tensor))
    both = treadle.vmap(lambda x, y: x * y, in_dims=(1, -1))(Tensor(X), Tensor(w.T))
    np.testing.assert_allclose(both.numpy(), (X * w.T).T, rtol=1e-6)


def test_vmap_nests_with_itself_and_with_derivatives():
    outer = treadle.vmap(treadle.vmap(lambda x, y: (x * y).sum(), (None, 0)), (0, None))
    np.testing.assert_allclose(outer(Tensor(X), Tensor(X)).numpy(), X @ X.T, rtol=1e-4, atol=1e-6)

    def run(api, kind):
        x, w = kind(X), kind(W)
        per_example = api.vmap(api.grad(loss), (None, 0))(w, x)
        of_batch = api.grad(lambda w: api.vmap(layer, (0, None))(x, w).square().sum())(w)
        forward = api.jvp(api.vmap(lambda x: layer(x, w)), (x,), (x,))
        twice = api.vmap(api.jacrev(lambda x: layer(x, w)))(x)
        return per_example, of_batch, forward, twice

    same(run(treadle, Tensor), run(tf, torch.tensor))


def test_places_may_differ_between_examples():
    x, i = RNG.normal(size=(3, 5, 2)).astype(np.float32), np.array([[4, 0], [1, 1], [0, 3]])

    def run(api, kind):
        ours = api is treadle
        xs, places = kind(x), kind(i)
        taken = api.vmap(lambda x, i: x[i])(xs, places)
        shared = api.vmap(lambda i: xs[0][i])(places)

        def added(x, i):
            if ours:
                return Tensor.zeros(5).scatter(0, i, x[:2, 0], reduce="add")
            return torch.zeros(5).scatter_add(0, i, x[:2, 0])

        return taken, shared, api.vmap(added)(xs, places)

    same(run(treadle, Tensor), run(tf, torch.tensor))
    ours = treadle.vmap(lambda x, i: x[i])(Tensor(X), Tensor([3, 0, 1]))
    np.testing.assert_array_equal(ours.numpy(), X[[0, 1, 2], [3, 0, 1]])


def test_layers_work_on_single_examples(device):
    images = RNG.normal(size=(3, 1, 2, 5, 5)).astype(np.float32)
    conv, norm = nn.Conv2d(2, 3, 3), nn.GroupNorm(1, 3)

    def model(x):
        return norm(conv(x)).relu().max_pool2d((2, 2)).sum((2, 3))

    for layer in (conv, norm):
        for name in ("weight", "bias"):
            setattr(layer, name, getattr(layer, name).to(device))
    x = Tensor(images, device=device)
    found = treadle.vmap(model)(x)
    assert found.device == device
    np.testing.assert_allclose(
        found.numpy(), model(x.squeeze(1)).numpy()[:, None], rtol=2e-4, atol=1e-5
    )
    gradient = treadle.vmap(treadle.grad(lambda x: model(x).sum()))(x)
    whole = treadle.grad(lambda x: model(x.squeeze(1)).sum())(x)
    np.testing.assert_allclose(gradient.numpy(), whole.numpy(), rtol=2e-3, atol=1e-4)


def test_random_numbers_are_drawn_as_is_said():
    def noisy(x):
        return x + Tensor.rand(2)

    zeros = Tensor.zeros(4)
    with pytest.raises(UserError, match=r"\[vmap\] the function draws random numbers: .*\"same\""):
        treadle.vmap(noisy)(zeros)
    Tensor.manual_seed(3)
    rows = treadle.vmap(noisy, randomness="different")(zeros).numpy()
    assert len(np.unique(rows)) == 8
    assert len(np.unique(treadle.vmap(noisy, randomness="same")(zeros).numpy())) == 2
    inner = treadle.vmap(noisy, randomness="different")
    nested = treadle.vmap(inner, randomness="same")(Tensor.zeros(3, 4)).numpy()
    assert len(np.unique(nested)) == 8
    nested = treadle.vmap(inner, randomness="different")(Tensor.zeros(3, 4)).numpy()
    assert nested.shape == (3, 4, 2)
    assert len(np.unique(nested)) == 24
    np.testing.assert_array_equal((nested >= 0) & (nested < 1), True)
    Tensor.manual_seed(3)
    np.testing.assert_array_equal(treadle.vmap(noisy, randomness="different")(zeros).numpy(), rows)
    with Tensor.train():
        kept = treadle.vmap(lambda x: x.dropout(0.5), randomness="different")(Tensor.ones(64, 2))
    assert set(np.unique(kept.numpy())) == {0.0, 2.0}


def test_captured_steps_hold_transforms_and_are_plain_inside_of_them():
    @TinyJit
    def step(w, x):
        found = treadle.vmap(treadle.grad(loss), (None, 0))(w, x)
        return (w - found.mean(0) * 0.1).realize()

    w = Tensor(W)
    for k in range(4):
        x = X + np.float32(k)
        expected = tf.vmap(tf.grad(loss), (None, 0))(torch.tensor(W), torch.tensor(x)).mean(0)
        found = step(w, Tensor(x))
        np.testing.assert_allclose(found.numpy(), W - 0.1 * expected.numpy(), rtol=1e-4, atol=1e-5)
    square = TinyJit(lambda x: (x * x).sum())
    for _ in range(3):
        np.testing.assert_allclose(treadle.grad(square)(Tensor(V)).numpy(), 2 * V, rtol=1e-6)
        found = treadle.vmap(square)(Tensor(X)).numpy()
        np.testing.assert_allclose(found, (X * X).sum(1), rtol=1e-5)


def test_sharded_examples_stay_where_they_are():
    devices = ("CPU", "CPU:1")
    x = Tensor(np.concatenate([X, X[:1]])).shard(devices, axis=0)
    w = Tensor(W).shard(devices)
    found = treadle.vmap(layer, (0, None))(x, w)
    assert found.device == devices
    np.testing.assert_allclose(found.numpy()[:3], np.tanh(X @ W), rtol=1e-5)
    gradient = treadle.grad(loss)(w, x)
    expected = treadle.grad(loss)(Tensor(W), Tensor(x.numpy()))
    np.testing.assert_allclose(gradient.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


# -- what cannot be ---------------------------------------------------------------------------


KEPT: list[Tensor] = []


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x.sum().item(),
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x.relu().realize(),
        lambda x: x.unique(),
        lambda x: x[x > 0],
        lambda x: Tensor(x.numpy()),
        lambda x: Tensor.zeros(int(x[0])),
        TinyJit(lambda x: (x * 2).realize()),
    ],
    ids=["item", "if", "realize", "unique", "mask", "numpy", "int", "jit"],
)
def test_what_needs_the_values_of_one_example_is_refused(function):
    with pytest.raises(UserError, match=r"\[vmap\] the values of one example are not known"):
        treadle.vmap(function)(Tensor(X))


def test_what_leaves_vmap_another_way_cannot_be_read():
    treadle.vmap(lambda x: KEPT.append(x * 2) or x)(Tensor(X))
    assert "lazy" in repr(KEPT[0])
    with pytest.raises(UserError, match="what the function keeps for later it must return"):
        KEPT.pop().numpy()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: treadle.vmap(layer)(Tensor(X), Tensor(W)), ShapeError,
         r"args\[0\] of \(3, 4\) has 3 along axis 0, args\[1\] of \(4, 2\) has 4 along axis 0"),
        (lambda: treadle.vmap(layer, (0, None, 0))(Tensor(X), Tensor(W)), UserError,
         "in_dims is a tuple of 3 for a tuple of 2"),
        (lambda: treadle.vmap(layer, None)(Tensor(X), Tensor(W)), UserError,
         "no argument has an axis of examples"),
        (lambda: treadle.vmap(layer)(Tensor(X), 3.0), UserError,
         r"args\[1\], mapped by in_dims 0, is 3.0, a float, where a Tensor"),
        (lambda: treadle.vmap(layer, (True, None))(Tensor(X), Tensor(W)), UserError,
         r"in_dims\[0\] is an axis or None, not True"),
        (lambda: treadle.vmap(layer, (0, 2))(Tensor(X), Tensor(W)), IndexError, "axis 2 does not"),
        (lambda: treadle.vmap(abs)(Tensor(1.0)), ShapeError, "no axis of examples"),
        (lambda: treadle.vmap(abs, randomness="some")(Tensor(X)), UserError, "randomness is"),
        (lambda: treadle.vmap(lambda x: 3)(Tensor(X)), UserError, "the function's result is 3"),
        (lambda: treadle.vmap(abs, out_dims=None)(Tensor(X)), UserError, "differs between"),
        (lambda: treadle.vmap(abs, out_dims=(0, 1))(Tensor(X)), UserError, "out_dims is a tuple"),
        (lambda: treadle.grad(abs)(Tensor(X)), ShapeError, r"gives shape \(3, 4\), and only one"),
        (lambda: treadle.grad(loss, 2)(Tensor(W), Tensor(X)), UserError, "argnums names argument"),
        (lambda: treadle.grad(loss, "w")(Tensor(W), Tensor(X)), UserError, "argnums is a number"),
        (lambda: treadle.grad(abs)(Tensor([1, 2])), DTypeError, r"args\[0\] is int32 of shape"),
        (lambda: treadle.grad(lambda p: p["a"])({"a": 2.0}), UserError,
         r"args\[0\]\['a'\] is 2.0, a float"),
        (lambda: treadle.grad(lambda x: (x > 0).all())(Tensor(X)), DTypeError, "result is bool"),
        (lambda: treadle.grad(lambda x: 2.0)(Tensor(X)), UserError, "result is 2.0, a float"),
        (lambda: treadle.grad(lambda x: x.sum(), has_aux=True)(Tensor(X)), UserError, "has_aux"),
        (lambda: treadle.jvp(abs, Tensor(X), Tensor(X)), UserError, "primals is a tuple"),
        (lambda: treadle.jvp(abs, (Tensor(X),), (Tensor(W),)), ShapeError,
         r"tangents\[0\] has shape \(4, 2\), the primal that it belongs to \(3, 4\)"),
        (lambda: treadle.jvp(abs, (Tensor(X),), ()), UserError, "tangents is a tuple of 0"),
        (lambda: treadle.vjp(abs, Tensor(X))[1](Tensor(W)), ShapeError, "cotangents has shape"),
        (lambda: treadle.vjp(abs, Tensor(X))[1]((Tensor(X),)), UserError, "a tuple of 1 for one"),
        (lambda: treadle.jacrev(lambda x: x.int())(Tensor(X)), DTypeError, "result is int32"),
        (lambda: treadle.jacfwd(abs)(Tensor([1j])), DTypeError, "is complex64 of shape"),
        (lambda: treadle.grad(lambda x: x.sum())(Tensor([1j])), DTypeError, "result is complex64"),
    ],
)  # fmt: skip
def test_a_mistake_is_named(call, error, text):
    with pytest.raises(error, match=text):
        call()
