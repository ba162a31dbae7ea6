"""One AMD GPU as a runtime: memory, launches and copies, in the order in which they are started.

    device = AMDDevice("AMD", kfd, 0, make_target)
    library = device.load(code, [Entry("k_0", grid=8, work_items=64, slots=...)])
    device.write(buffer, data)
    device.run([Launch(library.phases, [buffer.argument])])
    device.read(buffer, into)

Kernels go to one queue, copies to another. Each piece of work waits for the one before it where
that is on the other queue, and has a signal that says when it has ended (`timeline`). A call
returns before its work is done, so that a kernel's fault shows at a later call.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from treadle.errors import InternalError
from treadle.forks import fork_safe
from treadle.runtime.block_cache import BlockCache
from treadle.runtime.hardware.amd.abi import AMD_SIGNAL, SIGNAL_SLOT
from treadle.runtime.hardware.amd.failures import Failures
from treadle.runtime.hardware.amd.generations import generation_of
from treadle.runtime.hardware.amd.kfd import EVENT_PAGE_BYTES, KFD
from treadle.runtime.hardware.amd.launches import Phase
from treadle.runtime.hardware.amd.memory import GPUMemory, Where
from treadle.runtime.hardware.amd.queues import (
    AQLQueue,
    ComputeQueue,
    CopyQueue,
    PM4Queue,
    QueueMaker,
)
from treadle.runtime.hardware.amd.scratch import Scratch
from treadle.runtime.hardware.blocks import Block
from treadle.runtime.hardware.buffers import Allocator, Blocks, DeviceBuffer
from treadle.runtime.hardware.calls import HardwareCallList, Prepared
from treadle.runtime.hardware.codeobject import Image, link
from treadle.runtime.hardware.host_memory import view
from treadle.runtime.hardware.ring import Room
from treadle.runtime.hardware.staging import Staging
from treadle.runtime.hardware.timeline import Moment, Timeline

if TYPE_CHECKING:
    from treadle.runtime.base import Entry, Launch
    from treadle.runtime.hardware.amd.discovery import Node
    from treadle.target import Target

__all__ = ["AMDDevice"]

_TIMEOUT = 60.0  # seconds without an end, after which work is taken to hang
_EMULATED_TIMEOUT = 3600.0  # kernels are slow there, and a wait in vain takes no time
_MOMENTS = 4096
_ARGUMENT_BYTES = 1 << 20
_MOST_AT_ONCE = 1 << 30  # of a copy between GPUs


class _Library:
    """Loaded code. `phases` are what launches take; they hold the code's memory."""

    def __init__(self, image: Image, memory: DeviceBuffer, entries: Sequence[Entry]) -> None:
        missing = [entry.symbol for entry in entries if entry.symbol not in image.kernels]
        if missing:
            raise InternalError(f"the code has no kernels {', '.join(missing)}")
        self.phases = [Phase(image.kernels[entry.symbol], memory, entry) for entry in entries]


class AMDDevice:
    """GPU `index` of those that the driver shows; `make_target` gives the Target of its facts.

    `uses_aql` chooses the queue of kernels: where it is None, that is AQL for a GPU of several
    partitions, among which only AQL divides work, and PM4 elsewhere. `timeout` is in seconds.
    Raises DeviceError.
    """

    has_addresses = True
    shares_memory = False
    kernel_bytes = 1 << 16
    tick_ns = 10

    def __init__(
        self,
        name: str,
        kfd: KFD,
        index: int,
        make_target: Callable[[Node], Target],
        *,
        uses_aql: bool | None = None,
        timeout: float | None = None,
    ) -> None:
        self.name, self.index, self.kfd = name, index, kfd
        usual = _EMULATED_TIMEOUT if kfd.platform.is_emulated else _TIMEOUT
        self.timeout = usual if timeout is None else timeout
        self.node = kfd.node(index, name)
        self.generation = generation_of(self.node.version)
        self.target = make_target(self.node)
        self.is_software = kfd.platform.is_emulated
        self.failures = Failures(name, kfd.platform)
        self._lock = fork_safe(threading.RLock())
        with self.failures.translated("open the GPU"):
            self.memory = GPUMemory(kfd, self.node)
            self._prepare(uses_aql if uses_aql is not None else self.node.partitions > 1)
        kfd.watch(self.node, self.failures)
        self.allocator = Allocator(self.memory, self.failures, self.node.memory, self.synchronize)

    def _prepare(self, uses_aql: bool) -> None:
        self._prepare_events()
        self.timeline = self._make_timeline()
        maker = QueueMaker(self.kfd, self.node, self.generation, self.memory, self.timeline)
        self.compute: ComputeQueue = AQLQueue(maker) if uses_aql else PM4Queue(maker)
        self.copies = CopyQueue(maker)
        self.scratch = Scratch(self.node, self.generation, self.memory)
        self._arguments = self.memory.alloc(_ARGUMENT_BYTES, Where.GTT)
        self._argument_bytes = view(self._arguments.address, _ARGUMENT_BYTES)
        self._argument_room = Room(self.timeline, _ARGUMENT_BYTES)
        self._staging = Staging(self.memory.alloc_shared)
        self.host_blocks: Blocks = BlockCache(
            self.memory.alloc_shared,
            int,
            fork_safe(threading.RLock()),
            self.synchronize,
        )
        self._last: Moment | None = None
        self._last_queue: object = None
        self._foreign: list[tuple[AMDDevice, Moment]] = []  # of other devices, to wait for next
        self._awaited: list[tuple[AMDDevice, Moment]] = []  # that queues wait for

    def _prepare_events(self) -> None:
        """The page by which all GPUs interrupt, made by the first that is opened."""
        if self.kfd.interrupt is None:
            page = self.memory.alloc(EVENT_PAGE_BYTES, Where.GTT)
            self.kfd.make_events(page.handle, page.address)
            self._share(page)

    def _make_timeline(self) -> Timeline:
        nbytes = _MOMENTS * SIGNAL_SLOT.nbytes
        signals = self.memory.alloc(nbytes, Where.GTT)
        self._share(signals)
        interrupt = self.kfd.interrupt
        assert interrupt is not None
        one = AMD_SIGNAL.pack(kind=1, event_mailbox_ptr=interrupt.mailbox, event_id=interrupt.event)
        view(signals.address, nbytes)[:] = bytes(one) * _MOMENTS
        platform = self.kfd.platform
        return Timeline(platform, SIGNAL_SLOT, signals.address, _MOMENTS, self._sleep)

    def _share(self, block: Block) -> None:
        memory = self.memory  # and not this device, which would never be collected
        self.kfd.share(lambda node: memory.map_to(block, node))

    def _sleep(self, nanoseconds: int) -> None:
        self.kfd.sleep(nanoseconds)
        self.failures.check()
        for other, moment in self._awaited:
            if other.failures.lost is not None:
                other.timeline.give_up(moment)  # so that this device goes on

    # -- work -------------------------------------------------------------------------------------

    @contextmanager
    def working(self, what: str, names: Sequence[str] = ()) -> Iterator[None]:
        """A block that gives work to the device; `names` are kernels that it may start."""
        with self._lock, self.failures.translated(what):
            self.kfd.poll()
            self.failures.check()
            self.failures.launched(names)
            yield

    def start(
        self, queue: ComputeQueue | CopyQueue, words: array[int], is_timed: bool = False
    ) -> Moment:
        """Work behind all that was started before; the moment at which it will have ended."""
        timeline = self.timeline
        after = [other.timeline.value_of(moment) for other, moment in self._foreign]
        last = self._last
        if last is not None and self._last_queue is not queue and not timeline.has_passed(last):
            after.append(timeline.value_of(last))
        moment, before = timeline.next(self.timeout), queue.position
        try:
            queue.submit(words, moment, after, self.timeout, is_timed)
        except BaseException:  # an interrupt: the work is started, or it is not
            if queue.position != before:
                queue.finish(moment)
            raise
        finally:
            if queue.position == before:
                timeline.give_up(moment)
            else:
                self._await_others()
                self._last, self._last_queue = moment, queue
        return moment

    def _await_others(self) -> None:
        """The moments of others are waited for by a queue now."""
        waiting = [pair for pair in self._awaited if not pair[0].timeline.has_passed(pair[1])]
        self._awaited = waiting + self._foreign
        self._foreign = []

    def wait_for_all(self) -> None:
        """Returns when all that was started has ended, and what others copy. TimeoutError."""
        if self._last is not None:
            self.wait(self._last)
        for other, moment in self._foreign:
            if other.failures.lost is None:
                other.wait(moment)

    def wait(self, moment: Moment) -> None:
        """Returns when a moment has passed. TimeoutError."""
        self.timeline.wait(moment, self.timeout)

    def synchronize(self) -> None:
        """Returns when everything that was started has finished."""
        with self.working("wait for the GPU"):
            self.wait_for_all()
            self.failures.finished()

    # -- code -------------------------------------------------------------------------------------

    def load(self, code: bytes, entries: Sequence[Entry]) -> _Library:
        """A relocatable object of LLVM's."""
        return self.load_image(link(code), entries)

    def load_image(self, image: Image, entries: Sequence[Entry]) -> _Library:
        """Code that is linked already."""
        with self.working("load a kernel"):
            memory = self.allocator.alloc_code(len(image.data))
            self._staging.write(self, memory.argument, memoryview(image.data))
        return _Library(image, memory, entries)

    # -- launches ---------------------------------------------------------------------------------

    def run(self, launches: Sequence[Launch]) -> None:
        """Starts launches once, in order."""
        phases = [(phase, one) for one in launches for phase in one.phases]
        with self.working("launch a kernel", [phase.entry.symbol for phase, _ in phases]):
            words = array("I")
            for phase, launch in phases:
                more = self._launch(phase, launch.args, launch.vars)
                if len(words) + len(more) > self.compute.limit // 2:
                    self._start_launches(words)
                    words = array("I")
                words += more
            if words:
                self._start_launches(words)

    def run_timed(self, phase: Phase, args: Sequence[int], variables: Sequence[int]) -> Moment:
        """One kernel function by itself; the moment has its times."""
        return self._start_launches(self._launch(phase, args, variables), is_timed=True)

    def _start_launches(self, words: array[int], is_timed: bool = False) -> Moment:
        moment = self.start(self.compute, words, is_timed)
        self._argument_room.used_until(moment)
        return moment

    def _launch(self, phase: Phase, args: Sequence[int], variables: Sequence[int]) -> array[int]:
        """The words of a launch, with its arguments in memory."""
        self.give_scratch(phase)
        size = phase.kernarg_bytes
        place = self._argument_room.take(size, self.timeout)
        block = self._argument_bytes[place : place + size]
        return self._written(phase, block, self._arguments.address + place, args, variables)

    def prepare(self, launches: Sequence[Prepared]) -> array[int]:
        """Writes the arguments of launches; their commands."""
        words = array("I")
        for one in launches:
            words += self._written(*one)
        return words

    def _written(
        self,
        phase: Phase,
        block: memoryview,
        at: int,
        args: Sequence[int],
        variables: Sequence[int],
    ) -> array[int]:
        """Writes the arguments of a launch into `block`, at an address; its commands."""
        made = self.compute.launch(phase, self.scratch)
        phase.pack(block, args, variables)
        words = made.words[:]
        if made.kernarg is not None:
            words[made.kernarg], words[made.kernarg + 1] = at & 0xFFFFFFFF, at >> 32
        return words

    def replay(self, words: array[int], address: int) -> Moment:
        """Starts commands that are also at an address."""
        words = self.compute.replay(words, address)
        limit = self.compute.limit
        moments = [
            self.start(self.compute, words[start : start + limit])
            for start in range(0, len(words), limit)
        ]
        return moments[-1]

    @property
    def commands_version(self) -> int:
        """Commands know the scratch memory."""
        return self.scratch.version

    def give_scratch(self, phase: Phase) -> None:
        """Sees to it that a kernel has the scratch memory that it needs."""
        kernel, scratch = phase.descriptor, self.scratch
        if not kernel.has_scratch:
            return
        wave_bytes = scratch.wave_bytes(kernel.private_bytes, kernel.wave)
        if not scratch.is_enough(wave_bytes):
            self.wait_for_all()
            scratch.grow(wave_bytes)
            self.compute.use_scratch(scratch, wave_bytes)

    def call_list(self, launches: Sequence[Launch], keep: object = None) -> HardwareCallList:
        """Launches for replay."""
        self.failures.check()
        return HardwareCallList(self, launches, keep)

    # -- copies -----------------------------------------------------------------------------------

    def write(self, buffer: DeviceBuffer, data: memoryview) -> None:
        """Copies host bytes into a buffer, after the work that may still use it."""
        if not data.nbytes:
            return
        with self.working("write a buffer"):
            self._staging.write(self, buffer.argument, data)

    def read(self, buffer: DeviceBuffer, into: memoryview) -> None:
        """Copies the start of a buffer to the host, after the work that was started before."""
        if not into.nbytes:
            return
        with self.working("read a buffer"):
            self._staging.read(self, into, buffer.argument)

    def start_copy(self, target: int, source: int, nbytes: int) -> Moment:
        """A copy behind all that was started before."""
        return self.start(self.copies, self.copies.copy(target, source, nbytes))

    def copy_from(
        self, other: object, source: DeviceBuffer, target: DeviceBuffer, nbytes: int
    ) -> bool:
        """Copies another AMD GPU's memory here without the host; neither side is waited for.

        False, and nothing is copied, where this GPU does not reach the other's memory.
        """
        if not isinstance(other, AMDDevice) or other.kfd is not self.kfd:
            return False
        if other is not self and other.node.number not in self.node.peers:
            return False
        first, second = sorted((self, other), key=lambda one: one.index)  # for all threads alike
        with first.working("copy a buffer"), second.working("copy a buffer"):
            self.memory.map_to(source.block, self.node)
            if other is not self and other._last is not None:
                self._foreign.append((other, other._last))
            for start in range(0, nbytes, _MOST_AT_ONCE):
                size = min(_MOST_AT_ONCE, nbytes - start)
                place, origin = target.argument + start, source.argument + start
                self.start_copy(place, origin, size)
            if other is not self and self._last is not None:
                other._foreign.append((self, self._last))
        return True
