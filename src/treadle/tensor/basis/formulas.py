"""What formulas of functions are written with: wide floats, constants, parts of complex numbers.

x._wide()                    float16 -> float32: formulas lose too much in less
x._polynomial((2.0, 1.0))    2 x + 1, by Horner's rule
z.real, z.imag, x.complex(y)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from ...dtype import DType, complex_of, dtypes
from ...errors import DTypeError
from ...ir.node import Node, alu
from ...ir.op import Op
from ..operands import Operand, is_scalar, operands, scalar_node
from .elementwise import Elementwise

__all__ = ["INTEGERS", "Formulas"]

INTEGERS = {8: dtypes.int8, 16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}  # by bits


class Formulas(Elementwise):
    """Parts of numbers, and what is between arithmetic and functions."""

    __slots__ = ()

    def _float_unary(self, op: Op) -> Self:
        return self._float()._unary(op)

    def _wide_unary(self, op: Op) -> Self:
        """`op` whose slope would lose too much, or overflow, in less than 32 bits."""
        return self._wide()._unary(op).cast(self._float().dtype)

    def _wide(self) -> Self:
        """As floats of at least 32 bits, for formulas that would lose too much in less."""
        x = self._float()
        return x.cast(dtypes.float32) if x.dtype.bits < 32 else x

    def _common_float(self, other: Operand) -> DType:
        return self.add(other)._float().dtype

    def _wide_pair(self, name: str, other: Operand) -> tuple[Self, Self]:
        """Both as floats of one type of at least 32 bits, broadcast."""
        other = self._operand(name, other)
        wide = self.add(other)._wide().dtype
        return self._wide().cast(wide), self._as_tensor(name, other)._wide().cast(wide)

    def _magnitude(self) -> Self:
        """The absolute value with slope 1 at 0, where an odd function has a slope."""
        return self.lt(0).where(self.neg(), self)

    def _odd(self, size: Self) -> Self:
        """`size` with this tensor's sign, for odd functions of slope 1 at 0, where -0.0 stays."""
        return self.eq(0).where(self, self.lt(0).where(size.neg(), size))

    def _filled(self, value: complex) -> Self:
        """A constant of this tensor's dtype that broadcasts to it."""
        return type(self)._of(Node.const(self.dtype, value), self.device)

    def _polynomial(self, coefficients: Sequence[float]) -> Self:
        """Horner's rule, highest power first."""
        total = self.mul(coefficients[0]).add(coefficients[1])
        for coefficient in coefficients[2:]:
            total = total.mul(self).add(coefficient)
        return total

    def _chebyshev(self, coefficients: tuple[float, ...]) -> Self:
        """Clenshaw's rule, in float32 without the coefficients that its rounding hides."""
        if self.dtype is not dtypes.float64:
            least = 1e-9 * max(map(abs, coefficients))
            last = max(n for n, c in enumerate(coefficients) if abs(c) > least)
            coefficients = coefficients[: last + 1]
        twice = self.mul(2.0)
        now, before = twice.mul(0.0).add(coefficients[-1]), None
        for coefficient in reversed(coefficients[1:-1]):
            following = twice.mul(now).add(coefficient)
            now, before = following if before is None else following.sub(before), now
        result = self.mul(now).add(coefficients[0])
        return result if before is None else result.sub(before)

    def square(self) -> Self:
        """Each element times itself, in its own dtype."""
        return self.mul(self)

    def reciprocal(self) -> Self:
        """1 / x, elementwise: integers give floats."""
        return self._float_unary(Op.RECIP)

    def isnan(self) -> Self:
        """Where elements are NaN, as bool in this shape."""
        return self.ne(self)

    def signbit(self) -> Self:
        """Where an element is negative, -0.0 and NaN with a sign counted, as bool.

        Raises DTypeError for complex numbers.
        """
        if not self.dtype.is_float:
            return self.lt(0)
        return self._result(self.node.bitcast(INTEGERS[self.dtype.bits])).lt(0)

    # -- complex numbers ----------------------------------------------------------------------

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

    def cfloat(self) -> Self:
        """Each element as complex64, real ones with the imaginary part 0."""
        return self.cast(dtypes.complex64)

    def cdouble(self) -> Self:
        """Each element as complex128, real ones with the imaginary part 0."""
        return self.cast(dtypes.complex128)
