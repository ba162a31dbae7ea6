"""Arithmetic with names of its own: divisors, parts of floats, minima without NaN.

Tensor([12, 18]).gcd(8)                  -> [4, 2]
Tensor([6.0]).frexp()                    -> 0.75 and 3: 0.75 * 2 ** 3
x.addcmul(a, b, value=2)                 -> x + 2 a b, one kernel
"""

from __future__ import annotations

from typing import Self

from ...dtype import DType, dtypes, promoted
from ...errors import DTypeError
from ..basis import Basis
from ..basis.formulas import INTEGERS
from ..operands import Operand

__all__ = ["Arithmetic"]

_UNSIGNED = {8: dtypes.uint8, 16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}
_MANTISSAS = {dtypes.float16: 10, dtypes.bfloat16: 7, dtypes.float32: 23, dtypes.float64: 52}


class Arithmetic(Basis):
    """Elementwise arithmetic in several operands."""

    __slots__ = ()

    # -- of two elements ----------------------------------------------------------------------

    def float_power(self, exponent: Operand) -> Self:
        """self ** exponent, elementwise, computed in float64 (complex128 for complex numbers).

        Shapes broadcast. Raises ShapeError.
        """
        power = self._as_tensor("float_power", exponent)
        is_complex = self.dtype.is_complex or power.dtype.is_complex
        wide = dtypes.complex128 if is_complex else dtypes.float64
        return self.cast(wide).pow(power.cast(wide))

    def fmax(self, other: Operand) -> Self:
        """The larger of two elements; a NaN gives way to a number, unlike in `maximum`.

        Shapes broadcast, dtypes promote. Raises ShapeError, and DTypeError for complex numbers.
        """
        other = self._as_tensor("fmax", other)
        return self.ge(other).bitwise_or(other.ne(other)).where(self, other)

    def fmin(self, other: Operand) -> Self:
        """The smaller of two elements; a NaN gives way to a number, unlike in `minimum`.

        Shapes broadcast, dtypes promote. Raises ShapeError, and DTypeError for complex numbers.
        """
        other = self._as_tensor("fmin", other)
        return self.le(other).bitwise_or(other.ne(other)).where(self, other)

    def gcd(self, other: Operand) -> Self:
        """The greatest common divisor of integers, elementwise, at least 0; of 0 and 0 it is 0.

        Shapes broadcast, dtypes promote. Euclid's algorithm with the remainder that is nearest to
        0, in as many steps as the type has Pell numbers: the least divisors that need so many (5
        needs three, since 12 % 5 is 2, and 5 % 2 is 1). Raises ShapeError, and DTypeError for what
        are no integers.
        """
        dtype, a, b = self._divided("gcd", other)
        for _ in range((a.dtype.bits + 1) * 4 // 5):
            done = b.eq(0)
            divisor = done.where(1, b)
            rest = a.mod(divisor)
            a, b = done.where(a, b), rest.minimum(divisor.sub(rest))
        return a.cast(dtype)

    def lcm(self, other: Operand) -> Self:
        """The least common multiple of integers, elementwise, at least 0; with 0 it is 0.

        Shapes broadcast, dtypes promote. Raises ShapeError, and DTypeError for what are no
        integers.
        """
        dtype, a, b = self._divided("lcm", other)
        divisor = a.gcd(b)
        return a.floor_divide(divisor.eq(0).where(1, divisor)).mul(b).cast(dtype)

    def _divided(self, name: str, other: Operand) -> tuple[DType, Self, Self]:
        """The dtype of two tensors of integers, and their magnitudes without a sign: that of the
        smallest integer has no place beside one.
        """
        other = self._as_tensor(name, other)
        if not (self.dtype.is_int and other.dtype.is_int):
            raise DTypeError(
                f"[{name}] takes integers, not {self.dtype.name} and {other.dtype.name}"
            )
        dtype = promoted(self.dtype, other.dtype)
        unsigned = _UNSIGNED[dtype.bits]
        a, b = (x.cast(dtype).abs().cast(unsigned) for x in (self, other))
        return dtype, a, b

    def xlog1py(self, other: Operand) -> Self:
        """self * log1p(other), elementwise, and 0 where `self` is 0 (NaN if `other` is).

        Shapes broadcast, dtypes promote, integers give floats. Raises ShapeError.
        """
        other = self._as_tensor("xlog1py", other)
        nothing = self.eq(0).bitwise_and(other.isnan().logical_not())
        return nothing.where(0.0, self.mul(nothing.where(1.0, other).log1p()))

    def frexp(self) -> tuple[Self, Self]:
        """Fractions from 0.5 to 1 and powers of 2, as int32: fraction * 2 ** power is the element.

        Both in this shape, fractions in this dtype. 0, infinities and NaN have the power 0. Raises
        DTypeError for what are no floats.
        """
        if self.dtype not in _MANTISSAS:
            raise DTypeError(f"[frexp] takes floats of 16 bits or more, not {self.dtype.name}")
        digits, x = _MANTISSAS[self.dtype], self.detach()
        bias = (1 << (self.dtype.bits - digits - 2)) - 1
        tiny = x.abs().lt(2.0 ** (1 - bias))
        bits = tiny.where(x.mul(2.0 ** (digits + 1)), x)._raw_bits()
        field = bits.rshift(digits).bitwise_and(2 * bias + 1)
        power = field.sub(bias - 1).sub(tiny.where(digits + 1, 0).cast(bits.dtype))
        power = x.eq(0).bitwise_or(x.isfinite().logical_not()).where(0, power)
        # in two factors, each of which is a normal number
        half = power.floor_divide(2)
        fraction = self
        for part in (half, power.sub(half)):
            scale = part.neg().add(bias).lshift(digits)
            fraction = fraction.mul(scale._result(scale.node.bitcast(self.dtype)))
        return fraction, power.cast(dtypes.int32)

    def _raw_bits(self) -> Self:
        return self._result(self.node.bitcast(INTEGERS[self.dtype.bits]))

    def equal(self, other: Operand) -> bool:
        """Whether both have one shape and equal elements: a Python bool, computed now."""
        other = self._as_tensor("equal", other)
        return self.shape == other.shape and bool(self.eq(other).all().item())

    # -- of three tensors ---------------------------------------------------------------------

    def addcmul(self, tensor1: Operand, tensor2: Operand, value: Operand = 1) -> Self:
        """self + value * tensor1 * tensor2, elementwise; shapes broadcast, dtypes promote.

        A fraction as `value` makes floats of integers, which bools are here: int32. Raises
        ShapeError.
        """
        return self.add(self._as_tensor("addcmul", tensor1).mul(tensor2).mul(value))

    def addcdiv(self, tensor1: Operand, tensor2: Operand, value: Operand = 1) -> Self:
        """self + value * tensor1 / tensor2, elementwise; shapes broadcast, dtypes promote, integers
        give floats.

        Raises ShapeError.
        """
        return self.add(self._as_tensor("addcdiv", tensor1).div(tensor2).mul(value))
