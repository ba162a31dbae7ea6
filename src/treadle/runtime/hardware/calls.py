"""Launches that are replayed: commands and arguments lie in memory, and a replay changes words.

    calls = device.call_list(launches)
    calls.set_arg(0, 1, other.argument)      # two words, at the next run
    calls.run()

There are two copies of all, which take turns: while the GPU reads one, the other can be changed.
Only what was set since a copy ran the last time is changed in it.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from treadle.runtime.base import Launch
from treadle.runtime.hardware.arguments import Arguments
from treadle.runtime.hardware.host_memory import PAGE, round_up, view
from treadle.runtime.hardware.stream import Image
from treadle.runtime.hardware.timeline import Moment, Timeline

if TYPE_CHECKING:
    from treadle.runtime.base import Entry
    from treadle.runtime.hardware.blocks import Block
    from treadle.runtime.hardware.buffers import Blocks

__all__ = ["HardwareCallList", "Prepared", "Replaying", "misaligned"]

_COPIES = 2
_ALIGNMENT = 16
_Key = tuple[bool, int, int]  # whether it is a variable; the launch; its number


def misaligned(entry: Entry, args: Sequence[int]) -> list[int]:
    """The numbers of arguments that do not begin where asynchronous copies need it."""
    return [number for number in entry.aligned if args[number] % _ALIGNMENT]


class _Phase(Protocol):
    """One kernel function; `kernarg_bytes` is the memory that a launch of it takes."""

    @property
    def entry(self) -> Entry: ...
    @property
    def kernarg_bytes(self) -> int: ...
    @property
    def arguments(self) -> Arguments: ...


Code: TypeAlias = Any  # a phase as the device's compiler and loader have made it
# One launch that is to be written into memory: its phase, the memory, which is at an address, the
# arguments and the variables. A plain tuple, since each launch makes one.
Prepared: TypeAlias = tuple[Code, memoryview, int, Sequence[int], Sequence[int]]


class Replaying(Protocol):
    """What a list of launches asks of its device. `tick_ns` is one tick of its clock.

    `commands_version` changes when commands that were made before are void.
    """

    host_blocks: Blocks
    timeline: Timeline
    tick_ns: int

    @property
    def commands_version(self) -> int: ...
    def working(self, what: str, names: Sequence[str] = ()) -> AbstractContextManager[None]: ...
    def give_scratch(self, phase: Code, /) -> None: ...
    def prepare(self, launches: Sequence[Prepared], /) -> array[int]:
        """Writes what launches have in memory; the commands that start them one after another."""
        ...

    def replay(self, words: array[int], address: int) -> Moment:
        """Starts commands that are also at an address."""
        ...

    def run(self, launches: Sequence[Launch], /) -> None: ...
    def wait(self, moment: Moment) -> None: ...
    def wait_for_all(self) -> None: ...
    def synchronize(self) -> None: ...
    def run_timed(
        self, phase: Code, args: Sequence[int], variables: Sequence[int], /
    ) -> Moment: ...


class _Copy:
    """One copy of the arguments and commands. It may be changed when `moment` has passed."""

    def __init__(self, device: Replaying, nbytes: int) -> None:
        self._blocks = device.host_blocks
        self._taken: list[Block] = []
        self.image = self._memory(nbytes)
        self.words = array("I")
        self.moment: Moment | None = None
        self.changed: set[_Key] = set()

    def _memory(self, nbytes: int) -> Image:
        self._taken.append(self._blocks.take(round_up(nbytes, PAGE)))
        return Image(self._taken[-1].address, self._taken[-1].nbytes)

    def give_commands(self, words: array[int]) -> None:
        """What a replay starts, once."""
        commands = self._memory(4 * len(words))
        commands.fill(words)
        self.words, self.start = words, commands.address

    def will_change(self) -> None:
        """The arguments are about to be changed."""
        self._taken[0].memory.platform.will_write(self.image.address, self.image.nbytes)

    def __del__(self) -> None:
        for block in getattr(self, "_taken", ()):
            self._blocks.give_back(id(block))


class HardwareCallList:
    """Launches that can be replayed."""

    def __init__(self, device: Replaying, launches: Sequence[Launch], keep: object) -> None:
        self._device, self._keep = device, keep
        self._phases: list[list[_Phase]] = [list(launch.phases) for launch in launches]
        self._args = [list(launch.args) for launch in launches]
        self._vars = [list(launch.vars) for launch in launches]
        flat = [(call, phase) for call, phases in enumerate(self._phases) for phase in phases]
        self._names = list(dict.fromkeys(phase.entry.symbol for _, phase in flat))
        self._flat = flat
        self._choosy = [(call, phase.entry) for call, phase in flat if phase.entry.aligned]
        self._places = self._find_places()
        self._copies: list[_Copy] = []
        self._version = -1  # of the scratch memory that the commands know
        self._runs = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._phases)

    @property
    def patched(self) -> int:
        """Words that replays have changed."""
        return sum(copy.image.patched for copy in self._copies)

    def _find_places(self) -> dict[_Key, list[int]]:
        """The words of the arguments' memory where each argument and variable is."""
        found: dict[_Key, list[int]] = {}
        at = 0
        for call, phase in self._flat:
            for number in range(len(self._args[call])):
                here = [at + place for place in phase.arguments.places(False, number)]
                found.setdefault((False, call, number), []).extend(here)
            for number in range(len(self._vars[call])):
                here = [at + place for place in phase.arguments.places(True, number)]
                found.setdefault((True, call, number), []).extend(here)
            at += phase.kernarg_bytes // 4
        self._argument_words = at
        return found

    def set_arg(self, call: int, slot: int, argument: int) -> None:
        """Replaces the memory in argument `slot` of launch `call`."""
        if self._args[call][slot] != argument:
            self._args[call][slot] = argument
            for copy in self._copies:
                copy.changed.add((False, call, slot))

    def set_var(self, call: int, slot: int, value: int) -> None:
        """Replaces the integer in variable `slot` of launch `call`."""
        if self._vars[call][slot] != value:
            self._vars[call][slot] = value
            for copy in self._copies:
                copy.changed.add((True, call, slot))

    def run(self) -> None:
        """Starts every launch; the device goes on by itself."""
        if not self._names:
            return
        device = self._device
        if any(misaligned(entry, self._args[call]) for call, entry in self._choosy):
            self._run_plainly()
            return
        with device.working("replay launches", self._names), self._lock:
            for _, phase in self._flat:
                device.give_scratch(phase)
            if self._version != device.commands_version:
                self._make_copies()
            copy = self._copies[self._runs % _COPIES]
            self._runs += 1
            if copy.moment is not None:
                device.wait(copy.moment)
            self._bring_up_to_date(copy)
            copy.moment = device.replay(copy.words, copy.start)

    def _run_plainly(self) -> None:
        """By launches of their own, some with other memory: nothing of the copies is changed."""
        self._device.run(
            [
                Launch(phases, args, variables)
                for phases, args, variables in zip(
                    self._phases, self._args, self._vars, strict=True
                )
            ]
        )

    def _bring_up_to_date(self, copy: _Copy) -> None:
        if copy.changed:
            copy.will_change()
        for key in copy.changed:
            is_variable, call, number = key
            for place in self._places[key]:
                if is_variable:
                    copy.image.put32(place, self._vars[call][number] & 0xFFFFFFFF)
                else:
                    copy.image.put64(place, self._args[call][number])
        copy.changed.clear()

    def _make_copies(self) -> None:
        """Arguments and commands anew."""
        device = self._device
        device.wait_for_all()  # the blocks may have been another list's
        self._copies = [self._made() for _ in range(_COPIES)]
        self._version = device.commands_version

    def _made(self) -> _Copy:
        copy = _Copy(self._device, 4 * self._argument_words)
        copy.will_change()
        at, launches = copy.image.address, list[Prepared]()
        for call, phase in self._flat:
            block = view(at, phase.kernarg_bytes)
            launches.append((phase, block, at, self._args[call], self._vars[call]))
            at += phase.kernarg_bytes
        copy.give_commands(self._device.prepare(launches))
        return copy

    def run_timed(self) -> list[tuple[int, int]]:
        """Runs every launch by itself; the start and end of each, in ns of the GPU's clock."""
        device, times = self._device, []
        device.synchronize()
        with device.working("time kernels", self._names), self._lock:
            for call, phases in enumerate(self._phases):
                moments = [
                    device.run_timed(phase, self._args[call], self._vars[call]) for phase in phases
                ]
                device.wait(moments[-1])
                start, _ = device.timeline.times(moments[0])
                _, end = device.timeline.times(moments[-1])
                times.append((start * device.tick_ns, end * device.tick_ns))
        return times
