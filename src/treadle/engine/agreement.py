"""When two schedules of one kernel agree: equal, but for the order in which sums are rounded.

Floats agree where they differ, by the largest magnitude in the result, by no more than 32 roundings
and a walk of roundings through each sum explain: 32 * eps + 4 * eps * sqrt(steps). Everything else
is equal.
"""

from __future__ import annotations

import math

import numpy as np

from ..ir.loops import has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import ALU, COMPARE, Op
from ..ir.rounding import epsilon
from ..ir.views import Access, Reduce, operand
from ..schedule.kernel import Kernel

__all__ = ["agree", "can_be_judged", "tolerance"]

LOOSEST = 1 / 8  # a tolerance beyond this tells nothing
ROUNDING = frozenset((Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND))
IN_ORDER = frozenset((Op.UPDATE, Op.TICKET, Op.REGISTER, Op.VARIABLE, Op.AFTER))


def agree(found: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    """Whether two finite results are equal, floats within `tolerance` of the largest."""
    if not np.issubdtype(found.dtype, np.floating):
        return bool(np.array_equal(found, expected))
    allowed = tolerance * float(np.abs(expected).max(initial=0))
    return bool(np.all(np.abs(found - expected) <= allowed))  # a NaN is not within anything


def can_be_judged(kernel: Kernel) -> bool:
    """Whether any data will do for a kernel, and its results say whether a schedule is right.

    Not where positions are loaded, steps must run in order, sizes are known at launch only, memory
    is an image, has two names, or is not used; nor where a float of a reduction, which depends on
    the order of rounding, decides something: one bit could then change the result at will.
    """
    nodes = kernel.ast.toposort()
    if any(n.op in IN_ORDER or (n.op is Op.PARAM and n.arg.image) for n in nodes):
        return False
    if any(n.op is Op.RANGE and not has_fixed_size(n) for n in nodes):
        return False
    memory = kernel.memory
    if len(set(memory)) < len(memory) or len({n for n in nodes if n.op is Op.PARAM}) < len(memory):
        return False
    accesses = [Access.of(n).index for n in nodes if n.op in (Op.LOAD, Op.STORE)]
    if any(n.op is Op.LOAD for n in Node.sink(accesses).toposort()):
        return False
    return not _decides_by_sums(nodes) and tolerance(nodes) is not None


def _decides_by_sums(nodes: list[Node]) -> bool:
    """Whether floats that depend on a reduction are compared, rounded, or made discrete."""
    reduced: set[Node] = set()
    for node in nodes:
        if node.op is Op.REDUCE or not reduced.isdisjoint(node.src):
            if node.op in ROUNDING or (operand(node).dtype.kind == "float" and _is_discrete(node)):
                return True
            reduced.add(node)
    return False


def _is_discrete(node: Node) -> bool:
    return node.op in COMPARE | {Op.TUPLE} or (
        node.op in (Op.CAST, Op.BITCAST) and node.dtype.kind != "float"
    )


def tolerance(nodes: list[Node]) -> float | None:
    """How far results may differ, relative to the largest; None where that would say nothing."""
    floats = [n for n in nodes if n.dtype.kind == "float"]
    total = 32 * max((epsilon(n.dtype) for n in floats if n.op in ALU), default=0.0)
    for node in floats:
        if node.op is Op.REDUCE and node.arg.op in (Op.ADD, Op.MUL):
            steps, one = loop_size(*Reduce.of(node).loops), epsilon(node.dtype)
            if steps * one > LOOSEST:  # no walk any more: small terms are lost altogether
                return None
            total += 4 * one * math.sqrt(steps)
    return total if total <= LOOSEST else None
