"""Which nodes get memory of their own, and which are computed where they are used.

Walks the tensor graph from the outputs down. Every node learns its demands: which kernel wants it,
at which index, inside which reductions. A node with memory of its own (a global STAGE) starts a
kernel; all others are inlined. Each decision is recorded with its reason (reasons.py) in
`Plan.decisions`.

    softmax(x):  max and sum are wanted once for each row by one kernel  ->  one kernel
    relu(a @ b + c):  the matmul is wanted once for each element         ->  one kernel
    (a @ b) @ c:  the first matmul would be recomputed for each column   ->  two kernels

A third way is to keep a value row by row, in memory of the kernel that wants it (a shared STAGE):
see local_intermediates.py. Attention is one kernel so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..dtype import dtypes
from ..ir.node import Node
from ..ir.op import ALU, MOVEMENT, SAME, Op
from ..ir.shape import same_size
from ..ir.views import Assign, Gather, Scatter, operand
from .index import Index, gathered_index, places_index, reduce_index, source_index
from .local_intermediates import (
    CHAIN_IN_SUM,
    EVERYWHERE,
    Keeping,
    is_chain_in_sum,
    is_large_middle,
    keep_rows,
    may_keep_below,
)
from .multi_output import host_of, row_of
from .plan import (
    FACTOR,
    LEAVES,
    PRODUCT,
    STORED,
    Decision,
    Demand,
    Group,
    Home,
    Plan,
    Weight,
    is_heavy,
    loops_of,
    ranges_in,
    weigh,
)
from .reasons import decision_on

__all__ = ["decide"]


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
    order = Node.sink(outputs).toposort()
    asked = dict.fromkeys(outputs, Decision(True, "it is an output", is_output=True))
    asked |= {node: Decision(True, reason) for node, reason in forced.items()}
    decider = _Decider(Plan(joined=joined or {}), weigh(order), keeping, asked)
    for node in reversed(order):
        if node.op is Op.SINK or node.op in LEAVES:
            continue
        if node.op is not Op.AFTER:  # its effects are ASSIGNs, stored whether wanted or not
            decider.decide_on(node)
        decider.plan.pass_above(node)
    return decider.plan


@dataclass(eq=False)
class _Decider:
    """Decides on nodes, of which those that want a node come before it.

    Those `asked` for are stored whatever wants them.
    """

    plan: Plan
    weights: dict[Node, Weight]
    keeping: Keeping | None
    asked: dict[Node, Decision]
    demands: dict[Node, dict[tuple[Group, Index], Demand]] = field(default_factory=dict)

    def decide_on(self, node: Node) -> None:
        plan, keeping = self.plan, self.keeping
        mine = list(self.demands.pop(node, {}).values())
        asked = self.asked.get(node)
        if keeping and asked is None and self.weights[node].chained:
            uses = self._in_each_kernel(node, mine, keeping)
            if uses is not None:
                plan.decisions[node] = Decision(False, "kernels keep the rows that they use")
                self._inline_all(node, uses)
                return
        decision = asked or decision_on(node, mine, self.weights)
        if keeping and not decision.is_stored:
            if is_chain_in_sum(node, mine, self.weights[node].chained, keeping):
                decision = Decision(True, CHAIN_IN_SUM)
        host = None
        if decision.is_stored and asked is None and node.op not in STORED:
            host = self._host(node, mine)
        if host is not None:
            reason = f"{decision.reason}, and one of them computes it anyway"
            decision = replace(decision, reason=reason)
            plan.groups[node] = host.group
            host.group.places[node] = host.index
            self._inline(node, host)
        elif decision.is_stored:
            self._start_group(node)
        else:
            self._inline_all(node, mine)
        plan.decisions[node] = decision

    def _host(self, node: Node, demands: list[Demand]) -> Demand | None:
        """The demand of a kernel that computes all of `node` anyway, and can for all others."""
        host = host_of(node, demands, self.plan)
        if host is None or decision_on(node, [host], self.weights).is_stored:
            return None
        return host

    def _in_each_kernel(
        self, node: Node, demands: list[Demand], keeping: Keeping
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
        alone = (mine for group, mine in groups.items() if rows[group] is None)
        if any(decision_on(node, mine, self.weights).is_stored for mine in alone):
            return None
        uses: list[Demand] = []
        for group, mine in groups.items():
            kept = rows[group]
            if kept is not None:
                group.kept[node] = kept
                mine = [Demand(group, kept.ranges, kept)]
            group.rows.update(row_of(node, demand) for demand in mine)
            uses += mine
        return uses

    def _start_group(self, node: Node) -> None:
        plan = self.plan
        shape = operand(node).shape if node.op in (Op.ASSIGN, Op.DISTRIBUTE) else node.shape
        group = plan.groups.get(plan.joined.get(node, node))
        if group is not None:
            loops = iter(group.loops)
            index = tuple(Node.index(0) if same_size(size, 1) else next(loops) for size in shape)
            start = Demand(group, index, Home(index))
        else:
            group = Group((), root=node)
            group.ranges = tuple(group.fresh_range(size) for size in shape)
            start = Demand(group, group.ranges, group)
        plan.groups[node] = group
        group.places[node] = start.index
        if node.op is Op.SCATTER:
            self._demand_scatter(node, start)
        elif node.op is Op.DISTRIBUTE:
            self._demand_distribute(node, start)
        elif node.op is Op.ASSIGN:
            self._add(Assign.of(node).value, start)
        elif node.op in (Op.CONTIGUOUS, Op.SCAN):
            for source in node.src:
                self._add(source, start)
        else:
            self._inline(node, start)

    def _demand_scatter(self, node: Node, start: Demand) -> None:
        base, where, values, _ = Scatter.of(node)
        group = start.group
        self._add(base, start)
        loops = tuple(group.fresh_range(size) for size in values.shape)
        group.own_loops = loops
        positions = places_index(node, loops)
        self._add(where, Demand(group, positions, group, positions))
        self._add(values, Demand(group, loops, group, positions))

    def _demand_distribute(self, node: Node, start: Demand) -> None:
        values, bins, starts = node.src
        group = start.group
        bin = group.fresh_range(starts.shape[1])
        group.own_loops = (bin,)
        for source in (values, bins):
            self._add(source, start)
        self._add(starts, Demand(group, (group.ranges[0], bin), group, (bin,)))

    def _add(self, node: Node, demand: Demand) -> None:
        if node.op in LEAVES:
            return
        mine = self.demands.setdefault(node, {})
        key = (demand.group, demand.index)
        mine[key] = mine[key].stricter(demand) if key in mine else demand

    def _inline_all(self, node: Node, demands: list[Demand]) -> None:
        for demand in demands:
            self._inline(node, demand)

    def _inline(self, node: Node, demand: Demand) -> None:
        if node.op in ALU or node.op in SAME:
            demand.group.ops += 1
            linear = demand.linear and node.op is Op.CAST and node.dtype.is_float
            heavy = FACTOR if demand.heavy == PRODUCT and node.op is Op.MUL else demand.heavy
            for source in node.src:
                self._add(source, replace(demand, heavy=heavy, linear=linear))
        elif node.op in MOVEMENT:
            moved, _ = source_index(node, demand.index)
            self._add(operand(node), replace(demand, index=moved))
        elif node.op in (Op.REDUCE, Op.UNWINDOW):
            self._inline_reduce(node, demand)
        elif node.op is Op.GATHER:
            self._inline_gather(node, demand)
        else:
            raise AssertionError(f"cannot inline {node.op.name}")

    def _inline_reduce(self, node: Node, demand: Demand) -> None:
        group, index = demand.group, demand.index
        loops = group.ranges_of_reduce(node, index)
        results = ranges_in(index)
        group.ops += 1
        heavy = demand.heavy or (PRODUCT if is_heavy(node) else 0)
        if heavy:
            demand.home.heavy = True
        elif results.isdisjoint(demand.body):
            demand.home.row_stats.append(results)
        body = (*demand.body, *loops_of(loops))
        is_sum = node.op is Op.UNWINDOW or node.arg.op is Op.ADD
        inner, _ = reduce_index(node, index, loops)
        inside = replace(
            demand, index=inner, body=body, heavy=heavy, linear=is_sum, results=results
        )
        self._add(operand(node), inside)

    def _inline_gather(self, node: Node, demand: Demand) -> None:
        source, where, _ = Gather.of(node)
        places = places_index(node, demand.index)
        demand.group.ops += 1
        self._add(where, replace(demand, index=places, linear=False))
        # The value read is no loop of this kernel: a placeholder stands for it while deciding.
        placeholder = Node(Op.WILDCARD, dtypes.index, places, ("gathered", where))
        inner = gathered_index(node, demand.index, placeholder)
        self._add(source, replace(demand, index=inner, linear=False, dynamic=True))
