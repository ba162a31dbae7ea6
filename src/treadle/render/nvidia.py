"""What both renderers for NVIDIA GPUs share: warps, and which vectors memory has."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from ..dtype import DType
from ..ir.loops import closed_ranges, has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import After, Load, Store, Update, behind_broadcast, operand, operands
from ..lower.linearize import Phase
from ..lower.multi_buffering import ASYNCHRONOUS
from ..lower.overflow_analysis import is_multiple
from ..target import MMA, Target
from .wgmma import moved_registers

__all__ = [
    "BUTTERFLY", "BUTTERFLY_OF_QUADS", "COPIED_AT_ONCE", "IS_ANY", "TO_TF32",
    "UNROLLED", "WARP", "WHOLE_WARP", "WIDEST", "Fused", "added_products", "alignment", "copied",
    "fused", "is_since_ampere", "is_whole", "least_workgroups", "long_updates", "meets_zeros",
    "mma_text", "most_aligned", "only_copied", "only_updated",
]  # fmt: skip

WARP = 32
WHOLE_WARP = 0xFFFFFFFF  # the mask of its lanes
# How far apart the lanes are that a SUBGROUP combines, step by step: every lane gets the same.
BUTTERFLY = (16, 8, 4, 2, 1)
BUTTERFLY_OF_QUADS = BUTTERFLY[-2:]
# How a SUBGROUP combines bools: whether it is true if any is, else if all are.
IS_ANY = {Op.ADD: True, Op.MAX: True, Op.MUL: False, Op.MIN: False}
WIDEST = 16  # bytes that one instruction loads or stores
MANY_UPDATES, UNROLLED = 32, 2  # registers in a step, steps
COPIED_AT_ONCE = (4, 8, 16)  # bytes that one cp.async copies
HALF = 1 << 15  # of a multiprocessor's registers
ENOUGH = 128  # registers for the sums of a tile, and what is read for them

TO_TF32 = "cvt.rna.tf32.f32"  # what rounds float32 as tf32 has it


def meets_zeros(node: Node) -> bool:
    """Whether a MAX or MIN of floats may be of 0.0 and -0.0.

    Of these it is the first, where the instruction takes 0.0 for the larger.
    """
    is_extreme = node.op in (Op.MAX, Op.MIN) and node.dtype.is_float
    return is_extreme and not any(map(_is_no_zero, node.src))


def _is_no_zero(node: Node) -> bool:
    node = behind_broadcast(node)
    return node.op is Op.CONST and node.arg != 0


def is_since_ampere(target: Target) -> bool:
    """Whether one instruction gives the larger of two float32, or NaN if either is.

    Another one rounds two of them to halves.
    """
    return int(target.cpu.removeprefix("sm_").rstrip("a")) >= 80


def least_workgroups(phase: Phase) -> int | None:
    """How many workgroups compilers are to leave registers for on a multiprocessor, if they are.

    One, where registers are moved. Two, where long sums are added up in parts: the totals of a
    large tile would take the registers of the second. They wait in memory of the work item.
    """
    if moved_registers(phase) is not None:
        return 1
    in_parts = any(n.op is Op.REGISTER and n.arg.part is Op.ADD for n in phase.program.src)
    return 2 if in_parts and phase.launched * ENOUGH <= HALF else None


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


def mma_text(name: str, sign: str, added: int | None = None) -> str:
    """The instruction for MMAs of a kind of numbers, with its operands' numbers behind `sign`.

    They are the sums, a work item's words of x and of y, and from `added` on, what is added: the
    sums if that is None.
    """
    x, y, out = MMA[name].held
    numbers = itertools.count()
    sums, *words = ([next(numbers) for _ in range(each.count)] for each in (out, x, y))
    both = sums if added is None else range(added, added + len(sums))
    lists = (", ".join(f"{sign}{n}" for n in each) for each in (sums, *words, both))
    return f"{MMA[name].instruction} {', '.join(f'{{{each}}}' for each in lists)};"


def copied(program: Node) -> dict[Node, Node]:
    """The asynchronous STOREs that one instruction does, each with the LOAD that it copies."""
    found = {}
    for node in program.src:
        if node.op is not Op.STORE or node.arg != ASYNCHRONOUS:
            continue
        store = Store.of(node)
        if store.value.op is Op.LOAD:
            load = Load.of(store.value)
            both = (is_whole(access.index, load.dtype) for access in (store, load))
            if _copied_bytes(load) in COPIED_AT_ONCE and (load.dtype.count == 1 or all(both)):
                found[node] = store.value
    return found


def _copied_bytes(load: Load) -> int:
    """How many bytes a copy of what a LOAD gives has; 0 if parts of it are to be something else."""
    other = load.other
    while other.op in (Op.BROADCAST, Op.CAST):
        other = operand(other)
    is_one = not load.is_gated or (load.gate.dtype.count == 1 and other.value == 0)
    return load.dtype.count * load.dtype.scalar.itemsize if is_one else 0


def long_updates(program: Node) -> frozenset[Node]:
    """The innermost loops that add to many registers in each of a number of steps.

    Two of their steps share what they compute beside, and one reads while the other adds. What
    NVRTC makes of them is unrolled by the assembler, which leaves LLVM's as they are; more than two
    take too many registers.
    """
    found, updates, is_innermost = set(), 0, False
    for node in program.src:
        if node.op is Op.RANGE and node.arg.kind != "grid":
            updates, is_innermost = 0, True
        elif node.op is Op.UPDATE:
            updates += Update.of(node).value.op not in (Op.MMA, Op.WGMMA)
        elif node.op is Op.END:
            (loop,) = closed_ranges(node)
            divides = has_fixed_size(loop) and loop_size(loop) % UNROLLED == 0
            if is_innermost and divides and updates >= MANY_UPDATES:
                found.add(loop)
            is_innermost = False
    return frozenset(found)


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


def only_copied(program: Node, copies: dict[Node, Node]) -> frozenset[Node]:
    """The LOADs that nothing but copies uses."""
    used = {s for n in program.src if n not in copies for s in n.src}
    return frozenset(copies.values()) - used


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
