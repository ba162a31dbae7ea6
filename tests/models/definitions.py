"""Small models of known designs, each one text for treadle and for PyTorch.

    mine, theirs = Llama(TREADLE), Llama(torch_library())
    mine(*inputs)

A model is an object that holds layers. What the two libraries spell differently is a `Library`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle import Tensor, nn

__all__ = ["MODELS", "TREADLE", "Library", "torch_library"]


@dataclass(frozen=True)
class Library:
    """Layers, and the functions that are no methods of the same name in both."""

    nn: Any
    attend: Callable[..., Any]  # (q, k, v, attn_mask=, is_causal=, enable_gqa=)
    cat: Callable[[list[Any], int], Any]
    like: Callable[[np.ndarray, Any], Any]  # an array as a tensor of another one's dtype
    mask: Callable[[np.ndarray], Any]  # truths as a tensor

    def __deepcopy__(self, memo: Any) -> Library:
        return self  # of a copied model, too


def _attend(q: Tensor, k: Tensor, v: Tensor, **how: Any) -> Tensor:
    return q.scaled_dot_product_attention(k, v, **how)


TREADLE = Library(
    nn, _attend, lambda tensors, axis: tensors[0].cat(*tensors[1:], dim=axis),
    lambda array, other: Tensor(array.astype(np.float32)), Tensor,
)  # fmt: skip


def torch_library() -> Library:
    """PyTorch, which not every test has."""
    import torch

    return Library(
        torch.nn, torch.nn.functional.scaled_dot_product_attention, torch.cat,
        lambda array, other: torch.from_numpy(array).to(other.dtype), torch.from_numpy,
    )  # fmt: skip


# -- transformers ---------------------------------------------------------------------------------

WIDTH, HEADS, WIDE, WORDS = 128, 4, 256, 200


def norm_of(library: Library, name: str) -> Any:
    """A norm with the epsilon that both libraries then have."""
    return getattr(library.nn, name)(WIDTH, eps=1e-6)


class SwiGLU:
    def __init__(
        self, library: Library, width: int = WIDTH, wide: int = WIDE, activation: str = "SiLU"
    ):
        layers = library.nn
        self.gate, self.up = (layers.Linear(width, wide, bias=False) for _ in range(2))
        self.down = layers.Linear(wide, width, bias=False)
        self.activation = getattr(layers, activation)()

    def __call__(self, x: Any) -> Any:
        return self.down(self.activation(self.gate(x)) * self.up(x))


class MLP:
    def __init__(self, library: Library, activation: str = "GELU"):
        layers = library.nn
        self.up, self.down = layers.Linear(WIDTH, WIDE), layers.Linear(WIDE, WIDTH)
        self.activation = getattr(layers, activation)()

    def __call__(self, x: Any) -> Any:
        return self.down(self.activation(self.up(x)))


class Attention:
    """Of x to itself or to a memory; `keys` heads of keys and values serve all queries."""

    def __init__(
        self, library: Library, keys: int = HEADS, bias: bool = True, turned: bool = False
    ):
        size = WIDTH // HEADS * keys
        self.q = library.nn.Linear(WIDTH, WIDTH, bias=bias)
        self.k = library.nn.Linear(WIDTH, size, bias=bias)
        self.v = library.nn.Linear(WIDTH, size, bias=bias)
        self.out = library.nn.Linear(WIDTH, WIDTH, bias=bias)
        self.library, self.keys, self.turned = library, keys, turned

    def __call__(self, x: Any, memory: Any = None, **how: Any) -> Any:
        memory = x if memory is None else memory
        q, k, v = (
            y.reshape(y.shape[0], y.shape[1], -1, WIDTH // HEADS).transpose(1, 2)
            for y in (self.q(x), self.k(memory), self.v(memory))
        )
        if self.turned:
            q, k = (_turned(self.library, y) for y in (q, k))
        if self.keys < HEADS:
            how["enable_gqa"] = True
        mixed = self.library.attend(q, k, v, **how)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


def _turned(library: Library, x: Any) -> Any:
    """Rotary positions: halves of each head turned by the place."""
    half = x.shape[-1] // 2
    angles = np.outer(np.arange(x.shape[-2]), 100.0 ** -(np.arange(half) / half))
    cos, sin = (library.like(np.concatenate([f(angles)] * 2, -1), x) for f in (np.cos, np.sin))
    return x * cos + library.cat([-x[..., half:], x[..., :half]], -1) * sin


class Block:
    """Normalized, attended to and added; the same with a memory, if it has one; then an MLP."""

    def __init__(self, library: Library, mlp: Any, norm: str = "LayerNorm", after: bool = False,
                 crossed: bool = False, **attention: Any):  # fmt: skip
        self.attention, self.mlp = Attention(library, **attention), mlp
        self.norms = [norm_of(library, norm) for _ in range(3 if crossed else 2)]
        self.cross = Attention(library, **attention) if crossed else None
        self.after = after

    def __call__(self, x: Any, memory: Any = None, **how: Any) -> Any:
        parts = [lambda y: self.attention(y, **how), self.mlp]
        if self.cross is not None:
            cross = self.cross
            parts.insert(1, lambda y: cross(y, memory))
        for norm, part in zip(self.norms, parts, strict=True):
            x = norm(x + part(x)) if self.after else x + part(norm(x))
        return x


class Llama:
    """Rotary positions, grouped queries, RMS norms, gated MLPs."""

    def __init__(self, library: Library):
        self.words = library.nn.Embedding(WORDS, WIDTH)
        self.blocks = [
            Block(library, SwiGLU(library), "RMSNorm", keys=2, bias=False, turned=True)
            for _ in range(2)
        ]
        self.norm = norm_of(library, "RMSNorm")
        self.head = library.nn.Linear(WIDTH, WORDS, bias=False)

    def __call__(self, index: Any) -> Any:
        x = self.words(index)
        for block in self.blocks:
            x = block(x, is_causal=True)
        return self.head(self.norm(x))


class BERT:
    """Learned positions, norms behind the sums, a mask of what is padding."""

    def __init__(self, library: Library):
        layers = library.nn
        self.words, self.places = layers.Embedding(WORDS, WIDTH), layers.Embedding(80, WIDTH)
        self.norm, self.head = layers.LayerNorm(WIDTH), layers.Linear(WIDTH, WORDS)
        self.blocks = [Block(library, MLP(library), after=True) for _ in range(2)]

    def __call__(self, index: Any, seen: Any) -> Any:
        x = self.norm(self.words(index) + self.places.weight[: index.shape[1]])
        for block in self.blocks:
            x = block(x, attn_mask=seen)
        return self.head(x)


class T5:
    """Encoder and decoder, distances as a bias of the scores, gated MLPs with GELU."""

    def __init__(self, library: Library):
        self.words, self.nearness = (
            library.nn.Embedding(WORDS, WIDTH),
            library.nn.Embedding(32, HEADS),
        )
        self.encoder, self.decoder = (
            Block(
                library, SwiGLU(library, activation="GELU"), "RMSNorm", crossed=crossed, bias=False
            )
            for crossed in (False, True)
        )
        self.norm = norm_of(library, "RMSNorm")

    def __call__(self, index: Any, target: Any, distances: Any, hidden: Any) -> Any:
        near = self.nearness(distances).permute(2, 0, 1)
        memory = self.encoder(self.words(index), attn_mask=near)
        x = self.decoder(self.words(target), memory, attn_mask=near + hidden)
        return self.norm(x) @ self.words.weight.T


class Whisper:
    """Sound through two convolutions into an encoder; a decoder of words."""

    def __init__(self, library: Library):
        layers = library.nn
        self.first = layers.Conv1d(16, WIDTH, 3, padding=1)
        self.second = layers.Conv1d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.words, self.places = layers.Embedding(WORDS, WIDTH), layers.Embedding(64, WIDTH)
        self.encoder = Block(library, MLP(library))
        self.decoder = Block(library, MLP(library), crossed=True)
        self.norm, self.activation = layers.LayerNorm(WIDTH), layers.GELU()

    def __call__(self, sound: Any, index: Any) -> Any:
        x = self.activation(self.second(self.activation(self.first(sound))))
        memory = self.encoder(x.transpose(1, 2))
        x = self.words(index) + self.places.weight[: index.shape[1]]
        return self.norm(self.decoder(x, memory, is_causal=True)) @ self.words.weight.T


class ViT:
    """Patches as words, and one more that is read out."""

    def __init__(self, library: Library):
        layers = library.nn
        self.patches = layers.Conv2d(3, WIDTH, 8, stride=8)
        self.places = layers.Embedding(65, WIDTH)
        self.blocks = [Block(library, MLP(library)) for _ in range(2)]
        self.norm, self.head = layers.LayerNorm(WIDTH), layers.Linear(WIDTH, 10)
        self.library = library

    def __call__(self, image: Any) -> Any:
        x = self.patches(image).flatten(2).transpose(1, 2)
        empty = x[:, :1] * 0
        x = self.library.cat([empty, x], 1) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


# -- convolutions ---------------------------------------------------------------------------------


def _normed(layers: Any, *sizes: Any, **how: Any) -> list[Any]:
    return [layers.Conv2d(*sizes, bias=False, **how), layers.BatchNorm2d(sizes[1])]


class Residual:
    """Two convolutions around which the input goes, through a 1x1 one where the shape changes."""

    def __init__(self, layers: Any, before: int, after: int, stride: int):
        self.main = layers.Sequential(
            *_normed(layers, before, after, 3, stride=stride, padding=1), layers.ReLU(),
            *_normed(layers, after, after, 3, padding=1),
        )  # fmt: skip
        same = before == after and stride == 1
        self.short = layers.Identity() if same else layers.Sequential(
            *_normed(layers, before, after, 1, stride=stride)
        )  # fmt: skip
        self.activation = layers.ReLU()

    def __call__(self, x: Any) -> Any:
        return self.activation(self.main(x) + self.short(x))


class ResNet:
    """ResNet-18's stem and eight blocks, at an eighth of its channels."""

    def __init__(self, library: Library):
        layers = library.nn
        self.stem = layers.Sequential(
            *_normed(layers, 3, 16, 7, stride=2, padding=3), layers.ReLU(),
            layers.MaxPool2d(3, 2, 1),
        )  # fmt: skip
        sizes = [(16, 16, 1), (16, 32, 2), (32, 64, 2), (64, 128, 2)]
        self.blocks = [
            Residual(layers, *size)
            for before, after, stride in sizes
            for size in ((before, after, stride), (after, after, 1))
        ]
        self.head = layers.Linear(128, 10)

    def __call__(self, image: Any) -> Any:
        x = self.stem(image)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class Squeezed:
    """Channels scaled by what their means say."""

    def __init__(self, layers: Any, channels: int):
        self.down, self.up = layers.Conv2d(channels, 8, 1), layers.Conv2d(8, channels, 1)
        self.inner, self.gate = layers.SiLU(), layers.Sigmoid()

    def __call__(self, x: Any) -> Any:
        return x * self.gate(self.up(self.inner(self.down(x.mean((2, 3), keepdim=True)))))


class Inverted:
    """Wide between two 1x1 convolutions, where each channel is convolved by itself."""

    def __init__(
        self, layers: Any, before: int, after: int, stride: int, activation: str, squeezed: bool
    ):
        wide = 4 * before
        parts = [
            *_normed(layers, before, wide, 1), getattr(layers, activation)(),
            *_normed(layers, wide, wide, 3, stride=stride, padding=1, groups=wide),
            getattr(layers, activation)(), *_normed(layers, wide, after, 1),
        ]  # fmt: skip
        self.before, self.after = layers.Sequential(*parts[:-2]), layers.Sequential(*parts[-2:])
        self.scaled = Squeezed(layers, wide) if squeezed else None
        self.is_added = before == after and stride == 1

    def __call__(self, x: Any) -> Any:
        y = self.before(x)
        y = self.after(y if self.scaled is None else self.scaled(y))
        return x + y if self.is_added else y


class MobileNet:
    """Inverted residuals with ReLU6."""

    activation, squeezed = "ReLU6", False

    def __init__(self, library: Library):
        layers = library.nn
        self.stem = layers.Sequential(*_normed(layers, 3, 16, 3, stride=2, padding=1))
        self.blocks = [
            Inverted(layers, *size, self.activation, self.squeezed)
            for size in ((16, 24, 2), (24, 24, 1), (24, 32, 2))
        ]
        self.head = layers.Linear(32, 10)

    def __call__(self, image: Any) -> Any:
        x = self.stem(image)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class EfficientNet(MobileNet):
    """The same with SiLU, and channels that are scaled."""

    activation, squeezed = "SiLU", True


class UNet:
    """Down twice, and up again beside what was there before."""

    def __init__(self, library: Library):
        layers = library.nn
        self.downs = [self._part(layers, *size) for size in ((3, 16), (16, 32))]
        self.pool, self.bottom = layers.MaxPool2d(2), self._part(layers, 32, 64)
        self.ups = [layers.ConvTranspose2d(2 * size, size, 2, stride=2) for size in (32, 16)]
        self.joins = [self._part(layers, 2 * size, size) for size in (32, 16)]
        self.head, self.library = layers.Conv2d(16, 4, 1), library

    def _part(self, layers: Any, before: int, after: int) -> Any:
        return layers.Sequential(
            layers.Conv2d(before, after, 3, padding=1), layers.GroupNorm(4, after), layers.SiLU()
        )

    def __call__(self, image: Any) -> Any:
        kept, x = [], image
        for down in self.downs:
            kept.append(down(x))
            x = self.pool(kept[-1])
        x = self.bottom(x)
        for up, join in zip(self.ups, self.joins, strict=True):
            x = join(self.library.cat([kept.pop(), up(x)], 1))
        return self.head(x)


# -- what they are given --------------------------------------------------------------------------


def _words(random: np.random.Generator, length: int) -> np.ndarray:
    return random.integers(0, WORDS, (2, length))


def _of_bert(random: np.random.Generator) -> list[np.ndarray]:
    seen = np.arange(72) < np.array([72, 50])[:, None, None, None]
    return [_words(random, 72), seen]


def _of_t5(random: np.random.Generator) -> list[np.ndarray]:
    places = np.arange(64)
    distances = np.clip(places[:, None] - places + 16, 0, 31)
    hidden = np.where(places > places[:, None], -1e9, 0.0)
    return [_words(random, 64), _words(random, 64), distances, hidden]


def _image(size: int) -> Callable[[np.random.Generator], list[np.ndarray]]:
    return lambda random: [random.standard_normal((2, 3, size, size))]


# Each with what draws its inputs.
MODELS: dict[
    str, tuple[Callable[[Library], Any], Callable[[np.random.Generator], list[np.ndarray]]]
] = {
    "Llama": (Llama, lambda random: [_words(random, 96)]),
    "BERT": (BERT, _of_bert),
    "T5": (T5, _of_t5),
    "Whisper": (Whisper, lambda random: [random.standard_normal((2, 16, 160)), _words(random, 64)]),
    "ViT": (ViT, _image(64)),
    "ResNet": (ResNet, _image(64)),
    "MobileNet": (MobileNet, _image(48)),
    "EfficientNet": (EfficientNet, _image(48)),
    "UNet": (UNet, _image(32)),
}
