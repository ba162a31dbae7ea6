"""How far integers are off that are made of the bits of a float which is itself off.

    key(x), x = 2.5 within 4 units of its last place  uint32, within 4

Such keys are sorted (tensor/keys.py). Each operation here gives, of all numbers between two of
them, what lies between what it gives of the two; of other operations on what is off, nothing is
known. The largest of such numbers is known unless another one is as close to it as both are off.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..dtype import DType
from .op import Op

__all__ = ["distance", "ends", "extreme", "stays_between"]

Array = np.ndarray


def ends(value: Array, error: Array) -> tuple[Array, Array]:
    """What is `error` away from numbers, on both sides, as far as that is known."""
    step = np.where(np.isfinite(error), error, 0)
    if value.dtype.kind != "f":
        step = step.astype(np.uint64).astype(value.dtype)
    return value - step, value + step


def distance(one: Array, other: Array) -> Array:
    """How far integers are apart; other truth is not known how far."""
    if one.dtype.kind == "b":
        return np.where(one == other, 0.0, np.inf)
    return np.where(one > other, one - other, other - one).astype(np.float64)


def stays_between(
    op: Op, dtype: DType, source: DType, arrays: Sequence[Array], moved: Sequence[Array],
    number: int,
) -> Array | bool:  # fmt: skip
    """Whether `op` of what lies between `arrays` and `moved` lies between its results of these two.

    They differ in operand `number`, of elements of `source`.
    """
    value, end = arrays[number], moved[number]
    if op is Op.BITCAST and source.kind == "float":
        return np.sign(value) == np.sign(end)
    if source.kind == "float":
        return False
    if op in (Op.WHERE, Op.CMPLT):
        return True
    low, high = np.minimum(value, end), np.maximum(value, end)
    if op is Op.CAST:
        if dtype.bits >= source.bits:
            return True
        return (high - low) & np.array((1 << dtype.bits) - 1, low.dtype) == 0
    if op not in (Op.XOR, Op.AND, Op.CMPEQ, Op.CMPNE):
        return False
    other = arrays[1 - number]
    if op in (Op.CMPEQ, Op.CMPNE):
        return (other < low) | (other > high)
    if op is Op.XOR:
        return (other == dtype.max) | (other == (dtype.max >> 1) + 1)
    # A mask of low bits, what is above which is the same.
    return ((other & (other + 1)) == 0) & ((low & ~other) == (high & ~other))


def extreme(op: Op, found: Array, terms: Array, error: Array) -> Array:
    """How far `found` may be off, the terms' sum, product or extreme along the first axis."""
    if op not in (Op.MAX, Op.MIN):
        return np.where(error.max(axis=0) > 0, np.inf, 0.0)
    first = np.expand_dims((terms == found).argmax(axis=0), 0)
    own = np.take_along_axis(error, first, 0)
    within = error + own
    rivals = (distance(terms, np.broadcast_to(found, terms.shape)) <= within) & (within > 0)
    np.put_along_axis(rivals, first, False, 0)
    return np.where(rivals.any(axis=0), np.inf, own[0])
