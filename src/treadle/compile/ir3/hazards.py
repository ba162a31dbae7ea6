"""Waiting: the flags (ss) and (sy), and nops, without which a register is read too soon.

    rcp r0.y, r0.x                  rcp r0.y, r0.x
    mul.f r0.z, r0.y, r1.x    ->    (ss)(nop3) mul.f r0.z, r0.y, r1.x
    add.f r0.w, r0.z, r1.x          add.f r0.w, r0.z, r1.x

Nothing checks this in the hardware. Arithmetic is ready after 3 cycles for arithmetic of the same
width, after 6 for all else. Special functions and shared memory are waited for by (ss), other
memory and textures by (sy). They also read their sources late: who writes one of these waits
likewise, as for a store's. The numbers are those of Mesa (ir3_delay.c, ir3_legalize.c). What a
block begins with is the worst of all blocks before it, found by going around until nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .code import PREDICATE, Instruction, Kernel, Operand, Register
from .tables import ALU, LATE, OTHER, category

__all__ = ["insert_waits"]

MOST_REPEATS, MOST_NOPS = 5, 3  # of a nop, and of what an instruction waits by itself
_FULL, _HALF, _OTHER = range(3)  # who reads
Ready = dict[int, list[int]]


@dataclass(slots=True)
class _State:
    """Units of registers as bits: whose results need (ss) or (sy), and whose readers do.

    `ready` has the cycle from which each unit can be read, by each kind of reader.
    """

    ss: int = 0
    sy: int = 0
    read_ss: int = 0  # (ss) alone says that they have been read
    read_any: int = 0  # (ss) or (sy) says it
    ready: Ready = field(default_factory=dict)
    after_barrier: bool = False

    def copy(self) -> _State:
        return replace(self, ready={unit: list(cycles) for unit, cycles in self.ready.items()})

    def merge(self, other: _State) -> None:
        """The worst of both."""
        self.ss |= other.ss
        self.sy |= other.sy
        self.read_ss |= other.read_ss
        self.read_any |= other.read_any
        self.after_barrier |= other.after_barrier
        for unit, cycles in other.ready.items():
            mine = self.ready.get(unit, [0, 0, 0])
            self.ready[unit] = [max(pair) for pair in zip(mine, cycles, strict=True)]


def insert_waits(kernel: Kernel) -> None:
    """Set the flags and insert the nops that a kernel with machine registers needs."""
    begins = [_State() for _ in kernel.blocks]
    todo = list(range(len(kernel.blocks)))
    while todo:
        number = todo.pop(0)
        state = begins[number].copy()
        _walk(kernel.blocks[number].code, state)
        for after in kernel.blocks[number].after:
            merged = begins[after].copy()
            merged.merge(state)
            if merged != begins[after]:
                begins[after] = merged
                if after not in todo:
                    todo.append(after)
    for block, state in zip(kernel.blocks, begins, strict=True):
        block.code = _walk(block.code, state)
    _mark_meetings(kernel)


def _mark_meetings(kernel: Kernel) -> None:
    """(jp) where work items meet that went different ways."""
    meets = False
    for block in kernel.blocks:
        meets |= block.meets
        if block.code:
            block.code[0].jp |= meets
            meets = False


def _units(operands: list[Operand] | list[Register]) -> int:
    """The registers of each work item among operands, as bits of units."""
    bits = 0
    for one in operands:
        if isinstance(one, Register) and one.number < PREDICATE:
            units = one.units
            bits |= ((1 << len(units)) - 1) << units.start
    return bits


def _walk(code: list[Instruction], state: _State) -> list[Instruction]:
    """The instructions with what they wait for; `state` becomes that behind them."""
    made: list[Instruction] = []
    cycle = 0
    for old in code:
        one = replace(old, ss=False, sy=False, nop=0)
        _flag(one, state)
        if one.ss and category(one.op) in (5, 6):  # they have no such flag
            one.ss = False
            made.append(Instruction("nop", [], [], ss=True))
            cycle += 1
        delay = _delay(one, state, cycle)
        cycle += delay
        _wait(made, delay)
        made.append(one)
        counts = category(one.op) in (1, 2, 3) or one.op == "nop"
        cycle += counts
        _update(one, state, cycle)
        cycle += one.repeat
    for unit, cycles in list(state.ready.items()):
        left = [max(0, ready - cycle) for ready in cycles]
        if any(left):
            state.ready[unit] = left
        else:
            del state.ready[unit]
    return made


def _flag(one: Instruction, state: _State) -> None:
    writes = _units([dst for dst in one.dsts if isinstance(dst, Register)])
    touches = writes | _units(one.srcs)
    is_barrier = one.op.startswith("bar")
    if state.after_barrier or is_barrier:
        one.ss = one.sy = True
    one.sy |= bool(touches & state.sy)
    if one.sy:
        state.sy = state.read_any = 0
    one.ss |= bool(touches & state.ss or writes & (state.read_ss | state.read_any))
    if one.ss:
        state.ss = state.read_ss = state.read_any = 0
    state.after_barrier = is_barrier


def _delay(one: Instruction, state: _State, cycle: int) -> int:
    """How many cycles too soon it would read."""
    if one.op == "end":
        return 0
    delay = 0
    is_alu = category(one.op) in (1, 2, 3)
    for number, source in enumerate(one.srcs):
        if not isinstance(source, Register):
            continue
        late = LATE if number == 2 and one.op.startswith("mad") else 0
        reader = (_HALF if source.half else _FULL) if is_alu else _OTHER
        for unit in source.units:
            if unit in state.ready:
                delay = max(delay, state.ready[unit][reader] - cycle - late)
    return delay


def _wait(made: list[Instruction], delay: int) -> None:
    """Let what comes next wait so many cycles."""
    if delay and made:
        last = made[-1]
        if category(last.op) in (2, 3):
            last.nop = min(delay, MOST_NOPS)
            delay -= last.nop
        elif last.op == "nop":
            more = min(delay, MOST_REPEATS - last.repeat)
            last.repeat += more
            delay -= more
    if delay:
        made.append(Instruction("nop", [], [], repeat=delay - 1))


def _update(one: Instruction, state: _State, cycle: int) -> None:
    """What an instruction leaves to be waited for."""
    kind, name = category(one.op), one.op.partition(".")[0]
    for dst in one.dsts:
        assert isinstance(dst, Register)
        for unit in dst.units:
            if kind not in (1, 2, 3):
                state.ready.pop(unit, None)  # they are in order with what was written before
            elif dst.number == PREDICATE:
                state.ready[unit] = [cycle + OTHER] * 3
            else:
                alike = [cycle + OTHER, cycle + OTHER, cycle + OTHER]
                alike[_HALF if dst.half else _FULL] = cycle + ALU
                old = state.ready.get(unit, [0, 0, 0])
                state.ready[unit] = [max(pair) for pair in zip(old, alike, strict=True)]
    if kind not in (4, 5, 6):
        return
    results, sources = _units([d for d in one.dsts if isinstance(d, Register)]), _units(one.srcs)
    if kind == 4 or name == "ldl":
        state.ss |= results
    else:
        state.sy |= results
    if kind == 4 or name in ("ldl", "stl", "stg", "stp", "stib"):
        state.read_ss |= sources
    else:
        state.read_any |= sources
