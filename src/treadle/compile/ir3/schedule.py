"""Instructions of a block in an order in which they wait less for each other.

    mul.f %3, %1, %2                 mul.f %3, %1, %2
    add.f %4, %3, %1           ->    mul.f %5, %1, %1
    mul.f %5, %1, %1                 add.f %4, %3, %1

Of those whose operands are there, the one with the longest way to the block's end goes first. Where
many values are live, it is the one that leaves the fewest. Memory that a store may change keeps its
order, and so does all memory around a barrier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .code import Block, Constant, Instruction, Kernel, Lane, Operand, Register, Value
from .liveness import entering_and_leaving
from .tables import ALU, LATE, OTHER, category

__all__ = ["schedule"]

# Cycles until a result that is waited for by (ss) or (sy) is likely there.
SPECIAL, SHARED, GLOBAL = 10, 12, 60
Key = Lane | int  # a lane, or a machine register


@dataclass(slots=True)
class _Item:
    """An instruction with what follows it, after so many cycles; `before` is how many it awaits."""

    one: Instruction
    number: int
    following: dict[int, int] = field(default_factory=dict)
    before: int = 0
    length: int = 0  # of the longest way to the block's end
    ready: int = 0


def schedule(kernel: Kernel, registers: int) -> None:
    """Reorder every block, with about `registers` vec4 live at once."""
    buffers = _buffers(kernel)
    entering, leaving = entering_and_leaving(kernel)
    for block, into, out in zip(kernel.blocks, entering, leaving, strict=True):
        block.code = _Scheduler(block, buffers, into, out, 4 * registers).run()


def _buffers(kernel: Kernel) -> dict[int, int]:
    """For the register pairs with an address: the constant with the buffer that it is in."""
    found: dict[int, int] = {}
    for one in kernel:
        (dst,) = one.dsts or (None,)
        if not isinstance(dst, Value) or dst.number not in kernel.widths or dst.lane:
            continue
        base = one.srcs[-1]
        if one.op not in ("mov.u32u32", "add.u") or not isinstance(base, Constant):
            continue
        if base.index < 2 * kernel.buffers:
            found[dst.number] = base.index
    return found


def _lanes(operands: Sequence[Operand]) -> list[Lane]:
    """The lanes of virtual registers among operands."""
    return [lane for one in operands if isinstance(one, Value) for lane in one.lanes]


def _keys(operands: list[Value | Register]) -> list[Key]:
    keys: list[Key] = []
    for operand in operands:
        keys += operand.lanes if isinstance(operand, Value) else [operand.number]
    return keys


class _Scheduler:
    def __init__(
        self, block: Block, buffers: dict[int, int], into: set[Lane], out: set[Lane], limit: int
    ) -> None:
        self.buffers, self.limit = buffers, limit
        self.items = [_Item(one, number) for number, one in enumerate(block.code)]
        self.live, self.out = set(into), out
        self.reads = Counter(lane for item in self.items for lane in _lanes(item.one.srcs))
        self._connect()
        self._measure()

    # -- what has to come before what -------------------------------------------------------------

    def _connect(self) -> None:
        written: dict[Key, int] = {}
        read: dict[Key, list[int]] = {}
        for item in self.items:
            one = item.one
            for place, source in enumerate(one.srcs):
                if not isinstance(source, Value | Register):
                    continue
                for key in _keys([source]):
                    if key in written:
                        self._link(written[key], item, self._latency(written[key], one, place))
                    read.setdefault(key, []).append(item.number)
            for key in _keys(one.dsts):
                for reader in read.pop(key, []):
                    self._link(reader, item, 0)
                if key in written:
                    self._link(written[key], item, 1)
                written[key] = item.number
        self._connect_memory()
        if self.items and (self.items[-1].one.is_branch or self.items[-1].one.op == "end"):
            for item in self.items[:-1]:
                self._link(item.number, self.items[-1], 0)

    def _link(self, number: int, item: _Item, cycles: int) -> None:
        if number == item.number:
            return
        following = self.items[number].following
        if item.number not in following:
            item.before += 1
            following[item.number] = cycles
        following[item.number] = max(cycles, following[item.number])

    def _latency(self, number: int, reader: Instruction, place: int) -> int:
        """Cycles between an instruction and one that reads its result."""
        made = self.items[number].one
        kind = category(made.op)
        if kind == 4:
            return SPECIAL
        if kind in (5, 6):
            return SHARED if made.op.startswith("ldl") else GLOBAL
        if category(reader.op) not in (1, 2, 3):
            return 1 + OTHER
        return 1 + ALU - (LATE if place == 2 and reader.op.startswith("mad") else 0)

    def _connect_memory(self) -> None:
        """Stores, and loads of the same memory, in their order."""
        stores: dict[object, list[int]] = {}
        loads: dict[object, list[int]] = {}
        for item in self.items:
            where = self._where(item.one)
            if where is None:
                continue
            is_load = bool(item.one.dsts)
            for other, earlier in stores.items():
                if _may_meet(where, other):
                    for number in earlier:
                        self._link(number, item, 1)
            for other, earlier in () if is_load else loads.items():
                if _may_meet(where, other):
                    for number in earlier:
                        self._link(number, item, 0)
            if not is_load:
                stores = {k: v for k, v in stores.items() if not _covers(where, k)}
                loads = {k: v for k, v in loads.items() if not _covers(where, k)}
            (loads if is_load else stores).setdefault(where, []).append(item.number)

    def _where(self, one: Instruction) -> object:
        """The memory that an instruction is about: "all" for barriers; None for arithmetic."""
        if category(one.op) == 7:
            return "all"
        if category(one.op) != 6:
            return None
        if one.op[2] != "g":
            return one.op[2]
        base = one.srcs[0]
        assert isinstance(base, Value)
        return self.buffers.get(base.number, "g")

    def _measure(self) -> None:
        for item in reversed(self.items):
            lengths = (self.items[n].length + c for n, c in item.following.items())
            item.length = max(lengths, default=0) + 1

    # -- the order --------------------------------------------------------------------------------

    def run(self) -> list[Instruction]:
        """The instructions in their new order."""
        order: list[Instruction] = []
        waiting = [item for item in self.items if not item.before]
        cycle = 0
        while waiting:
            item = self._choice(waiting, cycle)
            waiting.remove(item)
            order.append(item.one)
            # Who waits for one load has waited for all that were begun before it.
            cycle = max(cycle, item.ready) + 1
            self._account(item.one)
            for number, cycles in item.following.items():
                other = self.items[number]
                other.ready = max(other.ready, cycle - 1 + cycles)
                other.before -= 1
                if not other.before:
                    waiting.append(other)
        return order

    def _choice(self, waiting: list[_Item], cycle: int) -> _Item:
        if len(self.live) >= self.limit:
            return min(waiting, key=lambda i: (self._growth(i.one), i.number))
        return min(waiting, key=lambda i: (max(0, i.ready - cycle), -i.length, i.number))

    def _growth(self, one: Instruction) -> int:
        """How many more lanes are live behind an instruction."""
        reads = Counter(_lanes(one.srcs))
        ended = sum(self.reads[k] == n and k not in self.out for k, n in reads.items())
        return sum(k not in self.live for k in _lanes(one.dsts)) - ended

    def _account(self, one: Instruction) -> None:
        for lane in _lanes(one.srcs):
            self.reads[lane] -= 1
            if not self.reads[lane] and lane not in self.out:
                self.live.discard(lane)
        self.live.update(_lanes(one.dsts))


def _may_meet(a: object, b: object) -> bool:
    """Whether two kinds of memory may be the same; numbers are buffers."""
    if a == b or "all" in (a, b):
        return True
    return "g" in (a, b) and all(x == "g" or isinstance(x, int) for x in (a, b))


def _covers(a: object, b: object) -> bool:
    """Whether what comes after `a` need not look at `b` any more."""
    return a in ("all", b)
