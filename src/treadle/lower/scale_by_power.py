"""Products with powers of two: one instruction, on targets that have it.

    value * 2**(n >> 1) * 2**(n - (n >> 1))  ->  SCALE(value, n)

The formulas of lower/exponential build both powers from an exponent's bits, six operations; what
comes out is the same, since the first product is exact. Only whole vectors have the instruction.
"""

from __future__ import annotations

from ..ir.choices import take
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from ..ir.views import operand
from .exponential import scaled
from .floats import layout

__all__ = ["scale_by_powers"]


def scale_by_powers(root: Node, vector_bytes: int) -> Node:
    """`root` with `scaled` vectors of `vector_bytes` turned into SCALE."""

    def step(node: Node) -> Node | None:
        is_whole = node.dtype.count > 1 and node.dtype.itemsize == vector_bytes
        return _of(node) if node.op is Op.MUL and node.dtype.is_float and is_whole else None

    return rewrite_with(root, step)


def _of(product: Node) -> Node | None:
    """SCALE, if `product` is what `scaled` makes of a value and of a number with an exponent."""
    first, power = product.src
    tagged = _tagged(power)
    if tagged is None or first.op is not Op.MUL:
        return None
    value, _ = first.src
    if scaled(value, tagged) is not product:
        return None
    form = layout(product)
    exponent = tagged - (form.magic + 2 * form.bias)
    take("scale_by_power")
    return Node(Op.SCALE, product.dtype, (value, exponent))


def _tagged(power: Node) -> Node | None:
    """The float x of BITCAST(SHL(SUB(BITCAST(x), ...), ...))."""
    for op in (Op.BITCAST, Op.SHL, Op.SUB, Op.BITCAST):
        if power.op is not op:
            return None
        power = operand(power)
    return power
