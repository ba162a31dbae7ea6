"""Powers, and the activation functions of neural networks.

Tensor([2, 3]) ** 2      -> int32 [4, 9]: integers stay integers
x.relu(), x.gelu(), ...  -> PyTorch's values, gradients at the corners included
"""

from __future__ import annotations

import math
from typing import Self

from ..dtype import least_upper_dtype
from ..errors import ArgumentError, DTypeError
from ..ir.op import Op
from .mathematics import Mathematics
from .operands import Operand, is_scalar
from .types import Scalar

__all__ = ["Power"]


class Power(Mathematics):
    """`pow` and activations on top of the functions."""

    __slots__ = ()

    def pow(self, x: Operand, reverse: bool = False) -> Self:
        """`self ** x`. Integers to an integer power stay integers and wrap.

        Raises DTypeError for a negative integer power of integers.
        """
        x = self._operand("pow", x)
        if reverse:
            return self._as_tensor("pow", x).pow(self) if not is_scalar(x) else self._power_of(x)
        if not is_scalar(x):
            return self._tensor_power(x)
        if isinstance(x, int) and not self.dtype.is_float:
            return self._integer_power(x)
        base = self._float()
        special = {2: base.square, 0.5: base._root, 1: lambda: base, -1: base.reciprocal}
        special[3] = lambda: base.square().mul(base)
        return special[x]() if x in special else base._binary(Op.POW, "pow", x)

    def _root(self) -> Self:
        """self ** 0.5, which is a square root but for -0.0 (0.0) and -inf (inf)."""
        root = self.eq(-math.inf).where(math.inf, self).sqrt()
        return root.eq(0).bitwise_and(self._has_sign_bit()).where(root.neg(), root)

    def _power_of(self, base: complex) -> Self:
        """`base ** self` for a Python scalar."""
        if isinstance(base, int) and not self.dtype.is_float:
            whole = self.mul(0).add(base) if not self.dtype.is_bool else self.int().mul(0).add(base)
            return whole._tensor_power(self)
        return self._float()._binary(Op.POW, "pow", base, reverse=True)

    def _tensor_power(self, x: Self) -> Self:
        kind = least_upper_dtype(self.dtype, x.dtype)
        return self._binary(Op.POW, "pow", x) if kind.is_float else self.cast(kind)._multiplied(x)

    def _integer_power(self, exponent: int) -> Self:
        if exponent < 0:
            raise DTypeError(
                f"[pow] an integer tensor to the negative power {exponent} is no integer; use "
                f".float() ** {exponent}"
            )
        square = self.int() if self.dtype.is_bool else self
        total = square.mul(0).add(1)
        while exponent:
            if exponent & 1:
                total = total.mul(square)
            exponent >>= 1
            square = square.square()
        return total

    def _multiplied(self, exponent: Self) -> Self:
        """Square and multiply, one step for each bit of the exponent; 0 for negative powers,
        other than those of 1 and -1.
        """
        base = self.int() if self.dtype.is_bool else self
        exponent = exponent.int() if exponent.dtype.is_bool else exponent
        negative, size = exponent.lt(0), exponent.abs()
        total, square = base.mul(0).add(1), base
        for bit in range(exponent.dtype.bits - (not exponent.dtype.is_unsigned)):
            chosen = size.rshift(bit).bitwise_and(1).ne(0)
            total = chosen.where(total.mul(square), total)
            square = square.square()
        unit = base.abs().eq(1)
        return negative.bitwise_and(unit.logical_not()).where(0, total)

    # -- activations --------------------------------------------------------------------------

    def relu(self) -> Self:
        """max(x, 0), elementwise, in its dtype; bools give int32. Its gradient at 0 is 0. Raises
        DTypeError for complex numbers.
        """
        return self._at_least("relu", 0)

    def relu6(self) -> Self:
        """x between 0 and 6, elementwise, in its dtype; bools give int32. Raises DTypeError for
        complex numbers.
        """
        return self.relu()._at_most("relu6", 6)

    def hardtanh(self, min_val: float = -1, max_val: float = 1) -> Self:
        """x between `min_val` and `max_val`, elementwise; dtypes promote, bools give int32.

        Raises ArgumentError where the first is above the second, DTypeError for complex numbers.
        """
        if is_scalar(min_val) and is_scalar(max_val) and min_val > max_val:
            raise ArgumentError(f"[hardtanh] no number is between {min_val} and {max_val}")
        return self._at_least("hardtanh", min_val)._at_most("hardtanh", max_val)

    def hardsigmoid(self, alpha: Scalar = 1 / 6, beta: Scalar = 0.5) -> Self:
        """alpha x + beta between 0 and 1, elementwise; integers give floats. Raises DTypeError for
        complex numbers.
        """
        if is_scalar(alpha) and is_scalar(beta) and alpha:  # exact where it begins to rise
            line = self.add(beta / alpha).mul(alpha)
        else:
            line = self.mul(alpha).add(beta)
        return line._at_least("hardsigmoid", 0)._at_most("hardsigmoid", 1)

    def hardswish(self) -> Self:
        """x relu6(x + 3) / 6, elementwise; integers give floats. Raises DTypeError for complex
        numbers.
        """
        return self.mul(self.add(3).relu6()).mul(1 / 6)

    def leaky_relu(self, neg_slope: float = 0.01) -> Self:
        """x, or `neg_slope` x below 0, elementwise; integers give floats. Raises DTypeError for
        complex numbers.
        """
        return self.gt(0).where(self, self.mul(neg_slope))

    def sigmoid(self) -> Self:
        """1 / (1 + exp(-x)), elementwise."""
        x = self._wide()
        negative = x.lt(0)
        size = negative.where(x, x.neg()).exp()  # at most 1
        rest = size.mul(size.add(1.0).reciprocal())  # sigmoid(-|x|), which is 1 - sigmoid(|x|)
        top = negative.where(size, 1.0)
        return top.sub(top.mul(rest)).cast(self._float().dtype)

    def logsigmoid(self) -> Self:
        """The logarithm of `sigmoid` of each element; integers give floats. Raises DTypeError for
        complex numbers.
        """
        return self.neg().softplus().neg()

    def softplus(self, beta: Scalar = 1.0, threshold: float | None = None) -> Self:
        """log(1 + exp(beta x)) / beta, elementwise, without overflow; x where beta x is above
        `threshold`.

        The formula holds for every x, so that there is no threshold unless one is asked for.
        Integers give floats. Raises DTypeError for complex numbers.
        """
        x = self._float()
        scaled = x.mul(beta)
        smooth = scaled.logaddexp(0.0).mul(1 / beta)
        return smooth if threshold is None else scaled.gt(threshold).where(x, smooth)

    def _exp_below(self) -> Self:
        """exp(x) - 1 where x <= 0, and 0 above, where it could overflow."""
        return self.gt(0).where(0.0, self).expm1()

    def elu(self, alpha: Scalar = 1.0) -> Self:
        """x, or alpha (exp(x) - 1) below 0, elementwise; integers give floats. Raises DTypeError
        for complex numbers.
        """
        x = self._float()
        return x.gt(0).where(x, x._exp_below().mul(alpha))

    def celu(self, alpha: Scalar = 1.0) -> Self:
        """x, or alpha (exp(x / alpha) - 1) below 0, elementwise; integers give floats.

        Raises DTypeError for complex numbers.
        """
        x = self._float()
        return x.gt(0).where(x, x.div(alpha)._exp_below().mul(alpha))

    def selu(self, alpha: Scalar = 1.6732632423543772, gamma: Scalar = 1.0507009873554805) -> Self:
        """gamma times `elu` of alpha, elementwise: arXiv 1706.02515; integers give floats. Raises
        DTypeError for complex numbers.
        """
        return self.elu(alpha).mul(gamma)

    def swish(self) -> Self:
        """x sigmoid(x) of each element; integers give floats."""
        return self.mul(self.sigmoid())

    def silu(self) -> Self:
        """x sigmoid(x) of each element: `swish`, under PyTorch's name; integers give floats."""
        return self.swish()

    def gelu(self, approximate: str = "none") -> Self:
        """x times the normal distribution function of x, by `erf`, or nearly so by "tanh",
        elementwise.

        Integers give floats. Raises ArgumentError, and DTypeError for complex numbers.
        """
        if approximate not in ("none", "tanh"):
            raise ArgumentError(f'[gelu] approximate is "none" or "tanh", not {approximate!r}')
        if approximate == "tanh":
            inner = self.square().mul(self).mul(0.044715).add(self).mul(math.sqrt(2 / math.pi))
            return self.mul(inner.tanh().add(1.0).mul(0.5))
        return self.mul(self.mul(math.sqrt(0.5)).erf().add(1.0).mul(0.5))

    def quick_gelu(self) -> Self:
        """x sigmoid(1.702 x), elementwise, an approximation of `gelu`; integers give floats."""
        return self.mul(self.mul(1.702).sigmoid())

    def mish(self) -> Self:
        """x tanh(softplus(x)) of each element; integers give floats. Raises DTypeError for complex
        numbers.
        """
        return self.mul(self.softplus().tanh())

    def softsign(self) -> Self:
        """x / (1 + |x|), elementwise; integers give floats."""
        return self.div(self.abs().add(1))
