"""Assignments as values: what memory holds after its effects, without any.

    AFTER(b, ASSIGN(b[1:3], v))  ->  WHERE(mask, v padded to the shape of b, b)

For transforms in which the memory is not one any more: it holds a tangent, or many examples.
"""

from __future__ import annotations

from ..dtype import dtypes
from ..ir.builders import constant, expand
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import After, Assign
from .grad_memory import movements
from .grad_movement import adjoint

__all__ = ["as_value"]

_WHOLE = frozenset((Op.RESHAPE, Op.PERMUTE, Op.FLIP))  # these show every element


def as_value(node: Node) -> Node:
    """The value of an AFTER, computed from its base and from what its effects assign.

    Raises UserError where an effect is on other memory.
    """
    base, effects = After.of(node)
    result = base
    for effect in effects:
        view, value = Assign.of(effect)
        chain = movements(view, base)
        new = adjoint(chain, expand(value, view.shape))
        if not _WHOLE.issuperset(movement.op for movement in chain):
            written = adjoint(chain, constant(dtypes.float32, 1, view.shape)).ne(0.0)
            new = written.where(new, result)
        result = new
    return result
