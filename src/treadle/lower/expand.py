"""Unrolled and vector RANGEs to copies and lanes.

    for u in unroll(4): for v in vector(8): out[u*8 + v] = x[u*8 + v] + 1
      ->  four 8-lane loads, additions and stores

A node is copied once for each position of the unrolled RANGEs it depends on, and becomes a vector
where it depends on a vector RANGE. Contiguous accesses become vector loads and stores; others are
one access a lane, but where the load is contiguous in an unrolled RANGE of as many steps as there
are lanes: such a square block is loaded by rows and transposed in registers. A reduction over
unrolled or vector RANGEs gets one accumulator for each copy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..dtype import DType, dtypes
from ..errors import InternalError
from ..ir.accumulators import all_combined, is_in_order, items, of_lanes, tuple_of
from ..ir.args import RegisterRef
from ..ir.conditions import TRUE
from ..ir.loops import free_ranges, loop_size, ranges_of
from ..ir.narrow_sums import type_of_parts
from ..ir.node import Node, alu, alu_dtype, item
from ..ir.op import ALU, Op
from ..ir.remembered import once
from ..ir.rules.index import Terms, linear_terms, simplified_sum, simplify, sum_terms
from ..ir.views import End, Load, Reduce, Register, Store, Update, bound_of, memory_of, operand
from .block_stores import Block, find_block, find_dense_block
from .lane_scans import scanned
from .lanes import broadcast, contiguous, lane_condition, segments, strided
from .register_transpose import transposed

__all__ = ["expand"]

Where = tuple[int, ...]
Position = dict[Node, int]  # steps of unrolled RANGEs, and perhaps of a vector RANGE: a lane

# What is simplified side by side: a condition's sides depend on fewer loops than all of it.
_BY_SIDES = (Op.AND, Op.OR, Op.XOR, Op.CMPLT)


_terms_of = once(linear_terms)  # looked up once for all positions


def expand(
    root: Node,
    has_masks: bool = False,
    shuffled_bytes: Callable[[DType], int] = lambda _: 0,
) -> Node:
    """`root` with no unroll or vector RANGE left in it.

    `has_masks`: loads of some lanes of a vector cost no more than those of all. `shuffled_bytes`:
    how many bytes of a type's elements can be moved anywhere at once.
    """
    return _Expander(root, has_masks, shuffled_bytes).run(root)


@dataclass
class _Linear:
    """An index: the sum of RANGEs that are copied, times `steps`, of `others`, and of `rest`."""

    steps: Terms
    others: Terms
    rest: int
    sums: dict[tuple[Node, ...], Node] = field(default_factory=dict)

    def at(self, position: Position) -> Node:
        """The index where RANGEs have these positions, in its canonical form."""
        rest, left = self.rest, ()
        for loop, step in self.steps.items():
            if loop in position:
                rest += step * position[loop]
            else:
                left += (loop,)
        if left not in self.sums:
            terms = self.others | {loop: self.steps[loop] for loop in left}
            self.sums[left] = sum_terms(terms, 0)
        total = self.sums[left]
        if total.op is Op.CONST:
            return Node.index(rest)
        return Node(Op.ADD, dtypes.index, (total, Node.index(rest))) if rest else total


class _Expander:
    def __init__(
        self,
        root: Node,
        has_masks: bool,
        shuffled_bytes: Callable[[DType], int],
    ) -> None:
        self.has_masks, self.shuffled_bytes = has_masks, shuffled_bytes
        self.free = free_ranges(root) | {TRUE: frozenset()}  # TRUE is the gate of what has none
        self.copies: dict[Node, dict[Where, Node]] = {}
        self.axes: dict[Node, tuple[Node, ...]] = {}
        self.scalars: dict[tuple[object, ...], Node] = {}
        self.linear: dict[Node, _Linear | None] = {}
        self.blocks: dict[tuple[Node, tuple[int | None, ...]], list[Node]] = {}
        self.registers = 0
        self.totals: dict[Node, list[Node]] = {}

    def run(self, root: Node) -> Node:
        for node in root.toposort():
            self.axes[node] = self._axes(node)
            sizes = [range(loop_size(r)) for r in self.axes[node]]
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

    def _at(self, node: Node, position: Position) -> Node:
        return self.copies[node][tuple(position[r] for r in self.axes[node])]

    # -- one copy -----------------------------------------------------------------------------

    def _copy(self, node: Node, where: Where) -> Node:
        position = dict(zip(self.axes[node], where, strict=True))
        if node.op in _COPIES:
            return _COPIES[node.op](self, node, position)
        src = tuple(self._at(s, position) for s in node.src)
        if node.op is Op.ITEM:
            return item(src[0], node.arg)
        return _alu(node, src) if node.op in ALU else node.replace(src=src)

    def _after(self, node: Node, position: Position) -> Node:
        if self._runs_along_lanes(node):
            return self._scanned(node, position)
        value, *effects = (self._at(s, position) for s in node.src)
        return node.replace(dtype=value.dtype, src=(value, *effects))

    def _of_matrices(self, node: Node, position: Position) -> Node:
        """A FRAGMENT or WGMMA, whose places are indices."""
        src = (
            self._scalar(s, position) if s.dtype is dtypes.index else self._at(s, position)
            for s in node.src
        )
        return node.replace(src=tuple(src))

    def _range(self, node: Node, position: Position) -> Node:
        if node.arg.kind == "unroll":
            return Node.index(position[node])
        if node.arg.kind == "vector":
            return Node(Op.LANES, dtypes.index.vec(loop_size(node)))
        return node

    def _scalar(self, node: Node, position: Position) -> Node:
        """An index or condition with the unrolled RANGEs (and lanes) put in, as a scalar."""
        if node.op is Op.CONST:
            return node
        linear = self._linear_of(node) if node.dtype is dtypes.index else None
        if linear is not None:
            return linear.at(position)
        free = self.free[node]
        key = (node, *((r, n) for r, n in position.items() if r in free))
        if key not in self.scalars:
            self.scalars[key] = self._scalar_of(node, position)
        return self.scalars[key]

    def _scalar_of(self, node: Node, position: Position) -> Node:
        """The same, computed: by terms and by sides, which more positions than one have alike."""
        if node.op is Op.ADD and node.dtype is dtypes.index:
            terms, rest = _terms_of(node)
            parts = [(self._scalar(t, position), c) for t, c in terms.items()]
            return simplified_sum(parts, rest)
        if node.op in _BY_SIDES:
            sides = (self._scalar(side, position) for side in node.src)
            return simplify(alu(node.op, *sides))
        mapping = {r: Node.index(n) for r, n in position.items()}
        for part in node.toposort(lambda n: not _is_reduced(n)):
            if part.op is Op.LOAD:  # one lane at a time: a vector has no place in an index
                mapping[part] = self._lane_load(part, position)
            elif _is_reduced(part):
                mapping[part] = self._lane_of(part, position)
        return simplify(node.substitute(mapping))

    def _linear_of(self, node: Node) -> _Linear | None:
        """An index as a sum in which each RANGE that is copied is a term by itself, if it is so."""
        if node not in self.linear:
            self.linear[node] = self._as_linear(node)
        return self.linear[node]

    def _as_linear(self, node: Node) -> _Linear | None:
        terms, rest = linear_terms(node)
        steps = {t: terms.pop(t) for t in [*terms] if _is_copied(t)}
        if any(any(map(_is_copied, self.free[t])) or _reads(t) for t in terms):
            return None
        others, more = linear_terms(simplify(sum_terms(terms, rest)))
        return _Linear(steps, others, more)

    def _contiguous(self, index: Node, position: Position, vector: Node) -> Node | None:
        """Where the first lane is, if the others follow it; else None."""
        linear = self._linear_of(index)
        if linear is None:
            return contiguous(self._scalar(index, position), vector)
        return linear.at(position | {vector: 0}) if linear.steps.get(vector) == 1 else None

    def _lane_of(self, node: Node, position: Position) -> Node:
        """One lane of what is computed outside of an index that uses it."""
        vector = self._vector(node)
        if vector is None:
            return self._at(node, position)
        if vector not in position:  # asked how the index goes on in other lanes: in no simple way
            return node
        return Node(Op.EXTRACT, node.dtype, (self._at(node, position),), position[vector])

    def _lane_load(self, node: Node, position: Position) -> Node:
        """LOAD `node` for one lane."""
        load = Load.of(node)
        gate = self._scalar(load.gate, position)
        if _is_false(gate):
            return load.other
        memory, index = self._at(load.memory, position), self._scalar(load.index, position)
        return load._replace(memory=memory, index=index, gate=gate).node()

    def _load(self, node: Node, position: Position) -> Node:
        load, vector = Load.of(node), self._vector(node)
        if vector is None or vector not in self.free[load.index] | self.free[load.gate]:
            return self._lane_load(node, position)
        base = self._contiguous(load.index, position, vector)
        if base is None:
            index = self._scalar(load.index, position)
            across = self._across(node, vector)
            if across is not None:
                return self._transposed(node, position, vector, across)
            apart = strided(index, vector) if self.has_masks else None
            if apart is not None:
                gate = self._scalar(load.gate, position)
                return apart.load(self._at(load.memory, position), gate, load.other)
            pieces = self._pieces(load, index, position, vector) if self.has_masks else None
            if pieces is not None:
                return pieces
            count = loop_size(vector)
            lanes = [self._lane_load(node, position | {vector: n}) for n in range(count)]
            if all(lane is lanes[0] for lane in lanes):
                return broadcast(lanes[0], count)
            return Node(Op.STACK, node.dtype.vec(count), tuple(lanes))
        gate = self._gate(load.gate, position, vector)
        return _whole_load(load, self._at(load.memory, position), base, gate, vector)

    def _extract(self, node: Node, position: Position) -> Node:
        """A lane by its number, or as many as the number has values in a vector RANGE."""
        source, lane = node.src
        whole, vector = self._at(source, position), self._vector(lane)
        steps = [{}] if vector is None else [{vector: n} for n in range(loop_size(vector))]
        numbers = [self._scalar(lane, position | step).arg for step in steps]
        lanes = [Node(Op.EXTRACT, node.dtype, (whole,), number) for number in numbers]
        dtype = node.dtype.vec(len(lanes))
        return lanes[0] if vector is None else Node(Op.STACK, dtype, tuple(lanes))

    def _pieces(self, load: Load, index: Node, position: Position, vector: Node) -> Node | None:
        """A load that goes through the ends of rows, as a masked load for each row it meets."""
        gate = self._scalar(load.gate, position)
        if any(n.op is Op.LOAD for n in Node.sink((index, gate)).toposort()):
            return None
        found = segments(index, gate, vector)
        if found is None:
            return None
        count = loop_size(vector)
        memory, other = self._at(load.memory, position), broadcast(load.other, count)
        ends = [following.first for following in found[1:]] + [Node.index(count)]
        value: Node | None = None
        for piece, end in reversed(list(zip(found, ends, strict=True))):
            before_end = lane_condition(vector < end, vector)
            mine = lane_condition((vector < piece.first).ne(True), vector) & before_end
            held = mine & lane_condition(piece.gate, vector)
            one = Load(memory, piece.base, held, other, other.dtype).node()
            value = one if value is None else alu(Op.WHERE, before_end, one, value)
        return value

    def _across(self, node: Node, vector: Node) -> Node | None:
        """The unrolled RANGE, with as many steps as there are lanes, that a load is contiguous in.

        None where an index holds loads, whose lanes are different rows.
        """
        index = Load.of(node).index
        if any(n.op is Op.LOAD for n in index.toposort()):
            return None
        same_size = (r for r in self.axes[node] if bound_of(r) is bound_of(vector))
        return next((r for r in same_size if contiguous(index, r) is not None), None)

    def _transposed(self, node: Node, position: Position, vector: Node, across: Node) -> Node:
        """One column of a square block of memory whose rows are contiguous in `across`."""
        around = {r: n for r, n in position.items() if r is not across}
        key = (node, tuple(around.get(r) for r in self.axes[node]))
        if key not in self.blocks:
            lanes = range(loop_size(vector))
            rows = [self._row(node, around, vector, lane, across) for lane in lanes]
            self.blocks[key] = transposed(rows)
        return self.blocks[key][position[across]]

    def _row(
        self, node: Node, around: dict[Node, int], vector: Node, lane: int, across: Node
    ) -> Node:
        """The vector over `across` that a load gives for one lane of `vector`."""
        load, here = Load.of(node), around | {vector: lane}
        base = self._contiguous(load.index, here, across)
        assert base is not None
        gate = self._gate(load.gate, here, across)
        return _whole_load(load, self._at(load.memory, around), base, gate, across)

    def _gate(self, gate: Node, position: Position, vector: Node) -> Node:
        """A condition, as a scalar if it does not depend on the lane, else as a vector."""
        scalar = self._scalar(gate, position)
        if scalar.op is Op.CONST or vector not in ranges_of(scalar):
            return scalar
        return lane_condition(scalar, vector)

    def _store(self, node: Node, position: Position) -> Node:
        store, vector = Store.of(node), self._vector(node)
        memory, value = self._at(store.memory, position), self._at(store.value, position)
        if vector is None:
            index = self._scalar(store.index, position)
            gate = self._scalar(store.gate, position)
            return Store(memory, index, value, gate, store.how).node()
        base = self._contiguous(store.index, position, vector)
        if base is None:
            index = self._scalar(store.index, position)
            block = find_dense_block(store, index, vector, self.axes[node])
            if block is not None:
                return self._store_block(store, position, block, memory)
            apart = strided(index, vector) if self.has_masks else None
            if apart is not None:
                gate = self._scalar(store.gate, position)
                return Node.sink(apart.store(memory, value, gate))
            block = find_block(store, vector, self.axes[node], self.has_masks)
            if block is not None and value.dtype.count > 1:
                return self._store_block(store, position, block, memory)
            return self._store_lanes(store, position, vector, memory, value)
        gate = self._gate(store.gate, position, vector)
        return Store(memory, base, broadcast(value, loop_size(vector)), gate, store.how).node()

    def _store_block(self, store: Store, position: Position, block: Block, memory: Node) -> Node:
        """The stores of all copies over a side. The first copy stores them, the others nothing."""
        side = block.side
        if position[side]:
            return Node.sink(())
        around = {r: n for r, n in position.items() if r is not side}
        at = lambda lane: (
            self._scalar(store.index, around | lane), self._scalar(store.gate, around | lane)
        )  # fmt: skip
        rows = [self._at(store.value, around | {side: n}) for n in range(loop_size(side))]
        width = self.shuffled_bytes(store.value.dtype)
        return Node.sink(block.stores(memory, rows, at, self.has_masks, width))

    def _store_lanes(
        self, store: Store, position: Position, vector: Node, memory: Node, value: Node
    ) -> Node:
        stores = []
        for number in range(loop_size(vector)):
            here, one = position | {vector: number}, value
            if value.dtype.count > 1:
                one = Node(Op.EXTRACT, value.dtype.scalar, (value,), number)
            gate = self._scalar(store.gate, here)
            if not _is_false(gate):
                index = self._scalar(store.index, here)
                stores.append(Store(memory, index, one, gate).node())
        return Node.sink(stores)

    # -- loops --------------------------------------------------------------------------------

    def _inner(self, ranges: tuple[Node, ...]) -> tuple[tuple[Node, ...], list[dict[Node, int]]]:
        loops = tuple(r for r in ranges if r.arg.kind in ("loop", "grid"))
        unrolled = [r for r in ranges if r.arg.kind == "unroll"]
        sizes = [range(loop_size(r)) for r in unrolled]
        combos = itertools.product(*sizes)
        return loops, [dict(zip(unrolled, combo, strict=True)) for combo in combos]

    def _reduce(self, node: Node, position: Position) -> Node:
        reduce = Reduce.of(node)
        loops, combos = self._inner(reduce.loops)
        vector = next((r for r in reduce.loops if r.arg.kind == "vector"), None)
        values = []
        for combo in combos:
            value = self._at(reduce.value, position | combo)
            count = max(part.dtype.count for part in items(value))
            count = count if vector is None else loop_size(vector)
            values.append(tuple_of([broadcast(part, count) for part in items(value)]))
        narrow = type_of_parts(node, len(values))
        if narrow is not None and count > 1 and all(value.op is Op.CAST for value in values):
            parts = [operand(value).cast(narrow.vec(count)) for value in values]
            values = [all_combined(Op.ADD, parts).cast(node.dtype.vec(count))]
        parts = [Reduce(v, loops, reduce.arg).node() if loops else v for v in values]
        op = reduce.arg.op
        copied = tuple(r for r in reduce.loops if r.arg.kind == "unroll")
        in_order = not loops and is_in_order(op, reduce.value, copied)
        total = all_combined(op, parts, in_order)
        return total if vector is None else _of_lanes(op, total)

    def _loops_of(self, positions: tuple[Node, ...]) -> tuple[Node, ...]:
        """The loops that stay loops among those that some loop positions are made of."""
        found = frozenset().union(*(self.free[p] for p in positions)) if positions else ()
        kept = (r for r in found if r.arg.kind in ("loop", "grid"))
        return tuple(sorted(kept, key=lambda r: r.arg.number))

    def _register(self, node: Node, position: Position) -> Node:
        register, vector = Register.of(node), self._vector(node)
        start = self._at(register.start, position)
        if vector is not None:
            start = broadcast(start, loop_size(vector))
        loops = self._loops_of(register.loops)
        return Register(start, loops, self._numbered(register.arg), start.dtype).node()

    def _numbered(self, ref: RegisterRef) -> RegisterRef:
        """Copies are different registers: the number tells them apart."""
        self.registers += 1
        return replace(ref, number=self.registers)

    def _update(self, node: Node, position: Position) -> Node:
        update = Update.of(node)
        register = self._at(update.register, position)
        value = broadcast(self._at(update.value, position), register.dtype.count)
        return Update(register, value, self._loops_of(update.loops), update.op).node()

    def _runs_along_lanes(self, node: Node) -> bool:
        """Whether a register is read after each lane has been added to it."""
        register, *updates = node.src
        if register.op is not Op.REGISTER or [n.op for n in updates] != [Op.UPDATE]:
            return False
        vector = self._vector(updates[0])
        return vector is not None and vector not in self.free[register]

    def _scanned(self, node: Node, position: Position) -> Node:
        register, step = Register.of(node.src[0]), node.src[1]
        update, vector = Update.of(step), self._vector(step)
        assert update.op is not None
        assert vector is not None  # else it runs along no lanes
        value = broadcast(self._at(update.value, position), loop_size(vector))
        outer, loops = self._loops_of(register.loops), self._loops_of(update.loops)
        result, total = scanned(value, update.op, outer, loops, self._numbered(register.arg))
        self.totals.setdefault(node, []).append(total)
        return result

    def _end(self, node: Node, position: Position) -> Node:
        end = End.of(node)
        loops, combos = self._inner(end.loops)
        effects: dict[Node, None] = {}
        steps = [(effect, combo) for effect in end.effects for combo in combos]
        if all(e.op is Op.STORE and memory_of(e).op is Op.LOCAL for e in end.effects):
            # What rows of totals share in a copy, such as which value is the better one, is needed
            # for no longer than that.
            steps = [(effect, combo) for combo in combos for effect in end.effects]
        for effect, combo in steps:
            copy = self._at(effect, position | combo)
            for one in copy.src if copy.op is Op.SINK else (copy,):
                effects[one] = None
        below = Node.sink(end.effects).toposort() if self.totals else ()
        effects.update((total, None) for n in below for total in self.totals.get(n, ()))
        return End(tuple(effects), loops).node()


def _is_copied(node: Node) -> bool:
    return node.op is Op.RANGE and node.arg.kind in ("unroll", "vector")


def _reads(index: Node) -> bool:
    """Whether a value is read below an index: each copy reads its own."""
    return any(n.op is Op.LOAD or _is_reduced(n) for n in index.toposort())


def _is_false(gate: Node) -> bool:
    return gate.op is Op.CONST and not gate.arg


def _whole_load(load: Load, memory: Node, base: Node, gate: Node, vector: Node) -> Node:
    """A load of all lanes side by side; `gate` is one for all of them or one for each."""
    other = broadcast(load.other, loop_size(vector))
    return other if _is_false(gate) else Load(memory, base, gate, other, other.dtype).node()


def _of_lanes(op: Op, total: Node) -> Node:
    """All lanes of a value combined."""
    across = lambda op, part: broadcast(
        Node(Op.HREDUCE, part.dtype.scalar, (part,), op), part.dtype.count
    )
    return tuple_of([operand(part) for part in items(of_lanes(op, total, across))])


def _is_reduced(node: Node) -> bool:
    """Whether this is a value of its own in an index, which has lanes: a running total, too."""
    is_total = node.op is Op.AFTER and operand(node).op is Op.REGISTER
    return is_total or node.op in (Op.REDUCE, Op.ITEM)


def _alu(node: Node, src: tuple[Node, ...]) -> Node:
    count = max(s.dtype.count for s in src)
    if node.op in (Op.CAST, Op.BITCAST):
        (value,), dtype = src, node.dtype.vec(count)
        return value.cast(dtype) if node.op is Op.CAST else value.bitcast(dtype)
    if count == 1:
        return alu(node.op, *src, arg=node.arg)
    wide = tuple(broadcast(s, count) for s in src)
    return Node(node.op, alu_dtype(node.op, wide), wide, node.arg)


_COPIES: dict[Op, Callable[[_Expander, Node, Position], Node]] = {
    Op.RANGE: _Expander._range,
    Op.LOAD: _Expander._load,
    Op.STORE: _Expander._store,
    Op.REDUCE: _Expander._reduce,
    Op.END: _Expander._end,
    Op.REGISTER: _Expander._register,
    Op.UPDATE: _Expander._update,
    Op.AFTER: _Expander._after,
    Op.EXTRACT: _Expander._extract,
    Op.FRAGMENT: _Expander._of_matrices,
    Op.WGMMA: _Expander._of_matrices,
}
