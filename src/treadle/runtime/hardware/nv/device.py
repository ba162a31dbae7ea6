"""One NVIDIA GPU as a runtime, past libcuda: what its driver adds to a device of the hardware.

    device = NVDevice("NV", rm, 0, make_target)
    library = device.load(cubin, [Entry("k_0", grid=8, work_items=64, slots=...)])
    device.run([Launch(library.phases, [buffer.argument])])

Kernels go to one channel, copies to another (`channels`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from treadle.runtime.hardware.buffers import DeviceBuffer
from treadle.runtime.hardware.calls import Prepared
from treadle.runtime.hardware.cubin import link
from treadle.runtime.hardware.device import HardwareDevice, Library
from treadle.runtime.hardware.nv import classes, methods
from treadle.runtime.hardware.nv.channels import SIGNAL_SLOT, Channel, Channels
from treadle.runtime.hardware.nv.failures import NVFailures, RMError
from treadle.runtime.hardware.nv.launches import Machine, Phase
from treadle.runtime.hardware.nv.local_memory import LocalMemory
from treadle.runtime.hardware.nv.memory import GPUMemory
from treadle.runtime.hardware.nv.methods import Subchannel
from treadle.runtime.hardware.nv.objects import Facts, opened_objects
from treadle.runtime.hardware.nv.rm import RM

if TYPE_CHECKING:
    from treadle.runtime.base import Entry
    from treadle.target import Target

__all__ = ["NVDevice"]

_WINDOW = 1 << 32  # addresses that generic pointers to local or shared memory have
_MMU_FAULT = 31  # ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT


class NVDevice(HardwareDevice):
    """GPU `index` of those that the driver shows; `make_target` gives the Target of its facts.

    `timeout` is in seconds. `on_load` is told of each cubin that is loaded: an emulated GPU has to
    know more of it than lies in memory. Raises DeviceError.
    """

    compute: Channel
    copies: Channel

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
        self.failures = NVFailures(name, rm.platform)
        super().__init__(index, rm, rm.platform, self.failures, timeout)
        self.rm, self._on_load = rm, on_load
        card = rm.card(index, name)
        with self.failures.translated("open the GPU"):
            self.objects = opened_objects(rm, card, index, name)
            self.facts = self.objects.facts
            self.target = make_target(self.objects.generation.arch, self.facts)
            self.memory = GPUMemory(self.objects)
            self._prepare()
        self.end(self.facts.memory)

    def _prepare(self) -> None:
        self.begin(self.memory, SIGNAL_SLOT, bytes(SIGNAL_SLOT.nbytes))
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
        self._peers: set[int] = set()  # the numbers of GPUs that see this one's signals
        windows = methods.windows(self.machine.local_window, self.machine.shared_window)
        self.order.start(self.compute, array("I", windows))

    def _make_machine(self) -> Machine:
        reserve = self.rm.platform.reserve
        workgroup = self.target.workgroup
        assert workgroup is not None
        most_shared = workgroup.shared_bytes + 1024  # a block's most, and what is reserved in it
        return Machine(
            self.objects.generation, self.facts.version, most_shared,
            reserve(_WINDOW, _WINDOW), reserve(_WINDOW, _WINDOW),
        )  # fmt: skip

    def hear(self) -> None:
        """Looks for what a channel has stopped for. Raises DeviceError for a fault."""
        error = self._channels.error()
        if error is not None and self.failures.lost is None:
            self.failures.channel_stopped(error, self._fault_address(error))
        self.failures.check()

    def doze(self, nanoseconds: int) -> None:
        """Pauses. Raises DeviceError for a fault."""
        self.rm.platform.pause()
        self.hear()

    def _fault_address(self, error: int) -> int | None:
        if error != _MMU_FAULT:
            return None
        try:
            told = self.rm.control(self._debugger, "mmu_fault")
        except RMError:  # the fault is told without it
            return None
        return told["mmuFaultInfoList"][0]["faultAddress"] if told["count"] else None

    # -- code -------------------------------------------------------------------------------------

    def load(self, code: bytes, entries: Sequence[Entry]) -> Library:
        """A cubin."""
        if self._on_load is not None:
            self._on_load(code)
        image = link(code)
        memory = self.place(len(image.data), image.placed)
        machine = self.machine
        return Library(
            image.kernels, entries, lambda kernel, entry: Phase(kernel, memory, entry, machine)
        )

    # -- launches ---------------------------------------------------------------------------------

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
            self.order.start(self.compute, array("I", self.local.commands()))

    # -- copies -----------------------------------------------------------------------------------

    def copy_words(self, target: int, source: int, nbytes: int) -> array[int]:
        """Methods of the copy class."""
        return array("I", methods.copy(target, source, nbytes))

    def reaches(self, other: NVDevice, source: DeviceBuffer) -> bool:
        """Whether this GPU gets another's buffer; both see each other's signals from then on."""
        mine, theirs = self.objects, other.objects
        try:
            if other.index not in self._peers:
                self.rm.uvm("enable_peer_access", gpuUuidA=mine.uuid, gpuUuidB=theirs.uuid)
                self.memory.map_to(other.signals, mine)
                self.memory.map_to(self.signals, theirs)
                self._peers.add(other.index)
                other._peers.add(self.index)
            self.memory.map_to(source.block, mine)
        except RMError:  # GPUs without a way to each other
            return False
        return True
