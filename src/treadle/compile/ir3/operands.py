"""Each operand gets a form that its instruction can hold; copies and what nobody reads go.

    add.u %2, %1, 0x12345         ->  add.u %2, %1, c4.x   and 0x12345 among the literals
    rcp %2, 0x40400000            ->  mov.u32u32 %3, 0x40400000; rcp %2, %3

Literals are words of the constants behind a kernel's parameters, each once. A few numbers are part
of the instruction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from treadle.errors import InternalError

from .code import PREDICATE, Block, Constant, Instruction, Kernel, Literal, Operand, Register, Value
from .tables import FLOATS, category

__all__ = ["place_operands", "propagate_copies", "register_sources", "remove_dead"]

MOST_CONSTANTS = 4 * 256  # words of them that a dispatch may have on every chip
_SIGN = 1 << 31
_SMALL = 511
_OF_HALVES = ("u16", "u8")
_COPIES = ("mov.u32u32", "mov.u16u16")


def register_sources(one: Instruction) -> int:
    """How many of the sources are registers or values; behind those of memory come numbers."""
    if category(one.op) == 5:
        return 1
    if category(one.op) != 6:
        return len(one.srcs)
    return 1 + one.op.split(".")[1].startswith("a") + one.op.startswith("st")


def propagate_copies(kernel: Kernel) -> None:
    """What reads a copy that never changes reads what was copied; tests set p0.x themselves."""
    defined = Counter(lane for one in kernel for dst in one.dsts for lane in _lanes(dst))
    known: dict[int, Operand] = {}
    for one in kernel:
        if one.op in _COPIES and _is_constant(one, defined) and isinstance(one.dsts[0], Value):
            known[one.dsts[0].number] = _resolved(one.srcs[0], known)
    for one in kernel:
        one.srcs = [_resolved(source, known) for source in one.srcs]
    for block in kernel.blocks:
        _test_directly(kernel, block)


def _lanes(operand: Operand) -> list[tuple[int, int]]:
    return operand.lanes if isinstance(operand, Value) else []


def _is_constant(copy: Instruction, defined: Counter[tuple[int, int]]) -> bool:
    """Whether neither side of a copy ever has another value."""
    (dst,), (source,) = copy.dsts, copy.srcs
    if defined[_lanes(dst)[0]] != 1 or getattr(dst, "lane", 0):
        return False
    if isinstance(source, Register):
        return False
    return not isinstance(source, Value) or all(defined[lane] == 1 for lane in source.lanes)


def _resolved(source: Operand, known: dict[int, Operand]) -> Operand:
    if not isinstance(source, Value) or source.number not in known or source.count > 1:
        return source
    found = known[source.number]
    if isinstance(found, Register):
        return source
    if source.abs:
        return replace(found, neg=source.neg, abs=True)
    return replace(found, neg=found.neg != source.neg)


def _test_directly(kernel: Kernel, block: Block) -> None:
    """A comparison that is only branched on gives p0.x, not a number that is compared with 0."""
    if len(block.code) < 2 or not block.code[-1].is_branch:
        return
    *before, test, _ = block.code
    (source,) = test.srcs[:1]
    if not isinstance(source, Value):
        return
    readers = sum(lane == (source.number, source.lane)
                  for one in kernel for s in one.srcs for lane in _lanes(s))  # fmt: skip
    made = [one for one in before if any(source.lanes[0] in _lanes(dst) for dst in one.dsts)]
    if readers == 1 and len(made) == 1 and made[0].op.startswith("cmps."):
        made[0].dsts = [Register(PREDICATE)]
        block.code.remove(test)


def remove_dead(kernel: Kernel) -> None:
    """Drop results that nobody reads, again and again."""
    while True:
        read = {lane for one in kernel for source in one.srcs for lane in _lanes(source)}
        dead = [
            one
            for one in kernel
            if one.dsts and all(isinstance(dst, Value) for dst in one.dsts)
            if not any(lane in read for dst in one.dsts for lane in _lanes(dst))
        ]
        if not dead:
            return
        ids = set(map(id, dead))
        for block in kernel.blocks:
            block.code = [one for one in block.code if id(one) not in ids]


def place_operands(kernel: Kernel) -> None:
    """No operand is left that its instruction cannot hold. Raises InternalError beyond limits."""
    placer = _Placer(kernel)
    for block in kernel.blocks:
        code: list[Instruction] = []
        for one in block.code:
            code += placer.placed(one)
        block.code = code
    if kernel.first_literal + len(kernel.literals) > MOST_CONSTANTS:
        raise InternalError(f"{kernel.name} reads more than {MOST_CONSTANTS} constants")


class _Placer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.places: dict[int, int] = {}
        self.before: list[Instruction] = []

    def placed(self, one: Instruction) -> list[Instruction]:
        """The instruction, after moves that it needs."""
        self.before = []
        place = _PLACES.get(category(one.op))
        if place is not None:
            place(self, one)
        return [*self.before, one]

    def constant(self, operand: Operand) -> Operand:
        """A literal as a word of the constants; others stay."""
        if not isinstance(operand, Literal):
            return operand
        if operand.bits not in self.places:
            self.places[operand.bits] = self.kernel.first_literal + len(self.kernel.literals)
            self.kernel.literals.append(operand.bits)
        return Constant(self.places[operand.bits], operand.neg, operand.abs)

    def value(self, operand: Operand, half: bool = False) -> Operand:
        """A constant or literal in a register of its own; others stay."""
        if isinstance(operand, Value | Register):
            return operand
        made = Value(self.kernel.new(), half=half)
        plain = replace(operand, neg=False, abs=False)
        self.before.append(Instruction("mov.u16u16" if half else "mov.u32u32", [made], [plain]))
        return replace(made, neg=operand.neg, abs=operand.abs)

    def two(self, one: Instruction) -> None:
        is_float = one.op.startswith("cmps.f") or one.op.endswith(".f")
        fits = _is_float if is_float else _is_small
        srcs = [fits(s) or self.constant(s) for s in one.srcs]
        if len(srcs) == 2:
            first, second = srcs
            if isinstance(first, Constant | Literal) and isinstance(second, type(first)):
                srcs[0] = self.value(first)
        one.srcs = srcs

    def three(self, one: Instruction) -> None:
        first, second, third = one.srcs
        if one.op.startswith("mad.") and not isinstance(second, Value):
            first, second = second, first
        if one.op.endswith("16") and not one.op.startswith("madsh"):
            one.srcs = [self.value(s, half=True) for s in (first, second, third)]
        else:
            one.srcs = [self.constant(first), self.value(second), self.constant(third)]

    def registers(self, one: Instruction) -> None:
        count = register_sources(one)
        stores_half = one.op.startswith("st") and one.op.endswith(_OF_HALVES)
        for place, source in enumerate(one.srcs[:count]):
            one.srcs[place] = self.value(source, half=stores_half and place == 1)


_PLACES: dict[int, Callable[[_Placer, Instruction], None]] = {
    2: _Placer.two, 3: _Placer.three, 4: _Placer.registers, 5: _Placer.registers,
    6: _Placer.registers,
}  # fmt: skip


def _is_float(operand: Operand) -> Operand | None:
    """A literal that a float's instruction holds: one of a short list, or its negative."""
    if not isinstance(operand, Literal) or operand.abs:
        return None
    if operand.bits in FLOATS:
        return operand
    if operand.bits ^ _SIGN in FLOATS:
        return Literal(operand.bits ^ _SIGN, neg=not operand.neg)
    return None


def _is_small(operand: Operand) -> Operand | None:
    """A literal that an integer's instruction holds."""
    return operand if isinstance(operand, Literal) and abs(operand.signed) <= _SMALL else None
