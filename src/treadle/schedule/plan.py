"""What deciding about kernels works with: demands, the kernels in the making, and the plan.

fuse.py decides; ranges.py turns the outcome into loops.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace

from ..ir.node import Node
from ..ir.op import ALU, MOVEMENT, TRANSCENDENTAL, Op
from ..ir.remembered import once
from ..ir.shape import Shape, size_max, size_product
from ..ir.views import operand
from .index import Index, unwindow_steps

__all__ = [
    "BOUNDARY", "COSTLY", "FACTOR", "LEAVES", "PRODUCT", "STORED", "Decision", "Demand", "Group",
    "Home", "Kept", "Plan", "Weight", "behind", "behind_moves", "distinct", "elements", "is_heavy",
    "loops_of", "product_of", "ranges_in", "reduce_sizes", "weigh",
]  # fmt: skip

LEAVES = frozenset((Op.CONST, Op.IOTA, Op.BUFFER, Op.VARIABLE, Op.BIND))
# Nodes that are always stored: their kernel has a form of its own, or the user asked for it.
STORED = frozenset((Op.CONTIGUOUS, Op.SCATTER, Op.DISTRIBUTE, Op.SCAN, Op.ASSIGN))
BOUNDARY = LEAVES | STORED | {Op.AFTER}  # what kernels begin with
COSTLY = TRANSCENDENTAL | {Op.SQRT, Op.FDIV}
PRODUCT, FACTOR = 1, 2
_MOVED = MOVEMENT | {Op.CAST}


@dataclass(eq=False)
class Home:
    """Loops that fill memory; at most one matmul-like reduction runs inside them.

    `row_stats` are the loops of the results of the other reductions that it computes.
    """

    ranges: Index
    heavy: bool = False
    row_stats: list[frozenset[Node]] = field(default_factory=list)


@dataclass(frozen=True)
class Demand:
    """Kernel `group` wants the element `index`, inside the reductions over `body`.

    `heavy`: inside a matmul-like reduction, at or above its product (PRODUCT) or at a factor of the
    product (FACTOR), each element of which is used many times.
    `linear`: only views lie between here and an enclosing sum.
    `dynamic`: the index holds values read from memory.
    `home`: the loops that it stands in, the group's own or those that fill a kept row.
    `results`: the loops of the results of the innermost reduction around it.
    """

    group: Group
    index: Index
    home: Home
    body: tuple[Node, ...] = ()
    heavy: int = 0
    linear: bool = False
    dynamic: bool = False
    results: frozenset[Node] = frozenset()

    def stricter(self, other: Demand) -> Demand:
        """The demand for both, where `other` is for the same element."""
        return replace(
            self,
            body=max(self.body, other.body, key=len),
            heavy=max(self.heavy, other.heavy),
            linear=self.linear and other.linear,
            dynamic=self.dynamic or other.dynamic,
            results=self.results | other.results,
        )


@dataclass(eq=False)
class Kept(Home):
    """A value that a group keeps row by row: `loop`, the last of `ranges`, fills its `axis`."""

    axis: int = field(kw_only=True)

    @property
    def loop(self) -> Node:
        return self.ranges[self.axis]


@dataclass(eq=False)
class Group(Home):
    """A fusion group, which is a kernel in the making: it stores `root` over `ranges`.

    `places` says for each root, the first and others that it stores as well, at which index.
    `kept` are the values that it keeps row by row, `rows` everything that it computes along such a
    row. `own_loops` are those of a scatter's values or a distribution's bins.
    """

    root: Node = field(kw_only=True)
    ops: int = 0
    next_range: int = 0
    kept: dict[Node, Kept] = field(default_factory=dict)
    rows: set[object] = field(default_factory=set)
    places: dict[Node, Index] = field(default_factory=dict)
    reduce_ranges: dict[tuple[Node, Index], Index] = field(default_factory=dict)
    own_loops: Index = ()

    @property
    def loops(self) -> Index:
        """Those of `ranges` that are loops."""
        return loops_of(self.ranges)

    def fresh_range(self, size: int | Node) -> Node:
        """A new loop of this kernel; no loop at all for size 1."""
        if size == 1 or (isinstance(size, Node) and size.value == 1):
            return Node.index(0)
        self.next_range += 1
        return Node.range(size, self.next_range - 1)

    def ranges_of_reduce(self, node: Node, index: Index) -> Index:
        """The loops of a reduction that it computes for element `index`."""
        found = self.reduce_ranges.get((node, index))
        if found is None:
            found = tuple(map(self.fresh_range, reduce_sizes(node)))
            self.reduce_ranges[node, index] = found
        return found


@dataclass(frozen=True, eq=False)
class Decision:
    """A node gets memory of its own if it `is_stored`, else it is computed where it is used.

    `is_output`: stored since the graph was asked for it.
    """

    is_stored: bool
    reason: str
    is_output: bool = False


@dataclass(eq=False)
class Plan:
    """The outcome: what was decided about each node, and the fusion groups by root.

    `joined` roots are stored by the group of another root. `above` says which roots are computed
    from a node, or are that node, as bits by their `numbers`.
    """

    groups: dict[Node, Group] = field(default_factory=dict)
    decisions: dict[Node, Decision] = field(default_factory=dict)
    joined: dict[Node, Node] = field(default_factory=dict)
    above: dict[Node, int] = field(default_factory=dict)
    numbers: dict[Node, int] = field(default_factory=dict)

    def pass_above(self, node: Node) -> None:
        """Note for `node`, decided now, and for its sources, which roots they are computed for."""
        if node in self.groups:
            self.numbers[node] = len(self.numbers)
        mask = self.above.get(node, 0) | self._bits((node,))
        for below in (node, *node.src):
            self.above[below] = self.above.get(below, 0) | mask

    def roots_above(self, node: Node) -> list[Node]:
        """The roots that are computed from `node`, itself included if it is one."""
        mask = self.above.get(node, 0)
        return [root for root, number in self.numbers.items() if mask >> number & 1]

    def needs(self, group: Group, roots: Iterable[Node]) -> bool:
        """Whether a kernel cannot run before those that store `roots`, which are not its own.

        A kernel that stores several values waits for what any of them is computed from.
        """
        behind, others = 0, list(roots)
        left = [g for g in self.kernels if g is not group and len(g.places) > 1]
        while others:
            behind = functools.reduce(operator.or_, map(self.above.__getitem__, others), behind)
            waiting = [g for g in left if self._bits(g.places) & behind]
            left = [g for g in left if g not in waiting]
            others = [root for g in waiting for root in g.places]
        return bool(self._bits(group.places) & behind)

    def _bits(self, nodes: Iterable[Node]) -> int:
        return sum(1 << self.numbers[node] for node in nodes if node in self.numbers)

    @property
    def kernels(self) -> list[Group]:
        """Each group once."""
        return list(dict.fromkeys(self.groups.values()))


def reduce_sizes(node: Node) -> Shape:
    """How often each loop of a reduction runs."""
    if node.op is Op.UNWINDOW:
        return (unwindow_steps(node.arg),)
    return tuple(operand(node).shape[axis] for axis in node.arg.axes)


def loops_of(index: Index) -> Index:
    """The positions of an index that are loops themselves."""
    return tuple(position for position in index if position.op is Op.RANGE)


def ranges_in(nodes: Index) -> frozenset[Node]:
    """Every RANGE that the index expressions use."""
    return frozenset(item for node in nodes for item in node.toposort() if item.op is Op.RANGE)


@dataclass
class Weight:
    """What computing a node from stored values costs: ops an element, and the reductions below.

    `chained`: a matmul-like one is among them.
    """

    ops: int
    costly: int
    loads: frozenset[Node]
    reduces: bool
    chained: bool = False


def weigh(order: list[Node]) -> dict[Node, Weight]:
    """The weight of each node of `order`, in which sources come first."""
    weights: dict[Node, Weight] = {}
    for node in order:
        below = [weights[s] for s in node.src]
        if node.op in BOUNDARY:
            loads = frozenset() if node.op in (Op.CONST, Op.IOTA) else frozenset((node,))
            weights[node] = Weight(0, 0, loads, False)
            continue
        own = 1 if node.op in ALU or node.op in (Op.REDUCE, Op.GATHER, Op.UNWINDOW) else 0
        loads = frozenset().union(*(w.loads for w in below)) if below else frozenset()
        weights[node] = Weight(
            min(own + sum(w.ops for w in below), 1 << 20),
            min((node.op in COSTLY) + sum(w.costly for w in below), 1 << 20),
            loads if len(loads) <= 8 else frozenset(list(loads)[:8]),
            node.op in (Op.REDUCE, Op.UNWINDOW) or any(w.reduces for w in below),
            any(w.chained for w in below) or is_heavy(node),
        )
    return weights


@once
def is_heavy(node: Node) -> bool:
    """Whether a reduction is matmul-like: a sum of products whose two factors are both reused."""
    if node.op is not Op.REDUCE or node.arg.op is not Op.ADD:
        return False
    product = product_of(node)
    return product.op is Op.MUL and all(
        distinct(factor) * 2 <= elements(product) for factor in product.src
    )


def product_of(node: Node) -> Node:
    """The MUL of a matmul-like reduction."""
    return behind(operand(node), (Op.CAST, Op.RESHAPE, Op.PERMUTE))


def distinct(node: Node) -> int:
    """How many different elements a factor has, at most."""
    least = elements(node)
    while node.op in _MOVED:
        node = operand(node)
        if node.op is not Op.CONST:
            least = min(least, elements(node))
    return least


def elements(node: Node) -> int:
    """How many elements a node has, at most."""
    return size_product(size_max(s) for s in node.shape)


def behind(node: Node, ops: Container[Op]) -> Node:
    """What `ops`, of one source each, are of."""
    while node.op in ops:
        node = operand(node)
    return node


def behind_moves(node: Node) -> Node:
    """What views and casts are of."""
    return behind(node, _MOVED)
