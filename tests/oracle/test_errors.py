"""Errors of float32 results against float64 are no larger than PyTorch's own."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install treadle[oracle]")

from torch.nn import functional as F  # noqa: E402

from treadle import Tensor, nn  # noqa: E402
from treadle.errors import DeviceError  # noqa: E402

RANDOM = np.random.default_rng(11)
CHANCE = 1.1  # two libraries that round in different orders differ by that
LEAST = 0.1  # of float32's spacing: below it the last rounding decides


def normal(*shape, mean=0.0):
    return (RANDOM.standard_normal(shape) + mean).astype(np.float32)


def positive(*shape):
    return RANDOM.random(shape, np.float32)


def same(function):
    return function, function


def attention(causal):
    return (
        lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=causal),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
    )


def conv(**how):
    return lambda x, w: x.conv2d(w, **how), lambda x, w: F.conv2d(x, w, **how)


PRODUCT = same(lambda a, b: a @ b)
CASES = {
    **{
        f"matmul {m}x{k}x{n}": (PRODUCT, (normal(m, k), normal(k, n)))
        for m, k, n in ((256, 256, 256), (300, 1024, 300), (100, 999, 101), (64, 4096, 256),
                        (512, 4096, 1), (1, 4096, 512))
    },
    "matmul of positive numbers": (PRODUCT, (positive(200, 1024), positive(1024, 200))),
    "matmul transposed": (same(lambda a, b: a.T @ b), (normal(1024, 200), normal(1024, 200))),
    "batched matmul": (PRODUCT, (normal(8, 128, 512), normal(8, 512, 64))),
    "conv 3x3": (conv(padding=1), (normal(2, 64, 28, 28), normal(64, 64, 3, 3))),
    "conv of few channels": (conv(padding=1), (normal(2, 32, 28, 28), normal(32, 32, 3, 3))),
    "conv 1x1": (conv(), (normal(2, 256, 28, 28), normal(64, 256, 1, 1))),
    "conv 5x5": (conv(padding=2), (normal(2, 32, 28, 28), normal(64, 32, 5, 5))),
    "conv 7x7": (
        conv(padding=3, stride=2), (normal(2, 3, 112, 112), normal(64, 3, 7, 7)),
    ),
    "conv dilated": (conv(padding=2, dilation=2), (normal(2, 64, 28, 28), normal(64, 64, 3, 3))),
    "conv depthwise": (conv(groups=64), (normal(2, 64, 28, 28), normal(64, 1, 3, 3))),
    "attention": (attention(False), (normal(1, 4, 512, 64),) * 3),
    "attention, causal": (attention(True), (normal(1, 4, 512, 64),) * 3),
    **{
        f"{name} of {shape} along {axis}": (
            same(lambda x, name=name, axis=axis: getattr(x, name)(axis)),
            (make(*shape),),
        )
        for name in ("sum", "mean", "softmax", "log_softmax", "logsumexp")
        for make, shape, axis in (
            (normal, (1000, 1024), 0), (normal, (1000, 1024), 1), (positive, (50, 30000), 1),
        )
    },
    **{
        f"{name} of {kind} columns {rows}x{columns}": (
            same(lambda x, name=name: getattr(x, name)(0)), (make(rows, columns),)
        )
        for name in ("sum", "var")
        for kind, make in (("normal", normal), ("positive", positive))
        for rows, columns in ((30000, 50), (30000, 300), (100000, 16), (2000, 128))
    },
    **{
        f"{name} along {axis} around {mean}": (
            same(lambda x, name=name, axis=axis: getattr(x, name)(axis)),
            (normal(1000, 1024, mean=mean),),
        )
        for name in ("var", "std")
        for axis in (0, 1, None)
        for mean in (0, 10, 1000)
    },
    "cumsum along columns": (same(lambda x: x.cumsum(0)), (normal(2000, 300),)),
    "cumsum along columns of wide rows": (same(lambda x: x.cumsum(0)), (normal(1000, 4096),)),
    "cumprod": (same(lambda x: x.cumprod(1)), (normal(50, 5000, mean=100) / np.float32(100),)),
    "layer norm": (
        (lambda x: x.layernorm(), lambda x: F.layer_norm(x, x.shape[-1:])),
        (normal(200, 4096, mean=3),),
    ),
    "RMS norm": (
        (lambda x: nn.RMSNorm(4096, eps=1e-5)(x), lambda x: F.rms_norm(x, (4096,), eps=1e-5)),
        (normal(200, 4096),),
    ),
}  # fmt: skip
GRADIENTS = [
    name
    for name in CASES
    if name.startswith(("matmul", "conv", "attention", "soft", "layer", "RMS"))
]


def error(found, exact):
    """The root mean square of the errors, in spacings of float32 at that of the results."""
    exact = np.asarray(exact, np.float64)
    size = np.sqrt(np.mean(exact**2))
    return np.sqrt(np.mean((np.asarray(found, np.float64) - exact) ** 2)) / size * 2**24


def check(found, theirs, exact):
    assert error(found, exact) <= CHANCE * error(theirs, exact) + LEAST


@pytest.mark.parametrize("name", CASES)
def test_values_are_as_close_as_those_of_pytorch(name):
    (ours, theirs), arrays = CASES[name]
    found = ours(*(Tensor(a, device="CPU") for a in arrays)).numpy()
    kinds = (torch.float32, torch.float64)
    check(found, *(theirs(*(torch.tensor(a, dtype=kind) for a in arrays)) for kind in kinds))


# What hardly varies rounds alike step by step, and normalisations divide by how little it varies.
ALIKE = {
    "equal": lambda *shape: np.broadcast_to(positive(shape[-1]) + np.float32(0.1), shape).copy(),
    "nearly equal": lambda *shape: 1 + normal(*shape) / np.float32(1000),
    "around 100": lambda *shape: normal(*shape, mean=100),
    "positive": positive,
}
NORMS = {
    "sum": lambda x, axis: x.sum(axis),
    "mean square": lambda x, axis: (x * x).mean(axis),
    "RMS": lambda x, axis: x * ((x * x).mean(axis, keepdim=True) + 1e-6).rsqrt(),
    "softmax": lambda x, axis: x.softmax(axis),
    "variance": lambda x, axis: x.var(axis),
    "normal": lambda x, axis: (x - x.mean(axis, keepdim=True)) * (
        (x - x.mean(axis, keepdim=True)).square().mean(axis, keepdim=True) + 1e-5
    ).rsqrt(),
}  # fmt: skip
TIMES = 4  # the largest error may be so many times PyTorch's
DEVICES = ("CPU", "CPU:LLVM:x86-64-v3", "CPU:LLVM:x86-64-v2", "CL")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("kind", ALIKE)
def test_sums_of_terms_that_round_alike_are_nearly_as_close_as_those_of_pytorch(kind, name, device):
    """Values and gradients. The largest of several shapes count, as one shape may be lucky."""
    worst = {what: [0.0, 0.0] for what in ("values", "gradients")}
    for axis, shape in (
        (0, (33, 64)), (0, (64, 16)), (0, (100, 300)), (0, (130, 64)), (0, (160, 300)),
        (0, (161, 16)), (1, (40, 130)), (1, (64, 160)), (1, (300, 100)), (1, (5, 1000)),
    ):  # fmt: skip
        array = ALIKE[kind](*shape).astype(np.float32)
        weights = normal(*shape)

        def theirs(dtype, array=array, weights=weights, axis=axis):
            x = torch.tensor(array, dtype=dtype, requires_grad=True)
            y = NORMS[name](x, axis)
            given = torch.tensor(np.resize(weights, y.shape), dtype=dtype)
            (gradient,) = torch.autograd.grad(y, x, given)
            return y.detach().numpy(), gradient.numpy()

        try:
            x = Tensor(array, device=device)
            y = NORMS[name](x, axis)
            given = Tensor(np.resize(weights, y.shape), device=device)
            (gradient,) = (y * given).sum().gradient(x)
            found = y.numpy(), gradient.numpy()
        except DeviceError as error:
            pytest.skip(str(error))
        several = zip(worst, found, theirs(torch.float32), theirs(torch.float64), strict=True)
        for what, mine, other, exact in several:
            # Where an exact result is all but 0, the roundings of what it was made of count.
            size = max(np.abs(exact).max(), 1.0)
            for place, one in enumerate((mine, other)):
                off = np.abs(one - exact).max() / size
                worst[what][place] = max(worst[what][place], off)
    for what, (mine, other) in worst.items():
        assert mine <= TIMES * other + 2**-24, what


@pytest.mark.parametrize("steps", [1000, 20_000, 300_000])
@pytest.mark.parametrize("make", [normal, positive])
def test_totals_along_rows_are_off_by_about_one_rounding_however_long_they_are(make, steps):
    x = make(10, steps)
    exact = np.cumsum(x.astype(np.float64), 1)
    assert error(Tensor(x, device="CPU").cumsum(1).numpy(), exact) <= 2


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_as_close_as_those_of_pytorch(name):
    (ours, theirs), arrays = CASES[name]

    def gradients(kind):
        xs = [torch.tensor(a, dtype=kind, requires_grad=True) for a in arrays]
        y = theirs(*xs)
        return torch.autograd.grad(y, xs, torch.tensor(weights, dtype=kind))

    xs = [Tensor(a, device="CPU") for a in arrays]
    y = ours(*xs)
    weights = RANDOM.standard_normal(y.shape).astype(np.float32)
    found = (y * Tensor(weights, device="CPU")).sum().gradient(*xs)
    for mine, other, exact in zip(
        found, gradients(torch.float32), gradients(torch.float64), strict=True
    ):
        check(mine.numpy(), other, exact)
