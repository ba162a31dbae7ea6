"""ATen's operators that gather, scatter and sort: more rows of the table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..dtype import _from_torch_dtype, dtypes
from ..tensor import Tensor
from ..tensor.operands import Operand
from ..tensor.subscript import check_places
from .aten import axes_of, means

__all__ = ["ONLY_IF"]

aten = torch.ops.aten


def _has_whole_indices(node: torch.fx.Node) -> bool:
    """Whether an `index` or `index_put` is by numbers: masks are PyTorch's."""
    given: Any = node.args[1]
    return all(one is None or not _is_mask(one.meta["val"].dtype) for one in given)


def _is_mask(dtype: torch.dtype) -> bool:
    return dtype in (torch.bool, torch.uint8)


ONLY_IF = dict.fromkeys((aten.index.Tensor, aten.index_put.default), _has_whole_indices)


@means(aten.arange.start_step)
def _arange(
    start: float,
    end: float,
    step: float = 1,
    *,
    dtype: torch.dtype | None = None,
    **placement: object,
) -> Tensor:
    kind = None if dtype is None else _from_torch_dtype(dtype)
    return Tensor.arange(start, end, step, dtype=kind, device="CPU")


# -- reading and writing places -------------------------------------------------------------------


@means(aten.embedding.default)
def _embedding(table: Tensor, index: Tensor, *how: object) -> Tensor:
    return table._pick_checked("embedding", 0, index)


@means(aten.index.Tensor)
def _index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    return x[tuple(slice(None) if one is None else one for one in indices)]


@means(aten.index_put.default)
def _index_put(x: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    axes = [axis for axis, one in enumerate(indices) if one is not None]
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    first, *others = (indices[axis] for axis in axes)
    given = first.broadcast_tensors(*others) if others else (first,)
    sizes = [x.shape[axis] for axis in axes]
    place: Any = 0
    for one, axis, size in zip(given, axes, sizes, strict=True):
        one = one._result(check_places("index_put", one, axis, size, -size))
        place = place * size + (one < 0).where(one + size, one).cast(dtypes.int64)
    count = given[0].ndim
    # Axes of the index stand where the indexed ones stood, or in front of all if those lie apart.
    ahead = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    lines = [x.shape[axis] for axis in rest]
    values = values.expand((*lines[:ahead], *given[0].shape, *lines[ahead:]))
    moved = range(ahead, ahead + count)
    values = values.permute((*moved, *(n for n in range(values.ndim) if n not in moved)))
    order = (*axes, *rest)
    rows = x.permute(order).reshape((math.prod(sizes), *lines))
    flat, new = place.reshape(-1), values.reshape((given[0].numel(), *lines))
    if accumulate:
        rows = rows.index_add(0, flat, new)
    else:
        along = flat.reshape((-1, *(1,) * len(lines))).expand(new.shape)
        rows = rows.scatter(0, along, new)
    back = tuple(order.index(axis) for axis in range(x.ndim))
    return rows.reshape((*sizes, *lines)).permute(back)


@means(aten.gather.default)
def _gather(x: Tensor, axis: int, index: Tensor, sparse_grad: bool = False) -> Tensor:
    return x.gather(axis, index)


@means(aten.index_select.default)
def _index_select(x: Tensor, axis: int, index: Tensor) -> Tensor:
    if not x.ndim:
        return _index_select(x.reshape((1,)), 0, index).reshape(())
    return x._pick_checked("index_select", axis % x.ndim, index.reshape((-1,)))


@means(aten.scatter.src, aten.scatter.value)
def _scatter(x: Tensor, axis: int, index: Tensor, values: Operand) -> Tensor:
    return x.scatter(axis, index, values)


@means(aten.scatter_add.default)
def _scatter_add(x: Tensor, axis: int, index: Tensor, values: Tensor) -> Tensor:
    return x.scatter_reduce(axis, index, values, "sum")


@means(aten.slice_scatter.default)
def _slice_scatter(
    x: Tensor,
    values: Tensor,
    axis: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    size = x.shape[axis]
    places = range(size)[slice(start, end, step)]
    if not places:
        return x
    index = Tensor.arange(places.start, places.stop, step, device="CPU", dtype=dtypes.int64)
    along = index.reshape(tuple(-1 if n == axis % x.ndim else 1 for n in range(x.ndim)))
    return x.scatter(axis, along.expand(values.shape), values)


@means(aten.copy.default)
def _copy(x: Tensor, values: Tensor, non_blocking: bool = False) -> Tensor:
    return values.expand(x.shape)


# -- order ----------------------------------------------------------------------------------------


@means(aten.sort.default)
def _sort(x: Tensor, axis: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    return x.sort(axis, descending)


@means(aten.topk.default)
def _topk(
    x: Tensor, count: int, axis: int = -1, largest: bool = True, is_sorted: bool = True
) -> tuple[Tensor, Tensor]:
    return x.topk(count, axis, largest, is_sorted)


@means(aten.argmax.default)
def _argmax(x: Tensor, axis: int | None = None, keepdim: bool = False) -> Tensor:
    return x.argmax(axis, keepdim)


@means(aten.argmin.default)
def _argmin(x: Tensor, axis: int | None = None, keepdim: bool = False) -> Tensor:
    return x.argmin(axis, keepdim)


@means(aten.max.dim)
def _max(x: Tensor, axis: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return x.max(axis, keepdim), x.argmax(axis, keepdim)


@means(aten.min.dim)
def _min(x: Tensor, axis: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return x.min(axis, keepdim), x.argmin(axis, keepdim)


@means(aten.cumsum.default)
def _cumsum(x: Tensor, axis: int, dtype: torch.dtype | None = None) -> Tensor:
    return _wide(x, dtype).cumsum(axis)


@means(aten.cumprod.default)
def _cumprod(x: Tensor, axis: int, dtype: torch.dtype | None = None) -> Tensor:
    return _wide(x, dtype).cumprod(axis)


@means(aten.logcumsumexp.default)
def _logcumsumexp(x: Tensor, axis: int) -> Tensor:
    return x.logcumsumexp(axis)


@means(aten.any.default, aten.any.dim, aten.any.dims)
def _any(x: Tensor, axes: Sequence[int] | None = None, keepdim: bool = False) -> Tensor:
    return x.any(axes if isinstance(axes, int) else axes_of(axes), keepdim)


@means(aten.prod.dim_int)
def _prod(x: Tensor, axis: int, keepdim: bool = False, dtype: torch.dtype | None = None) -> Tensor:
    return _wide(x, dtype).prod(axis, keepdim)


def _wide(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    """What is accumulated: integers in 64 bits, unless a dtype is named."""
    if dtype is not None:
        return x.cast(_from_torch_dtype(dtype))
    return x if x.dtype.is_float else x.cast(dtypes.int64)


@means(aten.linalg_vector_norm.default)
def _vector_norm(
    x: Tensor,
    order: Any = 2,
    axes: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    x = x if dtype is None else x.cast(_from_torch_dtype(dtype))
    return x.vector_norm(order, axes_of(axes), keepdim)
