"""Forward-mode differentiation: a graph becomes the graph of its tangents.

    jvp([x * y], {x: dx})  ->  [dx * y]

No formula is written here: all are those of `grad`. What is linear applies itself to the tangent.
Of an elementwise operation the rule that says what arrives at a source for what arrives at the
result says as well what leaves the result for what leaves that source. Any other rule, which is
linear in what arrives, is transposed: it is differentiated with respect to that. The rules pass on
the conjugates of complex derivatives (see grad_complex), so they get and give conjugates here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..ir.builders import constant
from ..ir.node import Node, rebuild, toposort
from ..ir.op import ALU, MOVEMENT, Op
from ..ir.origin import pass_on
from .grad import derivative, gradient
from .grad_collective import again
from .grad_complex import conj
from .shapes import named
from .updates import as_value

__all__ = ["jvp"]

_LINEAR = MOVEMENT | {
    Op.UNWINDOW, Op.CAST, Op.WHERE, Op.GATHER, Op.CONTIGUOUS, Op.CONTIGUOUS_BACKWARD, Op.ALIAS,
    Op.COPY, Op.MULTI, Op.PART, Op.REAL, Op.IMAG, Op.COMPLEX,
}  # fmt: skip
_COMBINING = frozenset((Op.REDUCE, Op.SCAN, Op.SCATTER))
_FLAT = frozenset((Op.DETACH, Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND))


def jvp(roots: Sequence[Node], tangents: Mapping[Node, Node]) -> list[Node | None]:
    """The tangent of each of `roots`, given those of nodes that they are computed from.

    A tangent has the shape and dtype of its node; None stands for 0 everywhere. Raises UserError
    for an op without derivative.
    """
    found: dict[Node, Node | None] = dict(tangents)
    _extend(roots, found)
    return [found[root] for root in roots]


def _extend(roots: Sequence[Node], found: dict[Node, Node | None]) -> None:
    for node in toposort(roots, lambda n: n not in found):
        if node in found:
            continue
        moving = [found[source] for source in node.src]
        if node.op is Op.AFTER and _known(moving):
            value = as_value(node)
            _extend([value], found)
            found[node] = found[value]
        else:
            found[node] = made = _tangent(node, moving)
            pass_on(node, [made])


def _tangent(node: Node, moving: list[Node | None]) -> Node | None:
    if not node.dtype.is_inexact or node.op in _FLAT or not _known(moving):
        return None
    if node.op is Op.ASSIGN:  # its AFTER sees that something moves, and takes it for a value
        return _known(moving)[0]
    if node.op is Op.COLLECTIVE and node.arg.op in (Op.ADD, None):
        (moved,) = _known(moving)
        return again(node, moved)
    if _is_linear(node):
        return _applied(node, moving)
    rule = _along_elements if node.op in ALU else _transposed
    parts = _known(rule(node, at, part) for at, part in enumerate(moving) if part is not None)
    return sum(parts[1:], parts[0]) if parts else None


def _is_linear(node: Node) -> bool:
    """Whether all of its operands that move do so at once; a factor of a SCAN multiplies others."""
    if node.op not in _COMBINING:
        return node.op in _LINEAR
    return node.arg.op in (Op.ADD, None) and not (node.op is Op.SCAN and len(node.src) > 1)


def _known(parts: Iterable[Node | None]) -> list[Node]:
    return [part for part in parts if part is not None]


def _applied(node: Node, moving: list[Node | None]) -> Node:
    """A linear operation on tangents; conditions and places stay."""
    pairs = zip(node.src, moving, strict=True)
    return rebuild(node, tuple(_still(s) if part is None else part for s, part in pairs))


def _still(source: Node) -> Node:
    return constant(source.dtype, 0, source.shape) if source.dtype.is_inexact else source


def _along_elements(node: Node, at: int, moving: Node) -> Node | None:
    """Of an elementwise operation: its derivative is the same number in both directions."""
    part = derivative(node, conj(moving))[at]
    return None if part is None else conj(part)


def _transposed(node: Node, at: int, moving: Node) -> Node | None:
    """The rule's linear map from what arrives at `node` to its source, the other way round."""
    arriving = named(constant(node.dtype, 0, node.shape))
    part = derivative(node, arriving)[at]
    return None if part is None else gradient(part, [arriving], moving)[0]
