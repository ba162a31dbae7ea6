"""Rows of joining, splitting, choices and places, and of what PyTorch has one name more for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle import Tensor

from .rows import listed, method

__all__ = ["ASSEMBLING"]

# methods that take PyTorch's arguments as they are
SAME = """
argwhere column_stack combinations diag_embed diagflat dsplit hsplit index_reduce masked_scatter put
tensor_split unique_consecutive unravel_index vsplit
"""
# a list of tensors in PyTorch
LISTED = "column_stack dstack hstack vstack"
# several tensors, the first one on its own, or a list
SEVERAL = "atleast_1d atleast_2d atleast_3d"


def each(name: str) -> Callable[..., Any]:
    """PyTorch takes several tensors at once."""

    def row(x: Any, *rest: Tensor) -> Any:
        given = x if isinstance(x, (list, tuple)) else (x, *rest)
        found = tuple(getattr(tensor, name)() for tensor in given)
        return found if len(given) > 1 or isinstance(x, (list, tuple)) else found[0]

    return row


def together(name: str) -> Callable[..., Any]:
    return lambda *tensors: getattr(Tensor, name)(*tensors)


def isin(elements: Any, tests: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    x = elements if isinstance(elements, Tensor) else Tensor(elements, device=tests.device)
    return x.isin(tests, invert)


def triangle(name: str) -> Callable[..., Any]:
    def row(rows: int, columns: int, offset: int = 0, **_: Any) -> Tensor:
        return getattr(Tensor, name)(rows, columns, offset)

    return row


def written(x: Tensor, place: Any, value: Tensor) -> Tensor:
    """A part is written by an assignment to it."""
    result = x.clone()
    result[place] = value
    return result


def in_axis(dim: int, rank: int, place: Any) -> Any:
    return (*(slice(None) for _ in range(dim % rank)), place)


def select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    return written(x, in_axis(dim, x.ndim, index), src)


def slice_scatter(x: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None,
                  step: int = 1) -> Tensor:  # fmt: skip
    return written(x, in_axis(dim, x.ndim, slice(start, end, step)), src)


def sliced(x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    return x[in_axis(dim, x.ndim, slice(start, end, step))]


def new(name: str) -> Callable[..., Any]:
    """A constructor with the dtype of a tensor."""

    def row(x: Tensor, size: Any, *value: Any, dtype: Any = None, **_: Any) -> Tensor:
        return getattr(Tensor, name)(size, *value, dtype=dtype or x.dtype, device=x.device)

    return row


ASSEMBLING: dict[str, Callable[..., Any]] = {
    **{name: method(name) for name in SAME.split()},
    **{name: listed(name) for name in LISTED.split()},
    **{name: each(name) for name in SEVERAL.split()},
    **{name: together(name) for name in ("block_diag", "broadcast_tensors", "cartesian_prod")},
    "isin": isin,
    "tril_indices": triangle("tril_indices"),
    "triu_indices": triangle("triu_indices"),
    "select_scatter": select_scatter,
    "slice_scatter": slice_scatter,
    "slice": sliced,
    "new_full": new("full"),
    "new_ones": new("ones"),
    "new_zeros": new("zeros"),
    "fill": lambda x, value: x.zeros_like() + value,
    "zero_": lambda x: x.clone().assign(x.zeros_like()),
    "resolve_conj": lambda x: x,
    "resolve_neg": lambda x: x,
}
