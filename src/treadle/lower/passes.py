"""The list of lowering passes, in order, each with why it stands where it does.

lower(ast, ...)  ->  Lowered(phases, scratch sizes, variable names)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..dtype import dtypes
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..target import Target
from .decompose import decompose
from .emulated_floats import emulate_dtypes
from .expand import expand
from .index_types import lower_index_types
from .linearize import Phase, ask_for_shared, join_phases, linearize
from .math import lower_math, round_explicitly
from .padded_rows import with_padded_rows
from .prefetch import with_hints
from .registers import lower_reduces
from .stage import lower_stages
from .streams import Caches, with_streamed_stores
from .summation import with_exact_sums
from .whole_steps import with_whole_steps
from .workgroup import lower_work_items

__all__ = ["Lowered", "lower"]


@dataclass(frozen=True, eq=False)
class Lowered:
    """What a renderer prints.

    `scratch` holds a PARAM for each piece of memory that the kernel needs beside its buffers;
    `variables` names the launch-time integers in the order of the vars argument.
    """

    phases: tuple[Phase, ...]
    scratch: tuple[Node, ...]
    variables: tuple[str, ...]


def lower(ast: Node, slots: int, target: Target) -> Lowered:
    """Lower a kernel whose moves are made; `slots` is its number of buffers."""
    native = frozenset(target.dtypes) | ({dtypes.float16} if target.has_half_convert else set())
    scaled_bytes = target.vector_bytes if target.has_scale else None
    # Stages first: they are loops of their own, which all later passes treat like any other.
    root, scratch = lower_stages(ast, slots)
    root = join_phases(root)
    root, work_items = lower_work_items(root)
    passes: tuple[Callable[[Node], Node], ...] = (
        # Index expressions are smallest before they are copied for each unrolled position.
        simplify,
        # Copies and lanes before reductions, so that each copy gets an accumulator.
        lambda node: expand(node, target.has_masked_memory, target.shuffled_bytes),
        lower_reduces,
        # Formulas after expansion: one rewrite serves each distinct node, scalar or vector.
        lambda node: emulate_dtypes(node, native),
        lower_math,
        # Right behind the formulas: it looks for what they made.
        lambda node: node if target.strict_floats else round_explicitly(node),
        # While an index is still a sum of loops; nothing that comes later looks at gates.
        lambda node: with_padded_rows(node) if target.chooses_addresses else node,
        # After the formulas, since they use divisions, shifts and casts themselves.
        lambda node: decompose(node, target.emulates_float64, target.strict_floats, scaled_bytes),
        # Bounds are known for index arithmetic only, so machine integers come last.
        lambda node: lower_index_types(node, target),
    )
    for run in passes:
        root = run(root)
    variables = sorted({n.arg.name for n in root.toposort() if n.op is Op.VARIABLE})
    phases = linearize(root, work_items, has_workgroups=target.workgroup is not None)
    if target.workgroup is None:
        caches = Caches(target.l1, target.l2, target.l3)
        # Streams first: hints depend on what leaves by them.
        phases = [with_hints(with_streamed_stores(phase, caches), caches) for phase in phases]
        # Parts have conditions of two loops, which would not be seen as the last step's.
        phases = [with_whole_steps(phase) for phase in phases]
    else:
        phases = [ask_for_shared(phase, target.workgroup.declared_bytes) for phase in phases]
    # All others look at the schedule's loops, which are others behind these.
    wide = target.dtype_of_total(dtypes.float32)
    phases = [with_exact_sums(phase, wide) for phase in phases]
    return Lowered(tuple(phases), tuple(scratch), tuple(variables))
