"""Images and signals in other sizes: interpolate and adaptive pooling.

    x (N, C, H, W).interpolate((h, w), mode="linear")     -> (N, C, h, w)
    x.adaptive_avg_pool2d((1, 1))                         -> the mean of each channel

Each axis is resized by itself, from gathered neighbours. Places and weights are computed by
PyTorch's formulas, in float32, and in float64 between neighbours of that type: so both agree on
which pixel is the nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, TypeVar, cast, overload

from ...dtype import DType, dtypes
from ...errors import ShapeError
from ..basis import Basis
from ..sliding_windows import flat_places, is_largest
from ..types import Sizes

__all__ = ["Resampling"]

_MODES = {
    "linear": "linear", "bilinear": "linear", "trilinear": "linear", "nearest": "nearest",
    "nearest-exact": "nearest-exact", "cubic": "cubic", "bicubic": "cubic", "area": "area",
}  # fmt: skip
_CUBIC = -0.75  # Keys' parameter, as in PyTorch

T = TypeVar("T", bound=Basis)


class Resampling(Basis):
    """Other sizes on top of gather."""

    __slots__ = ()

    def interpolate(
        self, size: Sizes | None = None, mode: str = "linear", align_corners: bool = False,
        scale_factor: float | Sequence[float] | None = None,
        recompute_scale_factor: bool | None = False,
    ) -> Self:  # fmt: skip
        """The last axes of (N, C, *spatial) resized to `size`, one number for each of them.

        `mode`: "nearest", "nearest-exact", "linear" ("bilinear", "trilinear" are the same), "cubic"
        ("bicubic") or "area". `align_corners` puts the first and last elements of both sizes on
        each other (linear and cubic). Instead of `size`, `scale_factor` times the old one, rounded
        down; with `recompute_scale_factor` elements are apart as the rounded sizes say. The dtype
        stays; integers are rounded, within their range. Raises ShapeError.
        """
        if mode not in _MODES:
            raise ShapeError(f"[interpolate] mode {mode!r} is not one of {', '.join(_MODES)}")
        kind = _MODES[mode]
        if align_corners and kind not in ("linear", "cubic"):
            raise ShapeError(f"[interpolate] align_corners means nothing for mode {mode!r}")
        if (size is None) == (scale_factor is None):
            raise ShapeError("[interpolate] give size or scale_factor, one of them")
        sizes, scales = self._new_sizes(size, scale_factor)
        if recompute_scale_factor:
            sizes, scales = self._new_sizes(sizes, None)
        result = self if "nearest" in kind else self._float()
        first = self.ndim - len(sizes)
        for i, (new, scale) in enumerate(zip(sizes, scales, strict=True)):
            if kind == "area":
                result = result._adaptive_mean(first + i, new)
            elif (new, scale) != (self.shape[first + i], 1.0) or kind == "cubic":
                result = result._resized(first + i, new, kind, align_corners, scale)
        return result if result.dtype is self.dtype else result._nearest_whole(self.dtype)

    def _nearest_whole(self, dtype: DType) -> Self:
        """Floats as integers of `dtype`, those beyond it as its ends."""
        return self.add(0.5).floor().clamp(float(dtype.min), float(dtype.max)).cast(dtype)

    def _new_sizes(
        self, size: Sizes | None, factor: float | Sequence[float] | None
    ) -> tuple[list[int], list[float]]:
        """The new sizes, and old elements for each new one."""
        given = cast("float | Sequence[float]", factor if size is None else size)
        many = isinstance(given, (tuple, list))
        listed = list(cast("Sequence[float]", given if many else (given,) * max(self.ndim - 2, 1)))
        old = self.shape[self.ndim - len(listed) :]
        if not 0 < len(listed) <= self.ndim:
            raise ShapeError(
                f"[interpolate] {len(listed)} sizes for the axes of shape {self.shape}"
            )
        new = cast("list[int]", listed)
        if size is None:
            new = [int(n * f) for n, f in zip(old, listed, strict=True)]
        if any(not isinstance(n, int) or n < 1 for n in (*new, *old)):
            raise ShapeError(
                f"[interpolate] sizes are whole numbers of at least 1, not {tuple(listed)} for "
                f"shape {self.shape}"
            )
        if size is None:
            return new, [1 / f for f in listed]
        return new, [n / m for n, m in zip(old, new, strict=True)]

    def _resized(self, axis: int, new: int, kind: str, corners: bool, scale: float) -> Self:
        """One axis with `new` elements, `scale` old ones apart."""
        size = self.shape[axis]
        if kind == "nearest" and size * (new // size) == new and scale * new == size:
            return self._repeated(new // size, axis)
        steps = self._range(new).float()
        if "nearest" in kind:
            at = steps.add(0.5).mul(scale) if kind == "nearest-exact" else steps.mul(scale)
            return self._pick(axis, at.floor().int().minimum(size - 1))
        if self.dtype is dtypes.float64:
            steps = steps.cast(dtypes.float64)
        if corners:
            source = steps.mul((size - 1) / (new - 1) if new > 1 else 0.0)
        else:
            source = steps.add(0.5).mul(scale).sub(0.5)
        if kind == "linear":
            source = source.maximum(0.0)
        low = source.floor()
        weights = _linear(source.sub(low)) if kind == "linear" else _cubic(source.sub(low))
        begin = 0 if kind == "linear" else -1
        column = [new if i == axis else 1 for i in range(self.ndim)]
        wide = self._wide()
        total = None
        for i, weight in enumerate(weights):
            place = low.int().add(begin + i).maximum(0).minimum(size - 1)
            part = wide._pick(axis, place).mul(weight.cast(wide.dtype).reshape(column))
            total = part if total is None else total.add(part)
        assert total is not None
        return total.cast(self.dtype)

    # -- adaptive pooling ---------------------------------------------------------------------

    def adaptive_avg_pool2d(self, output_size: Sizes) -> Self:
        """The mean of each of `output_size` parts that cover the last axes (one number for each
        axis; one alone: for two axes; None keeps an axis); integers give floats.

        (N, C, H, W) gives (N, C, *output_size). Raises ShapeError.
        """
        result = self._float()
        for axis, new in self._adaptive_sizes("adaptive_avg_pool2d", output_size):
            result = result._adaptive_mean(axis, new)
        return result

    @overload
    def adaptive_max_pool2d(
        self, output_size: Sizes, return_indices: Literal[False] = ...
    ) -> Self: ...
    @overload
    def adaptive_max_pool2d(
        self, output_size: Sizes, return_indices: Literal[True]
    ) -> tuple[Self, Self]: ...
    def adaptive_max_pool2d(
        self, output_size: Sizes, return_indices: bool = False
    ) -> Self | tuple[Self, Self]:
        """The largest element of each part, in its dtype; see `adaptive_avg_pool2d`.

        With `return_indices`, also where the first one was, as int32 places in the flattened axes.
        Raises ShapeError, and DTypeError for complex numbers.
        """
        sizes = self._adaptive_sizes("adaptive_max_pool2d", output_size)
        rank = len(output_size) if isinstance(output_size, (tuple, list)) else 2
        result, places = self, flat_places(self, rank) if return_indices else None
        for axis, new in sizes:
            parts, inside = result._parts(axis, new)
            if inside is not None:
                parts = inside.where(parts, self.dtype.min)
            result = parts.max(axis + 1)
            if places is not None:
                won = is_largest(parts, result.unsqueeze(axis + 1))
                won = won if inside is None else won.bitwise_and(inside)
                where = places._parts(axis, new)[0]
                places = won.where(where, dtypes.int32.max).min(axis + 1)
        return result if places is None else (result, places)

    def _adaptive_sizes(self, name: str, output_size: Sizes) -> list[tuple[int, int]]:
        given = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * 2
        sizes = cast("Sequence[int | None]", given)
        first = self.ndim - len(sizes)
        if (
            not sizes
            or first < 0
            or any(n is not None and (not isinstance(n, int) or n < 1) for n in sizes)
        ):
            raise ShapeError(f"[{name}] shape {self.shape} has no parts {tuple(sizes)}")
        return [(first + i, n) for i, n in enumerate(sizes) if n is not None]

    def _adaptive_mean(self, axis: int, new: int) -> Self:
        wide = self._wide()
        parts, inside = wide._parts(axis, new)
        if inside is None:
            return parts.mean(axis + 1).cast(self.dtype)
        total = inside.where(parts, 0.0).sum(axis + 1)
        count = inside.cast(wide.dtype).sum(axis + 1)
        return total.div(count).cast(self.dtype)

    def _parts(self, axis: int, new: int) -> tuple[Self, Self | None]:
        """Part i, from i n / new to (i + 1) n / new rounded up, along a new axis after `axis`.

        The second result says which elements belong to it, None if all do.
        """
        size = self.shape[axis]
        if size % new == 0:
            return self.unflatten(axis, (new, size // new)), None
        number = self._range(new)
        begin = number.mul(size).floor_divide(new)
        end = number.add(1).mul(size).add(new - 1).floor_divide(new)
        longest = -(-size // new) + 1
        step = self._range(longest)
        place = begin.unsqueeze(1).add(step)
        shape = [1] * axis + [new, longest] + [1] * (self.ndim - axis - 1)
        inside = place.lt(end.unsqueeze(1)).reshape(shape)
        return self._pick(axis, place.minimum(size - 1)), inside


def _linear(t: T) -> list[T]:
    return [t.neg().add(1.0), t]


def _cubic(t: T) -> list[T]:
    """The weights of the four neighbours, by Keys' cubic convolution."""

    def near(x: T) -> T:
        return x.mul(_CUBIC + 2).sub(_CUBIC + 3).mul(x).mul(x).add(1.0)

    def far(x: T) -> T:
        return x.mul(_CUBIC).sub(5 * _CUBIC).mul(x).add(8 * _CUBIC).mul(x).sub(4 * _CUBIC)

    rest = t.neg().add(1.0)
    return [far(t.add(1.0)), near(t), near(rest), far(rest.add(1.0))]
