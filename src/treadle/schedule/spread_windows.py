"""Windows that reach only some places of an axis, added up there alone.

    UNWINDOW of stride 2, dilation 2   ->   UNWINDOW of stride 1, dilation 1, zeros between places

What stride and dilation have in common divides every place that a window reaches. Those places are
summed close together, as windows of what is left of stride and dilation. The others are zeros,
which are put between afterwards: behind all axes' sums, and behind a SHRINK, which leaves padding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..ir.args import WindowArg
from ..ir.builders import cut, padded, reshape
from ..ir.choices import take
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from ..ir.shape import simple_size
from ..ir.views import operand
from ..target import Target

__all__ = ["spread_windows"]


class _Spread(NamedTuple):
    """Every `step`-th of `extent` places of an axis, from place `first` on."""

    axis: int
    step: int
    extent: Any
    first: int = 0

    def of(self, node: Node) -> Node:
        """`node` at these places, zeros at all others."""
        axis, step = self.axis, self.step
        before, count, after = node.shape[:axis], node.shape[axis], node.shape[axis + 1 :]
        apart = padded(reshape(node, (*before, count, 1, *after)), axis + 1, 0, step - 1)
        whole = reshape(apart, (*before, simple_size(count * step), *after))
        return cut(padded(whole, axis, self.first, 0), axis, (0, self.extent))

    def within(self, begin: int, end: int) -> tuple[tuple[int, int], _Spread]:
        """(which places are from `begin` to `end`, the spread of these)."""
        most = (self.extent - self.first + self.step - 1) // self.step
        low = max(0, -((self.first - begin) // self.step))
        high = min(most, -((self.first - end) // self.step))
        first = self.first + low * self.step - begin
        return (low, high), self._replace(first=first, extent=end - begin)


_Made = tuple[Node, tuple[_Spread, ...]]  # sums close together, and where those belong


def spread_windows(outputs: Sequence[Node], target: Target | None) -> list[Node]:
    """`outputs` without an UNWINDOW whose stride and dilation have a factor in common."""
    sink = Node.sink(outputs)
    if not any(n.op is Op.UNWINDOW and _shared(n.arg) > 1 for n in sink.toposort()):
        return list(outputs)
    found: dict[Node, _Made] = {}

    def step(node: Node) -> Node | None:
        made = None
        if node.op is Op.UNWINDOW:
            made = _summed(node, *found.get(operand(node), (operand(node), ())))
        elif node.op is Op.SHRINK and operand(node) in found:
            made = _shrunk(node, *found[operand(node)])
        if made is None:
            return None
        whole, spreads = made
        for spread in spreads:
            whole = spread.of(whole)
        found[whole] = made
        return whole

    return list(rewrite_with(sink, step).src)


def _summed(node: Node, close: Node, spreads: tuple[_Spread, ...]) -> _Made | None:
    """An UNWINDOW of `close`, whose places are spread."""
    arg, shared = node.arg, _shared(node.arg)
    if shared > 1:
        take("spread_windows")
        spreads = (*spreads, _Spread(arg.axis, shared, arg.extent))
        extent = simple_size((arg.extent + (shared - 1)) // shared)
        gap = arg.dilation // shared if arg.size > 1 else 1
        arg = replace(arg, stride=arg.stride // shared, dilation=gap, extent=extent)
    return (Node(Op.UNWINDOW, node.dtype, (close,), arg), spreads) if spreads else None


def _shrunk(node: Node, close: Node, spreads: tuple[_Spread, ...]) -> _Made | None:
    """A SHRINK of `close`, whose places are spread."""
    pieces, left = list(node.arg), list[_Spread]()
    for spread in spreads:
        if not all(isinstance(n, int) for n in (*pieces[spread.axis], spread.extent)):
            return None
        (low, high), moved = spread.within(*pieces[spread.axis])
        if low >= high:
            return None
        pieces[spread.axis] = low, high
        left.append(moved)
    return Node(Op.SHRINK, node.dtype, (close,), tuple(pieces)), tuple(left)


def _shared(arg: WindowArg) -> int:
    """What divides every place that a window reaches, counted from the first one."""
    return math.gcd(arg.stride, arg.dilation) if arg.size > 1 else arg.stride
