"""PyTorch: eager; without fresh pages (`out=`, the fused Adam); torch.compile with two backends;
CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..work import Work
from .base import LEARNING_RATE, Library, NotOffered, Run

if TYPE_CHECKING:
    import numpy as np
    import torch

__all__ = ["Torch", "TorchCompile", "TorchGraph", "TorchOut", "TorchTreadle"]


class Torch(Library["torch.Tensor"]):
    """PyTorch as most programs use it, on the processor or on its `device` "cuda"."""

    fused_update = False
    torch: ModuleType
    functional: ModuleType

    def __init__(self, device: str = "cpu") -> None:
        import torch

        self.torch, self.functional, self.device = torch, torch.nn.functional, device

    def tensor(self, array: np.ndarray) -> torch.Tensor:
        """A copy. Integers become int64, which labels and `gather` must be."""
        if array.dtype == "bfloat16":
            return self.torch.from_numpy(array.astype("float32")).to(self.device).bfloat16()
        dtype = "int64" if array.dtype == "int32" else array.dtype
        return self.torch.from_numpy(array.astype(dtype)).to(self.device)

    def array(self, tensor: torch.Tensor) -> np.ndarray:
        tensor = tensor.detach().cpu()
        return (tensor.float() if tensor.dtype == self.torch.bfloat16 else tensor).numpy()

    def finish(self, result: object) -> None:
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    # -- tasks --------------------------------------------------------------------------------

    def result(
        self, work: Work, weights: Mapping[str, torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> Run:
        function = self.compiled(lambda *xs: work.call(self, weights, xs))
        return self.torch.inference_mode()(lambda: function(*inputs))

    def gradients(
        self, work: Work, weights: Mapping[str, torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> Run:
        function = self.compiled(lambda *xs: work.call(self, weights, xs))
        wanted = [inputs[i].requires_grad_() for i in work.wanted]

        def run() -> object:
            result = function(*inputs[:-1])
            return [result, *self.torch.autograd.grad(result, wanted, inputs[-1])]

        return run

    def training(
        self, work: Work, weights: Mapping[str, torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> Run:
        function = self.compiled(lambda *xs: work.call(self, weights, xs))
        optimizer = self._adam(weights, fused=True)

        def run() -> object:
            optimizer.zero_grad()
            loss = function(*inputs)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return run

    def update(
        self, work: Work, weights: Mapping[str, torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> Run:
        optimizer = self._adam(weights, fused=self.fused_update)
        for weight, gradient in zip(weights.values(), inputs, strict=True):
            weight.grad = gradient
        step = self.compiled(optimizer.step)

        def run() -> object:
            step()
            return list(weights.values())

        return run

    def _adam(self, weights: Mapping[str, torch.Tensor], fused: bool) -> torch.optim.Optimizer:
        trained = [weight.requires_grad_() for weight in weights.values()]
        return self.torch.optim.Adam(trained, lr=LEARNING_RATE, fused=fused)

    # -- words --------------------------------------------------------------------------------

    def steps(self, x: torch.Tensor, count: int) -> torch.Tensor:
        for _ in range(count):
            x = x + 1
        return x

    def matmul_tf32(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        settings = self.torch.backends.cuda.matmul
        before, settings.allow_tf32 = settings.allow_tf32, True
        try:
            return a @ b
        finally:
            settings.allow_tf32 = before

    def conv2d(
        self,
        x: torch.Tensor,
        w: torch.Tensor,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
    ) -> torch.Tensor:
        return self.functional.conv2d(x, w, None, stride, padding, dilation, groups)

    def conv2d_input_gradient(
        self, x: torch.Tensor, w: torch.Tensor, g: torch.Tensor, **how: int
    ) -> torch.Tensor:
        return self._convolution_backward(g, x, w, (True, False, False), **how)[0]

    def conv2d_weight_gradient(
        self, x: torch.Tensor, w: torch.Tensor, g: torch.Tensor, **how: int
    ) -> torch.Tensor:
        return self._convolution_backward(g, x, w, (False, True, False), **how)[1]

    def _convolution_backward(
        self, g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, wanted: tuple[bool, bool, bool],
        stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1,
    ) -> torch.Tensor:  # fmt: skip
        pairs = [[n, n] for n in (stride, padding, dilation)]
        return self.torch.ops.aten.convolution_backward(
            g, x, w, None, *pairs, False, [0, 0], groups, wanted
        )

    def linear(self, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return self.functional.linear(x, w, bias)

    def lstm(self, x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        zeros = x.new_zeros(1, x.shape[1], weights[1].shape[1])
        return self.torch.lstm(x, (zeros, zeros), list(weights), True, 1, 0.0, False, False, False)[
            0
        ]

    def embedding(self, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return self.functional.embedding(index, table)

    def embedding_gradient(
        self, table: torch.Tensor, index: torch.Tensor, g: torch.Tensor
    ) -> torch.Tensor:
        return self.torch.ops.aten.embedding_dense_backward(g, index, table.shape[0], -1, False)

    def attention(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False
    ) -> torch.Tensor:
        return self.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def masked_attention(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        mask: torch.Tensor | None,
        causal: bool,
        grouped: bool,
    ) -> torch.Tensor:
        return self.functional.scaled_dot_product_attention(
            q, k, v, mask, is_causal=causal, enable_gqa=grouped
        )

    def reduce(self, x: torch.Tensor, word: str, axes: tuple[int, ...]) -> torch.Tensor:
        return getattr(self.torch, "amax" if word == "max" else word)(x, axes)

    def softmax_along(self, x: torch.Tensor, axis: int) -> torch.Tensor:
        return self.torch.softmax(x, axis)

    def pad2d(self, x: torch.Tensor, left: int, right: int, top: int, bottom: int) -> torch.Tensor:
        return self.functional.pad(x, (left, right, top, bottom))

    def flip(self, x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
        return x.flip(axes)

    def roll(self, x: torch.Tensor, by: int, axis: int) -> torch.Tensor:
        return x.roll(by, axis)

    def contiguous_copy(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone(memory_format=self.torch.contiguous_format)

    def softmax(self, x: torch.Tensor) -> torch.Tensor:
        return self.torch.softmax(x, -1)

    def cross_entropy(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.functional.cross_entropy(scores, labels)

    def layer_norm(self, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        return self.functional.layer_norm(x, scale.shape, scale, shift)

    def rms_norm(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return self.functional.rms_norm(x, scale.shape, scale, 1e-6)

    def batch_norm(
        self,
        x: torch.Tensor,
        scale: torch.Tensor,
        shift: torch.Tensor,
        mean: torch.Tensor,
        variance: torch.Tensor,
    ) -> torch.Tensor:
        return self.functional.batch_norm(x, mean, variance, scale, shift, training=mean is None)

    def relu(self, x: torch.Tensor) -> torch.Tensor:
        return self.functional.relu(x)

    def gelu(self, x: torch.Tensor) -> torch.Tensor:
        return self.functional.gelu(x, approximate="tanh")

    def silu(self, x: torch.Tensor) -> torch.Tensor:
        return self.functional.silu(x)

    def dropout(self, x: torch.Tensor, p: float) -> torch.Tensor:
        return self.functional.dropout(x, p)

    def max_pool2d(self, x: torch.Tensor, size: int, stride: int, padding: int) -> torch.Tensor:
        return self.functional.max_pool2d(x, size, stride, padding)

    def copy(self, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    def cast(self, x: torch.Tensor, dtype: str) -> torch.Tensor:
        return x.to(getattr(self.torch, dtype))

    def permute(self, x: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
        return x.permute(*order)

    def contiguous(self, x: torch.Tensor) -> torch.Tensor:
        return x.contiguous()

    def concatenate(self, xs: Sequence[torch.Tensor], axis: int) -> torch.Tensor:
        return self.torch.cat(list(xs), axis)

    def split(self, x: torch.Tensor, count: int, axis: int) -> tuple[torch.Tensor, ...]:
        return x.chunk(count, axis)

    def mean(self, x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
        return x.mean(axes)

    def linalg(self, function: str, a: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        found = getattr(self.torch.linalg, function)(a, *more)
        return found[0] if function == "lstsq" else found

    def rgb_of_nv12(self, luma: torch.Tensor, chroma: torch.Tensor, dtype: str) -> torch.Tensor:
        torch, top = self.torch, 255.0 if dtype == "uint8" else 1.0
        y = (luma.view(torch.uint8).float() - 16) * (top / 219)
        both = (chroma.view(torch.uint8).float() - 128) * (top / 224)
        both = both.reshape(both.shape[0], -1, 2).repeat_interleave(2, 0).repeat_interleave(2, 1)
        u, v = both.unbind(-1)
        # BT.709
        red, green, blue = y + 1.5748 * v, y - 0.187324 * u - 0.468124 * v, y + 1.8556 * u
        found = torch.stack([red, green, blue], -1).clamp(0, top)
        return (found + 0.5 if dtype == "uint8" else found).to(getattr(torch, dtype))

    def repeated(self, lines: torch.Tensor, times: int) -> torch.Tensor:
        return lines.repeat(1, times, 1)

    def fft(self, x: torch.Tensor) -> torch.Tensor:
        return self.torch.fft.fft(x)

    def gather(self, x: torch.Tensor, axis: int, index: torch.Tensor) -> torch.Tensor:
        return x.gather(axis, index)

    def sort(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(x.sort(-1))

    def topk(self, x: torch.Tensor, k: int) -> tuple[torch.Tensor, ...]:
        return tuple(x.topk(k, -1))

    def scatter_add(
        self, x: torch.Tensor, axis: int, index: torch.Tensor, y: torch.Tensor
    ) -> torch.Tensor:
        return x.scatter_add(axis, index, y)


class TorchOut(Torch):
    """Results into memory that is already there; Adam fused into one pass."""

    fused_update = True

    def result(
        self, work: Work, weights: Mapping[str, torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> Run:
        form = work.out
        if form is None:
            raise NotOffered("no out= form")
        with self.torch.inference_mode():
            made = work.call(self, weights, inputs)
            each = self.torch.empty_like
            out = tuple(map(each, made)) if isinstance(made, tuple) else each(made)
        return self.torch.inference_mode()(lambda: form(self.torch, out, *inputs))

    def gradients(
        self, work: Work, weights: Mapping[str, torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> Run:
        raise NotOffered("no out= form")

    training = gradients


class TorchCompile(Torch):
    """Forms through torch.compile, gradients included."""

    @property
    def backend(self) -> str | Callable[..., object]:
        """What torch.compile takes as its backend."""
        return "inductor"

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        # It counts compilations of one code object, and soon gives up on it: rows share theirs.
        self.torch.compiler.reset()
        # A row in pieces would be torch.compile at its worst; only an optimizer's step has seams.
        whole = not isinstance(getattr(function, "__self__", None), self.torch.optim.Optimizer)
        return self.torch.compile(function, fullgraph=whole, backend=self.backend)

    def matmul_tf32(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        raise NotOffered("the setting is not a part of what is compiled")

    def steps(self, x: torch.Tensor, count: int) -> torch.Tensor:
        raise NotOffered("it is one kernel")


class TorchTreadle(TorchCompile):
    """PyTorch's programs through treadle: what its backend of torch.compile adds and costs."""

    @property
    def backend(self) -> str | Callable[..., object]:
        """The function itself: it needs no installed entry point."""
        from ...interop.dynamo import compile_graph

        return compile_graph


class TorchGraph(Torch):
    """Results through a CUDA graph that is captured once and replayed."""

    def result(
        self, work: Work, weights: Mapping[str, torch.Tensor], inputs: Sequence[torch.Tensor]
    ) -> Run:
        torch = self.torch
        with torch.inference_mode():
            torch.cuda.synchronize()
            with torch.cuda.stream(torch.cuda.Stream()):  # as captures ask for
                work.call(self, weights, inputs)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                made = work.call(self, weights, inputs)

        def run() -> object:
            graph.replay()
            return made

        return run
