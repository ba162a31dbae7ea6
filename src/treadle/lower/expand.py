"""Unrolled and vector RANGEs to copies and lanes.

    for u in unroll(4): for v in vector(8): out[u*8 + v] = x[u*8 + v] + 1
      ->  four 8-lane loads, additions and stores

A node is copied once for each position of the unrolled RANGEs it depends on, and becomes a vector
where it depends on a vector RANGE. Contiguous accesses become vector loads and stores; others are
one access a lane. A reduction over unrolled or vector RANGEs gets one accumulator for each copy.
"""

from __future__ import annotations

import itertools
from functools import reduce as fold

from ..dtype import DType, dtypes
from ..errors import InternalError
from ..ir.args import RegisterRef
from ..ir.loops import closed_ranges, free_ranges
from ..ir.node import Node, alu, alu_dtype
from ..ir.op import ALU, Op
from ..ir.rules.index import linear_terms, simplify

__all__ = ["expand"]

Where = tuple[int, ...]


def expand(root: Node) -> Node:
    """`root` with no unroll or vector RANGE left in it."""
    return _Expander(root).run(root)


class _Expander:
    def __init__(self, root: Node) -> None:
        self.free = free_ranges(root)
        self.copies: dict[Node, dict[Where, Node]] = {}
        self.axes: dict[Node, tuple[Node, ...]] = {}
        self.simplified: dict[Node, Node] = {}
        self.registers = 0

    def run(self, root: Node) -> Node:
        for node in root.toposort():
            self.axes[node] = self._axes(node)
            sizes = [range(r.src[0].arg) for r in self.axes[node]]
            self.copies[node] = {}
            for where in itertools.product(*sizes):
                self.copies[node][where] = self._copy(node, where)
        return self.copies[root][()]

    # -- which copies there are ---------------------------------------------------------------

    def _axes(self, node: Node) -> tuple[Node, ...]:
        unrolled = (r for r in self.free[node] if r.arg.kind == "unroll")
        return tuple(sorted(unrolled, key=lambda r: r.arg.number))

    def _vector(self, node: Node) -> Node | None:
        found = [r for r in self.free[node] if r.arg.kind == "vector"]
        if len(found) > 1:
            raise InternalError(f"two vector ranges meet in {node!r}")
        return found[0] if found else None

    def _at(self, node: Node, position: dict[Node, int]) -> Node:
        return self.copies[node][tuple(position[r] for r in self.axes[node])]

    # -- one copy -----------------------------------------------------------------------------

    def _copy(self, node: Node, where: Where) -> Node:
        position = dict(zip(self.axes[node], where, strict=True))
        if node.op is Op.RANGE:
            return self._range(node, position)
        if node.op is Op.LOAD:
            return self._load(node, position)
        if node.op is Op.STORE:
            return self._store(node, position)
        if node.op is Op.REDUCE:
            return self._reduce(node, position)
        if node.op is Op.END:
            return self._end(node, position)
        if node.op is Op.REGISTER:
            return self._register(node, position)
        if node.op is Op.UPDATE:
            return self._update(node, position)
        src = tuple(self._at(s, position) for s in node.src)
        if node.op in ALU:
            return _alu(node, src)
        if src == node.src:
            return node
        return Node(node.op, _dtype_after(node, src), src, node.arg)

    def _range(self, node: Node, position: dict[Node, int]) -> Node:
        if node.arg.kind == "unroll":
            return Node.index(position[node])
        if node.arg.kind == "vector":
            return Node(Op.LANES, dtypes.index.vec(node.src[0].arg))
        return node

    def _scalar(self, node: Node, position: dict[Node, int], lane: dict[Node, int]) -> Node:
        """An index or condition with the unrolled RANGEs (and lanes) put in, as a scalar."""
        mapping = {r: Node.index(n) for r, n in (position | lane).items() if r in self.free[node]}
        for load in node.toposort():
            if load.op is Op.LOAD:  # one lane at a time: a vector has no place in an index
                mapping[load] = self._lane_load(load, position, lane)
        return simplify(node.substitute(mapping), self.simplified)

    def _lane_load(self, node: Node, position: dict[Node, int], lane: dict[Node, int]) -> Node:
        """LOAD `node` for one lane."""
        src = [self._at(node.src[0], position), self._scalar(node.src[1], position, lane)]
        if len(node.src) > 2:
            src.append(self._scalar(node.src[2], position, lane))
            src.append(Node.const(node.dtype, node.src[3].arg))
            if src[2].op is Op.CONST:
                if not src[2].arg:
                    return src[3]
                src = src[:2]
        return Node(Op.LOAD, node.dtype, tuple(src))

    def _load(self, node: Node, position: dict[Node, int]) -> Node:
        vector = self._vector(node)
        if vector is None or vector not in self.free[node.src[1]] | self._gate_free(node, 2):
            return self._lane_load(node, position, {})
        count = vector.src[0].arg
        index = self._scalar(node.src[1], position, {})
        base = _contiguous(index, vector)
        if base is None:
            lanes = [self._lane_load(node, position, {vector: n}) for n in range(count)]
            if all(lane is lanes[0] for lane in lanes):
                return _broadcast(lanes[0], count)
            return Node(Op.STACK, node.dtype.vec(count), tuple(lanes))
        src = [self._at(node.src[0], position), base]
        if len(node.src) > 2:
            gate = self._gate(node.src[2], position, vector)
            if gate.op is Op.CONST and not gate.arg:
                return _broadcast(node.src[3], count)
            if gate.op is not Op.CONST:
                src += [gate, _broadcast(node.src[3], count)]
        return Node(Op.LOAD, node.dtype.vec(count), tuple(src))

    def _gate_free(self, node: Node, at: int) -> frozenset[Node]:
        return self.free[node.src[at]] if len(node.src) > at else frozenset()

    def _gate(self, gate: Node, position: dict[Node, int], vector: Node) -> Node:
        """A condition, as a scalar if it does not depend on the lane, else as a vector."""
        scalar = self._scalar(gate, position, {})
        if vector not in free_ranges(scalar)[scalar]:
            return scalar
        return _lane_condition(scalar, vector)

    def _store(self, node: Node, position: dict[Node, int]) -> Node:
        vector = self._vector(node)
        memory = self._at(node.src[0], position)
        value = self._at(node.src[2], position)
        if vector is None:
            src = [memory, self._scalar(node.src[1], position, {}), value]
            if len(node.src) > 3:
                gate = self._scalar(node.src[3], position, {})
                src += [] if gate.op is Op.CONST and gate.arg else [gate]
            return Node(Op.STORE, dtypes.void, tuple(src))
        count = vector.src[0].arg
        base = _contiguous(self._scalar(node.src[1], position, {}), vector)
        if base is None:
            return self._store_lanes(node, position, vector, memory, value)
        src = [memory, base, _broadcast(value, count)]
        if len(node.src) > 3:
            gate = self._gate(node.src[3], position, vector)
            src += [] if gate.op is Op.CONST and gate.arg else [gate]
        return Node(Op.STORE, dtypes.void, tuple(src))

    def _store_lanes(
        self, node: Node, position: dict[Node, int], vector: Node, memory: Node, value: Node
    ) -> Node:
        stores, place = [], node.src[1]
        for number in range(vector.src[0].arg):
            lane = {vector: number}
            one = value
            if value.dtype.count > 1:
                one = Node(Op.EXTRACT, value.dtype.scalar, (value,), number)
            src = [memory, self._scalar(place, position, lane), one]
            if len(node.src) > 3:
                gate = self._scalar(node.src[3], position, lane)
                if gate.op is Op.CONST and not gate.arg:
                    continue
                src += [] if gate.op is Op.CONST else [gate]
            stores.append(Node(Op.STORE, dtypes.void, tuple(src)))
        return Node.sink(stores)

    # -- loops --------------------------------------------------------------------------------

    def _inner(self, ranges: tuple[Node, ...]) -> tuple[tuple[Node, ...], list[dict[Node, int]]]:
        loops = tuple(r for r in ranges if r.arg.kind in ("loop", "grid"))
        unrolled = [r for r in ranges if r.arg.kind == "unroll"]
        sizes = [range(r.src[0].arg) for r in unrolled]
        combos = itertools.product(*sizes)
        return loops, [dict(zip(unrolled, combo, strict=True)) for combo in combos]

    def _reduce(self, node: Node, position: dict[Node, int]) -> Node:
        ranges = closed_ranges(node)
        loops, combos = self._inner(ranges)
        vector = next((r for r in ranges if r.arg.kind == "vector"), None)
        parts = []
        for combo in combos:
            value = self._at(node.src[0], position | combo)
            if vector is not None:
                value = _broadcast(value, vector.src[0].arg)
            parts.append(
                Node(Op.REDUCE, value.dtype, (value, *loops), node.arg) if loops else value
            )
        op = node.arg.op
        total = _tree(op, parts)
        if vector is not None:
            return Node(Op.HREDUCE, total.dtype.scalar, (total,), op)
        return total

    def _loops_of(self, positions: tuple[Node, ...]) -> tuple[Node, ...]:
        """The loops that stay loops among those that some loop positions are made of."""
        found = frozenset().union(*(self.free[p] for p in positions)) if positions else ()
        kept = (r for r in found if r.arg.kind in ("loop", "grid"))
        return tuple(sorted(kept, key=lambda r: r.arg.number))

    def _register(self, node: Node, position: dict[Node, int]) -> Node:
        vector = self._vector(node)
        init = self._at(node.src[0], position)
        if vector is not None:
            init = _broadcast(init, vector.src[0].arg)
        loops = self._loops_of(node.src[1:])
        self.registers += 1  # copies are different registers: the number tells them apart
        return Node(Op.REGISTER, init.dtype, (init, *loops), RegisterRef(self.registers))

    def _update(self, node: Node, position: dict[Node, int]) -> Node:
        register = self._at(node.src[0], position)
        value = _broadcast(self._at(node.src[1], position), register.dtype.count)
        loops = self._loops_of(node.src[2:])
        return Node(Op.UPDATE, dtypes.void, (register, value, *loops), node.arg)

    def _end(self, node: Node, position: dict[Node, int]) -> Node:
        loops, combos = self._inner(closed_ranges(node))
        effects: dict[Node, None] = {}
        for effect in node.src[: node.arg]:
            for combo in combos:
                copy = self._at(effect, position | combo)
                for one in copy.src if copy.op is Op.SINK else (copy,):
                    effects[one] = None
        return Node(Op.END, dtypes.void, (*effects, *loops), len(effects))


def _tree(op: Op, parts: list[Node]) -> Node:
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [fold(lambda a, b: alu(op, a, b), pair) for pair in pairs]
    return parts[0]


def _broadcast(node: Node, count: int) -> Node:
    if node.dtype.count == count:
        return node
    return Node(Op.BROADCAST, node.dtype.vec(count), (node,))


def _alu(node: Node, src: tuple[Node, ...]) -> Node:
    count = max(s.dtype.count for s in src)
    if node.op in (Op.CAST, Op.BITCAST):
        dtype = node.dtype.vec(count)
        return src[0].cast(dtype) if node.op is Op.CAST else src[0].bitcast(dtype)
    if count == 1:
        return alu(node.op, *src)
    wide = tuple(_broadcast(s, count) for s in src)
    return Node(node.op, alu_dtype(node.op, wide), wide)


def _dtype_after(node: Node, src: tuple[Node, ...]) -> DType:
    if node.op in (Op.AFTER, Op.REGISTER) and src:
        return src[0].dtype
    return node.dtype


def _contiguous(index: Node, vector: Node) -> Node | None:
    """`index` without its lane number, if it is that plus something; else None."""
    terms, rest = linear_terms(index)
    if terms.get(vector) != 1:
        return None
    del terms[vector]
    base = Node.index(rest)
    for term, coefficient in terms.items():
        if vector in free_ranges(term)[term]:
            return None
        base = base + (term if coefficient == 1 else term * coefficient)
    return simplify(base)


def _lane_condition(condition: Node, vector: Node) -> Node:
    """A condition on the lane number as a vector of bools.

    `base + lane < limit` compares lane numbers with one scalar, so that the lanes need no wide
    arithmetic.
    """
    count = vector.src[0].arg
    if vector not in free_ranges(condition)[condition]:
        return _broadcast(condition, count)
    if condition.op in (Op.AND, Op.OR, Op.XOR):
        sides = tuple(_lane_condition(s, vector) for s in condition.src)
        return Node(condition.op, dtypes.bool.vec(count), sides)
    if condition.op is Op.CMPLT and condition.dtype is dtypes.bool:
        left, right = condition.src
        base = _contiguous(left, vector)
        if base is not None and vector not in free_ranges(right)[right]:
            lanes = Node(Op.LANES, dtypes.int32.vec(count))
            room = (right - base).minimum(count).maximum(0)
            limit = _broadcast(room.cast(dtypes.int32), count)
            return Node(Op.CMPLT, dtypes.bool.vec(count), (lanes, limit))
    lanes = []
    for number in range(count):
        lanes.append(simplify(condition.substitute({vector: Node.index(number)})))
    return Node(Op.STACK, dtypes.bool.vec(count), tuple(lanes))
