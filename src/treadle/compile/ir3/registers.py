"""Virtual registers get machine registers.

Copies go first, where both sides can be one register: a scalar becomes a lane of the vector that it
is copied to or from. Then each vector, in the order in which they are first written, takes the
lowest registers that are free wherever it is live. Half registers lie in full ones: `hr1.x` and
`hr1.y` are the halves of `r0.z`. Where registers run out, spill moves a value to memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.errors import DeviceError

from .code import Instruction, Kernel, Operand, Register, Value
from .liveness import gaps, lives, pressures
from .spill import spill

__all__ = ["allocate", "fits"]

HALF_UNITS = 2 * 4 * 24  # those of r0.x to r23.w are half registers too
_COPIES = ("mov.u32u32", "mov.u16u16")


def allocate(kernel: Kernel, registers: int) -> None:
    """Give every value a machine register, of `registers` vec4.

    Raises DeviceError if they are too few even with what can be spilled.
    """
    kept: set[int] = set()  # the values that spilling made
    while True:
        allocation = _Allocation(kernel, 4 * registers)
        gap = allocation.run()
        if gap is None:
            break
        fullest = pressures(kernel, allocation.lives)
        most = max(fullest)
        if most > 4 * registers:  # else there is room, but not side by side
            gap = fullest.index(most)
        if not spill(kernel, allocation.lives, gap, most - 4 * registers, kept):
            raise DeviceError(
                f"{kernel.name} needs more than {registers} vec4 of registers for a work item; "
                "`.contiguous()` within the expression divides the kernel"
            )
    for block in kernel.blocks:
        block.code = [new for one in block.code if (new := allocation.placed(one)) is not None]


def fits(kernel: Kernel, registers: int) -> bool:
    """Whether so many vec4 of registers suffice, without spilling."""
    return _Allocation(kernel, 4 * registers).run() is None


@dataclass(slots=True)
class _Group:
    """Lanes that stand side by side, each with the gaps where it is live."""

    live: list[int]
    half: bool
    register: int | None = None

    @property
    def first(self) -> int:
        """The first gap in which any lane is live."""
        return min((bits & -bits).bit_length() for bits in self.live if bits)


class _Allocation:
    def __init__(self, kernel: Kernel, limit: int) -> None:
        self.kernel, self.limit = kernel, limit
        self.lives = lives(kernel)
        self.groups: dict[int, _Group] = {}
        self.homes: dict[int, tuple[int, int]] = {}  # a virtual register's group, and its place
        self._make_groups()
        self._join_copies()

    def _make_groups(self) -> None:
        halves = {
            operand.number
            for one in self.kernel
            for operand in (*one.dsts, *one.srcs)
            if isinstance(operand, Value) and operand.half
        }
        for number, _ in self.lives:
            if number not in self.groups:
                width = self.kernel.widths.get(number, 1)
                live = [self.lives.get((number, lane), 0) for lane in range(width)]
                self.groups[number] = _Group(live, number in halves)
                self.homes[number] = number, 0

    def _join_copies(self) -> None:
        for one in self.kernel:
            if one.op not in _COPIES:
                continue
            (dst,), (source,) = one.dsts, one.srcs
            if isinstance(dst, Value) and isinstance(source, Value):
                self._join(dst, source)

    def _join(self, a: Value, b: Value) -> None:
        """Make both sides of a copy one lane, if they are never live at once."""
        (into, at), (other, place) = self.homes[a.number], self.homes[b.number]
        at, place = at + a.lane, place + b.lane
        if into == other or self.groups[into].half != self.groups[other].half:
            return
        if len(self.groups[into].live) < len(self.groups[other].live):
            into, at, other, place = other, place, into, at
        wide, narrow, shift = self.groups[into].live, self.groups[other].live, at - place
        if shift < 0 or shift + len(narrow) > len(wide):
            return
        if any(wide[shift + n] & bits for n, bits in enumerate(narrow)):
            return
        for n, bits in enumerate(narrow):
            wide[shift + n] |= bits
        del self.groups[other]
        for number, (group, offset) in self.homes.items():
            if group == other:
                self.homes[number] = into, offset + shift

    def run(self) -> int | None:
        """Place all groups; or the gap at which there was no room for one."""
        occupied = self._inputs()
        for group in sorted(self.groups.values(), key=lambda g: g.first):
            step = 1 if group.half else 2
            last = min(HALF_UNITS, 2 * self.limit) if group.half else 2 * self.limit
            place = _free(occupied, group.live, step, last)
            if place is None:
                return group.first - 1
            group.register = place // step
            for n, bits in enumerate(group.live):
                for unit in range(place + n * step, place + (n + 1) * step):
                    occupied[unit] |= bits
        return None

    def _inputs(self) -> list[int]:
        """The gaps in which registers hold what the hardware put there."""
        occupied = [0] * (2 * self.limit)
        for block, start in zip(self.kernel.blocks, gaps(self.kernel), strict=True):
            for gap, one in enumerate(block.code, start):
                for source in one.srcs:
                    if isinstance(source, Register) and source.number < self.limit:
                        for unit in source.units:
                            occupied[unit] |= (1 << (gap + 1)) - 1
        return occupied

    def placed(self, one: Instruction) -> Instruction | None:
        """The instruction with machine registers; None for a copy of a register to itself."""
        dsts: list[Value | Register] = [self._register(dst) for dst in one.dsts]
        srcs = [self._source(source) for source in one.srcs]
        if one.op in _COPIES and srcs == dsts:
            return None
        one.dsts, one.srcs = dsts, srcs
        return one

    def _register(self, operand: Value | Register) -> Register:
        if isinstance(operand, Register):
            return operand
        group, offset = self.homes[operand.number]
        first = self.groups[group].register
        assert first is not None
        number = first + offset + operand.lane
        return Register(number, operand.count, operand.half, operand.neg, operand.abs)

    def _source(self, operand: Operand) -> Operand:
        return self._register(operand) if isinstance(operand, Value) else operand


def _free(occupied: list[int], live: list[int], step: int, last: int) -> int | None:
    """The lowest unit from which all lanes find room."""
    width = len(live) * step
    for place in range(0, last - width + 1, step):
        if all(
            not occupied[unit] & bits
            for n, bits in enumerate(live)
            for unit in range(place + n * step, place + (n + 1) * step)
        ):
            return place
    return None
