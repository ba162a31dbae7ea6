"""Convolution layers: (batch, in_channels, *size) to (batch, out_channels, *size).

The layers of one and three axes are the two-dimensional ones with a kernel of as many numbers.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from ..errors import ShapeError
from ..tensor import Tensor
from .init import check_sizes, fan_in_uniform
from .layer import Layer

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

Size: TypeAlias = int | tuple[int, ...]


def _per_axis(size: Size, ndim: int) -> tuple[int, ...]:
    return size if isinstance(size, tuple) else (size,) * ndim


class Conv2d(Layer):
    """Cross-correlation with a learned kernel, over as many axes as `kernel_size` names.

    (batch, in_channels, *spatial) to (batch, out_channels, *sizes), as in `Tensor.conv2d`. `weight`
    is (out_channels, in_channels / groups, *kernel_size), `bias` (out_channels,), float32; dtypes
    promote. `padding` is an int, one a spatial axis, two a spatial axis, "same", or "valid" for
    none. Raises ShapeError if `groups` does not divide both channel counts, or for "same" with a
    stride.
    """

    ndim: int = 2
    weight: Tensor  # (out_channels, in_channels / groups, *kernel_size)
    bias: Tensor | None  # (out_channels,)
    kernel_size: tuple[int, ...]
    stride: Size
    padding: Size
    dilation: Size
    groups: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        check_sizes(self, in_channels=in_channels, out_channels=out_channels)
        self.kernel_size = _per_axis(kernel_size, self.ndim)
        self.stride, self.dilation, self.groups = stride, dilation, groups
        self.padding = self._named(padding) if isinstance(padding, str) else padding
        _check_groups(type(self).__name__, in_channels, out_channels, groups)
        self._init_parameters(in_channels, out_channels, bias)

    def _init_parameters(self, in_channels: int, out_channels: int, bias: bool) -> None:
        shape = (out_channels, in_channels // self.groups, *self.kernel_size)
        fan_in = math.prod(shape[1:])
        self.weight = fan_in_uniform(*shape, fan_in=fan_in)
        self.bias = fan_in_uniform(out_channels, fan_in=fan_in) if bias else None

    def _named(self, padding: str) -> tuple[int, ...]:
        """The padding, last axis first, that keeps sizes; the odd one goes after, as in PyTorch."""
        name = type(self).__name__
        if padding == "valid":
            return (0,) * self.ndim
        if padding != "same":
            raise ShapeError(f"[{name}] padding is numbers, 'same' or 'valid', not {padding!r}")
        if set(_per_axis(self.stride, self.ndim)) != {1}:
            raise ShapeError(f"[{name}] padding='same' needs stride 1, not {self.stride}")
        dilations = _per_axis(self.dilation, self.ndim)
        totals = [d * (k - 1) for d, k in zip(dilations, self.kernel_size, strict=True)]
        return tuple(n for total in reversed(totals) for n in (total // 2, total - total // 2))

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv2d(
            self.weight,
            self.bias,
            groups=self.groups,
            padding=self.padding,
            stride=self.stride,
            dilation=self.dilation,
        )


class Conv1d(Conv2d):
    """`Conv2d` over one axis: (batch, in_channels, length) to (batch, out_channels, size).

    Dtypes promote with float32, that of `weight` and `bias`. Raises ShapeError.
    """

    ndim: int = 1


class Conv3d(Conv2d):
    """`Conv2d` over three axes: (batch, in_channels, depth, height, width).

    Dtypes promote with float32, that of `weight` and `bias`. Raises ShapeError.
    """

    ndim: int = 3


class ConvTranspose2d(Conv2d):
    """The gradient of `Conv2d` with respect to its input, as a layer: it enlarges by `stride`.

    (batch, in_channels, *spatial) to (batch, out_channels, *sizes), as in
    `Tensor.conv_transpose2d`. `weight` is (in_channels, out_channels / groups, *kernel_size),
    `bias` (out_channels,), float32; dtypes promote. Raises ShapeError.
    """

    output_padding: Size
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias
        )
        self.output_padding = output_padding

    def _init_parameters(self, in_channels: int, out_channels: int, bias: bool) -> None:
        shape = (in_channels, out_channels // self.groups, *self.kernel_size)
        # PyTorch takes the fan-in from axis 1 here too, though that is the fan-out.
        fan_in = math.prod(shape[1:])
        self.weight = fan_in_uniform(*shape, fan_in=fan_in)
        self.bias = fan_in_uniform(out_channels, fan_in=fan_in) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv_transpose2d(
            self.weight,
            self.bias,
            groups=self.groups,
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
            output_padding=self.output_padding,
        )


class ConvTranspose1d(ConvTranspose2d):
    """`ConvTranspose2d` over one axis: (batch, in_channels, length).

    Dtypes promote with float32, that of `weight` and `bias`. Raises ShapeError.
    """

    ndim: int = 1


class ConvTranspose3d(ConvTranspose2d):
    """`ConvTranspose2d` over three axes: (batch, in_channels, depth, height, width).

    Dtypes promote with float32, that of `weight` and `bias`. Raises ShapeError.
    """

    ndim: int = 3


def _check_groups(layer: str, in_channels: int, out_channels: int, groups: int) -> None:
    if groups < 1 or in_channels % groups or out_channels % groups:
        raise ShapeError(
            f"[{layer}] groups={groups} must divide in_channels={in_channels} "
            f"and out_channels={out_channels}"
        )
