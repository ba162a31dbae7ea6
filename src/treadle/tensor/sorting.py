"""Sorting: sort, argsort, top-k.

    x.sort()         -> values in ascending order along the last axis, and where they were
    x.topk(3)        -> the three largest, and where they were

Every dtype is sorted as unsigned integers of the same order: bits of floats with the sign turned,
-0 as 0, any NaN above all numbers. Of equal elements the first stays first, descending too.
"""

from __future__ import annotations

from typing import Self

from ..dtype import dtypes
from ..errors import ShapeError
from ..ir.args import SortArg
from ..ir.node import Node
from ..ir.op import Op
from .gathering import Gathering
from .shapes import resolve_axis

__all__ = ["Sorting"]

_UNSIGNED = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}
_INFINITY = {
    dtypes.float16: 0x7C00, dtypes.bfloat16: 0x7F80, dtypes.float32: 0xFF << 23,
    dtypes.float64: 0x7FF << 52,
}  # fmt: skip


class Sorting(Gathering):
    """Orders on top of gather."""

    __slots__ = ()

    def sort(self, dim: int = -1, descending: bool = False) -> tuple[Self, Self]:
        """The elements in order along an axis, and their places before, as int32.

        Stable. NaN comes last, in descending order first. Raises ShapeError on symbolic sizes.
        """
        places = self.argsort(dim, descending)
        return self.gather(dim, places), places

    def argsort(self, dim: int = -1, descending: bool = False) -> Self:
        """The places of the elements in order along an axis, as int32; see `sort`."""
        return self._order("sort", dim, descending, None)

    def topk(
        self, k: int, dim: int = -1, largest: bool = True, sorted_: bool = True
    ) -> tuple[Self, Self]:
        """The `k` largest or smallest elements along an axis, in order, and their places.

        Of equal elements the first come first; NaN counts as larger than any number. The result
        is in order whatever `sorted_` says. Raises ShapeError if the axis has less than `k`.
        """
        places = self._order("topk", dim, largest, k)
        return self.gather(dim, places), places

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
        keys = self._keys()
        keys = keys ^ keys.dtype.max if descending else keys
        return self._result(Node(Op.SORT, dtypes.int32, (keys,), SortArg(axis, count)))

    def _keys(self) -> Node:
        """Unsigned integers in the order of the elements."""
        node = self.node.cast(dtypes.uint8) if self.dtype.is_bool else self.node
        if node.dtype.is_float and node.dtype.bits == 8:
            node = node.cast(dtypes.float16)
        dtype = node.dtype
        if dtype.is_unsigned:
            return node
        bits, sign = node.bitcast(_UNSIGNED[dtype.bits]), 1 << (dtype.bits - 1)
        if not dtype.is_float:
            return bits ^ sign
        magnitude = bits & (sign - 1)
        key = magnitude.eq(0).where(sign, (bits < sign).where(bits ^ sign, bits ^ bits.dtype.max))
        is_nan = bits.like(_INFINITY[dtype]) < magnitude
        return is_nan.where(bits.dtype.max, key)
