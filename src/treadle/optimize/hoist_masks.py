"""Masks around a product, moved onto its factors.

    WHERE(c, a * b, 0)                    ->  (a where c) * b
    LOAD(a, gate c) * LOAD(b, gate c)     ->  LOAD(a, gate c) * LOAD(b)

Both where c keeps b to a part of its memory, as what lies beside that may be infinite.

So that the product stands on top, and its factors depend on as few loops as they can. Where a
condition is about places, a masked factor is padding with zeros: where the other is infinite, the
product is NaN. A condition on values chooses what counts, so it masks both factors, or none where
one of them is the same for several of its values:

    WHERE(LOAD(m, k), a * b, 0)           ->  WHERE(LOAD(m, k), a, 0) * WHERE(LOAD(m, k), b, 0)
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.choices import take
from ..ir.conditions import all_of, bounds_where, parts, stays_inside
from ..ir.loops import free_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Load, Reduce, Where
from .moves import Move, Moves

__all__ = ["HoistMasks", "hoist_masks", "masked"]


@dataclass(frozen=True)
class HoistMasks(Move):
    """The masks of products under sums move onto their factors."""

    word = "hoist_masks"

    def apply(self, moves: Moves) -> None:
        moves.root = hoist_masks(moves.root)


def hoist_masks(root: Node) -> Node:
    """`root` with the masks of products under sums on their factors."""
    mapping = {}
    for node in root.toposort():
        if node.op is not Op.REDUCE or node.arg.op is not Op.ADD:
            continue
        reduce = Reduce.of(node)
        value = _distributed(reduce.value)
        if value is not reduce.value:
            mapping[node] = reduce._replace(value=value).node()
    if mapping:
        take("hoist_masks")
    return root.substitute(mapping)


def _distributed(value: Node) -> Node:
    product, conditions = value, []
    while product.op is Op.WHERE and Where.of(product).no.value == 0:
        condition, product, _ = product.src
        conditions.extend(parts(condition))
    if product.op is not Op.MUL:
        return value
    free = free_ranges(value)
    chosen = [c for c in conditions if any(n.op is Op.LOAD for n in c.toposort())]
    if any(not free[c] <= free[factor] for c in chosen for factor in product.src):
        return value
    held: list[list[Node]] = [[], []]
    for condition in conditions:
        if condition not in chosen:
            shared = [len(free[condition] & free[factor]) for factor in product.src]
            held[shared[0] < shared[1]].append(condition)
    for factor, mine, others in zip(product.src, held, (held[1], held[0]), strict=True):
        about = [c for c in others if free[c] <= free[factor] and c not in mine]
        if not _stays_among(factor, about):
            mine.extend(about)
    one, other = map(masked, held, product.src)
    one = _without_needless_gates(one, other)
    factors = one, _without_needless_gates(other, one)
    if chosen:
        factors = tuple(all_of(chosen).where(factor, 0) for factor in factors)
    return factors[0] * factors[1]


def _stays_among(factor: Node, conditions: list[Node]) -> bool:
    """Whether all that is read for a factor lies among what is read where `conditions` hold."""
    for node in factor.toposort():
        if conditions and node.op is Op.LOAD:
            if any(map(_is_symbolic, conditions)):
                return False  # what lies where they do not hold, launches decide
            load = Load.of(node)
            low, high = bounds_where(load.index, (*parts(load.gate), *conditions))
            first, last = bounds_where(load.index, parts(load.gate))
            if first < low or high < last:
                return False
    return True


def masked(conditions: list[Node], value: Node) -> Node:
    """`value` where all of `conditions` hold, else 0."""
    if not conditions:
        return value
    if value.op is not Op.LOAD:
        return all_of(conditions).where(value, 0)
    load = Load.of(value)
    if load.other.value != 0:
        return all_of(conditions).where(value, 0)
    gate = all_of(dict.fromkeys((*parts(load.gate), *conditions)))
    return load._replace(gate=gate, other=Node.const(value.dtype, 0)).node()


def _without_needless_gates(one: Node, other: Node) -> Node:
    """LOAD `one` without the gates under which LOAD `other` is 0 all the same.

    Those that keep it to the elements that it is about stay: what lies beside them may be infinite.
    """
    if not (_is_zero_elsewhere(one) and _is_zero_elsewhere(other)):
        return one
    load = Load.of(one)
    gates, others = parts(load.gate), set(parts(Load.of(other).gate))
    own = [gate for gate in gates if gate not in others]
    free = free_ranges(one)
    near = [gate for gate in gates if gate in own or free[gate] <= free[load.index]]
    low, high = bounds_where(load.index, gates)
    for kept in own, near:
        if any(_is_symbolic(gate) for gate in near if gate not in kept):
            continue  # what lies where it does not hold, launches decide
        first, last = bounds_where(load.index, kept)
        if low <= first and last <= high and stays_inside(load.index, load.memory, kept):
            return load._replace(gate=all_of(kept)).node()
    return one


def _is_symbolic(condition: Node) -> bool:
    return any(node.op is Op.VARIABLE for node in condition.toposort())


def _is_zero_elsewhere(node: Node) -> bool:
    """Whether a node is a LOAD that gives 0 where its gate does not hold."""
    if node.op is not Op.LOAD:
        return False
    load = Load.of(node)
    return load.is_gated and load.other.value == 0
