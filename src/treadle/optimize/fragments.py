"""Factors of a product in shared memory, and the words that the work items of a subgroup hold.

A slice of a factor has some lines (rows of x, columns of y) and some steps of k. It lies in a STAGE

    [line][k]                          if it is contiguous along k in memory
    [panel][k][line of the panel]      if along lines; FRAGMENTs turn elements of two bytes
    [k][line], lines padded            likewise for four bytes, of which single ones are read

so that pieces of 16 bytes stay together, and are copied by one instruction each. Elements of one
byte are always in lines along k, and those of two where no instruction turns them: then work items
read their words themselves, up to four at a time. The first two are swizzled: what a subgroup
copies or reads at a time is in different banks everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..dtype import dtypes
from ..ir.loops import Split, loop_size, number_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..target import LINE_PADDING, Fragment, MatrixLoad
from .layout import Layout, StagedSlice, copied, is_contiguous, lines_of
from .moves import Moves
from .unit_loops import place_in

__all__ = ["FragmentOperand", "staged"]

PIECE = 16  # bytes that are copied at a time
WIDEST_LINE = 128  # bytes of a STAGE that are swizzled together
WORD = 4


@dataclass(frozen=True)
class FragmentOperand(StagedSlice):
    """A slice. One that `is_swapped` has k where it says lines, and lines where k."""

    load: MatrixLoad | None
    is_swapped: bool = False

    def swapped(self) -> FragmentOperand:
        """The transposed factor, from the same memory; elements have two bytes."""
        return replace(self, is_swapped=not self.is_swapped)

    def words(
        self,
        held: Fragment,
        lane: tuple[Node, ...],
        line: Node,
        deep: Node,
        again: tuple[Node, ...] = (),
    ) -> Callable[[Node], Node]:
        """The words of one work item by number, which `held` says of lines and words of k.

        `lane` are the digits of its number in the subgroup, the lowest first. The matrix begins at
        a `line` and at the element `deep` of k. In each step of the loops `again` words are read
        anew, even if they are the same.
        """
        each = WORD // self.stage.dtype.itemsize

        def read(place: tuple[Node, Node], more: Node | int = 0, deeper: Node | int = 0) -> Node:
            at = (line + place[0] + more, deep + place[1] * each + deeper)
            return self.read(*reversed(at) if self.is_swapped else at)

        if not self.layout.is_swizzled:
            return lambda number: read(place_in(held, lane, number)).bitcast(dtypes.uint32)
        if self.load is None:
            run = _neighbours(held)

            def own_words(number: Node) -> Node:
                start = read(place_in(held, lane, simplify(number // run * run)))
                words = Node(Op.FRAGMENT, dtypes.uint32.vec(run), (start,), "own")
                own = simplify(number % run)
                return words if run == 1 else Node(Op.EXTRACT, dtypes.uint32, (words, own))

            return own_words
        assert self.load.gives(held)
        work_item = number_of(lane[::-1])
        # The matrix of which this work item names a line, and which line.
        named = simplify(work_item // self.load.lines)
        own = simplify(work_item % self.load.lines)
        first = place_in(held, (Node.index(0),) * len(held.lanes), named)
        turned = self.layout.of_lines != self.is_swapped
        start = read(first, deeper=own) if turned else read(first, own)
        start = Node(Op.AFTER, start.dtype, (start, *again)) if again else start
        words = dtypes.uint32.vec(held.count)
        fragment = Node(Op.FRAGMENT, words, (start,), turned or None)
        return lambda number: Node(Op.EXTRACT, dtypes.uint32, (fragment, simplify(number)))


def staged(
    moves: Moves,
    factor: Node,
    line: Split,
    inner: Node,
    depth: int,
    work_items: int,
    buffers: int,
    load: MatrixLoad | None,
) -> FragmentOperand:
    """`factor` for one slice of `depth` steps and one tile of lines, in so many buffers.

    Each of `work_items` copies whole pieces along what is contiguous in memory: k, or neighbouring
    lines. Words are read by `load`, if there is one.
    """
    lines, width = loop_size(*lines_of(line)), factor.dtype.itemsize
    is_along = is_contiguous(factor, inner)
    layout = _layout(lines, depth, width, is_along, load is not None)
    order = "steps" if is_along else "lines"
    made = copied(moves, factor, line, inner, layout, work_items, buffers, PIECE // width, order)
    return FragmentOperand(made.stage, layout, load)


def _neighbours(held: Fragment) -> int:
    """How many neighbouring words of a line a work item holds, of those that are read at once."""
    first = held.elements[0] if held.elements else None
    is_along = first is not None and first.axis == 1 and first.step == 1
    return min(first.extent, PIECE // WORD) if first is not None and is_along else 1


def _layout(lines: int, depth: int, width: int, is_along: bool, turns: bool) -> Layout:
    """How a slice lies of elements of so many bytes, which is contiguous in memory along k or not.

    `turns`: an instruction transposes elements of two bytes as it reads them.
    """
    if is_along or width == 1 or (width == 2 and not turns):
        return Layout(lines, depth, is_swizzled=True)
    if width > 2:
        return Layout(lines, depth, True, pad=LINE_PADDING // width)
    return Layout(lines, depth, True, min(lines, WIDEST_LINE // width), is_swizzled=True)
