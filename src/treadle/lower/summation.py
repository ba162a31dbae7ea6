"""How sums of float32 are made, so that their rounding errors stay as small as other libraries'.

    acc = 0; for r in 1000: acc += f(r)                a sum, in parts
      ->  acc = 0; for o in 8: part = 0; for i in 125: part += f(o*125 + i)
                               acc += part
    for r: acc += f(r); out[r] = acc                   a running total, in float64
      ->  for r: wide += float64(f(r)); out[r] = float32(wide)

Each addition rounds by the size of the sum so far, and equal terms round alike, so that each step
adds to the error. A register that is read on the way has no parts; its RegisterRef says that it
`is_wide`. This is done to programs, last of all: whatever looks for loops before finds those that
the schedule made. What matrix units add up stays whole: their sums take all registers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..dtype import DType, dtypes
from ..ir.accumulators import identity
from ..ir.args import RangeArg, RegisterRef
from ..ir.choices import take
from ..ir.loops import closed_ranges, has_fixed_size, loop_size
from ..ir.node import Node, alu, behind_after, toposort
from ..ir.op import Op
from ..ir.views import After, End, Register, Update, bound_of
from .linearize import Phase

__all__ = ["with_exact_sums"]

# Steps in a row in a tile of products, whose sums leave no registers for a second one of each, and
# how many steps are cut there: 7 x 7 places of three channels are not.
PART, LONG = 128, 160
# Steps in a row elsewhere: up to so many sums have registers for both, and where each sum loads
# numbers of its own, loads take longer than a few more additions.
FEW, SHORT_PART = 8, 32
MORE_PARTS = 4 / 3  # times as many, if they are equal then
PRODUCTS = frozenset((Op.MMA, Op.WGMMA))


@dataclass
class _Parts:
    """A loop that becomes parts of `size` steps, the registers that sum in it, the loops around.

    Those are what the sums run over as well. Parts of one step have no loop of their own.
    """

    size: int
    registers: list[Node]
    around: tuple[Node, ...]


def with_exact_sums(phase: Phase, wide: DType) -> Phase:
    """`phase` with running totals of float32 in `wide`, and other long sums in parts."""
    program = phase.program.src
    if wide is not dtypes.float32 and any(map(_is_running_total, program)):
        take("float64_scan")
        # Copies of a total begin at the same value, and may add the same one.
        program = tuple(dict.fromkeys(_with_wide_totals(program, wide)))
    if cuts := _cuts(program):
        take("partial_sums")
        program = tuple(_Program(program, cuts).nodes())
    return replace(phase, program=phase.program.replace(src=program))


def _is_running_total(node: Node) -> bool:
    return node.op is Op.REGISTER and node.arg.is_wide


def _with_wide_totals(program: Sequence[Node], wide: DType) -> Iterator[Node]:
    """`program` with running totals in `wide`: what is added is widened, what is read narrowed."""
    new: dict[Node, Node] = {}
    for node in program:
        src = tuple(new.get(source, source) for source in node.src)
        held = behind_after(node.src[0]) if node.op in (Op.UPDATE, Op.AFTER) else node
        if not _is_running_total(held):
            made = (node.replace(src=src),)
        elif node is held:
            dtype = wide.vec(node.dtype.count)
            start = src[0].cast(dtype)
            made = (start, node.replace(dtype=dtype, src=(start, *src[1:])))
        elif node.op is Op.UPDATE:
            value = src[1].cast(new[held].dtype)
            made = (value, node.replace(src=(new[held], value, *src[2:])))
        else:
            total = node.replace(dtype=new[held].dtype, src=(new[held], *src[1:]))
            made = (total, total.cast(node.dtype))
        new[node] = made[-1]
        yield from made


def _cuts(program: Sequence[Node]) -> dict[Node, _Parts]:
    """The loops to cut."""
    sums: dict[tuple[Node, ...], dict[Node, Update]] = {}
    for register, update in _sums(program):
        sums.setdefault(update.loops, {})[register] = update
    cuts: dict[Node, _Parts] = {}
    for loops, updates in sums.items():
        registers = list(updates)
        values = [update.value for update in updates.values()]
        below = toposort(values, lambda n: n.op is not Op.LOAD)
        in_tile = len(registers) > max(FEW, sum(n.op is Op.LOAD for n in below))
        found = _place(loops, PART, LONG) if in_tile else _place(loops, SHORT_PART, SHORT_PART)
        if found is not None and found[0] not in cuts:
            loop, size = found
            cuts[loop] = _Parts(size, registers, loops[: loops.index(loop)])
    return cuts


def _sums(program: Sequence[Node]) -> Iterator[tuple[Node, Update]]:
    """The registers that one loop adds to, with its UPDATE; nobody reads them before it has ended.

    Behind the loop may stand its last step, which adds to the register as well.
    """
    updates: dict[Node, list[Update]] = {}
    seen: set[Node] = set()
    for node in program:
        if node.op is Op.UPDATE:
            update = Update.of(node)
            updates.setdefault(behind_after(update.register), []).append(update)
        if node.op is Op.AFTER and not any(e.op is Op.END for e in After.of(node).effects):
            seen.add(behind_after(node))
    for register, found in updates.items():
        is_sum = all(u.op is Op.ADD and u.value.op not in PRODUCTS for u in found)
        first, *behind = found
        is_one = not any(_is_in_loop(update, first) for update in behind)
        if is_sum and is_one and register.dtype.scalar is dtypes.float32 and register not in seen:
            yield register, first


def _is_in_loop(update: Update, other: Update) -> bool:
    """Whether it stands in the innermost loop of the other one, or in one that is its own."""
    return any(r.op is Op.RANGE and r not in other.loops[:-1] for r in update.loops)


def _place(loops: tuple[Node, ...], part: int, most: int) -> tuple[Node, int] | None:
    """The loop to cut, and how many of its steps are a part; None for up to `most` steps.

    Nobody knows how long an open one is: each of its steps is a part, if that is not too short.
    """
    inner = 1
    for loop in reversed(loops):
        if not has_fixed_size(loop):
            return (loop, 1) if 4 * inner >= part else None
        steps = loop_size(loop)
        if inner * steps > most:
            return loop, _even(steps, max(1, part // inner))
        inner *= steps
    return None


def _even(steps: int, part: int) -> int:
    """At most `part` steps, such that all parts are equal if that takes few more of them."""
    count = -(-steps // part)
    equal = (n for n in range(count, int(MORE_PARTS * count) + 1) if steps % n == 0)
    return -(-steps // next(equal, count))


class _Program:
    """A program with its loops cut."""

    def __init__(self, program: Sequence[Node], cuts: dict[Node, _Parts]) -> None:
        self.program, self.cuts = program, cuts
        self.new: dict[Node, Node] = {}
        self.inner: dict[Node, tuple[Node, ...]] = {}  # the loops that became of one
        self.ended: Node | None = None  # the last loop's END so far
        self.parts: dict[Node, Node] = {}  # the register of a part, by that of the whole
        following = lambda op: itertools.count(1 + max(n.arg.number for n in program if n.op is op))
        self.loops, self.registers = following(Op.RANGE), following(Op.REGISTER)

    def nodes(self) -> Iterator[Node]:
        for node in self.program:
            if node.op is Op.RANGE and node in self.cuts:
                yield from self._open(node, self.cuts[node])
            elif node.op is Op.END and not self.cuts.keys().isdisjoint(closed_ranges(node)):
                yield from self._close(node)
            else:
                self.new[node] = self._node(node)
                self.ended = self.new[node] if node.op is Op.END else self.ended
                yield self.new[node]

    def _node(self, node: Node) -> Node:
        if node.op is Op.UPDATE:
            return self._update(Update.of(node))
        if node.op is Op.REGISTER:
            register = Register.of(node)
            start, loops = self._of(register.start), tuple(self._loops(register.loops))
            return register._replace(start=start, loops=loops).node()
        if node.op is Op.WAIT:
            loop, *filled = node.src
            (*_, step) = self._loops((loop,))
            return node.replace(src=(step, *map(self._of, filled)))
        src = tuple(self._of(s) for s in node.src)
        return node if src == node.src else node.replace(src=src)

    def _update(self, update: Update) -> Node:
        value, loops = self._of(update.value), tuple(self._loops(update.loops))
        part = self.parts.get(behind_after(update.register))
        if part is None or self.cuts.keys().isdisjoint(update.loops):
            return Update(self._of(update.register), value, loops, update.op).node()
        around = Register.of(part).loops
        inside = tuple(r for r in loops if r not in around)
        return Update(part, value, inside, update.op).node()

    def _of(self, node: Node) -> Node:
        return self.new.get(node, node)

    def _loops(self, loops: Sequence[Node]) -> Iterator[Node]:
        for loop in loops:
            yield from self.inner.get(loop, (self._of(loop),))

    def _open(self, loop: Node, cut: _Parts) -> Iterator[Node]:
        if cut.size == 1:
            outer = loop.replace(src=(self._of(bound_of(loop)),))
            yield from self._parts(outer, cut)
            self.inner[loop], self.new[loop] = (outer,), outer
            return
        steps, size = loop_size(loop), loop.like(cut.size)
        count = loop.like(-(-steps // cut.size))
        outer = self._range(count, loop)
        yield from self._parts(outer, cut)
        first = alu(Op.MUL, outer, size)
        if first is not outer:
            yield first
        if steps % cut.size:  # the last part is shorter
            rest = alu(Op.SUB, bound_of(loop), first)
            size = alu(Op.MIN, rest, size)
            yield from (rest, size)
        inner = self._range(size, loop)
        place = alu(Op.ADD, first, inner)
        self.inner[loop], self.new[loop] = (outer, inner), place
        yield from (inner, place)

    def _parts(self, outer: Node, cut: _Parts) -> Iterator[Node]:
        yield outer
        for register in cut.registers:
            yield self._part(register, (*self._loops(cut.around), outer))

    def _range(self, size: Node, old: Node) -> Node:
        return Node(Op.RANGE, old.dtype, (size,), RangeArg(next(self.loops), old.arg.kind))

    def _part(self, register: Node, loops: tuple[Node, ...]) -> Node:
        """The register of a part of `register`'s sum, new in each step of further loops.

        A part begins at 0, whatever the whole begins at: another sum's result, perhaps.
        """
        around = Register.of(self._of(register)).loops
        ref = RegisterRef(next(self.registers), part=Op.ADD)
        start = identity(Op.ADD, register.dtype)
        made = Register(start, (*around, *loops), ref, register.dtype).node()
        self.parts[register] = made
        return made

    def _close(self, end: Node) -> Iterator[Node]:
        (loop,) = closed_ranges(end)
        cut, (outer, *inner) = self.cuts[loop], self.inner[loop]
        if inner:
            self.ended = End((), tuple(inner)).node()
            yield self.ended
        assert self.ended is not None  # what the sums run over inside of parts of one step
        for register in cut.registers:
            part = Node(Op.AFTER, register.dtype, (self.parts[register], self.ended))
            loops = (*self._loops(cut.around), outer)
            yield part
            yield Update(self._of(register), part, loops, Op.ADD).node()
        self.new[end] = End((), (outer,)).node()
        yield self.new[end]
