"""Kernel: what the scheduler hands to the compiler, and the buffers it reads and writes.

The choices that it shows have names (see ir/choices.py):

    relu(a @ b + c), over (rows, columns)   ->  reduction_epilogue
    softmax(x)                              ->  row_statistic
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..errors import InternalError
from ..ir.loops import closed_ranges, free_ranges
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.versions import memory_key
from ..ir.views import End, Store
from .plan import Plan

__all__ = ["Kernel", "check", "with_choices"]

IN_PLACE = (Op.ASSIGN, Op.SCATTER, Op.DISTRIBUTE)  # may read memory before they write it


@dataclass(frozen=True, eq=False)
class Kernel:
    """One launch: `ast` is a SINK of ENDs over STOREs, PARAM slot i of it is `buffers[i]`.

    `roots` are the nodes whose values it stores. A buffer is a BUFFER node, or such a root.
    `writes` are the slots written; `reason` says why the kernel ends where it does, `choices` by
    which of the scheduler's choices it came about (see ir/choices.py).
    """

    ast: Node
    roots: tuple[Node, ...]
    buffers: tuple[Node, ...]
    writes: tuple[int, ...]
    device: str
    reason: str
    choices: frozenset[str] = frozenset()

    @property
    def nest(self) -> Node:
        """The END of the loops that store its results: the last one."""
        return self.ast.src[-1]

    @property
    def memory(self) -> list[object]:
        """What its buffers are told apart by, in their order."""
        return list(map(memory_key, self.buffers))

    @property
    def written(self) -> set[object]:
        """The memory that it writes to."""
        return {memory_key(self.buffers[slot]) for slot in self.writes}


def check(kernel: Kernel) -> None:
    """Raise InternalError for a kernel that reads a result of its own, which is not there yet."""
    stored = zip(kernel.roots, kernel.writes, strict=True)
    new = {slot for root, slot in stored if root.op not in IN_PLACE}
    read = (behind_after(n.src[0]) for n in kernel.ast.toposort() if n.op is Op.LOAD)
    if any(memory.op is Op.PARAM and memory.arg.slot in new for memory in read):
        raise InternalError(f"[schedule] a kernel reads what it stores: {kernel.reason}")


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
