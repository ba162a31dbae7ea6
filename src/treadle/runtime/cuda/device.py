"""A CUDA device: one stream on the device's primary context, code as modules, launches in order.

    device = CUDADevice("CUDA", driver, 0, make_target)
    library = device.load(b".version 7.8 ...", [Entry("f", grid=8, work_items=64, slots=...)])
    device.run([Launch(library.phases, [buffer.argument])])

Two things surprise: `run` returns before the work is done, so that a kernel's fault shows at a
later call; and CUDA itself orders the stream with the legacy default stream, so that PyTorch's work
on the same memory needs no waiting, unless PyTorch works on another stream (see `join`).
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from treadle.errors import DeviceError
from treadle.runtime.cuda.calls import CUDACallList, Phase
from treadle.runtime.cuda.driver import DriverError
from treadle.runtime.cuda.failures import Failures, opening_failed
from treadle.runtime.cuda.memory import CUDAAllocator, CUDABuffer
from treadle.runtime.cuda.staging import Staging
from treadle.runtime.cuda.tensor_maps import aligned

from .driver import Event, Executable, Graph, Stream

if TYPE_CHECKING:
    from treadle.runtime.base import Entry, Launch
    from treadle.runtime.cuda.driver import DeviceFacts, Driver, Module
    from treadle.target import Target

__all__ = ["CUDADevice"]

_IMPLICIT = (0, 1)  # names of the legacy default stream, with which CUDA orders ours anyhow


class _Library:
    """Loaded code. `phases` are what launches take."""

    def __init__(self, module: Module, entries: Sequence[Entry]) -> None:
        self.phases = [Phase(module.function(entry.symbol), entry) for entry in entries]
        for kernel, entry in self.phases:
            if entry.shared:
                kernel.allow_shared(entry.shared)


class CUDADevice:
    """Device `index` of those that the driver shows; `make_target` gives the Target of its facts.

    Raises DeviceError if there is none.
    """

    has_addresses = True
    shares_memory = False
    takes_host_memory = False
    kernel_bytes = 1 << 18  # as much as emulated ones

    def __init__(
        self, name: str, driver: Driver, index: int, make_target: Callable[[DeviceFacts], Target]
    ) -> None:
        devices = driver.devices()
        if index >= len(devices):
            count = len(devices)
            raise DeviceError(
                f"there is no {name}: CUDA has {count or 'no'} device{'s' * (count != 1)} here"
                f"{'' if driver.is_emulated else ' (CUDA_VISIBLE_DEVICES can hide some)'}"
            )
        self.name, self.index, self.driver = name, index, driver
        self.facts = devices[index]
        self.is_software = driver.is_emulated
        self.target = make_target(self.facts)
        try:
            self.context = driver.open(index)
            self.stream: Stream = self.context.new_stream()
        except DriverError as error:
            raise opening_failed(error) from error
        self.failures = Failures(name, driver.version)
        self.allocator = CUDAAllocator(name, index, self.context, self.stream, self.failures)
        self._staging = Staging(self.context, self.stream)
        self._joined: weakref.WeakKeyDictionary[CUDABuffer, int] = weakref.WeakKeyDictionary()

    # -- code -------------------------------------------------------------------------------------

    def load(self, code: bytes, entries: Sequence[Entry]) -> _Library:
        """A cubin or PTX. Raises StaleCodeError if the driver refuses it."""
        with self.failures.translated("load a kernel"):
            return _Library(self.context.load(code), entries)

    def describe(self, library: _Library) -> list[str]:
        """For each phase: its registers and memory, and how many of its blocks run at a time."""
        with self.failures.translated("look at a kernel"):
            return [phase.describe(self.facts) for phase in library.phases]

    # -- launches ---------------------------------------------------------------------------------

    def call_list(self, launches: Sequence[Launch], keep: object = None) -> CUDACallList:
        """Launches as a graph."""
        self.failures.check()
        return CUDACallList(self, launches, keep)

    def run(self, launches: Sequence[Launch]) -> None:
        """Starts launches once, in order."""
        names = [phase.entry.symbol for launch in launches for phase in launch.phases]
        with self.working("launch a kernel", names):
            for phases, args, variables in launches:
                for phase in phases:
                    self.start(phase, args, variables)

    def start(self, phase: Phase, args: Sequence[int], variables: Sequence[int]) -> None:
        """One kernel function on the stream."""
        grid, block = phase.sizes
        with aligned(self.context, self.stream, phase.entry, args) as here:
            given = phase.arguments(self.context, here, variables)
            shared = phase.entry.shared
            self.context.launch(phase.kernel, grid, block, shared, self.stream, given)

    @contextmanager
    def working(self, what: str, names: Sequence[str] = ()) -> Iterator[None]:
        """A block that puts work on the stream: kernels of these names, or copies."""
        with self.failures.translated(what):
            self.failures.launched(names)
            joined = set(self._joined.values())
            for stream in joined:
                self._check_capture(stream)
            for stream in joined:
                self._follow(stream, self.stream)
            yield
            for stream in joined:
                self._follow(self.stream, stream)

    @contextmanager
    def _moment(self, stream: Stream | None) -> Iterator[Event]:
        """An event that happens when what is on `stream` now has finished."""
        event = self.context.new_event(False)
        try:
            self.context.record(event, stream)
            yield event
        finally:
            self.context.delete_event(event)

    def _check_capture(self, stream: Stream | None) -> None:
        """Raises DriverError where another library captures a graph on its stream.

        To wait for the stream would make our work a part of the graph, and what is allocated for
        it the graph's; to let it wait for us would break the capture.
        """
        if self.context.is_capturing(stream):
            raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "cuStreamIsCapturing")

    def _follow(self, earlier: Stream | None, later: Stream | None) -> None:
        """What comes on stream `later` starts after what is on `earlier` now."""
        with self._moment(earlier) as event:
            self.context.wait_event(later, event)

    def synchronize(self) -> None:
        """Returns when everything that was started has finished."""
        with self.failures.translated("wait for the device"):
            self.context.wait_stream(self.stream)
            self.failures.finished()

    def discard(self, graph: Graph, executable: Executable | None) -> None:
        """Lets go of a graph, on whatever thread."""
        with contextlib.suppress(DeviceError, DriverError):
            self.failures.check()
            self.context.delete_graph(graph, executable)

    # -- copies -----------------------------------------------------------------------------------

    def read(self, buffer: CUDABuffer, into: memoryview) -> None:
        """Copies the start of a buffer, after the work that was started before."""
        if into.nbytes:
            with self.working("read a buffer"):
                self._staging.read(into, buffer.argument)

    def write(self, buffer: CUDABuffer, data: memoryview) -> None:
        """Copies host bytes into a buffer, after the work that may still use it."""
        if data.nbytes:
            with self.working("write a buffer"):
                self._staging.write(buffer.argument, data)

    def copy_from(self, other: object, source: CUDABuffer, target: CUDABuffer, nbytes: int) -> bool:
        """Copies another CUDA device's memory here without the host; neither side is waited for.

        False, and nothing is copied, where the other device is not one of this driver's.
        """
        if not isinstance(other, CUDADevice) or other.driver is not self.driver:
            return False
        with other.working("send a buffer"), other._moment(other.stream) as sent:
            with self.working("receive a buffer"):
                self.context.wait_event(self.stream, sent)
                self._copy(other, source.argument, target.argument, nbytes)
                arrived = self.context.new_event(False)
                self.context.record(arrived, self.stream)
            other.context.wait_event(other.stream, arrived)
        with self.failures.translated("receive a buffer"):
            self.context.delete_event(arrived)
        return True

    def _copy(self, other: CUDADevice, source: int, target: int, nbytes: int) -> None:
        if other.index == self.index:
            self.context.copy(target, source, nbytes, self.stream)
        else:
            self.context.reach_peer(other.context)  # else the driver goes by the host's memory
            self.context.copy_peer(target, source, other.context, nbytes, self.stream)

    # -- other libraries' streams -----------------------------------------------------------------

    def join(self, buffer: CUDABuffer, stream: int) -> None:
        """While `buffer` lives, work here and on `stream` is done in the order it was started in.

        `stream` is a CUstream as an integer; it has to live as long. Nothing is needed for the
        legacy default stream.
        """
        if stream not in _IMPLICIT:
            self._joined[buffer] = stream

    def hand_over(self, stream: int) -> None:
        """What comes later on `stream` starts after the work that was started here before."""
        if stream not in _IMPLICIT:
            with self.working("hand memory over"):
                self._check_capture(stream)
                self._follow(self.stream, stream)

    def take_over(self, stream: int) -> None:
        """What comes later here starts after the work that is on `stream` now."""
        if stream not in _IMPLICIT:
            with self.working("take memory over"):
                self._check_capture(stream)
                self._follow(stream, self.stream)
