"""Graphs over several devices become one graph for each device, with COPYs where they must talk.

    MULTI(a0, a1; axis 0) + 1          ->  a0 + 1 on the first device, a1 + 1 on the second
    sum over axis 0 of it              ->  two local sums, all-reduced
    (rows of x split) @ (w on both)    ->  two local products: no communication

A MULTI stands for a tensor whose pieces, or equal copies, live on several devices; all other nodes
are about whole tensors, so that shapes, gradients and rules know nothing of devices. `partition`
walks such a graph once and finds for each node how its value is spread, or on which one device it
is: a slice within one piece stays there, and is copied where others need it. What an op cannot do
on pieces is first gathered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard, TypeVar
from weakref import WeakKeyDictionary

from ..errors import DeviceError
from ..ir.args import GatherArg, Mesh, PartArg, ShardArg
from ..ir.builders import cut, expand, reshape, with_size
from ..ir.node import Node, rebuild, toposort
from ..ir.op import ALU, SAME, Op
from ..ir.origin import pass_on
from ..ir.shape import Shape
from ..ir.views import operand, places_of
from . import process_collectives as processes
from .collectives import Piece, all_gather, all_reduce, bounds_of, brought, copy_to, joined, pieces

__all__ = [
    "Spread", "Value", "Whole", "is_over_mesh", "needed_whole", "nodes_of", "partition", "sharded",
    "sharded_as", "spread_of", "spread_over",
]  # fmt: skip

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Whole:
    """A value on one device; on any, where it reads no memory and `device` is None."""

    node: Node
    device: str | None

    def on(self, device: str | None) -> Node:
        """The value on one device."""
        return self.node if self.device in (None, device) else copy_to(self.node, str(device))

    def piece(self, axis: int, piece: Piece) -> Whole:
        """A piece of one axis."""
        return Whole(cut(self.node, axis, piece), self.device)


@dataclass(frozen=True, eq=False)
class Spread:
    """A value over several devices: `parts[i]` on `arg.devices[i]`.

    Of a Mesh there is one part, that of this process. `summand` is what this process has added to
    it, where it is a sum of what all have.
    """

    parts: tuple[Node, ...]
    arg: ShardArg
    summand: Node | None = None

    @property
    def axis(self) -> int | None:
        return self.arg.axis

    def sizes(self) -> list[int]:
        """The sizes of all pieces along the axis."""
        assert self.axis is not None
        if self.arg.sizes is not None:
            return [*self.arg.sizes]
        return [part.shape[self.axis] for part in self.parts]

    def bounds(self) -> list[Piece]:
        """(begin, end) of each part."""
        return self.of_parts(bounds_of(self.sizes()))

    def of_parts(self, everyone: list[T]) -> list[T]:
        """What `everyone` has, of those that `parts` are of."""
        mesh = self.arg.devices
        return [everyone[mesh.rank]] if isinstance(mesh, Mesh) else everyone

    @classmethod
    def same(cls, parts: Sequence[Node], devices: tuple[str, ...]) -> Spread:
        """Equal copies."""
        return cls(tuple(parts), ShardArg(devices, None))

    def node(self) -> Node:
        """The MULTI that stands for it."""
        return Node(Op.MULTI, self.parts[0].dtype, self.parts, self.arg)

    def map(
        self,
        change: Callable[[Node, int], Node],
        axis: int | None,
        sizes: list[int] | None = None,
    ) -> Spread:
        """Every part changed by `change(part, its number)`; `axis` is the split one then.

        Over a mesh its pieces have `sizes`, or those that they have had.
        """
        parts = tuple(change(part, number) for number, part in enumerate(self.parts))
        devices, kept = self.arg.devices, None
        if axis is not None and isinstance(devices, Mesh):
            kept = self.arg.sizes if sizes is None else tuple(sizes)
        return Spread(parts, ShardArg(devices, axis, kept))

    def rebuilt(self, node: Node, axis: int | None, sizes: list[int] | None = None) -> Spread:
        """What the op of `node` gives of every part."""
        return self.map(lambda part, _: rebuild(node, (part,)), axis, sizes)

    def copies(self) -> Spread:
        """The whole value on every device."""
        if self.axis is None:
            return self
        devices = self.arg.devices
        if isinstance(devices, Mesh):
            return Spread.same([processes.moved(self.parts[0], self.arg, None)], devices)
        return Spread.same(all_gather(self.parts, devices, self.axis), devices)

    def on(self, device: str) -> Node:
        """The whole value on one device."""
        homes = self.arg.devices
        if isinstance(homes, Mesh):
            (whole,) = self.copies().parts
            return whole if device == homes[0] else copy_to(whole, device)
        if self.axis is None:
            known = device in homes
            return self.parts[homes.index(device)] if known else copy_to(self.parts[0], device)
        return joined(brought(self.parts, homes, device), self.axis)

    def piece(self, axis: int, piece: Piece) -> Spread:
        """A piece of one axis, of all that is spread along another."""
        whole = self.copies() if self.axis == axis else self
        return whole.map(lambda part, _: cut(part, axis, piece), whole.axis)


Value = Whole | Spread


def sharded(node: Node, devices: tuple[str, ...], axis: int | None) -> Node:
    """`node` spread over `devices`: pieces of `axis`, or copies."""
    if isinstance(devices, Mesh):
        sizes = None
        if axis is not None:
            sizes = tuple(end - begin for begin, end in pieces(node.shape[axis], devices.size))
        return sharded_as(node, ShardArg(devices, axis, sizes))
    if axis is None:
        parts = [node] * len(devices)
    else:
        parts = [cut(node, axis, piece) for piece in pieces(node.shape[axis], len(devices))]
    if any(n.op in (Op.BUFFER, Op.COPY) for n in node.toposort()):  # constants are everywhere
        parts = [copy_to(part, device) for part, device in zip(parts, devices, strict=True)]
    back = spread_of(node, devices).axis if axis is None else None
    return Node(Op.MULTI, node.dtype, tuple(parts), ShardArg(devices, axis, back=back))


def sharded_as(node: Node, arg: ShardArg) -> Node:
    """`node` spread as `arg` says."""
    if not isinstance(arg.devices, Mesh):
        return sharded(node, arg.devices, arg.axis)
    value = partition([node])[node]
    is_there = isinstance(value, Spread) and value.arg.devices == arg.devices
    back = value.arg if isinstance(value, Spread) and is_there else arg.devices[0]
    part = Node(Op.PART, node.dtype, (node,), PartArg(arg, back))
    return Node(Op.MULTI, node.dtype, (part,), arg)


def spread_of(node: Node, devices: tuple[str, ...]) -> ShardArg:
    """How the value of a graph is spread over `devices`: as copies, if it is on one."""
    return spread_over(partition([node])[node], devices).arg


def spread_over(value: Value, devices: tuple[str, ...]) -> Spread:
    """`value` on each of `devices`: as it is spread over them already, else as equal copies."""
    if isinstance(value, Spread) and value.arg.devices == devices:
        return value
    return Spread.same([value.on(device) for device in devices], devices)


def partition(roots: list[Node]) -> dict[Node, Value]:
    """Where the value of each node under `roots` is. Raises DeviceError."""
    found: dict[Node, Value] = {}
    for node in toposort(roots, lambda n: n not in _over_meshes):
        value = _over_meshes.get(node)
        if value is None:
            value = _place(node, [found[s] for s in node.src])
            pass_on(node, nodes_of(value), gradient=False)
            if node.op is Op.PART or is_over_mesh(value):
                _over_meshes[node] = value
        found[node] = value
    return found


# A call of all processes is one call, whoever asks for what it gives, and however often.
_over_meshes: WeakKeyDictionary[Node, Value] = WeakKeyDictionary()


def is_over_mesh(value: Value) -> TypeGuard[Spread]:
    """Whether a value is spread over processes."""
    return isinstance(value, Spread) and isinstance(value.arg.devices, Mesh)


def nodes_of(value: Value) -> tuple[Node, ...]:
    """What this process computes for a value."""
    return value.parts if isinstance(value, Spread) else (value.node,)


@dataclass(frozen=True, eq=False)
class _Watched(Spread):
    """Source `number` of an op, which notes among `whole` that more than its parts is wanted."""

    number: int = 0
    whole: set[int] = field(default_factory=set)

    def copies(self) -> Spread:
        self.whole.add(self.number)
        return super().copies()

    def piece(self, axis: int, piece: Piece) -> Spread:
        self.whole.add(self.number)
        return super().piece(axis, piece)


def needed_whole(node: Node) -> set[int]:
    """The numbers of the sources split over a mesh that an op does not work on part by part."""
    placed, whole = partition([*node.src]), set[int]()
    src = [placed[s] for s in node.src]
    for number, value in enumerate(src):
        if is_over_mesh(value) and value.axis is not None:
            src[number] = _Watched(value.parts, value.arg, value.summand, number, whole)
    if any(isinstance(value, _Watched) for value in src):
        _place(node, src)
    return whole


def _place(node: Node, src: list[Value]) -> Value:
    if node.op is Op.BUFFER:
        return Whole(node, node.arg.device)
    if node.op is Op.COPY:
        return Whole(src[0].on(node.arg), node.arg)
    if node.op is Op.PART:
        return _part(node, src[0])
    if node.op is Op.MULTI:
        homes = node.arg.devices
        parts = tuple(s.on(home) for s, home in zip(src, homes, strict=True))
        return Spread(parts, replace(node.arg, back=None))
    spread = dict.fromkeys(s.arg.devices for s in src if isinstance(s, Spread))
    if not spread:
        return _on_one_device(node, src)
    devices, *others = spread
    if others:
        shapes = ", ".join(str(s.shape) for s in node.src)
        raise DeviceError(
            f"[{node.op.name.lower()}] of operands of shapes {shapes} one is on {devices}, "
            f"another on {others[0]}: spread both over the same devices with .shard()"
        )
    moved = _by_parts(node, src)
    return _everywhere(node, src, devices) if moved is None else moved


def _part(node: Node, value: Value) -> Whole:
    """This process's part of what is the same in all processes, or over the same mesh."""
    to = node.arg.to
    device = to.devices[0]
    if isinstance(value, Spread) and value.arg.devices == to.devices:
        if value.summand is not None and to.axis is not None:
            return Whole(processes.reduce_scatter(value.summand, to), device)
        return Whole(processes.moved(value.parts[0], value.arg, to), device)
    return Whole(processes.moved(value.on(device), ShardArg(to.devices, None), to), device)


def _on_one_device(node: Node, src: list[Value]) -> Whole:
    """The op where its first operand in memory is."""
    homes = [s.device for s in src if isinstance(s, Whole) and s.device is not None]
    home = homes[0] if homes else None
    moved = tuple(s.on(home) for s in src if isinstance(s, Whole))
    return Whole(node if moved == node.src else rebuild(node, moved), home)


def _everywhere(node: Node, src: list[Value], devices: tuple[str, ...]) -> Spread:
    """The op on whole values, on every device, and on what processes add up of its source."""
    columns = [_on_each(value, devices) for value in src]
    parts = tuple(rebuild(node, row) for row in zip(*columns, strict=True))
    added = src[0].summand if isinstance(src[0], Spread) and node.op in _KEEPING_SUMS else None
    summand = None if added is None else rebuild(node, (added,))
    return Spread(parts, ShardArg(devices, None), summand)


_KEEPING_SUMS = SAME | {Op.CONTIGUOUS, Op.PERMUTE, Op.RESHAPE}  # of a sum, the sum of those of each


def _on_each(value: Value, devices: tuple[str, ...]) -> tuple[Node, ...]:
    """The whole value on each device."""
    return spread_over(value, devices).copies().parts


def _alongside(value: Value, lead: Spread) -> tuple[Node, ...]:
    """What each device needs of `value` to go with its part of `lead`, of the same shape."""
    axis, devices = lead.axis, lead.arg.devices
    assert axis is not None
    if isinstance(value, Spread) and value.axis == axis and value.sizes() == lead.sizes():
        return value.parts
    wanted = [value.piece(axis, piece) for piece in lead.bounds()]
    return tuple(piece.on(device) for piece, device in zip(wanted, devices, strict=True))


# -- ops part by part -----------------------------------------------------------------------------


def _by_parts(node: Node, src: list[Value]) -> Value | None:
    """The op on the parts of its sources, one by one; None if it cannot."""
    if node.op in ALU | {Op.SCAN} or (node.op in (Op.GATHER, Op.SCATTER) and node.arg.along):
        return _side_by_side(node, src)
    if node.op is Op.GATHER:
        return _gather(node, src)
    rule, value = _RULES.get(node.op), src[0]
    if rule is None or not isinstance(value, Spread) or value.axis is None:
        return None
    return rule(node, value, value.axis)


def _along_other_axes(node: Node, value: Spread, axis: int) -> Spread | None:
    """What works along some axes or none, of which none may be the split one."""
    if node.op is Op.PAD:
        axes = [at for at, widths in enumerate(node.arg) if widths != (0, 0)]
    elif node.op is Op.FLIP:
        axes = node.arg
    elif node.op in SAME or node.op is Op.CONTIGUOUS:
        axes = ()
    else:
        removed = [len(operand(node).shape) - 1] if node.op is Op.UNWINDOW else []
        axes = [node.arg.axis, *removed]
    return None if axis in axes else value.rebuilt(node, axis)


def _reduce(node: Node, value: Spread, axis: int) -> Spread | None:
    local = value.rebuilt(node, axis)
    if axis not in node.arg.axes:
        return local
    if node.arg.is_place:
        return _place_of_extreme(node, value)
    devices = local.arg.devices
    if isinstance(devices, Mesh):
        total = processes.all_reduce(local.parts[0], devices, node.arg.op)
        summand = local.parts[0] if node.arg.op is Op.ADD else None
        return Spread((total,), ShardArg(devices, None), summand)
    return Spread.same(all_reduce(local.parts, devices, node.arg.op), devices)


def _place_of_extreme(node: Node, value: Spread) -> Spread | None:
    """Where an extreme is along the split axis: in the part of the best of all parts' extremes."""
    axis, sizes, arg = node.arg.axes[0], value.sizes(), GatherArg(node.arg.axes[0], along=True)
    if 0 in sizes:
        return None
    begins, ones = [begin for begin, _ in value.bounds()], [1] * len(sizes)
    local = value.rebuilt(node, axis, ones)
    at = lambda part, number: Node(Op.GATHER, part.dtype, (part, local.parts[number]), arg)
    best = value.map(at, axis, ones).copies()
    places = local.map(lambda part, number: part + begins[number], axis).copies()
    winner = best.rebuilt(node, None)
    chosen = lambda part, number: Node(Op.GATHER, node.dtype, (part, winner.parts[number]), arg)
    return places.map(chosen, None)


def _expand(node: Node, value: Spread, axis: int) -> Spread | None:
    shape = node.arg
    if shape[axis] != operand(node).shape[axis]:  # all on one device
        return None
    return value.map(lambda part, _: expand(part, with_size(shape, axis, part.shape[axis])), axis)


def _permute(node: Node, value: Spread, axis: int) -> Spread:
    return value.rebuilt(node, node.arg.index(axis))


def _reshape(node: Node, value: Spread, axis: int) -> Spread | None:
    moved = _axis_after(operand(node).shape, axis, value.sizes(), node.shape)
    if moved is None:
        return None
    axis, sizes = moved
    mine = value.of_parts([with_size(node.shape, axis, size) for size in sizes])
    return value.map(lambda part, number: reshape(part, mine[number]), axis, sizes)


def _axis_after(
    old: Shape, axis: int, sizes: list[int], new: Shape
) -> tuple[int, list[int]] | None:
    """The axis of `new` that has the split one as its leading factor, and its pieces' sizes."""
    if 0 in new:
        return None
    before, size = math.prod(old[:axis]), old[axis]
    for at, n in enumerate(new):
        if math.prod(new[:at]) != before or n == 1:
            continue
        if size % n == 0:  # split into n, inner
            inner = size // n
            if all(s % inner == 0 for s in sizes):
                return at, [s // inner for s in sizes]
        elif n % size == 0:  # merged with the axes behind it
            return at, [s * (n // size) for s in sizes]
        return None
    return None


def _shrink(node: Node, value: Spread, axis: int) -> Value | None:
    wanted = node.arg[axis]
    if wanted == (0, operand(node).shape[axis]):
        return value.map(lambda part, _: _kept(part, node.arg, axis, (0, part.shape[axis])), axis)
    if not all(isinstance(end, int) for end in wanted) or isinstance(value.arg.devices, Mesh):
        return None
    places = zip(value.parts, value.arg.devices, value.bounds(), strict=True)
    for part, device, (begin, end) in places:
        if begin <= wanted[0] and wanted[1] <= end:  # all of it is on one device
            piece = (wanted[0] - begin, wanted[1] - begin)
            return Whole(_kept(part, node.arg, axis, piece), device)
    return None


def _kept(part: Node, bounds: Shape, axis: int, piece: Piece) -> Node:
    """What SHRINK to `bounds` keeps of a part, given its own piece of the split axis."""
    return Node(Op.SHRINK, part.dtype, (part,), with_size(bounds, axis, piece))


def _gather(node: Node, src: list[Value]) -> Spread | None:
    """Split places give split results; so does a source that is split along another axis."""
    source, where = src
    axis, count = node.arg.axis, len(places_of(node).shape)
    if isinstance(where, Spread) and where.axis is not None:
        bases = _on_each(source, where.arg.devices)
        return where.map(lambda part, i: rebuild(node, (bases[i], part)), axis + where.axis)
    if not isinstance(source, Spread) or source.axis in (None, axis):
        return None
    places = _on_each(where, source.arg.devices)
    at = source.axis if source.axis < axis else source.axis - 1 + count
    return source.map(lambda part, i: rebuild(node, (part, places[i])), at)


def _side_by_side(node: Node, src: list[Value]) -> Spread | None:
    """Elementwise ops, and scans, GATHER and SCATTER along an axis that is not split, by parts."""
    unsplit = (None, None if node.op in ALU else node.arg.axis)
    lead = next((s for s in src if isinstance(s, Spread) and s.axis not in unsplit), None)
    if lead is None:
        return None
    columns = [
        _alongside(value, lead) if source.shape else _on_each(value, lead.arg.devices)
        for value, source in zip(src, node.src, strict=True)
    ]
    return lead.map(lambda _, i: rebuild(node, tuple(parts[i] for parts in columns)), lead.axis)


_RULES: dict[Op, Callable[[Node, Spread, int], Value | None]] = {
    Op.REDUCE: _reduce,
    Op.EXPAND: _expand,
    Op.PERMUTE: _permute,
    Op.RESHAPE: _reshape,
    Op.SHRINK: _shrink,
    **dict.fromkeys(
        SAME | {Op.CONTIGUOUS, Op.PAD, Op.FLIP, Op.WINDOW, Op.UNWINDOW, Op.SORT},
        _along_other_axes,
    ),
}
