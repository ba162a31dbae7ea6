"""Complex numbers: their parts, what makes them of reals, and reductions that differ for them.

    Tensor([3 + 4j]).abs()                     -> float32 [5.]
    Tensor.complex(Tensor([1.0]), 2.0)         -> complex64 [1.+2.j]
    z.real, z.imag, z.conj(), z.angle(), z.view_as_real()

Arithmetic, movements, sums and products of matrices are those of any tensor. What needs an order
(`<`, `max`, `sort`, ...) raises DTypeError. Gradients follow PyTorch: dL/dx + i dL/dy of a real L.
"""

from __future__ import annotations

import math
from typing import Self

from ..dtype import complex_of, dtypes, to_dtype
from ..errors import DTypeError, ShapeError
from ..ir.node import alu
from ..ir.op import Op
from ..ir.shape import Shape, same_size
from .operands import Operand, is_scalar, operands, scalar_node
from .shapes import resolve_axes, resolve_axis
from .special import Special
from .types import Axes, DTypeLike

__all__ = ["Complexes"]


class Complexes(Special):
    """Complex numbers on top of functions of real ones."""

    __slots__ = ()

    # -- parts --------------------------------------------------------------------------------

    @property
    def real(self) -> Self:
        """The real parts of elements, as floats in this shape; real numbers themselves."""
        return self._unary(Op.REAL) if self.dtype.is_complex else self

    @property
    def imag(self) -> Self:
        """The imaginary parts of elements, as floats in this shape.

        Raises DTypeError for real numbers, which have none.
        """
        if not self.dtype.is_complex:
            raise DTypeError(f"[imag] {self.dtype.name} numbers have no imaginary part")
        return self._unary(Op.IMAG)

    def conj(self) -> Self:
        """The complex conjugate of each element, in its dtype; real numbers themselves."""
        return self.real.complex(self.imag.neg()) if self.dtype.is_complex else self

    @property
    def H(self) -> Self:
        """The conjugate transpose of a matrix, (m, n) to (n, m), in its dtype.

        Raises ShapeError for another number of axes.
        """
        if self.ndim != 2:
            raise ShapeError(f"[H] takes a matrix, not shape {self.shape}; .mH has batches")
        return self.mH

    @property
    def mH(self) -> Self:
        """The conjugate transpose of the last two axes, in this dtype.

        Raises IndexOutOfRange for less.
        """
        return self.transpose(-1, -2).conj()

    def abs(self) -> Self:
        """The magnitude of each element, in its dtype; its slope at 0 is 0.

        Complex numbers give their length, as real ones.
        """
        if not self.dtype.is_complex:
            return super().abs()
        zero = self.eq(0)
        return zero.where(0.0, zero.where(1.0, self.real).hypot(self.imag))

    def angle(self) -> Self:
        """The angle of each element from the positive real axis, -pi to pi, as a float.

        0 or pi for real numbers.
        """
        if self.dtype.is_complex:
            return self.imag.atan2(self.real)
        x = self._float()
        return x.isnan().where(x, x.lt(0).where(math.pi, x._filled(0.0)))

    def sgn(self) -> Self:
        """Complex elements divided by their length, 0 where that is; the sign of real ones.

        Shape and dtype stay.
        """
        if not self.dtype.is_complex:
            return self.sign()
        size = self.abs()
        nothing = size.eq(0)
        return nothing.where(0.0, self.div(nothing.where(1.0, size)))

    def isreal(self) -> Self:
        """Where the imaginary part of elements is 0, as bool in this shape."""
        if self.dtype.is_complex:
            return self.imag.eq(0)
        return self._filled(1).bool().expand(self.shape)._again()

    def isinf(self, detect_positive: bool = True, detect_negative: bool = True) -> Self:
        """Where elements are +inf or -inf, as bool in this shape; of complex numbers, either part.

        `detect_positive` or `detect_negative` false leaves those out, which raises DTypeError for
        complex numbers.
        """
        if not self.dtype.is_complex:
            return super().isinf(detect_positive, detect_negative)
        if not (detect_positive and detect_negative):
            raise DTypeError(f"[isinf] infinities of {self.dtype.name} have no sign")
        return self.real.isinf().bitwise_or(self.imag.isinf())

    def nan_to_num(
        self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> Self:
        """Elements that are NaN or infinite replaced, the latter by the largest finite numbers; in
        each part.

        Shape and dtype stay; integers are themselves.
        """
        if not self.dtype.is_complex:
            return super().nan_to_num(nan, posinf, neginf)
        re, im = (part.nan_to_num(nan, posinf, neginf) for part in (self.real, self.imag))
        return re.complex(im)

    # -- making them --------------------------------------------------------------------------

    def complex(self, imag: Operand) -> Self:
        """self + i `imag`, of floats that broadcast: complex64, or complex128 of float64.

        Raises DTypeError for anything but floats, ShapeError.
        """
        imag = self._float_operand("complex", imag)
        a, b = operands("complex", self, imag)
        kind = complex_of(a.dtype).real
        return self._result(alu(Op.COMPLEX, a.cast(kind), b.cast(kind)), imag)

    def _float_operand(self, name: str, other: Operand) -> Self:
        """`other` as a tensor, a number in this tensor's type. Raises DTypeError unless floats."""
        other = self._operand(name, other)
        if is_scalar(other):
            other = type(self)._of(scalar_node(name, other, self.dtype), self.device)
        for tensor in (self, other):
            if not tensor.dtype.is_float:
                raise DTypeError(f"[{name}] takes floats, not {tensor.dtype.name}; cast them first")
        return other

    def polar(self, angle: Operand) -> Self:
        """The complex numbers of lengths self and angles `angle`, floats that broadcast.

        complex64, or complex128 of float64. Raises ShapeError, and DTypeError for anything but
        floats.
        """
        angle = self._float_operand("polar", angle)
        return self.mul(angle.cos()).complex(self.mul(angle.sin()))

    def view_as_real(self) -> Self:
        """The parts of complex numbers on a new last axis: (..) to (.., 2), floats.

        float32 of complex64, float64 of complex128. Raises DTypeError for real numbers.
        """
        if not self.dtype.is_complex:
            raise DTypeError(f"[view_as_real] takes complex numbers, not {self.dtype.name}")
        return self.real.stack(self.imag, dim=-1)

    def view_as_complex(self) -> Self:
        """Complex numbers whose parts are on the last axis: (.., 2) floats to (..).

        complex64, or complex128 of float64. Raises ShapeError for another size, DTypeError for
        anything but floats.
        """
        if not self.ndim or not same_size(self.shape[-1], 2):
            raise ShapeError(f"[view_as_complex] the last axis of {self.shape} is not of size 2")
        re, im = (self._slice(self.ndim - 1, i, i + 1).squeeze(-1) for i in range(2))
        return re.complex(im)

    def cfloat(self) -> Self:
        """Each element as complex64, real ones with the imaginary part 0."""
        return self.cast(dtypes.complex64)

    def cdouble(self) -> Self:
        """Each element as complex128, real ones with the imaginary part 0."""
        return self.cast(dtypes.complex128)

    # -- reductions ---------------------------------------------------------------------------

    def prod(
        self, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None
    ) -> Self:
        """The product over `axis`, one, several or all (None).

        The axes vanish, or stay with size 1 for `keepdim`. Integers give at least int32 or uint32,
        as in `sum`, and wrap, bools int32; `dtype` converts first. Raises IndexOutOfRange.
        """
        x = self if dtype is None else self.cast(to_dtype(dtype))
        if not x.dtype.is_complex:
            return super().prod(axis, keepdim, dtype)
        axes = resolve_axes("prod", axis, x.ndim)
        rest = [i for i in range(x.ndim) if i not in axes]
        lead = [x.shape[i] for i in rest]
        line = x.permute((*rest, *axes)).reshape((*lead, math.prod(x.shape[i] for i in axes)))
        while (size := line.shape[-1]) != 1:  # halves of the line, and a 1 where one is odd
            line = line._ones_behind(1 if size == 0 else size % 2)
            half = line.shape[-1] // 2
            if half:
                line = line._slice(len(rest), 0, half).mul(line._slice(len(rest), half, 2 * half))
        kept = [1 if i in axes else n for i, n in enumerate(x.shape)]
        return line.reshape(kept if keepdim else lead)

    def _ones_behind(self, count: int) -> Self:
        """With ones at the end of the last axis."""
        if not count:
            return self
        return self.cat(self._filled(1).expand((*self.shape[:-1], count)), dim=self.ndim - 1)

    def cumprod(self, axis: int) -> Self:
        """Running products along an axis, in this shape.

        Integers give at least int32 or uint32, bools int32, as in `cumsum`. Raises IndexOutOfRange.
        """
        if not self.dtype.is_complex:
            return super().cumprod(axis)
        at = resolve_axis("cumprod", axis, self.ndim)
        line, step = self.transpose(at, -1) if self.ndim else self, 1
        while self.ndim and step < line.shape[-1]:  # products of 1, 2, 4, ... elements
            size = line.shape[-1]
            ones = line._filled(1).expand((*line.shape[:-1], step))
            before = ones.cat(line._slice(self.ndim - 1, 0, size - step), dim=self.ndim - 1)
            line, step = line.mul(before).contiguous(), 2 * step
        return line.transpose(at, -1) if self.ndim else line

    def var(self, axis: Axes = None, keepdim: bool = False, correction: float = 1) -> Self:
        """The variance over `axis`, divided by count - `correction`; two passes, so that nothing
        cancels.

        One axis, several or all (None), which vanish, or stay with size 1 for `keepdim`. Integers
        give floats; of complex numbers that of the real parts plus that of the others, real. Raises
        IndexOutOfRange.
        """
        if not self.dtype.is_complex:
            return super().var(axis, keepdim, correction)
        parts = [part.var(axis, keepdim, correction) for part in (self.real, self.imag)]
        return parts[0].add(parts[1])

    def vdot(self, other: Operand) -> Self:
        """The sum of products of two vectors, self conjugated: a scalar; dtypes promote.

        Raises ShapeError.
        """
        other = self._operand("vdot", other)
        shape: Shape = () if is_scalar(other) else other.shape
        vectors = self.ndim == len(shape) == 1
        if not vectors or not same_size(self.shape[0], shape[0]):
            raise ShapeError(
                f"[vdot] takes two vectors of one length, not shapes {self.shape} and {shape}"
            )
        return self.vecdot(other)

    def vecdot(self, b: Operand, dim: int = -1) -> Self:
        """Sums of products along one axis, which vanishes, with self conjugated; the other axes
        broadcast.

        Dtypes promote. Raises ShapeError, IndexOutOfRange.
        """
        return super(Complexes, self.conj()).vecdot(b, dim)
