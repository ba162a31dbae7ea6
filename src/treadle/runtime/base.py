"""What every runtime offers: memory, loaded code, launches.

    device.allocator.alloc(nbytes)                     -> Buffer
    device.load(code, entries).phases                  -> what a Launch takes
    device.run([Launch(phases, [b.argument for b in buffers])])

Protocols only. A runtime is a file of small classes that fit them; what one cannot do it refuses
with a DeviceError that says so. Launches of one device happen in order; `synchronize`, `read` and
`write` wait for those that they depend on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.target import Target

__all__ = [
    "Allocator", "Boxes", "Buffer", "CallList", "Device", "Entry", "Launch", "Library",
    "MemoryDevice", "MemoryStats", "Slot",
]  # fmt: skip


@dataclass(frozen=True)
class MemoryStats:
    """Bytes held by buffers now, kept for reuse, and the most that buffers ever held at once."""

    live: int
    cached: int
    peak: int


@dataclass(frozen=True)
class Slot:
    """Argument `number` of a kernel, as one of its phases uses it: `nbytes` of memory at most."""

    number: int
    nbytes: int
    is_written: bool


@dataclass(frozen=True)
class Boxes:
    """What a phase copies in bulk: boxes of a tensor in argument `number`, `offset` bytes into it.

    `element` is the name of a dtype. Axes are in the order of tensor maps, the contiguous one
    first; `strides` are the bytes between neighbours of each axis but that.
    """

    number: int
    element: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]


@dataclass(frozen=True)
class Entry:
    """One phase of a kernel: the function `symbol` over `grid` slices or workgroups.

    `work_items` is the size of a workgroup (1 where workers take slices of the grid), `slots` are
    the memory arguments that the function has, in order, `variables` the positions in Launch.vars
    of the integers it takes after them, `boxes` the tensors that it takes maps of after those,
    `work` a rough count of operations of the whole phase. A launch asks for `shared` bytes of
    memory that the work items of a workgroup share. Arguments of the numbers `aligned` begin at
    multiples of 16 bytes.
    """

    symbol: str
    grid: int
    work_items: int = 1
    slots: tuple[Slot, ...] = ()
    variables: tuple[int, ...] = ()
    work: int = 0
    shared: int = 0
    boxes: tuple[Boxes, ...] = ()
    aligned: tuple[int, ...] = ()


class Launch(NamedTuple):
    """One kernel call: its phases in order, the memory and the integers that all of them get."""

    phases: Sequence[Any]
    args: Sequence[Any]
    vars: Sequence[int] = ()


class Buffer(Protocol):
    """Memory of one device. It returns to its allocator when it is collected."""

    @property
    def nbytes(self) -> int: ...

    @property
    def argument(self) -> Any:
        """What a Launch takes for this buffer: its address, or a handle where there is none."""
        ...

    def view(self) -> memoryview:
        """The bytes themselves, writable, without a copy; DeviceError if the host has no access."""
        ...


class Allocator(Protocol):
    """Makes buffers. All threads may call it.

    `largest`: so many bytes one buffer has at most; None where only the host's memory ends it.
    """

    @property
    def largest(self) -> int | None: ...

    def alloc(self, nbytes: int) -> Buffer:
        """Memory with undefined contents. Raises OutOfMemory."""
        ...

    def from_pointer(self, pointer: int, nbytes: int, owner: object = None) -> Buffer:
        """Memory of somebody else's, without a copy. `owner` lives as long as the buffer."""
        ...

    def trim(self) -> int:
        """Gives cached memory back to the system; how many bytes."""
        ...

    @property
    def stats(self) -> MemoryStats: ...


class Library(Protocol):
    """Loaded code; it is unloaded when it is collected."""

    @property
    def phases(self) -> Sequence[object]:
        """What Launch.phases takes, one for each Entry that was loaded."""
        ...


class CallList(Protocol):
    """Launches prepared for replay. Two threads must not run or change one list at once."""

    def __len__(self) -> int: ...

    def set_arg(self, call: int, slot: int, argument: Any, /) -> None:
        """Replaces the memory in argument `slot` of launch `call`."""
        ...

    def set_var(self, call: int, slot: int, value: int) -> None:
        """Replaces the integer in variable `slot` of launch `call`."""
        ...

    def run(self) -> None:
        """Starts all launches in order; on the CPU, returns when they are done."""
        ...

    def run_timed(self) -> list[tuple[int, int]]:
        """Runs all launches; the start and end of each, in ns of one clock."""
        ...


class MemoryDevice(Protocol):
    """One opened device as memory: that of the interpreter is no more than this.

    `has_addresses`: kernel arguments are plain addresses, so that several pieces of memory can be
    parts of one buffer. `shares_memory`: the host sees all of the device's memory (Buffer.view).
    `takes_host_memory`: an address of the host's is memory that a buffer can be of.
    """

    has_addresses: bool
    shares_memory: bool
    takes_host_memory: bool

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> Target: ...

    @property
    def allocator(self) -> Allocator: ...

    def read(self, buffer: Any, into: memoryview) -> None:
        """Copies the first `into.nbytes` bytes of a buffer to the host, and waits for them."""
        ...

    def write(self, buffer: Any, data: memoryview) -> None:
        """Copies host bytes to the start of a buffer; `data` is free again on return."""
        ...

    def synchronize(self) -> None:
        """Returns when everything that was launched has finished."""
        ...


class Device(MemoryDevice, Protocol):
    """One opened device that runs kernels.

    `kernel_bytes`: about how much of the host's memory a loaded kernel takes.
    """

    kernel_bytes: int

    def load(self, code: bytes, entries: Sequence[Entry]) -> Library:
        """Loads what the device's compiler made and finds the entries in it."""
        ...

    def call_list(self, launches: Sequence[Launch], keep: object = None) -> CallList:
        """Prepares launches for replay; `keep` is held as long as the result."""
        ...

    def run(self, launches: Sequence[Launch]) -> None:
        """Starts launches once, in order."""
        ...
