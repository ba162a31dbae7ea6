"""Normalisation layers: subtract a mean, divide by a deviation, then scale and shift.

They differ only in the axes that a mean is taken over: the batch (BatchNorm), the last axes
(LayerNorm, RMSNorm), or groups of channels (GroupNorm, InstanceNorm).
"""

from __future__ import annotations

import math

from ..config import settings
from ..dtype import dtypes
from ..errors import ShapeError
from ..ir.shape import same_size
from ..tensor import Tensor
from ..tensor.basis.construction import Data
from ..tensor.checks import check_width
from ..tensor.shapes import aligned
from ..tensor.types import DTypeLike
from .init import check_sizes
from .layer import Layer

__all__ = [
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LayerNorm2d",
    "RMSNorm",
]


class _RunningStatistics(Layer):
    """Means over the batches of each channel's mean and variance, updated in place."""

    momentum: float
    num_batches_tracked: Tensor
    running_mean: Tensor
    running_var: Tensor

    def _start_tracking(self, size: int) -> None:
        count = _state([0], dtype=dtypes.int64).reshape(())
        self.num_batches_tracked = count.requires_grad_(False)
        self.running_mean = _state([0.0] * size)
        self.running_var = _state([1.0] * size)

    def _track(self, mean: Tensor, var: Tensor, count: int) -> None:
        """Move towards a batch's mean and biased variance, of `count` values a channel."""
        if count < 2:
            name = type(self).__name__
            raise ShapeError(f"[{name}] training needs more than one value a channel")
        unbiased = var * (count / (count - 1))
        for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
            moved = _wide(running) * (1 - self.momentum) + new * self.momentum
            running.assign(moved.cast(running.dtype))
        self.num_batches_tracked.assign(self.num_batches_tracked + 1)


def _wide(x: Tensor) -> Tensor:
    """Halves as float32."""
    return x.float() if x.dtype.bits < 32 else x


def _check_channels(layer: str, x: Tensor, channels: int) -> None:
    """Raises ShapeError where axis 1 of `x` does not hold so many channels."""
    if x.ndim < 2 or not same_size(x.shape[1], channels):
        raise ShapeError(
            f"[{layer}] expected {channels} channels on axis 1, got shape {x.shape}\n"
            f"{aligned([x.shape], [{1} if x.ndim > 1 else ()])}"
        )


def _state(value: Data, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor that layers update in place and no gradient flows into."""
    return Tensor(value, dtype=dtype, requires_grad=False)


class BatchNorm(_RunningStatistics):
    """Normalise each channel (axis 1) over the batch: (batch, sz, ...) to the same shape.

    In training (`Tensor.train()` or `Context(TRAINING=1)`) the batch's own statistics are used and
    the running ones updated in place; otherwise the running ones are used. With
    `track_running_stats=False` the batch's own are always used. `weight`, `bias`, `running_mean`
    and `running_var` are (sz,), float32; dtypes promote. Raises ShapeError for another number of
    channels.
    """

    weight: Tensor | None  # (sz,)
    bias: Tensor | None
    num_features: int
    eps: float
    momentum: float
    track_running_stats: bool

    def __init__(
        self,
        sz: int,
        eps: float = 1e-5,
        affine: bool = True,
        track_running_stats: bool = True,
        momentum: float = 0.1,
    ) -> None:
        check_sizes(self, sz=sz)
        self.eps, self.track_running_stats, self.momentum = eps, track_running_stats, momentum
        self.num_features = sz
        self.weight = Tensor.ones(sz) if affine else None
        self.bias = Tensor.zeros(sz) if affine else None
        if track_running_stats:
            self._start_tracking(sz)

    def calc_stats(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and biased variance of each channel, both of shape (sz,); of halves as float32."""
        if self.track_running_stats and not settings.TRAINING:
            return self.running_mean, self.running_var
        axes = tuple(axis for axis in range(x.ndim) if axis != 1)
        x = _wide(x)
        mean = x.mean(axes)
        centred = x - mean.reshape(1, -1, *[1] * (x.ndim - 2))
        return mean, centred.square().mean(axes)

    def __call__(self, x: Tensor) -> Tensor:
        _check_channels(type(self).__name__, x, self.num_features)
        mean, var = self.calc_stats(x)
        if self.track_running_stats and settings.TRAINING:
            self._track(mean.detach(), var.detach(), x.numel() // x.shape[1])
        scale = (_wide(var) + self.eps).rsqrt().cast(var.dtype)
        if settings.TRAINING or not self.track_running_stats:  # of the dtype of x, as they are its
            mean, scale = mean.cast(x.dtype), scale.cast(x.dtype)
        return x.batchnorm(self.weight, self.bias, mean, scale)


BatchNorm1d = BatchNorm2d = BatchNorm3d = BatchNorm


class GroupNorm(Layer):
    """Normalise groups of channels (axis 1) and all that follows, each sample by itself.

    (batch, num_channels, ...) to the same shape; `weight` and `bias` are (num_channels,), float32;
    dtypes promote. Raises ShapeError for another number of channels.
    """

    weight: Tensor | None  # (num_channels,)
    bias: Tensor | None
    num_groups: int
    num_channels: int
    eps: float

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True
    ) -> None:
        check_sizes(self, num_groups=num_groups, num_channels=num_channels)
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(
                f"[GroupNorm] num_groups={num_groups} must divide num_channels={num_channels}"
            )
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Tensor.ones(num_channels) if affine else None
        self.bias = Tensor.zeros(num_channels) if affine else None

    def __call__(self, x: Tensor) -> Tensor:
        _check_channels(type(self).__name__, x, self.num_channels)
        size = math.prod(x.shape[1:]) // self.num_groups
        grouped = x.reshape(x.shape[0], self.num_groups, size)
        x = grouped.layernorm(eps=self.eps).reshape(x.shape)
        if self.weight is None or self.bias is None:
            return x
        per_channel = (1, -1, *[1] * (x.ndim - 2))
        return x * self.weight.reshape(per_channel) + self.bias.reshape(per_channel)


class InstanceNorm(GroupNorm, _RunningStatistics):
    """Normalise each channel of each sample by itself: `GroupNorm` with one channel a group.

    (batch, num_features, ...) to the same shape; dtypes promote with float32, that of `weight` and
    `bias`. With `track_running_stats` the means of the samples' statistics are averaged over the
    batches that it trains on, and used otherwise. PyTorch's layers are not `affine` by default.
    Raises ShapeError for another number of channels.
    """

    momentum: float
    track_running_stats: bool

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        affine: bool = True,
        momentum: float = 0.1,
        track_running_stats: bool = False,
    ) -> None:
        super().__init__(num_features, num_features, eps, affine)
        self.momentum, self.track_running_stats = momentum, track_running_stats
        if track_running_stats:
            self._start_tracking(num_features)

    def __call__(self, x: Tensor) -> Tensor:
        if not self.track_running_stats:
            return super().__call__(x)
        if not settings.TRAINING:
            invstd = (self.running_var + self.eps).rsqrt()
            return x.batchnorm(self.weight, self.bias, self.running_mean, invstd)
        each = x.detach().reshape(x.shape[0], self.num_channels, -1)
        mean, var = each.mean(-1), each.var(-1, correction=0)
        self._track(mean.mean(0), var.mean(0), each.shape[-1])
        return super().__call__(x)


InstanceNorm1d = InstanceNorm2d = InstanceNorm3d = InstanceNorm


class LayerNorm(Layer):
    """Normalise over the last axes, whose shape is `normalized_shape`; the shape stays.

    `weight` and `bias` are of that shape, float32; dtypes promote. Raises ShapeError.
    """

    weight: Tensor | None  # normalized_shape
    bias: Tensor | None
    normalized_shape: tuple[int, ...]
    axis: tuple[int, ...]
    eps: float
    elementwise_affine: bool

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
    ) -> None:
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        for size in shape:
            check_sizes(self, normalized_shape=size)
        self.normalized_shape = tuple(shape)
        self.axis = tuple(range(-len(self.normalized_shape), 0))
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = Tensor.ones(*self.normalized_shape) if elementwise_affine else None
        self.bias = Tensor.zeros(*self.normalized_shape) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[-len(self.normalized_shape) :] != self.normalized_shape:
            raise ShapeError(
                f"[LayerNorm] the last axes must be {self.normalized_shape}, got shape {x.shape}\n"
                f"{aligned([x.shape, self.normalized_shape], [(), ()])}"
            )
        x = x.layernorm(self.axis, eps=self.eps)
        if self.weight is None or self.bias is None:
            return x
        return x * self.weight + self.bias


class LayerNorm2d(LayerNorm):
    """`LayerNorm` over the channels of an image: (batch, channels, height, width), which stays.

    Dtypes promote with float32, that of `weight` and `bias`. Raises ShapeError.
    """

    def __call__(self, x: Tensor) -> Tensor:
        return super().__call__(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm(Layer):
    """Divide by the root of the mean square over the last axis, of size `dim`.

    Computed in float32 whatever the input; the result has the input's dtype before scaling. Raises
    ShapeError for another size.
    """

    weight: Tensor | None  # (dim,)
    dim: int
    eps: float

    def __init__(self, dim: int, eps: float = 1e-6, elementwise_affine: bool = True) -> None:
        check_sizes(self, dim=dim)
        self.dim, self.eps = dim, eps
        self.weight = Tensor.ones(dim) if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        check_width("RMSNorm", x.shape, self.dim, self.dim)
        wide = x.float()
        scale = (wide.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        x = (wide * scale).cast(x.dtype)
        return x if self.weight is None else x * self.weight
