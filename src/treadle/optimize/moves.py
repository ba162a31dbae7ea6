"""Moves: the ways a kernel's loops can change without changing what it computes.

    moves = Moves(ast, target)
    moves.make(Merge(Loop(0), Loop(1)))    ->  what the move made; moves.root is the new AST
    moves.schedule()                       ->  the moves so far: print them, parse and replay them

    loops(split(r0, grid(r4, 64)), lane_results(r1, unroll(r6, 4), vector(r7, 8)))

A move is a frozen dataclass. It names what it works on: a loop by its number, r4; a reduction by
its loops; a nest by its place among the nests of the kernel, in the order in which they run. It
names the loops that it makes too, or the first of them. So a move does the same to the same kernel,
whatever was looked at before. Only a move changes the kernel. Its `apply` works by what is here:

    split   r  ->  outer * factor + inner        flatten   r0, r1  ->  digits of one position
    stage   an operand  ->  packed into memory of its own first
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from ..errors import InternalError
from ..ir.args import RangeKind
from ..ir.choices import CHOICES, take
from ..ir.loops import Split, closed_ranges, loop_size, replace_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from ..ir.rules.index import simplify
from ..ir.views import Stage, with_loops
from ..target import Target
from .nest import Nest, nests_of, sequential_loops
from .records import Loop, Record, Reduction

__all__ = ["NEW", "Move", "Moves", "Schedule"]

NEW = Loop(-1)  # that a move makes no loops, or has not been told which
M = TypeVar("M", bound="Move")


@dataclass(frozen=True)
class Move(Record):
    """A change of a kernel that keeps its meaning; `first` is the first loop that it makes.

    The word of a move that is a choice of ir/choices.py is the name of that choice.
    """

    first: Loop = field(default=NEW, kw_only=True)

    @property
    def choices(self) -> tuple[str, ...]:
        """The registered choices that it is."""
        return (self.word,) if self.word in CHOICES else ()

    @property
    def names_from(self) -> Loop:
        """The first loop that it makes, or NEW."""
        return self.first

    def forms(self) -> tuple[Move, ...]:
        """The same move in other forms, for a search to try."""
        return ()

    def apply(self, moves: Moves) -> Any:
        """Make it on the kernel under `moves`. Returns what it made, for what comes next."""
        raise NotImplementedError


class Schedule(tuple[Move, ...]):
    """The moves of a kernel in the order in which they are made, a line of text for each."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__

    def words(self) -> list[str]:
        """The words of its moves, in order."""
        return [move.word for move in self]

    def of_kind(self, kind: type[M]) -> list[M]:
        """Its moves of one kind."""
        return [move for move in self if isinstance(move, kind)]

    def choices(self) -> set[str]:
        """The registered choices that its moves are."""
        return {name for move in self for name in move.choices}


class _Names:
    """What the loops, reductions and nests of a kernel are called."""

    def __init__(self, root: Node) -> None:
        self._root = root

    @cached_property
    def order(self) -> list[Node]:
        return self._root.toposort()

    @cached_property
    def nests(self) -> list[Nest]:
        return nests_of(self._root)

    @cached_property
    def loops(self) -> dict[int, Node]:
        return {n.arg.number: n for n in self.order if n.op is Op.RANGE}

    @cached_property
    def reductions(self) -> dict[Reduction, Node]:
        found: dict[Reduction, Node] = {}
        counts: dict[tuple[Loop, ...], int] = {}
        for node in self.order:
            if node.op is Op.REDUCE:
                loops = tuple(map(Loop.of, closed_ranges(node)))
                number = counts[loops] = counts.get(loops, -1) + 1
                found[Reduction(loops, number)] = node
        return found

    @cached_property
    def of_reductions(self) -> dict[Node, Reduction]:
        return {node: name for name, node in self.reductions.items()}


class Moves:
    """A kernel, simplified, and the moves made on it; `target` is what it is to run on."""

    def __init__(self, root: Node, target: Target) -> None:
        self.target, self._root = target, simplify(root)
        self._names = _Names(self._root)
        self._made: list[Move] = []
        self._is_making = self._has_counted = False
        self._known: Collection[int] = ()
        self._next = max(self._names.loops, default=-1) + 1

    @property
    def root(self) -> Node:
        """The kernel as it is now; a move sets it."""
        return self._root

    @root.setter
    def root(self, root: Node) -> None:
        if not self._is_making:
            raise InternalError("only a move changes a kernel")
        if root is not self._root:
            self._root, self._names = root, _Names(root)

    def make(self, move: Move) -> Any:
        """Make a move; what it made. One that changes nothing is not part of the schedule."""
        before, start = self._root, self._next
        if move.first != NEW:
            self._next = move.first
        self._known = self._names.loops.keys()
        first, self._is_making, self._has_counted = self._next, True, False
        try:
            made = move.apply(self)
        finally:
            self._is_making = False
        if self._root is before:
            self._next = start
        else:
            if self._has_counted and move.first == NEW:
                move = replace(move, first=Loop(first))
            for name in move.choices:
                take(name)
            self._made.append(move)
        return made

    def schedule(self) -> Schedule:
        """The moves made so far."""
        return Schedule(self._made)

    # -- names ----------------------------------------------------------------------------------

    def loop(self, size: int | Node, kind: RangeKind = "loop") -> Node:
        """A new RANGE."""
        self._has_counted = True
        return self._new(self._next, size, kind)

    def named(self, loop: Loop, size: int, kind: RangeKind) -> Node:
        """The new RANGE that is called `loop`."""
        return self._new(int(loop), size, kind)

    def _new(self, number: int, size: int | Node, kind: RangeKind) -> Node:
        if self._is_making and number in self._known:
            raise ValueError(f"the kernel has a loop {Loop(number)} already")
        self._next = max(self._next, number + 1)
        return Node.range(size, number, kind)

    def range_of(self, loop: Loop) -> Node:
        """The RANGE that is called `loop`."""
        if loop not in self._names.loops:
            raise ValueError(f"the kernel has no loop {loop}")
        return self._names.loops[loop]

    def reduce_of(self, reduction: Reduction) -> Node:
        """The REDUCE that is called `reduction`."""
        if reduction not in self._names.reductions:
            raise ValueError(f"the kernel has no {reduction}")
        return self._names.reductions[reduction]

    def reductions(self) -> dict[Reduction, Node]:
        """The REDUCEs by name, those that others are computed from first."""
        return self._names.reductions

    def has(self, reduce: Node) -> bool:
        """Whether a REDUCE is one of the kernel as it is now."""
        return reduce in self._names.of_reductions

    def name_of(self, reduce: Node) -> Reduction:
        """What a REDUCE is called."""
        return self._names.of_reductions[reduce]

    def nests(self) -> list[Nest]:
        """The nests of the kernel, in the order in which they run."""
        return self._names.nests

    def open_nests(self) -> Iterator[Nest]:
        """Those without a schedule that store results, in any order of their steps."""
        for nest in self.nests():
            if nest.node.op is Op.END and not nest.is_scheduled and not sequential_loops(nest):
                yield nest

    def nest_of(self, number: int) -> Nest:
        """The nest of that number."""
        if not 0 <= number < len(self.nests()):
            raise ValueError(f"the kernel has no nest {number}")
        return self.nests()[number]

    def has_nest(self, nest: Nest) -> bool:
        """Whether a nest is one of the kernel as it is now."""
        return any(one.node is nest.node for one in self.nests())

    def now(self, nest: Nest, loops: tuple[Node, ...] | None = None) -> Nest:
        """A nest after a move that left it its loops, or gave it `loops`."""
        wanted = nest.loops if loops is None else loops
        return next(n for n in self.nests() if n.loops == wanted)

    def nest_with(self, *loops: Node) -> Nest:
        """The nest that has all of these loops."""
        return next(n for n in self.nests() if set(loops) <= set(n.loops))

    def number_of(self, nest: Nest) -> int:
        """Which of the nests `nest` is."""
        return next(n for n, one in enumerate(self.nests()) if one.node is nest.node)

    # -- loops ----------------------------------------------------------------------------------

    def replace_loops(self, splits: dict[Node, Split]) -> None:
        """Replace loops and simplify."""
        self.root = simplify(replace_ranges(self.root, splits))

    def tiled(self, size: int, *inner: tuple[int, RangeKind], outer: RangeKind = "loop") -> Split:
        """A loop of `size` in tiles: (size, kind) of the tile's loops, outermost first."""
        count = -(-size // math.prod(extent for extent, _ in inner))
        return self.digits(size, (count, outer), *inner)

    def digits(self, size: int, *extents: tuple[int, RangeKind]) -> Split:
        """A loop of `size` as one loop for each (extent, kind), outermost first.

        No loop is made for an extent of 1. Where they reach further together, a guard says so.
        """
        expr, loops = Node.index(0), []
        for extent, kind in extents:
            expr = expr * extent
            if extent > 1:
                loops.append(self.loop(extent, kind))
                expr = expr + loops[-1]
        expr = simplify(expr)
        return Split(expr, tuple(loops), simplify(expr < size))

    def flatten(self, loops: tuple[Node, ...], flat: Split) -> dict[Node, Split]:
        """Splits that make `loops` the digits of one flat position; only the first is guarded."""
        if not loops:
            return {}
        first = flat.expr // loop_size(*loops[1:])
        splits = {loops[0]: Split(simplify(first), flat.ranges, flat.guard)}
        for number, r in enumerate(loops[1:], 1):
            digit = flat.expr // loop_size(*loops[number + 1 :]) % loop_size(r)
            splits[r] = Split(simplify(digit), ())
        return splits

    def order_loops(self, nest: Nest, loops: tuple[Node, ...]) -> None:
        """Change the nesting of a nest's loops, wherever what they fill is read."""
        if loops == nest.loops:
            return
        filled = _filled_by(nest.node)

        def step(node: Node) -> Node | None:
            if node.op is not nest.node.op or _filled_by(node) != filled:
                return None
            return with_loops(node, loops)

        self.root = rewrite_with(self.root, step)

    def copies(
        self, loops: Iterable[Node], kinds: dict[Node, RangeKind] | RangeKind | None = None
    ) -> dict[Node, Node]:
        """Fresh loops of the same sizes: of one kind, or each of its own."""
        of = (lambda r: kinds) if isinstance(kinds, str) else (kinds or {}).get
        return {r: self.loop(loop_size(r), of(r) or r.arg.kind) for r in loops}

    def whole(
        self, loops: Iterable[Node], kinds: dict[Node, RangeKind] | RangeKind | None = None
    ) -> dict[Node, Split]:
        """Loops as fresh ones of the same sizes."""
        return {r: Split(new, (new,)) for r, new in self.copies(loops, kinds).items()}


def _filled_by(node: Node) -> tuple[object, ...]:
    """What makes two nests one: a STAGE that is read at several places is filled once."""
    return (*Stage.of(node).filling, node.arg) if node.op is Op.STAGE else node.src
