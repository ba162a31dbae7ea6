"""Products with the rows of a sequence, moved into the steps of a loop.

    rows of xs @ w, each added to h @ u in its step   ->  x @ w + h @ u in each step

A product for all steps at once is one large matmul, but what it gives has to be stored, and is read
again from memory where it is larger than the caches. Steps whose rows fill register tiles multiply
as quickly, by a matrix that caches keep from step to step, and store no product.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from ..ir.builders import permute, reshape
from ..ir.loops import loop_size
from ..ir.node import Node
from ..ir.op import MOVEMENT, Op
from ..ir.recurrence import Loop, siblings, stand_in
from ..ir.views import operand
from ..schedule.index import Index, source_index
from ..schedule.plan import is_heavy, ranges_in
from ..target import Target

__all__ = ["products_of_rows", "with_products"]

MIN_ROWS, MIN_STEPS = 16, 32
_KEEP_ROWS = frozenset((Op.RESHAPE, Op.EXPAND, Op.PERMUTE, Op.SHRINK))


class _View(NamedTuple):
    """`base`, which something is a view of, perhaps in another type, and where it reads that."""

    base: Node
    index: Index


def products_of_rows(cut: Node, target: Target) -> list[Node]:
    """The sequences of the loop of `cut` whose rows are products to compute in its steps."""
    if target.workgroup is not None:
        return []
    return [rows for rows in Loop.of(cut).sequences if _product(rows, target) is not None]


def with_products(cut: Node, products: Collection[Node], target: Target) -> Node:
    """The loop of `cut` with the rows of `products` computed in its steps."""
    loop = Loop.of(cut)
    first, src = len(loop.states), list(cut.src)
    mapping: dict[Node, Node] = {}
    for number, rows in enumerate(loop.sequences, first):
        if rows not in products or (found := _product(rows, target)) is None:
            continue
        row, matrix, axis = found
        order = (axis, *(n for n in range(len(row.shape)) if n != axis))
        src[number] = permute(row, order)
        shape = src[number].shape[1:]
        seen = stand_in(number, row.dtype, shape)
        whole = stand_in(len(src), matrix.dtype, matrix.shape)
        src.append(matrix)
        one = reshape(reshape(seen, shape), (*row.shape[:axis], 1, *row.shape[axis + 1 :]))
        known = {row: one, matrix: reshape(whole, matrix.shape)}
        places = _places(rows)
        made = _at_one_step(rows, places, places[0], known)
        mapping[loop.stand_ins[number]] = reshape(made, loop.stand_ins[number].shape)
    body = tuple(node.substitute(mapping) for node in cut.arg.body)
    new = Node(Op.RECUR, body[0].dtype, tuple(src), replace(cut.arg, body=body, number=0))
    return siblings(new)[cut.arg.number]


def _product(rows: Node, target: Target) -> tuple[Node, Node, int] | None:
    """The factors of `rows`, and the axis of the first that steps go along.

    None where `rows` is no product, or one that is better computed for all steps at once.
    """
    if any(not isinstance(size, int) for size in rows.shape):
        return None
    places = _places(rows)
    step = places[0]
    reduce, index = _viewed(rows, places, step)
    if not is_heavy(reduce):
        return None
    inner = _inside(reduce, index)
    summed = ranges_in(inner) - ranges_in(index)
    product, inner = _viewed(operand(reduce), inner, step)
    if product.op is not Op.MUL:
        return None
    factors = [_viewed(factor, inner, step) for factor in product.src]
    factors.sort(key=lambda factor: step not in factor.index)
    (row, of_row), (matrix, of_matrix) = factors
    if step not in of_row or step in ranges_in(of_matrix):
        return None
    count = loop_size(*(ranges_in(of_row) - summed - {step}))
    nbytes = loop_size(*ranges_in(of_matrix)) * matrix.dtype.itemsize
    is_better = count >= MIN_ROWS and loop_size(*summed) >= MIN_STEPS and nbytes <= target.l2
    return (row, matrix, of_row.index(step)) if is_better else None


def _places(rows: Node) -> Index:
    return tuple(Node.range(size, axis) for axis, size in enumerate(rows.shape))


def _inside(reduce: Node, index: Index) -> Index:
    """Where a reduction reads its source for its element `index`."""
    inner, first = list(index), max(r.arg.number for r in ranges_in(index)) + 1
    for axis in reduce.arg.axes:
        inner[axis] = Node.range(operand(reduce).shape[axis], first + axis)
    return tuple(inner)


def _viewed(node: Node, index: Index, step: Node) -> _View:
    """What `node` views, as far as steps go along one axis of all that is on the way."""
    while node.op in _KEEP_ROWS or node.op is Op.CAST:
        below = index if node.op is Op.CAST else source_index(node, index)[0]
        if step in ranges_in(below) and step not in below:
            break
        node, index = operand(node), below
    return _View(node, index)


def _at_one_step(node: Node, index: Index, step: Node, known: dict[Node, Node]) -> Node:
    """`node` with the axis that `step` goes along one element long, read from what is `known`."""
    if node in known:
        return known[node]
    below, arg = index, node.arg
    if node.op in MOVEMENT:
        below, _ = source_index(node, index)
    elif node.op is Op.REDUCE:
        below = _inside(node, index)
    src = tuple(_at_one_step(source, below, step, known) for source in node.src)
    shape = tuple(
        1 if place is step else size for place, size in zip(index, node.shape, strict=True)
    )
    if node.op in (Op.RESHAPE, Op.EXPAND, Op.SHRINK) and src[0].shape == shape:
        return src[0]
    if node.op in (Op.RESHAPE, Op.EXPAND):
        arg = shape
    if node.op is Op.SHRINK:
        pairs = zip(index, node.arg, strict=True)
        arg = tuple((0, 1) if place is step else bounds for place, bounds in pairs)
    return Node(node.op, node.dtype, src, arg)
