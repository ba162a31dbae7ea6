"""One GPU past its own user-space driver: what all drivers have in common of a device.

    class OtherDevice(HardwareDevice): ...
    library = device.load(code, [Entry("k_0", grid=8, work_items=64, slots=...)])
    device.write(buffer, data)
    device.run([Launch(library.phases, [buffer.argument])])
    device.read(buffer, into)

Kernels go to one queue, copies to another (`order`). A call returns before its work is done, so
that a kernel's fault shows at a later call. What a driver adds: its memory and queues, how code is
placed, how launches and copies become words, how it sleeps and how it hears of faults.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self, TypeVar

from treadle.errors import InternalError
from treadle.forks import fork_safe
from treadle.runtime.block_cache import BlockCache
from treadle.runtime.hardware.buffers import Allocator, Blocks, DeviceBuffer
from treadle.runtime.hardware.calls import Code, HardwareCallList, Prepared, misaligned
from treadle.runtime.hardware.host_memory import view
from treadle.runtime.hardware.order import Queue, WorkOrder
from treadle.runtime.hardware.ring import Room
from treadle.runtime.hardware.staging import Staging
from treadle.runtime.hardware.timeline import Moment, SlotLayout, Timeline

if TYPE_CHECKING:
    from treadle.runtime.base import Entry, Launch
    from treadle.runtime.hardware.blocks import BlockMemory
    from treadle.runtime.hardware.failures import Failures
    from treadle.runtime.hardware.platform import Platform

__all__ = ["HardwareDevice", "Library"]

_TIMEOUT = 60.0  # seconds without an end, after which work is taken to hang
_EMULATED_TIMEOUT = 3600.0  # kernels are slow there, and a wait in vain takes no time
_MOMENTS = 4096
_ARGUMENT_BYTES = 1 << 20
_MOST_AT_ONCE = 1 << 30  # of a copy between GPUs

_Kernel = TypeVar("_Kernel")


class Library:
    """Loaded code. `phases` are what launches take; they hold the code's memory.

    `make` turns a kernel and its entry into a phase. Raises InternalError for a kernel that the
    code does not have.
    """

    def __init__(
        self,
        kernels: Mapping[str, _Kernel],
        entries: Sequence[Entry],
        make: Callable[[_Kernel, Entry], Code],
    ) -> None:
        missing = [entry.symbol for entry in entries if entry.symbol not in kernels]
        if missing:
            raise InternalError(f"the code has no kernels {', '.join(missing)}")
        self.phases = [make(kernels[entry.symbol], entry) for entry in entries]


class HardwareDevice(ABC):
    """GPU `index` of a driver. `timeout` is in seconds; None is the usual one.

    Who derives from it calls `begin` when there is memory, makes the queues `compute` and `copies`,
    and calls `end`.
    """

    has_addresses = True
    shares_memory = False
    takes_host_memory = False
    kernel_bytes = 1 << 16
    tick_ns = 1
    allocator: Allocator
    allocator_type = Allocator
    compute: Queue
    copies: Queue

    def __init__(
        self,
        index: int,
        driver: object,
        platform: Platform,
        failures: Failures,
        timeout: float | None,
    ) -> None:
        self.name, self.index, self.is_software = failures.name, index, platform.is_emulated
        usual = _EMULATED_TIMEOUT if self.is_software else _TIMEOUT
        self.timeout = usual if timeout is None else timeout
        self._driver, self._platform = driver, platform
        self._failures = failures
        self._lock = fork_safe(threading.RLock())

    def begin(self, memory: BlockMemory, slot: SlotLayout, signal: bytes) -> None:
        """What queues need: `signal` is what each slot of the timeline holds at first."""
        self._memory = memory
        nbytes = _MOMENTS * slot.nbytes
        self.signals = memory.alloc_shared(nbytes)
        view(self.signals.address, nbytes)[:] = signal * _MOMENTS
        address = self.signals.address
        self.timeline = Timeline(self._platform, slot, address, _MOMENTS, self._sleep)
        self.order = WorkOrder(self.timeline, self._failures, self.timeout)
        self._arguments = memory.alloc_shared(_ARGUMENT_BYTES)
        self._argument_bytes = view(self._arguments.address, _ARGUMENT_BYTES)
        self._argument_room = Room(self.timeline, _ARGUMENT_BYTES)
        self._staging = Staging(memory.alloc_shared)
        self.host_blocks: Blocks = BlockCache(
            memory.alloc_shared, int, fork_safe(threading.RLock()), self.synchronize
        )

    def end(self, nbytes: int) -> None:
        """The device is ready; its GPU has so much memory."""
        self.allocator = self.allocator_type(self._memory, self._failures, nbytes, self.synchronize)

    # -- what a driver adds -----------------------------------------------------------------------

    @abstractmethod
    def hear(self) -> None:
        """Asks the driver, without waiting, what has happened. Raises DeviceError for a fault."""

    @abstractmethod
    def doze(self, nanoseconds: int) -> None:
        """Sleeps until something happens, or for so long. Raises DeviceError for a fault."""

    @abstractmethod
    def load(self, code: bytes, entries: Sequence[Entry]) -> Library:
        """Code as the device's compiler makes it."""

    @abstractmethod
    def prepare(self, launches: Sequence[Prepared]) -> array[int]:
        """Writes what launches have in memory; the commands that start them one after another."""

    @abstractmethod
    def give_scratch(self, phase: Code) -> None:
        """Sees to it that a kernel has the memory that it needs beside its registers."""

    @property
    @abstractmethod
    def commands_version(self) -> int:
        """Changes when commands that were made before are void."""

    @abstractmethod
    def copy_words(self, target: int, source: int, nbytes: int) -> array[int]:
        """Commands that copy, for the queue of copies."""

    @abstractmethod
    def reaches(self, other: Self, source: DeviceBuffer) -> bool:
        """Whether this GPU gets another's buffer; both see each other's signals from then on."""

    # -- work -------------------------------------------------------------------------------------

    @contextmanager
    def working(self, what: str, names: Sequence[str] = ()) -> Iterator[None]:
        """A block that gives work to the device; `names` are kernels that it may start."""
        with self._lock, self._failures.translated(what):
            self.hear()
            self._failures.launched(names)
            yield

    def _sleep(self, nanoseconds: int) -> None:
        self.doze(nanoseconds)
        self.order.give_up_lost()

    def wait_for_all(self) -> None:
        """Returns when all that was started has ended, and what others copy. TimeoutError."""
        self.order.wait_for_all()

    def wait(self, moment: Moment) -> None:
        """Returns when a moment has passed. TimeoutError."""
        self.order.wait(moment)

    def synchronize(self) -> None:
        """Returns when everything that was started has finished."""
        with self.working("wait for the GPU"):
            self.order.wait_for_all()
            self._failures.finished()

    # -- launches ---------------------------------------------------------------------------------

    def place(self, nbytes: int, placed: Callable[[int], bytes | bytearray]) -> DeviceBuffer:
        """Code in the GPU's memory; `placed` gives its bytes for the address that it gets."""
        with self.working("load a kernel"):
            memory = self.allocator.alloc_code(nbytes)
            self._staging.write(self, memory.argument, memoryview(placed(memory.argument)))
        return memory

    def run(self, launches: Sequence[Launch]) -> None:
        """Starts launches once, in order."""
        phases = [(phase, one) for one in launches for phase in one.phases]
        with self.working("launch a kernel", [phase.entry.symbol for phase, _ in phases]):
            for phase, _ in phases:  # before any is prepared: what is freed is in no command
                self.give_scratch(phase)
            words, nbytes = array("I"), 0
            for phase, launch in phases:
                args = launch.args
                if phase.entry.aligned and (wrong := misaligned(phase.entry, args)):
                    words = self._flushed(words)
                    args = self._aligned(phase.entry, args, wrong)
                words += self._launch(phase, args, launch.vars)
                nbytes += phase.kernarg_bytes
                if len(words) > self.compute.limit // 2 or nbytes > _ARGUMENT_BYTES // 4:
                    words, nbytes = self._flushed(words), 0
            if words:
                self._start_launches(words)

    def _flushed(self, words: array[int]) -> array[int]:
        """Starts what was gathered."""
        if words:
            self._start_launches(words)
        return array("I")

    def _aligned(self, entry: Entry, args: Sequence[int], wrong: Sequence[int]) -> list[int]:
        """The arguments of a launch, with copies of those that begin at no multiple of 16 bytes.

        A copy's memory is used again by what is started later, and so after the launch.
        """
        found, sizes = list(args), {slot.number: slot.nbytes for slot in entry.slots}
        for number in wrong:
            copy = self.allocator.alloc(sizes[number])
            self.start_copy(copy.argument, args[number], sizes[number])
            found[number] = copy.argument
        return found

    def run_timed(self, phase: Code, args: Sequence[int], variables: Sequence[int]) -> Moment:
        """One kernel function by itself; the moment has its times."""
        self.give_scratch(phase)
        return self._start_launches(self._launch(phase, args, variables), is_timed=True)

    def _start_launches(self, words: array[int], is_timed: bool = False) -> Moment:
        moment = self.order.start(self.compute, words, is_timed)
        self._argument_room.used_until(moment)
        return moment

    def _launch(self, phase: Code, args: Sequence[int], variables: Sequence[int]) -> array[int]:
        """The words of a launch, with its arguments in memory."""
        size = phase.kernarg_bytes
        place = self._argument_room.take(size, self.timeout)
        block = self._argument_bytes[place : place + size]
        at = self._arguments.address + place
        self._platform.will_write(at, size)
        return self.prepare([(phase, block, at, args, variables)])

    def call_list(self, launches: Sequence[Launch], keep: object = None) -> HardwareCallList:
        """Launches for replay."""
        self._failures.check()
        return HardwareCallList(self, launches, keep)

    def replay(self, words: array[int], address: int) -> Moment:
        """Starts commands that are also at an address."""
        limit = self.compute.limit
        moments = [
            self.order.start(self.compute, words[start : start + limit])
            for start in range(0, len(words), limit)
        ]
        return moments[-1]

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
        return self.order.start(self.copies, self.copy_words(target, source, nbytes))

    def copy_from(
        self, other: object, source: DeviceBuffer, target: DeviceBuffer, nbytes: int
    ) -> bool:
        """Copies the memory of another GPU of the driver here; neither side is waited for.

        False, and nothing is copied, where this GPU does not reach the other's memory.
        """
        if not isinstance(other, type(self)) or other._driver is not self._driver:
            return False
        first, second = sorted((self, other), key=lambda one: one.index)  # for all threads alike
        with first.working("copy a buffer"), second.working("copy a buffer"):
            if other is not self and not self.reaches(other, source):
                return False
            self.order.come_after(other.order)
            for start in range(0, nbytes, _MOST_AT_ONCE):
                size = min(_MOST_AT_ONCE, nbytes - start)
                self.start_copy(target.argument + start, source.argument + start, size)
            other.order.come_after(self.order)
        return True
