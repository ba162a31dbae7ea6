"""Python's operators: each is the method of the same meaning, reflected and in place too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

from .operands import Operand
from .power import Power

__all__ = ["Operators"]

S = TypeVar("S", bound="Operators")


def _forward(name: str) -> Callable[[S, Operand], S]:
    def operator(self: Any, other: Any) -> Any:
        if (value := self._accept(other)) is NotImplemented:
            return NotImplemented
        return getattr(self, name)(value)

    return operator


def _reflected(name: str) -> Callable[[S, Operand], S]:
    def operator(self: Any, other: Any) -> Any:
        if (value := self._accept(other)) is NotImplemented:
            return NotImplemented
        return getattr(self, name)(value, reverse=True)

    return operator


def _in_place(name: str) -> Callable[[S, Operand], S]:
    def operator(self: Any, other: Any) -> Any:
        if (value := self._accept(other)) is NotImplemented:
            return NotImplemented
        return self._in_place(f"{name}_", getattr(self, name)(value))

    return operator


# Python compares anything with anything: what is no operand is NotImplemented, and so unequal
_equal: Any = _forward("eq")
_unequal: Any = _forward("ne")


class Operators(Power):
    """`+ - * / // % ** @ & | ^ << >> ~`, their reflected and in-place forms, and comparisons."""

    __slots__ = ()

    __add__, __radd__, __iadd__ = _forward("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__, __isub__ = _forward("sub"), _reflected("sub"), _in_place("sub")
    __mul__, __rmul__, __imul__ = _forward("mul"), _reflected("mul"), _in_place("mul")
    __truediv__, __rtruediv__ = _forward("div"), _reflected("div")
    __itruediv__ = _in_place("div")
    __floordiv__, __rfloordiv__ = _forward("idiv"), _reflected("idiv")
    __ifloordiv__ = _in_place("idiv")
    __mod__, __rmod__, __imod__ = _forward("mod"), _reflected("mod"), _in_place("mod")
    __pow__, __rpow__, __ipow__ = _forward("pow"), _reflected("pow"), _in_place("pow")
    __matmul__, __rmatmul__ = _forward("matmul"), _reflected("matmul")
    __imatmul__ = _in_place("matmul")
    __and__, __rand__ = _forward("bitwise_and"), _reflected("bitwise_and")
    __or__, __ror__ = _forward("bitwise_or"), _reflected("bitwise_or")
    __xor__, __rxor__ = _forward("bitwise_xor"), _reflected("bitwise_xor")
    __lshift__, __rlshift__ = _forward("lshift"), _reflected("lshift")
    __rshift__, __rrshift__ = _forward("rshift"), _reflected("rshift")
    __iand__, __ior__ = _in_place("bitwise_and"), _in_place("bitwise_or")
    __ixor__ = _in_place("bitwise_xor")
    __ilshift__, __irshift__ = _in_place("lshift"), _in_place("rshift")
    __lt__, __gt__, __le__, __ge__ = _forward("lt"), _forward("gt"), _forward("le"), _forward("ge")

    def __eq__(self, other: object) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _equal(self, other)

    def __ne__(self, other: object) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _unequal(self, other)

    def __hash__(self) -> int:
        return id(self)

    def __neg__(self) -> Self:
        return self.neg()

    def __pos__(self) -> Self:
        return self

    def __invert__(self) -> Self:
        return self.bitwise_not()

    def __abs__(self) -> Self:
        return self.abs()
