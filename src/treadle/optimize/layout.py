"""Where values lie in memory of a kernel's own, and the one way to keep them there.

kept(value, arg, index, fill)    a STAGE: `value` at `index` of its loops, filled over others
packed(moves, value, ...)        the same in tiles of lines: [tile..][step][line], by workers
turned(moves, value, ...)        the same in lines of steps: [..][line][step], by workgroups
copied(moves, factor, ...)       the same for a slice of a matrix, by the work items of a workgroup

A slice has some lines and some steps of each. Its Layout says which of the two lie side by side,
and how many of them; how much longer a row is than needed, so that those who go down a column meet
different banks; and whether its pieces of 16 bytes change places for that.

    Layout(lines, steps)                     [line][step]
    Layout(lines, steps, of_lines=True)      [step][line]
    Layout(.., wide=64)                      [panel][step][line of the panel]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self

from ..ir.args import RangeKind, Scope, StageArg
from ..ir.choices import take
from ..ir.loops import TRUE, Split, digits_of, loop_size, number_of, replace_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..ir.views import Load, Stage
from .moves import Moves
from .nest import gating, reads_of, stride

__all__ = [
    "Layout", "Slices", "StagedSlice", "copied", "is_contiguous", "is_in_memory", "kept",
    "lines_of", "packed", "turned",
]  # fmt: skip

FAR = 1 << 9  # bytes from step to step
SHARED_LINES = 128  # bytes of a tile: of fewer, several lie in one line of memory
STRIPE = 8  # steps that all tiles are packed for before the next ones
SQUARE = 32  # neighbours that a subgroup reads, and writes

Loops = tuple[Node, ...]


def kept(
    value: Node, arg: StageArg, index: tuple[Node, ...], fill: dict[Node, Split], gate: Node = TRUE
) -> Node:
    """`value` kept in memory `arg` at `index`, filled over what its loops become, where `gate`."""
    new = {r: split.expr for r, split in fill.items()}
    for split in fill.values():
        gate = gate & split.guard
    places = tuple(simplify(place.substitute(new)) for place in index)
    loops = tuple(r for split in fill.values() for r in split.ranges)
    filled = replace_ranges(value, fill)
    return Stage(filled, gate, places, index, loops, arg, value.dtype).node()


# -- by workers ------------------------------------------------------------------------------------


def packed(
    moves: Moves,
    value: Node,
    scope: Scope,
    around: Loops,
    steps: Loops,
    lines: Loops,
    lanes: int,
    beyond: Mapping[Node, int] | None = None,
) -> Node:
    """`value` kept as [around..][position of the steps][number of the lines].

    It is filled in vectors of so many `lanes`, if any, of the last loop of lines, and where memory
    is contiguous along the last step in squares, which are turned in registers. So it is where the
    lines of a tile are one vector: that is little work for a step. Workers share the loops `around`
    of what is kept for all; `beyond` says how much longer some of them are kept.
    """
    reads, beyond = reads_of(value), beyond or {}
    lies_across = scope == "grid" and _lies_across(value, steps, lines)
    is_turned = lanes > 0 and any(stride(index, r) == 1 for index in reads for r in steps[-1:])
    is_vector = lanes > 0 and not lies_across and [r.arg.kind for r in lines] == ["unroll"]
    kinds: dict[Node, RangeKind] = {}
    if any(stride(index, r) != 1 for index in reads for r in lines[-1:]):
        # Lanes that each come from another place, or squares, are much code: one vector at a time.
        kinds = dict.fromkeys(lines[:-1], "loop")
    outside = [] if is_turned else [*kinds]
    order = sorted(steps, key=lambda r: r not in gating(value))  # conditions are computed outside
    fill: dict[Node, Split] = {}
    if lies_across:
        fill = moves.whole(steps[:-1], "grid")
        fill[steps[-1]] = moves.tiled(loop_size(steps[-1]), (STRIPE, "loop"), outer="grid")
        take("striped_packing")
    fill |= moves.whole(around, "grid")
    fill |= moves.whole((r for r in (*outside, *order, *lines) if r not in fill), kinds)
    if is_turned or is_vector:
        fill |= _in_squares(moves, reads, steps, lanes)
    if lanes:
        fill |= {r: moves.tiled(loop_size(r), (lanes, "vector")) for r in lines[-1:]}
    sizes = (*(loop_size(r) + beyond.get(r, 0) for r in around), loop_size(*steps))
    index = (*around, number_of(steps), number_of(lines))
    return kept(value, StageArg(scope, (*sizes, loop_size(*lines))), index, fill)


def _lies_across(value: Node, steps: Loops, lines: Loops) -> bool:
    """Whether several tiles lie side by side in lines of memory, each step far from the one before.

    Tile by tile a line would be fetched for a few elements, and be gone when the next tile wants
    the others: all lines a page apart share one place of the cache. So all tiles are packed for a
    few steps, then for the next ones.
    """
    size = value.dtype.itemsize
    if loop_size(*steps) <= STRIPE or loop_size(*lines) * size >= SHARED_LINES:
        return False
    places = [stride(index, steps[-1]) for index in reads_of(value)]
    return all(s is not None and s * size >= FAR for s in places)


def _in_squares(moves: Moves, reads: list[Node], steps: Loops, side: int) -> dict[Node, Split]:
    """The innermost steps, as many as memory is contiguous in, `side` unrolled ones at a time."""
    run: Loops = ()
    for r in reversed(steps):
        if any(stride(index, r) != loop_size(*run) for index in reads):
            break
        run = (r, *run)
    if len(run) < 2:
        return {steps[-1]: moves.tiled(loop_size(steps[-1]), (side, "unroll"))}
    return moves.flatten(run, moves.tiled(loop_size(*run), (side, "unroll")))


# -- by workgroups ---------------------------------------------------------------------------------


def turned(
    moves: Moves, value: Node, others: Loops, line: Node, step: Node, work_items: int, each: int
) -> Node:
    """`value` kept as [others..][line][step], each line so many times `each` long as it takes.

    So many work items read squares and write them in rows. Where memory is contiguous along lines,
    a square goes through shared memory in between.
    """
    rows = work_items // SQUARE
    fill = moves.whole(others, "grid")
    fill[line] = moves.tiled(
        loop_size(line), (SQUARE // rows, "unroll"), (rows, "local"), outer="grid"
    )
    fill[step] = moves.tiled(loop_size(step), (SQUARE, "local"), outer="grid")
    if not is_contiguous(value, step):
        value = _square(moves, value, line, step, fill, rows)
    sizes = (*map(loop_size, others), loop_size(line), -(-loop_size(step) // each) * each)
    take("transposed_operand")
    return kept(value, StageArg("grid", sizes), (*others, line, step), fill)


def _square(
    moves: Moves, value: Node, line: Node, step: Node, fill: dict[Node, Split], rows: int
) -> Node:
    """A square of `value`, read in rows of memory."""
    turn, row, lane = (
        moves.loop(SQUARE // rows, "unroll"), moves.loop(rows, "local"), moves.loop(SQUARE, "local")
    )  # fmt: skip
    inside = (r for split in fill.values() for r in split.ranges if r.arg.kind != "grid")
    first = dict.fromkeys(inside, Node.index(0))
    deep, long = (fill[r].expr.substitute(first) for r in (step, line))
    deep, long = deep + turn * rows + row, long + lane
    square = {
        step: Split(deep, (turn, row), simplify(deep < loop_size(step))),
        line: Split(long, (lane,), simplify(long < loop_size(line))),
    }
    arg = StageArg("shared", (SQUARE, SQUARE + 1))
    return kept(value, arg, (step % SQUARE, line % SQUARE), square)


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


class Slices(NamedTuple):
    """Slices of `depth` steps, the loop `inner` of each, which workgroups go through.

    So many are in memory at a time, in `buffers`; as many `work_items` bring them there.
    """

    moves: Moves
    inner: Node
    depth: int
    work_items: int
    buffers: int


@dataclass(frozen=True)
class StagedSlice:
    """A STAGE of a slice, and where it has what."""

    stage: Node
    layout: Layout

    def swapped(self) -> Self:
        """The transposed factor, from the same memory."""
        old = self.layout
        lines, steps, of_lines = old.steps, old.lines, not old.of_lines
        return replace(self, layout=replace(old, lines=lines, steps=steps, of_lines=of_lines))

    def read(self, line: Node, step: Node) -> Node:
        """The STAGE, read at a step of a line."""
        return Stage.of(self.stage)._replace(read=self.layout.place(line, step)).node()


def copied(
    slices: Slices,
    factor: Node,
    line: Split,
    layout: Layout,
    each: int,
    order: Literal["steps", "lines", "panels", "across"],
) -> StagedSlice:
    """A slice of `factor`: its steps of what `line` has of a tile.

    Work items that are neighbours copy pieces of `each` element that are so along steps, along
    lines, of all panels or one after the other; or, "across", a piece of steps of neighbouring
    lines. What they compute they store, what memory holds (or 0) they can copy asynchronously.
    """
    moves, inner, steps, work_items, buffers = slices
    lines, mine = layout.lines, lines_of(line)
    pieces, work_item = lines * steps // each, moves.loop(work_items, "local")
    lanes = moves.tiled(each, outer="vector")
    turns = moves.tiled(-(-pieces // work_items), outer="unroll")
    number, lane = turns.expr * work_items + work_item, lanes.expr
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
    loops = (*turns.ranges, work_item, *lanes.ranges)
    fill = {inner: Split(simplify(deep % steps), loops)}
    fill |= {r: Split(simplify(at), ()) for r, at in zip(mine, digits, strict=True)}
    how = "copies" if buffers > 1 and is_in_memory(factor) else "stores"
    swizzle = layout.sizes[-1] * factor.dtype.itemsize if layout.is_swizzled else 0
    arg = StageArg("shared", layout.sizes, buffers, how, swizzle)
    stage = kept(factor, arg, layout.place(number_of(mine), inner), fill, simplify(number < pieces))
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
