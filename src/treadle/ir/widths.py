"""How wide the values of a graph are: bytes of the widest element that is in a register.

    (x.cast(uint32) * 40000 >> 16).cast(uint16)     2 bytes an element, not 4

Fixed-point programs keep the upper half of a product. Processors have an instruction for that with
16-bit factors, so that the product itself is in no register: it does not count. Nor does what goes
along with a number that is compared, such as its place.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..dtype import DType
from .node import Node
from .op import Op
from .views import Store, operand, operands

__all__ = ["widest_itemsize"]

HALF = 16  # bits of the factors of which the upper half of a product is one instruction


def widest_itemsize(nodes: Iterable[Node]) -> int:
    """Bytes of the widest element among the values of `nodes`, all of a nest; at least 1."""
    values = [n for n in nodes if n.dtype.kind not in ("index", "void")]
    within = {n: _upper_half(n) for n in values}
    passing = {part for parts in within.values() for part in parts}
    for node in values:
        if node not in passing and not within[node]:
            passing.difference_update(node.src)
    passing.update(*map(_goes_along, nodes))
    return max((n.dtype.itemsize for n in values if n not in passing), default=1)


def _goes_along(node: Node) -> tuple[Node, ...]:
    """The items behind the first of a tuple, which decides: in more registers, if wider."""
    if node.op is Op.TUPLE:
        return node.src[1:]
    if node.op is Op.ITEM and node.arg:
        return (node,)
    if node.op is Op.STORE and _goes_along(Store.of(node).value):
        return (Store.of(node).memory,)
    return ()


def _upper_half(node: Node) -> tuple[Node, ...]:
    """The wide values of which narrow `node` is the upper half: shift, product and factors."""
    if node.op is not Op.CAST or not _is_narrow(node.dtype) or operand(node).op is not Op.SHR:
        return ()
    shifted = operand(node)
    product, by = operands(shifted)
    if shifted.dtype.bits != 2 * HALF or by.op is not Op.CONST or by.arg != HALF:
        return ()
    if product.op is not Op.MUL or not all(map(_is_factor, product.src)):
        return ()
    return shifted, by, product, *product.src


def _is_factor(node: Node) -> bool:
    if node.op is Op.CONST:
        low = 0 if node.dtype.is_unsigned else -(1 << (HALF - 1))
        return low <= node.arg < low + (1 << HALF)
    if node.op is not Op.CAST:
        return False
    given = operand(node).dtype
    return _is_narrow(given) and given.is_unsigned == node.dtype.is_unsigned


def _is_narrow(dtype: DType) -> bool:
    return dtype.is_int and dtype.bits == HALF
