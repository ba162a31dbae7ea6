"""What a kernel takes by its loops: instructions, and lines that move between caches.

    effort(ast, target)       ->  Effort(phases=1, arithmetic=2.1e6, accesses=7e5, ...)
    seconds(ast, target)      ->  what that takes by the target's prices (target/costs.py)

Nothing is timed and nothing is lowered. A node runs in the loops that it depends on and in those
around them, each copy of an unrolled loop and each vector of lanes once. A line is fetched again
where what was used since, by the loops inside, is more than a cache holds.

The prices are fitted to measurements. They tell which of one kernel's schedules is quicker, and are
no prediction of its time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from ..ir.loops import closed_ranges, free_ranges, loop_size, ranges_of
from ..ir.node import Node, behind_after
from ..ir.op import ALU, TRANSCENDENTAL, Op
from ..ir.rules.index import linear_terms, sum_terms
from ..ir.views import Access, Stage, Store, operand
from ..target import CACHE_LINE, CACHE_SHARE, PAGE, PAGES, Effort, Target
from .nest import SHORT_STRIDE, flat_place

__all__ = ["effort", "loops_around", "seconds"]

FORMULA = 16  # instructions of a function that is computed by a polynomial
SLOW = dict.fromkeys(TRANSCENDENTAL, FORMULA) | {
    Op.FDIV: 4, Op.RECIP: 4, Op.SQRT: 4, Op.IDIV: 8, Op.MOD: 8,
}  # fmt: skip
IN_FLIGHT = 8  # additions that a core has under way: two a cycle, each of four cycles

Loops = frozenset[Node]


def seconds(ast: Node, target: Target) -> float:
    """What a kernel takes, about: only comparisons of schedules mean anything."""
    return target.costs.of(effort(ast, target))


def effort(ast: Node, target: Target) -> Effort:
    """What the steps of a kernel under its schedule are, on all workers together."""
    return _Counted(ast, target).effort()


def loops_around(ast: Node) -> dict[Node, Loops]:
    """The loops in which each loop runs."""
    around: dict[Node, Loops] = {}
    free = free_ranges(ast)
    for node in reversed(ast.toposort()):
        closed = closed_ranges(node)
        if not closed:
            continue
        needed = _needed(node, free) - frozenset(closed)
        outside = needed.union(*(around.get(r, ()) for r in needed))
        for number, r in enumerate(closed):
            around[r] = around.get(r, frozenset()) | outside | frozenset(closed[:number])
    return around


def _needed(node: Node, free: dict[Node, Loops]) -> Loops:
    """The loops that what is looped over depends on: of a STAGE not where it is read."""
    if node.op is not Op.STAGE:
        return free[node]
    filling = Stage.of(node)
    return frozenset[Node]().union(
        *(free[n] for n in (filling.value, filling.gate, *filling.filled))
    )


class _Touch(NamedTuple):
    """An access to elements of `itemsize` of some memory, of `size` bytes, at `index`.

    Its node `runs_in` the loops that it depends on. `steps` are the bytes between neighbouring
    steps of those loops that the index depends on, the least first: 0 where they are not constant.
    What is read at the same `place` but for a constant is much the same.
    """

    place: tuple[Node, Node]
    size: int
    itemsize: int
    index: Node
    runs_in: Loops
    steps: tuple[tuple[int, Node], ...]

    @classmethod
    def at(cls, memory: Node, size: int, itemsize: int, index: Node, runs_in: Loops) -> Self:
        terms, _ = linear_terms(index)
        apart = frozenset[Node]().union(*(ranges_of(t) for t in terms if t.op is not Op.RANGE))
        found = ranges_of(index).intersection((*terms, *apart))
        steps = [(0 if r in apart else abs(terms[r]) * itemsize, r) for r in found]
        steps.sort(key=lambda one: (one[0], one[1].arg.number))
        place = (memory, sum_terms(terms, 0))
        return cls(place, size, itemsize, index, runs_in, tuple(steps))


class _Counted:
    def __init__(self, ast: Node, target: Target) -> None:
        self.target, self.order, self.free = target, ast.toposort(), free_ranges(ast)
        self.around = loops_around(ast)
        self.enclosing: dict[Loops, tuple[Node, ...]] = {}
        self.touches = [touch for node in self.order for touch in self._touched(node)]
        self.chains = [
            tuple(r for r in self._enclosing(touch.runs_in) if not _is_copied(r))
            for touch in self.touches
        ]

    def effort(self) -> Effort:
        arithmetic = accesses = apart = waits = 0.0
        sums = [n for n in self.order if n.op is Op.REDUCE and n.arg.op is Op.ADD]
        # A product is added by the instruction that multiplies.
        fused = {operand(n) for n in sums if self.target.has_fma and operand(n).op is Op.MUL}
        for node in self.order:
            if node.op is Op.REDUCE:
                loops = self.free[operand(node)].union(closed_ranges(node))
                arithmetic += self._vectors(loops, node.dtype.itemsize)
                waiting, spilled = self._accumulators(node)
                waits, accesses = waits + waiting, accesses + spilled
            elif node.op in ALU and node.dtype.kind in ("float", "int", "uint"):
                if node not in fused:
                    times = self._vectors(self.free[node], node.dtype.itemsize)
                    arithmetic += SLOW.get(node.op, 1) * times
        for touch in self.touches:
            vectors, lanes = self._loaded(touch)
            accesses, apart = accesses + vectors, apart + lanes
        in_code = [r for r in self.order if r.op is Op.RANGE and not _is_copied(r)]
        into = lambda size: self._fetched(CACHE_SHARE * size, CACHE_LINE)
        return Effort(
            phases=sum(
                n.op is Op.END or (n.op is Op.STAGE and n.arg.scope == "grid") for n in self.order
            ),
            arithmetic=arithmetic,
            accesses=accesses,
            apart=apart,
            waits=waits,
            steps=sum(self._times(self._enclosing(frozenset({r}))) for r in in_code),
            into_l1=into(self.target.l1),
            into_l2=into(self.target.l2),
            into_l3=into(self.target.l3),
            pages=self._fetched(PAGES * PAGE, PAGE),
        )

    # -- loops ----------------------------------------------------------------------------------

    def _enclosing(self, loops: Loops) -> tuple[Node, ...]:
        """The loops around what depends on `loops`, outermost first; of copies but its own."""
        if loops not in self.enclosing:
            found = loops.union(*(self.around.get(r, ()) for r in loops))
            mine = (r for r in found if r in loops or not _is_copied(r))
            depth = lambda r: (_is_copied(r), len(self.around.get(r, ())), r.arg.number)
            self.enclosing[loops] = tuple(sorted(mine, key=depth))
        return self.enclosing[loops]

    def _times(self, loops: Sequence[Node]) -> float:
        """How often they run together, as if each worker had as many steps of a grid."""
        grid = math.prod(loop_size(r) for r in loops if r.arg.kind == "grid")
        cores = self.target.cores
        return math.prod(loop_size(r) for r in loops) / grid * (-(-grid // cores) * cores)

    def _vectors(self, loops: Loops, itemsize: int) -> float:
        """How many vectors of `itemsize` what depends on `loops` is, in all steps."""
        enclosing = self._enclosing(loops)
        lanes = math.prod(loop_size(r) for r in enclosing if r.arg.kind == "vector")
        vectors = -(-lanes * itemsize // self.target.vector_bytes) if lanes > 1 else 1
        return self._times(enclosing) / lanes * vectors

    # -- reductions -----------------------------------------------------------------------------

    def _accumulators(self, reduce: Node) -> tuple[float, float]:
        """(additions that could run while others are waited for, accumulators in memory)."""
        loops = self.free[operand(reduce)].union(closed_ranges(reduce))
        whole = [r for r in self._enclosing(loops) if not _is_copied(r)]
        if not set(whole).intersection(closed_ranges(reduce)):
            return 0.0, 0.0
        steps = self._times(whole)
        each = lambda loops: self._vectors(loops, reduce.dtype.itemsize) / steps
        count = each(loops)
        # One factor's vectors stay in registers for a step, the other's come one by one.
        held = min(each(self.free[n].union(whole)) for n in operand(reduce).src or (reduce,))
        room = self.target.vector_registers - 1 - held
        return steps * max(0.0, IN_FLIGHT - count), 2 * steps * max(0.0, count - room)

    # -- memory ---------------------------------------------------------------------------------

    def _touched(self, node: Node) -> Iterable[_Touch]:
        if node.op in (Op.LOAD, Op.STORE):
            memory, index = Access.of(node)
            memory = behind_after(memory)
            value = Store.of(node).value if node.op is Op.STORE else node
            itemsize = value.dtype.scalar.itemsize
            size = memory.arg.size if memory.op is Op.PARAM else math.inf
            size = size * itemsize if isinstance(size, int) else 1 << 40
            yield _Touch.at(memory, size, itemsize, index, self.free[node])
        elif node.op is Op.STAGE:
            stage = Stage.of(node)
            itemsize = stage.dtype.scalar.itemsize
            size = math.prod(stage.arg.sizes) * itemsize
            memory, filling = stage.value, _needed(node, self.free)
            for places, loops in ((stage.filled, filling), (stage.read, None)):
                index = flat_place(places, stage.arg.sizes)
                runs_in = ranges_of(index) if loops is None else loops
                yield _Touch.at(memory, size, itemsize, index, runs_in)

    def _loaded(self, touch: _Touch) -> tuple[float, float]:
        """(instructions of vectors, elements that are loaded or stored one by one)."""
        lanes = [step // touch.itemsize for step, r in touch.steps if r.arg.kind == "vector"]
        if any(not 0 < step <= SHORT_STRIDE for step in lanes):
            return 0.0, self._times(self._enclosing(touch.runs_in))
        vectors = self._vectors(touch.runs_in, touch.itemsize)
        return vectors * max([1, *(2 * step - 1 for step in lanes)]), 0.0

    def _fetched(self, cache: float, line: int) -> float:
        """How many lines of so many bytes come into a cache from behind it."""
        total, used = 0.0, dict[Loops, float]()
        for touch, chain in zip(self.touches, self.chains, strict=True):
            outer: tuple[Node, ...] = ()
            for depth in range(len(chain) + 1):
                outer = chain[:depth]
                inside = frozenset(outer)
                if inside not in used:
                    used[inside] = self._used(inside, line)
                if used[inside] <= cache:
                    break
            if not outer:
                continue
            places = ranges_of(touch.index)
            last = max((n for n, r in enumerate(outer) if r in places), default=-1)
            outer = outer[: last + 1]
            lines = self._footprint(touch, frozenset(outer), line) / line
            if lines == 1 and outer:  # steps that lie in one line fetch it once
                outer = outer[:-1]
                lines = self._footprint(touch, frozenset(outer), line) / line
            total += self._times(outer) * lines
        return total

    def _used(self, outer: Loops, line: int) -> float:
        """The bytes of all lines that one step of the loops `outer` uses."""
        used: dict[tuple[Node, Node], float] = {}
        for touch, chain in zip(self.touches, self.chains, strict=True):
            if outer.issubset(chain):
                reached = self._footprint(touch, outer, line)
                used[touch.place] = max(used.get(touch.place, 0.0), reached)
        return sum(used.values())

    def _footprint(self, touch: _Touch, outer: Loops, line: int) -> float:
        """The bytes of the lines that an access reaches in one step of the loops `outer`."""
        extent, count = touch.itemsize, 1
        for step, r in touch.steps:
            if r not in outer:
                size = loop_size(r)
                if step and step <= extent + line:
                    extent += step * (size - 1)
                else:
                    count *= size
        return min(count * -(-extent // line) * line, touch.size)


def _is_copied(loop: Node) -> bool:
    """Whether a loop is no loop in the code: its steps are copies, or lanes."""
    return loop.arg.kind in ("unroll", "vector")
