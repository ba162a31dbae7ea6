"""Whole networks, each written once in the words that every library knows (`libraries/`).

    net = ResNet(size=224)
    net.weights                         {"stem": Input(64, 3, 7, 7), ...}
    net.scores(library, weights, images)

Weights are a dict of arrays. Batch norm uses the batch's own statistics while training, and
keeps no running ones: the libraries differ in how such state is kept, not in its cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from .libraries.base import Library
from .work import Array, Input

__all__ = ["Decoder", "DigitNet", "Network", "Perceptron", "Recurrent", "ResNet"]

Weights = dict[str, Input]


class Network(Protocol):
    """What rows need of each of them."""

    @property
    def weights(self) -> Weights: ...

    @property
    def flops(self) -> float: ...

    @property
    def scores(self) -> Callable[..., Array]: ...

    @property
    def loss(self) -> Callable[..., Array]: ...


def _matrix(out: int, *inner: int) -> Input:
    return Input((out, *inner), scale=1 / math.sqrt(math.prod(inner)))


def _norm(name: str, width: int) -> Weights:
    return {
        f"{name}.scale": Input((width,), mean=1.0, scale=0.1),
        f"{name}.shift": Input((width,), scale=0.1),
    }


def _dense(name: str, width: int, out: int) -> Weights:
    return {name: _matrix(out, width), f"{name}.bias": Input((out,), scale=0.1)}


@dataclass(frozen=True)
class _Conv:
    """A convolution of ResNet: its result is `size` by `size`."""

    name: str
    channels: int
    out: int
    kernel: int
    stride: int
    size: int


@dataclass(frozen=True)
class ResNet:
    """ResNet-18 (arXiv 1512.03385): a stem, four stages of two blocks, a mean, one matrix."""

    stages: int = 4
    width: int = 64
    size: int = 224
    classes: int = 1000
    trained: bool = False

    @property
    def weights(self) -> Weights:
        """The running statistics are missing where the network is trained."""
        found: Weights = {}
        for conv in self._convolutions():
            found[conv.name] = _matrix(conv.out, conv.channels, conv.kernel, conv.kernel)
            found |= _norm(f"{conv.name}.norm", conv.out)
            if not self.trained:
                found[f"{conv.name}.mean"] = Input((conv.out,), scale=0.1)
                found[f"{conv.name}.variance"] = Input((conv.out,), mean=1.0, scale=0.05)
        return found | _dense("scores", self.width << self.stages - 1, self.classes)

    @property
    def flops(self) -> float:
        """Multiplications and additions of one image, forward."""
        return sum(2.0 * c.size**2 * c.out * c.channels * c.kernel**2 for c in self._convolutions())

    def _convolutions(self) -> Iterator[_Conv]:
        size, channels = self.size // 4, self.width
        yield _Conv("stem", 3, channels, 7, 2, self.size // 2)
        for block in range(2 * self.stages):
            out, stride = self.width << block // 2, 2 if block and block % 2 == 0 else 1
            size = -(-size // stride)
            yield _Conv(f"block{block}.near", channels, out, 3, stride, size)
            yield _Conv(f"block{block}.far", out, out, 3, 1, size)
            if stride == 2:
                yield _Conv(f"block{block}.past", channels, out, 1, stride, size)
            channels = out

    def scores(self, lib: Library[Array], w: Mapping[str, Array], x: Array) -> Array:
        """(batch, 3, size, size) to (batch, classes)."""
        convs = {conv.name: conv for conv in self._convolutions()}

        def conv(name: str, x: Array) -> Array:
            how = convs[name]
            x = lib.conv2d(x, w[name], stride=how.stride, padding=how.kernel // 2)
            parts = ("norm.scale", "norm.shift", "mean", "variance")
            return lib.batch_norm(x, *(w.get(f"{name}.{part}") for part in parts))

        x = lib.max_pool2d(lib.relu(conv("stem", x)), 3, 2, 1)
        for block in range(2 * self.stages):
            past = conv(f"block{block}.past", x) if f"block{block}.past" in convs else x
            near = lib.relu(conv(f"block{block}.near", x))
            x = lib.relu(conv(f"block{block}.far", near) + past)
        return lib.linear(lib.mean(x, (2, 3)), w["scores"], w["scores.bias"])

    def loss(self, lib: Library[Array], w: Mapping[str, Array], x: Array, labels: Array) -> Array:
        return lib.cross_entropy(self.scores(lib, w, x), labels)


@dataclass(frozen=True)
class Decoder:
    """GPT-2's decoder for `tokens` new ones after `past`; its first matrix is also its last."""

    tokens: int
    past: int = 0
    layers: int = 12
    width: int = 768
    heads: int = 12
    words: int = 50257

    @property
    def weights(self) -> Weights:
        width = self.width
        found: Weights = {
            "words": Input((self.words, width), scale=0.02),
            "places": Input((self.tokens, width), scale=0.02),
        }
        for layer in range(self.layers):
            found |= _norm(f"{layer}.before", width) | _norm(f"{layer}.between", width)
            found |= _dense(f"{layer}.qkv", width, 3 * width) | _dense(f"{layer}.out", width, width)
            found |= _dense(f"{layer}.wide", width, 4 * width)
            found |= _dense(f"{layer}.narrow", 4 * width, width)
        return found | _norm("last", width)

    @property
    def caches(self) -> tuple[Input, ...]:
        """The keys and values of what came before, one of each for a layer."""
        shape = (1, self.heads, self.past, self.width // self.heads)
        return (Input(shape),) * (2 * self.layers if self.past else 0)

    @property
    def flops(self) -> float:
        """Multiplications and additions of all tokens, forward."""
        matrices = 12 * self.layers * self.width**2 + self.words * self.width
        looks = 2 * self.layers * self.width * (self.tokens + self.past)
        return 2.0 * self.tokens * (matrices + looks)

    def scores(
        self, lib: Library[Array], w: Mapping[str, Array], tokens: Array, *caches: Array
    ) -> Array:
        """(1, tokens) words to (1, tokens, words)."""
        x = lib.embedding(w["words"], tokens) + w["places"]
        for layer in range(self.layers):
            past, y = caches[2 * layer : 2 * layer + 2], self._norm(lib, w, f"{layer}.before", x)
            x = x + self._attention(lib, w, layer, y, past)
            x = x + self._wide(lib, w, layer, self._norm(lib, w, f"{layer}.between", x))
        return lib.linear(self._norm(lib, w, "last", x), w["words"], None)

    def loss(
        self, lib: Library[Array], w: Mapping[str, Array], tokens: Array, labels: Array
    ) -> Array:
        scores = self.scores(lib, w, tokens)
        return lib.cross_entropy(scores.reshape((self.tokens, self.words)), labels)

    def _norm(self, lib: Library[Array], w: Mapping[str, Array], name: str, x: Array) -> Array:
        return lib.layer_norm(x, w[f"{name}.scale"], w[f"{name}.shift"])

    def _attention(
        self,
        lib: Library[Array],
        w: Mapping[str, Array],
        layer: int,
        x: Array,
        past: tuple[Array, ...],
    ) -> Array:
        qkv = lib.linear(x, w[f"{layer}.qkv"], w[f"{layer}.qkv.bias"])
        shape = (1, self.tokens, self.heads, self.width // self.heads)
        q, k, v = (lib.permute(y.reshape(shape), (0, 2, 1, 3)) for y in lib.split(qkv, 3, 2))
        if past:
            k, v = (lib.concatenate([old, new], 2) for old, new in zip(past, (k, v), strict=True))
        found = lib.permute(lib.attention(q, k, v, causal=self.past == 0), (0, 2, 1, 3))
        flat = found.reshape((1, self.tokens, self.width))
        return lib.linear(flat, w[f"{layer}.out"], w[f"{layer}.out.bias"])

    def _wide(self, lib: Library[Array], w: Mapping[str, Array], layer: int, x: Array) -> Array:
        x = lib.gelu(lib.linear(x, w[f"{layer}.wide"], w[f"{layer}.wide.bias"]))
        return lib.linear(x, w[f"{layer}.narrow"], w[f"{layer}.narrow.bias"])


@dataclass(frozen=True)
class DigitNet:
    """The network of `treadle demo`: two convolutions, a pool, one matrix."""

    @property
    def weights(self) -> Weights:
        near, far = _matrix(16, 1, 3, 3), _matrix(32, 16, 3, 3)
        return {"near": near, "far": far} | _dense("scores", 512, 10)

    @property
    def flops(self) -> float:
        return 2.0 * (64 * 16 * 9 + 64 * 32 * 16 * 9 + 512 * 10)

    def scores(self, lib: Library[Array], w: Mapping[str, Array], x: Array) -> Array:
        """(batch, 1, 8, 8) to (batch, 10)."""
        x = lib.relu(lib.conv2d(x, w["near"], padding=1))
        x = lib.max_pool2d(lib.relu(lib.conv2d(x, w["far"], padding=1)), 2, 2, 0)
        return lib.linear(x.reshape((-1, 512)), w["scores"], w["scores.bias"])

    def loss(self, lib: Library[Array], w: Mapping[str, Array], x: Array, labels: Array) -> Array:
        return lib.cross_entropy(self.scores(lib, w, x), labels)


@dataclass(frozen=True)
class Perceptron:
    """Matrices with ReLU between them."""

    widths: tuple[int, ...]

    @property
    def weights(self) -> Weights:
        pairs = zip(self.widths, self.widths[1:], strict=False)
        layers = [_dense(f"layer{n}", *pair) for n, pair in enumerate(pairs)]
        return {name: given for layer in layers for name, given in layer.items()}

    @property
    def flops(self) -> float:
        return sum(2.0 * a * b for a, b in zip(self.widths, self.widths[1:], strict=False))

    def scores(self, lib: Library[Array], w: Mapping[str, Array], x: Array) -> Array:
        """(batch, widths[0]) to (batch, widths[-1])."""
        for n in range(len(self.widths) - 1):
            x = lib.linear(lib.relu(x) if n else x, w[f"layer{n}"], w[f"layer{n}.bias"])
        return x

    def loss(self, lib: Library[Array], w: Mapping[str, Array], x: Array, labels: Array) -> Array:
        return lib.cross_entropy(self.scores(lib, w, x), labels)


@dataclass(frozen=True)
class Recurrent:
    """An LSTM over a sequence, and one matrix for each of its steps."""

    steps: int
    width: int
    hidden: int
    classes: int = 10

    @property
    def weights(self) -> Weights:
        gates, scale = 4 * self.hidden, 1 / math.sqrt(self.hidden)
        shapes = {"input": (gates, self.width), "hidden": (gates, self.hidden)}
        shapes |= {"input.bias": (gates,), "hidden.bias": (gates,)}
        found = {name: Input(shape, scale=scale) for name, shape in shapes.items()}
        return found | _dense("scores", self.hidden, self.classes)

    @property
    def flops(self) -> float:
        """Multiplications and additions of one sequence, forward."""
        each = 4 * self.hidden * (self.width + self.hidden) + self.hidden * self.classes
        return 2.0 * self.steps * each

    def scores(self, lib: Library[Array], w: Mapping[str, Array], x: Array) -> Array:
        """(steps, batch, width) to (steps, batch, classes)."""
        names = ("input", "hidden", "input.bias", "hidden.bias")
        states = lib.lstm(x, *(w[name] for name in names))
        return lib.linear(states, w["scores"], w["scores.bias"])

    def loss(self, lib: Library[Array], w: Mapping[str, Array], x: Array, labels: Array) -> Array:
        """Labels are those of all steps, one after the other."""
        return lib.cross_entropy(self.scores(lib, w, x).reshape((-1, self.classes)), labels)
