"""Sliding windows over the last axes of a tensor, and back: what pooling and convolution need.

windows(x, (3, 3), (1, 1), (1, 1))     (N, C, H, W) -> (N, C, h, w, 3, 3), as a view
unwindows(w, (3, 3), 1, 1, 0)          the sum of all windows, at their places
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, cast

from ..errors import ShapeError
from ..ir.args import WindowArg
from ..ir.node import Node
from ..ir.op import Op
from .basis import Basis
from .types import Sizes

__all__ = ["each_axis", "flat_places", "is_largest", "unwindows", "windows"]

T = TypeVar("T", bound=Basis)


def windows(x: T, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> T:
    """Windows over the last axes: (..., *out) with the window axes `kernel` appended."""
    result, first = x, x.ndim - len(kernel)
    for i, size in enumerate(kernel):
        result = result._window(first + i, size, stride[i], dilation[i])
    return result


def unwindows(x: T, kernel: Sequence[int], stride: Sizes, dilation: Sizes, extra: Sizes) -> T:
    """Window axes, the last ones, added back into the axes before them."""
    name, rank = "conv_transpose2d", len(kernel)
    steps = each_axis(name, "stride", stride, rank)
    gaps = each_axis(name, "dilation", dilation, rank)
    more = each_axis(name, "output_padding", extra, rank, least=0)
    result, first = x, x.ndim - 2 * rank
    for i in reversed(range(rank)):
        count = result.shape[first + i]
        extent = (count - 1) * steps[i] + gaps[i] * (kernel[i] - 1) + 1 + more[i]
        arg = WindowArg(first + i, kernel[i], steps[i], gaps[i], extent)
        node = Node(Op.UNWINDOW, result.dtype, (result.node,), arg)
        result = result._result(node)
    return result


def flat_places(x: T, rank: int) -> T:
    """The number of each element in the flattened last axes, int32 in the shape of `x`."""
    area = 1
    for n in x.shape[-rank:]:
        area *= n
    return x._range(area).reshape(x.shape[-rank:]).expand(x.shape)._again()


def is_largest(x: T, largest: T) -> T:
    """Where `x` is the largest; a NaN always is."""
    return x.eq(largest).bitwise_or(x.ne(x))


def each_axis(name: str, option: str, value: Sizes, rank: int, least: int = 1) -> tuple[int, ...]:
    """A number of at least `least` for each spatial axis. Raises ShapeError."""
    numbers = tuple(value) if isinstance(value, (tuple, list)) else (value,) * rank
    if len(numbers) != rank or not all(isinstance(n, int) and n >= least for n in numbers):
        raise ShapeError(
            f"[{name}] {option}={value!r} does not fit {rank} spatial axes: expected one integer "
            f"of at least {least}, or one for each axis"
        )
    return cast("tuple[int, ...]", numbers)
