"""Rows, losses and chains that a compiler fuses into one pass over memory."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..libraries.base import Library
from ..work import TWICE_AND_COMPILED, Array, Form, Input, Task, Work

if TYPE_CHECKING:
    import torch

__all__ = ["rows"]


def rows(quick: bool) -> list[Work]:
    """Twice PyTorch's speed, 1.2 times that of compilers."""
    n, classes = (256, 1000) if quick else (4096, 50257)
    row, labels = (Input((n,)),), Input((n // 4,), "int32", below=classes)
    return [
        _fused(f"softmax {n}x{n}", n, _softmax, out=_softmax_out),
        _fused(f"layer norm {n}x{n}", n, _layer_norm, row * 2),
        _fused(f"RMS norm {n}x{n}", n, _rms_norm, row),
        _fused(f"gelu(2x+1)*x {n}x{n}", n, _gelu, out=_gelu_out),
        _fused(f"silu(x)*y+x {n}x{n}", n, _silu, (Input((n, n)),), out=_silu_out),
        _fused(f"dropout {n}x{n}", n, _dropout, random=True),
        _loss(n // 4, classes, labels, "result"),
        _loss(n // 4, classes, labels, "gradients"),
        _adam(16, 64) if quick else _adam(100, 512),
    ]


def _fused(name: str, n: int, form: Form, more: tuple[Input, ...] = (), **rest: Any) -> Work:
    large = 1 + sum(len(given.shape) == 2 for given in more)
    amount, given = 4.0 * n * n * (1 + large), (Input((n, n)), *more)
    return Work("normal", name, "copy", amount, given, form, TWICE_AND_COMPILED, **rest)


def _loss(count: int, classes: int, labels: Input, task: Task) -> Work:
    """Bytes: the scores once; with gradients, once more, and the gradients written."""
    name = f"cross-entropy {count}x{classes}" + ", with gradients" * (task == "gradients")
    amount, given = 4.0 * count * classes, (Input((count, classes)), labels)
    if task == "result":
        return Work("normal", name, "read", amount, given, _cross_entropy, TWICE_AND_COMPILED)
    given = (*given, Input((), mean=1.0, scale=0.0))
    return Work("normal", name, "copy", 3 * amount, given, _cross_entropy, TWICE_AND_COMPILED,
                task="gradients", wanted=(0,))  # fmt: skip


def _adam(count: int, n: int) -> Work:
    """Reads four arrays of each parameter and writes three."""
    shapes = [(n, n) if place % 2 else (n,) for place in range(count)]
    weights = {f"weight{place}": Input(shape) for place, shape in enumerate(shapes)}
    amount = 28.0 * sum(n ** len(shape) for shape in shapes)
    return Work("normal", f"Adam step, {count} parameters", "copy", amount,
                tuple(weights.values()), _nothing, TWICE_AND_COMPILED, weights=weights,
                task="update")  # fmt: skip


def _nothing(*_: Library[Array]) -> None:
    """An update has no form."""


def _softmax(lib: Library[Array], x: Array) -> Array:
    return lib.softmax(x)


def _softmax_out(torch: ModuleType, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1, out=out)


def _layer_norm(lib: Library[Array], x: Array, scale: Array, shift: Array) -> Array:
    return lib.layer_norm(x, scale, shift)


def _rms_norm(lib: Library[Array], x: Array, scale: Array) -> Array:
    return lib.rms_norm(x, scale)


def _gelu(lib: Library[Array], x: Array) -> Array:
    return lib.gelu(2 * x + 1) * x


def _gelu_out(torch: ModuleType, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    torch.mul(x, 2, out=out).add_(1)
    torch._C._nn.gelu(out, approximate="tanh", out=out)
    return out.mul_(x)


def _silu(lib: Library[Array], x: Array, y: Array) -> Array:
    return lib.silu(x) * y + x


def _silu_out(
    torch: ModuleType, out: torch.Tensor, x: torch.Tensor, y: torch.Tensor
) -> torch.Tensor:
    return torch._C._nn.silu(x, out=out).mul_(y).add_(x)


def _dropout(lib: Library[Array], x: Array) -> Array:
    return lib.dropout(x, 0.1)


def _cross_entropy(lib: Library[Array], scores: Array, labels: Array) -> Array:
    return lib.cross_entropy(scores, labels)
