"""Conditions that follow each other and are the same become one.

    if %9                     add.u %5, %4, 1
      stg ...                 if %9
    end                         stg ...
    add.u %5, %4, 1     ->      stg ...
    if %9                     end
      stg ...
    end

What stands between them is arithmetic with results of its own, which may as well come before.
"""

from __future__ import annotations

from collections.abc import Iterable

from .code import Block, Instruction, Kernel, Operand, Value
from .tables import category

__all__ = ["join_conditions"]


def join_conditions(kernel: Kernel) -> None:
    """Join all conditions that can be."""
    number = 0
    while number + 4 < len(kernel.blocks):
        if not _joins(kernel, number):
            number += 1


def _joins(kernel: Kernel, number: int) -> bool:
    """Join the condition that block `number` ends with and the next one, if they are the same."""
    first, inside, between, more = kernel.blocks[number : number + 4]
    is_if = first.after == [number + 1, number + 2] and inside.after == [number + 2]
    is_again = between.after == [number + 3, number + 4] and more.after == [number + 4]
    if not (is_if and is_again and _same_test(first, between)):
        return False
    if not (_can_move(between.code[:-2], inside) and _stays(first.code[-2], inside, between)):
        return False
    first.code[-2:-2] = between.code[:-2]
    inside.code += more.code
    del kernel.blocks[number + 2 : number + 4]
    for block in kernel.blocks:
        block.after = [_moved(n, number) for n in block.after]
        if block.code and block.code[-1].target is not None:
            block.code[-1].target = _moved(block.code[-1].target, number)
    return True


def _moved(block: int, number: int) -> int:
    """What a block is called after two are gone; the first of them is now what came behind."""
    return block if block <= number + 1 else max(number + 2, block - 2)


def _same_test(a: Block, b: Block) -> bool:
    if len(a.code) < 2 or len(b.code) < 2:
        return False
    (test, branch), (other, again) = a.code[-2:], b.code[-2:]
    is_test = test.op == other.op == "cmps.s.ne" and branch.op == again.op == "br"
    return is_test and test.srcs == other.srcs and branch.inverted and again.inverted


def _can_move(code: list[Instruction], over: Block) -> bool:
    """Whether instructions may as well run before a block."""
    made = _values(dst for one in over.code for dst in one.dsts)
    touched = made | _values(source for one in over.code for source in one.srcs)
    return all(
        category(one.op) in (1, 2, 3, 4)
        and not _values(one.srcs) & made
        and not _values(one.dsts) & touched
        for one in code
    )


def _stays(test: Instruction, *blocks: Block) -> bool:
    """Whether what is tested is still the same behind some blocks."""
    changed = _values(dst for block in blocks for one in block.code for dst in one.dsts)
    return not _values(test.srcs) & changed


def _values(operands: Iterable[Operand]) -> set[int]:
    """The virtual registers among operands."""
    return {one.number for one in operands if isinstance(one, Value)}
