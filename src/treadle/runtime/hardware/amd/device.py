"""One AMD GPU as a runtime: what its driver adds to a device of the hardware.

    device = AMDDevice("AMD", kfd, 0, make_target)
    library = device.load(code, [Entry("k_0", grid=8, work_items=64, slots=...)])
    device.run([Launch(library.phases, [buffer.argument])])

Kernels go by PM4 or AQL, copies by SDMA (`queues`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from treadle.runtime.hardware.amd.abi import AMD_SIGNAL, SIGNAL_SLOT
from treadle.runtime.hardware.amd.failures import AMDFailures
from treadle.runtime.hardware.amd.generations import generation_of
from treadle.runtime.hardware.amd.kfd import EVENT_PAGE_BYTES, KFD, Interrupt
from treadle.runtime.hardware.amd.launches import Phase
from treadle.runtime.hardware.amd.memory import GPUMemory
from treadle.runtime.hardware.amd.queues import (
    AQLQueue,
    ComputeQueue,
    CopyQueue,
    PM4Queue,
    QueueMaker,
)
from treadle.runtime.hardware.amd.scratch import Scratch
from treadle.runtime.hardware.blocks import Block
from treadle.runtime.hardware.buffers import DeviceBuffer
from treadle.runtime.hardware.calls import Prepared
from treadle.runtime.hardware.codeobject import Image, link
from treadle.runtime.hardware.device import HardwareDevice, Library
from treadle.runtime.hardware.timeline import Moment

if TYPE_CHECKING:
    from treadle.runtime.base import Entry
    from treadle.runtime.hardware.amd.discovery import Node
    from treadle.target import Target

__all__ = ["AMDDevice"]


class AMDDevice(HardwareDevice):
    """GPU `index` of those that the driver shows; `make_target` gives the Target of its facts.

    `uses_aql` chooses the queue of kernels: where it is None, that is AQL for a GPU of several
    partitions, among which only AQL divides work, and PM4 elsewhere. `timeout` is in seconds.
    Raises DeviceError.
    """

    tick_ns = 10
    compute: ComputeQueue
    copies: CopyQueue

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
        self.failures = AMDFailures(name, kfd.platform)
        super().__init__(index, kfd, kfd.platform, self.failures, timeout)
        self.kfd, self.node = kfd, kfd.node(index, name)
        self.generation = generation_of(self.node.version)
        self.target = make_target(self.node)
        with self.failures.translated("open the GPU"):
            self.memory = GPUMemory(kfd, self.node)
            self._prepare(uses_aql if uses_aql is not None else self.node.partitions > 1)
        kfd.watch(self.node, self.failures)
        self.end(self.node.memory)

    def _prepare(self, uses_aql: bool) -> None:
        interrupt = self.kfd.interrupt or self._prepare_events()
        signal = AMD_SIGNAL.pack(
            kind=1, event_mailbox_ptr=interrupt.mailbox, event_id=interrupt.event
        )
        self.begin(self.memory, SIGNAL_SLOT, bytes(signal))
        self._share(self.signals)
        maker = QueueMaker(self.kfd, self.node, self.generation, self.memory, self.timeline)
        self.compute = AQLQueue(maker) if uses_aql else PM4Queue(maker)
        self.copies = CopyQueue(maker)
        self.scratch = Scratch(self.node, self.generation, self.memory)

    def _prepare_events(self) -> Interrupt:
        """The page by which all GPUs interrupt, made by the first that is opened."""
        page = self.memory.alloc_shared(EVENT_PAGE_BYTES)
        interrupt = self.kfd.make_events(page.handle, page.address)
        self._share(page)
        return interrupt

    def _share(self, block: Block) -> None:
        memory = self.memory  # and not this device, which would never be collected
        self.kfd.share(lambda node: memory.map_to(block, node))

    def hear(self) -> None:
        """Asks the driver, without waiting, what has happened. Raises DeviceError for a fault."""
        self.kfd.poll()
        self.failures.check()

    def doze(self, nanoseconds: int) -> None:
        """Sleeps in the driver until a GPU interrupts. Raises DeviceError for a fault."""
        self.kfd.sleep(nanoseconds)
        self.failures.check()

    # -- code -------------------------------------------------------------------------------------

    def load(self, code: bytes, entries: Sequence[Entry]) -> Library:
        """A relocatable object of LLVM's."""
        return self.load_image(link(code), entries)

    def load_image(self, image: Image, entries: Sequence[Entry]) -> Library:
        """Code that is linked already."""
        memory = self.place(len(image.data), lambda at: image.data)
        return Library(image.kernels, entries, lambda kernel, entry: Phase(kernel, memory, entry))

    # -- launches ---------------------------------------------------------------------------------

    def prepare(self, launches: Sequence[Prepared]) -> array[int]:
        """Writes the arguments of launches; their commands."""
        words = array("I")
        for phase, block, at, args, variables in launches:
            made = self.compute.launch(phase, self.scratch)
            phase.arguments.pack(block, args, variables)
            commands = made.words[:]
            if made.kernarg is not None:
                place = made.kernarg
                commands[place], commands[place + 1] = at & 0xFFFFFFFF, at >> 32
            words += commands
        return words

    def replay(self, words: array[int], address: int) -> Moment:
        """Starts commands that are also at an address."""
        return super().replay(self.compute.replay(words, address), address)

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

    # -- copies -----------------------------------------------------------------------------------

    def copy_words(self, target: int, source: int, nbytes: int) -> array[int]:
        """Packets of SDMA."""
        return self.copies.copy(target, source, nbytes)

    def reaches(self, other: AMDDevice, source: DeviceBuffer) -> bool:
        """Whether this GPU gets another's buffer. Signals are mapped to all GPUs."""
        if other.node.number not in self.node.peers:
            return False
        self.memory.map_to(source.block, self.node)
        return True
