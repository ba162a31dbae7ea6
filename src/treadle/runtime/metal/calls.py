"""Launches on Metal: encoded into one command buffer and committed, or replayed from the GPU's own.

    calls = device.call_list(launches)
    calls.set_arg(0, 1, other_buffer)
    calls.run()

The first run encodes each launch anew, which is all that a list needs that runs once. From the
second run on the launches are in an indirect command buffer: a replay is one call, however many
launches there are, and a changed argument is one more. Its commands take integers from a buffer of
their own, since they cannot hold any. There are two such buffers of commands: what changes is
written into the one that the GPU has read, while it may still read the other.

Two surprises of indirect command buffers: they keep nothing alive and bring nothing into the GPU's
reach, so each run names all memory that they use; and before Apple9 pipelines that only stand in
one may not be loaded when it runs, so that each is bound once in every encoder.
"""

from __future__ import annotations

from array import array
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from treadle.target import VARIABLES_AT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from treadle.runtime.base import Entry, Launch
    from treadle.runtime.metal.memory import MetalAllocator, MetalBuffer
    from treadle.runtime.metal.messages import Handle, Messages, Size
    from treadle.runtime.presence import Presence

__all__ = ["MetalCallList", "Phase"]

_CONCURRENT_DISPATCH = 1 << 5  # MTLIndirectCommandTypeConcurrentDispatch
_READ_AND_WRITE = 1 | 2  # MTLResourceUsage
_BINDINGS = VARIABLES_AT + 1
_INTEGER = 4
_SETS = 2  # of indirect commands
_MOST_COMMANDS = 16_384  # of one indirect command buffer, as Metal's documentation has it


class Phase(NamedTuple):
    """One pipeline, and what its launches take."""

    pipeline: Handle
    entry: Entry

    @property
    def sizes(self) -> tuple[Size, Size]:
        """The threadgroups, and the threads of one."""
        return (self.entry.grid, 1, 1), (self.entry.work_items, 1, 1)


class _Device(Protocol):
    """What a list of launches asks of its device, a MetalDevice."""

    messages: Messages
    handle: Handle
    queue: Handle
    loads_indirect: bool
    commits: int
    allocator: MetalAllocator

    @property
    def presence(self) -> Presence: ...
    @property
    def lock(self) -> AbstractContextManager[object]: ...
    def commit(self, commands: Handle) -> None: ...
    def finish(self, commits: int) -> None: ...
    def look_for_errors(self) -> None: ...
    def synchronize(self) -> None: ...


class MetalCallList:
    """Launches that can be replayed."""

    def __init__(self, device: _Device, launches: Sequence[Launch], keep: object) -> None:
        self._device, self._keep = device, keep
        self._phases: list[list[Phase]] = [list(launch.phases) for launch in launches]
        self._args: list[list[MetalBuffer]] = [list(launch.args) for launch in launches]
        self._vars = [list(launch.vars) for launch in launches]
        self._has_run = False
        self._is_refused = False  # whether pyobjc cannot encode indirect commands
        # The last is replayed next; what changed since it was written goes into the first.
        self._indirect: deque[_Indirect] = deque(maxlen=_SETS)

    def __len__(self) -> int:
        return len(self._phases)

    def set_arg(self, call: int, slot: int, argument: MetalBuffer) -> None:
        """Replaces the memory in argument `slot` of launch `call`."""
        self._args[call][slot] = argument
        self._change(call)

    def set_var(self, call: int, slot: int, value: int) -> None:
        """Replaces the integer in variable `slot` of launch `call`."""
        self._vars[call][slot] = value
        self._change(call)

    def _change(self, call: int) -> None:
        for indirect in self._indirect:
            indirect.changed.add(call)

    def run(self) -> None:
        """Commits every launch; the GPU starts at once and goes on by itself."""
        device = self._device
        device.presence.check()
        if not any(self._phases):
            return
        with device.lock, device.messages.pool():
            device.look_for_errors()
            is_replay = self._has_run and self._is_encoded()
            commands = device.messages.send(device.queue, "commandBuffer")
            with self._encoder(commands) as encoder:
                if is_replay:
                    self._replay(encoder)
                else:
                    for call in range(len(self._phases)):
                        self._encode(encoder, call)
            device.commit(commands)
            if is_replay:
                self._indirect[-1].read_by = device.commits
        self._has_run = True

    def run_timed(self) -> list[tuple[int, int]]:
        """Runs every launch by itself; start and end of each in ns of the GPU's clock."""
        device, messages, times = self._device, self._device.messages, []
        device.presence.check()
        with device.lock, messages.pool():
            for call in range(len(self._phases)):
                commands = messages.send(device.queue, "commandBuffer")
                with self._encoder(commands) as encoder:
                    self._encode(encoder, call)
                device.commit(commands)
                device.synchronize()
                ends = (messages.seconds(commands, f"GPU{end}Time") for end in ("Start", "End"))
                start, end = (round(1e9 * second) for second in ends)
                times.append((start, end))
        return times

    @contextmanager
    def _encoder(self, commands: Handle) -> Iterator[Handle]:
        """An encoder, which ends whatever happens: Metal ends a program that drops an open one."""
        messages = self._device.messages
        encoder = messages.send(commands, "computeCommandEncoder")
        try:
            yield encoder
        finally:
            messages.tell(encoder, "endEncoding")

    def _encode(self, encoder: Handle, call: int) -> None:
        """One launch, in an encoder of commands that wait for those before them."""
        tell, args = self._device.messages.tell, self._args[call]
        for phase in self._phases[call]:
            tell(encoder, "setComputePipelineState:", phase.pipeline)
            for number, slot in enumerate(phase.entry.slots):
                buffer = args[slot.number]
                tell(encoder, "setBuffer:offset:atIndex:", buffer.handle, buffer.offset, number)
            if phase.entry.variables:
                values = self._integers(call, phase)
                tell(encoder, "setBytes:length:atIndex:", values, len(values), VARIABLES_AT)
            tell(encoder, "dispatchThreadgroups:threadsPerThreadgroup:", *phase.sizes)

    def _integers(self, call: int, phase: Phase) -> bytes:
        return array("i", (self._vars[call][place] for place in phase.entry.variables)).tobytes()

    # -- replays --------------------------------------------------------------------------------

    def _is_encoded(self) -> bool:
        """Brings an indirect command buffer up to date; False where there can be none.

        pyobjc's tables have other types than Metal for some of these methods. Where it refuses
        the right ones, launches are encoded anew each time.
        """
        if self._is_refused or sum(map(len, self._phases)) > _MOST_COMMANDS:
            return False
        try:
            if not self._indirect or self._indirect[-1].changed:
                self._renew()
        except (TypeError, ValueError):
            self._is_refused = True
            self._indirect.clear()
        return not self._is_refused

    def _renew(self) -> None:
        """Writes what has changed where the GPU no longer reads, to be replayed next."""
        if len(self._indirect) < _SETS:
            indirect = _Indirect(self._device, self._phases)
        else:
            indirect = self._indirect[0]
            self._device.finish(indirect.read_by)
        for call in sorted(indirect.changed):
            self._update(indirect, call)
        indirect.changed.clear()
        self._indirect.append(indirect)

    def _replay(self, encoder: Handle) -> None:
        """All launches, from the indirect command buffer."""
        indirect = self._indirect[-1]
        messages = self._device.messages
        used = {id(b.handle): b.handle for args in self._args for b in args}
        resources = [*used.values(), *indirect.memory()]
        messages.tell(
            encoder, "useResources:count:usage:", resources, len(resources), _READ_AND_WRITE
        )
        if not self._device.loads_indirect:
            for pipeline in indirect.pipelines:
                messages.tell(encoder, "setComputePipelineState:", pipeline)
                messages.tell(
                    encoder, "dispatchThreadgroups:threadsPerThreadgroup:", (0, 0, 0), (1, 1, 1)
                )
        messages.tell(
            encoder, "executeCommandsInBuffer:withRange:", indirect.handle, (0, indirect.count)
        )

    def _update(self, indirect: _Indirect, call: int) -> None:
        """Write a launch's memory and integers into its commands."""
        tell = self._device.messages.tell
        for command, phase in zip(indirect.commands[call], self._phases[call], strict=True):
            for number, slot in enumerate(phase.entry.slots):
                buffer = self._args[call][slot.number]
                tell(
                    command.handle, "setKernelBuffer:offset:atIndex:",
                    buffer.handle, buffer.offset, number,
                )  # fmt: skip
            if command.integers_at is not None:
                assert indirect.integers is not None
                values, start = self._integers(call, phase), command.integers_at
                indirect.integers.view()[start : start + len(values)] = values


class _Command(NamedTuple):
    """One command of an indirect command buffer, and where its integers are."""

    handle: Handle
    integers_at: int | None


class _Indirect:
    """An indirect command buffer with one command for each phase of each launch.

    `changed` are the launches whose commands have to be written again: at first all of them.
    """

    def __init__(self, device: _Device, launches: Sequence[Sequence[Phase]]) -> None:
        messages = device.messages
        phases = [phase for launch in launches for phase in launch]
        self.read_by = 0  # the number of the last command buffer that replays it
        self.count, self.changed = len(phases), set(range(len(launches)))
        self.pipelines = list({id(p.pipeline): p.pipeline for p in phases}.values())
        nbytes = _INTEGER * sum(len(phase.entry.variables) for phase in phases)
        self.integers = device.allocator.alloc(nbytes) if nbytes else None
        descriptor = messages.made("MTLIndirectCommandBufferDescriptor")
        messages.tell(descriptor, "setCommandTypes:", _CONCURRENT_DISPATCH)
        messages.tell(descriptor, "setInheritBuffers:", False)
        messages.tell(descriptor, "setInheritPipelineState:", False)
        messages.tell(descriptor, "setMaxKernelBufferBindCount:", _BINDINGS)
        self.handle = messages.send(
            device.handle, "newIndirectCommandBufferWithDescriptor:maxCommandCount:options:",
            descriptor, self.count, 0,
        )  # fmt: skip
        numbers, start = iter(range(self.count)), 0
        self.commands: list[list[_Command]] = []
        for launch in launches:
            made = []
            for phase in launch:
                made.append(self._command(messages, next(numbers), phase, start))
                start += _INTEGER * len(phase.entry.variables)
            self.commands.append(made)

    def _command(self, messages: Messages, number: int, phase: Phase, start: int) -> _Command:
        handle = messages.send(self.handle, "indirectComputeCommandAtIndex:", number)
        messages.tell(handle, "setComputePipelineState:", phase.pipeline)
        if phase.entry.variables:
            assert self.integers is not None
            messages.tell(
                handle, "setKernelBuffer:offset:atIndex:", self.integers.handle, start, VARIABLES_AT
            )
        messages.tell(handle, "concurrentDispatchThreadgroups:threadsPerThreadgroup:", *phase.sizes)
        messages.tell(handle, "setBarrier")  # the next one waits for it
        return _Command(handle, start if phase.entry.variables else None)

    def memory(self) -> list[Handle]:
        """What its commands read beside the launches' own memory."""
        return [] if self.integers is None else [self.integers.handle]
