"""Nest: one loop nest of a kernel that fills memory, and what its accesses look like.

A kernel has one nest for its output, and one more for each grid STAGE. The heuristic treats both
alike: loops, the value, and for every access how far apart neighbouring loop positions are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..ir.args import StageArg
from ..ir.conditions import bounds_where, constraints, parts
from ..ir.loops import TRUE, closed_ranges, has_fixed_size, loop_size, ranges_of
from ..ir.node import Node, as_index, behind_after
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify, sum_terms
from ..ir.shape import strides_of
from ..ir.views import (
    After,
    End,
    Load,
    Reduce,
    Stage,
    Store,
    Ticket,
    Update,
    Where,
    operand,
)  # fmt: skip

__all__ = [
    "SHORT_STRIDE", "Access", "Nest", "as_stage", "changes_of", "contiguity", "flat_place",
    "gating", "has_inner_loops", "inner_reductions", "inner_steps", "is_unrolled", "lies_along",
    "nests_of", "own_reductions", "place_in_row", "reads_of", "running_totals", "scan_along_row",
    "sequential_loops", "stride",
]  # fmt: skip

REDUCE_WEIGHT, MOST_WEIGHT = 4, 16
APART = 4  # a vector of elements that lie apart costs as much as so many that do not
MOST_OF_TABLE = 1 << 13  # elements
LEAST_OF_READERS = 16
LEAST_VECTORS = 2  # of a row that is scanned
SHORT_STRIDE = 4  # lanes so far apart still come as whole vectors


@dataclass(frozen=True)
class Access:
    """A load or store at `index`; `weight` counts for how often it happens."""

    index: Node
    weight: int
    is_store: bool = False


@dataclass(frozen=True, eq=False)
class Nest:
    """`node` is an END over STOREs or a grid STAGE; `loops` are its RANGEs, outermost first."""

    node: Node
    loops: tuple[Node, ...]

    @property
    def is_scheduled(self) -> bool:
        """Whether a schedule was chosen for it: some of its loops are more than loops."""
        return any(r.arg.kind != "loop" for r in self.loops)

    @property
    def has_scans(self) -> bool:
        """Whether steps of a loop go on from what the ones before it left in a register."""
        return any(n.op in (Op.REGISTER, Op.UPDATE) for n in self.nodes)

    @property
    def values(self) -> tuple[Node, ...]:
        """What is stored."""
        if self.node.op is Op.STAGE:
            return (Stage.of(self.node).value,)
        return tuple(Store.of(effect).value for effect in self.effects)

    @property
    def effects(self) -> tuple[Node, ...]:
        return End.of(self.node).effects if self.node.op is Op.END else ()

    def stores(self) -> list[Node]:
        """The index of each store."""
        if self.node.op is Op.STAGE:
            stage = Stage.of(self.node)
            return [flat_place(stage.filled, stage.arg.sizes)]
        return [Store.of(effect).index for effect in self.effects]

    @functools.cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of this nest alone: not those of nests whose memory it reads."""
        return tuple(self._below(lambda n: n.op is not Op.STAGE))

    @functools.cached_property
    def reduces(self) -> tuple[Node, ...]:
        """Its reductions, and those of what it keeps for itself."""
        inside = lambda n: n.op is not Op.STAGE or n.arg.scope == "shared"
        return tuple(n for n in self._below(inside) if n.op is Op.REDUCE)

    def _below(self, inside: Callable[[Node], bool]) -> list[Node]:
        roots = self.values if self.node.op is Op.STAGE else self.effects
        is_memory = lambda n: n.op is Op.AFTER and After.of(n).value.op is Op.PARAM
        return Node.sink(roots).toposort(lambda n: inside(n) and not is_memory(n))

    def accesses(self) -> Iterator[Access]:
        """Every load and store, those inside reductions weighted more."""
        weights: dict[Node, int] = {}
        for node in self.reduces:
            value, loops, _ = Reduce.of(node)
            weight = max(REDUCE_WEIGHT, min(loop_size(*loops), MOST_WEIGHT))
            weights |= dict.fromkeys(reads_of(value), weight)
        for node in self.nodes:
            index = _index_of(node)
            if index is not None:
                yield Access(index, weights.get(index, 1))
        for index in self.stores():
            yield Access(index, 1, True)


def flat_place(places: tuple[Node, ...], sizes: tuple[int, ...]) -> Node:
    """The place in a STAGE's memory of `sizes` that is at one of `places` along each axis."""
    total = Node.index(0)
    for place, step in zip(places, strides_of(sizes), strict=True):
        total = total + place * as_index(step)
    return simplify(total)


def _index_of(node: Node) -> Node | None:
    """Where a LOAD or a STAGE reads."""
    if node.op is Op.LOAD:
        return Load.of(node).index
    return flat_place(Stage.of(node).read, node.arg.sizes) if node.op is Op.STAGE else None


def reads_of(value: Node) -> list[Node]:
    """The index of each read below `value`; what fills a STAGE does not count."""
    nodes = value.toposort(lambda n: n.op is not Op.STAGE)
    return [index for node in nodes if (index := _index_of(node)) is not None]


def nests_of(root: Node) -> list[Nest]:
    """The nests of a kernel, in the order in which they run."""
    found = [
        node
        for node in root.toposort()
        if (node.op is Op.END and any(e.op is not Op.UPDATE for e in End.of(node).effects))
        or (node.op is Op.STAGE and node.arg.scope == "grid")
    ]
    return [Nest(node, closed_ranges(node)) for node in found]


def stride(index: Node, loop: Node) -> int | None:
    """How much `index` grows a step of `loop`; None where that is not constant."""
    terms, _ = linear_terms(index)
    step = terms.pop(loop, 0)
    for term in terms:
        if loop in ranges_of(term):
            return None
    return step


def as_stage(kept: Node) -> Stage:
    """What a kernel keeps of a row: a STAGE, or a statistic as one that has no place in the row."""
    if kept.op is Op.STAGE:
        return Stage.of(kept)
    return Stage(kept, TRUE, (), (), (), StageArg("shared", ()), kept.dtype)


def running_totals(nest: Nest) -> list[Node]:
    """The total of each scan as it is at each step, an AFTER; none of what is no scan."""
    if any(n.op is Op.TICKET for n in nest.nodes):
        return []
    updates = {n: Update.of(n).register for n in nest.nodes if n.op is Op.UPDATE}
    before = {e for r in updates.values() if r.op is Op.AFTER for e in After.of(r).effects}
    return [After(behind_after(r), (n,)).node() for n, r in updates.items() if n not in before]


def changes_of(total: Node) -> list[Update]:
    """What is done to a running total in each step, one after the other."""
    (last,) = map(Update.of, After.of(total).effects)
    return [*(changes_of(last.register) if last.register.op is Op.AFTER else ()), last]


def scan_along_row(nest: Nest, ordered: tuple[Node, ...], lanes: int) -> Node | None:
    """The loop of scans whose steps lie side by side, if they are ones whose parts combine.

    Products of floats do not: a part that is too large, or too small, for its type shows in the
    whole. lower/lane_scans.py puts its steps into lanes.
    """
    totals = running_totals(nest)
    if not totals or len(ordered) != 1:
        return None
    (loop,), changes = ordered, (change for total in totals for change in changes_of(total))
    has_products = any(c.op is Op.MUL and c.value.dtype.is_float for c in changes)
    if has_products or loop_size(loop) < LEAST_VECTORS * lanes:
        return None
    steps = [(stride(access.index, loop), access.is_store) for access in nest.accesses()]
    return loop if all(step == 1 or (step == 0 and not store) for step, store in steps) else None


def is_unrolled(reduce: Node) -> bool:
    """Whether no loop is left of a reduction."""
    return all(r.arg.kind in ("unroll", "vector") for r in closed_ranges(reduce))


def inner_steps(reduce: Node) -> int:
    """The steps of the longest reduction that runs for each step of `reduce`."""
    value, loops, _ = Reduce.of(reduce)
    return max((loop_size(*closed_ranges(n)) for n in inner_reductions(value, loops)), default=1)


def inner_reductions(value: Node, loops: Iterable[Node]) -> list[Node]:
    """The reductions below `value` that run for each step of one of `loops`."""
    found = (n for n in value.toposort() if n.op is Op.REDUCE)
    return [n for n in found if not ranges_of(n).isdisjoint(loops)]


def own_reductions(value: Node) -> list[Node]:
    """The reductions below `value`, but for those of what is kept."""
    return [n for n in value.toposort(lambda n: n.op is not Op.STAGE) if n.op is Op.REDUCE]


def has_inner_loops(value: Node, loop: Node) -> bool:
    """Whether other loops below `value` run for each step of `loop`."""
    nodes = value.toposort()
    return any(n.op in (Op.REDUCE, Op.STAGE) and loop in ranges_of(n) for n in nodes)


def lies_along(value: Node, loop: Node) -> bool:
    """Whether what is read below `value` lies along the loop, or does not depend on it."""
    steps = {stride(index, loop) for index in reads_of(value)}
    return {1} <= steps <= {0, 1}


def sequential_loops(nest: Nest) -> tuple[Node, ...]:
    """Loops whose steps must run in order: of scans, and of scatters into shared places."""
    views = {Op.UPDATE: Update, Op.TICKET: Ticket}
    found = [r for n in nest.nodes if n.op in views for r in views[n.op].of(n).loops]
    for store in (e for e in nest.effects if operand(e).op is Op.AFTER):
        apart = _loops_apart(store)
        found.extend(r for r in nest.loops if r not in apart)
    return tuple(dict.fromkeys(found))


def _loops_apart(effect: Node) -> frozenset[Node]:
    """The loops whose steps store in places of their own, whatever the indices that are loaded.

    `i * 100 + place * 4 + j`, with `place` below 25 and `j` below 4, tells `i` and `j`.
    """
    store = Store.of(effect)
    terms, _ = linear_terms(store.index)
    reach = 0  # of all terms with smaller steps
    for term, step in sorted(terms.items(), key=lambda item: item[1]):
        least, most = bounds_where(term, parts(store.gate))
        if step <= reach or math.isinf(most - least):
            return frozenset()
        reach += step * int(most - least)
    return frozenset(term for term in terms if term.op is Op.RANGE)


def place_in_row(node: Node) -> tuple[Node, Node, int] | None:
    """(start, place, size), where a LOAD reads at place 0 to size - 1 of a row that starts there.

    The place is a value that was loaded; None for other indices, and where the gate says more.
    """
    load = Load.of(node)
    terms, rest = linear_terms(load.index)
    loaded = [t for t in terms if t.op is Op.CAST and operand(t).op is Op.LOAD]
    if len(loaded) != 1 or terms[loaded[0]] != 1:
        return None
    (place,) = loaded
    gates = parts(load.gate)
    if any(linear_terms(one)[0] not in ({place: 1}, {place: -1})
           for gate in gates for one in constraints(gate) or (load.index,)):  # fmt: skip
        return None
    least, most = bounds_where(place, gates)
    if least != 0 or math.isinf(most) or any(t.op is not Op.RANGE for t in terms if t is not place):
        return None
    del terms[place]
    return sum_terms(terms, rest), place, int(most) + 1


def contiguity(nest: Nest, loop: Node) -> int:
    """How well `loop` serves as lanes: contiguous accesses less those of single elements."""
    total = 0
    for access in nest.accesses():
        step = stride(access.index, loop)
        if step == 1:
            total += access.weight
        elif step is None or abs(step) > SHORT_STRIDE:
            if not _is_table(nest, access, loop):
                total -= access.weight * (2 if access.is_store else 1) * APART
    return total


def _is_table(nest: Nest, access: Access, loop: Node) -> bool:
    """Whether `access` reads little that other results want, too, as weights of channels are.

    It lies in cache, or in registers where several results are computed at a time.
    """
    loops, others = ranges_of(access.index), [r for r in nest.loops if r is not loop]
    if access.is_store or not all(map(has_fixed_size, (*loops, *others))):
        return False
    is_read_often = loop_size(*others) >= LEAST_OF_READERS
    return is_read_often and loop_size(*loops) <= MOST_OF_TABLE and loops.isdisjoint(others)


def gating(value: Node) -> frozenset[Node]:
    """The loops that conditions under `value` depend on."""
    nodes = value.toposort()
    gates = [Load.of(n).gate for n in nodes if n.op is Op.LOAD]
    gates += [Where.of(n).condition for n in nodes if n.op is Op.WHERE]
    return frozenset().union(*(ranges_of(gate) for gate in gates))
