"""Elements that only change places: transposes, slices, gathers and scatters, sorting."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from ..libraries.base import Library
from ..work import AS_FAST, TWICE, Array, Bar, Form, Input, Work

if TYPE_CHECKING:
    import torch

__all__ = ["rows"]


def rows(quick: bool) -> list[Work]:
    """At least PyTorch's speed, transposes twice that."""
    n = 256 if quick else 4096
    batch, tokens, words = (2, 16, 100) if quick else (16, 512, 50257)
    square, amount = Input((n, n)), 8.0 * n * n
    image = Input((8, n // 16, n // 32, 64))
    index, table = Input((batch * tokens,), "int32", below=words), Input((words, 768))
    found, line = 4.0 * batch * tokens * 768, Input((n * n // 16,))
    return [
        _moved(f"transpose {n}x{n}", amount, (square,), _transpose, _transpose_out,
               bar=TWICE),
        _moved(f"permute (0, 3, 1, 2) {'x'.join(map(str, image.shape))}", amount, (image,),
               _permute, _permute_out),
        *(_concatenation(n, axis) for axis in (0, 1)),
        _moved(f"x[::2, 1::3] {n}x{n}", amount / 6, (square,), _slices, _slices_out),
        *(_gather(n, axis) for axis in (0, 1)),
        *(_scatter_add(n, axis) for axis in (0, 1)),
        _moved(f"embedding {words}x768, {batch}x{tokens}", 2 * found, (table, index), _embedding,
               _embedding_out),
        _moved(f"embedding {words}x768, {batch}x{tokens}, gradient", found + 4.0 * words * 768,
               (table, index, Input((batch * tokens, 768))), _embedding_gradient),
        _moved(f"sort {n}x{n}", 1.5 * amount, (square,), _sort, _sort_out),
        _moved(f"sort {n * n // 16}", 1.5 * amount / 16, (line,), _sort, _sort_out),
        _moved(f"top {n // 128} of {n}x{n}", amount / 2, (square,), *_top(n // 128)),
    ]  # fmt: skip


def _moved(
    name: str,
    amount: float,
    given: tuple[Input, ...],
    form: Form,
    out: Form | None = None,
    bar: Bar = AS_FAST,
) -> Work:
    return Work("moving", name, "copy", amount, given, form, (bar,), out)


def _concatenation(n: int, axis: int) -> Work:
    def form(lib: Library[Array], x: Array, y: Array) -> Array:
        return lib.concatenate([x, y], axis)

    def out(torch: ModuleType, out: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y], axis, out=out)

    name = f"concatenate axis {axis} 2x{n}x{n}"
    return _moved(name, 16.0 * n * n, (Input((n, n)),) * 2, form, out)


def _quarter(n: int, axis: int) -> tuple[int, int]:
    """A quarter of the square along `axis`."""
    return (n // 4, n) if axis == 0 else (n, n // 4)


def _gather(n: int, axis: int) -> Work:
    def form(lib: Library[Array], x: Array, index: Array) -> Array:
        return lib.gather(x, axis, index)

    def out(
        torch: ModuleType, out: torch.Tensor, x: torch.Tensor, index: torch.Tensor
    ) -> torch.Tensor:
        return torch.gather(x, axis, index, out=out)

    name, amount = f"gather axis {axis}, a quarter of {n}x{n}", 3.0 * n * n
    given = (Input((n, n)), Input(_quarter(n, axis), "int32", below=n))
    return _moved(name, amount, given, form, out)


def _scatter_add(n: int, axis: int) -> Work:
    def form(lib: Library[Array], x: Array, index: Array, y: Array) -> Array:
        return lib.scatter_add(x, axis, index, y)

    def out(
        torch: ModuleType, out: torch.Tensor, x: torch.Tensor, index: torch.Tensor, y: torch.Tensor
    ) -> torch.Tensor:
        return torch.scatter_add(x, axis, index, y, out=out)

    name, shape = f"scatter-add axis {axis}, a quarter into {n}x{n}", _quarter(n, axis)
    given = (Input((n, n)), Input(shape, "int32", below=n), Input(shape))
    return _moved(name, 10.0 * n * n, given, form, out)


def _sort(lib: Library[Array], x: Array) -> Array:
    return lib.sort(x)


def _sort_out(torch: ModuleType, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.sort(x, dim=-1, out=out)


def _top(k: int) -> tuple[Form, Form]:
    def form(lib: Library[Array], x: Array) -> Array:
        return lib.topk(x, k)

    def out(torch: ModuleType, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.topk(x, k, dim=-1, out=out)

    return form, out


def _transpose(lib: Library[Array], x: Array) -> Array:
    return lib.contiguous(lib.permute(x, (1, 0)))


def _transpose_out(_: object, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return out.copy_(x.T)


def _permute(lib: Library[Array], x: Array) -> Array:
    return lib.contiguous(lib.permute(x, (0, 3, 1, 2)))


def _permute_out(_: object, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return out.copy_(x.permute(0, 3, 1, 2))


def _slices(lib: Library[Array], x: Array) -> Array:
    return lib.contiguous(x[::2, 1::3])


def _slices_out(_: object, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return out.copy_(x[::2, 1::3])


def _embedding(lib: Library[Array], table: Array, index: Array) -> Array:
    return lib.embedding(table, index)


def _embedding_out(
    torch: ModuleType, out: torch.Tensor, table: torch.Tensor, index: torch.Tensor
) -> torch.Tensor:
    return torch.index_select(table, 0, index, out=out)


def _embedding_gradient(lib: Library[Array], table: Array, index: Array, g: Array) -> Array:
    return lib.embedding_gradient(table, index, g)
