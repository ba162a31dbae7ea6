"""treadle and tinygrad, which share their names: `captured` replays by TinyJit."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from ..work import Work
from .base import LEARNING_RATE, Library, NotOffered, Run

__all__ = ["TensorLibrary"]


class TensorLibrary(Library):
    """Lazy tensors; each Run realises its result."""

    package: str
    Tensor: Any
    TinyJit: Any
    captured: bool
    Context: Any
    dtypes: Any
    wait: Any
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

    def tensor(self, array: Any) -> Any:
        return self.Tensor(array).realize()

    def array(self, tensor: Any) -> Any:
        return tensor.numpy()

    # -- tasks --------------------------------------------------------------------------------

    def result(self, work: Work, weights: Mapping[str, Any], inputs: Sequence[Any]) -> Run:
        def result(*xs: Any) -> Any:
            made = work.call(self, weights, xs)
            self.Tensor.realize(*(made if isinstance(made, tuple) else (made,)))
            return made

        return self._run(result, inputs)

    def gradients(self, work: Work, weights: Mapping[str, Any], inputs: Sequence[Any]) -> Run:
        def gradients(*xs: Any) -> Any:
            result = work.call(self, weights, xs[:-1])
            found = result.gradient(*(xs[i] for i in work.wanted), gradient=xs[-1])
            self.Tensor.realize(result, *found)
            return [result, *found]

        return self._run(gradients, inputs)

    def training(self, work: Work, weights: Mapping[str, Any], inputs: Sequence[Any]) -> Run:
        if not self.captured:
            raise NotOffered("steps are captured")
        optimizer = self.optim.Adam(list(weights.values()), lr=LEARNING_RATE)

        def training(*xs: Any) -> Any:
            optimizer.zero_grad()
            loss = work.call(self, weights, xs).backward()
            return loss.realize(*optimizer.schedule_step())

        return self._trained(self._run(training, inputs))

    def update(self, work: Work, weights: Mapping[str, Any], inputs: Sequence[Any]) -> Run:
        optimizer = self.optim.Adam(list(weights.values()), lr=LEARNING_RATE)

        def update(*gradients: Any) -> None:
            for weight, gradient in zip(weights.values(), gradients, strict=True):
                weight.grad = gradient
            self.Tensor.realize(*optimizer.schedule_step())

        step = self._trained(self._run(update, inputs))

        def run() -> Any:
            step()
            return list(weights.values())

        return run

    def _trained(self, run: Run) -> Run:
        def trained() -> Any:
            with self.Context(TRAINING=1):
                return run()

        return trained

    def _run(self, function: Callable[..., Any], inputs: Sequence[Any]) -> Run:
        step = self.TinyJit(function) if self.captured else function
        return lambda: step(*inputs)

    def finish(self, result: Any) -> None:
        self.wait()

    # -- words --------------------------------------------------------------------------------

    def steps(self, x: Any, count: int) -> Any:
        for _ in range(count):
            x = (x + 1).contiguous()
        return x

    def matmul_tf32(self, a: Any, b: Any) -> Any:
        with self.Context(ALLOW_TF32=1):
            return (a @ b).realize()

    def conv2d(
        self, x: Any, w: Any, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1
    ) -> Any:
        return x.conv2d(w, None, groups, stride, dilation, padding)

    def conv2d_input_gradient(self, x: Any, w: Any, g: Any, **how: int) -> Any:
        return self.conv2d(x, w, **how).gradient(x, gradient=g)[0]

    def conv2d_weight_gradient(self, x: Any, w: Any, g: Any, **how: int) -> Any:
        return self.conv2d(x, w, **how).gradient(w, gradient=g)[0]

    def linear(self, x: Any, w: Any, bias: Any) -> Any:
        return x.linear(w.transpose(0, 1), bias)

    def lstm(self, x: Any, *weights: Any) -> Any:
        if not hasattr(self.nn, "LSTM"):
            raise NotOffered(f"{self.nn.__name__} has no LSTM")
        layer = self.nn.LSTM(x.shape[2], weights[1].shape[1])
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        for name, weight in zip(names, weights, strict=True):
            setattr(layer, name, weight)
        return layer(x)[0]

    def embedding(self, table: Any, index: Any) -> Any:
        return table[index]

    def embedding_gradient(self, table: Any, index: Any, g: Any) -> Any:
        return table[index].gradient(table, gradient=g)[0]

    def attention(self, q: Any, k: Any, v: Any, causal: bool = False) -> Any:
        return q.scaled_dot_product_attention(k, v, is_causal=causal)

    def softmax(self, x: Any) -> Any:
        return x.softmax(-1)

    def cross_entropy(self, scores: Any, labels: Any) -> Any:
        return scores.sparse_categorical_crossentropy(labels)

    def layer_norm(self, x: Any, scale: Any, shift: Any) -> Any:
        return x.layernorm() * scale + shift

    def rms_norm(self, x: Any, scale: Any) -> Any:
        return x * ((x * x).mean(-1, keepdim=True) + 1e-6).rsqrt() * scale

    def batch_norm(self, x: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
        if mean is None:
            mean = x.mean((0, 2, 3))
            variance = (x - mean.reshape(1, -1, 1, 1)).square().mean((0, 2, 3))
        return x.batchnorm(scale, shift, mean, (variance + 1e-5).rsqrt())

    def relu(self, x: Any) -> Any:
        return x.relu()

    def gelu(self, x: Any) -> Any:
        # GPT-2's, by tanh: `x.gelu()` is by erf in one library and by tanh in the other.
        return 0.5 * x * (1 + (math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)).tanh())

    def silu(self, x: Any) -> Any:
        return x.silu()

    def dropout(self, x: Any, p: float) -> Any:
        with self.Context(TRAINING=1):
            return x.dropout(p)

    def max_pool2d(self, x: Any, size: int, stride: int, padding: int) -> Any:
        return x.max_pool2d((size, size), stride, 1, padding)

    def copy(self, x: Any) -> Any:
        return x.clone()

    def cast(self, x: Any, dtype: str) -> Any:
        return x.cast(getattr(self.dtypes, dtype))

    def permute(self, x: Any, order: Sequence[int]) -> Any:
        return x.permute(order)

    def contiguous(self, x: Any) -> Any:
        return x.contiguous()

    def concatenate(self, xs: Sequence[Any], axis: int) -> Any:
        return xs[0].cat(*xs[1:], dim=axis)

    def split(self, x: Any, count: int, axis: int) -> Any:
        return x.chunk(count, axis)

    def mean(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.mean(axes)

    def linalg(self, function: str, a: Any, *more: Any) -> Any:
        if not hasattr(a, function):
            raise NotOffered(f"tensors have no {function}")
        found = getattr(a, function)(*more)
        return found[0] if function == "lstsq" else found

    def rgb_of_nv12(self, luma: Any, chroma: Any, dtype: str) -> Any:
        if self.package != "treadle":
            raise NotOffered(f"{self.package} converts no video")
        from ...video.colour import Conversion, Output, converted, weights_of
        from ...video.frames import NV12Plane, Picture

        (rows, half), output = luma.shape, Output.of(dtype, dtype != "uint8")
        planes = (
            NV12Plane(0, 2 * half, 2 * half, rows, 1),
            NV12Plane(0, 2 * half, half, rows // 2, 2),
        )
        picture = Picture(*planes, 8, luma.device, None)
        return converted(luma, chroma, weights_of(Conversion(), picture, output), output)

    def repeated(self, lines: Any, times: int) -> Any:
        return lines.expand(lines.shape[0], times, lines.shape[2]).contiguous()

    def fft(self, x: Any) -> Any:
        if not hasattr(x, "fft"):
            raise NotOffered("tensors have no fft")
        return x.fft()

    def gather(self, x: Any, axis: int, index: Any) -> Any:
        return x.gather(axis, index)

    def sort(self, x: Any) -> Any:
        return x.sort(-1)

    def topk(self, x: Any, k: int) -> Any:
        return x.topk(k, -1)

    def scatter_add(self, x: Any, axis: int, index: Any, y: Any) -> Any:
        return x.scatter_reduce(axis, index, y, "sum")
