"""Reductions over the loops of an output: which of their loops are which of the output's.

    for a, b: y[a*8 + b] = x[a*8 + b] + 1
    for c: z[c] = sum of x[s*8 + c] over s           ->  {s: a, c: b}

Both go through the memory that they share in the same order, or one reads what the other stores.
Then one loop can do both.
"""

from __future__ import annotations

from .loops import closed_ranges
from .node import Node
from .op import Op
from .rules.index import linear_terms

__all__ = [
    "is_elementwise", "is_image", "is_plain_store", "loops_alike", "places_in", "reductions_of",
]  # fmt: skip

_NO_ELEMENTS = frozenset((Op.REDUCE, Op.STAGE, Op.REGISTER, Op.UPDATE, Op.TICKET, Op.END, Op.AFTER))
Places = dict[Node, set[Node]]


def is_elementwise(end: Node) -> bool:
    """Whether `end` closes loops of fixed sizes over plain STOREs, each of one element a step."""
    if end.op is not Op.END or any(r.src[0].op is not Op.CONST for r in closed_ranges(end)):
        return False
    below = Node.sink(end.src[: end.arg]).toposort()
    plain = all(map(is_plain_store, end.src[: end.arg]))
    return plain and not any(node.op in _NO_ELEMENTS or is_image(node) for node in below)


def is_plain_store(effect: Node) -> bool:
    """Whether an effect is a STORE, in each step of its loops, to memory with addresses."""
    is_memory = effect.op is Op.STORE and effect.src[0].op is Op.PARAM
    return is_memory and len(effect.src) == 3 and effect.src[0].arg.image is None


def is_image(node: Node) -> bool:
    """Whether a node is an argument that is a texture."""
    return node.op is Op.PARAM and node.arg.image is not None


def reductions_of(end: Node) -> list[Node]:
    """The REDUCEs below `end`."""
    return [node for node in end.toposort() if node.op is Op.REDUCE]


def places_in(end: Node) -> Places:
    """Where an END loads from and stores to, by memory."""
    found: Places = {}
    for node in end.toposort():
        if node.op in (Op.LOAD, Op.STORE):
            found.setdefault(node.src[0], set()).add(node.src[1])
    return found


def loops_alike(output: Node, total: Node) -> dict[Node, Node] | None:
    """The loop of the END `output` for each loop of the END `total` and of its reductions.

    Each reduction, its results included, goes through all loops of `output`. None where they do
    not share memory so, and where a reduction needs another one.
    """
    if not is_elementwise(output) or total.op is not Op.END:
        return None
    places, loops = places_in(output), set(closed_ranges(output))
    found: dict[Node, Node] = {}
    for reduce in reductions_of(total):
        if any(n.op is Op.REDUCE for n in reduce.src[0].toposort()):
            return None
        mine = {*closed_ranges(total), *reduce.src[1:]}
        alike = next((m for m in _mappings(reduce, places) if m.keys() == mine), None)
        if alike is None or set(alike.values()) != loops:
            return None
        if any(found.get(r, loop) is not loop for r, loop in alike.items()):
            return None
        found |= alike
    return found or None


def _mappings(reduce: Node, places: Places) -> list[dict[Node, Node]]:
    """What loads of `reduce` say about its loops, each by a place of the same memory."""
    loads = [n for n in reduce.src[0].toposort() if n.op is Op.LOAD]
    pairs = [(load.src[1], place) for load in loads for place in places.get(load.src[0], ())]
    return [found for one, other in pairs if (found := _mapping(one, other))]


def _mapping(one: Node, other: Node) -> dict[Node, Node] | None:
    """The loops of the place `other` by those of `one` that move it as far, and as often."""
    (terms, rest), (others, other_rest) = linear_terms(one), linear_terms(other)
    by_step = {step: term for term, step in others.items()}
    if rest != other_rest or len(by_step) != len(others) or len(terms) != len(others):
        return None
    found = {term: by_step.get(step) for term, step in terms.items()}
    pairs = {r: loop for r, loop in found.items() if loop is not None}
    if len({*pairs.values()}) != len(terms):
        return None
    alike = (_is_loop(r) and _is_loop(to) and r.src[0] is to.src[0] for r, to in pairs.items())
    return pairs if all(alike) else None


def _is_loop(term: Node) -> bool:
    return term.op is Op.RANGE and term.arg.kind == "loop"
