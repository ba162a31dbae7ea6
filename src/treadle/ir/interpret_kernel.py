"""The meaning of a kernel before any move, at a few of the places that it stores to.

    meaning = KernelMeaning(sink, {0: array, 1: array}, {})
    for found in meaning.stores(64):      64 steps of the loops around each STORE
        found.slot, found.places, found.value
    KernelMeaning(optimised, ...).places(64)      where the same kernel stores by other loops

Everything is computed in float64, with bounds of its error (see rounding.py). A value is pulled:
what a sum goes through is a new first axis of its terms, in blocks, and what does not depend on it
is computed outside. Of a scatter all places are computed, and the values that fall on some of them.
Raises NotPlain for what is no function of the memory before: counters, and other reads of what the
kernel itself has stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..dtype import DType
from ..errors import InternalError
from .accumulators import identity, identity_of, items
from .elementwise import constant_array
from .loops import closed_ranges, free_ranges, has_fixed_size, loop_size
from .node import Node
from .op import ALU, Op
from .rounding import Value, elementwise, exact, recurrence, total, totals
from .symbolic import no_value

__all__ = [
    "BLOCK", "KernelMeaning", "NotPlain", "Stored", "broadcast", "chosen", "digits", "nothing",
    "sampled_steps", "stacked", "steps_and",
]  # fmt: skip

Array = np.ndarray
_NOWHERE: Mapping[int, Array] = {}
BLOCK = 1 << 18  # elements that are computed at once
MOST_SCATTERED = 1 << 24  # values of a scatter, of all of which the places are computed


class NotPlain(Exception):
    """Something has no meaning at single places; the message says what."""


class Stored(NamedTuple):
    """What a STORE leaves at `places` of the memory `slot`."""

    slot: int
    places: Array
    value: Value


@dataclass(eq=False)
class _Frame:
    """Values inside of some loops, whose steps are `bound`; `size` elements in `depth` axes."""

    around: _Frame | None
    bound: dict[Node, Array]
    size: int
    depth: int
    known: dict[Node, Value] = field(default_factory=dict)


class KernelMeaning:
    """A kernel's SINK over the memory of its slots as it was before, flat arrays."""

    def __init__(
        self,
        sink: Node,
        memory: Mapping[int, Array],
        variables: Mapping[str, int],
        roundings: float = 0,
    ) -> None:
        self._sink, self._memory, self._variables = sink, memory, variables
        self._roundings = roundings
        self._free = free_ranges(sink)
        self._refuse()

    def _refuse(self) -> None:
        scattered = {end.src[0].src[0] for end in self._ends() if _scatters(end)}
        for node in self._sink.toposort():
            if node.op is Op.TICKET:
                raise NotPlain("it counts while it stores")
            if node.op is Op.AFTER and node.src[0].op is Op.PARAM and node not in scattered:
                raise NotPlain("it reads what it has stored")

    @property
    def work(self) -> int:
        """How many elements one step of the loops around the stores takes, about."""
        outer = {r for end in self._ends() for r in closed_ranges(end)}
        most = 1
        for node in self._sink.toposort():
            closed = node.src[2:] if node.op is Op.UPDATE else closed_ranges(node)
            if closed and node.op is not Op.END:
                value = node.src[1] if node.op is Op.UPDATE else node.src[0]
                scanned = set(closed) if node.op is Op.UPDATE else set()
                inside = (self._free[value] | set(closed)) - (outer - scanned)
                below = sum(n.op is Op.UPDATE for n in value.toposort()) if scanned else 0
                most += loop_size(*inside) * loop_size(*closed) ** below  # each step runs those
        for end in self._ends():
            if _scatters(end):  # an element looks at all places, and computes few values
                most += loop_size(*closed_ranges(end)) // 16
        return most

    def _ends(self) -> list[Node]:
        return [node for node in self._sink.src if node.op is Op.END]

    def stores(
        self, count: int, seed: int = 0, wanted: Mapping[int, Array] = _NOWHERE
    ) -> Iterator[Stored]:
        """Each STORE at `count` of its steps, the first and last ones among them.

        The places that are `wanted` of a slot are beside those, as far as the STORE has them.
        """
        for end in self._ends():
            if _scatters(end):
                for start in self._plain_stores(end.src[0].src[0].src[1], count, seed, wanted):
                    yield self._scattered(end, start)
            else:
                yield from self._plain_stores(end, count, seed, wanted)

    def _plain_stores(
        self, end: Node, count: int, seed: int, wanted: Mapping[int, Array]
    ) -> Iterator[Stored]:
        loops, outside = closed_ranges(end), _Frame(None, {}, 1, 0)
        sizes = self._sizes(loops, outside)
        if 0 in sizes:
            return
        stores = _last_stores(end)
        there = wanted.get(_slot(stores[0]), np.zeros(0, np.int64))
        found = self._steps_at(stores[0], loops, sizes, there)
        frame = self._frame(loops, steps_and(found, sizes, count, seed))
        for store in stores:
            yield self._stored(store, frame)

    def _frame(self, loops: Sequence[Node], steps: list[Array]) -> _Frame:
        """Those steps of the loops."""
        size = len(steps[0]) if steps else 1
        return _Frame(_Frame(None, {}, 1, 0), _bound(loops, steps), size, 1)

    def _steps_at(
        self, store: Node, loops: Sequence[Node], sizes: list[int], places: Array
    ) -> list[Array]:
        """The steps that store to `places`: those that are found by a stride for each loop."""
        first, strides = self._strides(store, loops, sizes)
        steps = [(places - first) // (s or 1) % n for s, n in zip(strides, sizes, strict=True)]
        index = self._number(store.src[1], self._frame(loops, steps))
        found = np.broadcast_to(index, places.shape) == places
        return [step[found] for step in steps]

    def _strides(
        self, store: Node, loops: Sequence[Node], sizes: list[int]
    ) -> tuple[int, list[int]]:
        """Where `store` begins, and how far the second step of each loop is from there."""
        unit = np.eye(len(loops) + 1, len(loops), dtype=np.int64)
        steps = [*np.minimum(unit, np.array(sizes, np.int64) - 1).T]
        index = self._number(store.src[1], self._frame(loops, steps))
        *nexts, first = np.broadcast_to(index, (len(loops) + 1,)).tolist()
        return first, [at - first for at in nexts]

    def places(self, count: int, seed: int = 0) -> dict[int, Array]:
        """Where each slot is stored to, at `count` steps, the ends of all loops among them."""
        found: dict[int, list[Array]] = {}
        for store in self._sink.toposort():
            if store.op is not Op.STORE or store.src[0].op is not Op.PARAM:
                continue
            nodes = {node for part in (store.src[1], *store.src[3:]) for node in part.toposort()}
            loops = [node for node in nodes if node.op is Op.RANGE]
            if any(node.op in _NOT_OF_LOOPS for node in nodes) or not loops:
                continue
            if not all(map(has_fixed_size, loops)):
                continue
            _, strides = self._strides(store, loops, [loop_size(r) for r in loops])
            loops = [r for _, r in sorted(zip(strides, loops, strict=True), key=_outermost_first)]
            steps = sampled_steps([loop_size(r) for r in loops], count, seed)
            place = self._place(store, self._frame(loops, steps))
            found.setdefault(_slot(store), []).append(place[place >= 0])
        return {slot: np.unique(np.concatenate(parts)) for slot, parts in found.items()}

    def _sizes(self, loops: Sequence[Node], outside: _Frame) -> list[int]:
        return [int(self._number(r.src[0], outside)) for r in loops]

    def _number(self, node: Node, frame: _Frame) -> Array:
        return self._value(node, frame).value

    def _stored(self, store: Node, frame: _Frame) -> Stored:
        _, index, value, *gate = store.src
        shape = (frame.size,)
        places = np.broadcast_to(self._number(index, frame), shape)
        found = broadcast(self._value(value, frame), shape)
        if gate:
            known = broadcast(self._value(gate[0], frame), shape)
            holds = known.value & (known.error == 0 if known.error is not None else True)
            error = None if found.error is None else found.error[holds]
            places, found = places[holds], Value(found.value[holds], error)
        return Stored(_slot(store), places, found)

    # -- scatters -------------------------------------------------------------------------------

    def _scattered(self, end: Node, start: Stored) -> Stored:
        """What a scatter leaves at the places of `start`, which it begins with."""
        op, term = _combined(end.src[0])
        places, first = np.unique(start.places, return_index=True)
        before = _picked(start.value, first)
        numbers, terms = [np.arange(len(places))], [before]
        for number, value in self._written(end, term, places):
            numbers.append(number)
            terms.append(value)
        number, value = np.concatenate(numbers), joined(terms)
        order = np.argsort(number, kind="stable")
        begins = np.searchsorted(number[order], np.arange(len(places) + 1))
        found = []
        for begin, stop in itertools.pairwise(begins):
            mine = order[begin:stop] if op is not None else order[stop - 1 : stop]
            here = _picked(value, mine)
            found.append(here if op is None else _alone(total(op, term.dtype, here, len(mine))))
        return Stored(start.slot, places, joined(found))

    def _written(self, end: Node, term: Node, places: Array) -> Iterator[tuple[Array, Value]]:
        """Numbers of the places that are written, in the order of writing, and the values."""
        loops, outside = closed_ranges(end), _Frame(None, {}, 1, 0)
        sizes = self._sizes(loops, outside)
        if math.prod(sizes) > MOST_SCATTERED:
            raise NotPlain("it scatters too many values")
        for begin in range(0, math.prod(sizes), BLOCK):
            number = np.arange(begin, min(begin + BLOCK, math.prod(sizes)))
            steps = digits(number, sizes)
            at = self._place(end.src[0], _Frame(outside, _bound(loops, steps), len(number), 1))
            nearest = np.minimum(np.searchsorted(places, at), len(places) - 1)
            hits = np.flatnonzero(places[nearest] == at)
            if hits.size:
                bound = _bound(loops, [step[hits] for step in steps])
                value = self._value(term, _Frame(outside, bound, hits.size, 1))
                yield nearest[hits], broadcast(value, (hits.size,))

    def _place(self, store: Node, frame: _Frame) -> Array:
        """Where `store` writes in each step, -1 where it does not."""
        known = [self._value(node, frame) for node in (store.src[1], *store.src[3:])]
        if any(value.error is not None and np.any(value.error > 0) for value in known):
            raise NotPlain("its places are computed from rounded numbers")
        place, *gate = (np.broadcast_to(value.value, (frame.size,)) for value in known)
        return np.where(gate[0], place, -1) if gate else place

    # -- values ---------------------------------------------------------------------------------

    def _value(self, node: Node, frame: _Frame) -> Value:
        home = self._home(node, frame)
        if node in home.known:
            return home.known[node]
        is_new = lambda n: not closed_ranges(n) and n not in self._home(n, frame).known
        for item in node.toposort(lambda n: n.op is not Op.AFTER and is_new(n)):
            home = self._home(item, frame)
            if item not in home.known and item.dtype.kind != "void" and item.op is not Op.PARAM:
                home.known[item] = self._computed(item, home)
        return self._home(node, frame).known[node]

    def _home(self, node: Node, frame: _Frame) -> _Frame:
        """The outermost loops that `node` depends on."""
        free = self._free[node]
        while frame.around is not None and free.isdisjoint(frame.bound):
            frame = frame.around
        return frame

    def _computed(self, node: Node, frame: _Frame) -> Value:
        if node.op is Op.RANGE:
            return Value(frame.bound[node])
        if node.op is Op.CONST:
            found = constant_array(node.dtype, node.arg)
            return exact(found)
        if node.op is Op.VARIABLE:
            if node.arg.name not in self._variables:
                raise no_value(node.arg.name)
            return Value(constant_array(node.dtype, self._variables[node.arg.name]))
        if node.op in ALU:
            types = [source.dtype for source in node.src]
            sources = [self._value(source, frame) for source in node.src]
            return elementwise(node.op, node.dtype, types, sources, self._roundings)
        if node.op in _FORMS:
            return _FORMS[node.op](self, node, frame)
        raise NotPlain(f"{node.op.name} stands in it")

    def _load(self, node: Node, frame: _Frame) -> Value:
        memory, index, *gate = node.src
        array = self._memory[memory.arg.slot]
        place = self._value(index, frame)
        shapes = [place.value.shape]
        holds: Array = np.ones((), bool)
        unknown: Array | None = place.error
        if gate:
            known = self._value(gate[0], frame)
            holds, shapes = known.value, [*shapes, known.value.shape]
            unknown = _either(unknown, known.error)
        inside = (place.value >= 0) & (place.value < array.size)
        if not np.all(inside | ~holds) and unknown is None:
            raise InternalError(
                f"[realize] a kernel reads argument {memory.arg.slot}, of {array.size} elements, "
                f"at {int(place.value[~inside].ravel()[0])}: please report it"
            )
        shape = np.broadcast_shapes(*shapes)
        found = exact(array[np.where(inside, place.value, 0)]).value
        if gate:
            found = np.where(holds & inside, found, self._value(gate[1], frame).value)
        if unknown is None:
            return Value(found)
        return Value(found, np.broadcast_to(np.where(unknown > 0, np.inf, 0.0), shape))

    def _reduce(self, node: Node, frame: _Frame) -> Value:
        return self._through(node.arg.op, node.src[1:], frame, node.src[0], None)[0]

    def _item(self, node: Node, frame: _Frame) -> Value:
        (reduce,) = node.src
        if reduce.op is not Op.REDUCE:
            raise NotPlain(f"it has an item of {reduce.op.name}")
        return self._through(reduce.arg.op, reduce.src[1:], frame, reduce.src[0], None)[node.arg]

    def _through(
        self, op: Op, loops: tuple[Node, ...], frame: _Frame, term: Node, last: Array | None
    ) -> list[Value]:
        """The items of `term` combined over all steps of `loops`, or over those up to `last`."""
        terms, none = items(term), items(identity_of(op, term))
        sizes = [loop_size(r) for r in loops]
        block = max(1, BLOCK // max(1, frame.size))
        parts: list[list[Value]] = []
        for begin in range(0, math.prod(sizes), block):
            number = np.arange(begin, min(begin + block, math.prod(sizes)))
            steps = [d.reshape(-1, *(1,) * frame.depth) for d in digits(number, sizes)]
            bound = dict(zip(loops, steps, strict=True))
            inner = _Frame(frame, bound, frame.size * len(number), frame.depth + 1)
            found = [self._value(part, inner) for part in terms]
            shapes = (part.value.shape for part in found)
            shape = np.broadcast_shapes(*shapes, (len(number), *(1,) * frame.depth))
            found = [broadcast(part, shape) for part in found]
            holds: Array | None = None if last is None else steps[0] <= last
            for r, step in bound.items():
                if not has_fixed_size(r):
                    is_there = step < self._number(r.src[0], inner)
                    holds = is_there if holds is None else holds & is_there
            if holds is not None:
                others = (exact(constant_array(one.dtype, one.arg)).value for one in none)
                pairs = zip(found, others, strict=True)
                found = [chosen(holds, part, other) for part, other in pairs]
            parts.append(totals(op, terms[0].dtype, found))
        if len(parts) == 1:
            return parts[0]
        return totals(op, terms[0].dtype, [stacked([*part]) for part in zip(*parts, strict=True)])

    def _stage(self, node: Node, frame: _Frame) -> Value:
        """What is kept is computed at the place where it is read."""
        count = len(node.arg.sizes)
        value, _, *rest = node.src
        stored, read, loops = rest[:count], rest[count : 2 * count], rest[2 * count :]
        if stored != loops:
            raise NotPlain("it keeps rows in another order")
        places = {r: self._number(place, frame) for r, place in zip(loops, read, strict=True)}
        return self._value(value, _Frame(frame, places, frame.size, frame.depth))

    def _after(self, node: Node, frame: _Frame) -> Value:
        """A running total: the register once it was updated in all steps up to this one."""
        register, update, *more = node.src
        plain = not more and register.op is Op.REGISTER and update.op is Op.UPDATE
        held, *before = update.src[0].src if update.src[0].op is Op.AFTER else update.src[:1]
        if not plain or held is not register or update.arg is None:
            raise NotPlain("its steps depend on each other")
        _, term, *loops = update.src
        if before:
            return self._recurrence(update, before, frame)
        if not loops:
            return self._value(term, frame)
        (loop,) = loops
        return self._through(update.arg, (loop,), frame, term, self._number(loop, frame))[0]

    def _recurrence(self, update: Node, before: list[Node], frame: _Frame) -> Value:
        """A total of 0 that each step multiplies by the value `before`, and then adds to."""
        (_, term, *loops), (first, *more) = update.src, before
        if more or (first.arg, update.arg) != (Op.MUL, Op.ADD) or first.src[0].op is Op.AFTER:
            raise NotPlain("its steps are no linear recurrence")
        last = self._number(loops[0], frame) if loops else np.zeros((), np.int64)
        block, count = max(1, BLOCK // max(1, frame.size)), int(np.max(last, initial=0)) + 1
        found = Value(np.zeros(()))
        for begin in range(0, count, block):
            number = np.arange(begin, min(begin + block, count))
            steps = number.reshape(-1, *(1,) * frame.depth)
            bound = dict.fromkeys(loops, steps)
            inner = _Frame(frame, bound, frame.size * len(number), frame.depth + 1)
            terms, factors = (self._value(each, inner) for each in (term, first.src[1]))
            found = recurrence(term.dtype, found, terms, factors, steps <= last)
        return found


_FORMS = {
    Op.LOAD: KernelMeaning._load,
    Op.REDUCE: KernelMeaning._reduce,
    Op.ITEM: KernelMeaning._item,
    Op.STAGE: KernelMeaning._stage,
    Op.AFTER: KernelMeaning._after,
}


def _outermost_first(loop: tuple[int, Node]) -> tuple[int, int]:
    """By its stride, then by its number, which is another one for each loop."""
    return -abs(loop[0]), loop[1].arg.number


_NOT_OF_LOOPS = frozenset((Op.LOAD, Op.REDUCE, Op.STAGE, Op.AFTER, Op.TICKET))


def _last_stores(end: Node) -> list[Node]:
    """The STOREs of an END, the last one of several to the same memory."""
    return [*{effect.src[0]: effect for effect in end.src[: end.arg]}.values()]


def _slot(store: Node) -> int:
    memory = store.src[0]
    if memory.op is not Op.PARAM:
        raise NotPlain(f"it stores to {memory.op.name}")
    return memory.arg.slot


def _scatters(end: Node) -> bool:
    """Whether loops put values at computed places of what other loops have filled."""
    memory = end.src[0].src[0]
    is_after = memory.op is Op.AFTER and memory.src[0].op is Op.PARAM and len(memory.src) == 2
    return is_after and end.arg == 1 and memory.src[1].op is Op.END and memory.src[1].arg == 1


def _combined(store: Node) -> tuple[Op | None, Node]:
    """How a scatter's values are combined with what is there, None: not at all; and the values."""
    memory, value = store.src[0], store.src[2]
    is_old = lambda node: node.op is Op.LOAD and node.src[0] is memory
    op, term = None, value
    others = [source for source in value.src if not is_old(source)]
    if value.op in (Op.ADD, Op.MUL, Op.MAX, Op.MIN) and len(others) == 1:
        op, term = value.op, others[0]
    if any(is_old(node) for node in term.toposort()):
        raise NotPlain("it reads what it has stored")
    return op, term


def _bound(loops: Sequence[Node], steps: list[Array]) -> dict[Node, Array]:
    return dict(zip(loops, steps, strict=True))


def _picked(value: Value, which: Array) -> Value:
    """Some elements of a vector."""
    return Value(value.value[which], None if value.error is None else value.error[which])


def _alone(value: Value) -> Value:
    """A scalar as a vector of one element."""
    return Value(value.value.reshape(1), None if value.error is None else value.error.reshape(1))


def digits(number: Array, sizes: list[int]) -> list[Array]:
    """The digits of `number`, the last one running fastest."""
    found = []
    for size in reversed(sizes):
        found.append(number % size)
        number = number // size
    return found[::-1]


def sampled_steps(sizes: list[int], count: int, seed: int) -> list[Array]:
    """`count` steps of loops of `sizes`, all of them where there are no more.

    The ends of each loop come up often: that is where what is cut into tiles goes wrong. As far as
    there is room, the first and the last two steps of each loop are there, and some first and last
    step of all loops from each one on: where a tile begins and ends.
    """
    everything = math.prod(sizes)
    if everything <= count:
        return digits(np.arange(everything), sizes)
    random = np.random.default_rng(seed)
    found = []
    for size in sizes:
        steps = random.integers(0, size, count)
        end = random.integers(0, 4, count)
        steps = np.where(end == 0, random.integers(0, min(size, 3), count), steps)
        steps = np.where(end == 1, size - 1 - random.integers(0, min(size, 3), count), steps)
        found.append(steps)
    alone = [(at, at + 1, end) for end in (0, -1, 1, -2) for at in range(len(sizes))]
    tiles = [(at, len(sizes), end) for end in (0, -1) for at in range(len(sizes) - 1)]
    for number, (first, stop, end) in enumerate([*alone, *tiles][: count - 2], 1):
        for steps, size in zip(found[first:stop], sizes[first:stop], strict=True):
            steps[number] = min(end, size - 1) if end >= 0 else max(size + end, 0)
    for steps, size in zip(found, sizes, strict=True):
        steps[0], steps[-1] = 0, size - 1
    return found


def steps_and(known: list[Array], sizes: list[int], count: int, seed: int) -> list[Array]:
    """`known` steps of loops of `sizes` and others, `count` of them: all, if there are no more."""
    if not sizes or math.prod(sizes) <= count:
        return sampled_steps(sizes, count, seed)
    others = sampled_steps(sizes, max(2, count - len(known[0])), seed)
    return [np.concatenate(both) for both in zip(known, others, strict=True)]


def broadcast(value: Value, shape: tuple[int, ...]) -> Value:
    error = None if value.error is None else np.broadcast_to(value.error, shape)
    return Value(np.broadcast_to(value.value, shape), error)


def chosen(holds: Array, value: Value, other: Array) -> Value:
    error = None if value.error is None else np.where(holds, value.error, 0.0)
    return Value(np.where(holds, value.value, other), error)


def stacked(parts: list[Value]) -> Value:
    value = np.stack([part.value for part in parts])
    if all(part.error is None for part in parts):
        return Value(value)
    shape = value.shape[1:]
    errors = [np.zeros(shape) if p.error is None else p.error for p in parts]
    return Value(value, np.stack([np.broadcast_to(error, shape) for error in errors]))


def joined(parts: list[Value]) -> Value:
    """Vectors one after the other."""
    value = np.concatenate([part.value for part in parts])
    if all(part.error is None for part in parts):
        return Value(value)
    errors = [np.zeros(p.value.shape) if p.error is None else p.error for p in parts]
    return Value(value, np.concatenate(errors))


def _either(one: Array | None, other: Array | None) -> Array | None:
    if one is None or other is None:
        return other if one is None else one
    return np.maximum(one, other)


def nothing(op: Op, dtype: DType) -> Array:
    return exact(constant_array(dtype, identity(op, dtype).arg)).value
