"""What both renderers for AMD's GPUs share: lanes that exchange words, offsets, rounded products.

DPP lets an instruction read the word of another lane in its row of 16, by how far lanes are apart.
From 4 on rows are read backwards, in halves or whole: where smaller steps are combined before, that
is the same.
"""

from __future__ import annotations

from ..dtype import dtypes
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import Load, Store, operand
from ..lower.linearize import Phase, param_bytes
from ..target import Target

__all__ = [
    "ALL_ROWS", "DPP", "LANES_OF_OTHER_ROW", "SWAP_16", "factors_of_halves", "has_narrow_offset",
    "is_rounded_product", "masked_indices", "steps_of", "wave_of",
]  # fmt: skip

_QUAD_PERM_1, _QUAD_PERM_2, _ROW_HALF_MIRROR, _ROW_MIRROR = 0xB1, 0x4E, 0x141, 0x140
DPP = {1: _QUAD_PERM_1, 2: _QUAD_PERM_2, 4: _ROW_HALF_MIRROR, 8: _ROW_MIRROR}
ALL_ROWS = 15  # the mask of rows, and of banks, that DPP writes
SWAP_16 = 0x401F  # of ds_swizzle: the lane whose number differs in bit 4
# Of permlanex16: each lane reads that of its own number in the other row. The words have a sign.
LANES_OF_OTHER_ROW = (0x76543210, 0xFEDCBA98 - (1 << 32))
_OFFSETS = 1 << 32


def wave_of(target: Target) -> int:
    """How many lanes run in step."""
    assert target.workgroup is not None
    assert target.workgroup.subgroup is not None
    wave, _ = target.workgroup.subgroup
    return wave


def steps_of(wave: int) -> list[int]:
    """How far apart lanes are that a wave combines: smaller steps first, as DPP wants it."""
    return [1 << bit for bit in range(wave.bit_length() - 1)]


def masked_indices(phase: Phase) -> frozenset[Node]:
    """Where vectors with a mask of their own begin: that may be outside of their memory."""
    accesses = [Load.of(n) for n in phase.code.src if n.op is Op.LOAD]
    accesses += [Store.of(n) for n in phase.code.src if n.op is Op.STORE]
    return frozenset(a.index for a in accesses if a.is_gated and a.gate.dtype.count > 1)


def has_narrow_offset(memory: Node, index: Node, masked: frozenset[Node]) -> bool:
    """Whether an element of an argument is less than 2^32 bytes behind its beginning.

    An offset of 32 bits, and no sign, needs no addition: instructions take it beside the address
    of the memory. All that is accessed in so much memory has one, but what is in `masked`.
    """
    argument = behind_after(memory)
    is_narrow = argument.op is Op.PARAM and param_bytes(argument) <= _OFFSETS
    return is_narrow and index.dtype.bits == 32 and index not in masked


def is_rounded_product(node: Node) -> bool:
    """Whether a node rounds a product of float32 to float16, whose factors were not both halves.

    LLVM up to 22 makes a fused product with the sum +0 of that, and loses the sign of -0. It does
    not where something stands between, or in a product of halves.
    """
    return _rounds_product(node) and not factors_of_halves(node)


def factors_of_halves(node: Node) -> list[Node]:
    """The two halves whose product, of float32, a node rounds to float16; [] if there are none."""
    if not _rounds_product(node):
        return []
    found = [operand(factor) for factor in operand(node).src if factor.op is Op.CAST]
    return found if [factor.dtype for factor in found] == [node.dtype] * 2 else []


def _rounds_product(node: Node) -> bool:
    if node.op is not Op.CAST or node.dtype.scalar is not dtypes.float16:
        return False
    product = operand(node)
    return product.op is Op.MUL and product.dtype.scalar is dtypes.float32
