"""Parts of axes whose bounds or sizes are made of variables: within the axis for every value.

    slice_bounds(slice(None, n), 12)    (0, n) where n is at most 12, else (0, min(n, 12))
    checked("shrink", (m, n), 12)       ShapeError unless 0 <= m <= n <= 12

Kernels trust these bounds: what lies outside would be other memory.
"""

from __future__ import annotations

from ..errors import IndexOutOfRange, ShapeError
from ..ir.interval import bounds
from ..ir.node import Node, as_index
from ..ir.shape import simple_size
from ..ir.symbolic import Size

__all__ = ["checked", "index_within", "slice_bounds"]


def slice_bounds(item: slice, size: Size) -> tuple[Size, Size]:
    """Where a slice of step 1 begins and ends on an axis of `size`, by the rules for numbers.

    Negative bounds count from the end, what lies outside is cut off. Raises ShapeError for a bound
    of which it is not known whether it is negative.
    """
    begin = 0 if item.start is None else _from_the_start(item.start, size)
    end = size if item.stop is None else _from_the_start(item.stop, size)
    return begin, _larger(end, begin)


def index_within(index: Size, size: Size, axis: int) -> Size:
    """A place on an axis, counted from its start. Raises IndexOutOfRange, ShapeError."""
    if not isinstance(index, Node) and index < 0:
        place = simple_size(as_index(size) + index)
    else:
        place = index
    if not _is_at_least(place, 0) or not _is_at_least(size, simple_size(as_index(place) + 1)):
        raise IndexOutOfRange(
            f"[getitem] index {index!r} is out of range for axis {axis} of size {size!r}, for some "
            "value of the variables"
        )
    return place


def checked(name: str, pair: tuple[Size, Size], size: Size) -> None:
    """Raises ShapeError unless a part of an axis lies within it for all values of variables."""
    begin, end = pair
    steps = ((begin, 0), (end, begin), (size, end))
    if not all(_is_at_least(*step) for step in steps):
        raise ShapeError(
            f"[{name}] {begin!r}:{end!r} does not lie within an axis of size {size!r} for every "
            "value of the variables: bound them more closely, or slice, which cuts off"
        )


def _from_the_start(bound: Size, size: Size) -> Size:
    low, high = _range(bound)
    if high < 0:
        bound = simple_size(as_index(size) + bound)
    elif low < 0:
        raise ShapeError(
            f"[getitem] {bound!r} may be negative or not, so it is not known from which end it "
            "counts: bound its variables more closely, or use .maximum(0)"
        )
    return _smaller(_larger(bound, 0), size)


def _larger(a: Size, b: Size) -> Size:
    return a if _is_at_least(a, b) else simple_size(as_index(a).maximum(b))


def _smaller(a: Size, b: Size) -> Size:
    return a if _is_at_least(b, a) else simple_size(as_index(a).minimum(b))


def _is_at_least(a: Size, b: Size) -> bool:
    """Whether `a` is at least `b` for every value of their variables."""
    return _range(simple_size(as_index(a) - b))[0] >= 0


def _range(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else bounds(size)
