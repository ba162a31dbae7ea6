"""One device's primary context, its modules and its kernels, through cuda-bindings.

    context = CudaContext(api, handle, 0, facts)
    address = context.alloc(1024, stream)

Any thread may call: each call makes the context current for itself and leaves the thread with the
one that it had, since other libraries (PyTorch) keep theirs there. Streams are made so that CUDA
orders them with the legacy default stream, on which those libraries work unless told otherwise.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsInt

from treadle.runtime.cuda.driver import (
    Argument,
    DeviceFacts,
    Dim,
    DriverError,
    KernelFacts,
    TensorTiles,
)
from treadle.runtime.cuda.encode import TensorMap, encode_tiled

from .driver import Event, Executable, Graph, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from treadle.runtime.cuda.api import Api

__all__ = ["CudaContext", "CudaKernel", "CudaModule"]

_TYPES = {
    "address": ctypes.c_void_p, "int32": ctypes.c_int, "int64": ctypes.c_longlong,
    "tensor_map": None,  # a structure of ctypes has a type of its own
}  # fmt: skip
_ORDERED_WITH_LEGACY, _UNTIMED = 0, 2  # CU_STREAM_DEFAULT, CU_EVENT_DISABLE_TIMING
_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE: every context may copy from it
_KEEP_ALL = (1 << 64) - 1
_LOG_BYTES = 8192


class CudaContext:
    """The primary context of device `index`."""

    def __init__(self, api: Api, device: SupportsInt, index: int, facts: DeviceFacts) -> None:
        self._api, self._device, self.index, self.facts = api, device, index, facts
        self._context = api("cuDevicePrimaryCtxRetain", device)
        self.handle = int(self._context)
        self._pool = self._open_pool() if facts.has_pools else None
        self._streams: list[Stream] = []
        self._retired: deque[tuple[str, object]] = deque()  # functions that let go of what

    def __call__(self, name: str, *arguments: object) -> Any:
        """A function of the driver's, with this context current."""
        if int(self._api("cuCtxGetCurrent")) == self.handle:
            return self._api(name, *arguments)
        with self.current():
            return self._api(name, *arguments)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """A block in which this context is the calling thread's."""
        self._api("cuCtxPushCurrent", self._context)
        try:
            yield
        finally:
            self._api("cuCtxPopCurrent")

    def retire(self, name: str, handle: object) -> None:
        """Lets go of `handle` by a function of the driver's, at the next load or instantiation.

        Modules and graphs are collected on any thread at any moment, also while another library
        captures a graph there, which waiting for the device would break.
        """
        self._retired.append((name, handle))

    def _clear_out(self) -> None:
        """Lets go of what was retired, when no kernel on a stream of ours can need it."""
        if not self._retired:
            return
        with contextlib.suppress(DriverError, IndexError):  # of a lost context; another thread
            for stream in list(self._streams):
                self.wait_stream(stream)
            while self._retired:
                self(*self._retired.popleft())

    # -- memory -----------------------------------------------------------------------------------

    def _open_pool(self) -> object:
        """The default pool, told to keep what is freed unless somebody told it otherwise."""
        pool = self._api("cuDeviceGetDefaultMemPool", self._device)
        threshold = self._api.raw.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        if int(self("cuMemPoolGetAttribute", pool, threshold)) == 0:
            value = self._api.raw.cuuint64_t(_KEEP_ALL)
            self("cuMemPoolSetAttribute", pool, threshold, value)
        return pool

    def alloc(self, nbytes: int, stream: Stream | None) -> int:
        """The address of new memory, for what comes later on `stream`."""
        if self._pool is None:
            return int(self("cuMemAlloc", nbytes))
        return int(self("cuMemAllocAsync", nbytes, stream))

    def free(self, address: int, stream: Stream | None) -> None:
        """Gives memory back once everything that is on `stream` now has finished."""
        if self._pool is None:
            self("cuMemFree", address)  # which waits for the device
        else:
            self("cuMemFreeAsync", address, stream)

    def alloc_pinned(self, nbytes: int) -> int:
        """Host memory that every device reaches."""
        return int(self("cuMemHostAlloc", nbytes, _PORTABLE))

    def memory_info(self) -> tuple[int, int]:
        """Bytes that are free, and in all."""
        free, total = self("cuMemGetInfo")
        return free, total

    def trim(self, keep: int) -> None:
        """Gives all but `keep` bytes of the pool's spare memory back."""
        if self._pool is not None:
            self("cuMemPoolTrimTo", self._pool, keep)

    def owner_of(self, address: int) -> tuple[int, int, int] | None:
        """(device index, start, bytes) of the allocation around an address, or None."""
        names = self._api.raw.CUpointer_attribute
        found = []
        for name in ("DEVICE_ORDINAL", "RANGE_START_ADDR", "RANGE_SIZE"):
            attribute = getattr(names, "CU_POINTER_ATTRIBUTE_" + name)
            try:
                found.append(int(self("cuPointerGetAttribute", attribute, address)))
            except DriverError as error:
                if error.code == "CUDA_ERROR_INVALID_VALUE":  # nothing that CUDA knows
                    return None
                raise
        device, start, nbytes = found
        return None if device < 0 else (device, start, nbytes)

    def copy_in(self, target: int, host: int, nbytes: int, stream: Stream | None) -> None:
        """From the host."""
        self("cuMemcpyHtoDAsync", target, host, nbytes, stream)

    def copy_out(self, host: int, source: int, nbytes: int, stream: Stream | None) -> None:
        """To the host."""
        self("cuMemcpyDtoHAsync", host, source, nbytes, stream)

    def copy(self, target: int, source: int, nbytes: int, stream: Stream | None) -> None:
        """Within this device."""
        self("cuMemcpyDtoDAsync", target, source, nbytes, stream)

    def copy_peer(
        self,
        target: int,
        source: int,
        source_context: CudaContext,
        nbytes: int,
        stream: Stream | None,
    ) -> None:
        """From another device's memory into this one's."""
        there = source_context._context
        self("cuMemcpyPeerAsync", target, self._context, source, there, nbytes, stream)

    def reach_peer(self, other: CudaContext) -> bool:
        """Lets kernels and copies here reach the other device's memory; False if they cannot."""
        if other is self:
            return True
        if not self._api("cuDeviceCanAccessPeer", self._device, other._device):
            return False
        try:
            self("cuCtxEnablePeerAccess", other._context, 0)
        except DriverError as error:
            if error.code != "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED":
                raise
        if other._pool is not None:  # what comes from a pool is not part of the other access
            raw = self._api.raw
            access = raw.CUmemAccessDesc()
            access.location.type = raw.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            access.location.id = int(self._device)
            access.flags = raw.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            self("cuMemPoolSetAccess", other._pool, [access], 1)
        return True

    # -- code -------------------------------------------------------------------------------------

    def load(self, image: bytes) -> CudaModule:
        """A cubin or PTX text. DriverErrors carry what the driver's compiler says of it."""
        self._clear_out()
        raw, log = self._api.raw, bytearray(_LOG_BYTES)
        options = [
            raw.CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
            raw.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ]
        data = image if image.startswith(b"\x7fELF") else image + b"\0"
        try:
            module = self("cuModuleLoadDataEx", data, len(options), options, [log, len(log)])
        except DriverError as error:
            told = bytes(log).split(b"\0", 1)[0].decode(errors="replace")
            raise DriverError(error.code, error.call, " ".join(told.split())) from error
        return CudaModule(self, module)

    def encode_tensor_map(self, tiles: TensorTiles) -> TensorMap:
        """A CUtensorMap. Raises DriverError for what cuTensorMapEncodeTiled refuses."""
        with self.current():
            return encode_tiled(self._api, tiles)

    def launch(
        self, kernel: CudaKernel, grid: Dim, block: Dim, shared: int, stream: Stream | None,
        args: Sequence[Argument],
    ) -> None:  # fmt: skip
        """Starts a kernel on `stream`."""
        values = _packed(args)
        self("cuLaunchKernel", kernel.handle, *grid, *block, shared, stream, values, 0)

    # -- order ------------------------------------------------------------------------------------

    def new_stream(self) -> Stream:
        """A stream that waits for the legacy default stream, which waits for it."""
        stream = self("cuStreamCreate", _ORDERED_WITH_LEGACY)
        self._streams.append(stream)
        return stream

    def delete_stream(self, stream: Stream | None) -> None:
        """Once everything on it has finished."""
        self._streams = [one for one in self._streams if one is not stream]
        self("cuStreamDestroy", stream)

    def wait_stream(self, stream: Stream | None) -> None:
        """Returns when everything on the stream has finished."""
        self("cuStreamSynchronize", stream)

    def is_capturing(self, stream: Stream | None) -> bool:
        """Whether somebody makes a graph of what is put on the stream now."""
        return bool(int(self("cuStreamIsCapturing", stream)))

    def new_event(self, timed: bool) -> Event:
        """A moment on a stream; `timed` ones can be measured between."""
        return self("cuEventCreate", 0 if timed else _UNTIMED)

    def delete_event(self, event: Event) -> None:
        """Lets the driver have it back."""
        self("cuEventDestroy", event)

    def record(self, event: Event, stream: Stream | None) -> None:
        """The event happens when what is on the stream now has finished."""
        self("cuEventRecord", event, stream)

    def wait_event(self, stream: Stream | None, event: Event) -> None:
        """What comes later on `stream` starts after the event."""
        self("cuStreamWaitEvent", stream, event, 0)

    def finish_event(self, event: Event) -> None:
        """Returns when the event has happened."""
        self("cuEventSynchronize", event)

    def has_happened(self, event: Event) -> bool:
        """Whether it has, without waiting. Raises DriverError for work that has failed."""
        try:
            self("cuEventQuery", event)
        except DriverError as error:
            if error.code == "CUDA_ERROR_NOT_READY":
                return False
            raise
        return True

    def elapsed(self, start: Event, end: Event) -> float:
        """Nanoseconds between two timed events that have happened."""
        return 1e6 * self("cuEventElapsedTime", start, end)

    def synchronize(self) -> None:
        """Returns when everything on every stream has finished."""
        self("cuCtxSynchronize")

    # -- graphs -----------------------------------------------------------------------------------

    def new_graph(self) -> Graph:
        """A graph without nodes."""
        return self("cuGraphCreate", 0)

    def add_kernel(
        self, graph: Graph, after: Sequence[_Node], kernel: CudaKernel, grid: Dim, block: Dim,
        shared: int, args: Sequence[Argument],
    ) -> _Node:  # fmt: skip
        """A node of the graph that starts when those in `after` have finished."""
        node = _Node(None, kernel, grid, block, shared)
        earlier = [one.handle for one in after]
        values = self._node_values(node, args)
        node.handle = self("cuGraphAddKernelNode", graph, earlier, len(earlier), values)
        return node

    def instantiate(self, graph: Graph) -> Executable:
        """The graph as one thing to launch."""
        self._clear_out()
        return self("cuGraphInstantiate", graph, 0)

    def update_kernel(self, executable: Executable, node: _Node, args: Sequence[Argument]) -> None:
        """Other arguments for one node, from the next launch on."""
        values = self._node_values(node, args)
        self("cuGraphExecKernelNodeSetParams", executable, node.handle, values)

    def launch_graph(self, executable: Executable, stream: Stream | None) -> None:
        """Starts all nodes."""
        self("cuGraphLaunch", executable, stream)

    def delete_graph(self, graph: Graph, executable: Executable | None) -> None:
        """Lets the driver have both back some time; launches that run go on to their end."""
        if executable is not None:
            self.retire("cuGraphExecDestroy", executable)
        self.retire("cuGraphDestroy", graph)

    def _node_values(self, node: _Node, args: Sequence[Argument]) -> object:
        values = self._api.raw.CUDA_KERNEL_NODE_PARAMS()
        values.func = node.kernel.handle
        values.gridDimX, values.gridDimY, values.gridDimZ = node.grid
        values.blockDimX, values.blockDimY, values.blockDimZ = node.block
        values.sharedMemBytes = node.shared
        values.kernelParams = _packed(args)
        return values


def _packed(args: Sequence[Argument]) -> tuple[tuple[object, ...], tuple[type | None, ...]]:
    """Arguments as cuda-bindings takes them: values, and their types in C."""
    return tuple(value for _, value in args), tuple(_TYPES[kind] for kind, _ in args)


@dataclass(eq=False)
class _Node:
    """A kernel's place in a graph, with what stays when its arguments change."""

    handle: object
    kernel: CudaKernel
    grid: Dim
    block: Dim
    shared: int


class CudaModule:
    """A loaded image, unloaded some time after it is collected and its kernels have run."""

    def __init__(self, context: CudaContext, handle: object) -> None:
        self._context, self._handle = context, handle

    def function(self, name: str) -> CudaKernel:
        """The kernel of that name. Raises DriverError CUDA_ERROR_NOT_FOUND."""
        found = self._context("cuModuleGetFunction", self._handle, name.encode())
        return CudaKernel(self._context, self, found)

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if not exiting():
            self._context.retire("cuModuleUnload", self._handle)


class CudaKernel:
    """One function of a module, which it keeps loaded."""

    def __init__(self, context: CudaContext, module: CudaModule, handle: object) -> None:
        self._context, self._module, self.handle = context, module, handle

    @property
    def facts(self) -> KernelFacts:
        """What the compiled kernel needs."""
        names = self._context._api.raw.CUfunction_attribute

        def number(name: str) -> int:
            attribute = getattr(names, "CU_FUNC_ATTRIBUTE_" + name)
            return self._context("cuFuncGetAttribute", attribute, self.handle)

        return KernelFacts(
            registers=number("NUM_REGS"),
            shared=number("SHARED_SIZE_BYTES"),
            local=number("LOCAL_SIZE_BYTES"),
            constant=number("CONST_SIZE_BYTES"),
            most_threads=number("MAX_THREADS_PER_BLOCK"),
        )

    def blocks_per_multiprocessor(self, threads: int, shared: int) -> int:
        """How many blocks of `threads` run on one multiprocessor at a time."""
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return self._context(name, self.handle, threads, shared)

    def allow_shared(self, nbytes: int) -> None:
        """Lets launches ask for up to `nbytes` of dynamic shared memory."""
        names = self._context._api.raw.CUfunction_attribute
        attribute = names.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._context("cuFuncSetAttribute", self.handle, attribute, nbytes)
