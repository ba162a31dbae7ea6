"""Batching: the graph of one example becomes the graph of many, with an axis for them in front.

    batch([x * w], {x: X}, 8)  ->  [X * expand(w)]        X is (8, *x.shape)

Every operation has its counterpart among the operations: axes move up by one, and what is the same
for all examples is repeated. Nodes that no example matters to stay as they are, computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import UserError
from ..ir.builders import repeated
from ..ir.node import Node, toposort
from ..ir.op import ALU, Op
from ..ir.origin import pass_on
from . import recurrence
from .batch_gather import gather, scatter
from .grad_collective import collective_batch
from .updates import as_value

__all__ = ["batch"]

Parts = list["Node | None"]  # the batched sources; None: the same for all examples


def batch(roots: Sequence[Node], examples: Mapping[Node, Node], size: int) -> list[Node | None]:
    """Each of `roots` for `size` examples, (size, *its shape); None where they are all the same.

    `examples` gives nodes below that differ, in the same form. Raises UserError for what cannot be
    computed for many examples.
    """
    found: dict[Node, Node | None] = dict(examples)
    _extend(roots, found, size)
    return [found[root] for root in roots]


def _extend(roots: Sequence[Node], found: dict[Node, Node | None], size: int) -> None:
    for node in toposort(roots, lambda n: n not in found):
        if node in found:
            continue
        parts = [found[source] for source in node.src]
        if all(part is None for part in parts):
            found[node] = None
        elif node.op is Op.AFTER:
            value = as_value(node)
            _extend([value], found, size)
            # Overwritten by what is the same for all, it is still of each example's memory.
            made = found[value]
            found[node] = repeated(value, size) if made is None else made
        else:
            found[node] = made = _batched(node, parts, size)
            pass_on(node, [made])


def _batched(node: Node, parts: Parts, size: int) -> Node:
    if node.op is Op.ASSIGN:  # its AFTER sees that examples differ, and takes it for a value
        return next(part for part in parts if part is not None)
    if node.op in ALU:
        return node.replace(src=tuple(_operand(*pair, size) for pair in _pairs(node, parts)))
    if node.op not in _RULES:
        raise UserError(f"[vmap] {node.op.name.lower()} has no meaning for many examples at once")
    return _RULES[node.op](node, parts, size)


def _pairs(node: Node, parts: Parts) -> zip[tuple[Node, Node | None]]:
    return zip(node.src, parts, strict=True)


def _operand(source: Node, part: Node | None, size: int) -> Node:
    """A constant fits any shape as it is."""
    if part is None:
        return source if source.op is Op.CONST else repeated(source, size)
    return part


def _all(node: Node, parts: Parts, size: int) -> tuple[Node, ...]:
    """The sources of `node`, all with the axis of examples."""
    return tuple(repeated(s, size) if part is None else part for s, part in _pairs(node, parts))


def _moved(arg: Callable[[Any, int], Any]) -> Callable[[Node, Parts, int], Node]:
    """The rule of an operation that `arg` alone tells about its axes."""

    def rule(node: Node, parts: Parts, size: int) -> Node:
        return Node(node.op, node.dtype, _all(node, parts, size), arg(node.arg, size))

    return rule


def _host(node: Node, parts: Parts, size: int) -> Node:
    shapes = tuple((size, *shape) for shape in node.arg.shapes)
    return node.replace(src=_all(node, parts, size), arg=replace(node.arg, shapes=shapes))


def _collective(node: Node, parts: Parts, size: int) -> Node:
    (x,) = _all(node, parts, size)
    return collective_batch(node, x, size)


def _gather(node: Node, parts: Parts, size: int) -> Node:
    return gather(node, parts[0], parts[1], size)


def _scatter(node: Node, parts: Parts, size: int) -> Node:
    base, _, values = _all(node, parts, size)
    return scatter(node, base, parts[1], values, size)


def _multi(node: Node, parts: Parts, size: int) -> Node:
    raise UserError(
        "[vmap] a value of one example is spread over several devices: shard the examples' axis of "
        "what goes into vmap, not what the function computes"
    )


_same = _moved(lambda arg, size: arg)
_sizes = _moved(lambda arg, size: (size, *arg))
_axes = _moved(lambda arg, size: tuple(axis + 1 for axis in arg))
_axis = _moved(lambda arg, size: replace(arg, axis=arg.axis + 1))

_RULES: dict[Op, Callable[[Node, Parts, int], Node]] = {
    Op.RESHAPE: _sizes,
    Op.EXPAND: _sizes,
    Op.PERMUTE: _moved(lambda arg, size: (0, *(axis + 1 for axis in arg))),
    Op.PAD: _moved(lambda arg, size: ((0, 0), *arg)),
    Op.SHRINK: _moved(lambda arg, size: ((0, size), *arg)),
    Op.FLIP: _axes,
    Op.WINDOW: _axis,
    Op.UNWINDOW: _axis,
    Op.REDUCE: _moved(lambda arg, size: replace(arg, axes=tuple(a + 1 for a in arg.axes))),
    Op.SCAN: _axis,
    Op.SORT: _axis,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.CONTIGUOUS: _same,
    Op.CONTIGUOUS_BACKWARD: _same,
    Op.DETACH: _same,
    Op.ALIAS: _same,
    Op.CHECKED: _same,
    Op.COPY: _same,
    Op.HOST: _host,
    Op.COLLECTIVE: _collective,
    Op.RECUR: lambda node, parts, size: recurrence.batched(node, parts, size, batch),
    Op.MULTI: _multi,
    Op.PART: _multi,
}
