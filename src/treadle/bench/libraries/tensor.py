"""treadle and tinygrad, which share their names: `captured` replays by TinyJit."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..work import Work
from .base import LEARNING_RATE, Library, NotOffered, Run

if TYPE_CHECKING:
    import numpy as np

    from ...config import Context
    from ...dtype import dtypes
    from ...tensor import Tensor as Values

__all__ = ["TensorLibrary"]


class TensorLibrary(Library["Values"]):
    """Lazy tensors; each Run realises its result."""

    package: str
    Tensor: type[Values]
    TinyJit: Callable[[Callable[..., object]], Callable[..., object]]
    captured: bool
    Context: type[Context]
    dtypes: type[dtypes]
    wait: Callable[[], None]
    nn: ModuleType
    optim: ModuleType

    def __init__(self, package: str, captured: bool = True) -> None:
        library = importlib.import_module(package)
        self.package = package
        self.Tensor, self.TinyJit, self.captured = library.Tensor, library.TinyJit, captured
        self.Context = library.Context
        self.dtypes = importlib.import_module(f"{package}.dtype").dtypes
        self.nn = importlib.import_module(f"{package}.nn")
        self.optim = importlib.import_module(f"{package}.nn.optim")
        self.wait = library.Device[library.Device.DEFAULT].synchronize

    def tensor(self, array: np.ndarray) -> Values:
        return self.Tensor(array).realize()

    def array(self, tensor: Values) -> np.ndarray:
        return tensor.numpy()

    # -- tasks --------------------------------------------------------------------------------

    def result(self, work: Work, weights: Mapping[str, Values], inputs: Sequence[Values]) -> Run:
        def result(*xs: Values) -> object:
            made = work.call(self, weights, xs)
            self.Tensor.realize(*(made if isinstance(made, tuple) else (made,)))
            return made

        return self._run(result, inputs)

    def gradients(self, work: Work, weights: Mapping[str, Values], inputs: Sequence[Values]) -> Run:
        def gradients(*xs: Values) -> list[Values]:
            result = work.call(self, weights, xs[:-1])
            found = result.gradient(*(xs[i] for i in work.wanted), gradient=xs[-1])
            self.Tensor.realize(result, *found)
            return [result, *found]

        return self._run(gradients, inputs)

    def training(self, work: Work, weights: Mapping[str, Values], inputs: Sequence[Values]) -> Run:
        if not self.captured:
            raise NotOffered("steps are captured")
        optimizer = self.optim.Adam(list(weights.values()), lr=LEARNING_RATE)

        def training(*xs: Values) -> Values:
            optimizer.zero_grad()
            loss = work.call(self, weights, xs).backward()
            return loss.realize(*optimizer.schedule_step())

        return self._trained(self._run(training, inputs))

    def update(self, work: Work, weights: Mapping[str, Values], inputs: Sequence[Values]) -> Run:
        optimizer = self.optim.Adam(list(weights.values()), lr=LEARNING_RATE)

        def update(*gradients: Values) -> None:
            for weight, gradient in zip(weights.values(), gradients, strict=True):
                weight.grad = gradient
            self.Tensor.realize(*optimizer.schedule_step())

        step = self._trained(self._run(update, inputs))

        def run() -> object:
            step()
            return list(weights.values())

        return run

    def _trained(self, run: Run) -> Run:
        def trained() -> object:
            with self.Context(TRAINING=1):
                return run()

        return trained

    def _run(self, function: Callable[..., object], inputs: Sequence[Values]) -> Run:
        step = self.TinyJit(function) if self.captured else function
        return lambda: step(*inputs)

    def finish(self, result: object) -> None:
        self.wait()

    # -- words --------------------------------------------------------------------------------

    def steps(self, x: Values, count: int) -> Values:
        for _ in range(count):
            x = (x + 1).contiguous()
        return x

    def matmul_tf32(self, a: Values, b: Values) -> Values:
        with self.Context(ALLOW_TF32=1):
            return (a @ b).realize()

    def conv2d(
        self,
        x: Values,
        w: Values,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
    ) -> Values:
        return x.conv2d(w, None, groups, stride, dilation, padding)

    def conv2d_input_gradient(self, x: Values, w: Values, g: Values, **how: int) -> Values:
        return self.conv2d(x, w, **how).gradient(x, gradient=g)[0]

    def conv2d_weight_gradient(self, x: Values, w: Values, g: Values, **how: int) -> Values:
        return self.conv2d(x, w, **how).gradient(w, gradient=g)[0]

    def linear(self, x: Values, w: Values, bias: Values) -> Values:
        return x.linear(w.transpose(0, 1), bias)

    def lstm(self, x: Values, *weights: Values) -> Values:
        if not hasattr(self.nn, "LSTM"):
            raise NotOffered(f"{self.nn.__name__} has no LSTM")
        layer = self.nn.LSTM(x.shape[2], weights[1].shape[1])
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        for name, weight in zip(names, weights, strict=True):
            setattr(layer, name, weight)
        return layer(x)[0]

    def embedding(self, table: Values, index: Values) -> Values:
        return table[index]

    def embedding_gradient(self, table: Values, index: Values, g: Values) -> Values:
        return table[index].gradient(table, gradient=g)[0]

    def attention(self, q: Values, k: Values, v: Values, causal: bool = False) -> Values:
        return q.scaled_dot_product_attention(k, v, is_causal=causal)

    def masked_attention(
        self, q: Values, k: Values, v: Values, mask: Values | None, causal: bool, grouped: bool
    ) -> Values:
        return q.scaled_dot_product_attention(k, v, mask, is_causal=causal, enable_gqa=grouped)

    def reduce(self, x: Values, word: str, axes: tuple[int, ...]) -> Values:
        return getattr(x, word)(axes)

    def softmax_along(self, x: Values, axis: int) -> Values:
        return x.softmax(axis)

    def pad2d(self, x: Values, left: int, right: int, top: int, bottom: int) -> Values:
        return x.pad((left, right, top, bottom))

    def flip(self, x: Values, axes: tuple[int, ...]) -> Values:
        return x.flip(axes)

    def roll(self, x: Values, by: int, axis: int) -> Values:
        return x.roll(by, axis).contiguous()

    def contiguous_copy(self, x: Values) -> Values:
        return x.clone()

    def softmax(self, x: Values) -> Values:
        return x.softmax(-1)

    def cross_entropy(self, scores: Values, labels: Values) -> Values:
        return scores.sparse_categorical_crossentropy(labels)

    def layer_norm(self, x: Values, scale: Values, shift: Values) -> Values:
        return x.layernorm() * scale + shift

    def rms_norm(self, x: Values, scale: Values) -> Values:
        return x * ((x * x).mean(-1, keepdim=True) + 1e-6).rsqrt() * scale

    def batch_norm(
        self, x: Values, scale: Values, shift: Values, mean: Values, variance: Values
    ) -> Values:
        if mean is None:
            mean = x.mean((0, 2, 3))
            variance = (x - mean.reshape(1, -1, 1, 1)).square().mean((0, 2, 3))
        return x.batchnorm(scale, shift, mean, (variance + 1e-5).rsqrt())

    def relu(self, x: Values) -> Values:
        return x.relu()

    def gelu(self, x: Values) -> Values:
        # GPT-2's, by tanh: `x.gelu()` is by erf in one library and by tanh in the other.
        return 0.5 * x * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)).tanh())

    def silu(self, x: Values) -> Values:
        return x.silu()

    def dropout(self, x: Values, p: float) -> Values:
        with self.Context(TRAINING=1):
            return x.dropout(p)

    def max_pool2d(self, x: Values, size: int, stride: int, padding: int) -> Values:
        return x.max_pool2d((size, size), stride, 1, padding)

    def copy(self, x: Values) -> Values:
        return x.clone()

    def cast(self, x: Values, dtype: str) -> Values:
        return x.cast(getattr(self.dtypes, dtype))

    def permute(self, x: Values, order: Sequence[int]) -> Values:
        return x.permute(order)

    def contiguous(self, x: Values) -> Values:
        return x.contiguous()

    def concatenate(self, xs: Sequence[Values], axis: int) -> Values:
        return xs[0].cat(*xs[1:], dim=axis)

    def split(self, x: Values, count: int, axis: int) -> list[Values]:
        return x.chunk(count, axis)

    def mean(self, x: Values, axes: tuple[int, ...]) -> Values:
        return x.mean(axes)

    def linalg(self, function: str, a: Values, *more: Values) -> Any:
        if not hasattr(a, function):
            raise NotOffered(f"tensors have no {function}")
        found = getattr(a, function)(*more)
        return found[0] if function == "lstsq" else found

    def rgb_of_nv12(self, luma: Values, chroma: Values, dtype: str) -> Values:
        if self.package != "treadle":
            raise NotOffered(f"{self.package} converts no video")
        from ...video.colour import Conversion, Output, converted, weights_of
        from ...video.frames import NV12Plane, Picture

        (rows, half), output = luma.shape, Output.of(dtype, dtype != "uint8")
        planes = (
            NV12Plane(0, 2 * half, 2 * half, rows, 1),
            NV12Plane(0, 2 * half, half, rows // 2, 2),
        )
        picture = Picture(*planes, 8, str(luma.device), None)
        return converted(luma, chroma, weights_of(Conversion(), picture, output), output)

    def repeated(self, lines: Values, times: int) -> Values:
        return lines.expand(lines.shape[0], times, lines.shape[2]).contiguous()

    def fft(self, x: Values) -> Values:
        if not hasattr(x, "fft"):
            raise NotOffered("tensors have no fft")
        return x.fft()

    def gather(self, x: Values, axis: int, index: Values) -> Values:
        return x.gather(axis, index)

    def sort(self, x: Values) -> tuple[Values, Values]:
        return x.sort(-1)

    def topk(self, x: Values, k: int) -> tuple[Values, Values]:
        return x.topk(k, -1)

    def scatter_add(self, x: Values, axis: int, index: Values, y: Values) -> Values:
        return x.scatter_reduce(axis, index, y, "sum")
