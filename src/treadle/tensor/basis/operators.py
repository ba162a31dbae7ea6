"""Python's operators: each is the method of the same meaning, reflected and in place too.

What stands in the class is the operators' types; the decorators put the code in their place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeVar, cast

from ..operands import Operand
from .assignment import Assignment
from .mathematics import Mathematics

__all__ = ["Operators"]

F = TypeVar("F", bound=Callable[..., object])


def _forward(name: str) -> Callable[[F], F]:
    def operator(self: Assignment, other: object) -> object:
        if (value := self._accept(other)) is NotImplemented:
            return NotImplemented
        return getattr(self, name)(value)

    return _in_place_of(operator)


def _reflected(name: str) -> Callable[[F], F]:
    def operator(self: Assignment, other: object) -> object:
        if (value := self._accept(other)) is NotImplemented:
            return NotImplemented
        return getattr(self, name)(value, reverse=True)

    return _in_place_of(operator)


def _assigned(name: str) -> Callable[[F], F]:
    def operator(self: Assignment, other: object) -> object:
        if (value := self._accept(other)) is NotImplemented:
            return NotImplemented
        return self._in_place(f"{name}_", getattr(self, name)(value))

    return _in_place_of(operator)


def _in_place_of(operator: Callable[..., object]) -> Callable[[F], F]:
    """A decorator that replaces a function, of which it needs the types alone."""
    return lambda function: cast("F", operator)


class Operators(Mathematics, Assignment):
    """`+ - * / // % ** @ & | ^ << >> ~`, their reflected and in-place forms, and comparisons."""

    __slots__ = ()

    @_forward("add")
    def __add__(self, x: Operand) -> Self: ...
    @_reflected("add")
    def __radd__(self, x: Operand) -> Self: ...
    @_assigned("add")
    def __iadd__(self, x: Operand) -> Self: ...
    @_forward("sub")
    def __sub__(self, x: Operand) -> Self: ...
    @_reflected("sub")
    def __rsub__(self, x: Operand) -> Self: ...
    @_assigned("sub")
    def __isub__(self, x: Operand) -> Self: ...
    @_forward("mul")
    def __mul__(self, x: Operand) -> Self: ...
    @_reflected("mul")
    def __rmul__(self, x: Operand) -> Self: ...
    @_assigned("mul")
    def __imul__(self, x: Operand) -> Self: ...
    @_forward("div")
    def __truediv__(self, x: Operand) -> Self: ...
    @_reflected("div")
    def __rtruediv__(self, x: Operand) -> Self: ...
    @_assigned("div")
    def __itruediv__(self, x: Operand) -> Self: ...
    @_forward("floor_divide")
    def __floordiv__(self, x: Operand) -> Self: ...
    @_reflected("floor_divide")
    def __rfloordiv__(self, x: Operand) -> Self: ...
    @_assigned("floor_divide")
    def __ifloordiv__(self, x: Operand) -> Self: ...
    @_forward("mod")
    def __mod__(self, x: Operand) -> Self: ...
    @_reflected("mod")
    def __rmod__(self, x: Operand) -> Self: ...
    @_assigned("mod")
    def __imod__(self, x: Operand) -> Self: ...
    @_forward("pow")
    def __pow__(self, x: Operand) -> Self: ...
    @_reflected("pow")
    def __rpow__(self, x: Operand) -> Self: ...
    @_assigned("pow")
    def __ipow__(self, x: Operand) -> Self: ...
    @_forward("matmul")
    def __matmul__(self, x: Operand) -> Self: ...
    @_reflected("matmul")
    def __rmatmul__(self, x: Operand) -> Self: ...
    @_assigned("matmul")
    def __imatmul__(self, x: Operand) -> Self: ...
    @_forward("bitwise_and")
    def __and__(self, x: Operand) -> Self: ...
    @_reflected("bitwise_and")
    def __rand__(self, x: Operand) -> Self: ...
    @_assigned("bitwise_and")
    def __iand__(self, x: Operand) -> Self: ...
    @_forward("bitwise_or")
    def __or__(self, x: Operand) -> Self: ...
    @_reflected("bitwise_or")
    def __ror__(self, x: Operand) -> Self: ...
    @_assigned("bitwise_or")
    def __ior__(self, x: Operand) -> Self: ...
    @_forward("bitwise_xor")
    def __xor__(self, x: Operand) -> Self: ...
    @_reflected("bitwise_xor")
    def __rxor__(self, x: Operand) -> Self: ...
    @_assigned("bitwise_xor")
    def __ixor__(self, x: Operand) -> Self: ...
    @_forward("lshift")
    def __lshift__(self, x: Operand) -> Self: ...
    @_reflected("lshift")
    def __rlshift__(self, x: Operand) -> Self: ...
    @_assigned("lshift")
    def __ilshift__(self, x: Operand) -> Self: ...
    @_forward("rshift")
    def __rshift__(self, x: Operand) -> Self: ...
    @_reflected("rshift")
    def __rrshift__(self, x: Operand) -> Self: ...
    @_assigned("rshift")
    def __irshift__(self, x: Operand) -> Self: ...
    @_forward("lt")
    def __lt__(self, x: Operand) -> Self: ...
    @_forward("gt")
    def __gt__(self, x: Operand) -> Self: ...
    @_forward("le")
    def __le__(self, x: Operand) -> Self: ...
    @_forward("ge")
    def __ge__(self, x: Operand) -> Self: ...

    # Python compares anything with anything: what is no operand is unequal
    @_forward("eq")
    def __eq__(self, x: object) -> Self: ...  # pyright: ignore[reportIncompatibleMethodOverride]
    @_forward("ne")
    def __ne__(self, x: object) -> Self: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    def __hash__(self) -> int:
        return id(self)

    def __neg__(self) -> Self:
        return self.neg()

    def __pos__(self) -> Self:
        """The same values, in this shape and dtype, as another tensor."""
        return self._again()

    def __invert__(self) -> Self:
        return self.bitwise_not()

    def __abs__(self) -> Self:
        return self.abs()
