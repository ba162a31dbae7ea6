"""What the CUDA runtime asks of a driver: a small part of NVIDIA's driver API, in Python's terms.

    driver.devices()[0].capability         -> (9, 0)
    context = driver.open(0)
    kernel = context.load(image).function("softmax")
    context.launch(kernel, grid=(64, 1, 1), block=(128, 1, 1), shared=0, stream=stream, args=args)

Two fit it: NVIDIA's own through cuda-bindings, and the emulator, which runs the same images on the
processor. Addresses are integers; streams, events, modules, kernels and graphs are whatever the
driver makes of them, and only that driver takes them back. Every failure is a DriverError that
names CUDA's error, so that the runtime above writes one sentence for each and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NewType, Protocol, SupportsInt, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

__all__ = [
    "ELEMENTS", "Argument", "Context", "DeviceFacts", "Dim", "Driver", "DriverError", "Event",
    "Executable", "Graph", "GraphNode", "Kernel", "KernelFacts", "Module", "Stream", "TensorTiles",
]  # fmt: skip

Dim = tuple[int, int, int]
# What a driver makes and alone takes back. A stream's number, int(stream), other libraries know.
Stream: TypeAlias = SupportsInt
Event = NewType("Event", object)
Graph = NewType("Graph", object)
GraphNode = NewType("GraphNode", object)
Executable = NewType("Executable", object)
# ("address", n), ("int32", n), ("int64", n) or ("tensor_map", map), in the kernel's order; a map is
# a parameter of 128 bytes (`const __grid_constant__`, `.param .align 64 .b8 map[128]`).
Argument = tuple[str, Any]

# What CUDA calls the elements of a tensor map, and their bytes.
ELEMENTS = {
    "u8": ("UINT8", 1), "u16": ("UINT16", 2), "u32": ("UINT32", 4), "u64": ("UINT64", 8),
    "f16": ("FLOAT16", 2), "bf16": ("BFLOAT16", 2), "f32": ("FLOAT32", 4), "f64": ("FLOAT64", 8),
    "tf32": ("TFLOAT32", 4),  # float32 in memory, rounded on its way to shared memory
}  # fmt: skip


class DriverError(Exception):
    """A call failed: `code` is CUDA's name ("CUDA_ERROR_OUT_OF_MEMORY"), `call` the function's."""

    def __init__(self, code: str, call: str, message: str = "") -> None:
        self.code, self.call = code, call
        super().__init__(f"{call}: {code}" + (f": {message}" if message else ""))


@dataclass(frozen=True)
class DeviceFacts:
    """One device. Sizes in bytes.

    `capability` is the compute capability; `shared` what a block can have without asking,
    `shared_optin` what it can have if the kernel asks for it; `has_watchdog` says whether a kernel
    that runs for seconds is ended, as where the GPU has a display.
    """

    name: str
    capability: tuple[int, int]
    memory: int
    multiprocessors: int
    most_threads: int
    shared: int
    shared_optin: int
    shared_per_multiprocessor: int
    l2: int
    pci: str
    has_pools: bool
    has_watchdog: bool
    is_emulated: bool


@dataclass(frozen=True)
class KernelFacts:
    """What the compiled kernel needs: registers a thread, bytes of memory, most threads a block."""

    registers: int
    shared: int
    local: int
    constant: int
    most_threads: int


@dataclass(frozen=True)
class TensorTiles:
    """A tensor in device memory, and the box of it that one cp.async.bulk.tensor moves.

    `element` is one of ELEMENTS. Dimensions are in the order of PTX's coordinates, the contiguous
    one first: `shape` and `box` count elements, `strides` are the bytes between neighbours of each
    dimension but the first. `swizzle` is 0, 32, 64 or 128 bytes: 16-byte pieces of shared memory
    trade places within so many, as wgmma's descriptors name them. What lies outside of the shape is
    read as zeros and not written.
    """

    element: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0


class Kernel(Protocol):
    """One function of a module."""

    @property
    def facts(self) -> KernelFacts: ...

    def blocks_per_multiprocessor(self, threads: int, shared: int) -> int:
        """How many blocks of `threads` run on one multiprocessor at a time."""
        ...

    def allow_shared(self, nbytes: int) -> None:
        """Lets launches ask for up to `nbytes` of dynamic shared memory."""
        ...


class Module(Protocol):
    """A loaded image. It is unloaded some time after it is collected."""

    def function(self, name: str) -> Kernel:
        """The kernel of that name. DriverError CUDA_ERROR_NOT_FOUND if there is none."""
        ...


class Context(Protocol):
    """The primary context of one device. Any thread may use it; the driver makes it current.

    `stream` None is the legacy default stream; copies from and to pageable memory have finished
    when they return, those from and to pinned memory are ordered by their stream alone.
    """

    @property
    def facts(self) -> DeviceFacts: ...

    @property
    def handle(self) -> int:
        """What names this context to others (cuda-bindings' CUcontext as an integer)."""
        ...

    def current(self) -> AbstractContextManager[None]:
        """A block in which the context is the calling thread's, for libraries beside the driver."""
        ...

    # -- memory
    def alloc(self, nbytes: int, stream: Stream | None) -> int: ...
    def free(self, address: int, stream: Stream | None) -> None: ...
    def alloc_pinned(self, nbytes: int) -> int:
        """Host memory that the device reaches; its address in this process."""
        ...

    def memory_info(self) -> tuple[int, int]:
        """Bytes that are free, and in all."""
        ...

    def trim(self, keep: int) -> None:
        """Gives all but `keep` bytes of the stream-ordered pool's spare memory back."""
        ...

    def owner_of(self, address: int) -> tuple[int, int, int] | None:
        """(device index, start, bytes) of the allocation around a device address, or None."""
        ...

    def copy_in(self, target: int, host: int, nbytes: int, stream: Stream | None) -> None: ...
    def copy_out(self, host: int, source: int, nbytes: int, stream: Stream | None) -> None: ...
    def copy(self, target: int, source: int, nbytes: int, stream: Stream | None) -> None: ...
    def copy_peer(
        self, target: int, source: int, source_context: Context, nbytes: int, stream: Stream | None
    ) -> None:
        """From another device's memory into this one's."""
        ...

    def reach_peer(self, other: Context) -> bool:
        """Lets kernels and copies here reach the other device's memory; False if they cannot."""
        ...

    # -- code
    def load(self, image: bytes) -> Module:
        """A cubin or PTX text. DriverError CUDA_ERROR_INVALID_PTX, ..._NO_BINARY_FOR_GPU, ..."""
        ...

    def encode_tensor_map(self, tiles: TensorTiles) -> object:
        """What a launch takes as ("tensor_map", map). DriverError CUDA_ERROR_INVALID_VALUE.

        From compute capability 9.0 on; CUDA_ERROR_NOT_SUPPORTED before.
        """
        ...

    def launch(
        self,
        kernel: Kernel,
        grid: Dim,
        block: Dim,
        shared: int,
        stream: Stream | None,
        args: Sequence[Argument],
    ) -> None: ...

    # -- order
    def new_stream(self) -> Stream:
        """A stream; `int(stream)` is what other libraries know it by."""
        ...

    def delete_stream(self, stream: Stream | None) -> None: ...
    def wait_stream(self, stream: Stream | None) -> None:
        """Returns when everything on the stream has finished."""
        ...

    def is_capturing(self, stream: Stream | None) -> bool:
        """Whether somebody makes a graph of what is put on the stream now."""
        ...

    def new_event(self, timed: bool) -> Event: ...
    def delete_event(self, event: Event) -> None: ...
    def record(self, event: Event, stream: Stream | None) -> None: ...
    def wait_event(self, stream: Stream | None, event: Event) -> None:
        """What comes later on `stream` starts after the event."""
        ...

    def finish_event(self, event: Event) -> None:
        """Returns when the event has happened."""
        ...

    def has_happened(self, event: Event) -> bool:
        """Whether it has, without waiting. Raises DriverError for work that has failed."""
        ...

    def elapsed(self, start: Event, end: Event) -> float:
        """Nanoseconds between two timed events, once both have happened."""
        ...

    def synchronize(self) -> None: ...

    # -- graphs: kernels that run one after the other, or side by side where told
    def new_graph(self) -> Graph: ...
    def add_kernel(
        self,
        graph: Graph,
        after: Sequence[GraphNode],
        kernel: Kernel,
        grid: Dim,
        block: Dim,
        shared: int,
        args: Sequence[Argument],
    ) -> GraphNode:
        """A node of the graph that starts when those in `after` have finished."""
        ...

    def instantiate(self, graph: Graph) -> Executable:
        """The graph as one thing to launch."""
        ...

    def update_kernel(
        self, executable: Executable, node: GraphNode, args: Sequence[Argument]
    ) -> None:
        """Other arguments for one node, from the next launch on."""
        ...

    def launch_graph(self, executable: Executable, stream: Stream | None) -> None: ...
    def delete_graph(self, graph: Graph, executable: Executable | None) -> None:
        """Some time after their launches; on any thread, and without waiting for any stream."""
        ...


class Driver(Protocol):
    """The driver of this machine, initialised."""

    @property
    def is_emulated(self) -> bool: ...

    @property
    def version(self) -> tuple[int, int]:
        """The newest CUDA that it serves: (13, 0)."""
        ...

    def devices(self) -> Sequence[DeviceFacts]:
        """Those that CUDA_VISIBLE_DEVICES leaves, in CUDA's order."""
        ...

    def open(self, index: int) -> Context: ...
