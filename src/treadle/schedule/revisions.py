"""Revisions: what speaks against a draft of kernels, and the draft that takes that into account.

Each takes a Draft and gives another one, or None if it has nothing against it (see passes.py).
"""

from __future__ import annotations

from dataclasses import replace

from ..config import settings
from ..ir.carried import rows_of
from ..ir.carried_units import units_of
from ..ir.choices import take
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Assign
from ..target import Target, chain_of
from .chain_results import store_as_narrow, store_columns_last
from .draft import Draft
from .kernel import Kernel
from .layouts import store_channels_last
from .limits import cut_to_fit, fits
from .multi_output import joinable
from .order import copy_old_versions
from .store_order import is_safe
from .textures import keep_in_images

__all__ = [
    "bind_fewer_buffers", "join_kernels", "keep_what_runs", "order_writes", "store_chains",
    "store_in_layouts", "store_in_textures", "store_partial_sums",
]  # fmt: skip


def store_in_textures(draft: Draft) -> Draft | None:
    """Intermediate results in textures, if the user asks for them and there are such."""
    target = draft.target
    if not (target and target.max_image and settings.IMAGE):
        return None
    take("textures")
    nodes = keep_in_images(draft.nodes, draft.plan, target.max_image, settings.FLOAT16)
    return draft.of(nodes)


def join_kernels(draft: Draft) -> Draft | None:
    """Roots that the kernel of another root stores, since it keeps the same rows."""
    more = joinable(draft.plan)
    if more.keys() <= draft.joined.keys():
        return None
    return replace(draft, joined=draft.joined | more)


def bind_fewer_buffers(draft: Draft) -> Draft | None:
    """Kernels that bind more buffers than the device can, cut in two."""
    target = draft.target
    if target is None:
        return None
    crowded = [root for root, (kernel, _) in draft.built.items() if not fits(kernel, target)]
    if not crowded:
        return None
    take("cut_to_fit")
    reason = f"{target.name} binds at most {target.max_buffers} buffers at once"
    return draft.storing({cut_to_fit(root, draft.plan.groups, target): reason for root in crowded})


def store_partial_sums(draft: Draft) -> Draft | None:
    """Results of chains that are summed further as narrow as the sums end, for matrix units."""
    target = draft.target
    if target is None or target.workgroup is None:
        return None
    narrow = frozenset(u.dtype for u in target.matrix_units if chain_of(u) is not None)
    nodes = store_as_narrow(draft.nodes, draft.plan, narrow)
    return _of_changed(draft, nodes, "narrow_partial_sums")


def keep_what_runs(draft: Draft) -> Draft | None:
    """No rows in kernels that the target cannot run with them.

    Without its rows, a kernel has no reason to store what others would compute from them.
    """
    target, keeping = draft.target, draft.keeping
    if target is None or keeping is None:
        return None
    roots = (group.root for group in draft.plan.kernels if group.kept)
    unfit = frozenset(root for root in roots if not _keeps(draft.built[root][0], target))
    if not unfit:
        return None
    joined = {root: host for root, host in draft.joined.items() if host not in unfit}
    return replace(draft, keeping=replace(keeping, without=keeping.without | unfit), joined=joined)


def _keeps(kernel: Kernel, target: Target) -> bool:
    """Whether the target can run a kernel that keeps rows: workgroups do so on matrix units."""
    found = (rows_of(end) for end in kernel.ast.src)
    return target.workgroup is None or all(rows and any(units_of(rows, target)) for rows in found)


def store_chains(draft: Draft) -> Draft | None:
    """Results of chains of products with the columns of the last one innermost, on processors."""
    if draft.target is None or draft.target.workgroup is not None:
        return None
    nodes = store_columns_last(draft.nodes, draft.plan)
    return _of_changed(draft, nodes, "columns_last")


def store_in_layouts(draft: Draft) -> Draft | None:
    """Images with channels last where products read windows of them, on processors."""
    target = draft.target
    if target is None or target.workgroup is not None:
        return None
    kernels = [kernel for kernel, _ in draft.built.values()]
    nodes = store_channels_last(draft.nodes, draft.plan, kernels)
    return _of_changed(draft, nodes, "channels_last")


def _of_changed(draft: Draft, nodes: list[Node], choice: str) -> Draft | None:
    """The draft of `nodes`, if these are others: `choice` was made, and kernels join anew."""
    if nodes == draft.nodes:
        return None
    take(choice)
    return replace(draft.of(nodes), joined={})


def order_writes(draft: Draft) -> Draft | None:
    """Values stored before the memory that they read is overwritten, or that memory copied."""
    assigns = ((root, kernel) for root, (kernel, _) in draft.built.items() if root.op is Op.ASSIGN)
    hazards = [root for root, kernel in assigns if not is_safe(kernel)]
    if not hazards:
        _, hazard = draft.order
        if hazard is None:
            return None
        hazards = [hazard]
    values = [Assign.of(hazard).value for hazard in hazards]
    values = [value for value in values if value not in draft.forced]
    if values:
        take("stored_before_overwrite")
        reason = "it is assigned to memory that is still being read"
        return draft.storing(dict.fromkeys(values, reason))
    take("copied_version")  # one kernel reads what is there before it and after it
    return draft.of(copy_old_versions(draft.nodes, hazards[0]))
