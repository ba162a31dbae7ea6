"""Masks around a product, moved onto its factors.

    WHERE(c, a * b, 0)                    ->  (a where c) * b
    LOAD(a, gate c) * LOAD(b, gate c)     ->  LOAD(a, gate c) * LOAD(b)

Both where c keeps b to a part of its memory, as what lies beside that may be infinite, or where b
is computed from what is 0 where c does not hold: a quotient of such is no number.

So that the product stands on top, and its factors depend on as few loops as they can. Where a
condition is about places, a masked factor is padding with zeros: where the other is infinite, the
product is NaN. A condition on values chooses what counts, so it masks both factors, or none where
one of them is the same for several of its values:

    WHERE(LOAD(m, k), a * b, 0)           ->  WHERE(LOAD(m, k), a, 0) * WHERE(LOAD(m, k), b, 0)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..ir.choices import take
from ..ir.conditions import all_of, bounds_where, parts, stays_inside
from ..ir.elimination import is_met_for_each
from ..ir.loops import Ranges, free_ranges, ranges_of
from ..ir.node import Node
from ..ir.op import ALU, Op
from ..ir.views import Load, Reduce, Where
from .masked_bounds import needed
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
    while _is_masked(product):
        condition, product, _ = product.src
        conditions.extend(parts(condition))
    if product.op is not Op.MUL:
        return value
    free = free_ranges(value)
    read = [_loops_read(factor) for factor in product.src]
    chosen = [c for c in conditions if _reads(c)]
    if any(not free[c] <= loops for c in chosen for loops in read):
        return value
    held: list[list[Node]] = [[], []]
    for condition in conditions:
        if condition not in chosen:
            shared = [len(free[condition] & loops) for loops in read]
            held[shared[0] < shared[1]].append(condition)
    for factor, loops, mine, others in zip(product.src, read, held, held[::-1], strict=True):
        about = [c for c in others if free[c] <= loops and c not in mine]
        if not _stays_among(factor, about):
            mine.extend(about)
    one, other = map(masked, held, product.src)
    one = _without_needless_gates(one, other)
    other = _without_needless_gates(other, one)
    one, other = (masked(_unmasked(factor, conditions), factor) for factor in (one, other))
    condition = all_of(chosen)
    return condition.where(one, 0) * condition.where(other, 0)


def _unmasked(factor: Node, conditions: list[Node]) -> list[Node]:
    """Those of `conditions` without which a factor is computed from zeros in place of elements."""
    own = parts(Where.of(factor).condition) if _is_masked(factor) else []
    loads = [Load.of(n) for n in factor.toposort() if n.op is Op.LOAD and n is not factor]
    gates = {gate for load in loads for gate in parts(load.gate)}
    return [c for c in conditions if c in gates and c not in own]


def _loops_read(factor: Node) -> Ranges:
    """The loops that a factor depends on apart from the gates of its LOADs."""
    order = factor.toposort(lambda n: n.op not in (Op.LOAD, Op.REDUCE))
    read = [Load.of(n).index for n in order if n.op is Op.LOAD]
    read += [n for n in order if n.op in (Op.REDUCE, Op.RANGE)]
    return frozenset[Node]().union(*map(ranges_of, read))


def _stays_among(factor: Node, conditions: list[Node]) -> bool:
    """Whether all that is read for a factor lies among what is read where `conditions` hold."""
    loads = [Load.of(n) for n in factor.toposort() if n.op is Op.LOAD] if conditions else []
    if loads and any(map(_is_symbolic, conditions)):
        return False  # what lies where they do not hold, launches decide
    gates = ((load.index, parts(load.gate)) for load in loads)
    return all(_reads_alike(index, gate, (*gate, *conditions)) for index, gate in gates)


def _reads_alike(index: Node, fewer: Iterable[Node], more: Iterable[Node]) -> bool:
    """Whether an index is between the same bounds where `fewer` conditions hold as where `more`."""
    low, high = bounds_where(index, more)
    first, last = bounds_where(index, fewer)
    return low <= first and last <= high


def masked(conditions: list[Node], value: Node) -> Node:
    """`value` where all of `conditions` hold, else 0."""
    if not conditions:
        return value
    load = Load.of(value) if value.op is Op.LOAD else None
    if load is None or load.other.value != 0:
        return all_of(conditions).where(value, 0)
    gate = all_of(dict.fromkeys((*parts(load.gate), *conditions)))
    return load._replace(gate=gate, other=Node.const(value.dtype, 0)).node()


def _without_needless_gates(one: Node, other: Node) -> Node:
    """Factor `one` without the gates under which factor `other` is 0 all the same.

    Those that keep it to the elements that it is about stay: what lies beside them may be infinite.
    """
    if not _is_masked(one):
        return _without_gates(one, other)
    condition, value, zero = one.src
    places = all_of(part for part in parts(condition) if not _reads(part))
    chosen = all_of(part for part in parts(condition) if _reads(part))
    return places.where(_without_gates(chosen.where(value, zero), other), zero)


def _without_gates(value: Node, other: Node) -> Node:
    """A value without the gates of its LOADs under which `other` is 0, or `value` as it is.

    They are needless where each element that is read without them is read with them, too. A single
    LOAD may read all that lies between the first and the last such element. Several LOADs have to
    meet each other in all these iterations, so that they make nothing together that they did not.
    """
    others, loads = needed(other, Op.ADD, others_are_finite=False), _loads_of(value)
    if not others or not loads or any(Load.of(load).other.value != 0 for load in loads):
        return value
    loops = _loops_read(value)
    is_alone = len(loads) == 1 and ranges_of(Load.of(loads[0]).index) == loops
    gates = list(dict.fromkeys(gate for load in loads for gate in parts(Load.of(load).gate)))
    own = [gate for gate in gates if gate not in others]
    near = [gate for gate in gates if gate in own or ranges_of(gate) <= loops]
    for kept in own, near:
        left = [gate for gate in gates if gate not in kept]
        if any(_is_symbolic(gate) for gate in near if gate not in kept):
            continue  # what lies where it does not hold, launches decide
        if not (is_alone or is_met_for_each(left, loops, kept)):
            continue
        found = [(n, one) for n in loads if (one := _ungated(Load.of(n), left)) is not None]
        if len(found) == len(loads):
            return value.substitute(dict(found))
    return value


def _ungated(load: Load, gates: list[Node]) -> Node | None:
    """A LOAD without `gates`, if it reads between the same places, and so inside of its memory."""
    kept = [gate for gate in parts(load.gate) if gate not in gates]
    is_alike = _reads_alike(load.index, kept, parts(load.gate))
    is_inside = is_alike and stays_inside(load.index, load.memory, kept)
    return load._replace(gate=all_of(kept)).node() if is_inside else None


def _reads(node: Node) -> bool:
    return any(n.op is Op.LOAD for n in node.toposort())


def _loads_of(factor: Node) -> list[Node]:
    """The LOADs that a factor is computed from elementwise; none where there is anything else."""
    order = factor.toposort(lambda n: n.op is not Op.LOAD)
    is_plain = all(n.op in ALU or n.op in (Op.LOAD, Op.CONST, Op.RANGE) for n in order)
    return [n for n in order if n.op is Op.LOAD] if is_plain else []


def _is_masked(node: Node) -> bool:
    """Whether a node is a WHERE that gives 0 where its condition does not hold."""
    return node.op is Op.WHERE and Where.of(node).no.value == 0


def _is_symbolic(condition: Node) -> bool:
    return any(node.op is Op.VARIABLE for node in condition.toposort())
