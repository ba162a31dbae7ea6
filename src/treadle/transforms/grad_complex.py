"""Derivatives of complex numbers, by PyTorch's convention.

The gradient of a real loss for z = x + i y is dL/dx + i dL/dy. So what an analytic function passes
on is multiplied by the conjugate of its derivative (conjugate Wirtinger calculus), and parts of a
number get the parts of its gradient.
"""

from __future__ import annotations

from ..ir.builders import constant
from ..ir.node import Node, alu
from ..ir.op import Op
from ..ir.views import operand

__all__ = ["conj", "converted", "from_parts", "imaginary_part", "real_part"]


def conj(node: Node) -> Node:
    """The complex conjugate; a real node itself."""
    if not node.dtype.is_complex:
        return node
    return alu(Op.COMPLEX, alu(Op.REAL, node), alu(Op.NEG, alu(Op.IMAG, node)))


def real_part(node: Node, g: Node) -> tuple[Node | None, ...]:
    """Of REAL."""
    return (alu(Op.COMPLEX, g, constant(g.dtype, 0.0, g.shape)),)


def imaginary_part(node: Node, g: Node) -> tuple[Node | None, ...]:
    """Of IMAG."""
    return (alu(Op.COMPLEX, constant(g.dtype, 0.0, g.shape), g),)


def from_parts(node: Node, g: Node) -> tuple[Node | None, ...]:
    """Of COMPLEX."""
    return alu(Op.REAL, g), alu(Op.IMAG, g)


def converted(node: Node, g: Node) -> tuple[Node | None, ...]:
    """Of CAST: what was real before gets the real part."""
    old = operand(node).dtype
    if not old.is_inexact:
        return (None,)
    real = g.dtype.is_complex and not old.is_complex
    return ((alu(Op.REAL, g) if real else g).cast(old),)
