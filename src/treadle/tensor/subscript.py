"""Subscripts: what stands in `x[...]` becomes movement ops and places to gather.

    x[1:, None, [0, 2]]  ->  Subscript(moves=[SHRINK, RESHAPE], advanced=[(axis 2, index)])

Basic items (int, slice, None, ...) move; lists, arrays and integer tensors gather. NumPy's rules
throughout, where the gathered axes go included. Integers known on the host are checked here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import EllipsisType
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, cast

from ..config import settings
from ..errors import (
    ArgumentError,
    DTypeError,
    IndexOutOfRange,
    ShapeError,
    SubscriptError,
    TreadleError,
)
from ..ir.args import BoundsArg, WindowArg
from ..ir.node import Node
from ..ir.op import Op
from ..ir.origin import mark
from ..ir.shape import Shape, size_max
from ..ir.symbolic import bound_size
from ..kinds import shown
from .basis.core import Core
from .intervals import index_within, slice_bounds
from .types import Bounds, Extent

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Subscript", "as_subscript", "check_places", "parse"]

# Places to gather, and what becomes of an item that is no number and no slice: a place, or places;
# of a mask, those on each of its axes.
Places: TypeAlias = "Core | np.ndarray"
ToIndex: TypeAlias = "Callable[[object], int | Places | tuple[np.ndarray, ...]]"
Item: TypeAlias = "int | slice | Node | Core | _Host | None"


@dataclass
class Subscript:
    """`moves`: (op, arg) in order. `advanced`: (axis after the moves, index), by axis.

    `place`: where the gathered axes go, counted after the other advanced axes are gone.
    """

    moves: list[tuple[Op, object]] = field(default_factory=list)
    advanced: list[tuple[int, Places]] = field(default_factory=list)
    place: int = 0

    def view(self, node: Node) -> Node:
        """The basic part, applied."""
        for op, arg in self.moves:
            node = Node(op, node.dtype, (node,), arg)
        return node


def parse(shape: Shape, items: object, to_index: ToIndex) -> Subscript:
    """The meaning of `items` on a tensor of `shape`; `to_index` makes lists and masks indices.

    Raises IndexOutOfRange or SubscriptError.
    """
    try:
        with as_subscript():
            full = _spell_out(shape, items if isinstance(items, tuple) else (items,), to_index)
            return _Parser(shape).run(full)
    except (TypeError, ValueError) as error:
        if isinstance(error, TreadleError):
            raise
        raise SubscriptError(
            f"[getitem] {shown(items)} is no subscript of shape {shape}; expected integers, slices "
            "of integers, None, ..., and lists or tensors of integers or bools"
        ) from error


@contextlib.contextmanager
def as_subscript() -> Iterator[None]:
    """What does not fit here is a SubscriptError, which is an IndexError as in NumPy."""
    try:
        yield
    except (ShapeError, DTypeError, ArgumentError) as error:
        raise SubscriptError(*error.args) from error.__cause__


def check_places(
    name: str, index: Core, axis: int, size: Extent, lowest: int = 0, ignored: int | None = None
) -> Node:
    """The node of `index`, whose places lie in lowest..size-1, or are `ignored`.

    Others raise IndexOutOfRange: at the next read on the host, or here under CHECK_INDEX=2.
    """
    lowest = 0 if index.dtype.is_unsigned else lowest
    if settings.CHECK_INDEX > 1:
        _check_at_once(name, index, axis, bound_size(size), lowest, ignored)
    if settings.CHECK_INDEX != 1:
        return index.node
    arg = BoundsArg(axis, size_max(size), lowest, ignored)
    checked = Node(Op.CHECKED, index.dtype, (index.node,), arg)
    mark(checked)
    return checked


def _check_at_once(
    name: str, index: Core, axis: int, size: int, lowest: int, ignored: int | None
) -> None:
    import numpy as np

    places = index.numpy()
    bad = (places < lowest) | (places >= size)
    if ignored is not None:
        bad &= places != ignored
    if bad.any():
        first = tuple(int(n) for n in np.argwhere(bad)[0])
        raise IndexOutOfRange(
            f"[{name}] {int(bad.sum())} of {places.size} places lie outside of axis {axis} of size "
            f"{size}: the index tensor of shape {index.shape} has {places[first]} at {first}, "
            f"expected {lowest} to {size - 1}"
        )


def _is_advanced(item: object) -> bool:
    return isinstance(item, (Core, _Host))


class _Host:
    """An index known on the host: an integer array."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array


def _spell_out(shape: Shape, items: tuple[object, ...], to_index: ToIndex) -> list[Item]:
    """Lists and masks as indices, and `...` as the slices that it stands for."""
    spelled: list[Item | EllipsisType] = []
    for item in items:
        spelled += [item] if _is_basic(item) else _advanced_items(item, to_index)
    dots = [i for i, item in enumerate(spelled) if item is Ellipsis]
    if len(dots) > 1:
        raise ShapeError("[getitem] only one ... can stand in a subscript; write : for single axes")
    used = sum(item is not None and item is not Ellipsis for item in spelled)
    if used > len(shape):
        raise IndexOutOfRange(
            f"[getitem] {used} indices for the {len(shape)} axes of {shape}; None adds an axis"
        )
    at = dots[0] if dots else len(spelled)
    missing = [slice(None)] * (len(shape) - used)
    return cast("list[Item]", spelled[:at] + missing + spelled[at + 1 :])


def _is_basic(item: object) -> TypeGuard[int | slice | Node | EllipsisType | None]:
    if isinstance(item, bool):
        raise DTypeError("[getitem] True and False are no indices; use None or a mask tensor")
    return item is None or item is Ellipsis or isinstance(item, (int, slice, Node))


def _advanced_items(item: object, to_index: ToIndex) -> list[Item]:
    found = to_index(item)
    if isinstance(found, tuple):  # a mask is one index for each of its axes
        return [_Host(array) for array in found]
    if isinstance(found, int):
        return [found]
    return [found if isinstance(found, Core) else _Host(found)]


class _Parser:
    """One pass over the items, collecting the movement of every axis."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.bounds: list[Bounds] = []
        self.flips: list[int] = []
        self.steps: list[int] = []
        self.final: list[Extent] = []  # sizes after ints are dropped and None is inserted
        self.advanced: list[tuple[int, Places]] = []
        self.runs: list[bool] = []  # for each item: does it take part in advanced indexing

    def run(self, items: list[Item]) -> Subscript:
        for item in items:
            self.item(item)
        result = Subscript()
        whole = all(b == (0, n) for b, n in zip(self.bounds, self.shape, strict=True))
        if not whole:
            result.moves.append((Op.SHRINK, tuple(self.bounds)))
        if self.flips:
            result.moves.append((Op.FLIP, tuple(self.flips)))
        sizes = [end - begin for begin, end in self.bounds]
        for axis, step in enumerate(self.steps):
            if step > 1 and sizes[axis]:
                result.moves.append((Op.WINDOW, WindowArg(axis, 1, step, 1, sizes[axis])))
                sizes[axis] = (sizes[axis] - 1) // step + 1
                result.moves.append((Op.RESHAPE, tuple(sizes)))
        if self.final != sizes:
            result.moves.append((Op.RESHAPE, tuple(self.final)))
        result.advanced, result.place = self.advanced, self._place(items)
        return result

    def item(self, item: Item) -> None:
        if item is None:
            self.final.append(1)
            return
        axis = len(self.bounds)
        size = self.shape[axis]
        if isinstance(item, slice):
            self._slice(axis, size, item)
        elif isinstance(item, (Core, _Host)):
            self._keep(0, size)
            self.advanced.append((len(self.final), _checked(item, size, axis)))
            self.final.append(size)
        else:
            begin = _checked_int(item, size, axis)
            self._keep(begin, begin + 1)

    def _keep(self, begin: Extent, end: Extent, step: int = 1) -> None:
        self.bounds.append((begin, end))
        self.steps.append(step)

    def _slice(self, axis: int, size: Extent, item: slice) -> None:
        if isinstance(size, Node) or any(isinstance(n, Node) for n in (item.start, item.stop)):
            if item.step not in (None, 1):
                raise ShapeError("[getitem] a slice with symbolic bounds has step 1")
            begin, end = slice_bounds(item, size)
            self._keep(begin, end)
            self.final.append(end - begin)
            return
        if item.step == 0:
            raise ShapeError(
                "[getitem] a slice cannot have step 0; leave it out, or give 1 or more"
            )
        begin, end, step = item.indices(size)
        count = len(range(begin, end, step))
        if not count:  # and so wherever it is
            begin = end = 0
        elif step < 0:
            self.flips.append(axis)
            begin, end = begin + (count - 1) * step, begin + 1
        self._keep(begin, end, abs(step))
        self.final.append(count)

    def _place(self, items: list[Item]) -> int:
        """Gathered axes stand where the first was, or in front where a slice parts them."""
        joined = [_is_advanced(i) or not (i is None or isinstance(i, slice)) for i in items]
        if not self.advanced or not any(joined):
            return 0
        first = joined.index(True)
        last = len(joined) - joined[::-1].index(True)
        if not all(joined[first:last]):
            return 0
        return first  # everything before it kept or inserted one axis


def _checked_int(index: Extent, size: Extent, axis: int) -> Extent:
    if isinstance(index, Node) or isinstance(size, Node):
        return index_within(index, size, axis)
    if not -size <= index < size:
        raise IndexOutOfRange(
            f"[getitem] index {index} is out of range for axis {axis} of size {size}: "
            f"{-size} to {size - 1} are there"
        )
    return index % size


def _checked(item: Core | _Host, size: Extent, axis: int) -> Places:
    """Host indices within 0..size-1; a tensor as it is."""
    if isinstance(item, Core):
        if not item.dtype.is_int:
            raise DTypeError(f"[getitem] an index tensor is integer or bool, not {item.dtype.name}")
        return item
    array = item.array
    if array.size and not (-size <= array.min() and array.max() < size):
        bad = array.min() if array.min() < -size else array.max()
        raise IndexOutOfRange(
            f"[getitem] index {bad} is out of range for axis {axis} of size {size}: "
            f"{-size} to {size - 1} are there"
        )
    return array % size if size else array
