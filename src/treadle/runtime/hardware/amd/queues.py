"""The queues of one GPU: kernels by PM4 or by AQL, copies by SDMA.

    queue.submit(Submission(words, moment, [signal], timeout))    # begins when the signal is 0

Each kind says how work waits for signals of others before it, and how its end becomes a signal. A
compute queue also says how a launch becomes words.
"""

from __future__ import annotations

import contextlib
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Protocol

from treadle.runtime.hardware import order
from treadle.runtime.hardware.amd import aql, sdma
from treadle.runtime.hardware.amd.abi import AMD_QUEUE, QueueType
from treadle.runtime.hardware.amd.discovery import Node
from treadle.runtime.hardware.amd.failures import KFDError
from treadle.runtime.hardware.amd.generations import Generation
from treadle.runtime.hardware.amd.kfd import KFD
from treadle.runtime.hardware.amd.launches import Phase, Words, aql_words, pm4_words
from treadle.runtime.hardware.amd.memory import GPUMemory, Where
from treadle.runtime.hardware.amd.pm4 import PM4
from treadle.runtime.hardware.amd.scratch import Scratch
from treadle.runtime.hardware.host_memory import PAGE, round_up, view
from treadle.runtime.hardware.order import Submission
from treadle.runtime.hardware.ring import Ring
from treadle.runtime.hardware.timeline import Moment, Timeline

__all__ = ["AQLQueue", "ComputeQueue", "CopyQueue", "PM4Queue", "Queue", "QueueMaker"]

_RING_BYTES = 1 << 20
_DOORBELL_BYTES = 0x2000
_PROFILING = 1 << 3
_READ_POINTER, _WRITE_POINTER = (
    AMD_QUEUE.offsets[name] for name in ("read_dispatch_id", "write_dispatch_id")
)


# -- making queues --------------------------------------------------------------------------------


class QueueMaker:
    """Makes the queues of one GPU, and holds the memory that they need."""

    def __init__(
        self, kfd: KFD, node: Node, generation: Generation, memory: GPUMemory, timeline: Timeline
    ) -> None:
        self.kfd, self.node, self.generation = kfd, node, generation
        self.timeline, self._memory = timeline, memory
        self._doorbells: int | None = None
        self._queues: list[int] = []
        self._blocks: list[object] = []  # what queues use as long as there are any

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if not exiting():
            self.kfd.platform.at_rest(self._let_go)

    def _let_go(self) -> None:
        for number in self._queues:
            with contextlib.suppress(KFDError):
                self.kfd.call("destroy_queue", queue_id=number)
        if self._doorbells is not None:
            self.kfd.platform.unmap(self._doorbells, _DOORBELL_BYTES)

    def make(self, kind: QueueType, unit: int, offset: int = 0) -> tuple[Ring, int]:
        """A queue's ring, and the address of its pointers, an amd_queue_t."""
        ring = self._memory.alloc(_RING_BYTES, Where.GTT)
        pointers = self._memory.alloc(PAGE, Where.GTT)
        self._blocks += [ring, pointers]
        view(pointers.address, PAGE)[:] = bytes(PAGE)
        if kind == QueueType.COMPUTE_AQL:
            self._prepare_aql(ring.address, pointers.address)
        given = self.kfd.call(
            "create_queue",
            ring_base_address=ring.address,
            ring_size=_RING_BYTES,
            write_pointer_address=pointers.address + _WRITE_POINTER,
            read_pointer_address=pointers.address + _READ_POINTER,
            gpu_id=self.node.gpu_id,
            queue_type=kind,
            queue_percentage=100,
            queue_priority=7,
            **(self._for_compute() if kind != QueueType.SDMA else {}),
        )
        self._queues.append(given["queue_id"])
        doorbell = self._doorbell(given["doorbell_offset"])
        made = Ring(
            self.kfd.platform, self.timeline, ring.address, _RING_BYTES, doorbell=doorbell,
            write_pointer=pointers.address + _WRITE_POINTER, unit=unit, offset=offset,
        )  # fmt: skip
        return made, pointers.address

    def _prepare_aql(self, ring: int, pointers: int) -> None:
        """Packets that are none yet, and what the packet processor finds out from its queue."""
        words = view(ring, _RING_BYTES).cast("I")
        words[:: aql.PACKET_BYTES // 4] = array("I", [1]) * (_RING_BYTES // aql.PACKET_BYTES)
        AMD_QUEUE.put(
            view(pointers, AMD_QUEUE.nbytes),
            read_dispatch_id_field_base_byte_offset=_READ_POINTER,
            max_cu_id=self.node.units - 1,
            max_wave_id=self.node.slots - 1,
            queue_properties=_PROFILING | 1 << 1,  # addresses have 64 bits
        )

    def _for_compute(self) -> dict[str, int]:
        """Memory for interrupts of the end of work, and for waves that others take turns with."""
        stack, area, whole = self._saved_bytes()
        end_of_pipe = self._memory.alloc(PAGE, Where.VRAM)
        saved = self._memory.alloc(whole, Where.GTT)
        self._blocks += [end_of_pipe, saved]
        return {
            "eop_buffer_address": end_of_pipe.address,
            "eop_buffer_size": PAGE,
            "ctx_save_restore_address": saved.address,
            "ctx_save_restore_size": area,
            "ctl_stack_size": stack,
        }

    def _saved_bytes(self) -> tuple[int, int, int]:
        """For one partition the control stack and the area, and what all partitions need."""
        node, generation = self.node, self.generation
        units = node.units // node.partitions
        waves = units * 32 if generation.has_gcr else min(units * 40, node.engines * 512)
        stack = round_up(48 + waves * generation.stack_bytes, PAGE)
        if generation.most_stack is not None:
            stack = min(stack, generation.most_stack)
        each = generation.vector_bytes + 0x4000 + 0x10000 + 0x1000  # scalars, local memory, state
        area = stack + round_up(units * each, PAGE)
        debugger = round_up(waves * 32, 64)
        return stack, area, round_up((area + debugger) * node.partitions, PAGE)

    def _doorbell(self, offset: int) -> int:
        """The address of a doorbell."""
        platform = self.kfd.platform
        page, inside = offset & -_DOORBELL_BYTES, offset % _DOORBELL_BYTES
        if self._doorbells is None:
            address = platform.reserve(_DOORBELL_BYTES, PAGE)
            platform.map(self.kfd.fd, _DOORBELL_BYTES, page, address)
            self._doorbells = address
        return self._doorbells + inside


# -- queues ---------------------------------------------------------------------------------------


class Queue:
    """What all queues have. `limit` is how many words one submission may have, in whole packets."""

    def __init__(self, maker: QueueMaker, ring: Ring) -> None:
        self._ring, self._timeline = ring, maker.timeline
        self._maker = maker  # which holds the queue's memory
        interrupt = maker.kfd.interrupt
        assert interrupt is not None
        self._interrupt = interrupt
        self.limit = ring.most_words

    def before(self, after: Sequence[int]) -> list[int]:
        """Words that wait until signals are 0."""
        raise NotImplementedError

    def behind(self, moment: Moment, is_timed: bool) -> list[int]:
        """Words that make the end of the work a signal."""
        raise NotImplementedError

    def submit(self, given: Submission) -> None:
        """Starts work."""
        all_words = array("I", self.before(given.after))
        all_words += given.words
        all_words += array("I", self.behind(given.moment, given.is_timed))
        self._put(all_words, given)

    @property
    def position(self) -> int:
        """How many words were ever put into the ring."""
        return self._ring.position

    def finish(self, moment: Moment) -> None:
        """Goes on with a submission that was interrupted when its words were in the ring."""
        self._ring.submit(moment)

    def _put(self, words: array[int], given: Submission) -> None:
        ring = self._ring
        ring.make_room(len(words), given.timeout)
        ring.put(words)
        ring.submit(given.moment)


class CopyQueue(Queue):
    """Copies, by SDMA."""

    def __init__(self, maker: QueueMaker) -> None:
        ring, _ = maker.make(QueueType.SDMA, unit=1)
        self._is_uncached = maker.generation.has_gcr
        super().__init__(maker, ring)

    def copy(self, target: int, source: int, nbytes: int) -> array[int]:
        """Words that copy."""
        return array("I", sdma.copy(target, source, nbytes))

    def before(self, after: Sequence[int]) -> list[int]:
        return [word for signal in after for word in sdma.poll(signal)]

    def behind(self, moment: Moment, is_timed: bool) -> list[int]:
        times = sdma.timestamp(self._timeline.end_of(moment)) if is_timed else []
        event, mailbox = self._interrupt
        return [
            *times, *sdma.fence(self._timeline.value_of(moment), 0, self._is_uncached),
            *sdma.fence(mailbox, event, self._is_uncached), *sdma.trap(event),
        ]  # fmt: skip


class ComputeQueue(order.Queue, Protocol):
    """A queue that runs kernels: launches become words for it."""

    def launch(self, phase: Phase, scratch: Scratch) -> Words:
        """A launch as words."""
        ...

    def replay(self, words: array[int], address: int) -> array[int]:
        """What starts words that are also at an address, all that they say."""
        ...

    def use_scratch(self, scratch: Scratch, wave_bytes: int) -> None:
        """Tells the queue of other scratch memory, when it is idle."""
        ...


class PM4Queue(Queue):
    """Kernels, by PM4."""

    def __init__(self, maker: QueueMaker) -> None:
        ring, self._pointers = maker.make(QueueType.COMPUTE, unit=4)
        self._generation, self._pm4 = maker.generation, PM4(maker.generation)
        super().__init__(maker, ring)

    def launch(self, phase: Phase, scratch: Scratch) -> Words:
        if phase.cached is None or phase.cached[0] != scratch.version:
            words = pm4_words(self._pm4, self._generation, phase, scratch, self._pointers)
            phase.cached = scratch.version, words
        return phase.cached[1]

    def replay(self, words: array[int], address: int) -> array[int]:
        return array("I", self._pm4.indirect(address, len(words)))

    def use_scratch(self, scratch: Scratch, wave_bytes: int) -> None:
        pass  # each launch says it

    def before(self, after: Sequence[int]) -> list[int]:
        waits = [word for signal in after for word in self._pm4.wait(signal)]
        return waits + self._pm4.acquire()

    def behind(self, moment: Moment, is_timed: bool) -> list[int]:
        event, mailbox = self._interrupt
        times = self._pm4.signal_time(self._timeline.end_of(moment)) if is_timed else []
        return [
            *times, *self._pm4.signal(self._timeline.value_of(moment), 0),
            *self._pm4.signal(mailbox, event, event),
        ]  # fmt: skip

    def submit(self, given: Submission) -> None:
        if given.is_timed:
            began = self._pm4.write_time(self._timeline.start_of(given.moment))
            given = given._replace(words=array("I", began) + given.words)
        super().submit(given)


class AQLQueue(Queue):
    """Kernels, by AQL. The last packet's completion signal is the signal of a submission."""

    def __init__(self, maker: QueueMaker) -> None:
        unit = aql.PACKET_BYTES
        ring, self._pointers = maker.make(QueueType.COMPUTE_AQL, unit=unit, offset=-1)
        super().__init__(maker, ring)

    def launch(self, phase: Phase, scratch: Scratch) -> Words:
        if phase.cached is None:
            phase.cached = 0, aql_words(phase)
        return phase.cached[1]

    def replay(self, words: array[int], address: int) -> array[int]:
        return words[:]

    def use_scratch(self, scratch: Scratch, wave_bytes: int) -> None:
        assert scratch.block is not None
        AMD_QUEUE.put(
            view(self._pointers, AMD_QUEUE.nbytes),
            compute_tmpring_size=scratch.ring_size(wave_bytes),
            scratch_resource_descriptor=scratch.descriptor(scratch.wave),
            scratch_backing_memory_location=scratch.base,
            scratch_backing_memory_byte_size=scratch.block.nbytes,
            scratch_wave64_lane_byte_size=wave_bytes // 64,
        )

    def submit(self, given: Submission) -> None:
        signal, after = given.moment.address, given.after
        all_words = array("I")
        for start in range(0, len(after), aql.MOST_DEPENDENCIES):
            chosen = [one - self._value for one in after[start : start + aql.MOST_DEPENDENCIES]]
            all_words += aql.barrier(chosen)
        all_words += given.words
        place = len(all_words) - aql.PACKET_BYTES // 4 + aql.SIGNAL_WORD
        all_words[place], all_words[place + 1] = signal & 0xFFFFFFFF, signal >> 32
        self._put(all_words, given)

    @property
    def _value(self) -> int:
        return self._timeline.value_of(Moment(0, 0))
