"""Convolution and pooling over any number of spatial axes, as windows.

    x (N, C, H, W).conv2d(weight (O, C / groups, h, w))  ->  (N, O, H', W')
    x.max_pool2d((2, 2))                                  ->  (N, C, H // 2, W // 2)

A WINDOW op shows every patch without copying; a convolution is then one product and one sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, TypeVar, cast, overload

from ...dtype import dtypes, sum_acc_dtype
from ...errors import ShapeError
from ...ir.shape import Shape
from ..basis import Basis
from ..checks import check_conv
from ..operands import check_device
from ..sliding_windows import each_axis, flat_places, is_largest, unwindows, windows
from ..types import DTypeLike, Sizes

__all__ = ["Convolution"]

W = TypeVar("W", bound=Basis)


class Convolution(Basis):
    """Windows on top of products."""

    __slots__ = ()

    def conv2d(
        self, weight: Self, bias: Self | None = None, groups: int = 1, stride: Sizes = 1,
        dilation: Sizes = 1, padding: Sizes = 0, dtype: DTypeLike | None = None,
    ) -> Self:  # fmt: skip
        """Cross-correlation of (N, C, *spatial) with (O, C / groups, *kernel): (N, O, *sizes).

        Sizes are (n + 2 padding - dilation (kernel - 1) - 1) // stride + 1. `padding`: a number,
        one for each spatial axis, or (left, right, top, bottom, ...) with the last axis first.
        `bias` is (O,). Dtypes promote, or `dtype` is that of the result; half types accumulate in
        float32. Raises ShapeError.
        """
        biased = None if bias is None else bias.shape
        check_conv("conv2d", self.shape, weight.shape, biased, groups)
        check_device("conv2d", self, weight, *([] if bias is None else [bias]))
        kernel = weight.shape[2:]
        rank = len(kernel)
        steps = each_axis("conv2d", "stride", stride, rank)
        gaps = each_axis("conv2d", "dilation", dilation, rank)
        x = self._padded(_spatial_pads("conv2d", self.ndim, padding, rank))
        _check_kernel("conv2d", x, self.shape, kernel, gaps)
        x = windows(x, kernel, steps, gaps)
        batch, out, channels = self.shape[0], weight.shape[0], weight.shape[1]
        spatial = x.shape[2 : 2 + rank]
        # (N, g, 1, *o, c, *k) * (1, g, O/g, 1.., c, *k) summed over c and k
        x = x.reshape((batch, groups, channels, *spatial, *kernel)).unsqueeze(2)
        x = x.permute((0, 1, 2, *range(4, 4 + rank), 3, *range(4 + rank, 4 + 2 * rank)))
        w = weight.reshape((1, groups, out // groups, *(1,) * rank, channels, *kernel))
        total = x._product_sum(w, tuple(range(3 + rank, 4 + 2 * rank)), dtype, "conv2d")
        result = total.reshape((batch, out, *spatial))
        return result if bias is None else result.add(bias.reshape((1, out, *(1,) * rank)))

    def conv_transpose2d(
        self, weight: Self, bias: Self | None = None, groups: int = 1, stride: Sizes = 1,
        dilation: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0,
    ) -> Self:  # fmt: skip
        """The adjoint of `conv2d`: (N, C, *spatial) with (C, O / groups, *kernel) to (N, O,
        *sizes).

        Sizes are (n - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1. `bias` is
        (O,). Dtypes promote. Raises ShapeError.
        """
        biased = None if bias is None else bias.shape
        check_conv("conv_transpose2d", self.shape, weight.shape, biased, groups, transposed=True)
        check_device("conv_transpose2d", self, weight, *([] if bias is None else [bias]))
        batch, out, kernel = self.shape[0], weight.shape[1], weight.shape[2:]
        rank, channels = len(kernel), self.shape[1] // groups
        spatial = self.shape[2:]
        # (N, g, 1, *i, 1.., c) * (1, g, O/g, 1.., *k, c) summed over c
        x = self.reshape((batch, groups, 1, channels, *spatial, *(1,) * rank))
        x = x.permute((0, 1, 2, *range(4, 4 + 2 * rank), 3))
        w = weight.reshape((1, groups, channels, out, *(1,) * rank, *kernel))
        w = w.permute((0, 1, 3, *range(4, 4 + 2 * rank), 2))
        parts = x._product_sum(w, (-1,), None, "conv_transpose2d")
        parts = parts.reshape((batch, groups * out, *spatial, *kernel))
        full = unwindows(parts, kernel, stride, dilation, output_padding)
        spatial_pads = _spatial_pads("conv_transpose2d", self.ndim, padding, rank)
        pads = [(-before, -after) for before, after in spatial_pads]
        result = full._padded(pads)
        return result if bias is None else result.add(bias.reshape((1, -1, *(1,) * rank)))

    def image_conv2d(
        self, weight: Self, bias: Self | None = None, groups: int = 1, stride: Sizes = 1,
        dilation: Sizes = 1, padding: Sizes = 0, dtype: DTypeLike | None = None,
    ) -> Self:  # fmt: skip
        """The same as `conv2d`, (N, C, H, W) with (O, C / groups, *kernel) to (N, O, h, w).

        Whether memory is textures is decided by the setting IMAGE=1. The shape and the promoted
        dtype are those of `conv2d`. Raises ShapeError.
        """
        return self.conv2d(weight, bias, groups, stride, dilation, padding, dtype)

    def image_dot(self, w: Self, dtype: DTypeLike | None = None) -> Self:
        """The same as `dot`, of the same shape and dtype: (.., m, k) by (.., k, n) to (.., m, n).

        Whether memory is textures is decided by the setting IMAGE=1. Raises ShapeError.
        """
        return self.dot(w, dtype)

    # -- pooling ------------------------------------------------------------------------------

    def avg_pool2d(
        self, kernel_size: Sizes = (2, 2), stride: Sizes | None = None, dilation: Sizes = 1,
        padding: Sizes = 0, ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Self:  # fmt: skip
        """The mean of every window over the last axes; `stride` None is the kernel's size; integers
        give floats.

        (N, C, H, W) gives (N, C, h, w), with h = (H + 2 padding - dilation (kernel - 1) - 1) //
        stride + 1. `ceil_mode` keeps a last, partial window; `count_include_pad` false leaves
        padding out. `divisor_override` divides the sums instead of the number of elements. Raises
        ShapeError.
        """
        pool = _Pool("avg_pool2d", self, kernel_size, stride, dilation, padding, ceil_mode)
        axes = tuple(range(-len(pool.kernel), 0))
        x = self._float()
        wide = x.cast(sum_acc_dtype(x.dtype))
        total = pool.windows(wide._padded(pool.pads)._padded(pool.tail)).sum(axes)
        if divisor_override is not None:
            if not divisor_override:
                raise ShapeError("[avg_pool2d] divisor_override is a number to divide by, not 0")
            return total.div(divisor_override).cast(x.dtype)
        ones = wide._filled(1).expand(self.shape)
        ones = ones._padded(pool.pads, 1 if count_include_pad else 0)._padded(pool.tail)
        return total.div(pool.windows(ones).sum(axes)).cast(x.dtype)

    @overload
    def max_pool2d(
        self, kernel_size: Sizes = ..., stride: Sizes | None = ..., dilation: Sizes = ...,
        padding: Sizes = ..., ceil_mode: bool = ..., return_indices: Literal[False] = ...,
    ) -> Self: ...  # fmt: skip
    @overload
    def max_pool2d(
        self, kernel_size: Sizes = ..., stride: Sizes | None = ..., dilation: Sizes = ...,
        padding: Sizes = ..., ceil_mode: bool = ..., *, return_indices: Literal[True],
    ) -> tuple[Self, Self]: ...  # fmt: skip
    def max_pool2d(
        self, kernel_size: Sizes = (2, 2), stride: Sizes | None = None, dilation: Sizes = 1,
        padding: Sizes = 0, ceil_mode: bool = False, return_indices: bool = False,
    ) -> Self | tuple[Self, Self]:  # fmt: skip
        """The largest of every window over the last axes, in its dtype; padding never wins.

        (N, C, H, W) gives (N, C, h, w), with h = (H + 2 padding - dilation (kernel - 1) - 1) //
        stride + 1; `stride` None is the kernel's size, `ceil_mode` keeps a last, partial window.
        With `return_indices`, also where it was, as int32 places in the flattened last axes. Raises
        ShapeError, and DTypeError for complex numbers.
        """
        pool = _Pool("max_pool2d", self, kernel_size, stride, dilation, padding, ceil_mode)
        axes = tuple(range(-len(pool.kernel), 0))
        lowest = self.dtype.min
        seen = pool.windows(self._padded(pool.pads, lowest)._padded(pool.tail, lowest))
        largest = seen.max(axes)
        if not return_indices:
            return largest
        rank = len(pool.kernel)
        area = flat_places(self, rank)
        places = pool.windows(area._padded(pool.pads, -1)._padded(pool.tail, -1))
        won = is_largest(seen, largest.reshape((*largest.shape, *(1,) * rank)))
        return largest, won.bitwise_and(places.ge(0)).where(places, dtypes.int32.max).min(axes)

    def max_unpool2d(
        self, indices: Self, kernel_size: Sizes = (2, 2), stride: Sizes | None = None,
        dilation: Sizes = 1, padding: Sizes = 0, output_size: Sizes | None = None,
    ) -> Self:  # fmt: skip
        """Values put back where `max_pool2d(return_indices=True)` found them, zeros around.

        (N, C, h, w) with integer `indices` of that shape gives (N, C, *output_size), in this dtype.
        Raises ShapeError where the indices do not have the shape of this tensor.
        """
        if indices.shape != self.shape:
            raise ShapeError(
                f"[max_unpool2d] one place for each value: the values have shape {self.shape}, the "
                f"indices {indices.shape}"
            )
        kernel = _kernel_of("max_unpool2d", kernel_size)
        rank = len(kernel)
        steps = each_axis("max_unpool2d", "stride", kernel if stride is None else stride, rank)
        gaps = each_axis("max_unpool2d", "dilation", dilation, rank)
        pads = _spatial_pads("max_unpool2d", self.ndim, padding, rank)[-rank:]
        sizes = [
            (n - 1) * steps[i] - sum(pads[i]) + gaps[i] * (kernel[i] - 1) + 1
            for i, n in enumerate(self.shape[-rank:])
        ]
        final = (
            tuple(sizes)
            if output_size is None
            else tuple(cast("Sequence[int]", output_size))[-rank:]
        )
        lead = self.shape[: self.ndim - rank]
        area = 1
        for n in final:
            area *= n
        flat = self._filled(0).expand((*lead, area))
        places = indices.reshape((*lead, -1))
        return flat.scatter(len(lead), places, self.reshape((*lead, -1))).reshape((*lead, *final))


class _Pool:
    """The geometry of one pooling: padding, the tail that `ceil_mode` adds, windows."""

    def __init__(
        self, name: str, x: Basis, kernel: Sizes, stride: Sizes | None, dilation: Sizes,
        padding: Sizes, ceil_mode: bool,
    ) -> None:  # fmt: skip
        self.kernel = _kernel_of(name, kernel)
        rank = len(self.kernel)
        self.stride = each_axis(name, "stride", self.kernel if stride is None else stride, rank)
        self.dilation = each_axis(name, "dilation", dilation, rank)
        if x.ndim < rank:
            raise ShapeError(f"[{name}] a kernel of {rank} axes does not fit shape {x.shape}")
        self.pads = _spatial_pads(name, x.ndim, padding, rank)
        self.tail = [(0, 0)] * x.ndim
        for i in range(rank):
            axis = x.ndim - rank + i
            size = x.shape[axis] + sum(self.pads[axis])
            span = self.dilation[i] * (self.kernel[i] - 1) + 1
            if not all(0 <= pad < span for pad in self.pads[axis]):
                raise ShapeError(
                    f"[{name}] padding {self.pads[axis]} of axis {axis} must be from 0 to less "
                    f"than the window of {span}: each window needs an element of its own"
                )
            if isinstance(size, int) and span > size:
                raise ShapeError(
                    f"[{name}] a window of {span} does not fit axis {axis} of shape {x.shape} "
                    f"padded to {size}"
                )
            if ceil_mode:
                self.tail[axis] = (0, self._missing(i, size, span, size - self.pads[axis][1]))

    def _missing(self, i: int, size: int, span: int, last_start: int) -> int:
        """Elements short of the last, partial window, which must begin before the padding ends."""
        count = -(-(size - span) // self.stride[i])
        if count * self.stride[i] >= last_start:
            count -= 1
        return max(count * self.stride[i] + span - size, 0)

    def windows(self, x: W) -> W:
        return windows(x, self.kernel, self.stride, self.dilation)


def _kernel_of(name: str, size: Sizes) -> tuple[int, ...]:
    """Its size on each axis; a number is that of two axes. Raises ShapeError."""
    rank = len(size) if isinstance(size, (tuple, list)) else 2
    return each_axis(name, "kernel_size", size, rank)


def _spatial_pads(name: str, ndim: int, padding: Sizes, rank: int) -> list[tuple[int, int]]:
    """(before, after) for every axis."""
    numbers = (
        (padding,) * rank if isinstance(padding, int) else tuple(cast("Sequence[int]", padding))
    )
    if len(numbers) == 2 * rank and rank:
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))[::-1]
    elif len(numbers) == rank:
        pairs = [(n, n) for n in numbers]
    else:
        raise ShapeError(
            f"[{name}] padding {numbers} has {len(numbers)} numbers; {rank} spatial axes take 1, "
            f"{rank} or {2 * rank}"
        )
    return [(0, 0)] * (ndim - rank) + pairs


def _check_kernel(
    name: str, x: Basis, shape: Shape, kernel: Sequence[int], gaps: Sequence[int]
) -> None:
    for i, size in enumerate(kernel):
        span = gaps[i] * (size - 1) + 1
        axis = x.ndim - len(kernel) + i
        if isinstance(x.shape[axis], int) and span > x.shape[axis]:
            raise ShapeError(
                f"[{name}] a kernel that spans {span} does not fit axis {axis} of shape {shape}, "
                f"padded to {x.shape[axis]}; add padding or use a smaller kernel"
            )
