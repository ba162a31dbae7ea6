"""Other names for methods of the basis: those of PyTorch and of the Array API standard.

x.absolute(), x.multiply(y), x.arctan2(y), x.bitwise_left_shift(1)
"""

from __future__ import annotations

from typing import Self

from ..basis import Basis
from ..naming import same_as
from ..operands import Operand

__all__ = ["Synonyms"]


class Synonyms(Basis):
    """A table of names; each means, and takes, what the method that it stands for does."""

    __slots__ = ()

    # -- arithmetic and comparison ---------------------------------------------------------------

    @same_as(Basis.sub)
    def subtract(self, x: Operand, reverse: bool = False) -> Self: ...
    @same_as(Basis.mul)
    def multiply(self, x: Operand, reverse: bool = False) -> Self: ...
    @same_as(Basis.div)
    def divide(
        self, x: Operand, reverse: bool = False, rounding_mode: str | None = None
    ) -> Self: ...
    @same_as(Basis.div)
    def true_divide(
        self, x: Operand, reverse: bool = False, rounding_mode: str | None = None
    ) -> Self: ...
    @same_as(Basis.mod)
    def remainder(self, x: Operand, reverse: bool = False) -> Self: ...
    @same_as(Basis.neg)
    def negative(self) -> Self: ...
    @same_as(Basis.abs)
    def absolute(self) -> Self: ...
    @same_as(Basis.lt)
    def less(self, x: Operand) -> Self: ...
    @same_as(Basis.le)
    def less_equal(self, x: Operand) -> Self: ...
    @same_as(Basis.gt)
    def greater(self, x: Operand) -> Self: ...
    @same_as(Basis.ge)
    def greater_equal(self, x: Operand) -> Self: ...
    @same_as(Basis.ne)
    def not_equal(self, x: Operand) -> Self: ...
    @same_as(Basis.trunc)
    def fix(self) -> Self: ...

    # -- bits ------------------------------------------------------------------------------------

    @same_as(Basis.bitwise_not)
    def bitwise_invert(self) -> Self: ...
    @same_as(Basis.lshift)
    def bitwise_left_shift(self, x: Operand, reverse: bool = False) -> Self: ...
    @same_as(Basis.rshift)
    def bitwise_right_shift(self, x: Operand, reverse: bool = False) -> Self: ...

    # -- trigonometry ----------------------------------------------------------------------------

    @same_as(Basis.acos)
    def arccos(self) -> Self: ...
    @same_as(Basis.asin)
    def arcsin(self) -> Self: ...
    @same_as(Basis.atan)
    def arctan(self) -> Self: ...
    @same_as(Basis.atan2)
    def arctan2(self, other: Operand) -> Self: ...
    @same_as(Basis.acosh)
    def arccosh(self) -> Self: ...
    @same_as(Basis.asinh)
    def arcsinh(self) -> Self: ...
    @same_as(Basis.atanh)
    def arctanh(self) -> Self: ...
