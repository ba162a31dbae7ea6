"""Moves of loops: they become others, or are nested in another order.

loops(split(r0, grid(r4, 64)), lane_results(r1, loop(r5, 9), unroll(r6, 4), vector(r7, 8)))
reorder(0, (r1, r0))                      the loops of nest 0, outermost first
order_steps(reduction((r2, r3)), (r3, r2))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self, cast

from ..errors import InternalError
from ..ir.args import RangeKind
from ..ir.loops import Split, closed_ranges, loop_size
from ..ir.node import Node
from ..ir.rules.index import linear_terms, simplify
from ..ir.views import with_loops
from .moves import NEW, Move, Moves
from .nest import Nest
from .records import Loop, Record, Reduction

__all__ = [
    "Extent", "Loops", "OrderSteps", "Part", "Reorder", "order_steps", "reorder", "replace_loops",
]  # fmt: skip

KINDS = ("loop", "grid", "local", "unroll", "vector", "subgroup")
PLAIN = "split"  # what a loop becomes for no reason that has a name
REASONS = (
    "texel_groups", "workgroup_elements", "workgroup_rows", "workgroup_counters",
    "interleaved_results", "square_transpose", "scatter_strips", "parallel_scans", "lane_scan",
    "lane_results", "lane_reduction", "unrolled_reduction", "split_concat", "split_concat_rows",
    "dual_streams",
)  # fmt: skip


@dataclass(frozen=True)
class Extent(Record, words=KINDS):
    """A new loop: its word is its kind, and `step` how far apart its steps are in the old one.

    Usually that is what the loops behind it reach together.
    """

    kind: RangeKind
    loop: Loop
    size: int
    step: int = 0

    def __str__(self) -> str:
        apart = f", step={self.step}" if self.step else ""
        return f"{self.kind}({self.loop}, {self.size}{apart})"

    @classmethod
    def read(cls, word: str, values: list[Any], named: dict[str, Any]) -> Self:
        return cls(cast("RangeKind", word), *values, **named)  # one of `words`


@dataclass(frozen=True)
class Part(Record, words=(PLAIN, *REASONS)):
    """What one loop becomes: `extents`, outermost first. The word is the first of `reasons`."""

    loop: Loop
    extents: tuple[Extent, ...]
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        word, *others = self.reasons or (PLAIN,)
        said = [str(self.loop), *map(str, self.extents)]
        said += [f"also={tuple(others)!r}"] if others else []
        return f"{word}({', '.join(said)})"

    @classmethod
    def read(cls, word: str, values: list[Any], named: dict[str, Any]) -> Self:
        loop, *extents = values
        reasons = () if word == PLAIN else (word, *named.pop("also", ()))
        return cls(loop, tuple(extents), reasons, **named)

    def split(self, moves: Moves) -> Split:
        """What a loop becomes."""
        size = loop_size(moves.range_of(self.loop))
        made, expr = [], Node.index(0)
        for extent, step in zip(self.extents, self._steps(), strict=True):
            made.append(moves.named(extent.loop, extent.size, extent.kind))
            expr = expr + made[-1] * step
        if not self._covers(size):
            raise ValueError(f"{self} leaves out steps of {size}, or takes some twice")
        expr = simplify(expr)
        return Split(expr, tuple(made), simplify(expr < size))

    def _steps(self) -> Iterator[int]:
        """How far apart the steps of each loop are."""
        for number, extent in enumerate(self.extents):
            apart = 1
            for inner in self.extents[number + 1 :]:
                apart *= inner.size
            yield extent.step or apart

    def _covers(self, size: int) -> bool:
        """Whether each of `size` steps is one of the new loops' steps, and only one."""
        sizes = (extent.size for extent in self.extents)
        reach = 1
        for step, extent in sorted(zip(self._steps(), sizes, strict=True)):
            if extent > 1 and step != reach:
                return False
            reach *= extent
        return reach >= size


def _part(loop: Node, split: Split, *reasons: str) -> Part:
    """The part of a move that replaces `loop` by `split`, which is a sum of its loops."""
    terms, offset = linear_terms(split.expr)
    if offset or not terms.keys() <= set(split.ranges):
        raise InternalError("a loop becomes a sum of loops")
    extents, apart = [], 1
    for r in reversed(split.ranges):
        step = terms.get(r, apart)
        extents.append(Extent(r.arg.kind, Loop.of(r), loop_size(r), 0 if step == apart else step))
        apart *= loop_size(r)
    return Part(Loop.of(loop), tuple(reversed(extents)), reasons)


@dataclass(frozen=True)
class Loops(Move):
    """Loops become others, all at once."""

    word = "loops"

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return f"{self.word}({', '.join(map(str, self.parts))})"

    @classmethod
    def read(cls, word: str, values: list[Any], named: dict[str, Any]) -> Self:
        return cls(tuple(values), **named)

    @property
    def choices(self) -> tuple[str, ...]:
        """Why the loops become what they do."""
        return tuple(dict.fromkeys(name for one in self.parts for name in one.reasons))

    @property
    def names_from(self) -> Loop:
        """The first of the new loops."""
        return min((e.loop for one in self.parts for e in one.extents), default=NEW)

    def apply(self, moves: Moves) -> tuple[tuple[Node, ...], ...]:
        """Returns the new loops of each."""
        splits = {moves.range_of(one.loop): one.split(moves) for one in self.parts}
        moves.replace_loops(splits)
        return tuple(split.ranges for split in splits.values())


def replace_loops(
    moves: Moves, splits: dict[Node, Split], *reasons: str,
    of: dict[Node, tuple[str, ...]] | None = None,
) -> None:  # fmt: skip
    """Replace loops by sums of others; `reasons` are those of the first, or of each `of` them."""
    said = {next(iter(splits), None): reasons} | (of or {})
    moves.make(Loops(tuple(_part(r, split, *said.get(r, ())) for r, split in splits.items())))


# -- order ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reorder(Move):
    """A nest's loops are nested in another order, wherever what they fill is read."""

    word = "reorder"

    nest: int
    loops: tuple[Loop, ...]

    def apply(self, moves: Moves) -> None:
        """All of the nest's loops."""
        nest, loops = moves.nest_of(self.nest), tuple(map(moves.range_of, self.loops))
        if len(loops) != len(nest.loops) or set(loops) != set(nest.loops):
            raise ValueError(f"{self} does not name the loops of its nest")
        moves.order_loops(nest, loops)


def reorder(moves: Moves, nest: Nest, loops: tuple[Node, ...]) -> None:
    """Nest the loops of `nest` in that order."""
    if loops != nest.loops:
        moves.make(Reorder(moves.number_of(nest), tuple(map(Loop.of, loops))))


@dataclass(frozen=True)
class OrderSteps(Move):
    """A reduction's loops are nested in another order."""

    word = "order_steps"

    reduction: Reduction
    loops: tuple[Loop, ...]

    def apply(self, moves: Moves) -> Node:
        """Returns the REDUCE."""
        old, loops = moves.reduce_of(self.reduction), tuple(map(moves.range_of, self.loops))
        if sorted(self.loops) != sorted(map(Loop.of, closed_ranges(old))):
            raise ValueError(f"{self} does not name the loops of its reduction")
        reduce = with_loops(old, loops)
        moves.root = moves.root.substitute({old: reduce})
        return reduce


def order_steps(moves: Moves, reduce: Node, loops: tuple[Node, ...]) -> Node:
    """Nest the loops of a reduction in that order. Returns the REDUCE."""
    return moves.make(OrderSteps(moves.name_of(reduce), tuple(map(Loop.of, loops))))
