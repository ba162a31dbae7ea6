"""What the command processor itself reads and writes, one behind the other, told to the ordering.

    accesses = Accesses(space, kernels, "the command processor of context 1")
    accesses.hear(known)                     # of the host, or of a signal
    accesses.read(address, 12)

Kernels that it starts later come after all of that. It reads memory past the caches of kernels:
what these wrote it sees when the caches were flushed and it has waited for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from treadle.emulate.kgsl.faults import KernelFault
from treadle.emulate.machine.knowledge import Knowledge

if TYPE_CHECKING:
    from treadle.emulate.machine.memory import AddressSpace
    from treadle.emulate.machine.ordering import Stream

__all__ = ["Accesses"]


class Accesses:
    """Those of one context, whose kernels are another stream."""

    def __init__(self, space: AddressSpace, kernels: Stream, name: str) -> None:
        self._space, self._kernels = space, kernels
        self._stream = space.ordering.stream(name, has_caches=True)
        self._flushed = Knowledge()
        self._count = 0

    def hear(self, known: Knowledge) -> None:
        """Accesses and kernels from now on come after what is known."""
        self._stream.hear(known)
        self._stream.acquire(known)
        self._kernels.hear(known)

    def flush(self, known: Knowledge) -> None:
        """What such kernels wrote is in memory when they have been waited for."""
        self._flushed = self._flushed.joined(known)

    def idle(self) -> None:
        """The kernels up to their last barrier have ended."""
        self._stream.hear(self._kernels.before())
        self._stream.acquire(self._flushed)

    def stop(self) -> None:
        """There are no more."""
        self._stream.is_over = True

    @contextmanager
    def _one(self, what: str) -> Iterator[None]:
        self._stream.barrier(self._count)
        work = self._stream.work(self._count, self._stream.before(), what)
        self._count += 1
        with self._space.ordering.doing(work):
            yield
        done = Knowledge().with_first(self._stream.number, self._count)
        self._stream.acquire(done)
        self._kernels.hear(done)

    def read(self, address: int, nbytes: int, what: str = "reads for a packet") -> bytes:
        """Bytes as they are in memory. Raises MemoryFault, OrderFault."""
        with self._one(what):
            return self._space.read(address, nbytes)

    def write(self, address: int, data: bytes) -> None:
        """Words; the first one may be a signal. Raises MemoryFault, OrderFault."""
        if address % 4 or not data:
            raise KernelFault(f"a packet writes {len(data)} bytes at {address:#x}")
        with self._one("writes for a packet"):
            self._space.write(address, data)
            self._space.signal(address, data[:4], covers_itself=True)

    def read_number(self, address: int, nbytes: int) -> int:
        return int.from_bytes(self.read(address, nbytes), "little")

    def write_number(self, address: int, nbytes: int, value: int) -> None:
        """A number, of which the low bytes are written."""
        self.write(address, (value & (1 << 8 * nbytes) - 1).to_bytes(nbytes, "little"))
