"""An Apple GPU: one command queue, libraries made from source, launches that are only committed.

    device = MetalDevice("METAL", messages, 0)
    library = device.load(b"kernel void f_0(...) {...}", [Entry("f_0", grid=8, work_items=64, ...)])
    device.run([Launch(library.phases, [buffer.argument])])

One surprise: `run` returns before the work is done, and an error of the GPU is known when the work
is waited for: `read`, `write` and `synchronize` raise it, or the first launch after it is known.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from treadle.errors import DeviceError, InternalError
from treadle.forks import fork_safe
from treadle.runtime.metal.calls import MetalCallList, Phase
from treadle.runtime.metal.memory import MetalAllocator, MetalBuffer
from treadle.runtime.presence import Presence, finish_first
from treadle.target import APPLE_FAMILIES, apple_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.runtime.base import Entry, Launch
    from treadle.runtime.metal.messages import Handle, Messages

__all__ = ["MetalDevice", "describe", "family_of"]

# MTLCommandBufferStatus: committed, completed, with an error; MTLMathMode; MTLLanguageVersion.
_SENT, _COMPLETED, _FAILED = 2, 4, 5
_SAFE = 0  # floats as they are written: no reassociation, NaN and infinities kept
_METAL_3_1 = (3 << 16) + 1  # the first with bfloat
_MOST_COMMITTED = 64  # command buffers whose end nobody has seen; a queue has room for as many
_LOST = frozenset((4, 11))  # MTLCommandBufferError: access revoked, device removed


class _Library(NamedTuple):
    """Compiled code: its phases are what launches take."""

    phases: list[Phase]


class MetalDevice:
    """GPU number `index` of those that Metal lists.

    `arch` names a family whose code is made instead of the GPU's own. Raises DeviceError where
    there is no such GPU, or one older than M1.
    """

    has_addresses = False
    shares_memory = True
    takes_host_memory = False  # addresses are those of MTLBuffers
    kernel_bytes = 1 << 18
    handle: Handle
    queue: Handle
    allocator: MetalAllocator

    def __init__(
        self, name: str, messages: Messages, index: int = 0, arch: str | None = None
    ) -> None:
        self.name, self.messages = name, messages
        with messages.pool():
            found = messages.devices()
            if index >= len(found):
                raise DeviceError(
                    f"there is no {name}: Metal has {len(found)} "
                    f"device{'s' * (len(found) != 1)} here"
                )
            self.handle = found[index]
            own = family_of(messages, self.handle)
            self.queue = messages.send(
                self.handle, "newCommandQueueWithMaxCommandBufferCount:", _MOST_COMMITTED
            )
        self.target = apple_target(arch or own)
        self.loads_indirect = APPLE_FAMILIES[own].loads_indirect
        self.presence = Presence(name, "Metal")
        # Whoever encodes or waits holds this: a command buffer is of one thread.
        self.lock = fork_safe(threading.RLock())
        self._committed: deque[Handle] = deque()
        self.commits = 0  # command buffers that were ever committed
        self.allocator = MetalAllocator(
            self.presence, messages, self.handle, weakref.WeakMethod(self.probe)
        )
        finish_first(self)

    # -- code -----------------------------------------------------------------------------------

    def load(self, code: bytes, entries: Sequence[Entry]) -> _Library:
        """Pipelines for the entries of a text. Raises InternalError if Metal rejects it."""
        self.presence.check()
        messages = self.messages
        with self.lock, messages.pool():
            options = messages.made("MTLCompileOptions")
            try:
                messages.tell(options, "setMathMode:", _SAFE)
            except AttributeError as error:
                raise DeviceError("METAL needs macOS 15 or newer, whose Metal has modes of "
                                  "arithmetic") from error  # fmt: skip
            messages.tell(options, "setLanguageVersion:", _METAL_3_1)
            library, why = messages.attempt(
                self.handle, "newLibraryWithSource:options:error:", code.decode(), options
            )
            if library is None:
                self.probe()
                raise InternalError(f"Metal rejected generated code: {why}\n{code.decode()}")
            return _Library([self._phase(library, entry) for entry in entries])

    def _phase(self, library: Handle, entry: Entry) -> Phase:
        messages = self.messages
        function = messages.find(library, "newFunctionWithName:", entry.symbol)
        if function is None:
            raise InternalError(f"generated code has no kernel {entry.symbol}")
        descriptor = messages.made("MTLComputePipelineDescriptor")
        messages.tell(descriptor, "setComputeFunction:", function)
        messages.tell(descriptor, "setMaxTotalThreadsPerThreadgroup:", entry.work_items)
        messages.tell(descriptor, "setSupportIndirectCommandBuffers:", True)
        selector = "newComputePipelineStateWithDescriptor:options:reflection:error:"
        pipeline, why = messages.attempt(self.handle, selector, descriptor, 0, None)
        if pipeline is None:
            self.probe()
            raise DeviceError(f"{self.name}: no pipeline for {entry.symbol}: {why}")
        most = messages.number(pipeline, "maxTotalThreadsPerThreadgroup")
        if most < entry.work_items:
            raise DeviceError(
                f"{self.name}: {entry.symbol} has {entry.work_items} work items in a workgroup, "
                f"the GPU has registers for {most}"
            )
        return Phase(pipeline, entry)

    # -- launches -------------------------------------------------------------------------------

    def call_list(self, launches: Sequence[Launch], keep: object = None) -> MetalCallList:
        """Launches that can be replayed."""
        self.presence.check()
        return MetalCallList(self, launches, keep)

    def run(self, launches: Sequence[Launch]) -> None:
        """Commits launches once, in order."""
        self.call_list(launches).run()

    def commit(self, commands: Handle) -> None:
        """Starts a command buffer; with `lock` held."""
        if len(self._committed) >= _MOST_COMMITTED // 2:
            self._wait_for_first()
        # First of all it is known: an interrupt after the message would leave it to nobody.
        self._committed.append(commands)
        self.commits += 1
        self.messages.tell(commands, "commit")

    def look_for_errors(self) -> None:
        """Raises DeviceError for work that is known to have failed; with `lock` held."""
        while self._committed:
            if self.messages.number(self._committed[0], "status") < _COMPLETED:
                return
            self._wait_for_first()

    def finish(self, commits: int) -> None:
        """Waits for so many of the command buffers that were ever committed; with `lock` held."""
        while self.commits - len(self._committed) < commits:
            self._wait_for_first()

    def probe(self) -> None:
        """Raises DeviceError for a GPU that is lost. Metal then gives no objects, and no reason."""
        with self.lock, self.messages.pool():
            self.commit(self.messages.send(self.queue, "commandBuffer"))
            self.synchronize()

    def read(self, buffer: MetalBuffer, into: memoryview) -> None:
        """Copies the start of a buffer, once all work is done."""
        self.synchronize()
        if into.nbytes:
            into.cast("B")[:] = buffer.view()[: into.nbytes]

    def write(self, buffer: MetalBuffer, data: memoryview) -> None:
        """Copies host bytes into a buffer, after the work that may still use it."""
        self.synchronize()
        if data.nbytes:
            buffer.view()[: data.nbytes] = data.cast("B")

    def synchronize(self) -> None:
        """Returns when everything that was committed has finished. Raises DeviceError."""
        self.presence.check()
        with self.lock, self.messages.pool():
            while self._committed:
                self._wait_for_first()

    def _wait_for_first(self) -> None:
        """Wait for the oldest command buffer; an interrupted wait begins anew.

        What it was to compute is nowhere if it has failed, nor is what others compute of that. So
        the device is lost then.
        """
        messages, commands = self.messages, self._committed[0]
        if messages.number(commands, "status") < _SENT:  # its commit was interrupted
            self._committed.popleft()
            return
        messages.tell(commands, "waitUntilCompleted")
        if messages.number(commands, "status") != _FAILED:
            self._committed.popleft()
            return
        error = messages.find(commands, "error")
        why = "unknown" if error is None else messages.text(error, "localizedDescription")
        is_lost = error is not None and messages.number(error, "code") in _LOST
        self._committed.popleft()
        raise DeviceError(self.presence.lose(why if is_lost else f"the GPU broke off: {why}"))


def family_of(messages: Messages, device: Handle) -> str:
    """The newest family that a GPU belongs to. Raises DeviceError if it is older than M1's."""
    for name, family in reversed(APPLE_FAMILIES.items()):
        if messages.number(device, "supportsFamily:", family.number):
            return name
    oldest = next(iter(APPLE_FAMILIES))
    raise DeviceError(
        f"METAL needs an Apple GPU from M1 ({oldest}) on, not {messages.text(device, 'name')}"
    )


def describe(messages: Messages) -> str:
    """The GPUs in one line, for `treadle doctor`. Raises DeviceError if there is none."""
    with messages.pool():
        found = messages.devices()
        if not found:
            raise DeviceError("METAL: this machine has no GPU that Metal knows")
        first = found[0]
        family = family_of(messages, first)
        return f"{messages.text(first, 'name')} ({family})"
