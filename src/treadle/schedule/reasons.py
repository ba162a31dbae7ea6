"""Whether a node gets memory of its own, and why.

    decision_on(node, demands, weights)  ->  Decision(True, "3 kernels need this reduction")

A reduction is computed where it repeats nothing; what is elementwise, by each that wants it while
that is cheap. A reduction that moves into a kernel is noted at its Home, which decides on the next.
"""

from __future__ import annotations

from ..ir.loops import loop_size
from ..ir.node import Node
from ..ir.op import ALU, MOVEMENT, SAME, Op
from ..ir.shape import size_max, size_product
from ..ir.views import operand
from .plan import (
    BOUNDARY,
    COSTLY,
    FACTOR,
    LEAVES,
    PRODUCT,
    STORED,
    Decision,
    Demand,
    Home,
    Kept,
    Weight,
    behind_moves,
    elements,
    is_heavy,
    ranges_in,
    reduce_sizes,
)

__all__ = ["MAX_KERNEL_OPS", "decision_on"]

MAX_KERNEL_OPS = 600
CHEAP_OPS = 10
OPS_ABOVE_PRODUCT = 20
SMALL_WORK = 1 << 15
LARGE_WORK = 1 << 19
MIN_ROWS = 8
MIN_NESTED_REDUCE = 16
_PADDING = "most of what its kernel would compute is padding, or the same again"
_READ = LEAVES | {Op.AFTER}
_NO_PRODUCTS = frozenset((Op.REDUCE, Op.UNWINDOW, Op.GATHER))


def decision_on(node: Node, demands: list[Demand], weights: dict[Node, Weight]) -> Decision:
    """Whether `node` gets memory of its own, or all that want it compute it themselves."""
    if node.op in STORED:
        return Decision(True, f"{node.op.name.lower()} has memory of its own")
    if node.op is Op.SHRINK and any(_is_mostly_padding(node, d) for d in demands):
        return Decision(True, _PADDING)
    if node.op in MOVEMENT or node.op in SAME:
        return Decision(False, "it is another view of its source")
    if not demands:
        return Decision(False, "no kernel needs it")
    if node.op in (Op.REDUCE, Op.UNWINDOW):
        reason = _why_store_reduce(node, demands, weights[node])
        return Decision(reason is not None, reason or "computing it there repeats nothing")
    reason = _why_store_elementwise(node, demands, weights[node])
    return Decision(reason is not None, reason or "it is cheap to compute where it is used")


def _why_store_elementwise(node: Node, demands: list[Demand], weight: Weight) -> str | None:
    groups = {d.group for d in demands}
    if node.op is Op.CAST and operand(node).dtype.itemsize < node.dtype.itemsize:
        return None  # better stored as it was before
    if all(d.heavy == PRODUCT for d in demands):
        return None  # it is larger than the factors, which are stored if they are worth it
    if any(d.dynamic for d in demands) and weight.ops > 0:
        return "it is read at positions that are not known in advance"
    if len(demands) == 1 and _is_read_often(node, demands[0]) and _is_epilogue(node):
        return "it ends the kernel of a matmul-like reduction, and is read many times"
    if any(d.heavy == FACTOR for d in demands) and behind_moves(node).op not in _READ:
        if weight.costly or weight.ops > 3:
            return "a matmul-like reduction reads each element many times"
    if any(_is_computed_anew(node, d) for d in demands) and _has_costlyelements(node):
        return "each result of a reduction would compute its costly elements anew"
    if len(groups) > 1 and weight.reduces and _is_cheap_above_product(node):
        return None
    is_own = node.op in ALU and size_product(node.shape) != 1
    if any(d.group.ops + weight.ops > MAX_KERNEL_OPS for d in demands) and is_own:
        if all(d.group.ops > MAX_KERNEL_OPS // 2 for d in demands) or len(demands) > 1:
            return f"the kernel would have more than {MAX_KERNEL_OPS} operations"
    if len(demands) == 1:
        return None
    if len(groups) > 1:
        if weight.reduces and _is_small_expanded(node):
            return None
        if weight.reduces:
            return f"{len(groups)} kernels need it and it holds a reduction"
        if weight.costly > 1 or weight.ops > CHEAP_OPS or len(weight.loads) > 2:
            return f"{len(groups)} kernels need it and it is not cheap to recompute"
        return None
    if weight.ops > 4 * CHEAP_OPS or len(demands) > 3:
        return "one kernel needs it at several indices and it is not cheap to recompute"
    return None


def _is_read_often(node: Node, demand: Demand) -> bool:
    """Whether a product reads `node`, or a reduction over windows that overlap."""
    loops = ranges_in(demand.index)
    is_windowed = loops & frozenset(demand.body) and loop_size(*loops) > 2 * elements(node)
    return demand.heavy == FACTOR or bool(is_windowed and not demand.linear)


def _is_epilogue(node: Node) -> bool:
    """Whether `node` is computed, element by element, from a matmul-like reduction of its size.

    That is stored in any case: its kernel computes the rest once for each element.
    """
    size = elements(node)
    is_product = lambda n: is_heavy(n) and elements(n) == size
    is_between = lambda n: n.op in ALU or (n.op in MOVEMENT and elements(n) == size)
    below = node.toposort(lambda n: is_between(n) and not is_product(n))
    return any(is_product(n) for n in below if n is not node)


def _is_computed_anew(node: Node, demand: Demand) -> bool:
    """Whether results of the reduction around `node` differ in loops that `node` does not have."""
    if demand.heavy:
        return False
    times = loop_size(*(demand.results - ranges_in(demand.index)))
    return times >= MIN_ROWS and times * elements(node) > SMALL_WORK


def _has_costlyelements(node: Node) -> bool:
    """Whether something costly is computed for each element of `node`, not just for each row."""
    size = elements(node)
    is_inside = lambda n: n.op in ALU and 2 * elements(n) > size
    own = node.toposort(lambda n: is_inside(n) or n.op in MOVEMENT)
    return any(n.op in COSTLY and is_inside(n) for n in own)


def _is_small_expanded(node: Node) -> bool:
    """Whether something a few times smaller gives all of `node` in a few operations.

    A comparison of windows with their largest elements, say: those are stored instead.
    """
    is_large = lambda n: 2 * elements(n) > elements(node)
    own = [n for n in node.toposort(is_large) if is_large(n) and n.op not in MOVEMENT]
    return len(own) <= CHEAP_OPS and all(n.op in ALU and n.op not in COSTLY for n in own)


def _is_cheap_above_product(node: Node) -> bool:
    """Whether little work makes `node` of one matmul-like reduction of its size.

    Several kernels that want it then store that, once, and not each value on the way from there:
    an activation, its slope, and all that both share. What else is read is small, such as a bias.
    """
    size = elements(node)
    products = ops = costly = 0
    pending, seen = [node], {node}
    while pending:
        item = pending.pop()
        if item.op in (Op.CONST, Op.IOTA):
            continue
        is_product = is_heavy(item)
        if item.op in _NO_PRODUCTS and not is_product:
            return False
        if is_product or item.op in BOUNDARY:
            is_large = 2 * elements(item) > size
            if is_large and (not is_product or elements(item) > size):
                return False
            products += is_large
            continue
        ops += item.op in ALU
        costly += item.op in COSTLY
        if products > 1 or costly > 1 or ops > OPS_ABOVE_PRODUCT:
            return False
        new = [source for source in item.src if source not in seen]
        seen.update(new)
        pending.extend(new)
    return products == 1


def _why_store_reduce(node: Node, demands: list[Demand], weight: Weight) -> str | None:
    if len(demands) > 1:
        where = "kernels" if len({d.group for d in demands}) > 1 else "indices"
        return f"{len(demands)} {where} need this reduction"
    demand = demands[0]
    home = demand.home
    if demand.dynamic:
        return "it is read at positions that are not known in advance"
    used = ranges_in(demand.index)
    heavy = is_heavy(node)
    if used & frozenset(demand.body):
        return _why_not_nested(node, demand, used, heavy)
    if demand.heavy:
        return "a matmul-like reduction reads it"
    root, loops = demand.group.root, demand.group.ranges
    is_long = root.op is Op.SCAN and _reduce_size(node) >= MIN_NESTED_REDUCE
    is_long = is_long and elements(operand(node)) >= LARGE_WORK
    if is_long or (heavy and root.op in (Op.SCAN, Op.SCATTER, Op.DISTRIBUTE)):
        return "a long reduction is no part of loops whose steps stand in order"
    if used == ranges_in(home.ranges):
        if _is_mostly_padding(node, demand):
            return _PADDING
        if heavy and _is_part_of_line(node, used):
            return "one loop goes through several axes of a product and on, so it cannot be tiled"
        is_second = home.heavy or (heavy and (home.row_stats or demand.body))
        return "one kernel holds one matmul-like reduction" if is_second else None
    if root.op is Op.SCAN and loops[root.arg.axis] in used:
        return "a scan has its loop inside of the others, which would each compute it anew"
    if isinstance(home, Kept) and not weight.chained:
        return "kernels that keep rows compute products and what is made of those"
    return _why_not_in_row(node, home, used, heavy)


def _why_not_nested(node: Node, demand: Demand, used: frozenset[Node], heavy: bool) -> str | None:
    """A reduction inside another: free where it stands between two of the loops around it."""
    around = ranges_in(demand.home.ranges)
    prefixes = [around.union(demand.body[:n]) for n in range(len(demand.body) + 1)]
    if used not in prefixes:
        return "it would be recomputed in the loops of another reduction"
    if used == prefixes[-1] and demand.linear and (node.op is Op.UNWINDOW or node.arg.op is Op.ADD):
        return None
    if heavy or demand.heavy or demand.home.heavy:
        return "a matmul-like reduction inside another cannot be tiled"
    if _reduce_size(node) < MIN_NESTED_REDUCE:
        return "an inner reduction this short is better computed beforehand"
    return None


def _why_not_in_row(node: Node, home: Home, used: frozenset[Node], heavy: bool) -> str | None:
    """A reduction for each row of a kernel's results."""
    if heavy or home.heavy:
        return "a matmul-like reduction is used again by inner loops"
    if isinstance(home, Kept) and home.loop in used:
        return "each row that the kernel keeps would compute it anew"
    if any(not (used <= other or other <= used) for other in home.row_stats):
        return "two reductions over different rows do not nest"
    rows = loop_size(*used)
    if rows < MIN_ROWS and rows * _reduce_size(node) > SMALL_WORK:
        return "too few rows to compute in parallel beside their users"
    return None


def _is_mostly_padding(node: Node, demand: Demand) -> bool:
    """Whether a kernel would compute the sums of `node` for twice as many results as there are."""
    used = ranges_in(demand.index)
    is_all = used == ranges_in(demand.home.ranges) and not demand.body
    is_more = loop_size(*used) >= 2 * elements(node)
    return is_all and is_more and _steps_below(node) >= MIN_NESTED_REDUCE


def _is_part_of_line(node: Node, loops: frozenset[Node]) -> bool:
    """Whether fewer `loops` than `node` has axes go through all of it, and through something else.

    In a buffer for the gradients of several matrices, say.
    """
    axes = sum(size != 1 for size in node.shape)
    return len(loops) < axes and loop_size(*loops) > elements(node)


def _steps_below(node: Node) -> int:
    """The steps of a reduction, and of those that it is made of directly; 1 for anything else."""
    steps = 1
    while node.op in MOVEMENT or node.op in (Op.REDUCE, Op.UNWINDOW):
        steps *= 1 if node.op in MOVEMENT else _reduce_size(node)
        node = operand(node)
    return steps


def _reduce_size(node: Node) -> int:
    return size_product(map(size_max, reduce_sizes(node)))
