"""Work that is bound by memory: each element is read once and little is done with it."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from ..libraries.base import Library
from ..work import BANDWIDTH, Array, Form, Input, Work

if TYPE_CHECKING:
    import torch

__all__ = ["rows"]


_SIZES = {"float64": 8, "float32": 4, "int32": 4, "float16": 2, "int8": 1}  # bytes of an element


def rows(quick: bool) -> list[Work]:
    """90 % of the bandwidth that was measured in the same run."""
    n = 256 if quick else 4096
    return [
        *(_matvec(n, dtype) for dtype in ("float32", "float16", "int8")),
        *(_sum(n, axis) for axis in (None, 0, 1)),
        *(_sum(n, axis, "int8") for axis in (None, 0, 1)),
        *(_argmax(n, axis) for axis in (0, 1)),
        *(_argmax(n, axis, dtype) for dtype in ("float64", "int32") for axis in (None, 0, 1)),
        *(_cumsum(n, axis) for axis in (0, 1)),
        Work("memory", f"copy {n}x{n}", "copy", 8.0 * n * n, (Input((n, n)),), _copy, (BANDWIDTH,),
             lambda _, out, x: out.copy_(x)),
        _cast(n, "float32", "float16", 6),
        _cast(n, "float16", "float32", 6),
        _cast(n, "float32", "int32", 8),
    ]  # fmt: skip


def _matvec(n: int, dtype: str) -> Work:
    """float32 results of `dtype` weights: half the bytes, half the time."""
    below = 100 if dtype == "int8" else 0
    given = (Input((n, n), dtype, below=below), Input((n,)))

    def form(lib: Library[Array], w: Array, x: Array) -> Array:
        return (w if dtype == "float32" else lib.cast(w, "float32")) @ x

    out = (lambda torch, out, w, x: torch.mv(w, x, out=out)) if dtype == "float32" else None
    name = f"matvec {n}, {dtype} weights"
    amount = float(_SIZES[dtype]) * n * n
    return Work("memory", name, "read", amount, given, form, (BANDWIDTH,), out)


def _reduction(word: str, n: int, axis: int | None, dtype: str, form: Form, out: Form) -> Work:
    over = "" if axis is None else f" axis {axis}"
    kind = "" if dtype == "float32" else f"{dtype} "
    size, below = _SIZES[dtype], 100 if dtype == "int8" else 0
    given = Input((n, n), dtype, below, scale=1e6 if dtype == "int32" else 1.0)
    name, amount = f"{kind}{word}{over} {n}x{n}", float(size) * n * n
    return Work("memory", name, "read", amount, (given,), form, (BANDWIDTH,), out)


def _sum(n: int, axis: int | None, dtype: str = "float32") -> Work:
    def form(_: Library[Array], x: Array) -> Array:
        return x.sum(axis)

    def out(torch: ModuleType, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(x, axis, out=out)

    return _reduction("sum", n, axis, dtype, form, out)


def _argmax(n: int, axis: int | None, dtype: str = "float32") -> Work:
    def form(_: Library[Array], x: Array) -> Array:
        return x.argmax(axis)

    def out(torch: ModuleType, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.argmax(x, axis, out=out)

    return _reduction("argmax", n, axis, dtype, form, out)


def _cumsum(n: int, axis: int) -> Work:
    def form(_: Library[Array], x: Array) -> Array:
        return x.cumsum(axis)

    def out(torch: ModuleType, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, axis, out=out)

    name, amount = f"cumsum axis {axis} {n}x{n}", 8.0 * n * n
    return Work("memory", name, "copy", amount, (Input((n, n)),), form, (BANDWIDTH,), out)


def _cast(n: int, dtype: str, target: str, size: int) -> Work:
    def form(lib: Library[Array], x: Array) -> Array:
        return lib.cast(x, target)

    name, given = f"cast {dtype} to {target} {n}x{n}", (Input((n, n), dtype, scale=100.0),)
    return Work("memory", name, "copy", float(size) * n * n, given, form, (BANDWIDTH,),
                lambda _, out, x: out.copy_(x))  # fmt: skip


def _copy(lib: Library[Array], x: Array) -> Array:
    return lib.copy(x)
