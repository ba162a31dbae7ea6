"""Layouts: which axis of an intermediate result lies innermost in memory.

    conv2d(relu(conv2d(x, v)), w)  ->  what relu gives is stored as (batch, height, width, channels)

A product with windows of an image sums over its channels. Where those lie side by side, a window is
a few contiguous rows, read where they are; where pixels do, each window has to be put together. So
images that such a product reads are stored with channels last, and so is what is read or stored
beside them along the same loop. What the user sees keeps its order, and so does what a product sums
over its pixels, as the gradient to a convolution's weights does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..ir.builders import permute
from ..ir.loops import closed_ranges, free_ranges, has_fixed_size, loop_size
from ..ir.node import Node, changed
from ..ir.op import Op
from ..ir.rules.index import linear_terms
from ..ir.shape import Shape, strides_of
from ..ir.views import Access, Reduce, operands
from .kernel import Kernel
from .plan import STORED, Plan

__all__ = ["store_channels_last", "with_last"]

MIN_CHANNELS = 16  # fewer do not fill a vector
MIN_AXES = 3
FEW_PIXELS = 64


@dataclass(frozen=True, eq=False)
class _Access:
    """Memory of `node` is stored or, perhaps in a product, read.

    `axes` says of loops along which axis they move (None: several), `results` which loops are the
    kernel's own, and `shared` along which loops the other factor of a product moves, too.
    """

    node: Node
    axes: Mapping[Node, int | None]
    results: frozenset[Node]
    is_stored: bool
    is_factor: bool
    shared: frozenset[Node]

    def along(self, axis: int) -> list[Node]:
        """The loops that move along `axis`."""
        return [loop for loop, of in self.axes.items() if of == axis]

    def is_window(self, axis: int) -> bool:
        """Whether some steps of a sum are read around each place along `axis`.

        The weights of a window are those of each place: factors of a place are a batch of products.
        """
        kept, summed = self._kept(axis), set(self.along(axis)) - self.results
        is_few = self._is_joined(axis) and loop_size(*summed) < loop_size(*kept)
        return is_few and self.shared.isdisjoint(kept)

    def is_summed(self, axis: int) -> bool:
        """Whether nothing but a sum moves along `axis`."""
        loops = self.along(axis)
        return len(loops) == 1 and not self._kept(axis)

    def channels(self) -> int | None:
        """The axis of its channels, if a product reads windows of it."""
        axes = range(len(self.node.shape))
        summed = [axis for axis in axes if self.is_summed(axis)]
        if not self.is_factor or len(summed) != 1 or not any(map(self.is_window, axes)):
            return None
        return summed[0] if self.node.shape[summed[0]] >= MIN_CHANNELS else None

    def sums_pixels(self) -> bool:
        """Whether a product sums it over more than its channels and a window."""
        axes = range(len(self.node.shape))
        large = [axis for axis in axes if self._is_joined(axis) and not self.is_window(axis)]
        return self.is_factor and bool(sum(map(self.is_summed, axes)) > 1 or large)

    def _is_joined(self, axis: int) -> bool:
        return len(self.along(axis)) == 2 and len(self._kept(axis)) == 1

    def _kept(self, axis: int) -> frozenset[Node]:
        return self.results.intersection(self.along(axis))


def store_channels_last(
    outputs: Sequence[Node], plan: Plan, kernels: Iterable[Kernel]
) -> list[Node]:
    """`outputs` with those intermediate results of `plan` in another order that are better so."""
    free = {node for node in plan.groups if _is_free(node, plan)}.difference(outputs)
    accesses = [_accesses(kernel, free) for kernel in kernels]
    last = _images(accesses)
    if not last:
        return list(outputs)
    _spread(accesses, last)
    moved = {n: axis for n, axis in last.items() if axis != len(n.shape) - 1}
    return with_last(outputs, moved)


def with_last(outputs: Sequence[Node], last: Mapping[Node, int]) -> list[Node]:
    """`outputs` with some nodes stored, each with an axis of its own innermost."""

    def change(node: Node, now: Node) -> Node:
        return _stored_with_last(now, last[node]) if node in last else now

    return list(changed(outputs, change))


def _is_free(node: Node, plan: Plan) -> bool:
    """Whether a kernel of plain loops stores `node` alone, in whatever order is best."""
    group = plan.groups[node]
    is_alone = node.op not in STORED and not group.kept and group.places.keys() == {node}
    return is_alone and len(node.shape) >= MIN_AXES and all(isinstance(s, int) for s in node.shape)


def _stored_with_last(node: Node, last: int) -> Node:
    """`node`, stored with axis `last` innermost."""
    axes = (*(axis for axis in range(len(node.shape)) if axis != last), last)
    stored = Node(Op.CONTIGUOUS, node.dtype, (permute(node, axes),))
    return permute(stored, tuple(axes.index(axis) for axis in range(len(axes))))


# -- what kernels do with memory ------------------------------------------------------------------


def _accesses(kernel: Kernel, free: set[Node]) -> list[_Access]:
    """The accesses of a kernel to results whose order is free."""
    end = kernel.nest
    results = frozenset(closed_ranges(end))
    nodes = end.toposort()
    sums = [n for n in nodes if n.op is Op.REDUCE and n.arg.op is Op.ADD and not _is_short(n)]
    factors = Node.sink(sums).toposort() if sums else ()
    shared = _shared(sums)
    found = []
    for node in nodes:
        if node.op not in (Op.LOAD, Op.STORE):
            continue
        param, index = Access.of(node)
        memory = kernel.buffers[param.arg.slot] if param.op is Op.PARAM else None
        if memory in free:
            axes = _axes(index, memory.shape)
            is_stored = node.op is Op.STORE
            other = shared.get(node, frozenset())
            found.append(_Access(memory, axes, results, is_stored, node in factors, other))
    return found


def _shared(sums: Sequence[Node]) -> dict[Node, frozenset[Node]]:
    """The loops of what each LOAD in a sum of products is multiplied by."""
    found: dict[Node, frozenset[Node]] = {}
    for reduce in sums:
        value = _unmasked(Reduce.of(reduce).value)
        if value.op is Op.MUL:
            free = free_ranges(value)
            for factor, other in (operands(value), operands(value)[::-1]):
                for load in (n for n in factor.toposort() if n.op is Op.LOAD):
                    found[load] = found.get(load, frozenset()) | free[other]
    return found


def _unmasked(value: Node) -> Node:
    while value.op is Op.WHERE:
        _, value, _ = value.src
    return value


def _is_short(reduce: Node) -> bool:
    """Whether it is no product, but a sum of a few pixels, which is quick in any order."""
    value, loops, _ = Reduce.of(reduce)
    return _unmasked(value).op is not Op.MUL and loop_size(*loops) <= FEW_PIXELS


def _axes(place: Node, shape: Shape) -> dict[Node, int | None]:
    terms, _ = linear_terms(place)
    loops = (r for r in terms if r.op is Op.RANGE and has_fixed_size(r))
    return {loop: _axis(loop_size(loop), abs(terms[loop]), shape) for loop in loops}


def _axis(count: int, step: int, shape: Shape) -> int | None:
    """The axis along which a position moves that grows by `step`, `count` times; None for more."""
    for axis, (size, stride) in enumerate(zip(shape, strides_of(shape), strict=True)):
        if stride <= step < stride * size:
            return axis if step * (count - 1) < stride * size else None
    return None


# -- the choice -----------------------------------------------------------------------------------


def _images(accesses: list[list[_Access]]) -> dict[Node, int]:
    """Images that products read by windows, and those products, with the axis of their channels."""
    fixed = {access.node for found in accesses for access in found if access.sums_pixels()}
    for found in accesses:
        found[:] = (access for access in found if access.node not in fixed)
    last: dict[Node, int] = {}
    for found in accesses:
        for access in found:
            channels = access.channels()
            if channels is not None:
                last.setdefault(access.node, channels)
                last |= _results(found, access)
    return last


def _results(found: list[_Access], image: _Access) -> dict[Node, int]:
    """What a product with `image` stores, with the axis along which that does not move."""
    last = {}
    for access in (a for a in found if a.is_stored):
        own = [axis for loop, axis in access.axes.items() if loop not in image.axes]
        if len(own) == 1 and own[0] is not None and access.node.shape[own[0]] >= MIN_CHANNELS:
            last[access.node] = own[0]
    return last


def _spread(accesses: list[list[_Access]], last: dict[Node, int]) -> None:
    """Add to `last` what kernels read or store beside its nodes, along the same loop."""
    users: dict[Node, list[list[_Access]]] = {}
    for found in accesses:
        for access in found:
            users.setdefault(access.node, []).append(found)
    pending = list(last)
    while pending:
        node = pending.pop()
        for found in users[node]:
            mine = (access for access in found if access.node is node)
            loops = {r for access in mine for r in access.along(last[node]) if r in access.results}
            for access in found:
                axis = next((access.axes[r] for r in loops if r in access.axes), None)
                if axis is not None and access.node not in last:
                    last[access.node] = axis
                    pending.append(access.node)
