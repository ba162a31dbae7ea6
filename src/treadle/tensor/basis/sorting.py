"""Sorting: sort, argsort, top-k.

    x.sort()         -> values in ascending order along the last axis, and where they were
    x.topk(3)        -> the three largest, and where they were

Every dtype is sorted as unsigned integers of the same order (keys.py). Of equal elements the first
stays first, descending too.
"""

from __future__ import annotations

from typing import Self

from ...dtype import dtypes
from ...errors import ShapeError
from ...ir.args import SortArg
from ...ir.node import Node
from ...ir.op import Op
from ..keys import keys_of
from ..shapes import resolve_axis
from .gathering import Gathering

__all__ = ["Sorting"]


class Sorting(Gathering):
    """Orders on top of gather."""

    __slots__ = ()

    def sort(self, dim: int = -1, descending: bool = False) -> tuple[Self, Self]:
        """The elements in order along an axis, and their places before, as int32; both in this
        shape.

        Stable; the elements keep their dtype. NaN comes last, in descending order first. Raises
        ShapeError on symbolic sizes, IndexOutOfRange, and DTypeError for complex numbers.
        """
        places = self.argsort(dim, descending)
        return self._gather(dim, places), places

    def argsort(self, dim: int = -1, descending: bool = False) -> Self:
        """The places of the elements in order along an axis, as int32 in this shape; see `sort`.

        Raises IndexOutOfRange, and DTypeError for complex numbers.
        """
        return self._order("sort", dim, descending, None)

    def topk(
        self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True
    ) -> tuple[Self, Self]:
        """The `k` largest or smallest elements along an axis, in order, and their places, int32.

        The axis gets size k, the elements keep their dtype. Of equal elements the first come first;
        NaN counts as larger than any number. The result is in order whatever `sorted_` says. Raises
        ShapeError if the axis has less than `k`, IndexOutOfRange, and DTypeError for complex
        numbers.
        """
        places = self._order("topk", dim, largest, k)
        return self._gather(dim, places), places

    def _order(self, name: str, dim: int, descending: bool, count: int | None) -> Self:
        """The places of the first `count` along an axis, of all if that is None."""
        axis = resolve_axis(name, dim, self.ndim)
        self._check_op(Op.SORT)
        if any(not isinstance(size, int) for size in self.shape):
            raise ShapeError(f"[{name}] needs sizes that are known, not {self.shape}")
        size = self.shape[axis] if self.ndim else 1
        count = size if count is None else count
        if not isinstance(count, int) or not 0 <= count <= size:
            raise ShapeError(f"[{name}] axis {dim} of shape {self.shape} has no {count!r} elements")
        if not self.ndim:
            return self._filled(0).cast(dtypes.int32)
        keys = keys_of(self.node)
        keys = keys ^ keys.dtype.max if descending else keys
        return self._result(Node(Op.SORT, dtypes.int32, (keys,), SortArg(axis, count)))
