"""Sums that a softmax weighs, as the AST of a kernel: what attention is made of.

    out[i, c] = sum over j of softmax(s[i, :])[j] * y[j, c]
    s[i, j] = f(sum over d of q[i, d] * k[j, d])

The scheduler keeps rows of s, of its exponentials and of the weights
(schedule/local_intermediates.py). Here they are seen through: what comes out is said in s alone, so
that a kernel can go through j once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..dtype import DType
from ..target import MatrixUnit
from .loops import closed_ranges, free_ranges, loop_size
from .node import Node
from .op import Op

__all__ = [
    "EACH", "LONGEST", "Attention", "factors_of_sum", "is_kept", "is_narrow", "is_of_product",
    "narrow_factor", "recognise_attention", "softmax_of", "unit_of", "unless", "without_rows",
]  # fmt: skip

EACH = 16  # what unit_of wants the lengths of q and y to be multiples of
LONGEST = 128


@dataclass(frozen=True)
class Attention:
    """The parts of such a kernel.

    `store` writes what `total` becomes: the sum over `key` of `weight` and `value`, which is y.
    `scores` are s, of which `product` is the sum over `depth` of `query` and `of_key`. Of the
    loops, `row` is i, `column` is c, and `batch` the rest. `gives_zero`: where all scores of a row
    are -inf, its weights are 0 and not NaN.
    """

    store: Node
    total: Node
    key: Node
    weight: Node
    scores: Node
    product: Node
    depth: Node
    query: Node
    of_key: Node
    value: Node
    row: Node
    column: Node
    batch: tuple[Node, ...]
    gives_zero: bool


def is_kept(node: Node) -> bool:
    """Whether a node is a row that a kernel keeps."""
    return node.op is Op.STAGE and node.arg.scope == "shared" and len(node.arg.sizes) == 1


def recognise_attention(end: Node) -> Attention | None:
    """The parts of the kernel whose stores are `end`, if it is one."""
    loops = closed_ranges(end)
    if end.op is not Op.END or end.arg != 1 or end.src[0].op is not Op.STORE:
        return None
    store = without_rows(end.src[0])
    outside = store.src[2].toposort(lambda n: n.op is not Op.REDUCE)
    totals = [n for n in outside if n.op is Op.REDUCE]
    if len(totals) != 1:
        return None
    (total,) = totals
    return next(
        filter(None, (_of(store, total, *pair, loops) for pair in factors_of_sum(total))), None
    )


def unit_of(found: Attention, units: Iterable[MatrixUnit]) -> MatrixUnit | None:
    """The one of `units` for both products: it takes all factors as they are before they widen."""
    lengths = [loop_size(r) for r in (found.depth, found.column)]
    lines = [loop_size(r) for r in (found.row, found.key)]
    if any(n % EACH or n > LONGEST for n in lengths) or min(lines) < EACH:
        return None
    factors = (found.query, found.of_key, found.value, found.weight)
    for unit in units:
        if unit.load is None:
            continue  # sums of one product would be no words of the next
        sums = found.total.dtype is found.product.dtype is unit.sums
        if sums and unit.dtype.bits == 16 and all(is_narrow(n, unit.dtype) for n in factors):
            return unit
    return None


def is_narrow(factor: Node, dtype: DType) -> bool:
    return factor.op is Op.CAST and factor.src[0].dtype is dtype


def narrow_factor(factor: Node, dtype: DType) -> Node:
    """A factor before it is widened from `dtype`."""
    assert is_narrow(factor, dtype)
    return factor.src[0]


def is_of_product(row: Node) -> bool:
    """Whether a row is computed from a reduction: one of what is in memory gains nothing."""
    return any(n.op is Op.REDUCE for n in row.src[0].toposort())


def without_rows(root: Node, those: Callable[[Node], bool] = is_kept) -> Node:
    """`root` with what is kept, those of the rows, computed where it is read.

    But for the counters of a TICKET, which are memory that changes.
    """
    new: dict[Node, Node] = {}
    order = root.toposort()
    counters = {node.src[0] for node in order if node.op is Op.TICKET}
    for node in order:
        src = tuple(new[s] for s in node.src)
        changed = node if src == node.src else node.replace(src=src)
        if is_kept(node) and node not in counters and those(node):
            value, _, place, read, *_ = changed.src
            changed = value.substitute({place: read})
        new[node] = changed
    return new[root]


def factors_of_sum(reduce: Node) -> list[tuple[Node, Node]]:
    """What a sum over one loop is the sum of products of, both ways round."""
    product = reduce.src[0]
    if reduce.op is not Op.REDUCE or reduce.arg.op is not Op.ADD or len(reduce.src) != 2:
        return []
    return [product.src, product.src[::-1]] if product.op is Op.MUL else []  # type: ignore[list-item]


def _of(
    store: Node, total: Node, weight: Node, value: Node, loops: tuple[Node, ...]
) -> Attention | None:
    key = total.src[1]
    found = softmax_of(weight, key)
    if found is None:
        return None
    scores, gives_zero = found
    products = [n for n in scores.toposort() if n.op is Op.REDUCE]
    free = free_ranges(store)
    if len(products) != 1 or any(n.op is Op.REDUCE for n in value.toposort()):
        return None
    (product,) = products
    for query, of_key in factors_of_sum(product):
        own = [free[n] & frozenset(loops) for n in (query, of_key, value)]
        rows = own[0] - own[1] - own[2]
        columns = own[2] - own[0] - own[1] - (free[scores] & frozenset(loops))
        if key in free[query] or key not in free[of_key] or key not in free[value]:
            continue
        if len(rows) == len(columns) == 1:
            (row,), (column,) = rows, columns
            batch = tuple(r for r in loops if r not in (row, column))
            return Attention(
                store, total, key, weight, scores, product, product.src[1], query, of_key, value,
                row, column, batch, gives_zero,
            )  # fmt: skip
    return None


def softmax_of(weight: Node, key: Node) -> tuple[Node, bool] | None:
    """s of a weight exp(s - max of s) / sum of exp(s - max of s).

    And whether it says 0 in place of a maximum of -inf, and 1 in place of a sum of 0.
    """
    while weight.op is Op.CAST:
        weight = weight.src[0]
    if weight.op is not Op.FDIV:
        return None
    power, sums = weight.src
    if power.op is not Op.EXP or power.src[0].op is not Op.SUB:
        return None
    scores, most = power.src[0].src
    total, largest = unless(sums, 0.0, 1.0), unless(most, -math.inf, 0.0)
    gives_zero = total is not None and largest is not None
    if total is not None and largest is not None:
        sums, most = total, largest
    is_softmax = _is_over(sums, Op.ADD, power, key) and _is_over(most, Op.MAX, scores, key)
    return (scores, gives_zero) if is_softmax else None


def unless(node: Node, value: float, instead: float) -> Node | None:
    """x of `instead where x is value, else x`."""
    if node.op is not Op.WHERE:
        return None
    condition, yes, no = node.src
    is_compared = condition.op is Op.CMPEQ and {s.value for s in condition.src} >= {value}
    return no if is_compared and no in condition.src and yes.value == instead else None


def _is_over(reduce: Node, op: Op, value: Node, key: Node) -> bool:
    """Whether `reduce` combines `value` over all steps of `key`."""
    if reduce.op is not Op.REDUCE or reduce.arg.op is not op or len(reduce.src) != 2:
        return False
    source, loop = reduce.src
    return loop.src == key.src and source.substitute({loop: key}) is value
