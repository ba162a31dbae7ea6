"""Where decoded surfaces lie: a CUDA device's memory, or the host's for in-memory decoders.

memory = SurfaceMemory("CUDA")
with memory.current(): pointer, pitch = library.map_video_frame(...)
kept = memory.copied(pointer, nbytes)      # kept.argument is the address of a copy
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING

from ..engine.devices import Device, Opened
from ..errors import DeviceError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ..runtime.buffer import HostBuffer
    from ..runtime.cuda.driver import Context, Event
    from ..runtime.cuda.memory import CUDABuffer

__all__ = ["SurfaceMemory"]


class SurfaceMemory:
    """The memory of one device, its context and its stream.

    Raises DeviceError where there is no such device. Where nobody needs it to be there, that waits
    until surfaces are read.
    """

    def __init__(self, device: str, is_needed: bool = True) -> None:
        self.device = Device.canonicalize(device)
        self._context: Context | None = None
        with contextlib.nullcontext() if is_needed else contextlib.suppress(DeviceError):
            self._context = getattr(self._opened.runtime, "context", None)

    @property
    def _opened(self) -> Opened:
        return Device[self.device]

    @property
    def is_software(self) -> bool:
        """Whether no GPU stands behind it."""
        return self._context is None or self._opened.runtime.is_software

    @property
    def context(self) -> int:
        """The CUcontext, or 0 for host memory."""
        return 0 if self._context is None else self._context.handle

    @property
    def stream(self) -> int:
        """The CUstream on which tensors are computed, or 0 for host memory."""
        return 0 if self._context is None else int(self._opened.runtime.stream)

    def current(self) -> AbstractContextManager[None]:
        """A block in which libraries of CUDA work in this device's context."""
        return contextlib.nullcontext() if self._context is None else self._context.current()

    def moment(self) -> Event | None:
        """When all that tensors are computed from now has been read: an event, for `reach`.

        None for host memory, where no event is needed to ask.
        """
        if self._context is None:
            return None
        with self.current():
            event = self._context.new_event(False)
            self._context.record(event, self._opened.runtime.stream)
        return event

    def reach(self, moment: Event | None) -> None:
        """Returns when `moment` has come, once. What was started later may still run."""
        if moment is None or self._context is None:
            self._opened.synchronize()
            return
        with self.current():
            try:
                self._context.finish_event(moment)
            finally:
                self._context.delete_event(moment)

    def copied(self, pointer: int, nbytes: int) -> HostBuffer | CUDABuffer:
        """Memory of its own with the bytes at `pointer`, which may change once `moment` comes."""
        buffer = self._opened.allocator.alloc(nbytes)
        if self._context is None:
            ctypes.memmove(buffer.argument, pointer, nbytes)
        else:
            self._context.copy(buffer.argument, pointer, nbytes, self._opened.runtime.stream)
        return buffer
