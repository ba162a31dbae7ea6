"""Loops over steps: what of a step need not be in the loop, and derivatives, as loops again.

    recur([tanh(x @ u + h @ w)], ...)   -> RECUR over the rows of xs @ u, one matmul for all steps
    recur_rule(loop, {0: g})            -> a RECUR from the last step to the first, and sums

What a step computes without the state is computed for all steps at once, as a batch, and read as a
sequence; what no step changes is computed once. A gradient's loop carries what arrives at the
states alone; what arrives at sequences and at all else is a batch over the steps after it. All of
these are ordinary nodes, so that derivatives of derivatives need nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ..errors import UserError
from ..ir.args import RecurArg
from ..ir.builders import constant, permute, repeated, reshape
from ..ir.node import Node, substitute, toposort
from ..ir.op import ALU, MOVEMENT, Op
from ..ir.recurrence import Loop, extended, siblings, stand_in
from ..ir.shape import Shape, size_product
from .saved import above, worth_saving
from .shapes import reduce

__all__ = ["Given", "batched", "recur", "recur_rule", "row", "rows"]

Batch = Callable[[Sequence[Node], Mapping[Node, Node], int], "list[Node | None]"]
Gradients = Callable[[Mapping[Node, Node], Sequence[Node]], "list[Node | None]"]

_NEVER = frozenset((
    Op.COPY, Op.HOST, Op.COLLECTIVE, Op.RECUR, Op.MULTI, Op.PART, Op.ASSIGN, Op.AFTER,
))  # fmt: skip


class Given(NamedTuple):
    """What a step sees as the flat BUFFER `stand`, and what that stands for."""

    stand: Node
    source: Node


def rows(x: Node, bounds: tuple[int, int]) -> Node:
    """Some of the rows of `x`."""
    if bounds == (0, x.shape[0]):
        return x
    return Node(Op.SHRINK, x.dtype, (x,), (bounds, *((0, n) for n in x.shape[1:])))


def row(x: Node, number: int) -> Node:
    """One row of `x`."""
    return reshape(rows(x, (number, number + 1)), x.shape[1:])


def recur(
    body: Sequence[Node],
    states: Sequence[Given],
    sequences: Sequence[Given],
    constants: Sequence[Given],
    steps: int,
    batch: Batch,
    backward: bool = False,
    stops: Collection[Node] = (),
) -> list[Node]:
    """Every state of each of `states`, (steps + 1, *its shape), the first one included.

    `body`: the next states, of stand-ins; what else it reads is the same in all steps. Gradients
    may be asked for `stops`, so none of them is looked through. Raises UserError for what cannot be
    computed in a loop.
    """
    split = _Split(body, states, sequences, constants, steps, batch, stops)
    sources = [*states, *split.sequences, *split.constants]
    shapes = [s.source.shape for s in states] + [s.source.shape[1:] for s in split.sequences]
    shapes += [s.source.shape for s in split.constants]
    mapping: dict[Node, Node] = {}
    for number, (given, shape) in enumerate(zip(sources, shapes, strict=True)):
        stand = stand_in(number, given.source.dtype, shape)
        mapping[given.stand] = reshape(stand, given.stand.shape)
    changed = tuple(node.substitute(mapping) for node in body)
    arg = RecurArg(changed, steps, len(split.sequences), backward)
    src = tuple(given.source for given in sources)
    return siblings(Node(Op.RECUR, changed[0].dtype, src, arg))


class _Split:
    """A step without what does not need the state: `sequences` and `constants` that are left."""

    def __init__(
        self, body: Sequence[Node], states: Sequence[Given], sequences: Sequence[Given],
        constants: Sequence[Given], steps: int, batch: Batch, stops: Collection[Node],
    ) -> None:  # fmt: skip
        self._known = {given.stand: given.source for given in constants}
        self._in_rows = {given.stand: given.source for given in sequences}
        self._steps, self._batch, self._stops = steps, batch, stops
        self._found: dict[Node, Given] = {}
        order = toposort(body)
        self._by_step = above(order, set(self._in_rows))
        self._has_memory = above(order, {n for n in order if n.op is Op.BUFFER})
        by_state = above(order, {given.stand for given in states})
        for node in order:
            if node not in by_state:
                continue
            if node.op in _NEVER:
                raise UserError(
                    f"[scan] {node.op.name.lower()} of what depends on the state cannot be in a "
                    "loop: only what kernels compute can, without assignments"
                )
        bases = self._bases([node for node in order if node not in by_state])
        ends = {source for node in by_state for source in node.src} | set(body)
        for node in order:
            if node in ends and node not in by_state:
                for base in bases[node]:
                    self._take_out(base)
        given = self._found.values()
        self.sequences = [one for one in given if one.stand in self._by_step]
        self.constants = [one for one in given if one.stand not in self._by_step]

    def _bases(self, order: Sequence[Node]) -> dict[Node, dict[Node, None]]:
        """For each node of `order`: what to compute outside, and to read where it is needed.

        Movements are index arithmetic, so they stay inside; elementwise operations on rows, too:
        they are done once for each step in any case, and what they need is often less than what
        they give. Two rows of which one is made are made so outside.
        """
        found: dict[Node, dict[Node, None]] = {}
        plain: set[Node] = set()  # movements of one base
        for node in order:
            below = {base: None for source in node.src for base in found[source]}
            by_step = [base for base in below if base in self._by_step]
            if node not in self._has_memory:
                found[node] = {}
            elif node in self._stops or not node.src:
                found[node] = {node: None}
            elif node.op in MOVEMENT:
                [source] = node.src
                is_plain = source in plain or source in found[source]
                plain.update([node] if is_plain else [])
                found[node] = {source: None} if node.op is Op.EXPAND and not is_plain else below
            elif node.op not in ALU or not by_step or _are_one(by_step, node):
                found[node] = {node: None}
            else:
                found[node] = below
        return found

    def _take_out(self, node: Node) -> None:
        """Compute `node` outside of the loop."""
        if node in self._found:
            return
        source = self._in_rows.get(node)
        if source is None and node in self._by_step:
            [base] = [node.substitute(dict(self._flat(self._known)))]
            [source] = self._batch([base], dict(self._flat(self._in_rows)), self._steps)
            assert source is not None
        elif source is None:
            source = self._known.get(node)
            if source is None:
                source = node.substitute(dict(self._flat(self._known)))
        self._found[node] = Given(node, source)

    def _flat(self, known: Mapping[Node, Node]) -> list[tuple[Node, Node]]:
        """Each stand-in with what it stands for, in the stand-in's shape."""
        is_rows = known is self._in_rows
        front = (self._steps,) if is_rows else ()
        return [(n, reshape(s, (*front, *n.shape))) for n, s in known.items()]


def _are_one(bases: Sequence[Node], node: Node) -> bool:
    """Whether `node` takes the place of several of its size."""
    size = size_product(node.shape)
    return len(bases) > 1 and all(size_product(base.shape) == size for base in bases)


def recur_rule(
    node: Node, arriving: Mapping[int, Node], gradients: Gradients, batch: Batch
) -> tuple[Node | None, ...]:
    """What arrives at each source of the loop of `node`, where `arriving` does at its states."""
    loop, arg = Loop.of(node), node.arg
    stands, count = loop.stand_ins, len(arg.body)
    moving = [n for n in range(count) if arg.body[n].dtype.is_inexact]
    slopes = {n: stand_in(len(stands) + n, arg.body[n].dtype, arg.body[n].shape) for n in moving}
    extra = {
        n: stand_in(len(stands) + count + n, g.dtype, g.shape[1:]) for n, g in arriving.items()
    }
    seeds: dict[Node, Node] = {}
    for n in moving:
        arrives = reshape(slopes[n], arg.body[n].shape)
        seeds[arg.body[n]] = seeds[arg.body[n]] + arrives if arg.body[n] in seeds else arrives
    parts = gradients(seeds, stands)
    room = sum(size_product(stand.shape) for stand in stands[: count + arg.sequences])
    kept, read = _read_back(node, [part for part in parts if part is not None], room)
    parts = [None if part is None else part.substitute(read) for part in parts]

    past = [rows(history, loop.read) for history in siblings(node)]
    seen = [*map(Given, stands[:count], past)]
    seen += map(Given, stands[count:], loop.sequences)
    shared = [*map(Given, stands[count + arg.sequences :], loop.constants)]
    body, first = [], []
    for n in moving:
        shape, g = arg.body[n].shape, arriving.get(n)
        zero = constant(arg.body[n].dtype, 0, shape)
        found = parts[n]
        here = zero if found is None else reshape(found, shape)
        body.append(here if g is None else here + reshape(extra[n], shape))
        first.append(zero if g is None else row(g, loop.last))
    seen += kept
    over = seen + [Given(extra[n], rows(g, loop.read)) for n, g in arriving.items()]
    states = [Given(slopes[n], start) for n, start in zip(moving, first, strict=True)]
    rest = [n for n in range(count, len(stands)) if parts[n] is not None]
    wanted = [part for n in rest if (part := parts[n]) is not None]
    more = worth_saving(body, {slopes[n] for n in moving}, wanted, room)
    saved = [stand_in(None, one.dtype, one.shape) for one in more]
    states += [
        Given(stand, constant(one.dtype, 0, one.shape))
        for stand, one in zip(saved, more, strict=True)
    ]
    found = recur([*body, *more], states, over, shared, arg.steps, batch, not arg.backward)
    histories = dict(zip(moving, found, strict=False))
    seen += [
        Given(stand, rows(history, loop.read))
        for stand, history in zip(saved, found[len(moving) :], strict=True)
    ]
    read = {one: reshape(stand, one.shape) for one, stand in zip(more, saved, strict=True)}
    wanted = substitute(tuple(wanted), read)

    results: list[Node | None] = [None] * len(node.src)
    for n in moving:
        results[n] = row(histories[n], loop.first)
    over = seen + [Given(slopes[n], rows(histories[n], loop.written)) for n in moving]
    examples = {one.stand: reshape(one.source, (arg.steps, *one.stand.shape)) for one in over}
    known = {one.stand: reshape(one.source, one.stand.shape) for one in shared}
    wanted = substitute(wanted, known)
    for n, part in zip(rest, batch(wanted, examples, arg.steps), strict=True):
        each = repeated(wanted[rest.index(n)], arg.steps) if part is None else part
        shape = node.src[n].shape
        is_sequence = n < count + arg.sequences
        results[n] = reshape(each if is_sequence else reduce(each, Op.ADD, (0,)), shape)
    return tuple(results)


def _read_back(
    node: Node, parts: Sequence[Node], room: int
) -> tuple[list[Given], dict[Node, Node]]:
    """What `parts` read of a step of `node`'s loop and need not compute anew.

    With what stands for it in them. What is no state is one of the loop that saves it.
    """
    loop, arg = Loop.of(node), node.arg
    found = worth_saving(arg.body, set(loop.stand_ins[: len(arg.body)]), parts, room)
    histories = dict(zip(arg.body, siblings(node), strict=True))
    more = [one for one in found if one not in histories]
    if more:
        first = [constant(one.dtype, 0, one.shape) for one in more]
        histories |= zip(more, extended(node, more, first)[len(arg.body) :], strict=True)
    given = [
        Given(stand_in(None, one.dtype, one.shape), rows(histories[one], loop.written))
        for one in found
    ]
    return given, {n: reshape(g.stand, n.shape) for n, g in zip(found, given, strict=True)}


def batched(node: Node, parts: Sequence[Node | None], size: int, batch: Batch) -> Node:
    """The loop over `size` examples at once: `parts` are the sources that differ between them."""
    loop, count = Loop.of(node), len(node.arg.body)
    stands, sequences = loop.stand_ins, node.arg.sequences
    last = count + sequences
    examples: dict[Node, Node] = {}
    given: list[Given] = []
    for n, (stand, source, part) in enumerate(zip(stands, node.src, parts, strict=True)):
        if part is None and n >= count:
            given.append(Given(stand, source))
            continue
        wide = repeated(source, size) if part is None else part
        if count <= n < last:
            wide = permute(wide, (1, 0, *range(2, len(wide.shape))))
        shape: Shape = (size, *stand.shape)
        new = stand_in(len(stands) + n, stand.dtype, shape)
        examples[stand] = reshape(new, shape)
        given.append(Given(new, wide))
    pairs = zip(batch(node.arg.body, examples, size), node.arg.body, strict=True)
    body = [repeated(one, size) if many is None else many for many, one in pairs]
    found = recur(
        body, given[:count], given[count:last], given[last:], node.arg.steps, batch,
        node.arg.backward,
    )  # fmt: skip
    history = found[node.arg.number]
    return permute(history, (1, 0, *range(2, len(history.shape))))
