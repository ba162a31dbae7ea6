"""Rounding as an operation, for targets that reassociate floats.

    (x + magic) - magic           ->  ROUND(x)             magic = 1.5 * 2**23 + n: adding it rounds
    BITCAST int32 of (x + magic)  ->  int32(ROUND(x)) + bits of magic

The formulas of lower/math round by adding a number so large that no fraction is left. A compiler
that takes floats for real numbers, as those behind WGSL may, would take that out.
"""

from __future__ import annotations

import struct

from ..dtype import dtypes
from ..ir.choices import take
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from ..ir.views import behind_broadcast, operand

__all__ = ["round_explicitly"]

_SMALLEST, _LARGEST = 1.5 * 2.0**23, 1.75 * 2.0**23


def round_explicitly(root: Node) -> Node:
    """`root` with float32 rounding by addition turned into ROUND."""

    def step(node: Node) -> Node | None:
        if node.op in (Op.SUB, Op.BITCAST) and operand(node).dtype.scalar is dtypes.float32:
            return _rounded(node)
        return None

    return rewrite_with(root, step)


def _rounded(node: Node) -> Node | None:
    total, *subtracted = node.src
    if total.op is not Op.ADD:
        return None
    value, added = total.src
    magic = _magic(added)
    if magic is None:
        return None
    take("explicit_rounding")
    whole = value.alu(Op.ROUND)
    if subtracted:
        return whole if all(_magic(n) == magic for n in subtracted) else None
    if node.dtype.scalar is not dtypes.int32:
        return None
    (bits,) = struct.unpack("<i", struct.pack("<f", magic))
    return whole.cast(node.dtype) + bits


def _magic(node: Node) -> float | None:
    node = behind_broadcast(node)
    is_one = node.op is Op.CONST and _SMALLEST <= node.arg < _LARGEST
    return node.arg if is_one else None
