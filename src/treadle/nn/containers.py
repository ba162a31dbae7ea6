"""Layers of layers, and layers that only change shapes.

net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
nn.state.get_state_dict(net)     # "1.weight", "1.bias": as in PyTorch
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import ArgumentError
from ..pytorch_names import of_layer
from ..tensor import Tensor
from ..tensor.types import Sizes
from .layer import Layer, Method

__all__ = [
    "ChannelShuffle", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d",
    "ConstantPad2d", "ConstantPad3d", "Flatten", "Fold", "Identity", "PixelShuffle",
    "PixelUnshuffle", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "Sequential", "Unflatten", "Unfold", "Upsample",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class Sequential(list[Callable[[Any], Any]]):
    """Each layer in turn, on the result of the one before; shape and dtype are the last one's.

    A list of callables, `Tensor.relu` among them, that can be called itself. Made of layers, of one
    list of them, or of a dictionary, whose keys name their parameters. Raises ArgumentError for
    what cannot be called.
    """

    def __init__(self, *layers: object) -> None:
        given: Any = layers
        if len(layers) == 1 and isinstance(layers[0], (list, tuple, Mapping)):
            if not isinstance(layers[0], Sequential):
                given = layers[0]
        self._names = list(map(str, given)) if isinstance(given, Mapping) else None
        super().__init__(given.values() if isinstance(given, Mapping) else given)
        for place, layer in enumerate(self):
            if not callable(layer):
                raise ArgumentError(
                    f"[Sequential] layer {place} is {layer!r}, which cannot be called; give "
                    "layers, or functions such as Tensor.relu"
                )

    def _asdict(self) -> dict[str, object]:
        names = self._names
        if names is None or len(names) != len(self):  # it was changed as a list since
            names = list(map(str, range(len(self))))
        return dict(zip(names, self, strict=True))

    def __call__(self, x: object) -> Any:
        for layer in self:
            x = layer(x)
        return x

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'Sequential' object has no attribute {name!r}")
        raise of_layer("Sequential", name, dir(self))

    def __repr__(self) -> str:
        return f"Sequential({', '.join(map(repr, self))})"


class Identity(Layer):
    """The input as it is, in its shape and dtype; arguments, of any kind, mean nothing."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __call__(self, x: Tensor) -> Tensor:
        return x


class Flatten(Method):
    """Axes `start_dim` to `end_dim` as one, all but the first by default; the dtype stays."""

    method = "flatten"

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__(start_dim=start_dim, end_dim=end_dim)


class Unflatten(Method):
    """One axis as several, one of which may be -1; the dtype stays."""

    method = "unflatten"

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__(dim=dim, sizes=tuple(unflattened_size))


class PixelShuffle(Method):
    """(N, C r², H, W) as (N, C, H r, W r) with r = `upscale_factor`; the dtype stays."""

    method = "pixel_shuffle"

    def __init__(self, upscale_factor: int) -> None:
        super().__init__(upscale_factor=upscale_factor)


class PixelUnshuffle(Method):
    """(N, C, H r, W r) as (N, C r², H, W) with r = `downscale_factor`; the dtype stays."""

    method = "pixel_unshuffle"

    def __init__(self, downscale_factor: int) -> None:
        super().__init__(downscale_factor=downscale_factor)


class ChannelShuffle(Method):
    """Channels of (N, C, ...), in axis 1, taken from each of `groups` in turn; the dtype stays."""

    method = "channel_shuffle"

    def __init__(self, groups: int) -> None:
        super().__init__(groups=groups)


class Unfold(Method):
    """Windows of images (N, C, H, W) as columns (N, C kh kw, windows), in their dtype: `im2col`."""

    method = "im2col"

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)


class Fold(Method):
    """Columns (N, C kh kw, windows) added up to images (N, C, *output_size): `col2im`; the dtype
    stays.
    """

    method = "col2im"

    def __init__(
        self, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:  # fmt: skip
        super().__init__(
            output_size=output_size, kernel_size=kernel_size, dilation=dilation, padding=padding,
            stride=stride,
        )  # fmt: skip


class Upsample(Method):
    """The last axes of (N, C, *spatial) resized to `size` or by `scale_factor`; in their dtype.

    `mode` as in `Tensor.interpolate`, "nearest" by default.
    """

    method = "interpolate"

    def __init__(
        self, size: Sizes | None = None, scale_factor: object = None, mode: str = "nearest",
        align_corners: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            size=size, scale_factor=scale_factor, mode=mode, align_corners=bool(align_corners)
        )


# -- elements around -------------------------------------------------------------------------------


class _Pad(Method):
    """Elements added around the last axes of any shape; the dtype stays."""

    method = "pad"
    rank, mode = 1, "constant"

    def __init__(self, padding: int | Sequence[int], value: float = 0.0) -> None:
        every = isinstance(padding, int)
        flat = (padding,) * (2 * self.rank) if every else tuple(padding)
        if len(flat) != 2 * self.rank:
            raise ArgumentError(
                f"[{type(self).__name__}] padding is one number, or {2 * self.rank}, the last axis "
                f"first, not {padding!r}"
            )
        super().__init__(padding=flat, mode=self.mode, value=value)


class _PadOfItself(_Pad):
    """Elements of the tensor itself added around its last axes; the dtype stays."""

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding)


class ZeroPad1d(_PadOfItself):
    """Zeros added before and after the last axis; the dtype stays.

    `padding`: one number, or (left, right).
    """

    rank, mode = 1, "constant"


class ZeroPad2d(_PadOfItself):
    """Zeros added before and after the last two axes; the dtype stays.

    `padding`: one number, or (left, right, top, bottom).
    """

    rank, mode = 2, "constant"


class ZeroPad3d(_PadOfItself):
    """Zeros added before and after the last three axes; the dtype stays.

    `padding`: one number, or (left, right, top, bottom, front, back).
    """

    rank, mode = 3, "constant"


class ConstantPad1d(_Pad):
    """`value` added before and after the last axis; the dtype stays.

    `padding`: one number, or (left, right).
    """

    rank, mode = 1, "constant"


class ConstantPad2d(_Pad):
    """`value` added before and after the last two axes; the dtype stays.

    `padding`: one number, or (left, right, top, bottom).
    """

    rank, mode = 2, "constant"


class ConstantPad3d(_Pad):
    """`value` added before and after the last three axes; the dtype stays.

    `padding`: one number, or (left, right, top, bottom, front, back).
    """

    rank, mode = 3, "constant"


class ReflectionPad1d(_PadOfItself):
    """Elements mirrored at both ends of the last axis; the dtype stays.

    `padding`: one number, or (left, right).
    """

    rank, mode = 1, "reflect"


class ReflectionPad2d(_PadOfItself):
    """Elements mirrored at both ends of the last two axes; the dtype stays.

    `padding`: one number, or (left, right, top, bottom).
    """

    rank, mode = 2, "reflect"


class ReflectionPad3d(_PadOfItself):
    """Elements mirrored at both ends of the last three axes; the dtype stays.

    `padding`: one number, or (left, right, top, bottom, front, back).
    """

    rank, mode = 3, "reflect"


class ReplicationPad1d(_PadOfItself):
    """The first and last element repeated before and after the last axis; the dtype stays.

    `padding`: one number, or (left, right).
    """

    rank, mode = 1, "replicate"


class ReplicationPad2d(_PadOfItself):
    """The first and last element repeated before and after the last two axes; the dtype stays.

    `padding`: one number, or (left, right, top, bottom).
    """

    rank, mode = 2, "replicate"


class ReplicationPad3d(_PadOfItself):
    """The first and last element repeated before and after the last three axes; the dtype stays.

    `padding`: one number, or (left, right, top, bottom, front, back).
    """

    rank, mode = 3, "replicate"


class CircularPad1d(_PadOfItself):
    """Elements of the other end added at each end of the last axis; the dtype stays.

    `padding`: one number, or (left, right).
    """

    rank, mode = 1, "circular"


class CircularPad2d(_PadOfItself):
    """Elements of the other end added at each end of the last two axes; the dtype stays.

    `padding`: one number, or (left, right, top, bottom).
    """

    rank, mode = 2, "circular"


class CircularPad3d(_PadOfItself):
    """Elements of the other end added at each end of the last three axes; the dtype stays.

    `padding`: one number, or (left, right, top, bottom, front, back).
    """

    rank, mode = 3, "circular"
