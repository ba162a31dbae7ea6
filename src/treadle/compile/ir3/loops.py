"""What does not change in a loop is computed before it.

    loop                            shl.b %5, %2, 2
      shl.b %5, %2, 2               loop
      ldl.u32 %6, %5, 0, 1    ->      ldl.u32 %6, %5, 0, 1
    while %9                        while %9

Lowering has moved the program's own values; these are addresses, which render/ir3 makes where they
are used.
"""

from __future__ import annotations

from collections import Counter

from .code import Instruction, Kernel, Lane, Register, Value
from .tables import category

__all__ = ["hoist"]


def hoist(kernel: Kernel) -> None:
    """Move arithmetic on values from outside of loops to before them, from inner loops to outer."""
    loops = [
        (block.code[-1].target, number)
        for number, block in enumerate(kernel.blocks)
        if block.code and block.code[-1].target is not None and block.code[-1].target <= number
    ]
    made = Counter(lane for one in kernel for dst in one.dsts for lane in _lanes(dst))
    for first, last in sorted(loops, key=lambda loop: loop[1] - loop[0]):
        _hoist(kernel, first, last, made)


def _hoist(kernel: Kernel, first: int, last: int, made: Counter[Lane]) -> None:
    blocks = kernel.blocks[first : last + 1]
    inside = Counter(
        lane for block in blocks for one in block.code for dst in one.dsts for lane in _lanes(dst)
    )
    before = kernel.blocks[first - 1].code
    for block in blocks:
        stays: list[Instruction] = []
        for one in block.code:
            if _is_constant(one, inside, made):
                before.append(one)
                inside.subtract(lane for dst in one.dsts for lane in _lanes(dst))
            else:
                stays.append(one)
        block.code = stays


def _lanes(operand: object) -> list[Lane]:
    return operand.lanes if isinstance(operand, Value) else []


def _is_constant(one: Instruction, inside: Counter[Lane], made: Counter[Lane]) -> bool:
    """Whether an instruction gives the same in each step, and nothing else gives its result."""
    if category(one.op) not in (1, 2, 3, 4) or not one.dsts:
        return False
    if any(isinstance(x, Register) for x in (*one.dsts, *one.srcs)):
        return False
    if any(inside[lane] > 0 for source in one.srcs for lane in _lanes(source)):
        return False
    return all(made[lane] == 1 for dst in one.dsts for lane in _lanes(dst))
