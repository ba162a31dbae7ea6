"""What both renderers for NVIDIA GPUs share: warps, asynchronous copies, what assemblers need."""

from __future__ import annotations

import itertools

from ..ir.loops import closed_ranges, has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Load, Store, Update, operand
from ..lower.linearize import Phase
from ..lower.multi_buffering import ASYNCHRONOUS
from ..target import MMA, Target
from .wgmma import moved_registers
from .workgroups import is_whole

__all__ = [
    "BUTTERFLY", "COPIED_AT_ONCE", "TO_TF32", "UNROLLED", "WARP",
    "WHOLE_WARP", "copied", "is_since_ampere", "least_workgroups", "long_updates", "mma_text",
    "only_copied",
]  # fmt: skip

WARP = 32
WHOLE_WARP = 0xFFFFFFFF  # the mask of its lanes
# How far apart the lanes are that a SUBGROUP combines, step by step: every lane gets the same.
BUTTERFLY = (16, 8, 4, 2, 1)
MANY_UPDATES, UNROLLED = 32, 2  # registers in a step, steps
COPIED_AT_ONCE = (4, 8, 16)  # bytes that one cp.async copies
HALF = 1 << 15  # of a multiprocessor's registers
ENOUGH = 128  # registers for the sums of a tile, and what is read for them

TO_TF32 = "cvt.rna.tf32.f32"  # what rounds float32 as tf32 has it


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


def only_copied(program: Node, copies: dict[Node, Node]) -> frozenset[Node]:
    """The LOADs that nothing but copies uses."""
    used = {s for n in program.src if n not in copies for s in n.src}
    return frozenset(copies.values()) - used
