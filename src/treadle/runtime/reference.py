"""The REF device: memory for the interpreter, which computes a graph by itself, in NumPy.

    device = ReferenceDevice("REF")
    device.write(device.allocator.alloc(4), data)

It loads and launches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.runtime.buffer import HostAllocator
from treadle.target import host_target

if TYPE_CHECKING:
    from treadle.runtime.buffer import HostBuffer
    from treadle.target import Target

__all__ = ["ReferenceDevice"]


class ReferenceDevice:
    """Host memory."""

    has_addresses = True
    shares_memory = True
    takes_host_memory = True
    name: str
    target: Target
    allocator: HostAllocator

    def __init__(self, name: str) -> None:
        self.name, self.target = name, host_target()
        self.allocator = HostAllocator(name=name)

    def read(self, buffer: HostBuffer, into: memoryview) -> None:
        """Copies the start of a buffer."""
        into.cast("B")[:] = buffer.view()[: into.nbytes]

    def write(self, buffer: HostBuffer, data: memoryview) -> None:
        """Copies `data` to the start of a buffer."""
        buffer.view()[: data.nbytes] = data.cast("B")

    def synchronize(self) -> None:
        """Nothing to wait for: the interpreter returns when it is done."""
