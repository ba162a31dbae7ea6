"""Scans: down columns, with a row of totals in cache, or along rows, in the lanes of vectors.

A scan is what nest.running_total finds. Which of the two it becomes is decided by how its results
lie; column_reduction.py and lower/lane_scans.py do it. All others take their steps one by one.
"""

from __future__ import annotations

from ..ir.loops import has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Store, operands
from ..target import Target
from .column_reduction import RowScan, dtype_of_total
from .column_strips import LEAST_STRIP, strip_size
from .lane_width import lanes_of
from .moves import Moves
from .nest import Nest, reads_of, running_total, sequential_loops, stride
from .records import Loop

__all__ = ["scan_along_row", "scan_columns"]

ROWS = 4  # at a time: each is written, too
MOST_NODES = 256  # what is computed in a row: more leaves no room for several
FAR = 1 << 10  # bytes from row to row
LEAST_VECTORS = 2  # of a row


def scan_columns(moves: Moves, nest: Nest, target: Target) -> bool:
    """Schedule `nest`, if it is a scan down columns. Whether it is."""
    total, row = running_total(nest), sequential_loops(nest)
    if total is None or not _is_plain(nest) or len(row) != 1 or loop_size(*row) < 2 * ROWS:
        return False
    column = _column_of(nest, *row)
    if column is None:
        return False
    size = strip_size(
        loop_size(column),
        others=loop_size(*(r for r in nest.loops if r not in (column, *row))),
        most=target.l1 // 3 // dtype_of_total(total, target).itemsize,
        least=LEAST_STRIP // max(value.dtype.itemsize for value in nest.values),
        copies=1,
        lanes=lanes_of(nest, target, 2),
    )
    if size is None:
        return False
    moves.make(RowScan(moves.number_of(nest), Loop.of(column), Loop.of(*row), size, ROWS))
    return True


def _is_plain(nest: Nest) -> bool:
    """Whether a nest over loops of fixed sizes stores elements of what it reads, and of few."""
    if nest.node.op is not Op.END or nest.is_scheduled or len(nest.nodes()) > MOST_NODES:
        return False
    plain = all(e.op is Op.STORE and Store.of(e).memory.op is Op.PARAM for e in nest.effects)
    keeps = any(n.op in (Op.REDUCE, Op.STAGE) for n in nest.nodes())
    return plain and not keeps and all(has_fixed_size(r) for r in nest.loops)


def _column_of(nest: Nest, row: Node) -> Node | None:
    """The loop that goes along the rows, which are far apart."""
    stores = [(s.index, s.value.dtype.itemsize) for s in map(Store.of, nest.effects)]
    reads = [index for value in nest.values for index in reads_of(value)]
    for column in nest.loops:
        along = all(stride(index, column) == 1 for index, _ in stores)
        apart = [abs(stride(index, row) or 0) * nbytes for index, nbytes in stores]
        if along and min(apart) >= FAR and all(stride(i, column) in (0, 1) for i in reads):
            return column
    return None


def scan_along_row(nest: Nest, ordered: tuple[Node, ...], lanes: int) -> Node | None:
    """The loop of a scan whose steps lie side by side, if it is one whose parts combine.

    Products of floats do not: a part that is too large, or too small, for its type shows in the
    whole.
    """
    total = running_total(nest)
    if total is None or len(ordered) != 1:
        return None
    (loop,), (register, update) = ordered, operands(total)
    is_product = update.arg is Op.MUL and register.dtype.is_float
    if is_product or loop_size(loop) < LEAST_VECTORS * lanes:
        return None
    steps = [(stride(access.index, loop), access.is_store) for access in nest.accesses()]
    return loop if all(step == 1 or (step == 0 and not store) for step, store in steps) else None
