"""Accesses to neighbouring words become one.

    ldl.u32 %5, %2, 8, 1             vector %9 2
    ldl.u32 %6, %2, 12, 1     ->     ldl.u32 %9:2, %2, 8, 2

and what read %5 reads %9.0. Loads move up to the first of them, unless a store may come between;
stores move down to the last of them, unless another access may.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from .code import Block, Instruction, Kernel, Literal, Operand, Value
from .operands import register_sources
from .tables import category

__all__ = ["join_accesses"]

MOST = 4  # words of one access
_WORD = 4
_OF_WORDS = ("u32",)


def join_accesses(kernel: Kernel) -> None:
    """Join all loads and stores of words that can be."""
    defined = Counter(dst.number for one in kernel for dst in one.dsts if isinstance(dst, Value))
    joiner = _Joiner(kernel, defined)
    for block in kernel.blocks:
        joiner.loads(block)
        joiner.stores(block)
    for one in kernel:
        one.srcs = [joiner.renamed(source) for source in one.srcs]


class _Joiner:
    def __init__(self, kernel: Kernel, defined: Counter[int]) -> None:
        self.kernel, self.defined = kernel, defined
        self.names: dict[int, Value] = {}

    def renamed(self, source: Operand) -> Operand:
        """What a value is called now."""
        if not isinstance(source, Value) or source.number not in self.names:
            return source
        return replace(self.names[source.number], neg=source.neg, abs=source.abs)

    def loads(self, block: Block) -> None:
        """Join the loads of a block."""
        runs: list[list[int]] = []
        open_: dict[object, list[int]] = {}
        for number, one in enumerate(block.code):
            if category(one.op) == 7 or _is_store(one):
                runs += open_.values()
                open_ = {}
            elif self._is_load(one):
                open_.setdefault(_key(one), []).append(number)
        self._join(block, [*runs, *open_.values()], self._one_load, first=True)

    def stores(self, block: Block) -> None:
        """Join the stores of a block."""
        runs: list[list[int]] = []
        run: list[int] = []
        for number, one in enumerate(block.code):
            if category(one.op) not in (6, 7):
                continue
            joins = self._is_word_store(one) and (not run or _key(block.code[run[0]]) == _key(one))
            if not joins:
                runs.append(run)
                run = []
            if self._is_word_store(one):
                run.append(number)
        self._join(block, [*runs, run], self._one_store, first=False)

    def _is_load(self, one: Instruction) -> bool:
        (dst,) = one.dsts or (None,)
        is_load = one.op.startswith(("ldg", "ldl")) and one.op.endswith(_OF_WORDS)
        return (
            is_load
            and isinstance(dst, Value)
            and dst.count == 1
            and dst.number not in self.kernel.widths
            and self.defined[dst.number] == 1
            and self._is_fixed(one)
        )

    def _is_word_store(self, one: Instruction) -> bool:
        value = one.srcs[1] if _is_store(one) else None
        is_single = not isinstance(value, Value) or value.count == 1
        return _is_store(one) and one.op.endswith(_OF_WORDS) and is_single and self._is_fixed(one)

    def _is_fixed(self, one: Instruction) -> bool:
        """Whether its address is of values that never change."""
        widths = self.kernel.widths
        return all(
            not isinstance(source, Value)
            or self.defined[source.number] <= widths.get(source.number, 1)
            for source in _address(one)
        )

    def _join(
        self,
        block: Block,
        runs: list[list[int]],
        make: Callable[[list[Instruction]], list[Instruction]],
        first: bool,
    ) -> None:
        """Replace each group of neighbours by what `make` gives, at the first or last of them."""
        new: dict[int, list[Instruction]] = {}
        for run in runs:
            for group in _neighbours(block.code, run):
                if not first and _changes(block.code, group):
                    continue
                new |= {number: [] for number in group}
                place = min(group) if first else max(group)
                new[place] = make([block.code[n] for n in group])
        block.code = [x for n, one in enumerate(block.code) for x in new.get(n, [one])]

    def _one_load(self, group: list[Instruction]) -> list[Instruction]:
        vector = self.kernel.new()
        self.kernel.widths[vector] = len(group)
        for lane, one in enumerate(group):
            (dst,) = one.dsts
            assert isinstance(dst, Value)
            self.names[dst.number] = Value(vector, lane)
        lowest = group[0]
        srcs = [*lowest.srcs[:-1], Literal(len(group))]
        return [Instruction(lowest.op, [Value(vector, 0, len(group))], srcs)]

    def _one_store(self, group: list[Instruction]) -> list[Instruction]:
        vector = self.kernel.new()
        self.kernel.widths[vector] = len(group)
        copies = [
            Instruction("mov.u32u32", [Value(vector, lane)], [one.srcs[1]])
            for lane, one in enumerate(group)
        ]
        lowest = group[0]
        base, _, *rest = lowest.srcs
        srcs = [base, Value(vector, 0, len(group)), *rest[:-1], Literal(len(group))]
        return [*copies, Instruction(lowest.op, [], srcs)]


def _changes(code: list[Instruction], group: list[int]) -> bool:
    """Whether what some stores are of has another value by the time of the last one."""
    last = max(group)
    return any(
        isinstance(dst, Value) and isinstance(value, Value) and dst.number == value.number
        for number in group
        for value in (code[number].srcs[1],)
        for one in code[number:last]
        for dst in one.dsts
    )


def _is_store(one: Instruction) -> bool:
    return one.op.startswith("st")


def _address(one: Instruction) -> list[Operand]:
    """The registers that an access finds its memory by."""
    base, *others = one.srcs[: register_sources(one)]
    return [base, *(others[1:] if _is_store(one) else others)]


def _offset(one: Instruction) -> int:
    """Words or bytes beside the address."""
    offset = one.srcs[-2]
    assert isinstance(offset, Literal)
    return offset.signed


def _key(one: Instruction) -> object:
    """Accesses with one key differ in nothing but the offset."""
    return one.op, tuple(_address(one)), tuple(one.srcs[register_sources(one) : -2])


def _neighbours(code: list[Instruction], run: list[int]) -> list[list[int]]:
    """The groups of a run that follow each other in memory, each from the lowest on."""
    if not run:
        return []
    step = 1 if ".a." in code[run[0]].op else _WORD
    groups: list[list[int]] = []
    for number in sorted(run, key=lambda n: _offset(code[n])):
        last = groups[-1] if groups else []
        follows = last and _offset(code[number]) == _offset(code[last[-1]]) + step
        if follows and len(last) < MOST:
            last.append(number)
        else:
            groups.append([number])
    return [group for group in groups if len(group) > 1]
