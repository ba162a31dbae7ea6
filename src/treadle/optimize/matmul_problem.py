"""Matmul-like nests: their reduction, their factors, and whose loops are whose.

recognise(nest)  ->  MatmulProblem(reduce, x, y, batch, rows, columns), or None

out[i, j] = epilogue(sum over k of x[i, k] * y[k, j])
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir.loops import closed_ranges, free_ranges, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Load, Reduce, operands
from .choose_tile import Product
from .masked_bounds import Span
from .nest import Nest, reads_of, stride
from .windows import Windows
from .zero_steps import rows_with_own_steps, share_of_steps, spans_of

__all__ = ["MatmulProblem", "factors_of", "lasts", "recognise", "uses"]

MAX_INTERLEAVED = 4
WORTH = 1 / 128  # of all steps: fewer are not worth a loop whose size varies


@dataclass(frozen=True)
class MatmulProblem:
    """A matmul-like nest: its reduction, its factors, and whose loops are whose."""

    reduce: Node
    x: Node
    y: Node
    batch: tuple[Node, ...]
    rows: tuple[Node, ...]
    columns: tuple[Node, ...]
    windows: Windows | None = None
    around: tuple[Node, ...] = ()  # rows that differ from tile to tile alone

    @property
    def steps(self) -> tuple[Node, ...]:
        return closed_ranges(self.reduce)

    @property
    def product(self) -> Product:
        """Its sizes; rows around tiles count as products of their own."""
        loops = (self.rows_of_tiles, self.columns, self.steps, (*self.batch, *self.around))
        return Product(*(loop_size(*each) for each in loops))

    @property
    def rows_of_tiles(self) -> tuple[Node, ...]:
        """The rows that are cut into tiles."""
        return tuple(r for r in self.rows if r not in self.around)

    def swapped(self) -> MatmulProblem:
        """The same with rows as columns."""
        return replace(self, x=self.y, y=self.x, rows=self.columns, columns=self.rows)

    def with_uniform_padding(self) -> MatmulProblem | None:
        """The same with tiles of rows that windows do not move along, if there are such.

        Not where an image is read in place: padding is a row of zeros there. Where rows are no
        windows, those that have steps of their own are in tiles of their own.
        """
        if self.windows is None:
            around = rows_with_own_steps(self.x, self.rows, self.steps)
        elif self.windows.is_in_place:
            return None
        else:
            paired = {pair.row for pair in self.windows.pairs}
            around = tuple(r for r in self.rows if r in paired)
        return replace(self, around=around) if 0 < len(around) < len(self.rows) else None

    @property
    def spans(self) -> dict[Node, Span]:
        """The steps that rows leave: those around tiles, or enough of those of windows."""
        if self.windows is None:
            return spans_of(self.x, self.around, self.steps)
        found = spans_of(self.x, self.rows, self.steps).items()
        return {step: span for step, span in found if share_of_steps({step: span}) <= 1 - WORTH}


def recognise(nest: Nest) -> MatmulProblem | None:
    """The matmul-like problem that a nest is, or None."""
    reduces = nest.reduces()
    if len(reduces) != 1 or len(nest.stores()) != 1:
        return None
    reduce = reduces[0]
    if any(n.op in (Op.REGISTER, Op.UPDATE) for n in nest.nodes()):
        return None
    factors = factors_of(Reduce.of(reduce).value)
    if reduce.arg.op is not Op.ADD or factors is None:
        return None
    free = free_ranges(reduce)
    loops = frozenset(nest.loops)
    if free[reduce] != loops:
        return None
    column = _column(nest, factors)
    for x, y in (factors, factors[::-1]):
        of_x, of_y = free[x] & loops, free[y] & loops
        if of_x | of_y == loops and of_x - of_y and column in of_y - of_x:
            pick = lambda wanted: tuple(r for r in nest.loops if r in wanted)
            return MatmulProblem(
                reduce, x, y, pick(of_x & of_y), pick(of_x - of_y), pick(of_y - of_x)
            )
    return None


def _column(nest: Nest, factors: tuple[Node, Node]) -> Node | None:
    """The loop that lanes run over: the one that the result is contiguous in.

    A few steps of another one may lie between, such as the places between two strides of a
    convolution, where only the other factor depends on them.
    """
    steps = {stride(nest.stores()[0], r): r for r in nest.loops}
    inner = steps.get(1)
    if inner is None or loop_size(inner) > MAX_INTERLEAVED:
        return inner
    outer = steps.get(loop_size(inner))
    if outer is None:
        return inner
    for x, y in (factors, factors[::-1]):
        apart = not uses(y, (inner,)) and not uses(x, (outer,))
        if apart and any(stride(index, outer) == 1 for index in reads_of(y)):
            return outer
    return inner


def factors_of(value: Node) -> tuple[Node, Node] | None:
    """The two factors of a product; a mask or a cast around it moves onto them."""
    if value.op is Op.MUL and value.dtype.kind in ("float", "int", "uint"):
        return operands(value)
    return None


def lasts(factor: Node) -> bool:
    """Whether most launches find the same values in `factor`: then packing it is done once.

    Not where its place is a variable: each round of a loop reads another row of a sequence.
    """
    nodes = factor.toposort()
    memory = [Load.of(n).memory for n in nodes if n.op is Op.LOAD]
    is_steady = not any(n.op is Op.VARIABLE for n in nodes)
    return bool(memory) and is_steady and all(m.op is Op.PARAM and m.arg.lasts for m in memory)


def uses(node: Node, loops: tuple[Node, ...]) -> bool:
    return bool(ranges_of(node) & frozenset(loops))
