"""Other names for the same methods: those of PyTorch and of the Array API standard.

    x.absolute(), x.multiply(y), x.concat(y), x.arctan2(y), x.bitwise_left_shift(1)

What stands in the class are the types; each name is the very method that its decorator names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar, cast

from .execution import Execution
from .operands import Operand
from .types import Axes, Sizes

__all__ = ["Synonyms"]

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T", bound=Execution)


def _same(method: Callable[..., object]) -> Callable[[F], F]:
    """A decorator that puts `method` in the place of a function, of which it needs the types."""
    return lambda function: cast("F", method)


class Synonyms(Execution):
    """A table of names; each means, and takes, what the method that it stands for does."""

    __slots__ = ()

    # -- arithmetic and comparison ---------------------------------------------------------------

    @_same(Execution.sub)
    def subtract(self, x: Operand, reverse: bool = False) -> Self: ...
    @_same(Execution.mul)
    def multiply(self, x: Operand, reverse: bool = False) -> Self: ...
    @_same(Execution.div)
    def divide(
        self, x: Operand, reverse: bool = False, rounding_mode: str | None = None
    ) -> Self: ...
    @_same(Execution.div)
    def true_divide(
        self, x: Operand, reverse: bool = False, rounding_mode: str | None = None
    ) -> Self: ...
    @_same(Execution.mod)
    def remainder(self, x: Operand, reverse: bool = False) -> Self: ...
    @_same(Execution.neg)
    def negative(self) -> Self: ...
    @_same(Execution.abs)
    def absolute(self) -> Self: ...
    @_same(Execution.lt)
    def less(self, x: Operand) -> Self: ...
    @_same(Execution.le)
    def less_equal(self, x: Operand) -> Self: ...
    @_same(Execution.gt)
    def greater(self, x: Operand) -> Self: ...
    @_same(Execution.ge)
    def greater_equal(self, x: Operand) -> Self: ...
    @_same(Execution.ne)
    def not_equal(self, x: Operand) -> Self: ...
    @_same(Execution.trunc)
    def fix(self) -> Self: ...

    # -- bits ------------------------------------------------------------------------------------

    @_same(Execution.bitwise_not)
    def bitwise_invert(self) -> Self: ...
    @_same(Execution.lshift)
    def bitwise_left_shift(self, x: Operand, reverse: bool = False) -> Self: ...
    @_same(Execution.rshift)
    def bitwise_right_shift(self, x: Operand, reverse: bool = False) -> Self: ...

    # -- trigonometry ----------------------------------------------------------------------------

    @_same(Execution.acos)
    def arccos(self) -> Self: ...
    @_same(Execution.asin)
    def arcsin(self) -> Self: ...
    @_same(Execution.atan)
    def arctan(self) -> Self: ...
    @_same(Execution.atan2)
    def arctan2(self, other: Operand) -> Self: ...
    @_same(Execution.acosh)
    def arccosh(self) -> Self: ...
    @_same(Execution.asinh)
    def arcsinh(self) -> Self: ...
    @_same(Execution.atanh)
    def arctanh(self) -> Self: ...

    # -- shapes ----------------------------------------------------------------------------------

    @_same(Execution.cat)
    def concat(self: T | Sequence[T], *args: T | Sequence[T] | int, dim: int = 0) -> T: ...
    @_same(Execution.cat)
    def concatenate(self: T | Sequence[T], *args: T | Sequence[T] | int, dim: int = 0) -> T: ...
    @_same(Execution.permute)
    def permute_dims(self, order: Axes, *args: Sizes) -> Self: ...
    @_same(Execution.unsqueeze)
    def expand_dims(self, dim: int) -> Self: ...
    @_same(Execution.movedim)
    def moveaxis(self, source: Axes, destination: Axes) -> Self: ...
    @_same(Execution.transpose)
    def swapaxes(self, dim0: int = 1, dim1: int = 0) -> Self: ...
    @_same(Execution.transpose)
    def swapdims(self, dim0: int = 1, dim1: int = 0) -> Self: ...
    @_same(Execution.unbind)
    def unstack(self, dim: int = 0) -> tuple[Self, ...]: ...

    # -- places ----------------------------------------------------------------------------------

    @_same(Execution.nonzero)
    def argwhere(self, as_tuple: bool = False) -> Any: ...
    @_same(Execution.take_along_dim)
    def take_along_axis(self, indices: Self, dim: int | None = None) -> Self: ...
