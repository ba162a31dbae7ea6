"""Kernels with several outputs, computed from the same intermediate rows.

    m = max(s), l = sum(exp(s - m)) of the rows of s = q @ k.T     are statistics of rows that the
    kernel of softmax(s) @ v keeps: it stores them for the kernels of the gradients
    dk = ds.T @ q, dv = p.T @ g     keep rows of the same s.T: one kernel computes both

Without this, each of these would compute the rows once more.
"""

from __future__ import annotations

import itertools

from ..ir.loops import has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import ALU, Op
from .plan import Demand, Group, Plan, is_heavy, loops_of, ranges_in

__all__ = ["host_of", "joinable", "row_of"]


def host_of(node: Node, demands: list[Demand], plan: Plan) -> Demand | None:
    """The demand of a kernel that computes all of `node` anyway, as a statistic of kept rows, or
    as what is made of such.

    That kernel can store it for the others, if it needs nothing that is computed from it, and reads
    none of it elsewhere than where it computes it.
    """
    if (node.op is not Op.REDUCE and node.op not in ALU) or is_heavy(node):
        return None
    for demand in demands:
        group = demand.group
        is_alone = all(d is demand for d in demands if d.group is group)
        if group.kept and is_alone and _covers(demand, node) and not _waits_for(group, node, plan):
            return demand
    return None


def _covers(demand: Demand, node: Node) -> bool:
    """Whether the loops of a kernel run through each element of `node` once."""
    loops = loops_of(demand.index)
    if len(set(loops)) < len(loops) or not set(loops) <= ranges_in(demand.group.ranges):
        return False
    return all(
        (loop_size(i) if i.op is Op.RANGE and has_fixed_size(i) else 1) == size
        for i, size in zip(demand.index, node.shape, strict=True)
    )


def _waits_for(group: Group, node: Node, plan: Plan) -> bool:
    """Whether a kernel reads what other kernels compute from `node`."""
    users = plan.roots_above(node)
    return plan.needs(group, [root for root in users if plan.groups[root] is not group])


def row_of(node: Node, demand: Demand) -> object:
    """What a kernel computes along rows, and in which direction they run."""
    around = ranges_in(demand.group.ranges)
    direction = tuple(i if ranges_in((i,)) <= around else None for i in demand.index)
    return node, direction


def joinable(plan: Plan) -> dict[Node, Node]:
    """Roots that are better stored by the kernel of another root, which has the same rows."""
    groups = [g for g in plan.kernels if g.kept and g.root.op is not Op.ASSIGN]
    found: dict[Node, Node] = {}
    for first, second in itertools.combinations(groups, 2):
        if first.root in found or second.root in found:
            continue
        alike = first.loops == second.loops and first.root.dtype is second.root.dtype
        if alike and first.rows & second.rows:
            if not _depends(first, second, plan) and not _depends(second, first, plan):
                found[second.root] = first.root
    return found


def _depends(group: Group, other: Group, plan: Plan) -> bool:
    """Whether `group` cannot be computed beside `other`: it waits for what that stores.

    Statistics are no such thing, since both compute them, unless a third kernel reads them first.
    """
    third: list[Node] = []
    for stored in other.places:
        for user in plan.roots_above(stored):
            owner = plan.groups[user]
            if owner is not group:
                third += [user] if owner is not other else []
            elif other.places[stored] == other.ranges:
                return True
    return plan.needs(group, third)
