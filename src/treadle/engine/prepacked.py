"""Memory that lasts from call to call of a captured function, and its packed copies.

    with expect_replays(inputs, before):     memory that no call has assigned to so far, lasts
        lasts(memory)                        True for the weights of a network
    kept, rest = Kept(), kept.split(runs, ...)   packing of weights; what each replay has to do
    kept.refresh()                               packs them if they have changed

Weights are read in another order than they lie in, so kernels pack them first. Where a function is
going to be replayed, they are packed in a phase of its own, into memory of its own, and a replay
repeats that only if the weights have changed since. That memory lasts is a guess, which decides
where packing happens. Whether a phase may be left out is decided by what the captured function was
seen to do, and by who else can write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from ..config import settings
from ..ir.choices import note_kernel
from ..runtime.base import Buffer, CallList, Entry, Launch
from .call_scope import ValueOfCall
from .change_counters import changes
from .devices import Device, Opened
from .memory import Memory, moment
from .program import CompiledKernel
from .steps import Run

__all__ = ["Kept", "Room", "expect_replays", "expects_replays", "lasts", "left_out"]

LEAST_BYTES = 1 << 14  # smaller memory is no matrix whose packing takes time


@dataclass
class _Expected:
    """What is known while a function runs: when that began, and when it ran before."""

    inputs: frozenset[int]
    begin: int
    before: tuple[int, int]
    room: int
    answers: dict[int, bool] = field(default_factory=dict)

    def lasts(self, memory: Memory) -> bool:
        known = self.answers.get(id(memory))
        if known is None:
            nbytes = memory.size * memory.dtype.itemsize
            is_ours = id(memory) in self.inputs or memory.made >= self.begin
            is_state = self.before[0] <= memory.changed < self.before[1]
            is_state = is_state or memory.changed >= self.begin
            known = not is_ours and not is_state and LEAST_BYTES <= nbytes <= self.room
            known = known and memory.image is None
            known = known and Device[memory.device].target.workgroup is None
            self.answers[id(memory)] = known
            self.room -= known * nbytes
        return known


_expected = ValueOfCall[_Expected]()


def expect_replays(
    inputs: Sequence[Memory], before: tuple[int, int]
) -> AbstractContextManager[None]:
    """A block that runs a function whose calls will be replayed with other `inputs`.

    `before` holds the moments when an earlier call began and ended, if one did: what that has
    assigned to is taken to be assigned to in each. With REPRODUCIBLE=1 nothing lasts: what is
    packed once is summed in other tiles than what is packed at each call.
    """
    room = 0 if settings.REPRODUCIBLE else settings.KEEP_PACKED << 20
    return _expected.of(_Expected(frozenset(map(id, inputs)), moment(), before, room))


def expects_replays() -> bool:
    """Whether such a block is running."""
    return _expected.value is not None


def lasts(memory: Memory) -> bool:
    """Whether `memory` is taken to be the same at each replay of the function that runs now."""
    expected = _expected.value
    return expected is not None and expected.lasts(memory)


@dataclass
class Room:
    """How many bytes of packed memory may still be kept."""

    left: int = field(default_factory=lambda: settings.KEEP_PACKED << 20)


class Kept:
    """Phases that ran once, and run again if the memory that they read has changed.

    What they fill is `blocks`, `nbytes` in all. So is what the first round of a loop packs for the
    others: weights that a training step reads in all rounds, and assigns to behind them.
    """

    def __init__(self) -> None:
        self.blocks: list[Buffer] = []
        self.nbytes = 0
        self._choices: dict[CompiledKernel, frozenset[str]] = {}
        self._launches: list[Launch] = []
        self._sources: dict[int, Memory] = {}
        self._calls: CallList | None = None
        self._seen: list[int] | None = None
        self._checked = -1  # the latest change of memory when `_seen` was compared, or none

    def split(
        self, runs: Sequence[Run], is_constant: Callable[[Memory], bool], room: Room
    ) -> list[Launch]:
        """What is left of the launches of `runs`, all on one device, for each replay.

        `is_constant` says of memory that no replay of the function writes to it.
        """
        rest: list[Launch] = []
        for run in runs:
            (first, *others), program = run.launches(), run.program
            opened = Device[program.device]
            written = {id(memory) for memory in (*run.filled, *run.overwritten)}
            left: list[tuple[Launch, list[object]]] = []
            for kernel, places, launch in zip(
                program.kernels, program.arguments, first, strict=True
            ):
                read = {
                    slot: run.inputs[place.number]
                    for slot, place in enumerate(places)
                    if place.kind == "input"
                }
                constant = {slot: memory for slot, memory in read.items() if is_constant(memory)}
                steady = {
                    *constant,
                    *(n for n, memory in read.items() if id(memory) not in written),
                }
                many = steady if others else constant.keys()
                left.append(self._split(kernel, launch, constant, many, room, opened))
            rest += [launch for launch, _ in left]
            for launches in others:  # of the same arguments
                pairs = zip(left, launches, strict=True)
                rest += [Launch(later, mine.args, now.vars) for (mine, later), now in pairs]
        if self._launches:
            runtime = Device[runs[0].program.device].runtime
            self._calls = runtime.call_list(self._launches, (runs, self.blocks))
        return rest

    def _split(
        self, kernel: CompiledKernel, launch: Launch, constant: dict[int, Memory],
        steady: Collection[int], room: Room, opened: Opened,
    ) -> tuple[Launch, list[object]]:  # fmt: skip
        """`launch` without the phases that read what is `constant`, which are kept.

        And the phases of later rounds, without those that read slots which are `steady`: what no
        round changes is packed by the first one, in each replay.
        """
        own = len(launch.args) - len(kernel.scratch)
        kept = _constant_phases(kernel, own, constant.keys())
        once = _constant_phases(kernel, own, steady)
        if _room_for(kernel, own, once) > room.left:
            once = kept
        if not once or _room_for(kernel, own, once) > room.left:
            return launch, [*launch.phases]
        names = {"prepacked": kept, "packed_by_first_round": once - kept}
        self._choices[kernel] = frozenset(name for name, phases in names.items() if phases)
        args = list(launch.args)
        for slot in _filled(kernel, own, once):
            size = kernel.scratch[slot - own]
            room.left -= size
            self.nbytes += size
            self.blocks.append(opened.allocator.alloc(size))
            args[slot] = self.blocks[-1].argument
        phases = list(enumerate(launch.phases))
        if kept:
            read = {slot.number for n in kept for slot in kernel.entries[n].slots}
            self._sources.update((id(m), m) for slot, m in constant.items() if slot in read)
            packing = [phase for number, phase in phases if number in kept]
            self._launches.append(Launch(packing, args, launch.vars))
        mine = Launch([phase for n, phase in phases if n not in kept], args, launch.vars)
        return mine, [phase for n, phase in phases if n not in once]

    def note(self, run: Run) -> None:
        """Tell who observes which kernels of `run` have phases that do not run each time."""
        program = run.program
        for kernel, choices in zip(program.kernels, program.choices, strict=True):
            if (names := self._choices.get(kernel)) is not None:
                note_kernel(choices | names)

    def refresh(self) -> None:
        """Run the phases if what they have left is not of the values that are there now."""
        if self._calls is None or self._checked == (latest := changes.memory):
            return
        sources = self._sources.values()
        now = [memory.changed for memory in sources]
        is_exposed = any(memory.is_exposed for memory in sources)
        if now != self._seen or is_exposed:
            self._calls.run()
            self._seen = now
        self._checked = -1 if is_exposed else latest


def left_out(kernel: CompiledKernel, own: int, lasting: Collection[int]) -> set[int]:
    """The phases that replays leave out where the memory of the arguments `lasting` lasts.

    They pack it; there has to be room for what they leave.
    """
    phases = _constant_phases(kernel, own, lasting)
    return phases if _room_for(kernel, own, phases) <= Room().left else set()


def _constant_phases(kernel: CompiledKernel, own: int, constant: Collection[int]) -> set[int]:
    """The phases that fill scratch memory from the arguments `constant` alone.

    Arguments from `own` on are the kernel's scratch memory. What two phases write stays out.
    """
    writers = Counter(slot for entry in kernel.entries for slot in _written(entry))
    found: set[int] = set()
    filled: set[int] = set()
    for number, entry in enumerate(kernel.entries):
        writes = _written(entry)
        reads = {slot.number for slot in entry.slots} - writes
        is_own = all(slot >= own and writers[slot] == 1 for slot in writes)
        if is_own and not entry.variables and reads <= filled.union(constant):
            found.add(number)
            filled |= writes
    return found


def _filled(kernel: CompiledKernel, own: int, phases: Collection[int]) -> set[int]:
    """The slots of scratch memory, from `own` on, that `phases` use."""
    slots = {slot.number for n in phases for slot in kernel.entries[n].slots}
    return {slot for slot in slots if slot >= own}


def _room_for(kernel: CompiledKernel, own: int, phases: Collection[int]) -> int:
    return sum(kernel.scratch[slot - own] for slot in _filled(kernel, own, phases))


def _written(entry: Entry) -> set[int]:
    return {slot.number for slot in entry.slots if slot.is_written}
