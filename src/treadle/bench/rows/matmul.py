"""Matrix products: squares, and shapes that fit no tile."""

from __future__ import annotations

import math
from types import ModuleType
from typing import TYPE_CHECKING

from ..libraries.base import Library
from ..work import NINE_TENTHS, Array, Input, Work

if TYPE_CHECKING:
    import torch

__all__ = ["rows"]


def rows(quick: bool) -> list[Work]:
    """Every one at least 0.9 of PyTorch, the mean at least 1."""
    squares = (64, 128) if quick else (256, 512, 1024, 2048)
    awkward = (
        ((50, 49, 51), (8, 128, 128), (128, 8, 128))
        if quick
        else ((1000, 999, 1001), (64, 4096, 4096), (4096, 64, 4096))
    )
    batch, side = (4, 64) if quick else (32, 1024)
    return [
        *(_product(str(n), (n, n), (n, n)) for n in squares),
        *(_product(f"{m}x{k}x{n}", (m, k), (k, n)) for m, k, n in awkward),
        _product(f"{batch}x128x128x64", (batch, 128, 128), (batch, 128, 64)),
        _transposed("left", side),
        _transposed("right", side),
    ]


def _product(name: str, left: tuple[int, ...], right: tuple[int, ...]) -> Work:
    amount = 2.0 * math.prod(left) * right[-1]
    given = (Input(left), Input(right))
    return Work("matmul", f"matmul {name}", "flops", amount, given, _matmul, (NINE_TENTHS,), _out)


def _transposed(side: str, n: int) -> Work:
    def form(_: Library[Array], a: Array, b: Array) -> Array:
        return a.T @ b if side == "left" else a @ b.T

    def out(torch: ModuleType, out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(*((a.T, b) if side == "left" else (a, b.T)), out=out)

    name, given = f"matmul {n}, {side} operand transposed", (Input((n, n)),) * 2
    return Work("matmul", name, "flops", 2.0 * n**3, given, form, (NINE_TENTHS,), out)


def _matmul(_: Library[Array], a: Array, b: Array) -> Array:
    return a @ b


def _out(torch: ModuleType, out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.matmul(a, b, out=out)
