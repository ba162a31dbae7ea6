"""What is measured: each row is one piece of array work, written once for each library.

    Work("matmul 1024", "flop", 2 * 1024**3, inputs, MATMUL, bar=Bar("torch", 1.0))

A form takes the library's module and the inputs; `tensor` serves treadle and tinygrad, which
share their names. `torch_out` also takes the result to write into: PyTorch without fresh pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Bar", "Forms", "Work", "works"]

Form = Callable[..., Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Forms:
    """One computation in each library; None where the library has no direct counterpart."""

    tensor: Form
    torch: Form
    numpy: Form | None = None
    jax: Form | None = None
    torch_out: Form | None = None


@dataclass(frozen=True)
class Bar:
    """What a row must reach: `factor` times the speed of `against`, or that share of a ceiling."""

    against: Literal["torch", "bandwidth"]
    factor: float


@dataclass(frozen=True)
class Work:
    """One row: `amount` flops or bytes of work on float32 inputs of `shapes`."""

    name: str
    unit: Literal["flop", "byte"]
    amount: float
    shapes: tuple[Shape, ...]
    forms: Forms
    bar: Bar

    def inputs(self) -> list[Any]:
        """The same random float32 arrays for every library."""
        import numpy as np

        generator = np.random.default_rng(0)
        return [generator.standard_normal(shape, dtype=np.float32) for shape in self.shapes]


def _gelu_jax(jax: Any, x: Any) -> Any:
    return jax.nn.gelu(2 * x + 1, approximate=True) * x


def _gelu_torch(torch: Any, x: Any) -> Any:
    return torch.nn.functional.gelu(2 * x + 1, approximate="tanh") * x


def _gelu_torch_out(torch: Any, out: Any, x: Any) -> Any:
    torch.mul(x, 2, out=out).add_(1)
    torch._C._nn.gelu(out, approximate="tanh", out=out)
    return out.mul_(x)


def _softmax_numpy(np: Any, x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _layernorm_jax(jax: Any, x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def _conv_jax(jax: Any, x: Any, w: Any) -> Any:
    return jax.lax.conv(x, w, (1, 1), "SAME")


def _attention_jax(jax: Any, q: Any, k: Any, v: Any) -> Any:
    scores = jax.nn.softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]))
    return scores @ v


def _sum(*axis: int) -> Forms:
    return Forms(
        lambda _, x: x.sum(*axis),
        lambda _, x: x.sum(*axis),
        lambda _, x: x.sum(*axis),
        lambda _, x: x.sum(*axis),
        lambda torch, out, x: torch.sum(x, axis, out=out),
    )


MATMUL = Forms(
    lambda _, a, b: a @ b,
    lambda _, a, b: a @ b,
    lambda _, a, b: a @ b,
    lambda _, a, b: a @ b,
    lambda torch, out, a, b: torch.matmul(a, b, out=out),
)
GELU = Forms(
    lambda _, x: (2 * x + 1).gelu() * x, _gelu_torch, None, _gelu_jax, _gelu_torch_out
)  # fmt: skip
SOFTMAX = Forms(
    lambda _, x: x.softmax(-1),
    lambda _, x: x.softmax(-1),
    _softmax_numpy,
    lambda jax, x: jax.nn.softmax(x, -1),
    lambda torch, out, x: torch.softmax(x, -1, out=out),
)
LAYERNORM = Forms(
    lambda _, x: x.layernorm(),
    lambda torch, x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    None,
    _layernorm_jax,
)
COPY = Forms(
    lambda _, x: x.clone(),
    lambda _, x: x.clone(),
    lambda _, x: x.copy(),
    lambda _, x: x.copy(),
    lambda _, out, x: out.copy_(x),
)
TRANSPOSE = Forms(
    lambda _, x: x.T.contiguous(),
    lambda _, x: x.T.contiguous(),
    lambda np, x: np.ascontiguousarray(x.T),
    lambda jax, x: x.T.copy(),
    lambda _, out, x: out.copy_(x.T),
)
CONV = Forms(
    lambda _, x, w: x.conv2d(w, padding=1),
    lambda torch, x, w: torch.nn.functional.conv2d(x, w, padding=1),
    None,
    _conv_jax,
)
ATTENTION = Forms(
    lambda _, q, k, v: q.scaled_dot_product_attention(k, v),
    lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v),
    None,
    _attention_jax,
)

AS_FAST = Bar("torch", 1.0)
TWICE = Bar("torch", 2.0)
BANDWIDTH = Bar("bandwidth", 0.9)


def works(quick: bool) -> list[Work]:
    """Every row; `quick` shrinks the sizes until each takes about a millisecond."""
    n, sizes = (256, (64, 128)) if quick else (4096, (256, 512, 1024, 2048))
    batch, image, tokens = (1, 14, 64) if quick else (8, 56, 512)
    square, one, two = (n, n), 4.0 * n * n, 8.0 * n * n
    rows = [
        Work(f"matmul {m}", "flop", 2.0 * m**3, ((m, m), (m, m)), MATMUL, AS_FAST) for m in sizes
    ]
    rows += [
        _conv(batch, 64, image),
        _attention(8, tokens, 64),
        Work(f"gelu(2x+1)*x {n}x{n}", "byte", two, (square,), GELU, TWICE),
        Work(f"softmax {n}x{n}", "byte", two, (square,), SOFTMAX, TWICE),
        Work(f"layer norm {n}x{n}", "byte", two, (square,), LAYERNORM, TWICE),
        Work(f"transpose {n}x{n}", "byte", two, (square,), TRANSPOSE, TWICE),
        Work(f"sum {n}x{n}", "byte", one, (square,), _sum(), BANDWIDTH),
        Work(f"sum axis 0 {n}x{n}", "byte", one, (square,), _sum(0), BANDWIDTH),
        Work(f"sum axis 1 {n}x{n}", "byte", one, (square,), _sum(1), BANDWIDTH),
        Work(f"matvec {n}", "byte", one, (square, (n,)), MATMUL, BANDWIDTH),
        Work(f"copy {n}x{n}", "byte", two, (square,), COPY, BANDWIDTH),
    ]
    return rows


def _conv(batch: int, channels: int, size: int) -> Work:
    shapes: Sequence[Shape] = ((batch, channels, size, size), (channels, channels, 3, 3))
    flops = 2.0 * batch * size * size * channels * channels * 9
    name = f"conv2d 3x3 {channels}->{channels} {batch}x{size}x{size}"
    return Work(name, "flop", flops, tuple(shapes), CONV, AS_FAST)


def _attention(heads: int, tokens: int, width: int) -> Work:
    shape = (1, heads, tokens, width)
    flops = 4.0 * heads * tokens * tokens * width
    name = f"attention {heads}x{tokens}x{width}"
    return Work(name, "flop", flops, (shape,) * 3, ATTENTION, AS_FAST)
