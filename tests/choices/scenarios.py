"""Programs that reach what the engine chooses: captured calls, loops, assignments, variables.

`SCENARIOS[name](device)` runs one, and compares it with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treadle import Context, Device, Tensor, TinyJit, Variable, nn
from treadle.errors import DeviceError
from treadle.target import parse_target

from .planted import planted

__all__ = ["SCENARIOS", "opens"]

SCENARIOS: dict[str, Callable[[str], None]] = {}


def scenario(run: Callable[[str], None]) -> Callable[[str], None]:
    """Put `run` into the table under its name."""
    SCENARIOS[run.__name__] = run
    return run


def _numbers(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return planted(rng, rng.standard_normal(shape).astype(np.float32), True)


def _close(found: Tensor, expected: Any) -> None:
    expected = np.asarray(expected)
    allowed = 2e-4 * max(1.0, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=allowed)


@scenario
def captured_network(device: str) -> None:
    """Weights that last are packed once; a write to them packs them anew."""
    w, v = _numbers(160, 160), _numbers(160, 128, seed=1)
    a, b = (Tensor(array, device=device).realize() for array in (w, v))
    step = TinyJit(lambda x: (x @ a).relu() @ b)
    for number in range(5):
        x = _numbers(64, 160, seed=number + 2)
        _close(step(Tensor(x, device=device).realize()), np.maximum(x @ w, 0) @ v)
        if number == 3:
            a.assign(a * 0.5).realize()
            w = w * 0.5


@scenario
def captured_cell(device: str) -> None:
    """A cell of two products, the factor of one of which lasts."""
    w, u = _numbers(64, 128), _numbers(64, 128, seed=1)
    a, b = (Tensor(array, device=device).realize() for array in (w, u))

    @TinyJit
    def step(x: Tensor, h: Tensor, scale: Tensor) -> Tensor:
        s = x @ a + h @ (b * scale).contiguous()
        return s[:, :64].sigmoid() * s[:, 64:].tanh()

    for number in range(4):
        x, h = _numbers(48, 64, seed=number + 2) / 8, _numbers(48, 64, seed=number + 7) / 8
        scale = np.full((1,), number + 1, np.float32)
        s = x @ w + h @ (u * scale)
        arrays = (Tensor(array, device=device).realize() for array in (x, h, scale))
        _close(step(*arrays), np.tanh(s[:, 64:]) / (1 + np.exp(-s[:, :64])))


@scenario
def captured_cell_of_large_panels(device: str) -> None:
    """The same, with panels larger than the first-level cache where that is of a few KiB."""
    gated = lambda s: s[:, :128].sigmoid() * s[:, 128:].tanh()
    _large_panels(device, gated, lambda s: np.tanh(s[:, 128:]) / (1 + np.exp(-s[:, :128])))


@scenario
def captured_sum_of_large_panels(device: str) -> None:
    """The same without gates, so that more of a tile's registers go along a row."""
    _large_panels(device, Tensor.tanh, np.tanh)


def _large_panels(
    device: str, cell: Callable[[Tensor], Tensor], of_numpy: Callable[[np.ndarray], np.ndarray]
) -> None:
    w, u = (_numbers(256, 256, seed=seed) / 16 for seed in range(2))
    a, b = (Tensor(array, device=device).realize() for array in (w, u))
    step = TinyJit(lambda x, h, scale: cell(x @ a + h @ (b * scale).contiguous()))
    for number in range(3):
        x, h = _numbers(130, 256, seed=number + 2), _numbers(130, 256, seed=number + 7)
        scale = np.full((1,), number + 1, np.float32)
        arrays = (Tensor(array, device=device).realize() for array in (x, h, scale))
        _close(step(*arrays), of_numpy(x @ w + h @ (u * scale)))


@scenario
def captured_training(device: str) -> None:
    """A step that assigns to its weights, called with other inputs."""
    w = _numbers(48, 1) * 0.1
    weight = Tensor(w.copy(), device=device).realize()
    weight.requires_grad_()
    optimiser = nn.optim.SGD([weight], lr=0.1)

    @TinyJit
    def step(x: Tensor, y: Tensor) -> Tensor:
        with Tensor.train():
            optimiser.zero_grad()
            loss = ((x @ weight - y) ** 2).mean()
            loss.backward()
            optimiser.step()
        return loss.realize()

    for number in range(5):
        x, y = _numbers(64, 48, seed=number), _numbers(64, 1, seed=number + 9)
        loss = step(Tensor(x, device=device).realize(), Tensor(y, device=device).realize())
        error = x @ w - y
        _close(loss, (error**2).mean())
        w = w - 0.1 * 2 * x.T @ error / len(x)
    _close(weight, w)


@scenario
def recurrence(device: str) -> None:
    """A cell whose products with the sequence are computed in its steps."""
    steps, rows, size = 6, 32, 64
    xs, h = _numbers(steps, rows, size), _numbers(rows, size, seed=1)
    w, u = _numbers(size, size, seed=2) / 8, _numbers(size, size, seed=3) / 8
    cell = nn.RNN(size, size, bias=False)
    names = {"weight_ih_l0": w.T, "weight_hh_l0": u.T}
    nn.state.load_state_dict(
        cell, {name: Tensor(array.copy()) for name, array in names.items()}, verbose=False
    )
    for parameter in nn.state.get_parameters(cell):
        parameter.to_(device).realize()
    x = Tensor(xs, device=device).realize()
    x.requires_grad_()
    out, last = cell(x, Tensor(h[None], device=device))
    states, expected = h, []
    for step in range(steps):
        states = np.tanh(xs[step] @ w + states @ u)
        expected.append(states)
    _close(last.reshape(rows, size), states)
    out.sum().backward()
    Tensor.realize(out, x.grad, *(p.grad for p in nn.state.get_parameters(cell) if p.grad))
    _close(out, np.stack(expected))


@scenario
def recurrence_at_once(device: str) -> None:
    """Its states and its gradients, computed together."""
    cell, xs = nn.RNN(32, 32, bias=False), _numbers(5, 16, 32)
    for parameter in nn.state.get_parameters(cell):
        parameter.to_(device).realize()
    x = Tensor(xs, device=device).realize()
    x.requires_grad_()
    w, u = (p.numpy() for p in nn.state.get_parameters(cell))
    out, _ = cell(x)
    out.sum().backward()
    Tensor.realize(out, x.grad)
    state, expected = np.zeros((16, 32), np.float32), []
    for row in xs:
        state = np.tanh(row @ w.T + state @ u.T)
        expected.append(state)
    _close(out, np.stack(expected))
    slope, slopes = np.zeros_like(state), []
    for state in reversed(expected):
        inner = (1 + slope) * (1 - state * state)
        slopes.append(inner @ w)
        slope = inner @ u
    _close(x.grad, np.stack(slopes[::-1]))


@scenario
def gated_recurrence(device: str) -> None:
    """A cell that saves for its gradient what its steps compute, beside the interpreter."""
    xs, found = _numbers(5, 16, 24), []
    start = nn.state.get_state_dict(nn.GRU(24, 32))
    start = {name: tensor.numpy() for name, tensor in start.items()}
    for where in (device, "REF"):
        cell = nn.GRU(24, 32)
        state = {name: Tensor(array, device=where) for name, array in start.items()}
        nn.state.load_state_dict(cell, state, verbose=False)
        for parameter in nn.state.get_parameters(cell):
            parameter.to_(where).realize()
        x = Tensor(xs, device=where).realize()
        x.requires_grad_()
        out, _ = cell(x)
        (out * out).sum().backward()
        Tensor.realize(out, x.grad)
        found.append((out.numpy(), x.grad.numpy()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5)


@scenario
def captured_recurrence(device: str) -> None:
    """A loop in a captured step that assigns to the loop's weights behind it."""
    xs = _numbers(6, 32, 96)
    w = _numbers(96, 96, seed=1) / 10
    u = Tensor(w.copy(), device=device).realize()
    cell = nn.RNN(96, 96, bias=False)
    for parameter in nn.state.get_parameters(cell):
        parameter.to_(device).realize()
    x_weight, _ = nn.state.get_parameters(cell)
    first = x_weight.numpy()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        cell.weight_hh_l0 = u
        last = cell(x)[1].reshape(32, 96).realize()
        u.assign(u * 0.5).realize()
        return last

    for _ in range(4):
        state = np.zeros((32, 96), np.float32)
        for row in xs:
            state = np.tanh(row @ first.T + state @ w.T)
        _close(step(Tensor(xs, device=device).realize()), state)
        w = w * 0.5


@scenario
def last_state(device: str) -> None:
    """A loop of which only the last state is wanted."""
    xs = _numbers(8, 16, 40)
    cell = nn.RNN(40, 40, bias=False)
    for parameter in nn.state.get_parameters(cell):
        parameter.to_(device).realize()
    w, u = (p.numpy() for p in nn.state.get_parameters(cell))
    state = np.zeros((16, 40), np.float32)
    for x in xs:
        state = np.tanh(x @ w.T + state @ u.T)
    _close(cell(Tensor(xs, device=device).realize())[1].reshape(16, 40), state)


@scenario
def size_at_launch(device: str) -> None:
    """A sum over as many elements as a variable says."""
    x = _numbers(24, 100)
    t = Tensor(x, device=device).realize()
    for count in (3, 99):
        n = Variable("count", 1, 100).bind(count)
        _close((t[:, :n].exp()).sum(1), np.exp(x[:, :count]).sum(1))


@scenario
def product_of_sizes_at_launch(device: str) -> None:
    """A product of as many rows, and a sum over as many rows and columns, as variables say."""
    x, w = _numbers(60, 70, 24), _numbers(24, 40, seed=1)
    t, v = (Tensor(array, device=device).realize() for array in (x, w))
    for rows, columns in ((2, 70), (60, 3), (33, 64)):
        shown = t[: Variable("rows", 1, 60).bind(rows), : Variable("columns", 1, 70).bind(columns)]
        exact = x[:rows, :columns].astype(np.float64)
        _close(shown @ v, exact @ w)
        _close(shown.sum((0, 1)), exact.sum((0, 1)))


@scenario
def overwritten_while_read(device: str) -> None:
    """A tensor becomes its own mirror image, and the old one is asked for."""
    x = _numbers(60, 40)
    t = Tensor(x, device=device).realize()
    t.assign(t.flip(0) + t.cumsum(0)).realize()
    _close(t, x[::-1] + x.cumsum(0))


@scenario
def two_that_swap(device: str) -> None:
    """Each of two tensors is assigned what the other held."""
    x, y = _numbers(70), _numbers(70, seed=1)
    a, b = (Tensor(array, device=device).realize() for array in (x, y))
    old = a + 0
    a.assign(b.flip(0) * 2)
    b.assign(old.flip(0) + a)
    Tensor.realize(a, b)
    _close(a, y[::-1] * 2)
    _close(b, x[::-1] + y[::-1] * 2)


@scenario
def complex_product(device: str) -> None:
    """A product of complex matrices."""
    x, y = (_numbers(40, 50) + 1j * _numbers(40, 50, seed=1)), _numbers(50, 30) * (1 - 2j)
    x, y = x.astype(np.complex64), y.astype(np.complex64)
    found = Tensor(x, device=device) @ Tensor(y, device=device)
    np.testing.assert_allclose(found.numpy(), x @ y, rtol=0, atol=1e-2)


@scenario
def many_tensors(device: str) -> None:
    """A sum of more tensors than some devices bind at once."""
    parts = [_numbers(500, seed=number) for number in range(14)]
    tensors = [Tensor(part, device=device).realize() for part in parts]
    total = tensors[0]
    for tensor in tensors[1:]:
        total = (total * 0.9 + tensor).tanh()
    expected = parts[0]
    for part in parts[1:]:
        expected = np.tanh(expected * 0.9 + part)
    _close(total, expected)


@scenario
def in_textures(device: str) -> None:
    """Intermediate results in textures, where there are any."""
    if not Device[device].target.max_image:
        return
    x, w = _numbers(64, 64), _numbers(64, 64, seed=1)
    with Context(IMAGE=1):
        a = Tensor(x, device=device).realize() @ Tensor(w, device=device).realize()
        _close(a.relu() @ Tensor(w, device=device), np.maximum(x @ w, 0) @ w)


@scenario
def half_attention(device: str) -> None:
    """Attention of halves and its gradients, which matrix units compute: at once, and after it."""
    for t, d, is_computed_before in ((64, 32, True), (128, 64, False), (96, 128, True)):
        numbers = [_numbers(t, d, seed=n).astype(np.float16) for n in range(4)]
        q, k, v, weights = (x.astype(np.float64) for x in numbers)
        scores = np.where(np.tril(np.ones((t, t), bool)), q @ k.T / np.sqrt(d), -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        shares = e / e.sum(-1, keepdims=True)
        slopes = weights @ v.T
        slopes = shares * (slopes - (slopes * shares).sum(-1, keepdims=True)) / np.sqrt(d)
        right = shares @ v, slopes @ k, slopes.T @ q, shares.T @ weights
        tensors = [Tensor(x[None, None], device=device).realize() for x in numbers]
        for tensor in tensors[:3]:
            tensor.requires_grad_()
        values = tensors[0].scaled_dot_product_attention(*tensors[1:3], is_causal=True)
        if is_computed_before:
            values.realize()
        (values * tensors[3]).sum().backward()
        found = [values, *(tensor.grad for tensor in tensors[:3])]
        Tensor.realize(*found)
        for one, expected in zip(found, right, strict=True):
            allowed = 4 * np.finfo(np.float16).eps * max(1.0, np.abs(expected).max())
            np.testing.assert_allclose(one.float().numpy()[0, 0], expected, rtol=0, atol=allowed)


@scenario
def attention_of_shared_heads(device: str) -> None:
    """Several heads of queries share one of keys, some of which a mask hides; gradients of all
    operands, or of one of them; a result that is transposed.
    """
    heads, groups, queries, keys, width = 4, 2, 190, 261, 24
    q, g = _numbers(heads, queries, width, seed=1), _numbers(heads, queries, width, seed=2)
    k, v = _numbers(groups, keys, width, seed=3), _numbers(groups, keys, width, seed=4)
    seen = np.random.default_rng(5).random((queries, keys)) < 0.7
    seen[7] = False  # a row that is allowed nothing
    share = lambda x: np.repeat(x.astype(np.float64), heads // groups, axis=0)
    scores = np.where(seen, q @ share(k).swapaxes(1, 2) / np.sqrt(width), -np.inf)
    e = np.exp(scores - np.maximum(scores.max(-1, keepdims=True), -1e30))
    shares = e / np.maximum(e.sum(-1, keepdims=True), 1e-30)
    slopes = g @ share(v).swapaxes(1, 2)
    slopes = shares * (slopes - (slopes * shares).sum(-1, keepdims=True)) / np.sqrt(width)
    both = lambda x: x.reshape(groups, heads // groups, keys, width).sum(1)
    right = {
        "values": (shares @ share(v)).swapaxes(1, 2),
        "q": slopes @ share(k),
        "k": both(slopes.swapaxes(1, 2) @ q),
        "v": both(shares.swapaxes(1, 2) @ g),
    }
    of = lambda x: Tensor(x[None], device=device).realize()
    tensors, mask, arriving = {"q": of(q), "k": of(k), "v": of(v)}, of(seen[None]), of(g)

    for names in (("q", "k", "v"), ("v",), ("k",)):
        values = Tensor.scaled_dot_product_attention(
            *tensors.values(), attn_mask=mask[0], enable_gqa=True
        )
        gradients = values.gradient(*(tensors[name] for name in names), gradient=arriving)
        found = dict(zip(names, gradients, strict=True))
        if len(names) == len(tensors):
            found["values"] = values.transpose(2, 3).contiguous()
        Tensor.realize(*found.values())
        for name, one in found.items():
            allowed = 2e-6 * np.abs(right[name]).max()
            np.testing.assert_allclose(one.numpy()[0], right[name], rtol=0, atol=allowed)


@scenario
def products_of_many_steps(device: str) -> None:
    """Products with few results, which chunks of their steps share."""
    for kind in (np.float32, np.float16):
        x = (0.1 * _numbers(32, 40_000, seed=1)).astype(kind)
        y = (0.1 * _numbers(40_000, 32, seed=2)).astype(kind)
        found = (Tensor(x, device=device).realize() @ Tensor(y, device=device).realize()).relu()
        expected = np.maximum(x.astype(np.float64) @ y.astype(np.float64), 0)
        terms = np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64)
        allowed = np.finfo(np.float32).eps * terms.max() + np.finfo(kind).eps * expected.max()
        np.testing.assert_allclose(found.float().numpy(), expected, rtol=0, atol=allowed)


_HIDDEN = 5  # every fifth step of a product counts for nothing

# Rows of a product, as a function of a tensor.
_WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda t: t,
    "padded": lambda t: t[:, 1:-2].pad(((0, 0), (1, 2))),
    "digits": lambda t: t.reshape(-1, 16, t.shape[1]).permute(1, 0, 2).reshape(*t.shape),
    "batch": lambda t: t.reshape(-1, 16, t.shape[1]),
}


def _products(device: str, kind: type, size: tuple[int, int, int], *ways: str) -> None:
    n, k, m = size
    x, y = (_numbers(*shape) * 0.1 for shape in ((n, k), (k, m)))
    for way in ways:
        a, b = (Tensor(v.astype(kind), device=device).realize() for v in (x, y))
        rows = _WAYS.get(way, _WAYS["plain"])
        found = _masked(a, b) if way == "hidden" else rows(a) @ b
        wide = rows(Tensor(x.astype(kind))).numpy().reshape(n, k).astype(np.float64)
        if way == "hidden":
            wide[:, ::_HIDDEN] = 0
        right = wide @ y.astype(kind).astype(np.float64)
        allowed = (100 * np.finfo(np.float32).eps + np.finfo(kind).eps) * np.abs(right).max()
        np.testing.assert_allclose(found.float().numpy().reshape(n, m), right, rtol=0, atol=allowed)


def _masked(a: Tensor, b: Tensor) -> Tensor:
    """Their product, as a sum of terms under a mask."""
    (n, k), (_, m) = a.shape, b.shape
    shown = (Tensor.arange(k, device=a.device) % _HIDDEN > 0).reshape(1, k, 1)
    factors = a.float().reshape(n, k, 1) * b.float().reshape(1, k, m)
    return shown.where(factors, 0.0).sum(1)


@scenario
def products_of_halves(device: str) -> None:
    """Products of halves, which matrix units compute, of rows that come about in several ways."""
    _products(device, np.float16, (64, 96, 64), *_WAYS, "hidden")


@scenario
def products_of_many_results(device: str) -> None:
    """Products whose tiles are so large that their slices are more than a kernel may declare."""
    group = Device[device].target.workgroup
    if group is None or group.declared_bytes is None:
        return
    _products(device, np.float16, (2048, 128, 1024), "plain")
    _products(device, np.float32, (2048, 128, 1024), "hidden", "digits", "batch")


def opens(device: str) -> str | None:
    """Why a device cannot run programs here, or None if it can."""
    level = device.partition(":LLVM:")[2]
    if level and device.startswith("CPU"):
        if parse_target(level).vector_bytes > parse_target("native").vector_bytes:
            return "this processor's vectors are shorter"
    try:
        Tensor([1.0], device=device).add(1.0).realize()
    except DeviceError as error:
        return str(error)
    return None
