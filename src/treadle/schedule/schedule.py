"""Tensor graphs to an ordered list of kernels and copies.

    schedule([(node, "CPU")])  ->  [Kernel(...), ...]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.loops import identity
from ..ir.node import Node
from ..ir.op import Op
from .fuse import LEAVES, STORED, Plan, decide, view_base
from .kernel import Kernel, Transfer
from .order import order_roots
from .ranges import build_kernel, view_storage

__all__ = ["Step", "devices_of", "schedule"]

Step = Kernel | Transfer


@dataclass(frozen=True)
class _Built:
    step: Step
    reads: frozenset[Node]


def schedule(outputs: Sequence[tuple[Node, str]]) -> tuple[list[tuple[Node, Step]], list[Node]]:
    """Every step that computes `outputs` (node, device), in order, each with the node it stores.

    The second result holds the outputs as scheduled: where an output's graph had to change (an
    empty reduction became a constant), the node that is stored for it.
    """
    replaced = _without_empty_reductions([node for node, _ in outputs])
    nodes = [replaced.get(node, node) for node, _ in outputs]
    default = {node: device for node, (_, device) in zip(nodes, outputs, strict=True)}
    forced = _forced(nodes)
    while True:
        plan = decide(nodes, forced)
        devices = devices_of(plan, default)
        built = {root: _build(plan, root, devices[root]) for root in plan.groups}
        hazard = next((r for r, b in built.items() if _overwrites_what_it_reads(r, b.step)), None)
        if hazard is None:
            order, hazard = order_roots({root: b.reads for root, b in built.items()})
            if hazard is None:
                return [(root, built[root].step) for root in order], nodes
        forced[hazard.src[1]] = "it is assigned to memory that is still being read"


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
        elif node.op is Op.COPY and not _is_stored(node.src[0]):
            forced[node.src[0]] = "it is copied to another device"
    return forced


def _is_stored(node: Node) -> bool:
    return node.op in LEAVES or node.op in STORED or node.op is Op.AFTER


def _build(plan: Plan, root: Node, device: str) -> _Built:
    if root.op is Op.COPY:
        source = root.src[0]
        return _Built(Transfer(view_storage(source), root, device), frozenset((source,)))
    kernel, reads = build_kernel(plan, plan.groups[root], device)
    return _Built(kernel, reads)


def _overwrites_what_it_reads(root: Node, step: Step) -> bool:
    """Whether an ASSIGN's kernel reads its target elsewhere than where it writes."""
    if root.op is not Op.ASSIGN or not isinstance(step, Kernel):
        return False
    store = step.ast.src[0].src[0]
    memory, position, value = store.src[:3]
    return any(
        load.op is Op.LOAD and load.src[0] is memory and load.src[1] is not position
        for load in value.toposort()
    )


def devices_of(plan: Plan, default: dict[Node, str]) -> dict[Node, str]:
    """The device of each stored node: that of what it reads, else of the output it leads to."""
    order = Node.sink(list(default)).toposort()
    devices: dict[Node, str] = {}
    for node in order:
        if node.op is Op.BUFFER:
            devices[node] = node.arg.device
        elif node.op is Op.COPY:
            devices[node] = node.arg
        else:
            found = next((devices[s] for s in node.src if s in devices), None)
            if found is not None:
                devices[node] = found
    devices.update({node: device for node, device in default.items() if node.op is not Op.COPY})
    for node in reversed(order):
        if node in devices and node.op is not Op.COPY:
            for source in node.src:
                devices.setdefault(source, devices[node])
    return devices


