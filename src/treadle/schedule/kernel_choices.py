"""The choices that a scheduled kernel shows, by name (see ir/choices.py).

relu(a @ b + c), over (rows, columns)   ->  reduction_epilogue
softmax(x)                              ->  row_statistic
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..ir.loops import closed_ranges, free_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import End, Store
from .kernel import Kernel
from .plan import Plan

__all__ = ["with_choices"]


def with_choices(kernel: Kernel, plan: Plan, graph: Iterable[str]) -> Kernel:
    """`kernel` with the choices that `plan` made for it, beside those made for the whole graph."""
    groups = {plan.groups[root] for root in kernel.roots}
    found = {*kernel.choices, *graph, *_of_reductions(kernel.ast)}
    if any(group.kept for group in groups):
        found.add("local_intermediates")
    if len(groups) > 1:
        found.add("merged_kernels")
    others = [root for root in kernel.roots if plan.groups[root].root is not root]
    found.update("multi_output" if r in plan.joined else "stored_statistic" for r in others)
    return replace(kernel, choices=frozenset(found))


def _of_reductions(ast: Node) -> set[str]:
    """How the reductions of a kernel stand to its loops and to each other."""
    free, found = free_ranges(ast), set[str]()
    for end in (node for node in ast.src if node.op is Op.END):
        loops = frozenset(closed_ranges(end))
        reduces = [node for node in end.toposort() if node.op is Op.REDUCE]
        inner = frozenset(r for reduce in reduces for r in closed_ranges(reduce))
        effects = End.of(end).effects
        stored = {Store.of(store).value for store in effects if store.op is Op.STORE}
        for reduce in reduces:
            if free[reduce] & inner:
                found.add("nested_reduction")
            elif free[reduce] < loops:
                found.add("row_statistic")
            elif reduce not in stored:
                found.add("reduction_epilogue")
    return found
