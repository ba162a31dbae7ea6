"""What one launch of a kernel has to do: operations, and bytes that it reads and writes.

    work_of(matmul.ast, buffers)  ->  Work(ops=2 * m * k * n, read=4 * (m * k + k * n), ...)

Counted on the kernel as it was scheduled, and as it was optimised: the less counts. What tiles
compute twice or pack is nothing that has to be done, nor is what a mask hides, or what several
results of a kernel need and one of them computes. An element counts once, however often it is read,
and no element counts that no index can reach: of a table, as many rows as are looked up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from ..ir.loops import closed_ranges, free_ranges, has_fixed_size, loop_size
from ..ir.node import Node, behind_after
from ..ir.op import ALU, Op
from ..ir.shape import size_max, size_product
from ..ir.views import Access, bound_of

__all__ = ["Work", "work_left", "work_of"]

# By these choices parts of a kernel are no nodes of its loops any more: they cannot be counted.
_HIDING = frozenset({
    "matrix_units", "warpgroup_units", "bulk_copies", "carried_rows",
})  # fmt: skip
_SAMPLES = 16


class Work(NamedTuple):
    """`ops` are operations of numbers; `lanes` the same as so many of float32, by the room that
    they take in a vector: narrow floats are computed in float32. `read` and `written` are bytes,
    `touched` those of elements that are one or both, `buffers` those of all buffers. `is_fixed`: it
    is the same in every launch; otherwise loops of sizes known at launch count as one step.
    """

    ops: int
    lanes: float
    read: int
    written: int
    touched: int
    buffers: int
    is_fixed: bool = True

    @property
    def moved(self) -> int:
        """Bytes read and written."""
        return self.read + self.written

    def less(self, other: Work) -> Work:
        """The lesser of both, but of the same buffers."""
        ops, lanes = min(self.ops, other.ops), min(self.lanes, other.lanes)
        read, written = min(self.read, other.read), min(self.written, other.written)
        touched = min(self.touched, other.touched)
        return Work(ops, lanes, read, written, touched, self.buffers, self.is_fixed)


def work_of(ast: Node, buffers: Iterable[Node]) -> Work:
    """What a kernel does that was scheduled as `ast`."""
    nbytes = sum(b.dtype.itemsize * size_max(size_product(b.shape)) for b in buffers)
    return _counted(ast, nbytes)


def work_left(scheduled: Work, ast: Node, choices: Iterable[str]) -> Work:
    """What is left of `scheduled` in `ast`, which was made of it by these choices."""
    return scheduled.less(_counted(ast, 0)) if _HIDING.isdisjoint(choices) else scheduled


def _counted(ast: Node, buffers: int) -> Work:
    free, sizes = free_ranges(ast), _Sizes()
    ops, lanes, is_fixed = 0.0, 0.0, True
    reached: tuple[dict[Node, int], dict[Node, int]] = {}, {}
    order = ast.toposort()
    shifts = _shifts_of_rotations(order)
    for node in order:
        if node.op is Op.RANGE:
            is_fixed = is_fixed and sizes.is_fixed(node)
        elif node.op in (Op.LOAD, Op.STORE):
            memory, index = Access.of(node)
            memory = behind_after(memory)
            if memory.op is Op.PARAM:
                seen = reached[node.op is Op.STORE]
                seen[memory] = seen.get(memory, 0) + loop_size(*free[index])
        times = 0.0
        if node in shifts:
            continue
        if node.op in ALU and node.dtype.kind in ("float", "int", "uint"):
            times = sizes.product(free[node])
        elif node.op is Op.REDUCE:
            times = sizes.product(free[node].union(closed_ranges(node)))
        ops += times
        lanes += times * _room(node)
    loaded, stored = ({p: _bytes(p, count) for p, count in seen.items()} for seen in reached)
    touched = sum(max(loaded.get(p, 0), stored.get(p, 0)) for p in {**loaded, **stored})
    read, written = sum(loaded.values()), sum(stored.values())
    return Work(round(ops), lanes, read, written, touched, buffers, is_fixed)


def _shifts_of_rotations(order: Iterable[Node]) -> set[Node]:
    """Both shifts of `x << n | x >> 32 - n`, which processors rotate by one instruction."""
    found: set[Node] = set()
    for node in order:
        if node.op is Op.OR and {s.op for s in node.src} == {Op.SHL, Op.SHR}:
            (one, left), (other, right) = (shift.src for shift in node.src)
            bits = 8 * node.dtype.scalar.itemsize
            if one is other and left.is_const and right.is_const and left.arg + right.arg == bits:
                found.update(node.src)
    return found


def _room(node: Node) -> float:
    """How many float32 a vector could hold in place of a number like `node`."""
    itemsize = node.dtype.scalar.itemsize
    return max(itemsize, 4) / 4 if node.dtype.is_float else itemsize / 4


def _bytes(param: Node, elements: int) -> int:
    """The bytes of so many elements, of all if there are fewer."""
    size = param.arg.size
    return min(elements, size_max(size)) * param.dtype.scalar.itemsize


class _Sizes:
    """How many steps loops take together: on average, where loops around them say how many."""

    def __init__(self) -> None:
        self._known: dict[Node, float] = {}

    def is_fixed(self, loop: Node) -> bool:
        """Whether no number that is known at launch says how long the loop is."""
        return has_fixed_size(loop) or not any(
            node.op is Op.VARIABLE for node in bound_of(loop).toposort()
        )

    def product(self, loops: Iterable[Node]) -> float:
        return math.prod(map(self._of, loops))

    def _of(self, loop: Node) -> float:
        if loop not in self._known:
            self._known[loop] = self._counted(loop)
        return self._known[loop]

    def _counted(self, loop: Node) -> float:
        if not self.is_fixed(loop):
            return 1
        if has_fixed_size(loop):
            return loop_size(loop)
        bound = bound_of(loop)
        around = [node for node in bound.toposort() if node.op is Op.RANGE]
        total = 0
        for sample in range(_SAMPLES):
            places = {r: int(loop_size(r) * (sample + 0.5) / _SAMPLES) for r in around}
            found = bound.substitute({r: Node.index(place) for r, place in places.items()})
            total += max(0, found.arg) if found.is_const else loop_size(loop)
        return total / _SAMPLES
