"""Indirect command buffers: dispatches that the GPU reads from memory when it runs them.

They hold no reference to what they use, and bring nothing in reach: who runs them names the memory.
Before Apple9 a pipeline that only stands in one may not be there when it runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from treadle.emulate.metal.faults import Misuse
from treadle.emulate.metal.launches import (
    Bound,
    Dispatch,
    Size,
    bound,
    checked_index,
    checked_sizes,
)
from treadle.emulate.metal.objects import Object, message

if TYPE_CHECKING:
    from treadle.emulate.metal.code import Pipeline
    from treadle.emulate.metal.memory import Buffer

__all__ = ["IndirectCommandBuffer", "IndirectDescriptor"]

_CONCURRENT_DISPATCH = 1 << 5
_MOST_COMMANDS = 16384


class IndirectDescriptor(Object):
    """MTLIndirectCommandBufferDescriptor. Commands inherit everything unless it says otherwise."""

    def __init__(self) -> None:
        self.types = self.most_bindings = 0
        self.inherits_buffers = self.inherits_pipeline = True

    @message("setCommandTypes:")
    def set_types(self, types: int) -> None:
        self.types = types

    @message("setInheritBuffers:")
    def set_inherit_buffers(self, inherits: bool) -> None:
        self.inherits_buffers = inherits

    @message("setInheritPipelineState:")
    def set_inherit_pipeline(self, inherits: bool) -> None:
        self.inherits_pipeline = inherits

    @message("setMaxKernelBufferBindCount:")
    def set_most_bindings(self, count: int) -> None:
        self.most_bindings = count


class IndirectCommandBuffer(Object):
    """MTLIndirectCommandBuffer."""

    def __init__(self, descriptor: IndirectDescriptor, most: int) -> None:
        if descriptor.types != _CONCURRENT_DISPATCH:
            raise Misuse(f"indirect commands of types {descriptor.types:#x} are not emulated")
        if descriptor.inherits_buffers or descriptor.inherits_pipeline:
            raise Misuse("indirect commands that inherit buffers or a pipeline are not emulated")
        if not 0 < most <= _MOST_COMMANDS:
            raise Misuse(f"{most} indirect commands; there are at most {_MOST_COMMANDS}")
        self.commands = [_Command(descriptor.most_bindings) for _ in range(most)]

    @message("indirectComputeCommandAtIndex:", lends=True)
    def command_at(self, index: int) -> _Command:
        if index >= len(self.commands):
            raise Misuse(f"indirect command {index} of {len(self.commands)}")
        return self.commands[index]

    def run(
        self,
        start: int,
        count: int,
        loaded: Collection[Pipeline] | None,
        reachable: Sequence[Buffer],
    ) -> None:
        """Runs commands as they are now, with the memory in reach.

        `loaded` are the pipelines that are there; None is all that there are.
        """
        commands = self.commands[start : start + count]
        for number, command in enumerate(commands, start):
            dispatch = command.dispatch(number)
            if loaded is not None and dispatch.pipeline not in loaded:
                raise Misuse(f"command {number}'s pipeline was not loaded by its encoder")
            lacking = [one for one in dispatch.buffers if one not in reachable]
            if lacking:
                raise Misuse(f"command {number} takes memory that no useResources: names")
            if number != start + len(commands) - 1 and not command.has_barrier:
                raise Misuse(f"command {number} has no barrier: the next one does not wait for it")
            dispatch.run(reachable)


class _Command(Object):
    """MTLIndirectComputeCommand."""

    def __init__(self, most_bindings: int) -> None:
        self.most_bindings = most_bindings
        self.pipeline: Pipeline | None = None
        self.bindings: dict[int, Bound] = {}
        self.sizes: tuple[Size, Size] | None = None
        self.has_barrier = False

    @message("setComputePipelineState:")
    def set_pipeline(self, pipeline: Pipeline) -> None:
        if not pipeline.is_indirect:
            raise Misuse("this pipeline does not support indirect command buffers")
        self.pipeline = pipeline

    @message("setKernelBuffer:offset:atIndex:")
    def set_buffer(self, buffer: Buffer, offset: int, index: int) -> None:
        if checked_index(index) >= self.most_bindings:
            raise Misuse(f"buffer {index}: these commands have {self.most_bindings}")
        self.bindings[index] = bound(buffer, offset)

    @message("concurrentDispatchThreadgroups:threadsPerThreadgroup:")
    def set_dispatch(self, groups: Size, threads: Size) -> None:
        checked_sizes(self.pipeline, threads)
        self.sizes = groups, threads

    @message("setBarrier")
    def set_barrier(self) -> None:
        self.has_barrier = True

    def dispatch(self, number: int) -> Dispatch:
        """What it does. Raises Misuse if it was not encoded."""
        if self.pipeline is None or self.sizes is None:
            raise Misuse(f"indirect command {number} was not encoded")
        made = Dispatch(self.pipeline, self.bindings, *self.sizes)
        made.check()
        return made
