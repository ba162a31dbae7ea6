"""C-like languages for GPUs whose work items compute scalars: vectors are bundles of lanes.

    float32x4 v3 = float32x4{v1.s0 + v2.s0, v1.s1 + v2.s1, ...};

A vector has a type since it is loaded and stored as one. All else is done to each lane by itself,
which costs such a processor nothing. `spelled` keeps the lanes of a vector that has no name yet, so
that its lanes are read without making it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from ..dtype import DType, dtypes
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import operand
from ..lower.linearize import Phase
from .clike import COMPARISONS, FUNCTIONS
from .clike_workgroups import WorkgroupFunction

__all__ = ["WithLanes", "extreme"]


class WithLanes(WorkgroupFunction):
    """A phase whose vectors are computed lane by lane."""

    def __init__(self, name: str, phase: Phase, contract: bool) -> None:
        super().__init__(name, phase, contract)
        self.spelled: dict[str, Sequence[str]] = {}  # the text of a vector: that of its lanes

    @abstractmethod
    def bundle(self, dtype: DType, lanes: Sequence[str]) -> str:
        """A vector of these lanes."""

    @abstractmethod
    def member(self, dtype: DType, value: str, number: int) -> str:
        """One lane of a vector that has a name."""

    @abstractmethod
    def scalar(self, op: Op, dtype: DType, a: str, b: str) -> str:
        """An operation with two scalars of one dtype."""

    @abstractmethod
    def converted(self, source: DType, target: DType, value: str) -> str:
        """A scalar converted."""

    def function(self, op: Op, dtype: DType) -> str:
        """What a function of FUNCTIONS is called."""
        return FUNCTIONS[op]

    def lanes(self, node: Node, count: int) -> list[str]:
        """The lanes of a vector, or a scalar as often."""
        value = self.value(node)
        if node.dtype.count == 1:
            return [value] * count
        return [self.lane(node.dtype, value, number) for number in range(count)]

    def each(self, one: Callable[..., str], target: DType, *values: tuple[DType, str]) -> str:
        """A function of scalars on each lane of `values`, which gives `target`."""
        if target.count == 1:
            return one(*(value for _, value in values))
        lanes = (
            one(*(self.lane(dtype, value, number) for dtype, value in values))
            for number in range(target.count)
        )
        return self.vector(target, list(lanes))

    # -- vectors --------------------------------------------------------------------------------

    def vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        code = self.bundle(dtype, lanes)
        self.spelled[code] = lanes
        return code

    def lane(self, dtype: DType, value: str, number: int) -> str:
        lanes = self.spelled.get(value)
        return self.member(dtype, value, number) if lanes is None else lanes[number]

    def _broadcast(self, node: Node) -> str:
        return self.splat(node.dtype, self.value(operand(node)))  # no name: its lanes have one

    def splat(self, dtype: DType, value: str) -> str:
        return self.vector(dtype, [value] * dtype.count)

    # -- arithmetic -----------------------------------------------------------------------------

    def select(self, dtype: DType, mask: str, yes: str, no: str) -> str:
        masks = dtypes.bool.vec(dtype.count)
        return self.each(
            lambda m, a, b: f"({m} ? {a} : {b})", dtype, (masks, mask), (dtype, yes), (dtype, no)
        )

    def compare(self, op: Op, dtype: DType, a: str, b: str) -> str:
        target = dtypes.bool.vec(dtype.count)
        return self.each(
            lambda x, y: f"({x} {COMPARISONS[op]} {y})", target, (dtype, a), (dtype, b)
        )

    def call(self, op: Op, dtype: DType, values: list[str]) -> str:
        name = self.function(op, dtype.scalar)
        return self.each(
            lambda *lanes: f"{name}({', '.join(lanes)})", dtype, *((dtype, v) for v in values)
        )

    def binary(self, op: Op, dtype: DType, a: str, b: str) -> str:
        kind = dtype.scalar
        return self.each(lambda x, y: self.scalar(op, kind, x, y), dtype, (dtype, a), (dtype, b))

    def cast(self, source: DType, target: DType, value: str) -> str:
        have, want = source.scalar, target.scalar
        return self.each(lambda x: self.converted(have, want, x), target, (source, value))


def extreme(op: Op, dtype: DType, a: str, b: str) -> str:
    """The larger or smaller of two scalars; a NaN on either side wins."""
    if dtype.is_bool:
        return f"({a} {'||' if op is Op.MAX else '&&'} {b})"
    wins = f"{a} {'<' if op is Op.MAX else '>'} {b}"
    if dtype.is_float:
        wins = f"{wins} || {b} != {b}"
    return f"({wins} ? {b} : {a})"
