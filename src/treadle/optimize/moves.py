"""Moves: the ways a kernel's loops can change without changing what it computes.

Each move takes a kernel AST and returns a new one. A schedule is a list of moves, kept as text in
`Moves.log` so that it can be printed and compared.

    split   r  ->  outer * factor + inner        merge   r0, r1  ->  one loop
    split   a long reduction  ->  partial results of chunks, then their combination
    stage   an operand  ->  packed into memory of its own first
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

from ..dtype import dtypes
from ..ir.args import ReduceArg, StageArg, VarArg
from ..ir.choices import take
from ..ir.loops import (
    TRUE,
    Split,
    closed_ranges,
    free_ranges,
    has_fixed_size,
    identity,
    loop_size,
    number_of,
    replace_ranges,
)  # fmt: skip
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from ..ir.rules.index import linear_terms, simplify
from ..ir.views import Reduce, Stage, bound_of, operands, with_loops
from .nest import SHORT_STRIDE, Nest, nests_of

__all__ = ["Moves"]

FEW_PARTS = 16  # every item combines so many parts of a shared reduction by itself


class Moves:
    """A kernel and the moves made on it."""

    root: Node

    def __init__(self, root: Node) -> None:
        self.root = root
        self.log: list[str] = []
        numbers = [n.arg.number for n in root.toposort() if n.op is Op.RANGE]
        self._next = max(numbers, default=-1) + 1

    def loop(self, size: int | Node, kind: str = "loop") -> Node:
        """A new RANGE."""
        self._next += 1
        return Node.range(size, self._next - 1, kind)

    def apply(self, splits: dict[Node, Split], what: str) -> None:
        """Replace loops and simplify."""
        self.root = simplify(replace_ranges(self.root, splits))
        self.log.append(what)

    # -- loops ----------------------------------------------------------------------------------

    def tiled(self, size: int, *inner: tuple[int, str], outer: str = "loop") -> Split:
        """A loop of `size` in tiles: (size, kind) of the tile's loops, outermost first."""
        count = -(-size // math.prod(extent for extent, _ in inner))
        return self.digits(size, (count, outer), *inner)

    def digits(self, size: int, *extents: tuple[int, str]) -> Split:
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
        is_exact = math.prod(extent for extent, _ in extents) == size
        return Split(expr, tuple(loops), TRUE if is_exact else simplify(expr < size))

    def flatten(self, loops: tuple[Node, ...], flat: Split) -> dict[Node, Split]:
        """Splits that make `loops` the digits of one flat position; only the first is guarded."""
        sizes = [loop_size(r) for r in loops]
        splits = {}
        step = math.prod(sizes)
        for number, (r, size) in enumerate(zip(loops, sizes, strict=True)):
            step //= size
            digit = flat.expr // step
            first = number == 0
            splits[r] = Split(
                simplify(digit if first else digit % size),
                flat.ranges if first else (),
                flat.guard if first else TRUE,
            )
        return splits

    def split_digits(self) -> None:
        """Make two loops of each one whose digits are used, as those of a reshaped axis are."""
        while (found := self._digits()) is not None:
            loop, ahead, step = found
            outer, inner = self.loop(-(-(loop_size(loop) + ahead) // step)), self.loop(step)
            position = outer * step + inner - ahead
            guard = TRUE if (loop_size(loop) + ahead) % step == 0 else position < bound_of(loop)
            guard = guard & ~(position < 0) if ahead else guard
            split = Split(position, (outer, inner), guard)
            take("split_digits")
            self.apply({loop: split}, f"split r{loop.arg.number} by {step}")

    def _digits(self) -> tuple[Node, int, int] | None:
        """A loop, what is added to it and what it is divided by then.

        That divides its size without rest, or is small.
        """
        for node in self.root.toposort():
            if node.op not in (Op.IDIV, Op.MOD):
                continue
            number, by = operands(node)
            if by.op is not Op.CONST:
                continue
            terms, ahead = linear_terms(number)
            loop, step = next(iter(terms), node), by.arg
            if terms != {loop: 1} or loop.op is not Op.RANGE or not has_fixed_size(loop):
                continue
            if 1 < step < loop_size(loop) and 0 <= ahead < step:
                if step <= SHORT_STRIDE or (ahead == 0 and loop_size(loop) % step == 0):
                    return loop, ahead, step
        return None

    def merge_all(self) -> None:
        """Merge neighbouring loops wherever every access allows it."""
        while True:
            pair = self._mergeable()
            if pair is None:
                return
            size = loop_size(pair[0]) * loop_size(pair[1])
            flat = self.loop(size)
            take("merged_loops")
            self.apply(self.flatten(pair, Split(flat, (flat,))), f"merge {_name(pair)}")

    def _mergeable(self) -> tuple[Node, Node] | None:
        uses = _index_uses(self.root)
        for loops in _closed_lists(self.root):
            for outer, inner in itertools.pairwise(loops):
                if has_fixed_size(outer) and has_fixed_size(inner) and _merges(outer, inner, uses):
                    if self._closed_together(outer, inner):
                        return outer, inner
        return None

    def _closed_together(self, outer: Node, inner: Node) -> bool:
        return all((outer in loops) == (inner in loops) for loops in _closed_lists(self.root))

    def reorder(self, nest: Nest, loops: tuple[Node, ...]) -> None:
        """Change the nesting of a nest's loops, wherever what they fill is read."""
        if loops == nest.loops:
            return
        filled = _filled_by(nest.node)

        def step(node: Node) -> Node | None:
            if node.op is not nest.node.op or _filled_by(node) != filled:
                return None
            return with_loops(node, loops)

        self.root = rewrite_with(self.root, step)
        self.log.append(f"reorder {_name(loops)}")

    # -- memory ---------------------------------------------------------------------------------

    def copies(
        self, loops: Iterable[Node], kinds: dict[Node, str] | None = None
    ) -> dict[Node, Node]:
        """Fresh loops of the same sizes."""
        kinds = kinds or {}
        return {r: self.loop(loop_size(r), str(kinds.get(r, r.arg.kind))) for r in loops}

    def staged(
        self,
        value: Node,
        scope: str,
        sizes: tuple[int, ...],
        index: tuple[Node, ...],
        fill: dict[Node, Split],
    ) -> Node:
        """`value` kept in memory of `sizes` at `index`, filled over what its loops become."""
        new = {r: split.expr for r, split in fill.items()}
        places = tuple(simplify(i.substitute(new)) for i in index)
        guard = TRUE
        for split in fill.values():
            guard = guard & split.guard
        loops = tuple(r for split in fill.values() for r in split.ranges)
        filled, arg = replace_ranges(value, fill), StageArg(scope, sizes)  # type: ignore[arg-type]
        return Stage(filled, guard, places, index, loops, arg, value.dtype).node()

    def split_reduction(
        self,
        reduce: Node,
        loop: Node,
        chunks: int,
        axes: tuple[tuple[Node, ...], ...] | None = None,
    ) -> Node:
        """Split a reduction over `loop` into `chunks` partial results and their combination.

        Partial results have an axis for each loop of the results, or for all loops of one of
        `axes`. Returns the loop of the combination.
        """
        if axes is None:
            order = [r for nest in self.nests() for r in nest.loops]
            axes = tuple((r,) for r in sorted(free_ranges(reduce)[reduce], key=order.index))
        free = [r for axis in axes for r in axis]
        per_chunk = -(-loop_size(loop) // chunks)
        part, inner, total = self.loop(chunks), self.loop(per_chunk), self.loop(chunks)
        position = part * per_chunk + inner
        guard = TRUE if chunks * per_chunk == loop_size(loop) else position < loop_size(loop)
        rest = tuple(r for r in closed_ranges(reduce) if r is not loop)
        fresh_inner = self.copies(rest)
        partial = replace_ranges(
            reduce,
            {
                loop: Split(position, (inner,), guard),
                **{r: Split(n, (n,)) for r, n in fresh_inner.items()},
            },
        )
        # Statistics that it reads are combined anew there: loops belong to one nest.
        own = Reduce.of(partial).value.toposort(lambda n: n.op is not Op.STAGE)
        inside = dict.fromkeys(r for n in own if n.op is Op.REDUCE for r in closed_ranges(n))
        fresh = self.copies((*free, *inside))
        value = partial.substitute(fresh)
        sizes = (chunks, *(loop_size(*axis) for axis in axes))
        kept = [number_of(axis) for axis in axes]
        stored = [place.substitute(fresh) for place in kept]
        loops = (part, *(fresh[r] for r in free))
        arg = StageArg("grid", sizes)
        stage = Stage(value, TRUE, (part, *stored), (total, *kept), loops, arg, reduce.dtype)
        combined = Reduce(stage.node(), (total,), ReduceArg(reduce.arg.op)).node()
        self.root = simplify(self.root.substitute({reduce: combined}))
        take("split_reduction")
        self.log.append(f"split the reduction over r{loop.arg.number} into {chunks} chunks")
        return total

    def share_reduction(
        self, reduce: Node, loop: Node, items: int, subgroup: tuple[int, int] | None = None
    ) -> list[Node]:
        """Share a reduction over `loop` among the work items of a workgroup.

        Neighbouring items read neighbouring positions. They combine their parts in a tree of two
        levels, or by `subgroup`, the least and the most items of one. Returns the loops for that.
        """
        size = loop_size(loop)
        item, turn = self.loop(items, "local"), self.loop(-(-size // items))
        position = turn * items + item
        guard = TRUE if size % items == 0 else position < size
        rest = self.copies(r for r in closed_ranges(reduce) if r is not loop)
        splits = {r: Split(n, (n,)) for r, n in rest.items()}
        splits[loop] = Split(position, (turn,), guard)
        value = replace_ranges(reduce, splits)
        if subgroup is None:
            take("tree_reduction")
            combined, combining = self._by_tree(value, item)
        else:
            take("subgroup_reduction")
            combined, combining = self._by_subgroup(value, item, *subgroup)
        self.root = simplify(self.root.substitute({reduce: combined}))
        self.log.append(f"share r{loop.arg.number} among {items} items")
        return combining

    def _by_tree(self, value: Node, item: Node) -> tuple[Node, list[Node]]:
        """The `value` of all work items of a workgroup, combined in memory, level by level."""
        arg, parts, combining = value.arg, loop_size(item), []
        while parts > FEW_PARTS:
            kept = 1 << (parts.bit_length() // 2)
            inner, following = self.loop(parts // kept), self.loop(kept, "local")
            stage = _shared_line(value, item, inner * kept + following)
            value = Reduce(stage, (inner,), arg).node()
            combining.append(inner)
            parts, item = kept, following
        combining.append(self.loop(parts))
        stage = _shared_line(value, item, combining[-1])
        return Reduce(stage, (combining[-1],), arg).node(), combining

    def _by_subgroup(
        self, value: Node, item: Node, least: int, most: int
    ) -> tuple[Node, list[Node]]:
        """The `value` of all work items of a workgroup, combined once by each of its subgroups.

        Every item leaves its value in memory. Then each subgroup reads the values of all items,
        neighbours side by side, and combines what its items have read without memory. So there is
        one barrier, and the order is the same in every run. The usual way round (a value of each
        subgroup through memory) reads as much, but has to know which items form a subgroup: that
        languages leave open.

        Where its size is open as well, a subgroup counts its items, so that nothing depends on
        whether it is full. One of a fixed size that divides the group is full.
        """
        items = loop_size(item)
        count = Node.index(most)
        if least != most or items % most:
            count = Node(Op.WORK_ITEM, dtypes.index, (), VarArg("lanes", 1, most))
        turns = simplify((count + (items - 1)) // count)
        turn, lane = self.loop(turns), self.loop(count, "subgroup")
        place = turn * count + lane
        stage = _shared_line(value, item, simplify(place.minimum(Node.index(items - 1))))
        mine = simplify(place < items).where(stage, identity(value.arg.op, value.dtype))
        return Reduce(mine, (turn, lane), value.arg).node(), [turn, lane]

    def nests(self) -> list[Nest]:
        return nests_of(self.root)


def _shared_line(value: Node, item: Node, place: Node) -> Node:
    """What each work item computes as `value`, kept for its workgroup and read at `place`."""
    arg = StageArg("shared", (loop_size(item),))
    return Stage(value, TRUE, (item,), (place,), (item,), arg, value.dtype).node()


def _filled_by(node: Node) -> tuple[Any, ...]:
    """What makes two nests one: a STAGE that is read at several places is filled once."""
    return (*Stage.of(node).filling, node.arg) if node.op is Op.STAGE else node.src


def _name(loops: Iterable[Node]) -> str:
    return ", ".join(f"r{r.arg.number}" for r in loops)


def _closed_lists(root: Node) -> list[tuple[Node, ...]]:
    return [closed_ranges(n) for n in root.toposort() if closed_ranges(n)]


def _index_uses(root: Node) -> list[Node]:
    """Every index expression and condition as it is used: the largest ones, not their parts."""
    found: dict[Node, None] = {}
    for node in root.toposort():
        if node.dtype.kind == "index" and node.op is not Op.CAST:
            continue
        closed = len(closed_ranges(node))
        for source in node.src[: len(node.src) - closed]:
            if source.dtype.kind == "index":
                found[source] = None
    return list(found)


def _merges(outer: Node, inner: Node, uses: list[Node]) -> bool:
    size = loop_size(inner)
    for index in uses:
        terms, _ = linear_terms(index)
        step_out, step_in = terms.pop(outer, 0), terms.pop(inner, 0)
        if step_out != step_in * size:
            return False
        for term in terms:
            if free_ranges(term)[term] & {outer, inner}:
                return False
    return True
