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
from typing import TYPE_CHECKING, Protocol

from treadle.runtime.hardware.amd.launches import Phase
from treadle.runtime.hardware.amd.scratch import Scratch
from treadle.runtime.hardware.host_memory import PAGE, round_up, view
from treadle.runtime.hardware.stream import Image
from treadle.runtime.hardware.timeline import Moment, Timeline

if TYPE_CHECKING:
    from treadle.runtime.base import Launch
    from treadle.runtime.hardware.amd.buffers import Blocks
    from treadle.runtime.hardware.amd.queues import ComputeQueue

__all__ = ["AMDCallList"]

_COPIES = 2
_TICK_NS = 10
_Key = tuple[bool, int, int]  # whether it is a variable; the launch; its number


class _Device(Protocol):
    """What a list of launches asks of its device, an AMDDevice."""

    compute: ComputeQueue
    scratch: Scratch
    host_blocks: Blocks
    timeline: Timeline

    def working(self, what: str, names: Sequence[str] = ()) -> AbstractContextManager[None]: ...
    def give_scratch(self, phase: Phase) -> None: ...
    def start(self, queue: ComputeQueue, words: array[int], is_timed: bool = False) -> Moment: ...
    def wait(self, moment: Moment) -> None: ...
    def wait_for_all(self) -> None: ...
    def synchronize(self) -> None: ...
    def run_timed(self, phase: Phase, args: Sequence[int], variables: Sequence[int]) -> Moment: ...


class _Copy:
    """One copy of the commands and arguments. It may be changed when `moment` has passed."""

    def __init__(self, device: _Device, nbytes: int) -> None:
        self._blocks = device.host_blocks
        self.block = self._blocks.take(round_up(nbytes, PAGE))
        self.image = Image(self.block.address, self.block.nbytes)
        self.words = array("I")
        self.moment: Moment | None = None
        self.changed: set[_Key] = set()

    def __del__(self) -> None:
        if hasattr(self, "block"):
            self._blocks.give_back(id(self.block))


class AMDCallList:
    """Launches that can be replayed."""

    def __init__(self, device: _Device, launches: Sequence[Launch], keep: object) -> None:
        self._device, self._keep = device, keep
        self._phases: list[list[Phase]] = [list(launch.phases) for launch in launches]
        self._args = [list(launch.args) for launch in launches]
        self._vars = [list(launch.vars) for launch in launches]
        flat = [(call, phase) for call, phases in enumerate(self._phases) for phase in phases]
        self._names = list(dict.fromkeys(phase.entry.symbol for _, phase in flat))
        self._flat = flat
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
                here = [at + place for place in phase.places(False, number)]
                found.setdefault((False, call, number), []).extend(here)
            for number in range(len(self._vars[call])):
                here = [at + place for place in phase.places(True, number)]
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
        with device.working("replay launches", self._names), self._lock:
            for _, phase in self._flat:
                device.give_scratch(phase)
            if self._version != device.scratch.version:
                self._make_copies()
            copy = self._copies[self._runs % _COPIES]
            self._runs += 1
            if copy.moment is not None:
                device.wait(copy.moment)
            self._bring_up_to_date(copy)
            words = device.compute.replay(copy.words, copy.block.address + 4 * self._argument_words)
            for start in range(0, len(words), device.compute.limit):
                part = words[start : start + device.compute.limit]
                copy.moment = device.start(device.compute, part)

    def _bring_up_to_date(self, copy: _Copy) -> None:
        for key in copy.changed:
            is_variable, call, number = key
            for place in self._places[key]:
                if is_variable:
                    copy.image.put32(place, self._vars[call][number] & 0xFFFFFFFF)
                else:
                    copy.image.put64(place, self._args[call][number])
        copy.changed.clear()

    def _make_copies(self) -> None:
        """Commands and arguments anew: arguments first, commands behind them."""
        self._device.wait_for_all()  # the blocks may have been another list's
        made = [self._device.compute.launch(phase, self._device.scratch) for _, phase in self._flat]
        count = sum(len(one.words) for one in made)
        self._copies = [
            _Copy(self._device, 4 * (self._argument_words + count)) for _ in range(_COPIES)
        ]
        for copy in self._copies:
            at = copy.block.address
            for (call, phase), one in zip(self._flat, made, strict=True):
                phase.pack(view(at, phase.kernarg_bytes), self._args[call], self._vars[call])
                words = one.words[:]
                if one.kernarg is not None:
                    words[one.kernarg], words[one.kernarg + 1] = at & 0xFFFFFFFF, at >> 32
                copy.words += words
                at += phase.kernarg_bytes
            copy.image.fill(copy.words, self._argument_words)
        self._version = self._device.scratch.version

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
                times.append((start * _TICK_NS, end * _TICK_NS))
        return times
