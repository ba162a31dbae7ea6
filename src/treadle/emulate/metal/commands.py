"""Command queues, command buffers and encoders, which hold Metal's rules of order.

A command buffer has one encoder at a time, and is committed once all are ended. What it does
happens late: when somebody waits for it or for one behind it, or when the queue has no room for
more. So a host that reads without waiting finds what was there before.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from treadle.emulate.metal.code import Error, Pipeline
from treadle.emulate.metal.faults import Misuse
from treadle.emulate.metal.indirect import IndirectCommandBuffer
from treadle.emulate.metal.launches import (
    Bound,
    Dispatch,
    Size,
    bound,
    checked_index,
    checked_sizes,
)
from treadle.emulate.metal.memory import Buffer
from treadle.emulate.metal.objects import Object, message
from treadle.emulate.simt.faults import EmulationFault
from treadle.uninterrupted import uninterrupted

__all__ = ["CommandBuffer", "CommandQueue", "Encoder"]

_MOST_BYTES = 4096  # of one setBytes
_COMMITTED, _RUNNING, _COMPLETED, _FAILED = 2, 3, 4, 5  # MTLCommandBufferStatus
_INTERNAL, _PAGE_FAULT, _DEVICE_REMOVED = 1, 3, 11  # MTLCommandBufferError


class _Indirect(NamedTuple):
    """Commands of an indirect command buffer, with what the encoder has loaded and named."""

    commands: IndirectCommandBuffer
    start: int
    count: int
    loaded: Sequence[Pipeline] | None
    reachable: Sequence[Buffer]

    def run(self) -> None:
        self.commands.run(self.start, self.count, self.loaded, self.reachable)


class CommandQueue(Object):
    """MTLCommandQueue: its command buffers run in the order in which they were committed."""

    def __init__(
        self, most: int, loads_all: bool, is_lost: Callable[[], bool] = lambda: False
    ) -> None:
        self.most, self.loads_all, self.is_lost = most, loads_all, is_lost
        self.open = 0  # command buffers that have not completed
        self.has_dropped_an_encoder = False
        self.committed: deque[CommandBuffer] = deque()

    @message("commandBuffer", lends=True)
    def command_buffer(self) -> CommandBuffer:
        if self.has_dropped_an_encoder:  # for which Metal ends the program
            raise Misuse("a command encoder was released without endEncoding")
        if self.open >= self.most:
            if not self.committed:
                raise Misuse(f"{self.most} command buffers are open and none is committed")
            self.finish(self.committed[0])
        self.open += 1
        return CommandBuffer(self)

    def finish(self, last: CommandBuffer) -> None:
        """Runs everything up to a command buffer. An interrupt comes behind that: GPUs go on."""
        uninterrupted(lambda: self._finish(last))

    def _finish(self, last: CommandBuffer) -> None:
        while last.state < _COMPLETED:
            try:
                self.committed[0].run()
            finally:
                self.committed.popleft()
                self.open -= 1

    def finish_all(self) -> None:
        """Runs everything that was committed."""
        if self.committed:
            self.finish(self.committed[-1])


class CommandBuffer(Object):
    """MTLCommandBuffer."""

    def __init__(self, queue: CommandQueue) -> None:
        self.queue, self.state = queue, 0
        self.encoder: weakref.ref[Encoder] | None = None
        self.work: list[Dispatch | _Indirect] = []
        self.failure: Error | None = None
        self.times = (0.0, 0.0)

    def __del__(self) -> None:
        if not self.state:
            self.queue.open -= 1

    @message("computeCommandEncoder", lends=True)
    def compute_encoder(self) -> Encoder:
        if self.state:
            raise Misuse("an encoder of a command buffer that was committed")
        if self.encoder is not None:
            raise Misuse("a second encoder before the first has ended")
        encoder = Encoder(self)
        self.encoder = weakref.ref(encoder)
        return encoder

    @message("commit")
    def commit(self) -> None:
        if self.state:
            raise Misuse("a command buffer was committed twice")
        if self.encoder is not None:
            raise Misuse("a command buffer was committed before its encoder ended")
        self.state = _COMMITTED
        self.queue.committed.append(self)

    @message("waitUntilCompleted")
    def wait(self) -> None:
        if not self.state:
            raise Misuse("a wait for a command buffer that was not committed: it never ends")
        self.queue.finish(self)

    @message("status")
    def status(self) -> int:
        return self.state

    @message("error", lends=True)
    def error(self) -> Error | None:
        return self.failure

    @message("GPUStartTime")
    def start_time(self) -> float:
        return self.times[0]

    @message("GPUEndTime")
    def end_time(self) -> float:
        return self.times[1]

    def run(self) -> None:
        """Does its work; what goes wrong ends it, and is its error."""
        start = time.perf_counter()
        self.state = _RUNNING
        if self.queue.is_lost():
            self.failure = Error("the GPU was removed", _DEVICE_REMOVED)
            self.work = []
        try:
            for one in self.work:
                if isinstance(one, Dispatch):
                    one.run(one.buffers)
                else:
                    one.run()
        except EmulationFault as fault:
            self.failure = Error(str(fault), _PAGE_FAULT)
        except BaseException as error:
            self.failure = Error(f"the emulator broke off: {error!r}", _INTERNAL)
            raise
        finally:
            self.work = []
            self.times = start, time.perf_counter()
            self.state = _FAILED if self.failure else _COMPLETED


class Encoder(Object):
    """MTLComputeCommandEncoder, whose dispatches wait for those before them."""

    def __init__(self, commands: CommandBuffer) -> None:
        self.commands: CommandBuffer | None = commands
        self.pipeline: Pipeline | None = None
        self.bindings: dict[int, Bound | bytes] = {}
        self.reachable: list[Buffer] = []
        self.loaded: list[Pipeline] = []

    def __del__(self) -> None:
        if self.commands is not None:
            self.commands.queue.has_dropped_an_encoder = True

    def _open(self, what: str) -> CommandBuffer:
        if self.commands is None:
            raise Misuse(f"{what} in an encoder that has ended")
        return self.commands

    @message("setComputePipelineState:")
    def set_pipeline(self, pipeline: Pipeline) -> None:
        self._open("a pipeline")
        self.pipeline = pipeline

    @message("setBuffer:offset:atIndex:")
    def set_buffer(self, buffer: Buffer, offset: int, index: int) -> None:
        self._open("a buffer")
        self.bindings[checked_index(index)] = bound(buffer, offset)

    @message("setBytes:length:atIndex:")
    def set_bytes(self, data: bytes, length: int, index: int) -> None:
        self._open("bytes")
        if not 0 < length <= min(len(data), _MOST_BYTES):
            raise Misuse(f"{length} bytes of {len(data)}; setBytes: takes up to {_MOST_BYTES}")
        self.bindings[checked_index(index)] = bytes(data[:length])

    @message("dispatchThreadgroups:threadsPerThreadgroup:")
    def dispatch(self, groups: Size, threads: Size) -> None:
        commands = self._open("a dispatch")
        pipeline = checked_sizes(self.pipeline, threads)
        self.loaded.append(pipeline)
        made = Dispatch(pipeline, dict(self.bindings), groups, threads)
        if 0 not in groups:
            made.check()
        commands.work.append(made)

    @message("useResources:count:usage:")
    def use_resources(self, buffers: list[Buffer], count: int, usage: int) -> None:
        self._open("resources")
        if count != len(buffers):
            raise Misuse(f"{count} resources are announced, and there are {len(buffers)}")
        self.reachable += buffers

    @message("executeCommandsInBuffer:withRange:")
    def execute(self, indirect: IndirectCommandBuffer, places: tuple[int, int]) -> None:
        commands, (start, count) = self._open("indirect commands"), places
        if start + count > len(indirect.commands):
            raise Misuse(f"commands {start} to {start + count} of {len(indirect.commands)}")
        loaded = None if commands.queue.loads_all else list(self.loaded)
        commands.work.append(_Indirect(indirect, start, count, loaded, list(self.reachable)))

    @message("endEncoding")
    def end(self) -> None:
        self._open("endEncoding").encoder = None
        self.commands = None
