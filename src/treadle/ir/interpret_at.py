"""The meaning of a tensor graph at single elements, from some nodes whose values are known.

    meaning = GraphMeaning({a: array, b: array}.get, {})
    meaning.at(a @ b, (rows, columns))     two arrays of positions: one value for each pair

What interpret.py gives for whole tensors, computed in float64 with bounds of the error (see
rounding.py). An element is pulled: movements move positions, and what a sum goes through is a new
first axis of them, in blocks. Positions that do not depend on an axis lose it, so that a row's
maximum is computed once for all of its elements. Nothing here knows how kernels are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InternalError
from .elementwise import cast_array, constant_array, numpy_dtype
from .evaluate import evaluate
from .interpret_kernel import BLOCK, NotPlain, broadcast, chosen, digits, nothing, stacked
from .node import Node
from .op import ALU, MOVEMENT, SAME, Op
from .rounding import Value, elementwise, exact, recurrence, total, totals
from .symbolic import Size, no_value
from .views import operand

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["GraphMeaning"]

_NONE = Value(np.zeros(()))

Array = np.ndarray
Index = tuple[Array, ...]
Step = Generator[tuple[Node, Index], Value, Value]
# A node, where its terms are, and which of them there are.
Terms = Generator[tuple[Node, Index], Value, tuple[Node, Sequence[Array], Array | None]]
# A node and its positions: small ones by value, others by the id of the array.
_Key = tuple[Node, tuple[tuple[tuple[int, ...], bytes] | int, ...]]
REMEMBERED = 1 << 22  # elements of values that are kept for whoever asks again


class GraphMeaning:
    """`known` gives the values of a node where they are known, flat or in its shape, else None."""

    def __init__(
        self,
        known: Callable[[Node], Array | None],
        variables: Mapping[str, int],
        roundings: float = 0,
    ) -> None:
        self._known, self._variables, self._roundings = known, variables, roundings
        self._arrays: dict[tuple[tuple[int, ...], bytes], Array] = {}
        self._values: dict[_Key, tuple[Index, Value]] = {}
        self._held = 0

    def at(self, node: Node, index: Sequence[Array]) -> Value:
        """The elements of `node` at `index`, an array of positions for each axis.

        Raises NotPlain for what has no meaning element by element.
        """
        return self._value(node, tuple(self._one(i) for i in index))

    def size(self, size: Size) -> int:
        """A size as a number."""
        if not isinstance(size, Node):
            return int(size)
        leaves = [n for n in size.toposort() if n.op is Op.VARIABLE]
        missing = [n.arg.name for n in leaves if n.arg.name not in self._variables]
        if missing:
            raise no_value(missing[0])
        return int(evaluate(size, {n: self._variables[n.arg.name] for n in leaves}))

    def place(self, view: Node, index: Sequence[Array]) -> Array:
        """Where in its memory element `index` of a view lies."""
        while view.op in MOVEMENT or view.op is Op.AFTER:
            if view.op is Op.PAD:
                raise NotPlain("it stores into a padded view")
            if view.op is not Op.AFTER:
                index = self._below(view, tuple(index))
            view = view.src[0]
        place = np.zeros((), np.int64)
        for position, size in zip(index, self.shape(view), strict=True):
            place = place * size + position
        return place

    def shape(self, node: Node) -> list[int]:
        """The shape of a node as numbers."""
        return [self.size(size) for size in node.shape]

    # -- how it goes on ---------------------------------------------------------------------------

    def _value(self, node: Node, index: Index) -> Value:
        """Steps ask for values and get them; kept in a list, since graphs are deep."""
        running: list[tuple[Node, Index, Step]] = [(node, index, self._step(node, index))]
        answer: Value | None = None
        while running:
            node, index, step = running[-1]
            try:
                asked = step.send(answer) if answer is not None else next(step)
            except StopIteration as done:
                running.pop()
                answer = done.value
                self._keep(node, index, done.value)
                continue
            known = self._values.get(self._key(*asked))
            answer = None if known is None else known[1]
            if known is None:
                running.append((*asked, self._step(*asked)))
        assert answer is not None
        return answer

    def _keep(self, node: Node, index: Index, value: Value) -> None:
        self._held += value.value.size
        if self._held > REMEMBERED:
            self._values.clear()
            self._arrays.clear()
            self._held = value.value.size
        self._values[self._key(node, index)] = index, value

    def _key(self, node: Node, index: Index) -> _Key:
        return node, tuple((i.shape, i.tobytes()) if i.size < 2 else id(i) for i in index)

    def _one(self, position: ArrayLike) -> Array:
        """Positions without the axes that they do not depend on; one array for equal ones."""
        found = np.asarray(position)
        for axis, size in enumerate(found.shape):
            if size > 1 and (first := found.take([0], axis)) is not None:
                if (found == first).all():
                    found = first
        while found.ndim and found.shape[0] == 1:
            found = found[0]
        found = np.ascontiguousarray(found, np.int64).reshape(found.shape)
        return self._arrays.setdefault((found.shape, found.tobytes()), found)

    def _step(self, node: Node, index: Index) -> Step:
        array = self._known(node)
        if array is not None:
            shape = self.shape(node)
            place = np.zeros((), np.int64)
            for position, size in zip(index, shape, strict=True):
                place = place * size + position
            flat = array.reshape(-1)
            if np.any((place < 0) | (place >= flat.size)):
                raise InternalError(f"[{node.op.name.lower()}] an element outside of {shape}")
            return exact(flat[place])
        if node.op in ALU:
            sources = []
            for source in node.src:
                sources.append((yield source, index if source.shape else ()))
            types = [source.dtype for source in node.src]
            return elementwise(node.op, node.dtype, types, sources, self._roundings)
        if node.op in MOVEMENT:
            return (yield from self._moved(node, index))
        if node.op in SAME or node.op is Op.CONTIGUOUS:
            return (yield node.src[0], index)
        if node.op not in _STEPS:
            raise NotPlain(f"{node.op.name} stands in its graph")
        return (yield from _STEPS[node.op](self, node, index))

    # -- movements --------------------------------------------------------------------------------

    def _moved(self, node: Node, index: Index) -> Step:
        source = node.src[0]
        if node.op is Op.PAD:
            holds = np.array(True)
            moved = []
            for i, (before, _), size in zip(index, node.arg, self.shape(source), strict=True):
                place = i - self.size(before)
                holds = holds & (place >= 0) & (place < size)
                moved.append(self._one(np.clip(place, 0, max(0, size - 1))))
            if not np.any(holds):
                return exact(np.zeros(np.shape(holds), numpy_dtype(node.dtype)))
            found = yield source, tuple(moved)
            return chosen(holds, found, np.zeros((), found.value.dtype))
        return (yield source, tuple(self._one(i) for i in self._below(node, index)))

    def _below(self, node: Node, index: Index) -> Sequence[Array]:
        """Where element `index` of a movement but PAD lies in its source."""
        arg, shape = node.arg, self.shape(node.src[0])
        if node.op is Op.RESHAPE:
            flat = np.zeros((), np.int64)
            for i, size in zip(index, self.shape(node), strict=True):
                flat = flat * size + i
            return digits(flat, shape)
        if node.op is Op.EXPAND:
            return [
                i if size != 1 else np.zeros((), np.int64)
                for i, size in zip(index, shape, strict=True)
            ]
        if node.op is Op.PERMUTE:
            return [index[arg.index(axis)] for axis in range(len(arg))]
        if node.op is Op.SHRINK:
            return [i + self.size(begin) for i, (begin, _) in zip(index, arg, strict=True)]
        if node.op is Op.FLIP:
            return [shape[axis] - 1 - i if axis in arg else i for axis, i in enumerate(index)]
        *outer, step = index  # a WINDOW
        outer[arg.axis] = outer[arg.axis] * arg.stride + step * arg.dilation
        return outer

    # -- what goes through many elements ----------------------------------------------------------

    def _through(
        self, op: Op, node: Node, sizes: list[int], index: Index,
        term: Callable[[list[Array]], Terms], terms: Array | None = None,
    ) -> Step:  # fmt: skip
        """Terms combined by `op` over axes of `sizes`.

        term(steps) gives the (node, index) of the terms at some steps, and where there are any;
        `terms` is how many there are, where they are combined one after the other.
        """
        shape = np.broadcast_shapes(*(i.shape for i in index))
        depth, count = len(shape), math.prod(sizes)
        block = max(1, BLOCK // max(1, math.prod(shape)))
        is_place = node.op is Op.REDUCE and node.arg.is_place
        dtype = operand(node).dtype if is_place else node.dtype
        parts: list[list[Value]] = []
        for begin in range(0, count, block):
            number = np.arange(begin, min(begin + block, count))
            steps = [d.reshape(-1, *(1,) * depth) for d in digits(number, sizes)]
            source, places, holds = yield from term(steps)
            found = yield source, tuple(self._one(place) for place in places)
            if holds is not None:
                found = chosen(holds, found, nothing(op, dtype))
            axes = (len(number), *(1,) * depth)
            found = broadcast(found, _shape(found.value.shape, axes))
            both = [found, *([broadcast(Value(steps[0]), found.value.shape)] if is_place else [])]
            parts.append(totals(op, dtype, both, terms))
        if not parts:
            return exact(nothing(op, dtype))
        if len(parts) > 1:
            parts = [totals(op, dtype, [stacked([*p]) for p in zip(*parts, strict=True)], terms)]
        return parts[0][-1]

    def _reduce(self, node: Node, index: Index) -> Step:
        (source,), axes = node.src, node.arg.axes
        shape = self.shape(source)

        def term(steps: list[Array]) -> Terms:
            places = list(index)
            for axis, step in zip(axes, steps, strict=True):
                places[axis] = step
            return source, places, None
            yield

        return (yield from self._through(node.arg.op, node, [shape[a] for a in axes], index, term))

    def _unwindow(self, node: Node, index: Index) -> Step:
        (source,), arg = node.src, node.arg
        count = self.shape(source)[arg.axis]

        def term(steps: list[Array]) -> Terms:
            (step,) = steps
            ahead = index[arg.axis] - step * arg.dilation
            window = ahead // arg.stride
            holds = (ahead % arg.stride == 0) & (window >= 0) & (window < count)
            places = [*index, step]
            places[arg.axis] = np.clip(window, 0, count - 1)
            return source, places, holds
            yield

        return (yield from self._through(Op.ADD, node, [arg.size], index, term))

    def _scan(self, node: Node, index: Index) -> Step:
        (source, *factor), axis = node.src, node.arg.axis
        most = int(np.max(index[axis], initial=0)) + 1
        if factor:
            return (yield from self._recurrence(node, most, index))

        def term(steps: list[Array]) -> Terms:
            places = list(index)
            places[axis] = steps[0]
            return source, places, steps[0] <= index[axis]
            yield

        return (yield from self._through(node.arg.op, node, [most], index, term))

    def _recurrence(self, node: Node, count: int, index: Index) -> Step:
        shape = np.broadcast_shapes(*(i.shape for i in index))
        block, axis, found = max(1, BLOCK // max(1, math.prod(shape))), node.arg.axis, _NONE
        for begin in range(0, count, block):
            steps = np.arange(begin, min(begin + block, count)).reshape(-1, *(1,) * len(shape))
            at = tuple(self._one(steps if i == axis else place) for i, place in enumerate(index))
            terms, factors = (yield node.src[0], at), (yield node.src[1], at)
            found = recurrence(node.dtype, found, terms, factors, steps <= index[axis])
        return found

    def _gather(self, node: Node, index: Index) -> Step:
        source, where = node.src
        axis, along = node.arg.axis, node.arg.along
        count = 1 if along else len(where.shape)
        place = yield where, index if along else index[axis : axis + count]
        size = self.shape(source)[axis]
        inside = (place.value >= 0) & (place.value < size)
        if size == 0 or not np.any(inside):
            return exact(np.zeros(np.shape(inside), numpy_dtype(node.dtype)))
        at = self._one(np.where(inside, place.value, 0))
        found = yield source, (*index[:axis], at, *index[axis + count :])
        found = chosen(inside, found, np.zeros((), found.value.dtype))
        if place.error is None:
            return found
        shape = np.broadcast_shapes(found.value.shape, place.error.shape)
        return Value(found.value, np.broadcast_to(np.where(place.error > 0, np.inf, 0.0), shape))

    def _scatter(self, node: Node, index: Index) -> Step:
        base, where, values = node.src
        axis, along, op = node.arg.axis, node.arg.along, node.arg.op
        lines = self.shape(where)
        sizes = [lines[axis]] if along else lines
        others = [i for i in range(len(index)) if i != axis]
        is_there = np.array(True)
        if along:
            for i in others:
                is_there = is_there & (index[i] < lines[i])

        def places_of(steps: list[Array]) -> tuple[Index, Index]:
            if not along:
                return tuple(steps), (*index[:axis], *steps, *index[axis + 1 :])
            found = [np.minimum(i, size - 1) for i, size in zip(index, lines, strict=True)]
            found[axis] = steps[0]
            return tuple(found), tuple(found)

        def put(steps: list[Array]) -> Generator[tuple[Node, Index], Value, tuple[Array, Array]]:
            """Which of `steps` write here, and which may write elsewhere."""
            place = yield where, tuple(self._one(i) for i in places_of(steps)[0])
            unsure = np.zeros((), bool) if place.error is None else place.error > 0
            return (place.value == index[axis]) & is_there, unsure & is_there

        def term(steps: list[Array]) -> Terms:
            holds, _ = yield from put(steps)
            return values, places_of(steps)[1], holds

        start = yield base, index
        if 0 in lines:
            return start
        shape = np.broadcast_shapes(*(i.shape for i in index))
        hits, last, unsure = np.zeros(shape, int), np.full(shape, -1), np.zeros(shape, bool)
        block = max(1, BLOCK // max(1, math.prod(shape)))
        for begin in range(0, math.prod(sizes), block):
            number = np.arange(begin, min(begin + block, math.prod(sizes)))
            number = number.reshape(-1, *(1,) * len(shape))
            holds, off = yield from put(digits(number, sizes))
            hits = hits + np.sum(np.broadcast_to(holds, (len(number), *shape)), axis=0)
            last = np.maximum(last, np.max(np.where(holds, number, -1), axis=0))
            unsure = unsure | np.any(np.broadcast_to(off, (len(number), *shape)), axis=0)
        if op is None:
            _, places = places_of(digits(np.maximum(last, 0), sizes))
            found = yield values, tuple(self._one(i) for i in places)
            found = _either(last >= 0, found, start)
        else:
            added = yield from self._through(op, node, sizes, index, term, hits)
            shape = np.broadcast_shapes(start.value.shape, added.value.shape)
            both = stacked([broadcast(start, shape), broadcast(added, shape)])
            found = total(op, node.dtype, both, hits)
        if not np.any(unsure):
            return found
        known = 0.0 if found.error is None else found.error
        return Value(found.value, np.where(unsure, np.inf, known))

    # -- leaves -----------------------------------------------------------------------------------

    def _constant(self, node: Node, index: Index) -> Step:
        return exact(constant_array(node.dtype, node.arg))
        yield

    def _variable(self, node: Node, index: Index) -> Step:
        variable = node.src[0] if node.op is Op.BIND else node
        return Value(constant_array(node.dtype, self.size(variable)))
        yield

    def _iota(self, node: Node, index: Index) -> Step:
        return exact(cast_array(index[0], node.dtype))
        yield


def _either(holds: Array, one: Value, other: Value) -> Value:
    """`one` where `holds`, else `other`."""
    shape = np.broadcast_shapes(holds.shape, one.value.shape, other.value.shape)
    errors = [0.0 if value.error is None else value.error for value in (one, other)]
    is_exact = one.error is None and other.error is None
    error = None if is_exact else np.broadcast_to(np.where(holds, *errors), shape)
    return Value(np.where(holds, one.value, other.value), error)


def _shape(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(one, other)


_STEPS: dict[Op, Callable[[GraphMeaning, Node, Index], Step]] = {
    Op.CONST: GraphMeaning._constant,
    Op.VARIABLE: GraphMeaning._variable,
    Op.BIND: GraphMeaning._variable,
    Op.IOTA: GraphMeaning._iota,
    Op.REDUCE: GraphMeaning._reduce,
    Op.UNWINDOW: GraphMeaning._unwindow,
    Op.SCAN: GraphMeaning._scan,
    Op.GATHER: GraphMeaning._gather,
    Op.SCATTER: GraphMeaning._scatter,
}
