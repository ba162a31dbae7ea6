"""Random networks and their gradients: float32 is nearly as close to float64 as PyTorch's is.

    rms -> conv -> + linear -> softmax of a triangle      values, gradients to input and weights

Layers are formulas that both libraries compute, so that both have to add up the same numbers. Rows
of some networks hardly vary: their terms round alike, and normalisations divide by how little they
vary.

A gradient may be nothing but rounding: that of attention's weights, say, where all rows have become
alike. No library is near it then, and which of two is nearer is luck. What any library has to lose
is found by Monte Carlo arithmetic (Parker, 1997): PyTorch computes in float64, and what each of its
operations makes, forward and backward, is off by half a unit in the last place of float32.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install treadle[oracle]")

from torch.nn import functional as F  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from treadle import Tensor, TinyJit  # noqa: E402

SIZES = (20, 31, 32, 33, 48, 64, 65, 100, 130, 150, 160, 161, 200, 333, 512, 1000)
MOST = 40_000  # elements of a layer's input
TIMES = 4  # the largest error may be so many times PyTorch's,
LEAST = 8 * 2.0**-23  # or so much of the largest element, where PyTorch's rounding was lucky
HALF_A_UNIT = 2.0**-24
DRAWS = 4  # of what any library has to lose
CALLS = 4  # of a captured function, of which the last two are replays
KINK = 1e-5  # closer to 0 rounding decides which side of `relu` a value is on
FULL = "FULL_TESTS" in os.environ
CASES = [
    (device, seed)
    for device, few, all_ in (("CPU", 4, 800), ("CPU:LLVM:x86-64-v2", 2, 400))
    for seed in range(all_ if FULL else few)
]


class Ours:
    """What PyTorch calls by other names."""

    def gelu(self, x):
        return x.gelu(approximate="none")

    def conv(self, x, weight):
        return x.conv2d(weight, padding=weight.shape[-1] // 2)

    def relu(self, x):
        return x.relu()


class Theirs:
    """The same of PyTorch, which finds out whether rounding may decide about gradients."""

    def __init__(self) -> None:
        self.closest = np.inf  # to 0, of the inputs of `relu`, in units of the largest

    def gelu(self, x):
        return F.gelu(x)

    def conv(self, x, weight):
        return F.conv2d(x, weight, padding=weight.shape[-1] // 2)

    def relu(self, x):
        sizes = x.detach().abs()
        sizes = sizes[sizes > 0]
        if sizes.numel():
            self.closest = min(self.closest, float(sizes.min() / sizes.max()))
        return x.relu()


class OffAtRandom(TorchDispatchMode):
    """What operations make is off by half a unit in the last place of float32, up or down."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if any(one.alias_info is not None for one in func._schema.returns):
            return made  # a view
        if isinstance(made, torch.Tensor):
            return self._off(made)
        is_several = isinstance(made, tuple)
        return tuple(map(self._off, made)) if is_several else made

    def _off(self, x):
        if not (isinstance(x, torch.Tensor) and x.is_floating_point()):
            return x
        signs = torch.randint(0, 2, x.shape, generator=self.generator) * 2 - 1
        return x * (1 + HALF_A_UNIT * signs)


def normal(x, axis):
    apart = x - x.mean(axis, keepdim=True)
    return apart * (apart.square().mean(axis, keepdim=True) + 1e-5).rsqrt()


def rms(x, axis):
    return x * (x.square().mean(axis, keepdim=True) + 1e-6).rsqrt()


def attention(x, query, key):
    scores = (x @ query) @ (x @ key).transpose(-1, -2)
    return scores.softmax(-1) @ x


def convolution(lib, x, first, second):
    y = lib.conv(lib.conv(x.reshape(1, 1, *x.shape), first), second)
    return y.reshape(*x.shape)


Layer = Callable[..., object]
BY_AXIS: dict[str, Layer] = {
    "normal": normal,
    "rms": rms,
    "softmax": lambda x, axis: x.softmax(axis) * x.shape[axis],
    "less the mean": lambda x, axis: x - x.mean(axis, keepdim=True),
    "by the variance": lambda x, axis: x * (x.var(axis, keepdim=True) + 0.1).rsqrt(),
    "by the sum": lambda x, axis: x / (x.square().sum(axis, keepdim=True) + 1).sqrt(),
}
ELEMENTWISE: dict[str, Layer] = {
    "gelu": lambda lib, x: lib.gelu(x),
    "relu": lambda lib, x: lib.relu(x),
    "tril": lambda lib, x: x.tril(),
    "tanh": lambda lib, x: x.tanh(),
    "around 1": lambda lib, x: x * 0.01 + 1,
}


@dataclass
class Network:
    """Names of layers, of which some take an axis, and the arrays that each of them takes."""

    layers: list[tuple[str, int, bool, list[int]]]
    arrays: list[np.ndarray]

    def __call__(self, lib: Ours | Theirs, *tensors):
        x = tensors[0]
        for name, axis, is_residual, places in self.layers:
            y = self._layer(lib, name, axis, x, [tensors[place] for place in places])
            x = x + y if is_residual and y.shape == x.shape else y
        return x

    def _layer(self, lib: Ours | Theirs, name, axis, x, weights):
        if name in BY_AXIS:
            return BY_AXIS[name](x, axis)
        if name in ELEMENTWISE:
            return ELEMENTWISE[name](lib, x)
        if name == "conv":
            return convolution(lib, x, *weights)
        if name == "attention":
            return attention(x, *weights)
        assert name == "linear"
        weight, bias = weights
        return x @ weight + bias


def network(rng: np.random.Generator) -> Network:
    rows, columns = shape(rng)
    x = rng.standard_normal((rows, columns))
    if rng.random() < 0.4:  # rows or columns that hardly vary
        x = 0.001 * x + rng.random((rows, 1) if rng.random() < 0.5 else (1, columns)) + 0.5
    net = Network([], [x.astype(np.float32)])
    names = [*BY_AXIS, *ELEMENTWISE, "linear", "linear", "conv", "attention"]
    for name in rng.choice(names, rng.integers(2, 7)):
        weights = []
        if name == "linear":
            fits = [n for n in SIZES if rows * n <= MOST]
            columns, before = int(rng.choice(fits)), columns
            weights = [(before, columns), (columns,)]
        if name == "attention":
            weights = [(columns, 32), (columns, 32)]
        if name == "conv":
            weights = [(3, 1, 3, 3), (1, 3, 7, 7)]
        places = list(range(len(net.arrays), len(net.arrays) + len(weights)))
        for sizes in weights:
            steps = sizes[0] if len(sizes) == 2 else int(np.prod(sizes[1:]))
            weight = rng.standard_normal(sizes) / steps**0.5
            net.arrays.append(weight.astype(np.float32))
        net.layers.append((str(name), int(rng.integers(2)), rng.random() < 0.3, places))
    return net


def shape(rng: np.random.Generator) -> tuple[int, int]:
    while True:
        rows, columns = map(int, rng.choice(SIZES, 2))
        if rows * columns <= MOST:
            return rows, columns


def theirs(net: Network, given: np.ndarray | None, dtype) -> tuple[list[np.ndarray], float]:
    lib = Theirs()
    tensors = [torch.tensor(a, dtype=dtype, requires_grad=True) for a in net.arrays]
    y = net(lib, *tensors)
    by = torch.ones_like(y) if given is None else torch.tensor(given, dtype=dtype)
    gradients = torch.autograd.grad(y, tensors, by)
    return [t.detach().numpy() for t in (y, *gradients)], lib.closest


def ours(net: Network, several: Sequence[np.ndarray], device: str) -> Iterator[list[np.ndarray]]:
    """What a captured function finds for each of several gradients: at once, recorded, replayed."""

    def results(*tensors: Tensor) -> tuple[Tensor, ...]:
        *inputs, by = tensors
        y = net(Ours(), *inputs)
        return tuple(t.realize() for t in (y, *(y * by).sum().gradient(*inputs)))

    captured = TinyJit(results)
    inputs = [Tensor(a, device=device).realize() for a in net.arrays]
    for given in several:
        found = captured(*inputs, Tensor(given, device=device).realize())
        yield [t.numpy() for t in found]


def errors(found: Sequence[np.ndarray], exact: Sequence[np.ndarray]) -> list[float]:
    return [
        float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-30))
        for one, other in zip(found, exact, strict=True)
    ]


def lost(net: Network, given: np.ndarray, exact: Sequence[np.ndarray]) -> np.ndarray:
    """The largest errors of float64 whose operations each lose what storing float32 loses."""
    found = []
    for seed in range(DRAWS):
        with OffAtRandom(seed):
            found.append(errors(theirs(net, given, torch.float64)[0], exact))
    return np.max(found, 0)


def check(net: Network, rng: np.random.Generator, device: str) -> None:
    """The largest errors for several gradients count: where terms cancel, PyTorch is lucky once."""
    shape_of_y = theirs(net, None, torch.float32)[0][0].shape
    several = [rng.standard_normal(shape_of_y).astype(np.float32) for _ in range(CALLS)]
    mine, other, any_library = [], [], []
    for given, found in zip(several, ours(net, several, device), strict=True):
        exact, closest = theirs(net, given, torch.float64)
        mine.append(errors(found, exact))
        other.append(errors(theirs(net, given, torch.float32)[0], exact))
        any_library.append(lost(net, given, exact))
    compared = 1 if closest < KINK else len(exact)
    off = np.max(mine, 0)[:compared]
    bounds = np.max([*other, *any_library], 0)[:compared] * TIMES
    wrong = off > np.maximum(bounds, LEAST)
    assert not wrong.any(), (net.layers, off, bounds)


@pytest.mark.parametrize(("device", "seed"), CASES)
def test_random_networks_are_nearly_as_close_as_those_of_pytorch(device, seed):
    rng = np.random.default_rng(seed)
    check(network(rng), rng, device)


@pytest.mark.parametrize(
    ("shape", "names"),
    [
        ((160, 33), ("rms",)),
        ((160, 33), ("by the sum", "tril")),
        ((100, 300), ("gelu", "relu", "tril", "normal")),
    ],
)
def test_columns_of_equal_numbers_are_nearly_as_close_as_those_of_pytorch(shape, names):
    rng = np.random.default_rng(shape[0])
    rng.standard_normal(shape)
    x = np.broadcast_to((rng.random((1, shape[1])) + 0.5).astype(np.float32), shape).copy()
    check(Network([(name, 0, False, []) for name in names], [x]), rng, "CPU")
