"""Reductions of rows (carried.py) on matrix units: which unit, and how much memory they share.

    units_of(rows_of(end), target)     ->  the MatrixUnits for all of their products, the best first

A unit computes them whose sums are a factor of its next product (target/chain.py). A workgroup
shares memory for a block of rows, and for a tile of keys at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..dtype import DType, dtypes
from ..target import MatrixUnit, Target, chain_of
from .carried import Product, Reduction, Rows, reads
from .loops import free_ranges, loop_size
from .node import Node
from .op import Op
from .views import operand

__all__ = [
    "block_bytes", "buffers_of", "line_size", "narrow_factor", "of_keys_alone", "products_of",
    "units_of",
]  # fmt: skip

LONGEST = 128
STEEPEST = 64  # keys for each row: of more, too few work items would go through too many


def units_of(found: Rows, target: Target) -> Iterator[MatrixUnit]:
    """The units for all products, which take factors as they are before they widen.

    Weights of float32 are rounded for them where their sums are rounded to the same type.
    """
    sums = [r for done in found.passes for r in done if r.value is not None]
    factors = [r.value for r in sums if r.value is not None]
    factors += [factor for p in found.products for factor in (p.of_row, p.of_key)]
    totals = [r.total for r in sums] + [p.sums for p in found.products]
    lengths = [loop_size(p.depth) for p in found.products]
    lengths += [loop_size(found.column)] if found.column is not None else []
    rows, keys = loop_size(found.row), loop_size(found.key)
    if max(lengths) > LONGEST or keys > STEEPEST * rows * loop_size(*found.batch):
        return
    for unit in (*target.warpgroup_units, *target.matrix_units):
        is_long = min(rows, keys) >= max(unit.rows, unit.steps)
        is_whole = is_long and not any(n % unit.steps for n in lengths)
        is_wide = all(total.dtype is unit.sums for total in totals)
        fits = all(_is_narrow(f, unit.dtype) for f in factors) and _has_room(found, unit, target)
        if is_whole and is_wide and fits and all(_may_round(r, found, unit.dtype) for r in sums):
            yield unit


def narrow_factor(factor: Node, dtype: DType) -> Node:
    """A factor before it is widened from `dtype`."""
    assert _is_narrow(factor, dtype)
    return operand(factor)


def _is_narrow(factor: Node, dtype: DType) -> bool:
    return factor.op is Op.CAST and operand(factor).dtype is dtype


def _may_round(one: Reduction, found: Rows, dtype: DType) -> bool:
    """Whether weights may be rounded to `dtype`: they are, or the sums are as narrow."""
    weights = [n for n in operand(one.total).src if n is not one.value]
    if all(_is_narrow(n, dtype) for n in weights):
        return True
    casts = (n for n in Node.sink(found.stores).toposort() if n.op is Op.CAST and n.dtype is dtype)
    return any(reads(cast, {one.total}) for cast in casts)


# -- memory ---------------------------------------------------------------------------------------


def _has_room(found: Rows, unit: MatrixUnit, target: Target) -> bool:
    """Whether sums are a factor of the next product, and a workgroup's least block fits."""
    chain, tiling, workgroup = chain_of(unit), unit.tiling, target.workgroup
    if chain is None or tiling is None or workgroup is None:
        return False
    rows = tiling.side_by_side[-1] * chain.sums.shape[0]
    nbytes = block_bytes(found, unit, rows, unit.steps, buffers_of(unit))
    return nbytes + tiling.reserved <= workgroup.shared_bytes


def buffers_of(unit: MatrixUnit) -> int:
    """How many tiles of keys are in memory at a time: two where copies are asynchronous."""
    return 2 if unit.tiling is not None and unit.tiling.buffers > 1 else 1


def block_bytes(found: Rows, unit: MatrixUnit, rows: int, keys: int, buffers: int) -> int:
    """The memory that a workgroup shares, for so many rows and for tiles of keys in buffers."""
    of_rows = {p.of_row: line_size(p.depth, unit) for p in found.products}
    elements, words = 0, 0  # of a key in all passes
    for reductions in found.passes:
        factors = [(p.of_key, p.depth, False) for p in products_of(found, reductions)]
        values = [r.value for r in reductions if r.value is not None]
        # What nothing transposes as it is read lies there both ways.
        if found.column is not None:
            factors += [(value, found.column, not unit.transposes) for value in values]
        # Those of one memory, before they are widened, share their tiles.
        lines = {(operand(operand(f)), way): line_size(along, unit) for f, along, way in factors}
        elements += sum(lines.values())
        words += len(of_keys_alone((r.term for r in reductions), found.row, found.key))
    of_keys = keys * buffers * (elements * unit.dtype.itemsize + words * dtypes.float32.itemsize)
    return rows * sum(of_rows.values()) * unit.dtype.itemsize + of_keys


def products_of(found: Rows, reductions: tuple[Reduction, ...]) -> list[Product]:
    """The products that the terms of a pass are computed from."""
    terms = Node.sink([r.term for r in reductions])
    return [p for p in found.products if reads(terms, {p.sums})]


def of_keys_alone(roots: Iterable[Node], row: Node, key: Node) -> list[Node]:
    """The largest parts that are read from memory for a key, whatever the row."""
    root = Node.sink(tuple(roots))
    free = free_ranges(root)

    def is_one(node: Node) -> bool:
        if node.dtype is not dtypes.float32 or key not in free[node] or row in free[node]:
            return False
        return any(n.op is Op.LOAD for n in node.toposort())

    order = root.toposort(lambda n: n.op is not Op.REDUCE and not is_one(n))
    return [n for n in order if n.op is not Op.SINK and is_one(n)]


def line_size(loop: Node, unit: MatrixUnit) -> int:
    """How long lines along `loop` are: longer, so that they can be swizzled."""
    least = 1 if unit.memory is None else unit.memory.row // unit.dtype.itemsize
    return max(least, 1 << (loop_size(loop) - 1).bit_length())
