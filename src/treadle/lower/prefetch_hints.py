"""What hints for panels and for rows have in common: loops, the rows that they read, and places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.loops import has_fixed_size
from ..ir.node import Node, alu, behind_after
from ..ir.op import ALU, Op
from ..ir.views import Load, Store
from .nontemporal_stores import CACHE_LINE, split_index

__all__ = [
    "Loop", "Row", "are_constant", "asked_for", "at_most", "following_row", "is_plain", "ranges_of",
    "rows_in",
]  # fmt: skip


@dataclass(frozen=True)
class Row:
    """`nbytes` side by side that one step loads, `first` before the others."""

    first: Load
    nbytes: int


@dataclass(frozen=True)
class Loop:
    """An innermost loop: the loops that are open there, what it holds, and its END.

    The grid's own last loop has none.
    """

    loops: list[Node]
    body: list[Node]
    end: Node | None

    def inside(self, grid: Sequence[Node]) -> list[Node]:
        """Its loops but those of the grid, outermost first."""
        return [r for r in self.loops if r not in grid]

    @property
    def places(self) -> list[Node]:
        """Where what comes before a loop, or before its end, is put."""
        return self.loops if self.end is None else [*self.loops, self.end]

    @property
    def loads(self) -> list[Load]:
        return [Load.of(n) for n in self.body if n.op is Op.LOAD]

    @property
    def stores(self) -> list[Store]:
        return [Store.of(n) for n in self.body if n.op is Op.STORE]


def rows_in(body: Sequence[Node], with_masked: bool = False) -> list[Row]:
    """What a step loads as whole vectors that lie side by side."""
    groups: dict[tuple[Node, Node | None], dict[int, Load]] = {}
    for node in body:
        if node.op is not Op.LOAD or node.dtype.count == 1:
            continue
        load = Load.of(node)
        if with_masked or not load.is_gated:
            base, shift = split_index(load.index)
            groups.setdefault((load.memory, base), {})[shift] = load
    rows = []
    for loads in groups.values():
        first = loads.get(0)
        if first is not None:
            vectors = 1
            while vectors * first.dtype.count in loads:
                vectors += 1
            rows.append(Row(first, vectors * first.dtype.itemsize))
    return rows


def following_row(index: Node, grid: Sequence[Node]) -> Node | None:
    """`index` in the next panel; None where it has no number, or is read from memory itself."""
    if any(n.op not in ALU and n.op not in (Op.CONST, Op.RANGE) for n in index.toposort()):
        return None
    numbers = [r for r in grid if r in ranges_of(index)]
    return index.substitute({numbers[-1]: numbers[-1] + 1}) if numbers else None


def at_most(value: Node, most: int) -> Node:
    return alu(Op.WHERE, value < most, value, value.like(most))


def are_constant(loops: Sequence[Node]) -> bool:
    return all(has_fixed_size(r) for r in loops)


def is_plain(memory: Node) -> bool:
    """Whether it is memory of the kernel's arguments that has addresses."""
    param = behind_after(memory)
    return param.op is Op.PARAM and param.arg.image is None


def ranges_of(node: Node) -> set[Node]:
    return {n for n in node.toposort(lambda n: n.op is not Op.AFTER) if n.op is Op.RANGE}


def asked_for(memory: Node, place: Node, nbytes: int, level: int = 2) -> list[Node]:
    """PREFETCHes of all lines that `nbytes` from `place` on are in, into the cache of `level`."""
    per_line = CACHE_LINE // memory.dtype.scalar.itemsize
    return [
        Node(Op.PREFETCH, dtypes.void, (memory, place + n * per_line), level)
        for n in range(-(-nbytes // CACHE_LINE))
    ]
