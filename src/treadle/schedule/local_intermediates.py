"""Intermediate rows that stay in their kernel: chains of products without the middle in memory.

    softmax(q @ k.T) @ v

Each row of the scores is wanted three times for one row of the result: by its maximum, by its sum,
and by the second product. Computed where it is wanted it would cost three products, stored it would
be a matrix of tokens by tokens. The kernel keeps it in memory of its own instead (a shared STAGE),
and the heuristic makes blocks of rows of it (optimize/chained_matmul.py). The same goes for
everything between the two products.

That pays where the middle is larger than what it is computed from: the operands of the first
product are then read again for each block of rows, which is cheaper than the way through memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.interval import bounds
from ..ir.loops import has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import ALU, Op
from ..ir.shape import size_product
from ..ir.views import operand
from ..target import Target, chain_of
from .plan import (
    BOUNDARY,
    FACTOR,
    Demand,
    Group,
    Kept,
    behind_moves,
    distinct,
    is_heavy,
    product_of,
    ranges_in,
)

__all__ = [
    "CHAIN_IN_SUM", "EVERYWHERE", "Keeping", "is_chain_in_sum", "is_large_middle", "keep_rows",
    "keeping_of", "may_keep_below",
]  # fmt: skip

CHAIN_IN_SUM = "it ends a chain of products, and is summed further"
MIN_ROW = 16  # elements; shorter rows fill no vectors


@dataclass(frozen=True)
class Keeping:
    """Which kernels keep rows: none of those of the roots `without`.

    What lies between two products is so many times as large as all that it is computed from, the
    `gain`, where it is better kept than stored.
    """

    gain: float = 2
    without: frozenset[Node] = frozenset()


EVERYWHERE = Keeping()
FUSED_GAIN = 0.25  # where what is kept never leaves registers, so that nothing is read anew


def keeping_of(target: Target | None) -> Keeping | None:
    """Which kernels may keep rows, as far as the target says."""
    if target is None or target.workgroup is None:
        return EVERYWHERE
    attends = any(chain_of(unit) is not None for unit in target.matrix_units)
    return Keeping(gain=FUSED_GAIN) if attends else None


def keep_rows(node: Node, demands: list[Demand], keeping: Keeping) -> Kept | None:
    """How the one kernel that all `demands` are of keeps `node` row by row, if it should."""
    group = demands[0].group
    if group.root in keeping.without:
        return None
    wanted = _starts(node, demands, group, keeping) or (group.kept and _continues(node, demands))
    axis = _row_axis(node, demands) if wanted else None
    if axis is None:
        return None
    ranges = list(demands[0].index)
    ranges[axis] = group.fresh_range(node.shape[axis])
    return Kept(tuple(ranges), axis=axis)


def _starts(node: Node, demands: list[Demand], group: Group, keeping: Keeping) -> bool:
    """Whether `node` is the middle of a chain that is better not stored.

    It is the factor of a product and comes from one, or a product that another reduction combines.
    """
    if group.root.op in (Op.SCAN, Op.SCATTER, Op.DISTRIBUTE):
        return False
    if node.op in ALU:
        return any(d.heavy == FACTOR for d in demands) and is_large_middle(node, keeping)
    return is_heavy(node) and may_keep_below(demands) and is_large_middle(node, keeping)


def may_keep_below(demands: list[Demand]) -> bool:
    """Whether one kernel's demands are all of reductions that combine elements of a row.

    A sum of sums is none: it is one sum over the loops of both.
    """
    return all(d.body and not d.heavy and not d.linear for d in demands)


def is_chain_in_sum(node: Node, demands: list[Demand], is_chained: bool, keeping: Keeping) -> bool:
    """Whether `node` is the last reduction of a chain, and is summed further.

    Rows of the middle can be kept for its own sum alone: where heads of queries share keys, that
    of one head, or for a loss that of one row. So it is stored, which costs less than the middle
    would.
    """
    if not any(demand.body for demand in demands):
        return False
    if any(demand.group.root in keeping.without for demand in demands):
        return False
    if not is_heavy(node):
        return node.op is Op.REDUCE and is_chained and _is_summed_by_rows(node, demands, keeping)
    factors = (behind_moves(factor) for factor in product_of(node).src)
    middles = [f for f in factors if f.op in ALU and is_large_middle(f, keeping)]
    return any(keeping.gain * size_product(node.shape) <= size_product(f.shape) for f in middles)


def _is_summed_by_rows(node: Node, demands: list[Demand], keeping: Keeping) -> bool:
    """Whether a reduction of rows of a middle is summed over just these rows."""
    summed = all(ranges_in(d.index) & frozenset(d.body) for d in demands)
    return summed and is_large_middle(operand(node), keeping)


def is_large_middle(node: Node, keeping: Keeping) -> bool:
    """Whether `node` is so much larger than what it is computed from that it is not worth storing.

    Kernels that keep rows of it compute them anew, each for itself.
    """
    sizes = (*node.shape, *(s for below in node.src for s in below.shape))
    if not all(isinstance(size, int) for size in sizes):
        return False
    return size_product(node.shape) >= keeping.gain * _operands(node)


def _operands(node: Node) -> int:
    """How many elements the products have as factors that `node` is computed from.

    These are read again for each block of rows. A bias or a mask is read once for each element.
    """
    below = node.toposort(lambda n: n.op not in BOUNDARY and not is_heavy(n))
    return sum(distinct(factor) for n in below if is_heavy(n) for factor in product_of(n).src)


def _continues(node: Node, demands: list[Demand]) -> bool:
    """Whether a kernel that keeps rows wants `node` more than once, or beside another product."""
    if node.op not in ALU and node.op is not Op.REDUCE:
        return False
    crowded = any(d.body or d.home.heavy for d in demands)
    return len(demands) > 1 or (is_heavy(node) and crowded)


def _row_axis(node: Node, demands: list[Demand]) -> int | None:
    """The axis that each demand runs through with a loop of its own, all else being the same."""
    candidates = [
        axis
        for axis, size in enumerate(node.shape)
        if all(_runs_through(d.index[axis], size) for d in demands)
        and all(_loop_is_inner(d, axis) for d in demands)
    ]
    if len(candidates) != 1 or any(d.dynamic for d in demands):
        return None
    (axis,) = candidates
    rows = {(*d.index[:axis], *d.index[axis + 1 :]) for d in demands}
    (row, *others) = rows
    sizes = (*node.shape[:axis], *node.shape[axis + 1 :])
    inside = all(_is_inside(i, size) for i, size in zip(row, sizes, strict=True))
    # Where a row begins depends on the loops of the kernel alone.
    inside = inside and ranges_in(row) <= ranges_in(demands[0].group.ranges)
    return axis if not others and inside else None


def _runs_through(position: Node, size: int) -> bool:
    if position.op is not Op.RANGE or not has_fixed_size(position):
        return False
    return loop_size(position) == size and size >= MIN_ROW


def _loop_is_inner(demand: Demand, axis: int) -> bool:
    """Whether the loop of `axis` is one of a reduction, or fills another row."""
    loop = demand.index[axis]
    filled = demand.home.loop if isinstance(demand.home, Kept) else None
    return loop in demand.body or loop is filled


def _is_inside(position: Node, size: object) -> bool:
    low, high = bounds(position) if position.dtype is dtypes.index else (-1, 0)
    return isinstance(size, int) and low >= 0 and high < size
