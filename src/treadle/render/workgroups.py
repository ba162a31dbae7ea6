"""What renderers of languages for GPUs share: sums with products, and accesses to memory.

Compilers are not left to fuse a sum with a product: `fused` says which one it is. `is_whole` says
which vectors in memory are one access.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..dtype import DType
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import After, Update, behind_broadcast, operands
from ..lower.overflow_analysis import is_multiple

__all__ = [
    "IS_ANY", "WIDEST", "Fused", "added_products", "alignment", "fused", "is_whole", "meets_zeros",
    "most_aligned", "only_updated",
]  # fmt: skip

# How a SUBGROUP combines bools: whether it is true if any is, else if all are.
IS_ANY = {Op.ADD: True, Op.MAX: True, Op.MUL: False, Op.MIN: False}
WIDEST = 16  # bytes that one instruction loads or stores


def meets_zeros(node: Node) -> bool:
    """Whether a MAX or MIN of floats may be of 0.0 and -0.0.

    Of these it is the first, where the instruction takes 0.0 for the larger.
    """
    is_extreme = node.op in (Op.MAX, Op.MIN) and node.dtype.is_float
    return is_extreme and not node.arg and not any(map(_is_no_zero, node.src))


def _is_no_zero(node: Node) -> bool:
    node = behind_broadcast(node)
    return node.op is Op.CONST and node.arg != 0


class Fused(NamedTuple):
    """x * y + z, rounded once; or -(x * y) + z, or x * y - z. Without z it is a register's."""

    x: Node
    y: Node
    z: Node | None
    is_negative: bool = False
    is_less: bool = False


def fused(node: Node) -> Fused | None:
    """The sum or difference `node` (or what an UPDATE adds) with a product in it, as one operation.

    Compilers would choose as well, and of two products in one sum take now the one and now the
    other. So a value would not be the same in two kernels: here it is always the first.
    """
    if node.op is Op.UPDATE:
        update = Update.of(node)
        is_sum = update.op is Op.ADD and _is_product(update.value)
        return Fused(*operands(update.value), None) if is_sum else None
    if node.op not in (Op.ADD, Op.SUB) or not node.dtype.is_float:
        return None
    left, right = node.src
    if _is_product(left):
        return Fused(*operands(left), right, is_less=node.op is Op.SUB)
    if _is_product(right):
        return Fused(*operands(right), left, is_negative=node.op is Op.SUB)
    return None


def _is_product(node: Node) -> bool:
    return node.op is Op.MUL and node.dtype.is_float


def added_products(program: Node) -> frozenset[Node]:
    """Each product of matrices that an UPDATE adds to a register: both are one instruction."""
    updates = (Update.of(n) for n in program.src if n.op is Op.UPDATE)
    added = (update.value for update in updates if update.op is Op.ADD)
    return frozenset(value for value in added if value.op in (Op.MMA, Op.WGMMA))


def only_updated(program: Node) -> frozenset[Node]:
    """What a register holds between two UPDATEs, where nothing else looks at it."""
    read = {s for n in program.src for s in _read_by(n)}
    between = (n for n in program.src if n.op is Op.AFTER and n not in read)
    return frozenset(n for n in between if After.of(n).value.op is Op.REGISTER)


def _read_by(node: Node) -> tuple[Node, ...]:
    """The sources of a node, but for the register that an UPDATE changes."""
    if node.op is not Op.UPDATE:
        return node.src
    update = Update.of(node)
    return (update.value, *update.loops)


def is_whole(index: Node, dtype: DType) -> bool:
    """Whether a vector in memory is one access, if the memory begins at a multiple of its size."""
    size = dtype.count * dtype.scalar.itemsize
    is_one = dtype.count > 1 and size <= WIDEST and size & (size - 1) == 0
    return is_one and is_multiple(index, dtype.count)


def most_aligned(memory: Iterable[Node]) -> int:
    """What the address of shared memory has to be a multiple of that holds these LOCALs."""
    return max(node.arg.alignment for node in memory)


def alignment(index: Node, itemsize: int) -> int:
    """A number of bytes that the place of an element is a multiple of, up to the widest access."""
    size = WIDEST
    while size > itemsize and not is_multiple(index, size // itemsize):
        size //= 2
    return size
