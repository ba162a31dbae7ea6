"""Tensor graphs to an ordered list of kernels.

    schedule([node], "CPU")  ->  [Kernel(...), ...]

Copies between devices are made before: every graph here lives on one device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..config import settings
from ..ir.attention import recognise_attention, unit_of
from ..ir.attention_gradients import recognise_gradients, unit_for
from ..ir.choices import choices_of, take
from ..ir.loops import identity
from ..ir.node import Node, substitute
from ..ir.op import Op
from ..ir.rules.index import remembered
from ..ir.versions import view_base
from ..target import Target
from .described import with_choices
from .effects import is_safe, stores_of
from .fuse import decide
from .images import keep_in_images
from .joint import joinable
from .kept import EVERYWHERE, Keeping
from .kernel import Kernel
from .layouts import store_channels_last
from .limits import cut_to_fit, fits
from .merge import merge
from .order import copy_old_versions, needs_of, order_roots
from .output_reductions import join_output_reductions
from .plan import LEAVES, STORED, Plan
from .ranges import build_kernel
from .scans import cut_long_scans
from .sorts import expand_sorts

__all__ = ["schedule"]

FUSED_GAIN = 0.25  # where what is kept never leaves registers, so that nothing is read anew


def schedule(
    outputs: Sequence[Node], device: str, target: Target | None = None
) -> tuple[list[Kernel], list[Node]]:
    """Every kernel that computes `outputs` on `device`, in order.

    `target` tells how many buffers a kernel can have; without it, any number.
    The second result holds the outputs as scheduled: where an output's graph had to change (an
    empty reduction became a constant, a scatter of nothing a copy), the node that is stored for it.
    """
    with remembered(), choices_of() as made:
        kernels, nodes, plan = _scheduled(outputs, device, target)
        return [with_choices(kernel, plan, made) for kernel in kernels], nodes


def _scheduled(
    outputs: Sequence[Node], device: str, target: Target | None
) -> tuple[list[Kernel], list[Node], Plan]:
    outputs = _without_checks(tuple(outputs))
    replaced = _without_empty_loops(list(outputs))
    nodes = expand_sorts([replaced.get(node, node) for node in outputs], target)
    nodes = cut_long_scans([_storable(node) for node in nodes], target)
    forced = _forced(nodes)
    keeping = _keeping(target)
    if target and target.max_image and settings.IMAGE:
        plan = decide(nodes, forced, keeping)
        take("textures")
        nodes = keep_in_images(nodes, plan, target.max_image, settings.FLOAT16)
        forced = _forced(nodes)
    joined: dict[Node, Node] = {}
    is_laid_out = target is None or target.workgroup is not None
    while True:
        plan = decide(nodes, forced, keeping, joined)
        more = joinable(plan)
        if more and not more.keys() <= joined.keys():
            joined |= more
            continue
        built = {g.root: build_kernel(plan, tuple(g.places), device) for g in plan.kernels}
        crowded = [r for r, (k, _) in built.items() if target and not fits(k, target)]
        if crowded and target:
            take("cut_to_fit")
            reason = f"{target.name} binds at most {target.max_buffers} buffers at once"
            forced.update((cut_to_fit(root, plan.groups, target), reason) for root in crowded)
            continue
        kept = (g.root for g in plan.kernels if g.kept)
        unfit = frozenset(r for r in kept if target and not _keeps(built[r][0], target))
        if keeping and unfit:
            keeping = replace(keeping, without=keeping.without | unfit)
            continue
        if not is_laid_out:
            is_laid_out = True
            ordered = store_channels_last(nodes, plan, (kernel for kernel, _ in built.values()))
            if ordered != nodes:
                take("channels_last")
                nodes, joined = ordered, {}
                forced, keeping = _forced(nodes), _keeping(target)
                continue
        hazards = [r for r, (k, _) in built.items() if _overwrites_what_it_reads(r, k)]
        if not hazards:
            reads = {root: versions for root, (_, versions) in built.items()}
            before = needs_of(reads, {root: group.root for root, group in plan.groups.items()})
            order, hazard = order_roots(before, reads)
            if hazard is None:
                kernels = [built[root] for root in order]
                merged = merge(kernels, before, plan, nodes, target)
                return join_output_reductions(merged, target), nodes, plan
            hazards = [hazard]
        values = [hazard.src[1] for hazard in hazards if hazard.src[1] not in forced]
        forced.update(
            (value, "it is assigned to memory that is still being read") for value in values
        )
        if values:
            take("stored_before_overwrite")
        else:  # one kernel reads what is there before it and after it
            take("copied_version")
            nodes = copy_old_versions(nodes, hazards[0])
            forced = _forced(nodes)


def _keeping(target: Target | None) -> Keeping | None:
    """Which kernels may keep rows, as far as the target says."""
    if target is None or target.workgroup is None:
        return EVERYWHERE
    return Keeping(gain=FUSED_GAIN) if target.matrix_units else None


def _keeps(kernel: Kernel, target: Target) -> bool:
    """Whether the target can run a kernel that keeps rows.

    Groups of items know attention and its gradients alone.
    """
    return target.workgroup is None or all(_attends(end, target) for end in kernel.ast.src)


def _attends(end: Node, target: Target) -> bool:
    attention = recognise_attention(end)
    if attention is not None:
        return unit_of(attention, target.matrix_units) is not None
    gradients = recognise_gradients(end)
    return gradients is not None and unit_for(gradients, target.matrix_units) is not None


def _storable(node: Node) -> Node:
    """An output that is no computation, as a copy of it."""
    is_leaf = node.op in LEAVES and node.op is not Op.BUFFER
    return Node(Op.CONTIGUOUS, node.dtype, (node,)) if is_leaf else node


def _without_checks(outputs: tuple[Node, ...]) -> tuple[Node, ...]:
    """Indices without their bounds, which the engine looks at by graphs of their own."""
    checked = {n: n.src[0] for n in Node.sink(outputs).toposort() if n.op is Op.CHECKED}
    return substitute(outputs, checked) if checked else outputs


def _without_empty_loops(outputs: list[Node]) -> dict[Node, Node]:
    """What combines, pads or looks up nothing, as what it is then: kernels loop at least once."""
    mapping: dict[Node, Node] = {}
    for node in Node.sink(outputs).toposort():
        if 0 in node.shape:
            continue
        if node.op is Op.REDUCE and 0 in node.src[0].shape:
            mapping[node] = _filled(identity(node.arg.op, node.dtype), node)
        if node.op in (Op.PAD, Op.UNWINDOW, Op.GATHER) and 0 in node.src[0].shape:
            mapping[node] = _filled(Node.const(node.dtype, 0), node)
        if node.op is Op.SCATTER and 0 in node.src[2].shape:
            base = node.src[0].substitute(mapping)
            mapping[node] = Node(Op.CONTIGUOUS, node.dtype, (base,))
    return {node: node.substitute(mapping) for node in outputs} if mapping else {}


def _filled(value: Node, like: Node) -> Node:
    """`value` everywhere, in the shape of `like`."""
    ones = Node(Op.RESHAPE, value.dtype, (value,), (1,) * len(like.shape))
    return Node(Op.EXPAND, value.dtype, (ones,), like.shape)


def _forced(outputs: list[Node]) -> dict[Node, str]:
    forced: dict[Node, str] = {}
    for node in Node.sink(outputs).toposort():
        if node.op is Op.GATHER and not _is_stored(view_base(node.src[0])):
            forced[view_base(node.src[0])] = "it is indexed by values that are not known in advance"
    return forced


def _is_stored(node: Node) -> bool:
    return node.op in LEAVES or node.op in STORED or node.op is Op.AFTER


def _overwrites_what_it_reads(root: Node, kernel: Kernel) -> bool:
    """Whether an ASSIGN's kernel reads its target elsewhere than where it writes."""
    return root.op is Op.ASSIGN and not is_safe(stores_of(kernel.ast))
