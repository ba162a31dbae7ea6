"""Reductions and scans: many elements to one, and running totals.

Tensor([1, 2]).sum()          -> int32; uint8 sums as uint32, float16 in float32
x.mean((-1, -2), keepdim=True), x.softmax(-1), x.cumsum(0)
"""

from __future__ import annotations

import math
from typing import Self, TypeVar

from ...dtype import DType, dtypes, sum_acc_dtype, to_dtype
from ...errors import DTypeError, ShapeError
from ...explained import explained
from ...ir.args import ReduceArg
from ...ir.builders import scan
from ...ir.node import Node
from ...ir.op import Op
from ...ir.shape import same_size, size_product
from ..keys import place_of_extreme
from ..operands import Operand
from ..shapes import broadcast_shapes, expand, reshape, resolve_axes, resolve_axis
from ..types import Axes, DTypeLike, Extent
from .joining import Joining
from .mathematics import Mathematics

__all__ = ["Reduce"]

T = TypeVar("T", bound="Reduce")


class Reduce(Joining, Mathematics):
    """Reductions and scans along axes."""

    __slots__ = ()

    def _reduce(self, op: Op, name: str, axis: Axes, keepdim: bool, is_wide: bool = False) -> Self:
        axes = resolve_axes(name, axis, self.ndim)
        self._check_op(op)
        if not axes:
            return self._again()
        empty = any(same_size(self.shape[a], 0) for a in axes)
        if empty and op in (Op.MAX, Op.MIN):
            raise ShapeError(f"[{name}] shape {self.shape} has no elements on the reduced axes")
        node = Node(Op.REDUCE, self.dtype, (self.node,), ReduceArg(op, axes, is_wide))
        if not keepdim:
            node = reshape(node, tuple(n for i, n in enumerate(node.shape) if i not in axes))
        return self._result(node)

    def sum(self, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The sum over `axis`, one, several or all (None).

        The axes vanish, or stay with size 1 for `keepdim`. Integers give at least int32 or uint32,
        bools int32; half types add in float32 and give their own. `dtype` converts first. Raises
        IndexOutOfRange.
        """
        wide = sum_acc_dtype(self.dtype) if dtype is None else to_dtype(dtype)
        total = self._as(wide)._reduce(Op.ADD, "sum", axis, keepdim)
        return total._as(self.dtype) if dtype is None and self.dtype.is_float else total

    def prod(
        self, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None
    ) -> Self:
        """The product over `axis`, one, several or all (None).

        The axes vanish, or stay with size 1 for `keepdim`. Integers give at least int32 or uint32,
        as in `sum`, and wrap, bools int32; `dtype` converts first. Raises IndexOutOfRange.
        """
        kind = _product_dtype(self.dtype) if dtype is None else to_dtype(dtype)
        x = self.cast(sum_acc_dtype(kind) if kind.is_float else kind)
        if x.dtype.is_complex:
            return _complex_product(x, resolve_axes("prod", axis, x.ndim), keepdim)
        return x._reduce(Op.MUL, "prod", axis, keepdim).cast(kind)

    def max(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The largest element over `axis`, one, several or all (None), in its dtype; NaN if there
        is one.

        The axes vanish, or stay with size 1 for `keepdim`. Raises ShapeError on no elements,
        IndexOutOfRange, and DTypeError for complex numbers.
        """
        return self._reduce(Op.MAX, "max", axis, keepdim)

    def min(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The smallest element over `axis`, one, several or all (None), in its dtype; NaN if there
        is one.

        The axes vanish, or stay with size 1 for `keepdim`. Raises ShapeError on no elements,
        IndexOutOfRange, and DTypeError for complex numbers.
        """
        return self._reduce(Op.MIN, "min", axis, keepdim)

    def any(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Whether some element is not 0, as bool.

        `axis`: one, several, or None for all; they vanish, or stay with size 1 for `keepdim`.
        Raises IndexOutOfRange.
        """
        return self.bool()._reduce(Op.ADD, "any", axis, keepdim)

    def all(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """Whether no element is 0, as bool.

        `axis`: one, several, or None for all; they vanish, or stay with size 1 for `keepdim`.
        Raises IndexOutOfRange.
        """
        return self.bool()._reduce(Op.MUL, "all", axis, keepdim)

    def _count(self, axis: Axes) -> Extent:
        return size_product(self.shape[a] for a in resolve_axes("mean", axis, self.ndim))

    def mean(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """The average over `axis`, one, several or all (None); integers give floats.

        The axes vanish, or stay with size 1 for `keepdim`. Half types add in float32 and give their
        own; complex numbers stay. Raises IndexOutOfRange.
        """
        out = self._float().dtype
        wide = self.cast(sum_acc_dtype(out))
        total = wide._reduce(Op.ADD, "mean", axis, keepdim)
        return _over(total, self._count(axis)).cast(out)

    def var(self, axis: Axes = None, keepdim: bool = False, correction: float = 1) -> Self:
        """The variance over `axis`, divided by count - `correction`, such that nothing cancels.

        One axis, several or all (None), which vanish, or stay with size 1 for `keepdim`. Integers
        give floats; of complex numbers that of the real parts plus that of the others, real. Raises
        IndexOutOfRange.
        """
        if self.dtype.is_complex:
            parts = [part.var(axis, keepdim, correction) for part in (self.real, self.imag)]
            return parts[0].add(parts[1])
        resolve_axes("var", axis, self.ndim)
        x = self._float()
        wide, count = x.cast(sum_acc_dtype(x.dtype)), self._count(axis)
        is_wide = x.dtype is dtypes.float32
        mean = _over(wide._reduce(Op.ADD, "var", axis, True, is_wide), count)
        total = wide.sub(mean).square()._reduce(Op.ADD, "var", axis, keepdim, is_wide)
        free = max(count - correction, 0) if isinstance(count, int) else count - correction
        return _over(total, free).cast(x.dtype)

    def var_mean(
        self, axis: Axes = None, keepdim: bool = False, correction: float = 1
    ) -> tuple[Self, Self]:
        """The variance and the mean over `axis`, as `var` and `mean` give them; integers give
        floats.

        Of complex numbers the first is real. Raises IndexOutOfRange.
        """
        return self.var(axis, keepdim, correction), self.mean(axis, keepdim)

    def std(self, axis: Axes = None, keepdim: bool = False, correction: float = 1) -> Self:
        """The standard deviation over `axis`, the root of `var`, in its shapes; integers give
        floats, complex numbers real.

        Where all elements are equal the gradient is 0, as in PyTorch. Raises IndexOutOfRange.
        """
        resolve_axes("std", axis, self.ndim)
        x = self._float()
        wide = x.cast(sum_acc_dtype(x.dtype))  # a half's variance may be too large for a half
        found = wide.var(axis, keepdim, correction)
        flat = found.eq(0)
        return flat.where(0.0, flat.where(1.0, found).sqrt()).cast(x.dtype.real)

    def std_mean(
        self, axis: Axes = None, keepdim: bool = False, correction: float = 1
    ) -> tuple[Self, Self]:
        """The standard deviation and the mean over `axis`, as `std` and `mean` give them; integers
        give floats.

        Of complex numbers the first is real. Raises IndexOutOfRange.
        """
        return self.std(axis, keepdim, correction), self.mean(axis, keepdim)

    # -- softmax ------------------------------------------------------------------------------

    def _shifted(self, name: str, axis: Axes, dtype: DTypeLike | None) -> tuple[Self, DType]:
        """self less its maximum along `axis`, and the type of the result, which is rounded once."""
        resolve_axes(name, axis, self.ndim)
        x = self._float() if dtype is None else self.cast(dtype)
        wide = x.cast(sum_acc_dtype(x.dtype))
        return wide.sub(wide.detach().max(axis, keepdim=True)), x.dtype

    def softmax(self, axis: Axes = -1, dtype: DTypeLike | None = None) -> Self:
        """exp(x) / sum(exp(x)) along an axis, or several, without overflow, in this shape.

        Integers give floats, `dtype` converts first; half types compute in float32. Raises
        IndexOutOfRange, and DTypeError for complex numbers.
        """
        if 0 in self.shape:
            return self._float() if dtype is None else self.cast(dtype)
        shifted, out = self._shifted("softmax", axis, dtype)
        exps = shifted.exp()
        return exps.div(exps.sum(axis, keepdim=True)).cast(out)

    def log_softmax(self, axis: Axes = -1, dtype: DTypeLike | None = None) -> Self:
        """The logarithm of `softmax`, without overflow, in this shape.

        Integers give floats, `dtype` converts first; half types compute in float32. Raises
        IndexOutOfRange, and DTypeError for complex numbers.
        """
        if 0 in self.shape:
            return self._float() if dtype is None else self.cast(dtype)
        shifted, out = self._shifted("log_softmax", axis, dtype)
        return shifted.sub(shifted.exp().sum(axis, keepdim=True).log()).cast(out)

    def logsumexp(self, axis: Axes = None, keepdim: bool = False) -> Self:
        """log(sum(exp(x))) over `axis`, one, several or all (None), without overflow; integers give
        floats.

        The axes vanish, or stay with size 1 for `keepdim`; half types compute in float32. Raises
        IndexOutOfRange.
        """
        axes = resolve_axes("logsumexp", axis, self.ndim)
        x = self._float()
        wide = x.cast(sum_acc_dtype(x.dtype))
        if any(same_size(x.shape[a], 0) for a in axes):
            return wide.exp().sum(axis, keepdim).log().cast(x.dtype)
        sizes = wide._unary(Op.REAL) if wide.dtype.is_complex else wide  # of exponentials
        top = sizes.detach().max(axis, keepdim=True)
        top = top.isinf().where(0.0, top)
        total = wide.sub(top).exp().sum(axis, keepdim=True).log().add(top).cast(x.dtype)
        if keepdim or not self.ndim:
            return total
        return total.reshape([n for i, n in enumerate(total.shape) if i not in axes])

    # -- places -------------------------------------------------------------------------------

    def argmax(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """Where the largest element is along an axis, which vanishes, or stays with size 1 for
        `keepdim`.

        None: in the flat tensor. The first of equals, a NaN before all; int32, or int64 where there
        are more than 2 ** 31 elements. Raises IndexOutOfRange, and DTypeError for complex numbers.
        """
        return self._arg_extreme(Op.MAX, "argmax", axis, keepdim)

    def argmin(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """Where the smallest element is along an axis, which vanishes, or stays with size 1 for
        `keepdim`.

        None: in the flat tensor. The first of equals, a NaN before all; int32, or int64 where there
        are more than 2 ** 31 elements. Raises IndexOutOfRange, and DTypeError for complex numbers.
        """
        return self._arg_extreme(Op.MIN, "argmin", axis, keepdim)

    def _arg_extreme(self, op: Op, name: str, axis: int | None, keepdim: bool) -> Self:
        if axis is None:
            flat = self.flatten()._arg_extreme(op, name, 0, False)
            return flat.reshape((1,) * self.ndim) if keepdim else flat
        at = resolve_axis(name, axis, self.ndim)
        if not self.ndim:
            return self._filled(0).cast(dtypes.int32)
        self._check_op(op)
        if same_size(self.shape[at], 0):
            raise ShapeError(f"[{name}] shape {self.shape} has no elements on the reduced axes")
        node = place_of_extreme(self.node, op, at)
        short = tuple(n for i, n in enumerate(node.shape) if i != at)
        return self._result(node if keepdim else reshape(node, short))

    def _places(self, axis: int, dtype: DType = dtypes.int32) -> Self:
        """0, 1, ... along one axis, expanded to this shape."""
        size = self.shape[axis]
        column = tuple(size if i == axis else 1 for i in range(self.ndim))
        iota = Node(Op.IOTA, dtype, (), size)
        return type(self)._of(expand(reshape(iota, column), self.shape), self.device)

    def _range(self, count: Extent, dtype: DType = dtypes.int32) -> Self:
        """0, 1, ... as a vector on this tensor's device."""
        counted = dtype if dtype.is_int and dtype.bits >= 32 else dtypes.int32
        return type(self)._of(Node(Op.IOTA, counted, (), count).cast(dtype), self.device)

    # -- scans --------------------------------------------------------------------------------

    def _scan(self, op: Op, name: str, axis: int, *factor: Self) -> Self:
        at = resolve_axis(name, axis, self.ndim)
        self._check_op(op)
        if any(isinstance(size, Node) for size in self.shape):
            raise ShapeError(
                f"[{name}] needs sizes that are known, not {self.shape}: pad to the largest size, "
                "or call it for each"
            )
        if not self.ndim or not self.numel():
            return self._again()
        node = scan(self.node, op, at, *(each.node for each in factor))
        return self._result(node, *factor)

    def cumsum(self, axis: int = 0) -> Self:
        """Running sums along an axis, in this shape and in the dtypes of `sum`: integers as int32,
        uint32 at least.

        Raises IndexOutOfRange.
        """
        total = self.cast(sum_acc_dtype(self.dtype))._scan(Op.ADD, "cumsum", axis)
        return total.cast(self.dtype) if self.dtype.is_float else total

    def cumprod(self, axis: int) -> Self:
        """Running products along an axis, in this shape.

        Integers give at least int32 or uint32, bools int32, as in `cumsum`. Raises IndexOutOfRange.
        """
        if self.dtype.is_complex:
            return _complex_products(self, resolve_axis("cumprod", axis, self.ndim))
        return self.cast(_product_dtype(self.dtype))._scan(Op.MUL, "cumprod", axis)

    def cummax(self, axis: int = 0) -> tuple[Self, Self]:
        """Running maxima along an axis, in this shape and dtype, and where each is, as int32.

        The last of equals; from a NaN on they are NaN, at the last one's place. Raises
        IndexOutOfRange, and DTypeError for complex numbers.
        """
        return self._running_extreme(Op.MAX, "cummax", axis)

    def cummin(self, axis: int = 0) -> tuple[Self, Self]:
        """Running minima along an axis, in this shape and dtype, and where each is, as int32.

        The last of equals; from a NaN on they are NaN, at the last one's place. Raises
        IndexOutOfRange, and DTypeError for complex numbers.
        """
        return self._running_extreme(Op.MIN, "cummin", axis)

    def _running_extreme(self, op: Op, name: str, axis: int) -> tuple[Self, Self]:
        values = self._scan(op, name, axis)
        if not self.ndim:
            return values, self._filled(0).cast(dtypes.int32)
        at = resolve_axis(name, axis, self.ndim)
        is_there = self.eq(self.detach()._scan(op, name, axis))
        if self.dtype.is_float:
            is_there = is_there.bitwise_or(self.isnan())
        return values, is_there.where(self._places(at), 0)._scan(Op.MAX, name, at)

    def linear_recurrence(self, factor: Operand, axis: int = 0) -> Self:
        """`y[i] = factor[i] * y[i - 1] + x[i]` along an axis, from `y[-1] = 0`, where x is this
        tensor.

        Moving averages, filters and layers of linear states are such. The shapes broadcast. The
        dtypes promote, integers to floats; half types are computed in float32. Memory is linear in
        the elements, with gradients too. Raises ShapeError, IndexOutOfRange, and DTypeError for
        complex numbers.
        """
        name = "linear_recurrence"
        factor = self._as_tensor(name, factor)
        for part in (self, factor):
            part._check_real(name)
        shape = broadcast_shapes(name, self.shape, factor.shape)
        terms, factors = self._wide_pair(name, factor)
        result = terms.expand(shape)._scan(Op.ADD, name, axis, factors.expand(shape))
        return result.cast(self._common_float(factor))

    def logcumsumexp(self, axis: int = 0) -> Self:
        """log of the running sums of exp(x) along an axis, without overflow; in this shape, as
        floats.

        Sums are of what exponentials are beside the largest one so far. Raises IndexOutOfRange, and
        DTypeError for complex numbers.
        """
        name, x = "logcumsumexp", self._wide()
        at = resolve_axis(name, axis, self.ndim)
        if not self.ndim:
            return self._float()
        largest = x.detach()._scan(Op.MAX, name, at)
        ends = [(1 if i == at else 0, 0) for i in range(self.ndim)]
        before = largest._padded(ends, -math.inf).shrink([(0, n) for n in self.shape])
        level = largest.isfinite().where(largest, 0)
        grown = level.sub(before.isfinite().where(before, 0)).neg().exp()
        # Stored, as a recurrence goes step by step along rows, and exponentials go in vectors.
        terms = x.sub(level).exp().contiguous()
        factors = before.eq(-math.inf).where(0, grown).contiguous()
        total = terms.linear_recurrence(factors, at)
        logs = total.eq(0).where(1, total).log().add(level)
        return total.eq(0).where(-math.inf, logs).cast(self._float().dtype)

    def triu(self, diagonal: int = 0) -> Self:
        """The last two axes' upper triangle, from a diagonal on; 0 elsewhere; shape and dtype stay.

        Raises ShapeError for less than two axes.
        """
        return self._triangle("triu", diagonal).where(self, self._filled(0))

    def tril(self, diagonal: int = 0) -> Self:
        """The last two axes' lower triangle, up to a diagonal; 0 elsewhere; shape and dtype stay.

        Raises ShapeError for less than two axes.
        """
        return self._triangle("tril", diagonal, 1).where(self._filled(0), self)

    def _triangle(self, name: str, diagonal: int, above: int = 0) -> Self:
        """Where column >= row + diagonal + above."""
        if self.ndim < 2:
            raise ShapeError(f"[{name}] needs at least two axes, shape {self.shape} has less")
        if not hasattr(diagonal, "__index__"):
            raise ShapeError(f"[{name}] diagonal is an integer, not {diagonal!r}")
        return self._places(self.ndim - 1).ge(self._places(self.ndim - 2).add(diagonal + above))

    @explained
    def masked_fill(self, mask: Self, value: Operand) -> Self:
        """`value` where `mask` is true, else the element; all broadcast, dtypes promote.

        A float as `value` makes floats of integers. Raises ShapeError, and DTypeError if the mask
        is not bool.
        """
        if not mask.dtype.is_bool:
            raise DTypeError(f"[masked_fill] the mask is {mask.dtype.name}, not bool")
        broadcast_shapes("masked_fill", self.shape, mask.shape)
        return mask.where(value, self)


def _product_dtype(dtype: DType) -> DType:
    return dtype if dtype.is_inexact else sum_acc_dtype(dtype)


def _over(total: T, count: float | Node) -> T:
    if isinstance(count, Node):
        return total.div(type(total)._of(count.cast(total.dtype), total.device))
    return total.div(float(count))


def _complex_product(x: T, axes: tuple[int, ...], keepdim: bool) -> T:
    """Along all of `axes` at once, by halves."""
    rest = [i for i in range(x.ndim) if i not in axes]
    lead = [x.shape[i] for i in rest]
    line = x.permute((*rest, *axes)).reshape((*lead, math.prod(x.shape[i] for i in axes)))
    while (size := line.shape[-1]) != 1:  # halves of the line, and a 1 where one is odd
        line = _ones_behind(line, 1 if size == 0 else size % 2)
        half = line.shape[-1] // 2
        if half:
            line = line._slice(len(rest), 0, half).mul(line._slice(len(rest), half, 2 * half))
    kept = [1 if i in axes else n for i, n in enumerate(x.shape)]
    return line.reshape(kept if keepdim else lead)


def _ones_behind(line: T, count: int) -> T:
    """With ones at the end of the last axis."""
    if not count:
        return line
    return line.cat(line._filled(1).expand((*line.shape[:-1], count)), dim=line.ndim - 1)


def _complex_products(x: T, axis: int) -> T:
    """Running products, of 1, 2, 4, ... elements in turn."""
    line, step = x.transpose(axis, -1) if x.ndim else x, 1
    while x.ndim and step < line.shape[-1]:
        size = line.shape[-1]
        ones = line._filled(1).expand((*line.shape[:-1], step))
        before = ones.cat(line._slice(x.ndim - 1, 0, size - step), dim=x.ndim - 1)
        line, step = line.mul(before).contiguous(), 2 * step
    return line.transpose(axis, -1) if x.ndim else line
