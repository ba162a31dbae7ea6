"""Shapes and order of elements: joining, moving, repeating."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import DTypeError, ShapeError
from ..explained import explain_all
from ..ir.shape import same_size
from ..tensor import Tensor
from ..tensor.shapes import resolve_axes
from ..tensor.types import Axes, Sizes
from .signatures import check_tensor

__all__ = [
    "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat", "reshape", "roll",
    "squeeze", "stack", "tile", "unstack",
]  # fmt: skip


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Tensors one after the other on an axis; flattened first if that is None; dtypes promote.

    Raises ShapeError, IndexOutOfRange, DTypeError for what are no tensors.
    """
    first, *others = _all("concat", arrays)
    if axis is None:
        return first.flatten().cat(*(x.flatten() for x in others))
    return first.cat(*others, dim=axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape, side by side on a new axis; dtypes promote.

    Raises ShapeError, IndexOutOfRange, DTypeError for what are no tensors.
    """
    first, *others = _all("stack", arrays)
    return first.stack(*others, dim=axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """All places of an axis, each without it, in this dtype.

    Raises ShapeError for a scalar, IndexOutOfRange.
    """
    return check_tensor("unstack", x).unbind(axis)


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """A new axis of size 1 at `axis`; the dtype stays. Raises IndexOutOfRange."""
    return check_tensor("expand_dims", x).unsqueeze(axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Without the axes named, whose sizes are 1; the dtype stays.

    Raises ShapeError for another size, IndexOutOfRange.
    """
    axes = resolve_axes("squeeze", axis, check_tensor("squeeze", x).ndim)
    for at in axes:
        if not same_size(x.shape[at], 1):
            raise ShapeError(f"[squeeze] axis {at} of shape {x.shape} has not the size 1")
    return x.squeeze(axes)


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The order of elements reversed along some axes, or all; shape and dtype stay.

    Raises IndexOutOfRange.
    """
    return check_tensor("flip", x).flip(resolve_axes("flip", axis, x.ndim))


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """Axes `source` moved to places `destination`, the others in order; the dtype stays.

    Raises ShapeError, IndexOutOfRange.
    """
    return check_tensor("moveaxis", x).movedim(source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The axes in another order; the dtype stays. Raises ShapeError, IndexOutOfRange."""
    return check_tensor("permute_dims", x).permute(axes)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in row-major order as another shape, of which one size may be -1.

    The dtype stays. Never copies by itself: whether a kernel copies is the scheduler's affair.
    `copy` True does. Raises ShapeError.
    """
    result = check_tensor("reshape", x).reshape(shape)
    return result.clone() if copy else result


def roll(x: Tensor, /, shift: Sizes, *, axis: Axes = None) -> Tensor:
    """Elements moved along axes, or along the flat tensor; those that leave come in again.

    Shape and dtype stay. Raises ShapeError where there is not one shift for each axis,
    IndexOutOfRange.
    """
    if isinstance(shift, int) and isinstance(axis, tuple):
        shift = (shift,) * len(axis)
    return check_tensor("roll", x).roll(shift, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The whole tensor repeated along its last axes, or new ones in front; the dtype stays."""
    return check_tensor("tile", x).tile(repetitions)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element of an axis, or of the flat tensor, several times in a row; the dtype stays.

    `repeats` is one number, or a vector of integers, one for each: its sum, the new size, is
    computed now. Raises ShapeError, IndexOutOfRange, DTypeError for what are no integers.
    """
    line = check_tensor("repeat", x).flatten() if axis is None else x
    at = 0 if axis is None else axis
    if isinstance(repeats, int):
        return line.repeat_interleave(repeats, at)
    if not repeats.dtype.is_int or repeats.ndim > 1:
        raise DTypeError(
            f"[repeat] repeats is a vector of integers, not {repeats.dtype.name} of shape "
            f"{repeats.shape}"
        )
    ends = repeats.reshape((-1,)).expand((line.shape[at],)).cumsum(0)
    count = int(ends[-1].item()) if ends.shape[0] else 0
    places = Tensor.arange(count, device=x.device, dtype=ends.dtype)
    return line.index_select(at, ends.searchsorted(places, right=True))


def _all(name: str, arrays: Sequence[Tensor]) -> list[Tensor]:
    if not arrays:
        raise ShapeError(f"[{name}] takes at least one tensor")
    return [check_tensor(name, x) for x in arrays]


explain_all(globals())
