"""Second names of methods: those of PyTorch and of the Array API standard.

    @same_as(Basis.sub)
    def subtract(self, x: Operand, reverse: bool = False) -> Self: ...

What stands in the class are the types; the name is the very method that its decorator names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

__all__ = ["same_as"]

F = TypeVar("F", bound=Callable[..., object])


def same_as(method: Callable[..., object]) -> Callable[[F], F]:
    """A decorator that puts `method` in the place of a function, of which it needs the types."""
    return lambda function: cast("F", method)
