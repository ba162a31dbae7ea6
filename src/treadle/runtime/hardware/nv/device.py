"""One NVIDIA GPU as a runtime, past libcuda: memory, launches and copies, in their order.

    device = NVDevice("NV", rm, 0, make_target)
    library = device.load(cubin, [Entry("k_0", grid=8, work_items=64, slots=...)])
    device.write(buffer, data)
    device.run([Launch(library.phases, [buffer.argument])])
    device.read(buffer, into)

Kernels go to one channel, copies to another. Each piece of work waits for the one before it where
that is on the other channel, and has a signal that says when it has ended (`timeline`). A call
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
from treadle.runtime.hardware.buffers import Allocator, Blocks, DeviceBuffer
from treadle.runtime.hardware.calls import HardwareCallList, Prepared, misaligned
from treadle.runtime.hardware.cubin import Image, link
from treadle.runtime.hardware.host_memory import view
from treadle.runtime.hardware.nv import classes, methods
from treadle.runtime.hardware.nv.channels import SIGNAL_SLOT, Channel, Channels
from treadle.runtime.hardware.nv.failures import Failures, RMError
from treadle.runtime.hardware.nv.launches import Machine, Phase
from treadle.runtime.hardware.nv.local_memory import LocalMemory
from treadle.runtime.hardware.nv.memory import GPUMemory
from treadle.runtime.hardware.nv.methods import Subchannel
from treadle.runtime.hardware.nv.objects import Facts, opened_objects
from treadle.runtime.hardware.nv.rm import RM
from treadle.runtime.hardware.ring import Room
from treadle.runtime.hardware.staging import Staging
from treadle.runtime.hardware.timeline import Moment, Timeline

if TYPE_CHECKING:
    from treadle.runtime.base import Entry, Launch
    from treadle.target import Target

__all__ = ["NVDevice"]

_TIMEOUT = 60.0  # seconds without an end, after which work is taken to hang
_EMULATED_TIMEOUT = 3600.0  # kernels are slow there, and a wait in vain takes no time
_MOMENTS = 4096
_ARGUMENT_BYTES = 1 << 20
_MOST_AT_ONCE = 1 << 30  # of a copy between GPUs
_WINDOW = 1 << 32  # addresses that generic pointers to local or shared memory have
_MMU_FAULT = 31  # ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT


class _Library:
    """Loaded code. `phases` are what launches take; they hold the code's memory."""

    def __init__(
        self, image: Image, memory: DeviceBuffer, entries: Sequence[Entry], machine: Machine
    ) -> None:
        missing = [entry.symbol for entry in entries if entry.symbol not in image.kernels]
        if missing:
            raise InternalError(f"the code has no kernels {', '.join(missing)}")
        self.phases = [
            Phase(image.kernels[entry.symbol], memory, entry, machine) for entry in entries
        ]


class NVDevice:
    """GPU `index` of those that the driver shows; `make_target` gives the Target of its facts.

    `timeout` is in seconds. `on_load` is told of each cubin that is loaded: an emulated GPU has to
    know more of it than lies in memory. Raises DeviceError.
    """

    has_addresses = True
    shares_memory = False
    kernel_bytes = 1 << 16
    tick_ns = 1

    def __init__(
        self,
        name: str,
        rm: RM,
        index: int,
        make_target: Callable[[str, Facts], Target],
        *,
        timeout: float | None = None,
        on_load: Callable[[bytes], None] | None = None,
    ) -> None:
        self.name, self.index, self.rm = name, index, rm
        self.is_software = rm.platform.is_emulated
        usual = _EMULATED_TIMEOUT if self.is_software else _TIMEOUT
        self.timeout = usual if timeout is None else timeout
        self._on_load = on_load
        self.failures = Failures(name, rm.platform)
        self._lock = fork_safe(threading.RLock())
        card = rm.card(index, name)
        with self.failures.translated("open the GPU"):
            self.objects = opened_objects(rm, card, index, name)
            self.facts = self.objects.facts
            self.target = make_target(self.objects.generation.arch, self.facts)
            self.memory = GPUMemory(self.objects)
            self._prepare()
        self.allocator = Allocator(self.memory, self.failures, self.facts.memory, self.synchronize)

    def _prepare(self) -> None:
        self.timeline = self._make_timeline()
        generation = self.objects.generation
        self._channels = Channels(self.objects, self.memory, self.timeline)
        self.compute = self._channels.make(Subchannel.COMPUTE, generation.compute)
        self.copies = self._channels.make(Subchannel.COPY, generation.copy)
        self._channels.schedule()
        self._debugger = self.rm.alloc(
            self.objects.device, classes.DEBUGGER, "debugger", hAppClient=self.rm.client,
            hClass3dObject=self.compute.engine,
        )  # fmt: skip
        self.machine = self._make_machine()
        self.local = LocalMemory(self.facts, self.memory)
        self._arguments = self.memory.alloc_shared(_ARGUMENT_BYTES)
        self._argument_bytes = view(self._arguments.address, _ARGUMENT_BYTES)
        self._argument_room = Room(self.timeline, _ARGUMENT_BYTES)
        self._staging = Staging(self.memory.alloc_shared)
        self.host_blocks: Blocks = BlockCache(
            self.memory.alloc_shared, int, fork_safe(threading.RLock()), self.synchronize
        )
        self._last: Moment | None = None
        self._last_channel: Channel | None = None
        self._foreign: list[tuple[NVDevice, Moment]] = []  # of other devices, to wait for next
        self._awaited: list[tuple[NVDevice, Moment]] = []  # that channels wait for
        self._peers: set[int] = set()  # the numbers of GPUs that see this one's signals
        windows = methods.windows(self.machine.local_window, self.machine.shared_window)
        self.start(self.compute, array("I", windows))

    def _make_timeline(self) -> Timeline:
        nbytes = _MOMENTS * SIGNAL_SLOT.nbytes
        self._signals = self.memory.alloc_shared(nbytes)
        view(self._signals.address, nbytes)[:] = bytes(nbytes)
        address = self._signals.address
        return Timeline(self.rm.platform, SIGNAL_SLOT, address, _MOMENTS, self._sleep)

    def _make_machine(self) -> Machine:
        reserve = self.rm.platform.reserve
        workgroup = self.target.workgroup
        assert workgroup is not None
        most_shared = workgroup.shared_bytes + 1024  # a block's most, and what is reserved in it
        return Machine(
            self.objects.generation, self.facts.version, most_shared,
            reserve(_WINDOW, _WINDOW), reserve(_WINDOW, _WINDOW),
        )  # fmt: skip

    def _sleep(self, nanoseconds: int) -> None:
        self.rm.platform.pause()
        self._look()
        for other, moment in self._awaited:
            if other.failures.lost is not None:
                other.timeline.give_up(moment)  # so that this device goes on

    def _look(self) -> None:
        """Raises what a channel has stopped for."""
        error = self._channels.error()
        if error is not None and self.failures.lost is None:
            self.failures.channel_stopped(error, self._fault_address(error))
        self.failures.check()

    def _fault_address(self, error: int) -> int | None:
        if error != _MMU_FAULT:
            return None
        told = self.rm.control(self._debugger, "mmu_fault")
        return told["mmuFaultInfoList"][0]["faultAddress"] if told["count"] else None

    # -- work -------------------------------------------------------------------------------------

    @contextmanager
    def working(self, what: str, names: Sequence[str] = ()) -> Iterator[None]:
        """A block that gives work to the device; `names` are kernels that it may start."""
        with self._lock, self.failures.translated(what):
            self._look()
            self.failures.launched(names)
            yield

    def start(self, channel: Channel, words: array[int], is_timed: bool = False) -> Moment:
        """Work behind all that was started before; the moment at which it will have ended."""
        timeline = self.timeline
        after = [other.timeline.value_of(moment) for other, moment in self._foreign]
        last = self._last
        if last is not None and self._last_channel is not channel and not timeline.has_passed(last):
            after.append(timeline.value_of(last))
        moment, before = timeline.next(self.timeout), channel.position
        try:
            channel.submit(words, moment, after, self.timeout, is_timed)
        except BaseException:  # an interrupt: the work is started, or it is not
            if channel.position != before:
                channel.finish(moment)
            raise
        finally:
            if channel.position == before:
                timeline.give_up(moment)
            else:
                self._await_others()
                self._last, self._last_channel = moment, channel
        return moment

    def _await_others(self) -> None:
        """The moments of others are waited for by a channel now."""
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
        """A cubin."""
        if self._on_load is not None:
            self._on_load(code)
        image = link(code)
        with self.working("load a kernel"):
            memory = self.allocator.alloc_code(len(image.data))
            placed = memoryview(image.placed(memory.argument))
            self._staging.write(self, memory.argument, placed)
        return _Library(image, memory, entries, self.machine)

    # -- launches ---------------------------------------------------------------------------------

    def run(self, launches: Sequence[Launch]) -> None:
        """Starts launches once, in order."""
        phases = [(phase, one) for one in launches for phase in one.phases]
        with self.working("launch a kernel", [phase.entry.symbol for phase, _ in phases]):
            words = array("I")
            for phase, launch in phases:
                args = launch.args
                if wrong := misaligned(phase.entry, args):
                    words = self._flushed(words)
                    args = self._aligned(phase.entry, args, wrong)
                words += self._launch(phase, args, launch.vars)
                if len(words) > self.compute.limit // 2:
                    words = self._flushed(words)
            self._flushed(words)

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
        at = self._arguments.address + place
        return self.prepare([Prepared(phase, block, at, args, variables)])

    def prepare(self, launches: Sequence[Prepared]) -> array[int]:
        """Writes bank 0 and the meta data of launches; the commands that start the first.

        Each starts the next when it has ended. What comes behind them waits for the last.
        """
        following = 0
        for phase, block, at, args, variables in reversed(launches):
            phase.pack(block, at, args, variables, self.local)
            if following:
                phase.link(block, following)
            following = phase.meta_data_at(at)
        return array("I", methods.launch(following) + methods.wait_for_idle())

    def replay(self, words: array[int], address: int) -> Moment:
        """Starts commands that are also at an address."""
        limit = self.compute.limit
        moments = [
            self.start(self.compute, words[start : start + limit])
            for start in range(0, len(words), limit)
        ]
        return moments[-1]

    @property
    def commands_version(self) -> int:
        """Launches know the local memory."""
        return self.local.version

    def give_scratch(self, phase: Phase) -> None:
        """Sees to it that a kernel has the local memory that it needs."""
        stack = phase.kernel.stack
        if not self.local.is_enough(stack):
            self.wait_for_all()
            self.local.grow(stack)
            self.start(self.compute, array("I", self.local.commands()))

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
        return self.start(self.copies, array("I", methods.copy(target, source, nbytes)))

    def copy_from(
        self, other: object, source: DeviceBuffer, target: DeviceBuffer, nbytes: int
    ) -> bool:
        """Copies another NV GPU's memory here without the host; neither side is waited for.

        False, and nothing is copied, where this GPU does not reach the other's memory.
        """
        if not isinstance(other, NVDevice) or other.rm is not self.rm:
            return False
        first, second = sorted((self, other), key=lambda one: one.index)  # for all threads alike
        with first.working("copy a buffer"), second.working("copy a buffer"):
            if other is not self and not self._reaches(other, source):
                return False
            if other is not self and other._last is not None:
                self._foreign.append((other, other._last))
            for start in range(0, nbytes, _MOST_AT_ONCE):
                size = min(_MOST_AT_ONCE, nbytes - start)
                self.start_copy(target.argument + start, source.argument + start, size)
            if other is not self and self._last is not None:
                other._foreign.append((self, self._last))
        return True

    def _reaches(self, other: NVDevice, source: DeviceBuffer) -> bool:
        """Whether this GPU gets another's buffer; both see each other's signals from then on."""
        mine, theirs = self.objects, other.objects
        try:
            if other.index not in self._peers:
                self.rm.uvm("enable_peer_access", gpuUuidA=mine.uuid, gpuUuidB=theirs.uuid)
                self.memory.map_to(other._signals, mine)
                self.memory.map_to(self._signals, theirs)
                self._peers.add(other.index)
                other._peers.add(self.index)
            self.memory.map_to(source.block, mine)
        except RMError:  # GPUs without a way to each other
            return False
        return True
