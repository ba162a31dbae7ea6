"""Graphs over several devices become one graph for each device, with COPYs where they must talk.

    MULTI(a0, a1; axis 0) + 1          ->  a0 + 1 on the first device, a1 + 1 on the second
    sum over axis 0 of it              ->  two local sums, all-reduced
    (rows of x split) @ (w on both)    ->  two local products: no communication

A MULTI stands for a tensor whose pieces, or equal copies, live on several devices; all other nodes
are about whole tensors, so that shapes, gradients and rules know nothing of devices. `partition`
walks such a graph once and finds for each node how its value is spread. What an op cannot do on
pieces is first gathered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..errors import DeviceError
from ..ir.args import ShardArg
from ..ir.node import Node, rebuild
from ..ir.op import ALU, Op
from .collectives import all_gather, all_reduce, copy_to, cut, joined, pieces, reshaped

__all__ = ["Spread", "axis_of", "has_shards", "partition", "sharded"]


@dataclass(frozen=True, eq=False)
class Spread:
    """A value over several devices: `parts[i]` on `arg.devices[i]`."""

    parts: tuple[Node, ...]
    arg: ShardArg

    @property
    def axis(self) -> int | None:
        return self.arg.axis

    def sizes(self) -> list[int]:
        """The sizes of the pieces along the axis."""
        assert self.axis is not None
        return [part.shape[self.axis] for part in self.parts]

    def bounds(self) -> list[tuple[int, int]]:
        """(begin, end) of each piece."""
        ends, found = 0, []
        for size in self.sizes():
            found.append((ends, ends + size))
            ends += size
        return found

    def node(self) -> Node:
        """The MULTI that stands for it."""
        return Node(Op.MULTI, self.parts[0].dtype, self.parts, self.arg)

    def map(self, change: Any, axis: int | None) -> Spread:
        """Every part changed by `change(part, its number)`; `axis` is the split one then."""
        parts = tuple(change(part, number) for number, part in enumerate(self.parts))
        return Spread(parts, ShardArg(self.arg.devices, axis))

    def copies(self) -> Spread:
        """The whole value on every device."""
        if self.axis is None:
            return self
        whole = all_gather(self.parts, self.arg.devices, self.axis)
        return Spread(tuple(whole), ShardArg(self.arg.devices, None))


Value = Node | Spread


def sharded(node: Node, devices: tuple[str, ...], axis: int | None) -> Node:
    """`node` spread over `devices`: pieces of `axis`, or copies."""
    if axis is None:
        parts = [node] * len(devices)
    else:
        parts = [cut(node, axis, piece) for piece in pieces(node.shape[axis], len(devices))]
    if any(n.op in (Op.BUFFER, Op.COPY) for n in node.toposort()):  # constants are everywhere
        parts = [copy_to(part, device) for part, device in zip(parts, devices, strict=True)]
    return Node(Op.MULTI, node.dtype, tuple(parts), ShardArg(devices, axis))


def axis_of(node: Node) -> int | None:
    """The axis along which the value of a graph is split over devices; None if it is not."""
    value = partition([node])[node]
    return value.axis if isinstance(value, Spread) else None


def has_shards(node: Node) -> bool:
    """Whether a graph holds values that are spread over devices."""
    return any(n.op is Op.MULTI for n in node.toposort())


def partition(roots: list[Node]) -> dict[Node, Value]:
    """How the value of each node under `roots` is spread; a Node where one device has all."""
    found: dict[Node, Value] = {}
    for node in Node.sink(roots).toposort():
        if node.op is not Op.SINK:
            local = _local_piece(node, found)
            sources = [found[s] for s in node.src]
            found[node] = _place(node, sources) if local is None else local
    return found


def _local_piece(node: Node, found: dict[Node, Value]) -> Node | None:
    """The value of COPY(SHRINK(x), device) where the device has that very piece of x already."""
    if node.op is not Op.COPY or node.src[0].op is not Op.SHRINK:
        return None
    piece = node.src[0]
    whole, here = found[piece.src[0]], found[piece]
    if isinstance(whole, Spread) and whole.axis is not None and isinstance(here, Node):
        number = whole.bounds().index(piece.arg[whole.axis])
        return here if whole.arg.devices[number] == node.arg else None
    return None


def _place(node: Node, src: list[Value]) -> Value:
    if node.op is Op.MULTI:
        return Spread(tuple(_whole(s) for s in src), node.arg)
    spread = [s for s in src if isinstance(s, Spread)]
    if not spread:
        plain = tuple(s for s in src if isinstance(s, Node))
        return node if plain == node.src else rebuild(node, plain)
    if node.op is Op.COPY:
        return _on_one_device(spread[0], node.arg)
    devices = spread[0].arg.devices
    for other in spread[1:]:
        if other.arg.devices != devices:
            raise DeviceError(
                f"[shard] one operand is on {devices}, another on {other.arg.devices}: shard both "
                "over the same devices"
            )
    if node.op in ALU:
        return _elementwise(node, src, spread)
    rule = _RULES.get(node.op)
    moved = rule(node, src) if rule is not None else None
    return _everywhere(node, src, devices) if moved is None else moved


def _whole(value: Value) -> Node:
    if isinstance(value, Spread):
        raise DeviceError(
            f"[shard] a part of a sharded tensor is itself on {value.arg.devices}: move it to one "
            "device with .to() first"
        )
    return value


def _on_one_device(value: Spread, device: str) -> Node:
    """The whole value on one device."""
    homes = value.arg.devices
    if value.axis is None:
        if device in homes:
            return value.parts[homes.index(device)]
        return copy_to(value.parts[0], device)
    parts = [
        part if home == device else copy_to(part, device)
        for part, home in zip(value.parts, homes, strict=True)
    ]
    return joined(parts, value.axis)


def _everywhere(node: Node, src: list[Value], devices: tuple[str, ...]) -> Spread:
    """The op on whole values, on every device."""
    whole = [s.copies() if isinstance(s, Spread) else s for s in src]
    parts = []
    for number in range(len(devices)):
        mine = tuple(s.parts[number] if isinstance(s, Spread) else s for s in whole)
        parts.append(rebuild(node, mine))
    return Spread(tuple(parts), ShardArg(devices, None))


def _elementwise(node: Node, src: list[Value], spread: list[Spread]) -> Spread:
    lead = next((s for s in spread if s.axis is not None), spread[0])
    axis, devices = lead.axis, lead.arg.devices
    bounds = lead.bounds() if axis is not None else []
    columns: list[list[Node]] = []
    for value, source in zip(src, node.src, strict=True):
        if isinstance(value, Spread) and value.axis == axis:
            if axis is None or value.sizes() == lead.sizes():
                columns.append(list(value.parts))
                continue
        whole = value.copies() if isinstance(value, Spread) else value
        column = []
        for number in range(len(devices)):
            part = whole.parts[number] if isinstance(whole, Spread) else whole
            if axis is not None and source.shape == node.shape:  # not a scalar
                part = cut(part, axis, bounds[number])
            column.append(part)
        columns.append(column)
    parts = tuple(rebuild(node, tuple(row)) for row in zip(*columns, strict=True))
    return Spread(parts, ShardArg(devices, axis))


# -- ops with one spread source -------------------------------------------------------------------


def _unchanged(node: Node, src: list[Value]) -> Spread | None:
    value = src[0]
    assert isinstance(value, Spread)
    return value.map(lambda part, _: rebuild(node, (part,)), value.axis)


def _reduce(node: Node, src: list[Value]) -> Spread | None:
    value = src[0]
    assert isinstance(value, Spread)
    local = value.map(lambda part, _: Node(node.op, node.dtype, (part,), node.arg), value.axis)
    if value.axis not in node.arg.axes:
        return local
    parts = all_reduce(local.parts, local.arg.devices, node.arg.op)
    return Spread(tuple(parts), ShardArg(local.arg.devices, None))


def _expand(node: Node, src: list[Value]) -> Spread | None:
    value = src[0]
    assert isinstance(value, Spread)
    axis = value.axis

    def grow(part: Node, _: int) -> Node:
        shape = tuple(part.shape[at] if at == axis else n for at, n in enumerate(node.arg))
        return Node(Op.EXPAND, part.dtype, (part,), shape)

    return value.map(grow, axis)


def _permute(node: Node, src: list[Value]) -> Spread | None:
    value = src[0]
    assert isinstance(value, Spread)
    axis = None if value.axis is None else node.arg.index(value.axis)
    return value.map(lambda part, _: rebuild(node, (part,)), axis)


def _reshape(node: Node, src: list[Value]) -> Spread | None:
    value = src[0]
    assert isinstance(value, Spread)
    if value.axis is None:
        return value.map(lambda part, _: reshaped(part, node.shape), None)
    moved = _axis_after(node.src[0].shape, value.axis, value.sizes(), node.shape)
    if moved is None:
        return None
    axis, sizes = moved
    shapes = [tuple(size if at == axis else n for at, n in enumerate(node.shape)) for size in sizes]
    return value.map(lambda part, number: reshaped(part, shapes[number]), axis)


def _axis_after(
    old: tuple[Any, ...], axis: int, sizes: list[int], new: tuple[Any, ...]
) -> tuple[int, list[int]] | None:
    """The axis of `new` that has the split one as its leading factor, and its pieces' sizes."""
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


def _shrink(node: Node, src: list[Value]) -> Value | None:
    value = src[0]
    assert isinstance(value, Spread)
    axis = value.axis
    if axis is None:
        return value.map(lambda part, _: rebuild(node, (part,)), None)
    wanted = node.arg[axis]

    def keep(part: Node, _: int) -> Node:
        arg = tuple(
            (0, part.shape[axis]) if at == axis else kept for at, kept in enumerate(node.arg)
        )
        return Node(Op.SHRINK, part.dtype, (part,), arg)

    if wanted == (0, node.src[0].shape[axis]):
        return value.map(keep, axis)
    if wanted in value.bounds():  # all of it is on one device
        return keep(value.parts[value.bounds().index(wanted)], 0)
    return None


def _pad(node: Node, src: list[Value]) -> Spread | None:
    value = src[0]
    assert isinstance(value, Spread)
    if value.axis is not None and node.arg[value.axis] != (0, 0):
        return None
    return value.map(lambda part, _: rebuild(node, (part,)), value.axis)


def _flip(node: Node, src: list[Value]) -> Spread | None:
    value = src[0]
    assert isinstance(value, Spread)
    if value.axis in node.arg:
        return None
    return value.map(lambda part, _: rebuild(node, (part,)), value.axis)


def _along_other_axis(node: Node, src: list[Value]) -> Spread | None:
    """WINDOW, UNWINDOW and SCAN, which work along one axis."""
    value = src[0]
    assert isinstance(value, Spread)
    removed = len(node.src[0].shape) - 1 if node.op is Op.UNWINDOW else None
    if value.axis is not None and value.axis in (node.arg.axis, removed):
        return None
    return value.map(lambda part, _: rebuild(node, (part,)), value.axis)


def _gather(node: Node, src: list[Value]) -> Spread | None:
    """Split places give split results; so does a source that is split along another axis."""
    source, where = src
    axis, count = node.arg, len(node.src[1].shape)
    if isinstance(where, Spread) and where.axis is not None:
        base = source.copies() if isinstance(source, Spread) else source
        return where.map(
            lambda part, number: rebuild(
                node, (base.parts[number] if isinstance(base, Spread) else base, part)
            ),
            axis + where.axis,
        )
    if not isinstance(source, Spread) or source.axis in (None, axis):
        return None
    at = source.axis if source.axis < axis else source.axis - 1 + count
    return source.map(
        lambda part, number: rebuild(
            node, (part, where.parts[number] if isinstance(where, Spread) else where)
        ),
        at,
    )


_RULES = {
    Op.CONTIGUOUS: _unchanged, Op.DETACH: _unchanged, Op.REDUCE: _reduce, Op.EXPAND: _expand,
    Op.PERMUTE: _permute, Op.RESHAPE: _reshape, Op.SHRINK: _shrink, Op.PAD: _pad, Op.FLIP: _flip,
    Op.WINDOW: _along_other_axis, Op.UNWINDOW: _along_other_axis, Op.SCAN: _along_other_axis,
    Op.GATHER: _gather,
}  # fmt: skip
