"""Which nodes get memory of their own, and which are computed where they are used.

Walks the tensor graph from the outputs down. Every node learns its demands: which kernel wants it,
at which index, inside which reductions. A node with memory of its own (a global STAGE) starts a
kernel; all others are inlined. Each decision is recorded with its reason in `Plan.reasons`.

    softmax(x):  max and sum are wanted once for each row by one kernel  ->  one kernel
    relu(a @ b + c):  the matmul is wanted once for each element         ->  one kernel
    (a @ b) @ c:  the first matmul would be recomputed for each column   ->  two kernels
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ..dtype import dtypes
from ..ir.node import Node
from ..ir.op import ALU, MOVEMENT, Op
from ..ir.rules.index import simplify as simplify_index
from ..ir.shape import size_max, size_product
from .index import Index, source_index

__all__ = ["Demand", "Group", "Plan", "decide", "ranges_in", "view_base"]

LEAVES = frozenset((Op.CONST, Op.IOTA, Op.BUFFER, Op.VARIABLE, Op.BIND))
# Nodes that are always stored: their kernel has a form of its own, or the user asked for it.
STORED = frozenset((Op.CONTIGUOUS, Op.SCATTER, Op.SCAN, Op.ASSIGN))
COSTLY = frozenset(
    (Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN, Op.COS, Op.TANH, Op.ERF, Op.POW, Op.SQRT, Op.FDIV)
)
MAX_KERNEL_OPS = 600
CHEAP_OPS = 10
SMALL_WORK = 1 << 15
MIN_ROWS = 8
MIN_NESTED_REDUCE = 16
PRODUCT, FACTOR = 1, 2


@dataclass(frozen=True)
class Demand:
    """Kernel `group` wants the element `index`, inside the reductions over `body`.

    `heavy`: inside a matmul-like reduction, at or above its product (PRODUCT) or at a factor of the
    product (FACTOR), each element of which is used many times.
    `linear`: only views lie between here and an enclosing sum.
    `dynamic`: the index holds values read from memory.
    """

    group: Group
    index: Index
    body: tuple[Node, ...] = ()
    heavy: int = 0
    linear: bool = False
    dynamic: bool = False


@dataclass(eq=False)
class Group:
    """A kernel in the making: it stores `root` over `ranges`."""

    root: Node
    ranges: Index
    ops: int = 0
    heavy: bool = False
    row_stats: list[frozenset[Node]] = field(default_factory=list)
    next_range: int = 0

    def fresh_range(self, size: Any) -> Node:
        """A new loop of this kernel; no loop at all for size 1."""
        if size == 1 or (isinstance(size, Node) and size.value == 1):
            return Node.index(0)
        self.next_range += 1
        return Node.range(size, self.next_range - 1)


@dataclass(eq=False)
class Plan:
    """The outcome: the kernels' groups by root, and why each root is one."""

    groups: dict[Node, Group] = field(default_factory=dict)
    reasons: dict[Node, str] = field(default_factory=dict)
    reduce_ranges: dict[tuple[Group, Node, Index], tuple[Node, ...]] = field(default_factory=dict)
    scatter_loops: dict[Node, tuple[Index, Index]] = field(default_factory=dict)

    def simplify(self, node: Node) -> Node:
        return simplify_index(node)

    def ranges_of_reduce(self, group: Group, node: Node, index: Index) -> tuple[Node, ...]:
        """The loops of a reduction that `group` computes for element `index`."""
        key = (group, node, index)
        found = self.reduce_ranges.get(key)
        if found is None:
            sizes = (
                [node.arg.size]
                if node.op is Op.UNWINDOW
                else [node.src[0].shape[axis] for axis in node.arg.axes]
            )
            found = tuple(group.fresh_range(size) for size in sizes)
            self.reduce_ranges[key] = found
        return found


def ranges_in(nodes: Index) -> frozenset[Node]:
    """Every RANGE that the index expressions use."""
    return frozenset(item for node in nodes for item in node.toposort() if item.op is Op.RANGE)


def view_base(node: Node) -> Node:
    """What a chain of views looks at."""
    while node.op in MOVEMENT:
        node = node.src[0]
    return node


@dataclass
class _Weight:
    """What computing a node from stored values costs: ops an element, and the reductions below."""

    ops: int
    costly: int
    loads: frozenset[Node]
    reduces: bool


def decide(outputs: list[Node], forced: dict[Node, str]) -> Plan:
    """The plan for `outputs`; `forced` nodes are stored for the reason given there."""
    plan = Plan()
    order = Node.sink(outputs).toposort()
    weights = _weights(order)
    demands: dict[Node, dict[tuple[Any, ...], Demand]] = {}
    wanted = set(outputs)
    for node in reversed(order):
        if node.op is Op.SINK or node.op in LEAVES:
            continue
        mine = list(demands.pop(node, {}).values())
        reason = _reason_to_store(node, mine, weights, wanted, forced, plan)
        if node.op is Op.AFTER:
            continue  # it is its buffer; the effects are ASSIGNs, stored whether demanded or not
        if reason is not None:
            plan.reasons[node] = reason
            _start_group(plan, node, demands)
        else:
            for demand in mine:
                _inline(plan, node, demand, demands, weights)
    return plan


def _weights(order: list[Node]) -> dict[Node, _Weight]:
    weights: dict[Node, _Weight] = {}
    for node in order:
        below = [weights[s] for s in node.src]
        if node.op in LEAVES or node.op in STORED or node.op is Op.AFTER:
            loads = frozenset() if node.op in (Op.CONST, Op.IOTA) else frozenset((node,))
            weights[node] = _Weight(0, 0, loads, False)
            continue
        own = 1 if node.op in ALU or node.op in (Op.REDUCE, Op.GATHER, Op.UNWINDOW) else 0
        loads = frozenset().union(*(w.loads for w in below)) if below else frozenset()
        weights[node] = _Weight(
            min(own + sum(w.ops for w in below), 1 << 20),
            min((node.op in COSTLY) + sum(w.costly for w in below), 1 << 20),
            loads if len(loads) <= 8 else frozenset(list(loads)[:8]),
            node.op in (Op.REDUCE, Op.UNWINDOW) or any(w.reduces for w in below),
        )
    return weights


def _reason_to_store(
    node: Node,
    demands: list[Demand],
    weights: dict[Node, _Weight],
    outputs: set[Node],
    forced: dict[Node, str],
    plan: Plan,
) -> str | None:
    if node in forced:
        return forced[node]
    if node.op is Op.AFTER:
        return None
    if node in outputs:
        return "it is an output"
    if node.op in STORED:
        return f"{node.op.name.lower()} has memory of its own"
    if node.op in MOVEMENT or node.op is Op.DETACH:
        return None
    if node.op is Op.GATHER:
        return _why_store_elementwise(node, demands, weights[node])
    if node.op in (Op.REDUCE, Op.UNWINDOW):
        return _why_store_reduce(node, demands, weights[node], plan)
    return _why_store_elementwise(node, demands, weights[node])


def _why_store_elementwise(node: Node, demands: list[Demand], weight: _Weight) -> str | None:
    groups = {d.group for d in demands}
    if any(d.dynamic for d in demands) and weight.ops > 0:
        return "it is read at positions that are not known in advance"
    if any(d.heavy == FACTOR for d in demands) and not _only_casts(node):
        if weight.costly or weight.ops > 3:
            return "a matmul-like reduction reads each element many times"
    if any(d.group.ops + weight.ops > MAX_KERNEL_OPS for d in demands) and _own_ops(node):
        if all(d.group.ops > MAX_KERNEL_OPS // 2 for d in demands) or len(demands) > 1:
            return f"the kernel would have more than {MAX_KERNEL_OPS} operations"
    if len(demands) == 1:
        return None
    if len(groups) > 1:
        if weight.reduces:
            return f"{len(groups)} kernels need it and it holds a reduction"
        if weight.costly > 1 or weight.ops > CHEAP_OPS or len(weight.loads) > 2:
            return f"{len(groups)} kernels need it and it is not cheap to recompute"
        return None
    if weight.ops > 4 * CHEAP_OPS or len(demands) > 3:
        return "one kernel needs it at several indices and it is not cheap to recompute"
    return None


def _only_casts(node: Node) -> bool:
    while node.op in MOVEMENT or node.op is Op.CAST:
        node = node.src[0]
    return node.op in LEAVES or node.op is Op.AFTER


def _own_ops(node: Node) -> bool:
    return node.op in ALU and size_product(node.shape) != 1


def _why_store_reduce(node: Node, demands: list[Demand], weight: _Weight, plan: Plan) -> str | None:
    if not demands:
        return None
    if len(demands) > 1:
        where = "kernels" if len({d.group for d in demands}) > 1 else "indices"
        return f"{len(demands)} {where} need this reduction"
    demand = demands[0]
    group = demand.group
    if demand.dynamic:
        return "it is read at positions that are not known in advance"
    used = ranges_in(demand.index)
    heavy = is_heavy(node)
    if used & frozenset(demand.body):
        return _why_not_nested(node, demand, used, heavy)
    if demand.heavy:
        return "a matmul-like reduction reads it"
    if heavy and group.root.op in (Op.SCAN, Op.SCATTER):
        return "a matmul-like reduction is a kernel of its own"
    if used == ranges_in(group.ranges):
        return _why_not_epilogue(group, heavy, demand)
    return _why_not_row_stat(node, group, used, heavy)


def _why_not_nested(node: Node, demand: Demand, used: frozenset[Node], heavy: bool) -> str | None:
    """A reduction inside another: free where it stands between two of the loops around it."""
    around = ranges_in(demand.group.ranges)
    prefixes = [around]
    for loop in demand.body:
        prefixes.append(prefixes[-1] | {loop})
    if used not in prefixes:
        return "it would be recomputed in the loops of another reduction"
    if used == prefixes[-1] and demand.linear and (node.op is Op.UNWINDOW or node.arg.op is Op.ADD):
        return None
    if heavy or demand.heavy or demand.group.heavy:
        return "a matmul-like reduction inside another cannot be tiled"
    if _reduce_size(node) < MIN_NESTED_REDUCE:
        return "an inner reduction this short is better computed beforehand"
    return None


def _why_not_epilogue(group: Group, heavy: bool, demand: Demand) -> str | None:
    if group.heavy or (heavy and (group.row_stats or demand.body)):
        return "one kernel holds one matmul-like reduction"
    if heavy:
        group.heavy = True
    else:
        group.row_stats.append(ranges_in(group.ranges))
    return None


def _why_not_row_stat(node: Node, group: Group, used: frozenset[Node], heavy: bool) -> str | None:
    if heavy or group.heavy:
        return "a matmul-like reduction is used again by inner loops"
    if any(not (used <= other or other <= used) for other in group.row_stats):
        return "two reductions over different rows do not nest"
    rows = 1
    for r in used:
        rows *= size_max_of(r)
    if rows < MIN_ROWS and rows * _reduce_size(node) > SMALL_WORK:
        return "too few rows to compute in parallel beside their users"
    group.row_stats.append(used)
    return None


def size_max_of(loop: Node) -> int:
    """The largest extent of a RANGE."""
    size = loop.src[0]
    return size.arg if size.op is Op.CONST else size_max(size)


def _reduce_size(node: Node) -> int:
    if node.op is Op.UNWINDOW:
        return node.arg.size
    total = 1
    for axis in node.arg.axes:
        total *= size_max(node.src[0].shape[axis])
    return total


def is_heavy(node: Node) -> bool:
    """Whether a reduction is matmul-like: a sum of products whose two factors are both reused."""
    if node.op is not Op.REDUCE or node.arg.op is not Op.ADD:
        return False
    product = node.src[0]
    while product.op in (Op.CAST, Op.RESHAPE, Op.PERMUTE):
        product = product.src[0]
    if product.op is not Op.MUL:
        return False
    whole = size_product(size_max(s) for s in product.shape)
    return all(_distinct(factor) * 2 <= whole for factor in product.src)


def _distinct(node: Node) -> int:
    """How many different elements a factor has, at most."""
    least = size_product(size_max(s) for s in node.shape)
    while node.op in MOVEMENT or node.op is Op.CAST:
        node = node.src[0]
        if node.op is not Op.CONST:
            least = min(least, size_product(size_max(s) for s in node.shape))
    return least


def _start_group(
    plan: Plan, node: Node, demands: dict[Node, dict[tuple[Any, ...], Demand]]
) -> None:
    shape = node.src[0].shape if node.op is Op.ASSIGN else node.shape
    group = Group(node, ())
    group.ranges = tuple(group.fresh_range(size) for size in shape)
    plan.groups[node] = group
    if node.op is Op.SCATTER:
        _demand_scatter(plan, group, node, demands)
        return
    start = Demand(group, group.ranges)
    if node.op is Op.ASSIGN:
        _add(demands, node.src[1], start)
    elif node.op in (Op.CONTIGUOUS, Op.SCAN):
        _add(demands, node.src[0], start)
    else:
        _inline(plan, node, start, demands, {})


def _demand_scatter(
    plan: Plan, group: Group, node: Node, demands: dict[Node, dict[tuple[Any, ...], Demand]]
) -> None:
    base, where, values = node.src
    _add(demands, base, Demand(group, group.ranges))
    axis = node.arg.axis
    outer = tuple(
        Node.index(0) if number == axis else group.fresh_range(size)
        for number, size in enumerate(base.shape)
    )
    positions = tuple(group.fresh_range(size) for size in where.shape)
    plan.scatter_loops[node] = (positions, outer)
    _add(demands, where, Demand(group, positions, positions))
    index = (*outer[:axis], *positions, *outer[axis + 1 :])
    _add(demands, values, Demand(group, index, positions))


def _add(demands: dict[Node, dict[tuple[Any, ...], Demand]], node: Node, demand: Demand) -> None:
    if node.op in LEAVES:
        return
    key = (demand.group, demand.index)
    mine = demands.setdefault(node, {})
    old = mine.get(key)
    if old is None:
        mine[key] = demand
    else:  # wanted twice at the same place: the stricter of both
        mine[key] = Demand(
            old.group,
            old.index,
            old.body if len(old.body) >= len(demand.body) else demand.body,
            max(old.heavy, demand.heavy),
            old.linear and demand.linear,
            old.dynamic or demand.dynamic,
        )


def _inline(
    plan: Plan,
    node: Node,
    demand: Demand,
    demands: dict[Node, dict[tuple[Any, ...], Demand]],
    weights: dict[Node, _Weight],
) -> None:
    group, index = demand.group, demand.index
    if node.op in ALU or node.op is Op.DETACH:
        group.ops += 1
        linear = demand.linear and node.op is Op.CAST and node.dtype.is_float
        heavy = FACTOR if demand.heavy == PRODUCT and node.op is Op.MUL else demand.heavy
        inner = replace(demand, heavy=heavy, linear=linear)
        for source in node.src:
            _add(demands, source, inner)
    elif node.op in MOVEMENT:
        moved, _ = source_index(node, index, plan.simplify)
        _add(demands, node.src[0], replace(demand, index=moved))
    elif node.op in (Op.REDUCE, Op.UNWINDOW):
        _inline_reduce(plan, node, demand, demands)
    elif node.op is Op.GATHER:
        _inline_gather(node, demand, demands)
    else:
        raise AssertionError(f"cannot inline {node.op.name}")


def _inline_reduce(
    plan: Plan, node: Node, demand: Demand, demands: dict[Node, dict[tuple[Any, ...], Demand]]
) -> None:
    group, index = demand.group, demand.index
    loops = plan.ranges_of_reduce(group, node, index)
    group.ops += 1
    heavy = demand.heavy or (PRODUCT if is_heavy(node) else 0)
    if heavy:
        group.heavy = True
    body = (*demand.body, *(r for r in loops if r.op is Op.RANGE))
    is_sum = node.op is Op.UNWINDOW or node.arg.op is Op.ADD
    inner, _ = reduce_index(plan, node, index, loops)
    _add(demands, node.src[0], Demand(group, inner, body, heavy, is_sum, demand.dynamic))


def reduce_index(
    plan: Plan, node: Node, index: Index, loops: tuple[Node, ...]
) -> tuple[Index, Node]:
    """The index of a reduction's source for element `index` and loop positions `loops`.

    The second result says whether there is such an element (UNWINDOW's windows may not reach).
    """
    if node.op is Op.REDUCE:
        inner = list(index)
        for axis, loop in zip(node.arg.axes, loops, strict=True):
            inner[axis] = loop
        return tuple(inner), Node.const(dtypes.bool, True)
    arg = node.arg
    offset = plan.simplify(index[arg.axis] - loops[0] * arg.dilation)
    count = node.src[0].shape[arg.axis]
    position = plan.simplify(offset // arg.stride)
    inside = (offset >= 0) & (position < count)
    if arg.stride > 1:
        inside = inside & (offset % arg.stride).eq(0)
    inner = [*index[: arg.axis], position, *index[arg.axis + 1 :], loops[0]]
    return tuple(inner), plan.simplify(inside)


def _inline_gather(
    node: Node, demand: Demand, demands: dict[Node, dict[tuple[Any, ...], Demand]]
) -> None:
    source, where = node.src
    axis, count = node.arg, len(where.shape)
    index = demand.index
    demand.group.ops += 1
    _add(demands, where, replace(demand, index=index[axis : axis + count], linear=False))
    # The value read is no loop of this kernel: a placeholder stands for it while deciding.
    placeholder = Node(Op.WILDCARD, dtypes.index, index[axis : axis + count], ("gathered", where))
    inner = (*index[:axis], placeholder, *index[axis + count :])
    _add(demands, source, replace(demand, index=inner, linear=False, dynamic=True))
