"""The same bytes as another element type.

float32 (2, 3).bitcast(dtypes.uint8)  ->  uint8 (2, 12), least significant byte first
"""

from __future__ import annotations

from typing import Self

from ...dtype import DType, dtypes, to_dtype
from ...errors import DTypeError, ShapeError
from ...ir.args import ReduceArg
from ...ir.node import Node, alu
from ...ir.op import Op
from ...ir.shape import Shape
from ..shapes import expand, reshape
from ..types import DTypeLike
from .core import Core

__all__ = ["Reinterpret"]

_UNSIGNED = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


class Reinterpret(Core):
    """Bytes as elements of another type."""

    __slots__ = ()

    def bitcast(self, dtype: DTypeLike) -> Self:
        """The bytes as `dtype`; of another width, the last axis grows or shrinks to fit.

        A bool is a byte, 0 or 1. Raises ShapeError where the last axis does not divide, DTypeError
        for complex numbers.
        """
        wanted = to_dtype(dtype)
        if wanted is self.dtype:
            return self._again()
        if self.dtype.is_complex or wanted.is_complex:
            raise DTypeError(
                f"[bitcast] {self.dtype.name} to {wanted.name} is no bitcast; view_as_real and "
                "view_as_complex give and take the parts"
            )
        node = self.node.cast(dtypes.uint8) if self.dtype.is_bool else self.node
        old, new = node.dtype.itemsize, wanted.itemsize
        if old != new:
            count = self.shape[-1] * old if self.ndim else old
            if not self.ndim or (isinstance(count, int) and count % new):
                raise ShapeError(
                    f"[bitcast] the last axis of shape {self.shape} holds {count} bytes of "
                    f"{self.dtype.name}, no whole number of {wanted.name} ({new} bytes each)"
                )
            plain = node.bitcast(_UNSIGNED[old])
            node = (_parted if old > new else _combined)(plain, _UNSIGNED[new])
        if wanted.is_bool:
            return self._result(node.bitcast(dtypes.uint8).ne(0))
        return self._result(node.bitcast(wanted))


def _shifts(dtype: DType, count: int, bits: int, shape: Shape) -> Node:
    return expand(Node(Op.IOTA, dtype, (), count) * bits, shape)


def _parted(node: Node, dtype: DType) -> Node:
    """Each element as several narrower ones."""
    count = node.dtype.itemsize // dtype.itemsize
    wide = (*node.shape, count)
    repeated = expand(reshape(node, (*node.shape, 1)), wide)
    parts = alu(Op.SHR, repeated, _shifts(node.dtype, count, dtype.bits, wide)).cast(dtype)
    return reshape(parts, (*node.shape[:-1], node.shape[-1] * count))


def _combined(node: Node, dtype: DType) -> Node:
    """Several neighbours as one wider element: their bits do not overlap, so a sum joins them."""
    count = dtype.itemsize // node.dtype.itemsize
    split = reshape(node, (*node.shape[:-1], node.shape[-1] // count, count)).cast(dtype)
    parts = alu(Op.SHL, split, _shifts(dtype, count, node.dtype.bits, split.shape))
    arg = ReduceArg(Op.ADD, (len(split.shape) - 1,))
    return reshape(Node(Op.REDUCE, dtype, (parts,), arg), split.shape[:-1])
