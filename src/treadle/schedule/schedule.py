"""Tensor graphs to an ordered list of kernels.

    schedule([node], "CPU")  ->  [(node, Kernel(...)), ...]

Copies between devices are made before: every graph here lives on one device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..config import settings
from ..ir.loops import identity
from ..ir.node import Node
from ..ir.op import Op
from ..target import Target
from .fuse import LEAVES, STORED, Plan, decide, view_base
from .images import keep_in_images
from .kernel import Kernel
from .limits import cut_to_fit, fits
from .order import copy_old_versions, order_roots
from .ranges import build_kernel
from .scans import cut_long_scans
from .sorts import expand_sorts

__all__ = ["schedule"]


@dataclass(frozen=True)
class _Built:
    step: Kernel
    reads: frozenset[Node]


def schedule(
    outputs: Sequence[Node], device: str, target: Target | None = None
) -> tuple[list[tuple[Node, Kernel]], list[Node]]:
    """Every kernel that computes `outputs` on `device`, in order, each with the node it stores.

    `target` tells how many buffers a kernel can have; without it, any number.
    The second result holds the outputs as scheduled: where an output's graph had to change (an
    empty reduction became a constant), the node that is stored for it.
    """
    replaced = _without_empty_reductions(list(outputs))
    nodes = expand_sorts([replaced.get(node, node) for node in outputs], target)
    nodes = cut_long_scans([_storable(node) for node in nodes], target)
    forced = _forced(nodes)
    if target and target.max_image and settings.IMAGE:
        plan = decide(nodes, forced)
        nodes = keep_in_images(nodes, plan, target.max_image, settings.FLOAT16)
        forced = _forced(nodes)
    while True:
        plan = decide(nodes, forced)
        built = {root: _build(plan, root, device) for root in plan.groups}
        crowded = [r for r, b in built.items() if target and not fits(b.step, target)]
        if crowded and target:
            reason = f"{target.name} binds at most {target.max_buffers} buffers at once"
            forced.update((cut_to_fit(root, plan.groups, target), reason) for root in crowded)
            continue
        hazard = next((r for r, b in built.items() if _overwrites_what_it_reads(r, b.step)), None)
        if hazard is None:
            order, hazard = order_roots({root: b.reads for root, b in built.items()})
            if hazard is None:
                return [(root, built[root].step) for root in order], nodes
        if hazard.src[1] in forced:  # one kernel reads what is there before it and after it
            nodes = copy_old_versions(nodes, hazard)
            forced = _forced(nodes)
            continue
        forced[hazard.src[1]] = "it is assigned to memory that is still being read"


def _storable(node: Node) -> Node:
    """An output that is no computation, as a copy of it."""
    is_leaf = node.op in LEAVES and node.op is not Op.BUFFER
    return Node(Op.CONTIGUOUS, node.dtype, (node,)) if is_leaf else node


def _without_empty_reductions(outputs: list[Node]) -> dict[Node, Node]:
    mapping: dict[Node, Node] = {}
    for node in Node.sink(outputs).toposort():
        if node.op is Op.REDUCE and 0 in node.src[0].shape and 0 not in node.shape:
            scalar = identity(node.arg.op, node.dtype)
            ones = Node(Op.RESHAPE, node.dtype, (scalar,), (1,) * len(node.shape))
            mapping[node] = Node(Op.EXPAND, node.dtype, (ones,), node.shape)
    return {node: node.substitute(mapping) for node in outputs} if mapping else {}


def _forced(outputs: list[Node]) -> dict[Node, str]:
    forced: dict[Node, str] = {}
    for node in Node.sink(outputs).toposort():
        if node.op is Op.GATHER and not _is_stored(view_base(node.src[0])):
            forced[view_base(node.src[0])] = "it is indexed by values that are not known in advance"
    return forced


def _is_stored(node: Node) -> bool:
    return node.op in LEAVES or node.op in STORED or node.op is Op.AFTER


def _build(plan: Plan, root: Node, device: str) -> _Built:
    kernel, reads = build_kernel(plan, plan.groups[root], device)
    return _Built(kernel, reads)


def _overwrites_what_it_reads(root: Node, step: Kernel) -> bool:
    """Whether an ASSIGN's kernel reads its target elsewhere than where it writes.

    No kernel both reads and writes a texture.
    """
    if root.op is not Op.ASSIGN:
        return False
    store = step.ast.src[0].src[0]
    memory, position, value = store.src[:3]
    reads = [n for n in value.toposort() if n.op is Op.LOAD and n.src[0] is memory]
    return any(memory.arg.image or load.src[1] is not position for load in reads)
