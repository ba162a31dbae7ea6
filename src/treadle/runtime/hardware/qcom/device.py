"""The Adreno GPU of a chip as a runtime: what KGSL adds to a device of the hardware.

    device = QCOMDevice("QCOM", kgsl, make_target)
    library = device.load(code, [Entry("k_0", grid=8, work_items=64, slots=...)])
    device.run([Launch(library.phases, [buffer.argument])])

Host and GPU share their memory. So the host copies, when all work has ended: the command processor
copies no more than words.
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from treadle.ir3_object import unpack
from treadle.runtime.hardware.buffers import DeviceBuffer
from treadle.runtime.hardware.calls import Prepared
from treadle.runtime.hardware.device import HardwareDevice, Library
from treadle.runtime.hardware.host_memory import round_up, view
from treadle.runtime.hardware.qcom.failures import QCOMFailures
from treadle.runtime.hardware.qcom.images import ImageAllocator, ImageBuffer
from treadle.runtime.hardware.qcom.kgsl import KGSL
from treadle.runtime.hardware.qcom.launches import UNIT_BYTES, Phase, unit_count
from treadle.runtime.hardware.qcom.memory import GPUMemory, host_address
from treadle.runtime.hardware.qcom.private_memory import PrivateMemory
from treadle.runtime.hardware.qcom.queue import SIGNAL_SLOT, ContextQueue

if TYPE_CHECKING:
    from treadle.ir3_object import KernelCode
    from treadle.runtime.base import Entry
    from treadle.runtime.hardware.timeline import Moment
    from treadle.target import Target

__all__ = ["QCOMDevice"]

_NAP = 10_000_000  # nanoseconds, after which is looked for what others do
_MEMORY = 1 << 32  # bytes of the host's that a tensor may have
_TICK_NS = 52  # of 19.2 MHz: 0.16 % less than it is


class QCOMDevice(HardwareDevice):
    """The GPU that the driver shows; `make_target` gives the Target of its chip id.

    `timeout` is in seconds. Raises DeviceError.
    """

    tick_ns = _TICK_NS
    allocator: ImageAllocator
    allocator_type = ImageAllocator
    compute: ContextQueue
    copies: ContextQueue

    def __init__(
        self,
        name: str,
        kgsl: KGSL,
        make_target: Callable[[int], Target],
        *,
        timeout: float | None = None,
    ) -> None:
        self.failures = QCOMFailures(name, kgsl.platform)
        super().__init__(0, kgsl, kgsl.platform, self.failures, timeout)
        self.kgsl = kgsl
        self.target = make_target(kgsl.chip_id)
        with self.failures.translated("open the GPU"):
            self.memory = GPUMemory(kgsl)
            self.begin(self.memory, SIGNAL_SLOT, bytes(SIGNAL_SLOT.nbytes))
            self.compute = ContextQueue(kgsl, self.memory, self.timeline, self.failures)
            self.copies = self.compute
            self.private = PrivateMemory(self.memory, 2 * self.target.cores)
        self.end(_MEMORY)

    def hear(self) -> None:
        """Raises DeviceError for a fault that is known. A context's end shows when it is used."""
        self.failures.check()

    def doze(self, nanoseconds: int) -> None:
        """Sleeps in the driver until the work has ended. Raises DeviceError for a fault."""
        if self.compute.sleep(max(1, min(nanoseconds, _NAP) // 1_000_000)):
            self._platform.pause()  # the signal of the end is not there yet
        self.failures.check()

    # -- code -------------------------------------------------------------------------------------

    def load(self, code: bytes, entries: Sequence[Entry]) -> Library:
        """An object of the compiler's."""
        found = {kernel.name: kernel for kernel in unpack(code)}
        places, image = _image(found)
        memory = self.place(len(image), lambda at: image)
        return Library(
            found,
            entries,
            lambda kernel, entry: Phase(
                kernel, memory.argument + places[kernel.name], memory, entry
            ),
        )

    # -- launches ---------------------------------------------------------------------------------

    def prepare(self, launches: Sequence[Prepared]) -> array[int]:
        """Writes the constants of launches; their packets."""
        words = array("I")
        for phase, block, at, args, variables in launches:
            phase.pack(block, args, variables)
            words += phase.words(at, self.private)
        return words

    @property
    def commands_version(self) -> int:
        """Packets know the private memory."""
        return self.private.version

    def give_scratch(self, phase: Phase) -> None:
        """Sees to it that a kernel has the private memory that it needs."""
        if phase.kernel.private and not self.private.is_enough(phase.kernel.private):
            self.wait_for_all()
            self.private.grow(phase.kernel.private)

    # -- copies -----------------------------------------------------------------------------------

    def write(self, buffer: DeviceBuffer, data: memoryview) -> None:
        """Copies host bytes into a buffer, after the work that may still use it."""
        with self.working("write a buffer"):
            self.wait_for_all()
            data = data.cast("B") if data.contiguous else memoryview(data.tobytes())
            address = host_address(buffer.block)
            if isinstance(buffer, ImageBuffer):
                self._platform.will_write(address, buffer.layout.nbytes)
                buffer.layout.write(address, data)
                return
            self._platform.will_write(address, data.nbytes)
            view(address, data.nbytes)[:] = data

    def read(self, buffer: DeviceBuffer, into: memoryview) -> None:
        """Copies the start of a buffer to the host, after the work that was started before."""
        with self.working("read a buffer"):
            self.wait_for_all()
            address = host_address(buffer.block)
            if isinstance(buffer, ImageBuffer):
                self._platform.will_read(address, buffer.layout.nbytes)
                buffer.layout.read(address, into.cast("B"))
                return
            self._platform.will_read(address, into.nbytes)
            into.cast("B")[:] = view(address, into.nbytes)

    def copy_from(
        self, other: object, source: DeviceBuffer, target: DeviceBuffer, nbytes: int
    ) -> bool:
        """Copies within this GPU's memory, by the host; there is no other one."""
        if other is not self:
            return False
        with self.working("copy a buffer"):
            self.wait_for_all()
            there, here = host_address(source.block), host_address(target.block)
            self._platform.will_read(there, nbytes)
            self._platform.will_write(here, nbytes)
            ctypes.memmove(here, there, nbytes)
        return True

    def start_copy(self, target: int, source: int, nbytes: int) -> Moment:
        """A copy by the host, when all that was started before has ended."""
        self.wait_for_all()
        self._platform.will_read(source, nbytes)
        self._platform.will_write(target, nbytes)
        ctypes.memmove(target, source, nbytes)
        return super().start_copy(target, source, nbytes)

    def copy_words(self, target: int, source: int, nbytes: int) -> array[int]:
        """No packets: the host has copied."""
        return array("I")

    def reaches(self, other: QCOMDevice, source: DeviceBuffer) -> bool:
        """The driver has one GPU."""
        return False


def _image(found: dict[str, KernelCode]) -> tuple[dict[str, int], bytes]:
    """Where each kernel's code begins, and all of it: in whole units, with nothing behind."""
    places, image = dict[str, int](), b""
    for name, kernel in found.items():
        places[name] = len(image)
        code = struct.pack(f"<{len(kernel.code)}Q", *kernel.code)
        image += code.ljust(round_up(unit_count(kernel) * UNIT_BYTES, UNIT_BYTES), b"\0")
    return places, image
