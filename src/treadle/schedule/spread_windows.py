"""Windows that reach only some places of an axis, added up there alone.

    UNWINDOW of stride 2, dilation 2   ->   UNWINDOW of stride 1, dilation 1, zeros between places

What stride and dilation have in common divides every place that a window reaches. Those places are
summed close together, as windows of what is left of stride and dilation. The others are zeros,
which are put between afterwards, behind all axes' sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

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


def spread_windows(outputs: Sequence[Node], target: Target | None) -> list[Node]:
    """`outputs` without an UNWINDOW whose stride and dilation have a factor in common."""
    sink = Node.sink(outputs)
    if not any(n.op is Op.UNWINDOW and _shared(n.arg) > 1 for n in sink.toposort()):
        return list(outputs)
    found: dict[Node, tuple[Node, tuple[WindowArg, ...]]] = {}  # sums, and the windows to spread

    def step(node: Node) -> Node | None:
        if node.op is not Op.UNWINDOW:
            return None
        close, apart = found.get(operand(node), (operand(node), ()))
        if _shared(node.arg) > 1:
            take("spread_windows")
            apart = (*apart, node.arg)
        if not apart:
            return None
        close = whole = Node(Op.UNWINDOW, node.dtype, (close,), _close(node.arg))
        for arg in apart:
            whole = _spread(whole, arg)
        found[whole] = close, apart
        return whole

    return list(rewrite_with(sink, step).src)


def _shared(arg: WindowArg) -> int:
    """What divides every place that a window reaches, counted from the first one."""
    return math.gcd(arg.stride, arg.dilation) if arg.size > 1 else arg.stride


def _close(arg: WindowArg) -> WindowArg:
    """The window with none but the places that it reaches."""
    shared = _shared(arg)
    gap = arg.dilation // shared if arg.size > 1 else 1
    extent = simple_size((arg.extent + (shared - 1)) // shared)
    return replace(arg, stride=arg.stride // shared, dilation=gap, extent=extent)


def _spread(node: Node, arg: WindowArg) -> Node:
    """`node`, the places that a window reaches, with zeros at all others."""
    axis, step = arg.axis, _shared(arg)
    before, count, after = node.shape[:axis], node.shape[axis], node.shape[axis + 1 :]
    apart = padded(reshape(node, (*before, count, 1, *after)), axis + 1, 0, step - 1)
    whole = reshape(apart, (*before, simple_size(count * step), *after))
    return cut(whole, axis, (0, arg.extent))
