"""The scheduler's passes, in order, each with why it stands where it does.

    schedule([node], "CPU")  ->  [Kernel(...), ...]

Copies between devices are made before: every graph here lives on one device. PREPARE changes the
graph, REVISIONS look at the kernels that were decided on and may ask to decide once more. Then
kernels are merged, and at last reductions join the outputs whose loops they have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..config import settings
from ..ir.choices import choices_of
from ..ir.node import Node
from ..ir.remembered import remembered
from ..target import Target
from . import prepare, revisions
from .draft import Draft
from .kernel import Kernel, check, with_choices
from .local_intermediates import keeping_of
from .merge import merge
from .output_reductions import join_output_reductions
from .separate_sums import separate_sums
from .spread_windows import spread_windows

__all__ = ["schedule"]

PREPARE: tuple[Callable[[list[Node], Target | None], list[Node]], ...] = (
    # The engine looks at indices by graphs of its own, and gradients are graphs by now.
    prepare.without_marks,
    # Kernels loop at least once, so what loops never goes first.
    prepare.fold_empty_loops,
    # Sorts become scans, scatters and distributions, which have kernels.
    prepare.expand_ops,
    # Kernels know windows whose stride and dilation have no factor in common.
    spread_windows,
    # Before outputs are copies: a value that is kept for its own sake stays where it is.
    prepare.store_in_place,
    # An output that is no computation is a copy, which a kernel makes.
    prepare.own_memory,
    # Last, as all others make sums too.
    separate_sums,
)


class Revision(NamedTuple):
    """`revise` gives a draft that asks for something else, or None if it has nothing against one.

    What is made `once` is not asked again.
    """

    revise: Callable[[Draft], Draft | None]
    once: bool = False


# The first that has something against a draft decides; all of them look at what comes of that.
REVISIONS = (
    # What is in textures is memory of its own, whatever else is decided.
    Revision(revisions.store_in_textures, once=True),
    # What a kernel that keeps rows stores for others to add up decides what it may round.
    Revision(revisions.store_partial_sums, once=True),
    # Kernels that keep the same rows are one, before any is built.
    Revision(revisions.join_kernels),
    # Then kernels are built, and must bind no more buffers than the device can.
    Revision(revisions.bind_fewer_buffers),
    # Workgroups know few of the kernels that keep rows.
    Revision(revisions.keep_what_runs),
    # What kernels keep is final, so the products of their rows are known.
    Revision(revisions.store_chains, once=True),
    # Layouts follow from the loops of the kernels.
    Revision(revisions.store_in_layouts, once=True),
    # Last, since only what is final has to be in an order.
    Revision(revisions.order_writes),
)


def schedule(
    outputs: Sequence[Node], device: str, target: Target | None = None
) -> tuple[list[Kernel], list[Node]]:
    """Every kernel that computes `outputs` on `device`, in order.

    `target` tells how many buffers a kernel can have; without it, any number.
    The second result holds the outputs as scheduled: where an output's graph had to change (an
    empty reduction became a constant, a scatter of nothing a copy), the node that is stored for it.
    """
    with remembered(), choices_of() as made:
        nodes = list(outputs)
        for prepared in PREPARE:
            nodes = prepared(nodes, target)
        draft = _settled(Draft(nodes, device, target, keeping_of(target)))
        kernels = merge(draft)
        if not settings.REPRODUCIBLE:
            kernels = join_output_reductions(kernels, target)
        for kernel in kernels:
            check(kernel)
        return [with_choices(kernel, draft.plan, made) for kernel in kernels], draft.nodes


def _settled(draft: Draft) -> Draft:
    """The draft that no revision has anything against."""
    open_revisions = list(REVISIONS)
    while True:
        for revision in tuple(open_revisions):
            if revision.once:
                open_revisions.remove(revision)
            revised = revision.revise(draft)
            if revised is not None:
                draft = revised
                break
        else:
            return draft
