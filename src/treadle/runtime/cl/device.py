"""An OpenCL device: one in-order queue, programs from binaries, launches that are only enqueued.

    device = CLDevice("CL", 0)
    library = device.load(device.build(source), [Entry("f", grid=8, work_items=64, slots=(...))])
    device.run([Launch(library.phases, [buffer.argument])])

One surprise: `run` returns before the work is done; `read`, `write` and `synchronize` wait.
"""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING, NamedTuple

from treadle.errors import DeviceError, InternalError, StaleCodeError
from treadle.runtime.cl.failures import is_loss, translated
from treadle.runtime.cl.memory import CLAllocator, CLBuffer
from treadle.runtime.cl.platforms import binding, find_devices, target_of
from treadle.runtime.presence import Presence, finish_first

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    import numpy as np
    import pyopencl as cl

    from treadle.dtype import ImageDType
    from treadle.errors import TreadleError
    from treadle.runtime.base import Entry, Launch

__all__ = ["CLCallList", "CLDevice"]


class _Phase(NamedTuple):
    """One kernel function and what its launches take."""

    program: cl.Program
    entry: Entry

    @property
    def sizes(self) -> tuple[tuple[int], tuple[int]]:
        """All work items, and those of one workgroup."""
        return (self.entry.grid * self.entry.work_items,), (self.entry.work_items,)


class _Library:
    """A built program. `phases` are what launches take."""

    def __init__(self, program: cl.Program, entries: Sequence[Entry]) -> None:
        self.phases = [_Phase(program, entry) for entry in entries]


class CLDevice:
    """OpenCL device number `index` of those that `find_devices` lists.

    `driver` is the module pyopencl, through which all goes that is asked of OpenCL.
    """

    has_addresses = False
    kernel_bytes = 9 << 18  # PoCL reads each program into 2 MiB, which it holds
    name: str
    is_software: bool
    shares_memory: bool
    takes_host_memory: bool
    driver: ModuleType
    context: cl.Context
    queue: cl.CommandQueue
    allocator: CLAllocator

    def __init__(self, name: str, index: int = 0, arch: str | None = None) -> None:
        self.driver, found = binding(), find_devices()
        if index >= len(found):
            raise DeviceError(
                f"there is no {name}: OpenCL has {len(found)} device{'s' * (len(found) > 1)} here"
            )
        self.name, self.facts = name, found[index]
        self.is_software = self.facts.is_software
        self.shares_memory = self.takes_host_memory = self.facts.shares_memory
        self.target = target_of(self.facts, arch)
        self.presence = Presence(name, "OpenCL")
        with translated("open the device", self.presence):
            self.context = self.driver.Context([self.facts.handle])
            self.queue = self.driver.CommandQueue(self.context)
        self._timed_queue: cl.CommandQueue | None = None
        finish_first(self, also_before_forks=True)
        self.allocator = CLAllocator(
            self.presence, self.driver, self.context, self.facts, self.synchronize
        )

    # -- code -----------------------------------------------------------------------------------

    def build(self, source: str) -> bytes:
        """The binary of a program. Raises InternalError with the driver's log."""
        program = self._built(
            InternalError, "OpenCL rejected generated code", source,
            options=["-w"], cache_dir=False,
        )  # fmt: skip
        return program.binaries[0]

    def load(self, code: bytes, entries: Sequence[Entry]) -> _Library:
        """A program from its binary. Raises StaleCodeError if the driver refuses it."""
        program = self._built(
            StaleCodeError, "OpenCL refuses a cached program", [self.facts.handle], [code]
        )
        return _Library(program, entries)

    def _built(
        self, refusal: type[TreadleError], what: str, *parts: object, **options: object
    ) -> cl.Program:
        """A program of these parts, without the warnings that a driver has about generated code.

        Raises `refusal` if the driver does not take it, DeviceError if there is no driver any more.
        """
        self.presence.check()
        with translated("build a program", self.presence), warnings.catch_warnings():
            warnings.simplefilter("ignore", self.driver.CompilerWarning)
            try:
                return self.driver.Program(self.context, *parts).build(**options)
            except self.driver.Error as error:
                if is_loss(error):
                    raise
                raise refusal(f"{what}: {error}") from error

    # -- launches -------------------------------------------------------------------------------

    def call_list(self, launches: Sequence[Launch], keep: object = None) -> CLCallList:
        """Launches with their arguments set, which a replay only enqueues."""
        self.presence.check()
        return CLCallList(self, launches, keep)

    def run(self, launches: Sequence[Launch]) -> None:
        """Enqueues launches once, in order."""
        self.call_list(launches).run()

    def read(self, buffer: CLBuffer, into: memoryview) -> None:
        """Copies the start of a buffer, once all work is done."""
        self.synchronize()
        if not into.nbytes:
            return
        if buffer.image is not None:
            self._copy_texels(into, buffer.argument, buffer.image)
            return
        if self.shares_memory:
            into.cast("B")[:] = buffer.view()[: into.nbytes]
            return
        with translated("read a buffer", self.presence):
            self.driver.enqueue_copy(self.queue, into, buffer.argument, is_blocking=True)

    def write(self, buffer: CLBuffer, data: memoryview) -> None:
        """Copies host bytes into a buffer, after the work that may still use it."""
        self.presence.check()
        if not data.nbytes:
            return
        if buffer.image is not None:
            self._copy_texels(buffer.argument, data, buffer.image)
            return
        if self.shares_memory:
            self.synchronize()
            buffer.view()[: data.nbytes] = data.cast("B")
            return
        with translated("write a buffer", self.presence):
            self.driver.enqueue_copy(self.queue, buffer.argument, data, is_blocking=True)

    def _copy_texels(self, target: object, source: object, image: ImageDType) -> None:
        """Copies a whole texture, after the work that was enqueued before."""
        height, width = image.image_shape
        with translated("copy a texture", self.presence):
            self.driver.enqueue_copy(
                self.queue, target, source, origin=(0, 0), region=(width, height), is_blocking=True
            )

    def synchronize(self) -> None:
        """Returns when everything that was enqueued has finished."""
        self.presence.check()
        with translated("wait for the device", self.presence):
            self.queue.finish()

    def timed_queue(self) -> cl.CommandQueue:
        """A queue whose events carry times; measuring is off in the other one."""
        queue = self._timed_queue
        if queue is None:
            properties = self.driver.command_queue_properties.PROFILING_ENABLE
            with translated("make a queue", self.presence):
                queue = self.driver.CommandQueue(self.context, properties=properties)
            self._timed_queue = queue
        return queue


class CLCallList:
    """Launches whose kernels hold their arguments."""

    def __init__(self, device: CLDevice, launches: Sequence[Launch], keep: object) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._calls: list[list[tuple[cl.Kernel, _Phase]]] = []
        self._args: list[list[object]] = []
        with translated("set the arguments of a kernel", device.presence):
            for launch in launches:
                self._args.append(list(launch.args))
                self._calls.append(
                    [_prepared(device.driver, phase, launch) for phase in launch.phases]
                )
        self._keep = keep
        self._flat = [
            (kernel, *phase.sizes) for call in self._calls for kernel, phase in call
        ]  # what a replay needs and nothing else

    def __len__(self) -> int:
        return len(self._calls)

    def set_arg(self, call: int, slot: int, argument: cl.Buffer | cl.Image) -> None:
        """Replaces the memory in argument `slot` of launch `call`."""
        self._args[call][slot] = argument  # keeps it alive
        for kernel, phase in self._calls[call]:
            for position, used in enumerate(phase.entry.slots):
                if used.number == slot:
                    kernel.set_arg(position, argument)

    def set_var(self, call: int, slot: int, value: int) -> None:
        """Replaces the integer in variable `slot` of launch `call`."""
        for kernel, phase in self._calls[call]:
            for position, used in enumerate(phase.entry.variables):
                if used == slot:
                    kernel.set_arg(len(phase.entry.slots) + position, _int32(value))

    def run(self) -> None:
        """Enqueues every launch; the device starts at once and goes on by itself."""
        device = self._device
        device.presence.check()
        enqueue, queue = device.driver.enqueue_nd_range_kernel, device.queue
        with translated("launch a kernel", device.presence), self._lock:
            for kernel, total, workgroup in self._flat:
                enqueue(queue, kernel, total, workgroup)
            queue.flush()

    def run_timed(self) -> list[tuple[int, int]]:
        """Runs every launch; start and end of each in ns of the device's clock."""
        device = self._device
        device.synchronize()
        enqueue, queue = device.driver.enqueue_nd_range_kernel, device.timed_queue()
        with translated("launch a kernel", device.presence), self._lock:
            events = [
                [enqueue(queue, kernel, *phase.sizes) for kernel, phase in call]
                for call in self._calls
            ]
            queue.finish()
        now = time.monotonic_ns()
        return [
            (call[0].profile.start, call[-1].profile.end) if call else (now, now) for call in events
        ]


def _int32(value: int) -> np.int32:
    import numpy as np

    return np.int32(value)


def _prepared(driver: ModuleType, phase: _Phase, launch: Launch) -> tuple[cl.Kernel, _Phase]:
    """A kernel object of its own with all arguments set."""
    entry = phase.entry
    kernel = driver.Kernel(phase.program, entry.symbol)
    memory = [launch.args[slot.number] for slot in entry.slots]
    numbers = [_int32(launch.vars[position]) for position in entry.variables]
    for position, argument in enumerate((*memory, *numbers)):
        kernel.set_arg(position, argument)
    return kernel, phase
