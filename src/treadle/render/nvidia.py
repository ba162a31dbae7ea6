"""What both renderers for NVIDIA GPUs share: warps, and which vectors memory has."""

from __future__ import annotations

from ..dtype import DType
from ..ir.node import Node
from ..ir.op import Op
from ..lower.exact import is_multiple

__all__ = [
    "BUTTERFLY", "IS_ANY", "SHARED_ALIGNMENT", "WARP", "WHOLE_WARP", "WIDEST", "added_products",
    "alignment", "is_whole",
]  # fmt: skip

WARP = 32
WHOLE_WARP = 0xFFFFFFFF  # the mask of its lanes
# How far apart the lanes are that a SUBGROUP combines, step by step: every lane gets the same.
BUTTERFLY = (16, 8, 4, 2, 1)
# How a SUBGROUP combines bools: whether it is true if any is, else if all are.
IS_ANY = {Op.ADD: True, Op.MAX: True, Op.MUL: False, Op.MIN: False}
WIDEST = 16  # bytes that one instruction loads or stores
SHARED_ALIGNMENT = 16


def added_products(program: Node) -> frozenset[Node]:
    """Each MMA that an UPDATE adds to a register: both are one instruction."""
    updates = (n for n in program.src if n.op is Op.UPDATE and n.arg is Op.ADD)
    return frozenset(n.src[1] for n in updates if n.src[1].op is Op.MMA)


def is_whole(index: Node, dtype: DType) -> bool:
    """Whether a vector in memory is one access, if the memory begins at a multiple of its size."""
    size = dtype.count * dtype.scalar.itemsize
    is_one = dtype.count > 1 and size <= WIDEST and size & (size - 1) == 0
    return is_one and is_multiple(index, dtype.count)


def alignment(index: Node, itemsize: int) -> int:
    """A number of bytes that the place of an element is a multiple of, up to the widest access."""
    size = WIDEST
    while size > itemsize and not is_multiple(index, size // itemsize):
        size //= 2
    return size
