"""Which nodes get memory of their own, and which are computed where they are used.

Walks the tensor graph from the outputs down. Every node learns its demands: which kernel wants it,
at which index, inside which reductions. A node with memory of its own (a global STAGE) starts a
kernel; all others are inlined. Each decision is recorded with its reason (reasons.py) in
`Plan.decisions`.

    softmax(x):  max and sum are wanted once for each row by one kernel  ->  one kernel
    relu(a @ b + c):  the matmul is wanted once for each element         ->  one kernel
    (a @ b) @ c:  the first matmul would be recomputed for each column   ->  two kernels

A third way is to keep a value row by row, in memory of the kernel that wants it (a shared STAGE):
see local_intermediates.py. Attention is one kernel so, and no matrix of all its scores is ever in
memory.
"""

from __future__ import annotations

from dataclasses import replace

from ..dtype import dtypes
from ..ir.node import Node
from ..ir.op import ALU, MOVEMENT, SAME, Op
from ..ir.rules.index import simplify
from ..ir.shape import same_size
from ..ir.views import Assign, operand
from .decision import Decision, Home
from .index import Index, gathered_index, places_index, source_index, unwindow_index
from .local_intermediates import (
    CHAIN_IN_SUM,
    EVERYWHERE,
    Keeping,
    is_chain_in_sum,
    is_large_middle,
    keep_rows,
    may_keep_below,
)
from .multi_output import host_of, note_row
from .plan import (
    FACTOR,
    LEAVES,
    PRODUCT,
    STORED,
    Demand,
    Group,
    Plan,
    Weight,
    is_heavy,
    ranges_in,
    weigh,
)
from .reasons import decision_on

__all__ = ["decide", "reduce_index"]


def decide(
    outputs: list[Node],
    forced: dict[Node, str],
    keeping: Keeping | None = EVERYWHERE,
    joined: dict[Node, Node] | None = None,
) -> Plan:
    """The plan for `outputs`; `forced` nodes are stored for the reason given there.

    `keeping` says which kernels keep values row by row in memory of their own, none if it is None.
    `joined` roots are stored by the kernels of the roots that they are joined to.
    """
    plan = Plan(joined=joined or {})
    order = Node.sink(outputs).toposort()
    weights = weigh(order)
    demands: dict[Node, dict[tuple[object, ...], Demand]] = {}
    wanted = set(outputs)
    for node in reversed(order):
        if node.op is Op.SINK or node.op in LEAVES:
            continue
        mine = list(demands.pop(node, {}).values())
        if keeping and node not in forced and node not in wanted and weights[node].chained:
            uses = _in_each_kernel(node, mine, weights, plan, keeping)
            if uses is not None:
                plan.decisions[node] = Decision(node, False, "kernels keep the rows that they use")
                for demand in uses:
                    _inline(plan, node, demand, demands)
                plan.pass_above(node)
                continue
        decision = decision_on(node, mine, weights, wanted, forced)
        if keeping and not decision.is_stored:
            if is_chain_in_sum(node, mine, weights[node].chained, keeping):
                decision = Decision(node, True, CHAIN_IN_SUM)
        plan.decisions[node] = decision
        host = None
        if decision.is_stored and not (node in forced or node in wanted or node.op in STORED):
            host = _host(node, mine, weights, plan)
        if host is not None:
            reason = f"{decision.reason}, and one of them computes it anyway"
            plan.decisions[node] = replace(decision, reason=reason)
            plan.groups[node] = host.group
            host.group.places[node] = host.index
            _inline(plan, node, host, demands)
        elif decision.is_stored:
            _start_group(plan, node, demands)
        elif node.op is not Op.AFTER:  # whose effects are ASSIGNs, stored whether wanted or not
            _apply(decision)
            for demand in mine:
                _inline(plan, node, demand, demands)
        plan.pass_above(node)
    return plan


def _apply(decision: Decision) -> None:
    """What is inlined leaves its claim at the kernel that computes it."""
    if decision.claim is not None:
        decision.claim.apply()


def _host(
    node: Node, demands: list[Demand], weights: dict[Node, Weight], plan: Plan
) -> Demand | None:
    """The demand of a kernel that computes all of `node` anyway, and can for all others."""
    host = host_of(node, demands, plan)
    if host is None:
        return None
    alone = decision_on(node, [host], weights, set(), {})
    if alone.is_stored:
        return None
    _apply(alone)
    return host


def _in_each_kernel(
    node: Node,
    demands: list[Demand],
    weights: dict[Node, Weight],
    plan: Plan,
    keeping: Keeping,
) -> list[Demand] | None:
    """How the kernels that want `node` compute it, each for itself, if some keep rows of it.

    None where that is no better than storing it, or where nothing has to be kept.
    """
    groups: dict[Group, list[Demand]] = {}
    for demand in demands:
        groups.setdefault(demand.group, []).append(demand)
    rows = {group: keep_rows(node, mine, keeping) for group, mine in groups.items()}
    if len(groups) == 1 and not any(rows.values()):
        return None
    if len(groups) > 1:
        may = (g.kept or rows[g] or may_keep_below(mine) for g, mine in groups.items())
        if not (all(may) and is_large_middle(node, keeping)):
            return None
    alone = {
        group: decision_on(node, mine, weights, set(), {})
        for group, mine in groups.items()
        if rows[group] is None
    }
    if any(decision.is_stored for decision in alone.values()):
        return None
    uses: list[Demand] = []
    for group, mine in groups.items():
        kept = rows[group]
        uses += mine if kept is None else [Demand(group, kept.ranges, kept)]
    for decision in alone.values():
        _apply(decision)
    for demand in uses:
        note_row(plan, node, demand)
    for group, kept in rows.items():
        if kept is not None:
            plan.kept[group, node] = kept
            group.kept.append(kept)
    return uses


def _start_group(
    plan: Plan, node: Node, demands: dict[Node, dict[tuple[object, ...], Demand]]
) -> None:
    shape = operand(node).shape if node.op in (Op.ASSIGN, Op.DISTRIBUTE) else node.shape
    host = plan.groups.get(plan.joined.get(node, node))
    if host is not None:
        plan.groups[node] = host
        loops = iter(host.loops)
        index = tuple(Node.index(0) if same_size(size, 1) else next(loops) for size in shape)
        host.places[node] = index
        start = Demand(host, index, Home(index))
        if node.op is Op.CONTIGUOUS:
            _add(demands, operand(node), start)
        else:
            _inline(plan, node, start, demands)
        return
    group = Group((), root=node)
    group.ranges = tuple(group.fresh_range(size) for size in shape)
    group.places[node] = group.ranges
    plan.groups[node] = group
    if node.op is Op.SCATTER:
        _demand_scatter(plan, group, node, demands)
        return
    if node.op is Op.DISTRIBUTE:
        _demand_distribute(plan, group, node, demands)
        return
    start = Demand(group, group.ranges, group)
    if node.op is Op.ASSIGN:
        _add(demands, Assign.of(node).value, start)
    elif node.op in (Op.CONTIGUOUS, Op.SCAN):
        _add(demands, operand(node), start)
    else:
        _inline(plan, node, start, demands)


def _demand_scatter(
    plan: Plan, group: Group, node: Node, demands: dict[Node, dict[tuple[object, ...], Demand]]
) -> None:
    base, where, values = node.src
    _add(demands, base, Demand(group, group.ranges, group))
    loops = tuple(group.fresh_range(size) for size in values.shape)
    plan.own_loops[node] = loops
    positions = places_index(node, loops)
    _add(demands, where, Demand(group, positions, group, positions))
    _add(demands, values, Demand(group, loops, group, positions))


def _demand_distribute(
    plan: Plan, group: Group, node: Node, demands: dict[Node, dict[tuple[object, ...], Demand]]
) -> None:
    values, bins, starts = node.src
    bin = group.fresh_range(starts.shape[1])
    plan.own_loops[node] = (bin,)
    for source in (values, bins):
        _add(demands, source, Demand(group, group.ranges, group))
    _add(demands, starts, Demand(group, (group.ranges[0], bin), group, (bin,)))


def _add(demands: dict[Node, dict[tuple[object, ...], Demand]], node: Node, demand: Demand) -> None:
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
            old.home,
            old.body if len(old.body) >= len(demand.body) else demand.body,
            max(old.heavy, demand.heavy),
            old.linear and demand.linear,
            old.dynamic or demand.dynamic,
            old.results | demand.results,
        )


def _inline(
    plan: Plan,
    node: Node,
    demand: Demand,
    demands: dict[Node, dict[tuple[object, ...], Demand]],
) -> None:
    group, index = demand.group, demand.index
    if node.op in ALU or node.op in SAME:
        group.ops += 1
        linear = demand.linear and node.op is Op.CAST and node.dtype.is_float
        heavy = FACTOR if demand.heavy == PRODUCT and node.op is Op.MUL else demand.heavy
        inner = replace(demand, heavy=heavy, linear=linear)
        for source in node.src:
            _add(demands, source, inner)
    elif node.op in MOVEMENT:
        moved, _ = source_index(node, index)
        _add(demands, operand(node), replace(demand, index=moved))
    elif node.op in (Op.REDUCE, Op.UNWINDOW):
        _inline_reduce(plan, node, demand, demands)
    elif node.op is Op.GATHER:
        _inline_gather(node, demand, demands)
    else:
        raise AssertionError(f"cannot inline {node.op.name}")


def _inline_reduce(
    plan: Plan, node: Node, demand: Demand, demands: dict[Node, dict[tuple[object, ...], Demand]]
) -> None:
    group, index = demand.group, demand.index
    loops = plan.ranges_of_reduce(group, node, index)
    group.ops += 1
    heavy = demand.heavy or (PRODUCT if is_heavy(node) else 0)
    if heavy:
        demand.home.heavy = True
    body = (*demand.body, *(r for r in loops if r.op is Op.RANGE))
    is_sum = node.op is Op.UNWINDOW or node.arg.op is Op.ADD
    inner, _ = reduce_index(node, index, loops)
    inside = replace(
        demand, index=inner, body=body, heavy=heavy, linear=is_sum, results=ranges_in(index)
    )
    _add(demands, operand(node), inside)


def reduce_index(node: Node, index: Index, loops: tuple[Node, ...]) -> tuple[Index, Node]:
    """The index of a reduction's source for element `index` and loop positions `loops`.

    The second result says whether there is such an element (UNWINDOW's windows may not reach).
    """
    if node.op is Op.REDUCE:
        inner = list(index)
        for axis, loop in zip(node.arg.axes, loops, strict=True):
            inner[axis] = loop
        return tuple(inner), Node.const(dtypes.bool, True)
    arg = node.arg
    position, offset = unwindow_index(arg, index[arg.axis], loops[0])
    position, offset = simplify(position), simplify(offset)
    inside = (position >= 0) & (position < operand(node).shape[arg.axis])
    inside = inside & (offset >= 0) & (offset < arg.size)
    inner = [*index[: arg.axis], position, *index[arg.axis + 1 :], offset]
    return tuple(inner), simplify(inside)


def _inline_gather(
    node: Node, demand: Demand, demands: dict[Node, dict[tuple[object, ...], Demand]]
) -> None:
    source, where = node.src
    places = places_index(node, demand.index)
    demand.group.ops += 1
    _add(demands, where, replace(demand, index=places, linear=False))
    # The value read is no loop of this kernel: a placeholder stands for it while deciding.
    placeholder = Node(Op.WILDCARD, dtypes.index, places, ("gathered", where))
    inner = gathered_index(node, demand.index, placeholder)
    _add(demands, source, replace(demand, index=inner, linear=False, dynamic=True))
