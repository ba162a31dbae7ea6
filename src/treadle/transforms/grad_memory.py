"""Derivatives of what reads and writes memory: gather, scatter, copies, assignments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..dtype import dtypes, sum_acc_dtype
from ..errors import UserError
from ..ir.args import GatherArg, Mesh, PartArg, ScatterArg, ShardArg
from ..ir.builders import constant
from ..ir.node import Node
from ..ir.op import MOVEMENT, Op
from ..ir.views import After, Assign, Scatter, operand, places_of
from .grad_movement import adjoint
from .shapes import computed_anew

__all__ = ["after", "assign", "copy", "gather", "movements", "multi", "part_of", "scatter"]


def gather(node: Node, g: Node) -> tuple[Node | None, ...]:
    """What was read from one place adds up there; half types in float32."""
    x, index = node.src
    wide = sum_acc_dtype(x.dtype)
    zeros = constant(wide, 0, x.shape)
    arg = ScatterArg(node.arg.axis, Op.ADD, node.arg.along)
    return Node(Op.SCATTER, wide, (zeros, index, g.cast(wide)), arg).cast(x.dtype), None


def scatter(node: Node, g: Node) -> tuple[Node | None, ...]:
    """By the op that combines; of several writes to one place each gets the gradient."""
    return _SCATTERS[node.arg.op](node, g)


def _take(node: Node, x: Node) -> Node:
    """`x` at the places that were written."""
    arg = GatherArg(node.arg.axis, node.arg.along)
    return Node(Op.GATHER, x.dtype, (x, places_of(node)), arg)


def _scatter_last(node: Node, g: Node) -> tuple[Node | None, ...]:
    scatter = Scatter.of(node)
    zeros = constant(g.dtype, 0, scatter.values.shape)
    kept = scatter._replace(base=g, values=zeros, arg=replace(node.arg, op=None))
    return kept.node(), None, _take(node, g)


def _scatter_add(node: Node, g: Node) -> tuple[Node | None, ...]:
    return g, None, _take(node, g)


def _scatter_extreme(node: Node, g: Node) -> tuple[Node | None, ...]:
    """All that equal the result share its gradient."""
    base, index, values = node.src
    result = computed_anew(node)
    won, own = values.eq(_take(node, result)), base.eq(result)
    wide = sum_acc_dtype(g.dtype)
    counted = (own.cast(wide), index, won.cast(wide))
    count = Node(Op.SCATTER, wide, counted, replace(node.arg, op=Op.ADD))
    share = (g.cast(wide) / count.maximum(1.0)).cast(g.dtype)
    return share * own.cast(g.dtype), None, _take(node, share) * won.cast(g.dtype)


def _scatter_product(node: Node, g: Node) -> tuple[Node | None, ...]:
    """The product of all others at a place: a quotient, but where one value alone is 0."""
    base, index, values = node.src
    zero = values.eq(0.0)
    counted = replace(node.arg, op=Op.ADD)
    start = constant(g.dtype, 0, base.shape)
    zeros = Node(Op.SCATTER, g.dtype, (start, index, zero.cast(g.dtype)), counted)
    single = zero & _take(node, zeros).eq(1.0)
    without = node.replace(src=(base, index, single.where(1.0, values)))
    quotient = _take(node, g * node) / zero.where(1.0, values)
    of_values = single.where(_take(node, g * without), quotient)
    factors = node.replace(src=(constant(g.dtype, 1, base.shape), index, values))
    return g * factors, None, of_values


_SCATTERS: dict[Op | None, Callable[[Node, Node], tuple[Node | None, ...]]] = {
    None: _scatter_last, Op.ADD: _scatter_add, Op.MAX: _scatter_extreme, Op.MIN: _scatter_extreme,
    Op.MUL: _scatter_product,
}  # fmt: skip


def copy(node: Node, g: Node) -> tuple[Node | None, ...]:
    """The gradient travels back to the device that the value came from, or the first of several.

    One that is spread over those already stays.
    """
    for below in reversed(operand(node).toposort()):
        if below.op is Op.MULTI and isinstance(below.arg.devices, Mesh):
            return (_spread(g, ShardArg(below.arg.devices, None), node.arg),)
        if below.op is Op.MULTI and g.op is Op.MULTI and g.arg.devices == below.arg.devices:
            return (g,)
        if below.op in _HOMES:
            return (Node(Op.COPY, g.dtype, (g,), _HOMES[below.op](below.arg)),)
    return (g,)


_HOMES: dict[Op, Callable[[Any], str]] = {
    Op.BUFFER: lambda ref: ref.device,
    Op.COPY: lambda device: device,
    Op.MULTI: lambda shards: shards.devices[0],
}


def multi(node: Node, g: Node) -> tuple[Node | None, ...]:
    """Each piece gets its part of the gradient; of equal copies, the first one stands for all.

    Through it the gradient of what was in pieces goes back in pieces.
    """
    axis = node.arg.axis
    if isinstance(node.arg.devices, Mesh):
        return (Node(Op.PART, g.dtype, (g,), PartArg(node.arg, node.arg)),)
    if axis is None:
        _, *copies = node.src
        return (_in_pieces(g, node.arg), *(None for _ in copies))
    parts, begin = [], 0
    for source in node.src:
        end = begin + source.shape[axis]
        kept = tuple((begin, end) if at == axis else (0, n) for at, n in enumerate(g.shape))
        parts.append(Node(Op.SHRINK, g.dtype, (g,), kept))
        begin = end
    return tuple(parts)


def _in_pieces(g: Node, arg: ShardArg) -> Node:
    """`g` over the same devices as what they have copies of was before."""
    if arg.back is None:
        return g
    count, size, begin, parts = len(arg.devices), g.shape[arg.back], 0, []
    for number, device in enumerate(arg.devices):
        end = begin + size // count + (number < size % count)
        kept = tuple((begin, end) if at == arg.back else (0, n) for at, n in enumerate(g.shape))
        parts.append(Node(Op.COPY, g.dtype, (Node(Op.SHRINK, g.dtype, (g,), kept),), device))
        begin = end
    return Node(Op.MULTI, g.dtype, tuple(parts), ShardArg(arg.devices, arg.back))


def part_of(node: Node, g: Node) -> tuple[Node]:
    """The gradients of all processes' parts are the parts of the whole's, which goes back."""
    to, back = node.arg.to, node.arg.back
    is_own = g.op is Op.PART and g.arg.to == to
    whole = operand(g) if is_own else Node(Op.MULTI, g.dtype, (g,), to)
    if isinstance(back, str):
        return (Node(Op.COPY, g.dtype, (whole,), back),)
    return (_spread(whole, back, to),)


def _spread(x: Node, to: ShardArg, back: ShardArg | str) -> Node:
    """`x` as it lies over a mesh."""
    return Node(Op.MULTI, x.dtype, (Node(Op.PART, x.dtype, (x,), PartArg(to, back)),), to)


def assign(node: Node, g: Node) -> tuple[Node | None, ...]:
    """`g` is that of the written part: it belongs to the value."""
    return None, g


def after(node: Node, g: Node) -> tuple[Node | None, ...]:
    """What was overwritten gets no gradient, what was written gets that of its part."""
    parts: list[Node | None] = []
    base, effects = After.of(node)
    for effect in reversed(effects):
        chain = movements(Assign.of(effect).target, base)
        part = g
        for movement in reversed(chain):
            part = Node(movement.op, g.dtype, (part,), movement.arg)
        parts.append(part)
        written = adjoint(chain, constant(dtypes.float32, 1, effect.shape))
        g = written.ne(0.0).where(0.0, g)
    return g, *reversed(parts)


def movements(view: Node, base: Node) -> list[Node]:
    """The movements from `base` to `view`, the last one first."""
    chain = []
    while view is not base:
        if view.op not in MOVEMENT:
            raise UserError("[assign] only an assignment to a view of its base has a derivative")
        chain.append(view)
        view = operand(view)
    return chain
