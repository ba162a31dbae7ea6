"""Reading and writing at computed places: gather, scatter, one_hot.

    x.gather(1, index)            -> out[i, j] = x[i, index[i, j]]
    x.scatter(0, index, src)      -> a copy of x with out[index[i, j], j] = src[i, j]

Places outside an axis read as 0 and are not written.
"""

from __future__ import annotations

from typing import Self

from ...dtype import DType, dtypes, sum_acc_dtype
from ...errors import DTypeError, ShapeError
from ...ir.args import GatherArg, ScatterArg
from ...ir.node import Node
from ...ir.op import Op
from ..checks import check_index
from ..operands import Operand, check_device, is_scalar
from ..shapes import aligned, resolve_axis
from ..subscript import check_places
from ..types import Extent
from .reduce import Reduce

__all__ = ["Gathering"]

_REDUCERS = {"sum": Op.ADD, "add": Op.ADD, "prod": Op.MUL, "multiply": Op.MUL,
             "amax": Op.MAX, "amin": Op.MIN}  # fmt: skip


class Gathering(Reduce):
    """Gather and scatter on top of reductions."""

    __slots__ = ()

    def _check_index(self, name: str, axis: int, index: Self) -> Self:
        """`index` as one whose places are looked at (CHECK_INDEX)."""
        if not index.dtype.is_int:
            raise DTypeError(f"[{name}] the index is {index.dtype.name}, not an integer")
        check_index(name, self.shape, index.shape, axis)
        check_device(name, self, index)
        size = self.shape[axis] if self.ndim else 1
        return index._result(check_places(name, index, axis, size))

    def _pick(self, axis: int, places: Self, along: bool = False) -> Self:
        """The elements at `places` of one axis, 0 outside of it; which nobody checks."""
        arg = GatherArg(axis, along)
        return self._result(Node(Op.GATHER, self.dtype, (self.node, places.node), arg))

    def _pick_checked(self, name: str, axis: int, places: Self) -> Self:
        """The same for places that are looked at (CHECK_INDEX), none of them negative."""
        checked = check_places(name, places, axis, self.shape[axis])
        return self._pick(axis, places._result(checked))

    def _put(self, axis: int, places: Self, values: Self, op: Op | None = None) -> Self:
        """A copy with `values` at (or combined into) `places` of one axis; dropped outside."""
        return self._scattered(places, values, ScatterArg(axis, op))

    def _combines_in(self, op: Op | None) -> DType:
        """Half types add up and multiply in float32, as they do in a sum."""
        combines = self.dtype.is_float and op in (Op.ADD, Op.MUL)
        return sum_acc_dtype(self.dtype) if combines else self.dtype

    def _scattered(self, places: Self, values: Self, arg: ScatterArg) -> Self:
        wide = self._combines_in(arg.op)
        nodes = (self._as(wide).node, places.node, values._as(wide).node)
        return self._result(Node(Op.SCATTER, wide, nodes, arg), values)._as(self.dtype)

    def gather(self, dim: int, index: Self) -> Self:
        """Along one axis, the elements at the integers `index`; the result has its shape, and this
        dtype.

        `index` has as many axes, none longer than this tensor's but for `dim`. A scalar counts as a
        vector of one element. Raises ShapeError, IndexOutOfRange, and DTypeError for an index of
        floats.
        """
        axis = resolve_axis("gather", dim, self.ndim)
        if self.ndim + index.ndim < 2:
            return self.reshape((-1,)).gather(0, index.reshape((-1,))).reshape(index.shape)
        return self._gathered(axis, self._check_index("gather", axis, index))

    def _gather(self, dim: int, index: Self) -> Self:
        """`gather` for places that are in range."""
        if not self.ndim:
            return self
        return self._gathered(resolve_axis("gather", dim, self.ndim), index)

    def _gathered(self, axis: int, index: Self) -> Self:
        lines = self.shrink_to(
            tuple(n if at == axis else m for at, (n, m) in enumerate(self._beside(index)))
        )
        arg = GatherArg(axis, along=True)
        return self._result(Node(Op.GATHER, self.dtype, (lines.node, index.node), arg))

    def scatter(self, dim: int, index: Self, src: Operand, reduce: str | None = None) -> Self:
        """A copy with `src` written to the integers `index` along one axis; the last of equals
        stays.

        Shape and dtype stay. `index` and `src` have as many axes, the index none longer than either
        but for `dim`; `src` has this dtype, or is a scalar. `reduce` "add" or "multiply" combines
        instead. Raises ShapeError, IndexOutOfRange, and DTypeError for an index of floats, a source
        of another dtype or another `reduce`.
        """
        if reduce not in (None, "add", "multiply"):
            raise DTypeError(f'[scatter] reduce is None, "add" or "multiply", not {reduce!r}')
        src = self._scatter_source("scatter", index, src)
        op = None if reduce is None else _REDUCERS[reduce]
        return self._scatter("scatter", dim, index, src, op)

    def _scatter_source(self, name: str, index: Self, src: Operand) -> Self:
        src = self._operand(name, src)
        if is_scalar(src):
            return self._filled(src).expand(index.shape)
        if src.dtype is not self.dtype:
            raise DTypeError(
                f"[{name}] the source is {src.dtype.name}, the tensor {self.dtype.name}"
            )
        if src.ndim != index.ndim or any(
            a > b for a, b in zip(index.shape, src.shape, strict=True)
        ):
            table = aligned([index.shape, src.shape], [(), ()], right=False)
            raise ShapeError(
                f"[{name}] a source of shape {src.shape} is too small for an index of "
                f"{index.shape}\n{table}\n"
                "it needs as many axes, none shorter; a number will do, too"
            )
        return src.shrink_to(index.shape)

    def _scatter(self, name: str, dim: int, index: Self, src: Self, op: Op | None) -> Self:
        axis = resolve_axis(name, dim, self.ndim)
        index = self._check_index(name, axis, index)
        if not self.ndim:
            line, places = self.reshape((1,)), index.reshape((1,))
            return line._scatter_at(0, places, src.reshape((1,)), op).reshape(())
        return self._scatter_at(axis, index, src, op)

    def _scatter_at(self, axis: int, index: Self, src: Self, op: Op | None = None) -> Self:
        """`_scatter` for places that are in range, or meant to be dropped."""
        lines = tuple(m if at == axis else n for at, (n, m) in enumerate(self._beside(index)))
        if lines != index.shape:  # places outside are dropped: those beside the index are -1
            wide = index if index.dtype.itemsize >= 4 else index.cast(dtypes.int32)
            index, src = wide.add(1).pad_to(lines).sub(1), src.pad_to(lines)
        return self._scattered(index, src, ScatterArg(axis, op, along=True))

    def _beside(self, index: Self) -> zip[tuple[Extent, Extent]]:
        """The sizes of this tensor, each with that of `index` on the same axis."""
        return zip(self.shape, index.shape, strict=True)

    def scatter_reduce(
        self, dim: int, index: Self, src: Operand, reduce: str, include_self: bool = True
    ) -> Self:
        """A copy with `src` combined into the integers `index` along one axis.

        Shape and dtype stay. `index` and `src` have as many axes, the index none longer than either
        but for `dim`; `src` has this dtype, or is a scalar. `reduce` is "sum", "prod", "mean",
        "amax" or "amin". `include_self` false: places that are written start from nothing.

        >>> from treadle import Tensor
        >>> x, places = Tensor([1, 2, 3]), Tensor([0, 0, 2])
        >>> x.scatter_reduce(0, places, Tensor([5, 7, 9]), "sum").tolist()
        [13, 2, 12]

        Raises ShapeError, IndexOutOfRange, and DTypeError for an index of floats, a source of
        another dtype or another `reduce`.
        """
        if reduce not in ("mean", *_REDUCERS):
            known = ", ".join(["mean", *_REDUCERS])
            raise DTypeError(f"[scatter_reduce] reduce {reduce!r} is not one of {known}")
        name = "scatter_reduce"
        src = self._scatter_source(name, index, src)
        op = _REDUCERS.get(reduce, Op.ADD)
        wide = self._as(self._combines_in(op)) if reduce == "mean" else self
        base = wide if include_self else wide._emptied(dim, index, op)
        total = base._scatter(name, dim, index, src._as(wide.dtype), op)
        if reduce != "mean":
            return total
        ones = wide._filled(1).expand(index.shape)
        start = wide._filled(1 if include_self else 0).expand(self.shape)
        count = start._scatter(name, dim, index, ones, Op.ADD).maximum(1)
        mean = total.div(count, rounding_mode=None if self.dtype.is_float else "floor")
        return mean._as(self.dtype)

    def _emptied(self, dim: int, index: Self, op: Op) -> Self:
        """A copy with the neutral element of `op` at `index`."""
        neutral = {Op.ADD: 0, Op.MUL: 1, Op.MAX: self.dtype.min, Op.MIN: self.dtype.max}[op]
        filling = self._filled(neutral).expand(index.shape)
        return self._scatter("scatter_reduce", dim, index, filling, None)

    def one_hot(self, num_classes: int = -1) -> Self:
        """Each integer as a row of int32 zeros with a 1 at its place, on a new last axis.

        (..) gives (.., num_classes); -1 takes the largest value + 1, which computes this tensor
        now. Raises DTypeError for what are no integers, ShapeError for another number below 0.
        """
        if not self.dtype.is_int:
            raise DTypeError(f"[one_hot] needs integers, not {self.dtype.name}")
        if num_classes < -1:
            raise ShapeError(f"[one_hot] num_classes is at least 0, or -1, not {num_classes}")
        count = int(self.max().add(1).item()) if num_classes == -1 else num_classes
        column = self.unsqueeze(-1)
        wide = column.expand((*self.shape, count))
        return column.eq(wide._places(self.ndim)).cast(dtypes.default_int)
