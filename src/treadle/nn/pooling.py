"""Pooling and dropout as layers: methods of `Tensor`, with the arguments they were made with.

nn.MaxPool2d(2)(x)        means x.max_pool2d((2, 2))
nn.Dropout(0.5)(x)        means x.dropout(0.5): it drops within `Tensor.train()`
"""

from __future__ import annotations

from ..tensor.types import Sizes
from .layer import Method

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AlphaDropout", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout", "MaxPool1d",
    "MaxPool2d", "MaxPool3d",
]  # fmt: skip


def _each(value: Sizes | None, rank: int) -> Sizes | None:
    """One number for each of `rank` axes; what is several already, as it is."""
    return (value,) * rank if isinstance(value, int) else value


class _MaxPool(Method):
    """The largest of each window over the last axes, in its dtype."""

    method, rank = "max_pool2d", 1

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
        dilation: Sizes = 1, return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel_size=_each(kernel_size, self.rank), stride=stride, padding=padding,
            dilation=dilation, return_indices=return_indices, ceil_mode=ceil_mode,
        )  # fmt: skip


class _AvgPool(Method):
    """The mean of each window over the last axes; integers give floats."""

    method, rank = "avg_pool2d", 1

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            kernel_size=_each(kernel_size, self.rank), stride=stride, padding=padding,
            ceil_mode=ceil_mode, count_include_pad=count_include_pad,
            divisor_override=divisor_override,
        )  # fmt: skip


class _AdaptiveAvgPool(Method):
    """The mean of each of `output_size` parts of the last axes; integers give floats."""

    method, rank = "adaptive_avg_pool2d", 1

    def __init__(self, output_size: Sizes) -> None:
        super().__init__(output_size=_each(output_size, self.rank))


class _AdaptiveMaxPool(Method):
    """The largest of each of `output_size` parts of the last axes, in its dtype."""

    method, rank = "adaptive_max_pool2d", 1

    def __init__(self, output_size: Sizes, return_indices: bool = False) -> None:
        super().__init__(output_size=_each(output_size, self.rank), return_indices=return_indices)


class _Dropout(Method):
    """Elements that are 0 with probability `p` in training; shape and dtype stay."""

    method = "dropout"

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__(p=p)


class MaxPool1d(_MaxPool):
    """The largest of each window: (N, C, L) to (N, C, l), in its dtype.

    `stride` None is `kernel_size`; `return_indices` gives int32 places as well.
    """

    rank = 1


class MaxPool2d(_MaxPool):
    """The largest of each window: (N, C, H, W) to (N, C, h, w), in its dtype.

    `stride` None is `kernel_size`; `return_indices` gives int32 places as well.
    """

    rank = 2


class MaxPool3d(_MaxPool):
    """The largest of each window: (N, C, D, H, W) to (N, C, d, h, w), in its dtype.

    `stride` None is `kernel_size`; `return_indices` gives int32 places as well.
    """

    rank = 3


class AvgPool1d(_AvgPool):
    """The mean of each window: (N, C, L) to (N, C, l); integers give floats.

    `stride` None is `kernel_size`.
    """

    rank = 1


class AvgPool2d(_AvgPool):
    """The mean of each window: (N, C, H, W) to (N, C, h, w); integers give floats.

    `stride` None is `kernel_size`.
    """

    rank = 2


class AvgPool3d(_AvgPool):
    """The mean of each window: (N, C, D, H, W) to (N, C, d, h, w); integers give floats.

    `stride` None is `kernel_size`.
    """

    rank = 3


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """The mean of each of `output_size` parts: (N, C, L) to (N, C, l); integers give floats."""

    rank = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """The mean of each of `output_size` parts: (N, C, H, W) to (N, C, h, w); integers give
    floats.
    """

    rank = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """The mean of each of `output_size` parts: (N, C, D, H, W) to (N, C, d, h, w); integers give
    floats.
    """

    rank = 3


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest of each of `output_size` parts: (N, C, L) to (N, C, l), in its dtype.

    `return_indices` gives int32 places as well.
    """

    rank = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest of each of `output_size` parts: (N, C, H, W) to (N, C, h, w), in its dtype.

    `return_indices` gives int32 places as well.
    """

    rank = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest of each of `output_size` parts: (N, C, D, H, W) to (N, C, d, h, w), in its dtype.

    `return_indices` gives int32 places as well.
    """

    rank = 3


class Dropout(_Dropout):
    """Each element 0 with probability `p` in training, the others larger by 1 / (1 - p).

    Shape and dtype stay. Outside of training, the input as it is.
    """


class Dropout1d(_Dropout):
    """Each channel of (N, C, L) 0 with probability `p` in training; shape and dtype stay."""

    method = "feature_dropout"


class Dropout2d(_Dropout):
    """Each channel of (N, C, H, W) 0 with probability `p` in training; shape and dtype stay."""

    method = "feature_dropout"


class Dropout3d(_Dropout):
    """Each channel of (N, C, D, H, W) 0 with probability `p` in training; shape and dtype stay."""

    method = "feature_dropout"


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance of what SELU gives; shape and dtype stay."""

    method = "alpha_dropout"


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels (N, C, ...); shape and dtype stay."""

    method = "feature_alpha_dropout"
