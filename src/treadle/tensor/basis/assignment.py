"""Writing to a tensor: `assign`, and what subscripts and operators in place are made of.

    x.assign(v)      -> x has other values, in its memory; so has what x is a view of

`inplace` says what a write does to graphs and storages.
"""

from __future__ import annotations

from typing import Self

from ...dtype import DType, dtypes, least_upper_dtype
from ...engine.storages import Moves, on_the_way, shown, storage_of
from ...errors import DTypeError, ShapeError
from ...ir.node import Node
from ...ir.op import Op
from ...ir.shape import Shape, same_size
from ..inplace import check_leaf, check_writable, write
from ..operands import Operand, check_device, is_scalar, plain, rank, scalar_node, weak_dtype
from ..shapes import expand
from .elementwise import Elementwise

__all__ = ["Assignment"]


class Assignment(Elementwise):
    """New values in the place of old ones."""

    __slots__ = ()

    def assign(self, x: Operand) -> Self:
        """Overwrite the values, in this tensor's memory; `x` has its shape and dtype.

        Assigned to a view of a buffer, the buffer's own tensor changes too; other views taken
        earlier keep the old values. A leaf stays a leaf: nothing flows back into `x`. Raises
        ShapeError or DTypeError.
        """
        check_writable("assign", self)
        value = self._as_value(x)
        check_leaf("assign", self)
        self._write(value, expand(value.node, self.shape))
        return self

    def _as_value(self, x: Operand) -> Self:
        """`x` as a tensor of this dtype. Raises ShapeError or DTypeError."""
        x = self._operand("assign", x)
        if is_scalar(x):
            if weak_dtype(x, self.dtype) is not self.dtype:
                raise _unfit(dtypes.from_py(plain(x)), self.dtype)
            return type(self)._of(scalar_node("assign", x, self.dtype), self.device)
        check_device("assign", self, x)
        if least_upper_dtype(x.dtype, self.dtype) is not self.dtype:
            raise _unfit(x.dtype, self.dtype)
        if not _fits(x.shape, self.shape):
            raise ShapeError(
                f"[assign] a value of shape {x.shape} does not fit {self.shape}, which it would "
                "have to broadcast to; use .reshape on the value, or rebind the name: x = value"
            )
        return x.cast(self.dtype)

    def _write(self, value: Self, node: Node, part: Moves = (), is_partial: bool = False) -> None:
        """Write `node`, which is made of `value`, to what `part` shows of this tensor.

        `is_partial`: it is made of what was there, too.
        """
        self._let_go(self.node)
        storage = storage_of(self)
        owner = self if self._moves is None else storage.tensor()
        graded = value._requires_grad is True
        if graded and owner is not None and owner.is_leaf:
            node, graded = Node(Op.DETACH, node.dtype, (node,)), False
        if graded or not (part or self._moves or is_partial):
            storage.is_graded = graded
        if graded:
            for tensor in (owner, *on_the_way(self)):
                if tensor is not None:
                    tensor._requires_grad = True
        write(self, node, part)

    def _latest(self) -> Node:
        """What a write finds here: for a view, what its storage holds by now."""
        self._let_go(self.node)
        if self._storage is None or self._moves is None:
            return self.node
        return shown(self._moves, self._storage.node)

    def _in_place(self, name: str, result: Self) -> Self:
        """Write `result`, of this shape and dtype, to this tensor."""
        check_leaf(name, self)
        if rank(result.dtype) <= rank(self.dtype):  # of the same kind, as NumPy and PyTorch accept
            result = result.cast(self.dtype)
        if result.dtype is not self.dtype or result.shape != self.shape:
            raise DTypeError(
                f"[{name}] the result is {result.dtype.name} {result.shape}, which does not fit "
                f"in place of {self.dtype.name} {self.shape}; write x = x ... instead"
            )
        return self.assign(result)


def _fits(shape: Shape, wanted: Shape) -> bool:
    """Whether `shape` broadcasts to `wanted`."""
    if len(shape) > len(wanted):
        return False
    own = wanted[len(wanted) - len(shape) :]
    return all(same_size(a, b) or same_size(a, 1) for a, b in zip(shape, own, strict=True))


def _unfit(dtype: DType, wanted: DType) -> DTypeError:
    return DTypeError(
        f"[assign] a {dtype.name} value does not fit a {wanted.name} tensor without loss; cast it "
        f"with .cast({wanted.name!r})"
    )
