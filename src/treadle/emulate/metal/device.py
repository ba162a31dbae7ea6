"""MTLDevice: what is emulated of a GPU, and what it makes."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from treadle.emulate.air import Cached
    from treadle.emulate.simt.execute import CompileIR

__all__ = ["Device"]

_APPLE1 = 1001  # MTLGPUFamilyApple1; each newer family follows
_MEMORY = 2 << 30
_LARGEST_BUFFER = 1 << 30
_SHARED_WITH_HOST = 0  # MTLResourceStorageModeShared
_LOADS_ALL = "apple9"  # from it on pipelines of indirect commands are there by themselves
_CHIPS = {"apple7": "M1", "apple8": "M2", "apple9": "M3"}


class Device(Object):
    """One emulated GPU."""

    def __init__(
        self, family: str, compile_ir: CompileIR, checks_races: bool, cached: Cached | None
    ) -> None:
        if family not in _CHIPS:
            known = ", ".join(_CHIPS)
            raise ValueError(f"no Apple GPU of {family!r} is emulated; there are {known}")
        self.family, self.compile_ir, self.checks_races = family, compile_ir, checks_races
        self.cached = cached
        self.number = _APPLE1 + int(family.removeprefix("apple")) - 1
        self.memory = Memory(_MEMORY)

    @message("name")
    def name(self) -> str:
        return f"emulated Apple {_CHIPS[self.family]}"

    @message("supportsFamily:")
    def supports_family(self, family: int) -> bool:
        return _APPLE1 <= family <= self.number

    @message("maxBufferLength")
    def max_buffer_length(self) -> int:
        return _LARGEST_BUFFER

    @message("recommendedMaxWorkingSetSize")
    def working_set(self) -> int:
        return _MEMORY

    @message("newCommandQueueWithMaxCommandBufferCount:")
    def new_queue(self, most: int) -> CommandQueue:
        return CommandQueue(most, loads_all=self.family >= _LOADS_ALL)

    @message("newBufferWithLength:options:")
    def new_buffer(self, nbytes: int, options: int) -> Buffer | None:
        if options != _SHARED_WITH_HOST:
            raise Misuse(f"buffers with the options {options} are not emulated, only shared ones")
        if not nbytes:
            raise Misuse("a buffer of 0 bytes was asked for")
        if nbytes > _LARGEST_BUFFER:
            raise Misuse(f"a buffer of {nbytes} bytes was asked for, beyond maxBufferLength")
        address = self.memory.take(nbytes)
        return None if address is None else Buffer(self, self.memory, nbytes, address)

    @message("newLibraryWithSource:options:error:")
    def new_library(
        self, text: str, options: CompileOptions, _: None
    ) -> tuple[Library | None, Error | None]:
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
        return Pipeline(descriptor.function, descriptor), None

    @message("newIndirectCommandBufferWithDescriptor:maxCommandCount:options:")
    def new_indirect(
        self, descriptor: IndirectDescriptor, most: int, options: int
    ) -> IndirectCommandBuffer:
        return IndirectCommandBuffer(descriptor, most)
