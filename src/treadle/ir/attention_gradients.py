"""Gradients of attention, as the AST of a kernel: sums that functions of scores weigh.

    dv[j, c] = sum over i of p[i, j] * g[i, c]
    dk[j, c] = sum over i of ds[i, j] * q[i, c]
    dq[i, c] = sum over j of ds[i, j] * k[j, c]

Weights p and ds are elementwise in products, here s = q @ k.T and dp = g @ v.T, and in statistics
of rows of s: their maximum, the sum of exponentials, and a shift, the sum of p * dp. The kernel of
dq computes the statistics as well, beside the result of attention if somebody wants it; that of dk
and dv reads them. The shift is g times the result of attention: sum over c of g[i, c] * out[i, c].
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from ..dtype import DType
from ..target import MatrixUnit
from .attention import (
    EACH,
    LONGEST,
    Attention,
    factors_of_sum,
    is_narrow,
    softmax_of,
    unless,
    without_rows,
)
from .loops import closed_ranges, free_ranges, loop_size, ranges_of
from .node import Node
from .op import Op
from .rules.index import simplify

__all__ = [
    "Gradients", "Product", "Statistics", "WeighedSum", "recognise_gradients", "unit_for",
    "without_rounding",
]  # fmt: skip


@dataclass(frozen=True)
class Product:
    """`sums` over `depth` of a factor of the row and one of the key."""

    sums: Node
    depth: Node
    of_row: Node
    of_key: Node


@dataclass(frozen=True)
class WeighedSum:
    """`store` writes what `total` becomes: the sum over keys of `weight` and `value`."""

    store: Node
    total: Node
    weight: Node
    value: Node


@dataclass(frozen=True)
class Statistics:
    """What a kernel computes of whole rows before it weighs anything by it.

    `attention` is what a pass over the keys computes; its result is stored if `is_wanted`. The
    REDUCEs `most`, `total` and `shift` come of it: `shift`, if there is one, is `factor` times the
    sum of that result and of `gradient`, which is a factor of rows along `depth`. `stores` write
    expressions in these.
    """

    attention: Attention
    is_wanted: bool
    most: Node
    total: Node
    shift: Node | None
    factor: Node | None
    gradient: Node | None
    depth: Node | None
    stores: tuple[Node, ...]

    @property
    def reduces(self) -> frozenset[Node]:
        return frozenset(n for n in (self.most, self.total, self.shift) if n is not None)


@dataclass(frozen=True)
class Gradients:
    """The parts of such a kernel; loops are `row`, `column` and `batch`, and `key` in all sums."""

    sums: tuple[WeighedSum, ...]
    products: tuple[Product, ...]
    statistics: Statistics | None
    row: Node
    key: Node
    column: Node
    batch: tuple[Node, ...]


def recognise_gradients(end: Node) -> Gradients | None:
    """The parts of the kernel whose stores are `end`, if it is one."""
    if end.op is not Op.END or any(s.op is not Op.STORE for s in end.src[: end.arg]):
        return None
    loops = closed_ranges(end)
    found = _over_one_key(Node.sink([without_rows(s) for s in end.src[: end.arg]]))
    if found is None:
        return None
    root, key = found
    free = free_ranges(root)
    weighed = {store: _weighed(store, key, frozenset(loops), free) for store in root.src}
    sums = [one for one in weighed.values() if one is not None]
    others = tuple(store for store, one in weighed.items() if one is None)
    around = {_around(one, frozenset(loops), free) for one in sums}
    places = around.pop() if len(around) == 1 else None
    if places is None:
        return None
    row, column = places
    parts = (row, column, tuple(r for r in loops if r not in (row, column)))
    products = _products(root, row, key, free)
    if not all(any(n.op is Op.EXP for n in one.weight.toposort()) for one in sums):
        return None
    if products is None or any(column in free[store] for store in others):
        return None
    results = [one for one in sums if softmax_of(one.weight, key) is not None]
    rest = tuple(one for one in sums if one not in results)
    statistics = _statistics(rest, results, others, products, key, parts)
    if statistics is None and (results or others):
        return None
    below = Node.sink([one.weight for one in rest]).toposort()
    inner = {n for n in below if n.op is Op.REDUCE and n not in products}
    if inner and (statistics is None or not inner <= statistics.reduces):
        return None
    direct = Node.sink([one.weight for one in rest]).toposort(lambda n: n not in inner)
    mine = tuple(products[n] for n in direct if n in products)
    return Gradients(rest, mine, statistics, row, key, column, parts[2])


def unit_for(found: Gradients, units: Iterable[MatrixUnit]) -> MatrixUnit | None:
    """The one of `units` for all products, which takes factors as they are before they widen.

    Weights of float32 are rounded for it where their sums are rounded to the same type.
    """
    sums = list(found.sums)
    factors = [one.value for one in sums]
    factors += [factor for p in found.products for factor in (p.of_row, p.of_key)]
    depths = [p.depth for p in found.products]
    totals = [one.total for one in sums] + [p.sums for p in found.products]
    if found.statistics is not None:
        attention = found.statistics.attention
        factors += (attention.query, attention.of_key, attention.value)
        depths.append(attention.depth)
    lengths = [loop_size(r) for r in (*depths, found.column)]
    lines = [loop_size(r) for r in (found.row, found.key)]
    if any(n % EACH or n > LONGEST for n in lengths) or min(lines) < EACH:
        return None
    for unit in units:
        if unit.load is None:
            continue  # sums of one product would be no words of the next
        is_wide = all(total.dtype is unit.sums for total in totals)
        fits = unit.dtype.bits == 16 and all(is_narrow(f, unit.dtype) for f in factors)
        if is_wide and fits and all(_may_round(one, unit.dtype) for one in sums):
            return unit
    return None


def _may_round(one: WeighedSum, dtype: DType) -> bool:
    """Whether weights may be rounded to `dtype`: they are, or the sums are as narrow."""
    rounded = (n for n in one.store.src[2].toposort() if n.op is Op.CAST)
    return is_narrow(one.weight, dtype) or any(
        n.src[0] is one.total and n.dtype is dtype for n in rounded
    )


def without_rounding(node: Node) -> Node:
    """A float32 that is rounded to a narrower type and widened again, as it was before."""
    while node.op is Op.CAST and node.dtype.is_float and node.src[0].dtype.is_float:
        node = node.src[0]
    return node


def _over_one_key(root: Node) -> tuple[Node, Node] | None:
    """`root` with one loop for all that goes over keys, and that: sums of products, so to say."""
    key, new = None, dict[Node, Node]()
    for node in root.toposort():
        src = tuple(new[s] for s in node.src)
        changed = node if src == node.src else node.replace(src=src)
        if node.op is Op.REDUCE and any(n.op is Op.REDUCE for n in src[0].toposort()):
            key = src[1] if key is None else key
            if len(src) != 2 or src[1].src != key.src:
                return None
            changed = changed.replace(src=(src[0].substitute({src[1]: key}), key))
        new[node] = changed
    return None if key is None else (new[root], key)


def _weighed(
    store: Node, key: Node, loops: frozenset[Node], free: dict[Node, frozenset[Node]]
) -> WeighedSum | None:
    """The sum that a STORE is of, if it is one."""
    outside = store.src[2].toposort(lambda n: n.op is not Op.REDUCE)
    totals = [n for n in outside if n.op is Op.REDUCE]
    if len(totals) != 1 or totals[0].src[1:] != (key,):
        return None
    for weight, value in factors_of_sum(totals[0]):
        is_plain = not any(n.op is Op.REDUCE for n in value.toposort())
        if is_plain and key in free[value] and (free[value] - free[weight]) & loops:
            return WeighedSum(store, totals[0], weight, value)
    return None


def _around(
    one: WeighedSum, loops: frozenset[Node], free: dict[Node, frozenset[Node]]
) -> tuple[Node, Node] | None:
    """The loops of rows and columns, if there is one of each."""
    rows = (free[one.weight] - free[one.value]) & loops
    columns = (free[one.value] - free[one.weight]) & loops
    if len(rows) != 1 or len(columns) != 1:
        return None
    (row,), (column,) = rows, columns
    return row, column


def _products(
    root: Node, row: Node, key: Node, free: dict[Node, frozenset[Node]]
) -> dict[Node, Product] | None:
    """All sums that are of no others, by the REDUCE; None if one is no product of row and key."""
    found = {}
    for node in root.toposort():
        if node.op is not Op.REDUCE or any(n.op is Op.REDUCE for n in node.src[0].toposort()):
            continue
        for of_row, of_key in factors_of_sum(node):
            if row in free[of_row] and key in free[of_key] and row not in free[of_key]:
                if key not in free[of_row]:
                    found[node] = Product(node, node.src[1], of_row, of_key)
        if node not in found:
            return None
    return found


# -- statistics -----------------------------------------------------------------------------------


def _statistics(
    sums: tuple[WeighedSum, ...],
    results: list[WeighedSum],
    stores: tuple[Node, ...],
    products: dict[Node, Product],
    key: Node,
    parts: tuple[Node, Node, tuple[Node, ...]],
) -> Statistics | None:
    """What is computed of whole rows, if it is what attention computes."""
    row, column, batch = parts
    roots = (*(one.weight for one in (*sums, *results)), *stores)
    reduces = [n for n in Node.sink(roots).toposort() if n.op is Op.REDUCE and n not in products]
    largest = [n for n in reduces if n.arg.op is Op.MAX]
    if len(largest) != 1 or len(results) > 1:
        return None
    (most,) = largest
    scores, used = most.src[0], [n for n in most.toposort() if n in products]
    powers = [n for n in reduces if n.arg.op is Op.ADD and _is_power(n.src[0], scores, most)]
    shifts = [n for n in reduces if n is not most and n not in powers]
    if len(used) != 1 or len(powers) != 1 or len(shifts) > 1:
        return None
    product, (total,) = products[used[0]], powers
    given = _shift(shifts[0], total, products, key) if shifts else (None, None)
    if given is None:
        return None
    factor, other = given
    value = None if other is None else other.of_key.substitute({other.depth: column})
    if results and value is not None and simplify(value) is not simplify(results[0].value):
        return None
    value = results[0].value if results else value
    if value is None:
        return None
    shown = results[0] if results else WeighedSum(total, total, total, value)
    sure = softmax_of(shown.weight, key) if results else None
    gives_zero = bool(sure and sure[1]) or any(
        unless(n, 0.0, 1.0) is total for n in Node.sink(roots).toposort()
    )
    attention = Attention(
        shown.store, shown.total, key, shown.weight, scores, product.sums, product.depth,
        product.of_row, product.of_key, value, row, column, batch, gives_zero,
    )  # fmt: skip
    return Statistics(
        attention, bool(results), most, total, shifts[0] if shifts else None, factor,
        None if other is None else other.of_row, None if other is None else other.depth, stores,
    )  # fmt: skip


def _is_power(node: Node, scores: Node, most: Node) -> bool:
    """Whether a node is exp(scores - most), where `most` may be 0 in place of -inf."""
    if node.op is not Op.EXP or node.src[0].op is not Op.SUB:
        return False
    one, other = node.src[0].src
    return one is scores and (other is most or unless(other, -math.inf, 0.0) is most)


def _shift(
    shift: Node, total: Node, products: dict[Node, Product], key: Node
) -> tuple[Node, Product] | None:
    """What a sum over keys of p * dp is multiplied by, and the product dp."""
    node, factor = shift.src[0], Node.const(shift.dtype, 1.0)
    while True:
        node = without_rounding(node)
        if node.op is Op.NEG:
            node, factor = node.src[0], -factor
        elif node.op is Op.FDIV and key not in ranges_of(node.src[1]):
            node, factor = node.src[0], factor / node.src[1]
        elif node.op is Op.MUL:
            fixed = [s for s in node.src if key not in ranges_of(s)]
            if not fixed:
                break
            factor = factor * fixed[0]
            node = node.src[1] if node.src[0] is fixed[0] else node.src[0]
        else:
            return None
    for one, other in (node.src, node.src[::-1]):
        weight, product = without_rounding(one), products.get(without_rounding(other))
        is_softmax = weight.op is Op.FDIV and weight.src[0] is total.src[0]
        if product is not None and is_softmax:
            if weight.src[1] is total or unless(weight.src[1], 0.0, 1.0) is total:
                return factor, product
    return None
