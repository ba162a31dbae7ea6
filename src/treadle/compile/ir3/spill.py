"""A value goes to private memory where registers run out, and comes back before each reading.

add.f %3, %1, %2          ->  add.f %3, %1, %2
                              stp.u32 %base, %3, 0, 1
mul.f %4, %3, %3              ldp.u32 %9, %base, 0, 1
                              mul.f %4, %9, %9
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from .code import Block, Instruction, Kernel, Lane, Literal, Value

__all__ = ["spill"]

MOST_PRIVATE = 4092  # bytes that an offset reaches
_WORD = 4


def spill(kernel: Kernel, lives: dict[Lane, int], gap: int, excess: int, kept: set[int]) -> bool:
    """Move values to memory that take a register for longest and are read least.

    They are live at `gap`, where `excess` values are too many; one of them at least. False if there
    is none, or private memory is full.
    """
    uses = Counter(
        operand.number
        for one in kernel
        for operand in (*one.dsts, *one.srcs)
        if isinstance(operand, Value)
    )
    halves = {s.number for one in kernel for s in one.srcs if isinstance(s, Value) and s.half}
    here = [number for (number, _), bits in lives.items() if bits >> gap & 1]
    choices = [n for n in here if not (n in kept or n in kernel.widths or n in halves)]
    choices.sort(key=lambda n: lives[n, 0].bit_count() / uses[n], reverse=True)
    chosen = choices[: max(1, excess)]
    if not chosen or kernel.private + _WORD * len(chosen) > MOST_PRIVATE:
        return False
    base = _base(kernel, kept)
    for number in chosen:
        place = Literal(kernel.private)
        kernel.private += _WORD
        for block in kernel.blocks:
            _rewrite(kernel, block, number, base, place, kept)
    return True


def _base(kernel: Kernel, kept: set[int]) -> Value:
    """The register with 0, where private memory begins."""
    first = kernel.blocks[0].code
    if kernel.private == 0:
        base = Value(kernel.new())
        kept.add(base.number)
        first.insert(0, Instruction("mov.u32u32", [base], [Literal(0)]))
    base = first[0].dsts[0]
    assert isinstance(base, Value)
    return base


def _rewrite(
    kernel: Kernel, block: Block, chosen: int, base: Value, place: Literal, kept: set[int]
) -> None:
    code: list[Instruction] = []
    for one in block.code:
        if any(isinstance(s, Value) and s.number == chosen for s in one.srcs):
            again = Value(kernel.new())
            kept.add(again.number)
            code.append(Instruction("ldp.u32", [again], [base, place, Literal(1)]))
            one.srcs = [
                replace(s, number=again.number) if isinstance(s, Value) and s.number == chosen
                else s for s in one.srcs
            ]  # fmt: skip
        code.append(one)
        (dst,) = one.dsts or (None,)
        if isinstance(dst, Value) and dst.number == chosen:
            made = replace(dst, number=kernel.new())
            kept.add(made.number)
            one.dsts = [made]
            code.append(Instruction("stp.u32", [], [base, made, place, Literal(1)]))
    block.code = code
