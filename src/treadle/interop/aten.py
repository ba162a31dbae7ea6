"""What PyTorch's operators mean in treadle: one table, from ATen's names to functions of Tensors.

    MEANINGS[torch.ops.aten.addmm.default](bias, x, w)  ->  a lazy Tensor

An operator that is not in the table stays PyTorch's. Results take the dtype that PyTorch gives
them where the table is used (interop/dynamo.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from ..dtype import _from_torch_dtype, dtypes
from ..tensor import Tensor

__all__ = ["MEANINGS", "axes_of", "means"]

aten = torch.ops.aten

F = TypeVar("F", bound=Callable[..., object])

MEANINGS: dict[object, Callable[..., Any]] = {}


def means(*operators: object) -> Callable[[F], F]:
    """The function below is what `operators` mean."""

    def enter(function: F) -> F:
        MEANINGS.update(dict.fromkeys(operators, function))
        return function

    return enter


# -- one or two tensors, element by element -------------------------------------------------------

_UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh",
    "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "isfinite", "isinf", "isnan",
    "lgamma", "log", "log10", "log1p", "log2", "logical_not", "neg",
    "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "silu", "sin", "sinh", "sqrt",
    "square", "tan", "tanh", "trunc",
)  # fmt: skip
_BINARY = (
    "atan2", "bitwise_and", "bitwise_or", "bitwise_xor", "copysign", "eq", "fmax", "fmin", "fmod",
    "ge", "gt", "hypot", "le", "logical_and", "logical_or", "logical_xor", "lt", "maximum",
    "minimum", "mul", "ne", "remainder", "xlogy",
)  # fmt: skip
_OVERLOADS = ("default", "Tensor", "Scalar")


def _method(name: str) -> Callable[..., Tensor]:
    return lambda x, *others: getattr(x, name)(*others)


for _name in _UNARY:
    means(getattr(aten, _name).default)(_method(_name))
for _name in _BINARY:
    _packet = getattr(aten, _name)
    _known = [getattr(_packet, over) for over in _packet.overloads() if over in _OVERLOADS]
    means(*_known)(_method(_name))


@means(aten.add.Tensor, aten.add.Scalar)
def _add(x: Tensor, other: Tensor | float, alpha: float = 1) -> Tensor:
    return x + (other if alpha == 1 else other * alpha)


@means(aten.sub.Tensor, aten.sub.Scalar)
def _sub(x: Tensor, other: Tensor | float, alpha: float = 1) -> Tensor:
    return x - (other if alpha == 1 else other * alpha)


@means(aten.rsub.Scalar)
def _rsub(x: Tensor, other: Tensor | float, alpha: float = 1) -> Tensor:
    return other - (x if alpha == 1 else x * alpha)


@means(aten.div.Tensor, aten.div.Scalar)
def _div(x: Tensor, other: Tensor | float) -> Tensor:
    return x / other


@means(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div_rounded(x: Tensor, other: Tensor | float, *, rounding_mode: str | None = None) -> Tensor:
    return x.div(other, rounding_mode=rounding_mode)


@means(aten.bitwise_left_shift.Tensor, aten.bitwise_left_shift.Tensor_Scalar,
       aten.__lshift__.Tensor, aten.__lshift__.Scalar)  # fmt: skip
def _shift_left(x: Tensor, count: Tensor | float) -> Tensor:
    return x << count


@means(aten.bitwise_right_shift.Tensor, aten.bitwise_right_shift.Tensor_Scalar,
       aten.__rshift__.Tensor, aten.__rshift__.Scalar)  # fmt: skip
def _shift_right(x: Tensor, count: Tensor | float) -> Tensor:
    return x >> count


@means(aten.pow.Scalar, aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor)
def _pow(x: Any, exponent: Any) -> Tensor:
    return x**exponent


@means(aten.where.self)
def _where(condition: Tensor, x: Tensor | float, y: Tensor | float) -> Tensor:
    return condition.where(x, y)


@means(aten.clamp.default, aten.clamp.Tensor)
def _clamp(
    x: Tensor, low: Tensor | float | None = None, high: Tensor | float | None = None
) -> Tensor:
    return x.clamp(low, high)


@means(aten.gelu.default)
def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        return x.gelu()
    return x * 0.5 * (1 + (x * 0.5**0.5).erf())


@means(aten.hardtanh.default)
def _hardtanh(x: Tensor, low: float = -1.0, high: float = 1.0) -> Tensor:
    return x.clamp(low, high)


@means(aten.elu.default)
def _elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    low = ((x if input_scale == 1 else x * input_scale).expm1()) * (alpha * scale)
    return (x > 0).where(x * scale, low)


@means(aten.leaky_relu.default)
def _leaky_relu(x: Tensor, slope: float = 0.01) -> Tensor:
    return x.leaky_relu(slope)


# -- shapes ---------------------------------------------------------------------------------------


@means(aten.view.default, aten.reshape.default, aten._unsafe_view.default)
def _view(x: Tensor, shape: Sequence[int]) -> Tensor:
    return x.reshape(tuple(shape))


@means(aten.permute.default)
def _permute(x: Tensor, order: Sequence[int]) -> Tensor:
    return x.permute(tuple(order))


@means(aten.transpose.int)
def _transpose(x: Tensor, first: int, second: int) -> Tensor:
    return x.transpose(first, second)


@means(aten.t.default)
def _t(x: Tensor) -> Tensor:
    return x.T


@means(aten.expand.default)
def _expand(x: Tensor, shape: Sequence[int]) -> Tensor:
    return x.expand(tuple(shape))


@means(aten.unsqueeze.default)
def _unsqueeze(x: Tensor, axis: int) -> Tensor:
    return x.unsqueeze(axis)


@means(aten.squeeze.dim, aten.squeeze.dims)
def _squeeze(x: Tensor, axes: int | Sequence[int]) -> Tensor:
    listed = {axis % x.ndim for axis in ([axes] if isinstance(axes, int) else axes)}
    gone = [axis for axis in listed if x.shape[axis] == 1]
    return x.reshape(tuple(size for axis, size in enumerate(x.shape) if axis not in gone))


@means(aten.slice.Tensor)
def _slice(
    x: Tensor, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    return x[(*(slice(None),) * (axis % x.ndim), slice(start, end, step))]


@means(aten.select.int)
def _select(x: Tensor, axis: int, index: int) -> Tensor:
    return x[(*(slice(None),) * (axis % x.ndim), index)]


@means(aten.diagonal.default)
def _diagonal(x: Tensor, offset: int = 0, first: int = 0, second: int = 1) -> Tensor:
    return x.diagonal(offset, first, second)


@means(aten.split_with_sizes.default)
def _split(x: Tensor, sizes: Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    return tuple(x.split(tuple(sizes), axis))


@means(aten.cat.default)
def _cat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    return tensors[0].cat(*tensors[1:], dim=axis)


@means(aten.repeat.default)
def _repeat(x: Tensor, repeats: Sequence[int]) -> Tensor:
    return x.repeat(*repeats)


@means(aten.flip.default)
def _flip(x: Tensor, axes: Sequence[int]) -> Tensor:
    return x.flip(tuple(axes)) if axes else x


@means(aten.constant_pad_nd.default)
def _pad(x: Tensor, widths: Sequence[int], value: float = 0) -> Tensor:
    return x.pad(tuple(widths), value=value)


@means(aten.alias.default, aten.detach.default, aten.lift_fresh_copy.default)
def _same(x: Tensor) -> Tensor:
    return x


@means(aten.clone.default)
def _clone(x: Tensor, memory_format: object = None) -> Tensor:
    return x


@means(aten._to_copy.default)
def _to_copy(
    x: Tensor, dtype: torch.dtype | None = None, layout: object = None, device: object = None,
    pin_memory: object = None, non_blocking: bool = False, memory_format: object = None,
) -> Tensor:  # fmt: skip
    return x if dtype is None else x.cast(_from_torch_dtype(dtype))


@means(aten.full.default)
def _full(
    shape: Sequence[int], value: float, dtype: torch.dtype | None = None, **placement: object
) -> Tensor:
    kind = None if dtype is None else _from_torch_dtype(dtype)
    return Tensor.full(tuple(shape), value, dtype=kind, device="CPU")


@means(aten.full_like.default)
def _full_like(
    x: Tensor, value: float, dtype: torch.dtype | None = None, **placement: object
) -> Tensor:
    kind = x.dtype if dtype is None else _from_torch_dtype(dtype)
    return Tensor.full(x.shape, value, dtype=kind, device="CPU")


@means(aten.scalar_tensor.default)
def _scalar_tensor(value: float, dtype: torch.dtype | None = None, **placement: object) -> Tensor:
    return _full((), value, dtype)


# -- reductions -----------------------------------------------------------------------------------


@means(aten.sum.default, aten.sum.dim_IntList)
def _sum(
    x: Tensor,
    axes: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    if dtype is not None:
        return x.sum(axes_of(axes), keepdim, _from_torch_dtype(dtype))
    # PyTorch adds integers, and counts truths, in 64 bits
    return (x if x.dtype.is_float else x.cast(dtypes.int64)).sum(axes_of(axes), keepdim)


@means(aten.mean.default, aten.mean.dim)
def _mean(
    x: Tensor,
    axes: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
) -> Tensor:
    x = x if dtype is None else x.cast(_from_torch_dtype(dtype))
    return x.mean(axes_of(axes), keepdim)


@means(aten.amax.default)
def _amax(x: Tensor, axes: Sequence[int] = (), keepdim: bool = False) -> Tensor:
    return x.max(axes_of(axes), keepdim)


@means(aten.amin.default)
def _amin(x: Tensor, axes: Sequence[int] = (), keepdim: bool = False) -> Tensor:
    return x.min(axes_of(axes), keepdim)


@means(aten.var.correction)
def _var(
    x: Tensor,
    axes: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Tensor:
    return x.var(axes_of(axes), keepdim, 1 if correction is None else correction)


@means(aten.var_mean.correction)
def _var_mean(
    x: Tensor, axes: Sequence[int] | None = None, *, correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return (
        _var(x, axes, correction=correction, keepdim=keepdim),
        x.mean(axes_of(axes), keepdim),
    )


def axes_of(axes: Sequence[int] | None) -> tuple[int, ...] | None:
    """PyTorch's empty list of axes means all of them."""
    return tuple(axes) if axes else None


@means(aten._softmax.default)
def _softmax(x: Tensor, axis: int, half_to_float: bool) -> Tensor:
    return (x.float() if half_to_float else x).softmax(axis)


@means(aten._log_softmax.default)
def _log_softmax(x: Tensor, axis: int, half_to_float: bool) -> Tensor:
    return (x.float() if half_to_float else x).log_softmax(axis)


# -- products and windows -------------------------------------------------------------------------


@means(aten.mm.default, aten.bmm.default)
def _mm(x: Tensor, y: Tensor) -> Tensor:
    return x @ y


@means(aten.addmm.default)
def _addmm(bias: Tensor, x: Tensor, y: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    product = x @ y if alpha == 1 else (x @ y) * alpha
    return product + (bias if beta == 1 else bias * beta)


@means(aten.convolution.default)
def _convolution(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    settings = groups, tuple(stride), tuple(dilation), tuple(padding)
    if transposed:
        return x.conv_transpose2d(weight, bias, *settings, tuple(output_padding))
    return x.conv2d(weight, bias, *settings)


@means(aten.convolution_backward.default)
def _convolution_backward(
    gradient: Tensor, x: Tensor, weight: Tensor, bias_sizes: object, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int, wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    result = _convolution(
        x, weight, None, stride, padding, dilation, transposed, output_padding, groups
    )
    gradient = gradient.reshape(result.shape)  # symbolic sizes may be written in several ways
    targets = [t for t, is_wanted in zip((x, weight), wanted, strict=False) if is_wanted]
    found = iter(result.gradient(*targets, gradient=gradient) if targets else [])
    by_input = [next(found) if is_wanted else None for is_wanted in wanted[:2]]
    over = (0, *range(2, gradient.ndim))
    return (*by_input, gradient.sum(over) if wanted[2] else None)
