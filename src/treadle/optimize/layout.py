"""Where values lie in memory of a kernel's own, and the one way to keep them there.

kept(value, arg, index, fill)    a STAGE: `value` at `index` of its loops, filled over others
copied(moves, factor, ...)       the same for a slice of a matrix, by the work items of a workgroup

A slice has some lines and some steps of each. Its Layout says which of the two lie side by side,
and how many of them; how much longer a row is than needed, so that those who go down a column meet
different banks; and whether its pieces of 16 bytes change places for that.

    Layout(lines, steps)                     [line][step]
    Layout(lines, steps, of_lines=True)      [step][line]
    Layout(.., wide=64)                      [panel][step][line of the panel]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..ir.args import StageArg
from ..ir.loops import TRUE, Split, digits_of, number_of, replace_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Load, Stage
from .moves import Moves
from .nest import stride

__all__ = [
    "Layout", "StagedSlice", "copied", "is_contiguous", "is_in_memory", "kept", "lines_of",
]  # fmt: skip


def kept(
    value: Node,
    arg: StageArg,
    index: tuple[Node, ...],
    fill: dict[Node, Split],
    gate: Node = TRUE,
) -> Node:
    """`value` kept in memory `arg` at `index`, filled over what its loops become, where `gate`."""
    new = {r: split.expr for r, split in fill.items()}
    for split in fill.values():
        gate = gate & split.guard
    places = tuple(simplify(place.substitute(new)) for place in index)
    loops = tuple(r for split in fill.values() for r in split.ranges)
    filled = replace_ranges(value, fill)
    return Stage(filled, gate, places, index, loops, arg, value.dtype).node()


@dataclass(frozen=True)
class Layout:
    """Rows of `wide` steps of each of the lines; or, if they are `of_lines`, lines of each step."""

    lines: int
    steps: int
    of_lines: bool = False
    wide: int = 0  # all of them
    pad: int = 0
    is_swizzled: bool = False

    @property
    def _extents(self) -> tuple[int, int]:
        """How many lie side by side, and how often."""
        return (self.lines, self.steps) if self.of_lines else (self.steps, self.lines)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The extents of the memory."""
        along, across = self._extents
        wide = self.wide or along
        return (*([along // wide] if wide < along else []), across, wide + self.pad)

    def place(self, line: Node, step: Node) -> tuple[Node, ...]:
        """Where a step of a line is."""
        along, across = (line, step) if self.of_lines else (step, line)
        if not 0 < self.wide < self._extents[0]:
            return simplify(across), simplify(along)
        return simplify(along // self.wide), simplify(across), simplify(along % self.wide)


@dataclass(frozen=True)
class StagedSlice:
    """A STAGE of a slice, and where it has what."""

    stage: Node
    layout: Layout

    def read(self, line: Node, step: Node) -> Node:
        """The STAGE, read at a step of a line."""
        return Stage.of(self.stage)._replace(read=self.layout.place(line, step)).node()


def copied(
    moves: Moves,
    factor: Node,
    line: Split,
    inner: Node,
    layout: Layout,
    work_items: int,
    buffers: int,
    each: int,
    order: Literal["steps", "lines", "panels", "across"],
) -> StagedSlice:
    """A slice of `factor`, in so many buffers: the steps `inner` of what `line` has of a tile.

    Work items that are neighbours copy pieces of `each` element that are so along steps, along
    lines, of all panels or one after the other; or, "across", a piece of steps of neighbouring
    lines. What they compute they store, what memory holds (or 0) they can copy asynchronously.
    """
    lines, steps, mine = layout.lines, layout.steps, lines_of(line)
    count = lines * steps // each
    work_item = moves.loop(work_items, "local")
    lane = moves.loop(each, "vector") if each > 1 else Node.index(0)
    turns = -(-count // work_items)
    turn = moves.loop(turns, "unroll") if turns > 1 else Node.index(0)
    number = work_item if turns == 1 else turn * work_items + work_item
    gate = TRUE if turns * work_items == count else simplify(number < count)
    loops = tuple(r for r in (turn, work_item, lane) if r.op is Op.RANGE)
    long = {"steps": steps, "lines": lines, "panels": layout.wide or lines, "across": each}[order]
    along, across = number % (long // each) * each + lane, number // (long // each)
    if order == "steps":
        place, deep = across, along
    elif order == "across":
        place, deep = across % lines, across // lines * each + along
    else:
        place, deep = across // steps * long + along, across
    # What work items too many read is not stored, but is there to be read.
    digits = digits_of(simplify(place % lines), mine)
    fill = {inner: Split(simplify(deep % steps), loops)}
    fill |= {r: Split(simplify(at), ()) for r, at in zip(mine, digits, strict=True)}
    how = "copies" if buffers > 1 and is_in_memory(factor) else "stores"
    swizzle = layout.sizes[-1] * factor.dtype.itemsize if layout.is_swizzled else 0
    arg = StageArg("shared", layout.sizes, buffers, how, swizzle)
    stage = kept(factor, arg, layout.place(number_of(mine), inner), fill, gate)
    return StagedSlice(stage, layout)


def is_in_memory(value: Node) -> bool:
    """Whether it is what memory holds, or 0."""
    load = Load.of(value) if value.op is Op.LOAD else None
    return load is not None and load.memory.op is Op.PARAM and load.other.value == 0


def lines_of(line: Split) -> tuple[Node, ...]:
    """The loops of a tile's lines."""
    return tuple(r for r in line.ranges if r.arg.kind != "grid")


def is_contiguous(factor: Node, loop: Node) -> bool:
    """Whether something that a factor is computed from is contiguous in a loop."""
    return any(n.op is Op.LOAD and stride(Load.of(n).index, loop) == 1 for n in factor.toposort())
