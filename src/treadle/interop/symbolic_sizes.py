"""Sizes of PyTorch's that calls decide, as sizes of treadle's: symbols become variables of a range.

sizes = Sizes.of(placeholders)              which symbols there are, and where calls show them
sizes.numbers(given)                        (7, 3)              in a call
sizes.caps((7, 3))                          (8, 8)              up to which one capture goes
sizes.bound((7, 3), (8, 8))                 {s0: n.bind(7), ...}
evaluated(2 * s0 + 1, {s0: n.bind(7)})      n.bind(7) * 2 + 1   and 15 of {s0: 7}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

import sympy
import torch
from torch.utils._sympy.functions import CleanDiv, FloorDiv, Max, Min, Mod, PythonMod

from ..ir.node import Node, as_index
from ..ir.shape import simple_size
from ..ir.symbolic import Size, Variable

__all__ = ["Sizes", "Unsupported", "evaluated", "expression"]

Extent: TypeAlias = "int | torch.SymInt"

LEAST_CAP = 8  # up to which the first capture goes at least; what a graph keeps has room for that


class Unsupported(ValueError):
    """A size is none that treadle can compute with."""


class _Shown(NamedTuple):
    """Where a call shows a symbol s: an input, or the size of its axis, is factor * s + rest."""

    place: int
    axis: int | None
    factor: int
    rest: int


class Sizes(NamedTuple):
    """The symbols in the sizes of a stretch's inputs, their bounds, and where calls show them."""

    symbols: tuple[sympy.Symbol, ...]
    bounds: tuple[tuple[int, int | None], ...]
    shown: tuple[_Shown, ...]

    @classmethod
    def of(cls, values: Sequence[torch.Tensor | Extent]) -> Sizes:
        """Those of a graph's inputs. Raises Unsupported where a call does not show one of them."""
        shown: dict[sympy.Symbol, _Shown] = {}
        bounds: dict[sympy.Symbol, tuple[int, int | None]] = {}
        for place, value in enumerate(values):
            extents = value.shape if isinstance(value, torch.Tensor) else [value]
            for axis, extent in enumerate(extents):
                if isinstance(extent, int):
                    continue
                expr = extent.node.expr
                for symbol in expr.free_symbols:
                    bounds.setdefault(symbol, _bounds(extent, symbol))
                if (found := _linear(expr)) is not None:
                    symbol, factor, rest = found
                    where = axis if isinstance(value, torch.Tensor) else None
                    shown.setdefault(symbol, _Shown(place, where, factor, rest))
        for symbol in bounds:
            if symbol not in shown:
                raise Unsupported(f"no input shows {symbol}")
        names = sorted(bounds, key=str)
        return cls(tuple(names), tuple(bounds[n] for n in names), tuple(shown[n] for n in names))

    def numbers(self, given: Sequence[object]) -> tuple[int, ...]:
        """The values of the symbols in a call with these inputs."""
        found = []
        for place, axis, factor, rest in self.shown:
            shown = given[place]
            value = shown.shape[axis or 0] if isinstance(shown, torch.Tensor) else shown
            found.append((cast("int", value) - rest) // factor)
        return tuple(found)

    def caps(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """The largest sizes of a capture that is made for these: the next powers of two."""
        found = []
        for number, (_, high) in zip(numbers, self.bounds, strict=True):
            cap = max(LEAST_CAP, 1 << (number - 1).bit_length())
            found.append(cap if high is None else min(cap, high))
        return tuple(found)

    def free(self, caps: Sequence[int]) -> dict[sympy.Symbol, Node]:
        """The symbols as variables up to `caps`."""
        rows = zip(self.symbols, self.bounds, caps, strict=True)
        return {symbol: Variable(str(symbol), low, cap) for symbol, (low, _), cap in rows}

    def bound(self, numbers: Sequence[int], caps: Sequence[int]) -> dict[sympy.Symbol, Node]:
        """The same with these values."""
        free = self.free(caps).items()
        return {symbol: n.bind(number) for (symbol, n), number in zip(free, numbers, strict=True)}

    def named(self, numbers: Sequence[int]) -> dict[str, int]:
        """The values by the names of the variables."""
        return {str(symbol): n for symbol, n in zip(self.symbols, numbers, strict=True)}


def _bounds(extent: torch.SymInt, symbol: sympy.Symbol) -> tuple[int, int | None]:
    """The least value of a symbol, and the largest, if PyTorch knows one."""
    known = extent.node.shape_env.var_to_range.get(symbol)
    if known is None:
        return 0, None
    low, high = known.lower, known.upper
    is_bounded = isinstance(high, (int, sympy.Integer)) and high < 1 << 31
    return max(int(low) if isinstance(low, (int, sympy.Integer)) else 0, 0), (
        int(high) if is_bounded else None
    )


def _linear(expr: sympy.Expr) -> tuple[sympy.Symbol, int, int] | None:
    """(s, a, b) of a * s + b, for numbers a and b; None for anything else."""
    symbol = next(iter(expr.free_symbols), None)
    if len(expr.free_symbols) != 1 or not isinstance(symbol, sympy.Symbol):
        return None
    factor = expr.coeff(symbol, 1)
    if not isinstance(factor, sympy.Integer) or int(factor) <= 0:
        return None
    rest = sympy.expand(expr - factor * symbol)
    return (symbol, int(factor), int(rest)) if isinstance(rest, sympy.Integer) else None


def expression(extent: Extent) -> sympy.Expr | int:
    """What a size is made of; a number is what it is."""
    return extent if isinstance(extent, int) else extent.node.expr


def evaluated(expr: sympy.Expr | int, values: Mapping[sympy.Symbol, Size]) -> Size:
    """What a size comes to for these values of its symbols, in the one form that equal ones have.

    Raises Unsupported for what treadle's sizes cannot be.
    """
    return simple_size(_evaluated(expr, values))


def _evaluated(expr: sympy.Basic | int, values: Mapping[sympy.Symbol, Size]) -> Size:
    if isinstance(expr, (int, sympy.Integer)):
        return int(expr)
    if isinstance(expr, sympy.Symbol):
        return values[expr]
    operands = [_evaluated(arg, values) for arg in expr.args]
    if isinstance(expr, sympy.Add):
        return sum(operands[1:], operands[0])
    if isinstance(expr, sympy.Mul):
        return math.prod(operands[1:], start=operands[0])
    if isinstance(expr, sympy.Pow) and isinstance(operands[1], int) and operands[1] > 0:
        return math.prod([operands[0]] * (operands[1] - 1), start=operands[0])
    if isinstance(expr, (FloorDiv, CleanDiv)):
        return operands[0] // operands[1]
    if isinstance(expr, (Mod, PythonMod)):
        return as_index(operands[0]) % operands[1]
    if isinstance(expr, (Max, Min)):
        return _extreme(isinstance(expr, Max), operands)
    raise Unsupported(f"a size is {expr}")


def _extreme(is_largest: bool, operands: Sequence[Size]) -> Size:
    first, *others = sorted(operands, key=lambda n: isinstance(n, int))
    for other in others:
        if isinstance(first, Node):
            first = first.maximum(other) if is_largest else first.minimum(other)
        else:
            first = max(first, other) if is_largest else min(first, other)
    return first
