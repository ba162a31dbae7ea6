"""MTLDevice: what is emulated of a GPU, and what it makes."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from treadle.emulate.metal.code import (
    CompileOptions,
    Error,
    Library,
    Pipeline,
    PipelineDescriptor,
)
from treadle.emulate.metal.commands import CommandQueue
from treadle.emulate.metal.faults import Misuse
from treadle.emulate.metal.indirect import IndirectCommandBuffer, IndirectDescriptor
from treadle.emulate.metal.memory import Buffer, Memory
from treadle.emulate.metal.objects import Object, message
from treadle.errors import TreadleError
from treadle.target import APPLE_FAMILIES

if TYPE_CHECKING:
    from treadle.emulate.air import Cached
    from treadle.emulate.simt.execute import CompileIR

__all__ = ["Device"]

_APPLE1 = 1001  # MTLGPUFamilyApple1; each newer family can do what older ones can
_MEMORY = 2 << 30
_LARGEST_BUFFER = 1 << 30
_GONE = "the GPU was removed"
_SHARED_WITH_HOST = 0  # MTLResourceStorageModeShared


class Device(Object):
    """One emulated GPU."""

    def __init__(
        self, family: str, compile_ir: CompileIR, checks_races: bool, cached: Cached | None
    ) -> None:
        if family not in APPLE_FAMILIES:
            known = ", ".join(APPLE_FAMILIES)
            raise ValueError(f"no Apple GPU of {family!r} is emulated; there are {known}")
        self.family = APPLE_FAMILIES[family]
        self.compile_ir, self.checks_races = compile_ir, checks_races
        self.cached = cached
        self.memory = Memory(_MEMORY)
        self.queues: weakref.WeakSet[CommandQueue] = weakref.WeakSet()
        self.is_lost = False

    def lose(self) -> None:
        """From now on the GPU is gone: what was committed fails, and there are no new objects."""
        self.is_lost = True
        for queue in self.queues:
            queue.finish_all()

    @message("name")
    def name(self) -> str:
        return f"emulated Apple {self.family.chip}"

    @message("supportsFamily:")
    def supports_family(self, family: int) -> bool:
        return _APPLE1 <= family <= self.family.number

    @message("maxBufferLength")
    def max_buffer_length(self) -> int:
        return _LARGEST_BUFFER

    @message("recommendedMaxWorkingSetSize")
    def working_set(self) -> int:
        return _MEMORY

    @message("newCommandQueueWithMaxCommandBufferCount:")
    def new_queue(self, most: int) -> CommandQueue:
        queue = CommandQueue(most, self.family.loads_indirect, lambda: self.is_lost)
        self.queues.add(queue)
        return queue

    @message("newBufferWithLength:options:")
    def new_buffer(self, nbytes: int, options: int) -> Buffer | None:
        if options != _SHARED_WITH_HOST:
            raise Misuse(f"buffers with the options {options} are not emulated, only shared ones")
        if not nbytes:
            raise Misuse("a buffer of 0 bytes was asked for")
        if nbytes > _LARGEST_BUFFER:
            raise Misuse(f"a buffer of {nbytes} bytes was asked for, beyond maxBufferLength")
        address = None if self.is_lost else self.memory.take(nbytes)
        return None if address is None else Buffer(self, self.memory, nbytes, address)

    @message("newLibraryWithSource:options:error:")
    def new_library(
        self, text: str, options: CompileOptions, _: None
    ) -> tuple[Library | None, Error | None]:
        if self.is_lost:
            return None, Error(_GONE)
        try:
            made = Library(self, text, options, self.compile_ir, self.checks_races, self.cached)
            return made, None
        except TreadleError as error:
            return None, Error(str(error))

    @message("newComputePipelineStateWithDescriptor:options:reflection:error:")
    def new_pipeline(
        self, descriptor: PipelineDescriptor, options: int, reflection: None, _: None
    ) -> tuple[Pipeline | None, Error | None]:
        if descriptor.function is None:
            raise Misuse("a pipeline without a function")
        if descriptor.function.library.owner is not self:
            raise Misuse("a pipeline of another device's function")
        if self.is_lost:
            return None, Error(_GONE)
        return Pipeline(descriptor.function, descriptor), None

    @message("newIndirectCommandBufferWithDescriptor:maxCommandCount:options:")
    def new_indirect(
        self, descriptor: IndirectDescriptor, most: int, options: int
    ) -> IndirectCommandBuffer:
        return IndirectCommandBuffer(descriptor, most)
