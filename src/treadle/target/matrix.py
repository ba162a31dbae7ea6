"""Matrix units as data: what they multiply, and which element each lane's registers hold.

    fragment("mk", "k4:2 m8", "k2 m2:8 k2:8").place(5, 2)   ->  (9, 2)

is A of PTX's mma.m16n8k16: lane 5 holds row 9, column 2 as its element 2. The texts say how the
number of a lane, and that of an element among those of a lane, are made of digits, the lowest one
first. "k4:2" is a digit of four values, each of them two columns further on than the one before;
":1" is left out, and "-2" are two lanes or elements that hold the same.

Elements are numbered as they lie in registers: those of two bytes are halves of register 0, then
of register 1. Maps of factors are to lines (rows of x, columns of y) and steps of the sum.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treadle.dtype import DType

__all__ = [
    "LINE_PADDING", "Digit", "Fragment", "Levels", "MatrixLoad", "MatrixUnit", "Part",
    "SwizzledRows", "Tiling", "fragment",
]  # fmt: skip

WORD = 4  # bytes of a register
# Bytes behind a line of words: four lines of neighbouring words are in different banks then.
LINE_PADDING = 32


class Digit(NamedTuple):
    """One of `extent` values, each `step` further along an axis: 0 rows, 1 columns, None copies."""

    axis: int | None
    extent: int
    step: int = 1


class Part(NamedTuple):
    """A digit of a row or column number: `weight` times it is in the lane's or element's number."""

    extent: int
    is_lane: bool
    weight: int


@dataclass(frozen=True)
class Fragment:
    """Which row and column of a matrix each element of each lane is.

    Raises ValueError unless every place of the matrix is held, by as many lanes as copies say.
    """

    lanes: tuple[Digit, ...]
    elements: tuple[Digit, ...]

    def __post_init__(self) -> None:
        for axis in (0, 1):
            size = 1
            for digit in sorted((d for d in self._digits if d.axis == axis), key=_step):
                if digit.step != size:
                    raise ValueError(f"axis {axis} of {self} has a gap, or places held twice")
                size *= digit.extent

    @property
    def _digits(self) -> tuple[Digit, ...]:
        return (*self.lanes, *self.elements)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        rows, columns = (
            math.prod(d.extent for d in self._digits if d.axis == axis) for axis in (0, 1)
        )
        return rows, columns

    @property
    def width(self) -> int:
        """How many lanes hold the matrix together."""
        return math.prod(d.extent for d in self.lanes)

    @property
    def count(self) -> int:
        """How many elements each of them holds."""
        return math.prod(d.extent for d in self.elements)

    @property
    def neighbours(self) -> int:
        """How many elements of a lane are side by side in a row, from the first on."""
        axis, extent, step = self.elements[0] if self.elements else (None, 1, 1)
        return extent if (axis, step) == (1, 1) else 1

    def place(self, lane: int, element: int) -> tuple[int, int]:
        """The row and the column of one element."""
        place = [0, 0]
        for number, digits in ((lane, self.lanes), (element, self.elements)):
            for digit in digits:
                number, value = divmod(number, digit.extent)
                if digit.axis is not None:
                    place[digit.axis] += value * digit.step
        return place[0], place[1]

    def holders(self, row: int, column: int) -> list[tuple[int, int]]:
        """The lanes that hold a place, each with the number of its element: undoes `place`."""
        place, held = (row, column), [(0, 0)]
        for is_lane, digits in ((True, self.lanes), (False, self.elements)):
            weight = 1
            for axis, extent, step in digits:
                copies = range(extent) if axis is None else [place[axis] // step % extent]
                more = [(n * weight, 0) if is_lane else (0, n * weight) for n in copies]
                held = [(lane + a, element + b) for a, b in more for lane, element in held]
                weight *= extent
        return held

    def parts(self, axis: int) -> tuple[Part, ...]:
        """The digits of a row (axis 0) or column number, the highest first."""
        found = []
        for is_lane, digits in ((True, self.lanes), (False, self.elements)):
            weight = 1
            for digit in digits:
                if digit.axis == axis:
                    found.append((digit.step, Part(digit.extent, is_lane, weight)))
                weight *= digit.extent
        return tuple(part for _, part in sorted(found, reverse=True))

    def words(self, itemsize: int) -> Fragment:
        """The map of whole registers of 32 bits: columns are counted in those.

        Raises ValueError where a register holds elements that are no neighbours in a row.
        """
        each, first = WORD // itemsize, self.elements[:1]
        if each == 1:
            return self
        if not first or first[0].axis != 1 or first[0].step != 1 or first[0].extent % each:
            raise ValueError(f"{each} elements of {self} are no neighbours in a row")
        (wide,) = first
        rest = (wide._replace(extent=wide.extent // each, step=each), *self.elements[1:])
        lanes, elements = (
            tuple(d._replace(step=d.step // each) if d.axis == 1 else d for d in digits)
            for digits in (self.lanes, _of_more_than_one(rest))
        )
        return Fragment(lanes, elements)

    def tiled(self, each: tuple[int, int], workers: tuple[int, int] = (1, 1)) -> Fragment:
        """The map of a tile: so many such matrices of each of so many workers, with other lanes."""
        lanes, elements, shape = [*self.lanes], [*self.elements], self.shape
        for axis in (1, 0):
            elements.append(Digit(axis, each[axis], shape[axis]))
            count, step = workers[axis], shape[axis] * each[axis]
            last = lanes[-1] if lanes else Digit(None, 1)
            if last.axis == axis and last.step * last.extent == step:
                lanes[-1] = last._replace(extent=last.extent * count)
            elif count > 1:
                lanes.append(Digit(axis, count, step))
        return Fragment(tuple(lanes), _of_more_than_one(elements))

    def with_columns(self, columns: int) -> Fragment:
        """The map of the first columns, of a matrix whose last elements are further columns."""
        last = self.elements[-1]
        last = last._replace(extent=columns // last.step)
        return Fragment(self.lanes, _of_more_than_one((*self.elements[:-1], last)))


def _step(digit: Digit) -> int:
    return digit.step


def fragment(axes: str, lanes: str, elements: str) -> Fragment:
    """The map that digits of lanes and elements say, by the letters of rows and columns."""
    return Fragment(_parsed(axes, lanes), _parsed(axes, elements))


def _parsed(axes: str, text: str) -> tuple[Digit, ...]:
    """Digits of what stands in a text such as "k4:2 m8 -2"."""
    found = []
    for word in text.split():
        matched = re.fullmatch(rf"([{axes}-])(\d+)(?::(\d+))?", word)
        if matched is None:
            raise ValueError(f"{word!r} is no digit along {axes!r}, such as {axes[0]}4:2")
        axis, extent, step = matched.groups(default="1")
        found.append(Digit(None if axis == "-" else axes.index(axis), int(extent), int(step)))
    return _of_more_than_one(found)


def _of_more_than_one(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    return tuple(digit for digit in digits if digit.extent > 1)


@dataclass(frozen=True)
class MatrixLoad:
    """An instruction that reads small matrices from shared memory, some at a time.

    Each has `lines` of `line_bytes`. Lane `lines` * m + i names where line i of matrix m begins,
    and each lane gets one word of each matrix, as `held` says.
    """

    lines: int
    line_bytes: int
    held: Fragment

    def gives(self, words: Fragment) -> bool:
        """Whether registers that hold such words are one matrix each."""
        sizes = (self.lines, self.line_bytes // WORD)
        whole = (d.axis is not None and d.step % sizes[d.axis] == 0 for d in words.elements)
        return words.lanes == self.held.lanes and all(whole)


@dataclass(frozen=True)
class SwizzledRows:
    """How a unit reads a factor from shared memory: in rows of `row` bytes of one line.

    `together` rows are swizzled as one, in pieces of `piece` bytes. Of elements of `turned` bytes
    it also takes rows of one step that neighbouring lines are side by side in.
    """

    row: int
    together: int
    piece: int
    turned: int


class Levels(NamedTuple):
    """A tile: results of a unit, units of a worker, and workers, each along rows and columns.

    It reaches so much of the unit's `speed`.
    """

    unit: tuple[int, int]
    each: tuple[int, int]
    workers: tuple[int, int]
    speed: float = 1.0


@dataclass(frozen=True)
class Tiling:
    """Which tiles products have on a unit, the best first, and what decides between them.

    The tile with the least `cost` is taken: the fewest workgroups that are missing to keep all of
    the processor at work, the least time by the tile's speed, or the fewest loads and the least
    padding. Along an axis a worker has no more units than the product needs, one of `counts` if
    there are any: as many as reach over all of it or, if it `fills` tiles, as it has work for. A
    product has `least` rows, columns and steps, or most of the work would be for nothing.

    Slices have as many steps of the unit as one of `turns` says, and `padding` bytes behind each
    line; without any nothing is cut into slices. At most `buffers` of them are in memory, so that
    it is enough for so many `workgroups` at a time, each with what is `reserved` besides. Of chains
    of products a workgroup has so many workers `side_by_side`, the best first.
    """

    levels: tuple[Levels, ...]
    cost: Literal["workgroups", "time", "loads"] = "workgroups"
    counts: tuple[int, ...] = ()
    fills: bool = False
    least: int = 1
    turns: tuple[int, ...] = ()
    padding: int = 0
    buffers: int = 1
    workgroups: int = 2
    reserved: int = 0
    side_by_side: tuple[int, ...] = (4,)


@dataclass(frozen=True)
class MatrixUnit:
    """What is multiplied at once: `rows` x `steps` by `steps` x `columns` of `dtype`.

    Products are exact, unless factors have 32 bits, and their sums of dtype `sums`. `name` is the
    kind of numbers: the dtype, or "tf32" where factors of float32 are rounded to 11 bits first (or
    cut, by units of four subgroups). `instruction` is what the unit is called in the processor's
    language or instruction set.

    `x`, `y` and `out` say which lane holds what: lanes of one subgroup, or of four together.
    Units with `memory` read factors from shared memory by themselves, y always and x if it is not
    held; they compute fewer `columns`, too. `load` brings words of factors from shared memory,
    without it work items read their own. `tiling` says which tiles a product has on it, None for
    none yet.
    """

    name: str
    instruction: str
    dtype: DType
    sums: DType
    rows: int
    columns: int
    steps: int
    x: Fragment | None = None
    y: Fragment | None = None
    out: Fragment | None = None
    memory: SwizzledRows | None = None
    load: MatrixLoad | None = None
    tiling: Tiling | None = None

    def __post_init__(self) -> None:
        shapes = ((self.rows, self.steps), (self.columns, self.steps), (self.rows, self.columns))
        held = (self.x, self.y, self.out)
        for shape, each in zip(shapes, held, strict=True):
            if each is not None and each.shape != shape:
                raise ValueError(f"{self.instruction} has {shape}, and holds {each.shape}")
        if len({tuple(d.extent for d in each.lanes) for each in held if each is not None}) > 1:
            raise ValueError(f"the operands of {self.instruction} count lanes differently")

    @property
    def transposes(self) -> bool:
        """Whether a factor of 16 bits is read from shared memory whichever way it lies there."""
        return self.load is not None or self.memory is not None

    @property
    def held(self) -> tuple[Fragment, Fragment, Fragment]:
        """Which words of 32 bits of x and of y, and which sums, the lanes of a subgroup hold."""
        assert self.x is not None
        assert self.y is not None
        assert self.out is not None
        return self.x.words(self.dtype.itemsize), self.y.words(self.dtype.itemsize), self.out
