"""Which instructions use a register too early: before its delay is over, or before a flag's wait.

    too_early(blocks)  ->  {4: "r0.x, which 'ldg.u32 r0.x, g[r1.x], 1' at word 2 sets: no (sy)"}

What cat1 to cat3 set is there some cycles later: 3 for the same part of the machine and registers
of the same size, else 6. The third source of a product and a sum is read 2 cycles later than the
others. What cat4, shared memory and atomic operations there set is waited for by (ss), what other
memory and textures set by (sy). These read their sources late as well: a source may be set after
(ss), or (sy) where they set something by it.

A register that all lanes share is waited for by (ss). Where there is a scalar ALU, that computes
what such a register is set to from others, in order: it waits for itself only where one of another
size is read or set. Its instructions are no cycles for others, but for their nops.

It is followed along all ways through the program what may be under way where, as Mesa's compiler
does that puts waits in. A way is what one lane goes: what is between predt and predf is no way to
what is between predf and prede. Not seen are registers that a0.x names. A branch is no cycle here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from treadle.emulate.ir3.memory import ATOMICS, read_width
from treadle.emulate.ir3.operands import (
    A0,
    ADDRESSES,
    PREDICATES,
    SHARED,
    UNUSED,
    Instruction,
    Kind,
    Operand,
    component,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Block", "too_early"]

_NEAR, _FAR = 3, 6  # cycles until a result is there
_LATE = 2  # cycles until a third source is read
_SHORT_LOADS = ("ldl", "ldlw", "ldlv", "shfl", "getfiberid")
_STORES = ("stg", "stg.a", "stl", "stlw", "stp", "stc", "stib.b")
_UNCOUNTED = ("br", "braa", "brao", "jump")
_FIRST_SHARED = 2 * SHARED  # part of the register file, behind those of all lanes


@dataclass
class Block:
    """Instructions with their places, and the blocks that may follow."""

    items: Sequence[tuple[int, Instruction]]
    following: Sequence[int]


class _Use(NamedTuple):
    """A register, and in which cycle of the instruction it is read or set."""

    number: int
    is_half: bool
    cycle: int = 0

    @property
    def parts(self) -> tuple[int, ...]:
        """The 16-bit parts of the register file; others get numbers below 0."""
        if self.number >= A0:
            return (-self.number,)
        width = 1 if self.is_half else 2
        first = self.number * width
        if self.is_shared:
            first = _FIRST_SHARED + (self.number - SHARED) * width
        return tuple(range(first, first + width))

    @property
    def is_shared(self) -> bool:
        return SHARED <= self.number < A0

    @property
    def bits(self) -> int:
        return 16 if self.is_half else 32

    def __str__(self) -> str:
        number, letter = self.number, "h" if self.is_half else ""
        if number in ADDRESSES:
            return f"a{number - A0}.x"
        if PREDICATES <= number < UNUSED:
            return f"p0.{'xyzw'[number - PREDICATES]}"
        return f"{letter}r{number // 4}.{'xyzw'[number % 4]}"


class _Result(NamedTuple):
    part: int
    is_half: bool


class _Way(NamedTuple):
    """What is under way: `wait` is ss or sy, or for a source either of them.

    `scalar_bits` is the size of the scalar ALU's result or source.
    """

    part: int
    wait: str
    is_source: bool
    scalar_bits: int = 0


@dataclass
class _State:
    """Cycles since each result was begun, while it may not be there, and what flags wait for."""

    ages: dict[_Result, int] = field(default_factory=dict)
    ways: dict[_Way, str] = field(default_factory=dict)
    makers: dict[_Result, str] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.ages), dict(self.ways), dict(self.makers))

    def shared(self) -> _State:
        """What is under way to and from registers that all lanes share, whichever act."""
        ways = {way: words for way, words in self.ways.items() if way.part >= _FIRST_SHARED}
        return _State({}, ways, {})

    def join(self, other: _State) -> bool:
        """Adds what may be under way on another way here; tells whether that changed anything."""
        changed = False
        for result, age in other.ages.items():
            if age < self.ages.get(result, _FAR):
                self.ages[result], self.makers[result] = age, other.makers[result]
                changed = True
        for way, words in other.ways.items():
            if way not in self.ways:
                self.ways[way] = words
                changed = True
        return changed

    def wait(self, name: str) -> None:
        """(ss) or (sy)."""
        for way in [way for way in self.ways if name in way.wait]:
            del self.ways[way]

    def under_way(self, use: _Use, is_set: bool, is_scalar: bool) -> str:
        """Words for a register that a flag has not been waited for, or nothing."""
        for (part, wait, is_source, scalar_bits), words in self.ways.items():
            if is_scalar and scalar_bits and (is_source or scalar_bits == use.bits):
                continue
            if part in use.parts and (is_set or not is_source):
                flag = " or ".join(f"({name})" for name in wait.split())
                what = "reads" if is_source else "sets"
                return f"{use}, which {words} {what}: no {flag} since"
        return ""

    def age(self, cycles: int) -> None:
        for result in list(self.ages):
            self.ages[result] += cycles
            if self.ages[result] >= _FAR:
                del self.ages[result], self.makers[result]

    def too_young(self, use: _Use, in_alu: bool) -> str:
        """Words for a result that is read before it is there, or nothing."""
        for part in use.parts:
            for is_half in (False, True):
                result = _Result(part, is_half)
                if result not in self.ages:
                    continue
                near = in_alu and use.number < SHARED and is_half == use.is_half
                needed, passed = _NEAR if near else _FAR, self.ages[result] + use.cycle
                if passed < needed:
                    return (
                        f"{use}, which {self.makers[result]} sets: {passed} cycles between, "
                        f"and it takes {needed}"
                    )
        return ""


class _Lanes:
    """What is under way for the lanes that act, and for those that have acted since they parted."""

    def __init__(self, state: _State) -> None:
        self.acting = state
        self._before: _State | None = None  # when the lanes parted, by a flag that still says how
        self._others: list[_State] = []

    def part(self, item: Instruction) -> None:
        """What an instruction does to which lanes act."""
        if item.name in ("predt", "predf"):
            if self._before is None:
                self._before = self.acting
            else:
                self._others.append(self.acting)
            shared = self.acting.shared()
            self.acting = self._before.copy()
            self.acting.join(shared)
        elif self._before is not None and (item.name == "prede" or _sets_flag(item)):
            for other in self._others or [self._before]:
                self.acting.join(other)
            self._before, self._others = None, []


def too_early(blocks: Mapping[int, Block], has_scalar_alu: bool = False) -> dict[int, str]:
    """Places of instructions, and words for what they use too early. The first is at 0."""
    states = {0: _State()}
    found: dict[int, str] = {}
    left = [0]
    while left:
        start = left.pop()
        block, state = blocks[start], _Lanes(states[start].copy())
        for place, item in block.items:
            why = _step(state.acting, place, item, has_scalar_alu and item.is_scalar)
            if why:
                found.setdefault(place, why)
            state.part(item)
        for target in block.following:
            known = states.get(target)
            if known is None:
                states[target] = state.acting.copy()
            if known is None or known.join(state.acting):
                left.append(target)
    return found


def _step(state: _State, place: int, item: Instruction, is_scalar: bool) -> str:
    """What an instruction does to a state, and words for what it uses too early."""
    if item.waits_short:
        state.wait("ss")
    if item.waits_long:
        state.wait("sy")
    reads, sets = list(_reads(item)), list(_sets(item))
    in_alu = 1 <= item.category <= 3
    early = [
        state.under_way(use, is_set=False, is_scalar=is_scalar) or state.too_young(use, in_alu)
        for use in reads
    ]
    early += [state.under_way(use, is_set=True, is_scalar=is_scalar) for use in sets]
    words = f"'{item}' at word {place}"
    if is_scalar:
        state.age(item.nops)
    elif in_alu or (item.category == 0 and item.name not in _UNCOUNTED):
        state.age(1 + item.more_cycles + item.nops)
    for use in sets:
        for part in use.parts:
            _begin(state, item, use, part, words, is_scalar)
    if is_scalar or item.category in (4, 5, 6):
        _hold_sources(state, item, reads, words, is_scalar)
    return next(filter(None, early), "")


def _begin(
    state: _State, item: Instruction, use: _Use, part: int, words: str, is_scalar: bool
) -> None:
    """A result is under way."""
    for is_half in (False, True):
        state.ages.pop(_Result(part, is_half), None)
    if use.is_shared:
        bits = use.bits if is_scalar else 0
        state.ways[_Way(part, "ss", is_source=False, scalar_bits=bits)] = words
        return
    if 1 <= item.category <= 3:
        result = _Result(part, use.is_half)
        age = item.more_cycles + item.nops - use.cycle
        if age < _FAR:
            state.ages[result], state.makers[result] = age, words
        return
    state.ways[_Way(part, "ss" if _is_short(item) else "sy", is_source=False)] = words


def _hold_sources(
    state: _State, item: Instruction, reads: list[_Use], words: str, is_scalar: bool
) -> None:
    """Sources are read late."""
    wait = "ss" if _is_short(item) or item.name in _STORES else "ss sy"
    for use in reads:
        for part in use.parts:
            way = _Way(part, wait, is_source=True, scalar_bits=use.bits if is_scalar else 0)
            state.ways[way] = words


def _is_short(item: Instruction) -> bool:
    """Whether (ss) waits for the result."""
    is_local = item.name in ATOMICS and ".g." not in item.name
    return item.category == 4 or item.name in _SHORT_LOADS or is_local


# -- what instructions use


def _stepped(of: Operand, repeat: int, late: int = 0) -> Iterator[_Use]:
    """A register of an operand, and those of its further steps."""
    if of.kind in (Kind.RELATIVE_GPR, Kind.RELATIVE_CONSTANT):
        yield _Use(A0, is_half=False)
        return
    if of.kind is not Kind.GPR or of.number >= UNUSED:
        return
    for step in range(repeat + 1):
        yield _Use(of.number + (step if of.steps else 0), of.is_half, late + step)


def _reads(item: Instruction) -> Iterator[_Use]:
    if item.category == 0:
        yield from _flags(item)
    elif item.name in ("swz", "gat"):
        for i, of in enumerate(item.sources):
            yield _Use(of.number, of.is_half, i)
    elif 1 <= item.category <= 4:
        is_product = item.name.startswith("mad")
        for i, of in enumerate(item.sources):
            yield from _stepped(of, item.repeat, _LATE if is_product and i == 2 else 0)
        if item.category == 1 and item.number("DST_REL"):
            yield _Use(A0, is_half=False)
    elif item.name == "isam":
        first = component(item.decoded.operand("SRC1").operand("SRC"))
        yield from (_Use(first + n, not item.number("FULL")) for n in range(2))
    elif item.category == 6:
        yield from _memory_reads(item)


def _flags(item: Instruction) -> Iterator[_Use]:
    """Flags that a branch depends on."""
    if item.name in ("predt", "predf"):
        yield _Use(PREDICATES, is_half=False)
    for name in ("COMP1", "COMP2"):
        if name in item.decoded.fields:
            yield _Use(PREDICATES + item.number(name), is_half=False)


def _sets_flag(item: Instruction) -> bool:
    """Whether it sets the flag that predt and predf depend on."""
    return any(use.number == PREDICATES for use in _sets(item))


def _sets(item: Instruction) -> Iterator[_Use]:
    if item.name in ("swz", "gat", "sct"):
        for i, of in enumerate(item.destinations):
            yield _Use(of.number, of.is_half, i)
    elif 1 <= item.category <= 4 and item.name != "movmsk":
        of = item.destination
        if of.kind is Kind.GPR and of.number < UNUSED:
            yield from _stepped(of, item.repeat)
    elif item.name == "isam":
        first = component(item.decoded.operand("DST"))
        for n in range(4):
            if item.number("WRMASK") >> n & 1:
                yield _Use(first + n, bool(item.number("DST_HALF")))
    elif item.name == "ldib.b":
        first = item.register("SRC1").number
        yield from (_Use(first + n, item.type_is_half) for n in range(item.number("TYPE_SIZE")))
    elif item.category == 6 and item.name not in _STORES and "DST" in item.decoded.fields:
        is_atomic = item.name in ATOMICS
        count = 1 if is_atomic else max(1, item.number("SIZE"))
        number, is_half = item.register("DST").number, item.type_is_half and not is_atomic
        for i in range(count):
            yield _Use(number + i, is_half)


def _memory_reads(item: Instruction) -> Iterator[_Use]:
    """Addresses and values."""
    for name, count, is_half in _memory_operands(item):
        if name not in item.decoded.fields:
            continue
        of = item.register(name, is_half)
        if of.kind is Kind.GPR and of.number < UNUSED:
            for i in range(count):
                yield _Use(of.number + i, is_half)


def _memory_operands(item: Instruction) -> Iterator[tuple[str, int, bool]]:
    """Names of fields, how many registers they are, and whether of 16 bits."""
    name, size, is_half = item.name, item.number("SIZE"), item.type_is_half
    if name in ATOMICS:
        yield "SRC1", 2 if ".g." in name else 1, False
        yield "SRC2", read_width(name), False
    elif name in ("ldg", "ldg.a", "stg", "stg.a"):
        yield "SRC1", 2, False
        yield "SRC2", 1, False
        if name.startswith("stg"):
            yield "SRC3", size, is_half
    elif name in ("ldib.b", "stib.b"):
        yield "SRC2", item.number("D"), False
        if name == "stib.b":
            yield "SRC1", item.number("TYPE_SIZE"), is_half
    elif name in ("ldl", "ldp"):
        yield "SRC", 1, False
    elif name in ("stl", "stp"):
        yield "DST", 1, False
        yield "SRC", size, is_half
