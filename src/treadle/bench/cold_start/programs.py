"""The programs of which the first calls are timed, as a user writes them: layers, TinyJit, a step.

step = PROGRAMS["char-GPT training"].make()
step()      the first call, and so on
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ... import Tensor, TinyJit, nn

__all__ = ["PROGRAMS", "Program"]

Step = Callable[[], object]


class Program(NamedTuple):
    """`make` gives a step to call; `first` and `warm` are limits in seconds of its first call, from
    an empty cache and from a full one.
    """

    make: Callable[[], Step]
    first: float
    warm: float


class _Block:
    """A block of a decoder: causal attention and an MLP, each behind a norm, with dropout."""

    def __init__(self, width: int, heads: int) -> None:
        self.heads = heads
        self.near, self.far = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        shape = batch, tokens, 3, self.heads, width // self.heads
        q, k, v = self.qkv(self.near(x)).reshape(*shape).permute(2, 0, 3, 1, 4).unbind(0)
        found = q.scaled_dot_product_attention(k, v, is_causal=True, dropout_p=0.1)
        x = x + self.out(found.transpose(1, 2).reshape(batch, tokens, width)).dropout(0.1)
        return x + self.down(self.up(self.far(x)).gelu()).dropout(0.1)


class _CharGPT:
    """A decoder over 65 characters: three blocks, 128 wide."""

    def __init__(self, words: int = 65, tokens: int = 64, width: int = 128) -> None:
        self.words = nn.Embedding(words, width)
        self.places = Tensor.normal(tokens, width, std=0.02, requires_grad=True)
        self.blocks = [_Block(width, 4) for _ in range(3)]
        self.norm, self.scores = nn.LayerNorm(width), nn.Linear(width, words)

    def __call__(self, ids: Tensor) -> Tensor:
        x = (self.words(ids) + self.places).dropout(0.1)
        for block in self.blocks:
            x = block(x)
        return self.scores(self.norm(x))


class _ConvNorm:
    """A convolution without a bias, and batch norm."""

    def __init__(self, inner: int, out: int, size: int, stride: int = 1) -> None:
        self.conv = nn.Conv2d(inner, out, size, stride=stride, padding=size // 2, bias=False)
        self.norm = nn.BatchNorm(out)

    def __call__(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x))


class _Residual:
    def __init__(self, inner: int, out: int, stride: int) -> None:
        self.near, self.far = _ConvNorm(inner, out, 3, stride), _ConvNorm(out, out, 3)
        self.past = _ConvNorm(inner, out, 1, stride) if stride > 1 else None

    def __call__(self, x: Tensor) -> Tensor:
        past = x if self.past is None else self.past(x)
        return (self.far(self.near(x).relu()) + past).relu()


class _ResNet:
    """ResNet-18 (arXiv 1512.03385)."""

    def __init__(self) -> None:
        self.stem, self.blocks = _ConvNorm(3, 64, 7, 2), list[_Residual]()
        inner = 64
        for out, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
                            (512, 1)):  # fmt: skip
            self.blocks.append(_Residual(inner, out, stride))
            inner = out
        self.scores = nn.Linear(inner, 1000)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.stem(x).relu().max_pool2d((3, 3), stride=2, padding=1)
        for block in self.blocks:
            x = block(x)
        return self.scores(x.mean((2, 3)))


class _Pair:
    """Two convolutions, each with a group norm."""

    def __init__(self, inner: int, out: int) -> None:
        self.near, self.far = nn.Conv2d(inner, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.norms = [nn.GroupNorm(8, out) for _ in range(2)]

    def __call__(self, x: Tensor) -> Tensor:
        return self.norms[1](self.far(self.norms[0](self.near(x)).silu())).silu()


class _UNet:
    """Two levels down and up, 32 to 128 channels, with what each level skips."""

    def __init__(self) -> None:
        self.down = [_Pair(3, 32), _Pair(32, 64)]
        self.middle = _Pair(64, 128)
        self.wider = [nn.ConvTranspose2d(128, 64, 2, stride=2),
                      nn.ConvTranspose2d(64, 32, 2, stride=2)]  # fmt: skip
        self.up = [_Pair(128, 64), _Pair(64, 32)]
        self.out = nn.Conv2d(32, 3, 1)

    def __call__(self, x: Tensor) -> Tensor:
        skipped: list[Tensor] = []
        for pair in self.down:
            skipped.append(pair(x))
            x = skipped[-1].max_pool2d((2, 2))
        x = self.middle(x)
        for wider, pair in zip(self.wider, self.up, strict=True):
            x = pair(wider(x).cat(skipped.pop(), dim=1))
        return self.out(x)


def _char_gpt() -> Step:
    model, ids = _CharGPT(), Tensor.randint(16, 64, high=65).realize()
    parameters = nn.state.get_parameters(model)
    optimiser = nn.optim.AdamW(parameters, lr=1e-3)

    @TinyJit
    def step() -> Tensor:
        optimiser.zero_grad()
        loss = model(ids).reshape(-1, 65).cross_entropy(ids.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        return loss.realize()

    return _trained(step)


def _resnet() -> Step:
    model = _ResNet()
    x = Tensor.rand(4, 3, 64, 64).realize()
    labels = Tensor.randint(4, high=1000).realize()
    optimiser = nn.optim.SGD(nn.state.get_parameters(model), lr=0.1, momentum=0.9)

    @TinyJit
    def step() -> Tensor:
        optimiser.zero_grad()
        loss = model(x).cross_entropy(labels)
        loss.backward()
        optimiser.step()
        return loss.realize()

    return _trained(step)


def _unet() -> Step:
    model, x = _UNet(), Tensor.rand(4, 3, 64, 64).realize()
    optimiser = nn.optim.AdamW(nn.state.get_parameters(model), lr=1e-3)

    @TinyJit
    def step() -> Tensor:
        optimiser.zero_grad()
        loss = ((model(x) - x) ** 2).mean()
        loss.backward()
        optimiser.step()
        return loss.realize()

    return _trained(step)


def _resnet_inference() -> Step:
    model, x = _ResNet(), Tensor.rand(1, 3, 224, 224).realize()
    for parameter in nn.state.get_state_dict(model).values():
        parameter.realize()

    @TinyJit
    def step() -> Tensor:
        return model(x).realize()

    return lambda: step().numpy()


def _trained(step: Callable[[], Tensor]) -> Step:
    def run() -> object:
        with Tensor.train():
            return step().item()

    return run


PROGRAMS = {
    "char-GPT training": Program(_char_gpt, 4.0, 1.5),
    "ResNet-18 training": Program(_resnet, 8.0, 1.5),
    "small U-Net training": Program(_unet, 6.0, 1.5),
    "ResNet-18 inference": Program(_resnet_inference, 1.6, 0.5),
}
