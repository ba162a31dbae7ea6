"""What one emulated device holds and does: memory, launches, streams, events and graphs."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from treadle.emulate.cuda.memory import DeviceMemory
from treadle.emulate.cuda.module import EmulatedKernel, EmulatedModule, pack_arguments, refused
from treadle.emulate.cuda.tensor_maps import encoded
from treadle.emulate.ptx.execute import Program
from treadle.emulate.ptx.syntax import PTXError, Variable
from treadle.emulate.simt.faults import EmulationFault
from treadle.emulate.simt.machine import Fault
from treadle.forks import fork_safe
from treadle.runtime.cuda.driver import DriverError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treadle.emulate.simt.execute import CompileIR
    from treadle.runtime.cuda.driver import (
        Argument,
        Context,
        DeviceFacts,
        Dim,
        TensorTiles,
    )

__all__ = ["EmulatedContext"]

# CUDA's names for what stops a kernel on hardware; what only a checker sees is a launch failure.
_CODES: dict[int, str] = {
    Fault.GLOBAL: "CUDA_ERROR_ILLEGAL_ADDRESS", Fault.SHARED: "CUDA_ERROR_ILLEGAL_ADDRESS",
    Fault.LOCAL: "CUDA_ERROR_ILLEGAL_ADDRESS", Fault.MISALIGNED: "CUDA_ERROR_MISALIGNED_ADDRESS",
    Fault.ASSERT: "CUDA_ERROR_ASSERT", Fault.TRAP: "CUDA_ERROR_LAUNCH_FAILED",
    Fault.RUNAWAY: "CUDA_ERROR_LAUNCH_TIMEOUT",
}  # fmt: skip
_GRID = (2**31 - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)


@dataclass
class _Node:
    kernel: EmulatedKernel
    grid: Dim
    block: Dim
    shared: int
    args: Sequence[Argument]
    after: frozenset[int]  # the numbers of nodes


@dataclass
class _Graph:
    nodes: list[_Node] = field(default_factory=list)


@dataclass
class _Event:
    time: int = 0


class _Driver(Protocol):
    """What a context asks of its driver, an EmulatedDriver."""

    arch: str
    compile_ir: CompileIR
    threads: int
    checks_races: bool

    def contexts(self) -> Sequence[EmulatedContext]: ...


class EmulatedContext:
    """The primary context of one emulated device."""

    def __init__(self, driver: _Driver, index: int, facts: DeviceFacts) -> None:
        self.driver, self.index, self.facts = driver, index, facts
        self.memory = DeviceMemory(facts.memory)
        self.pinned = DeviceMemory(1 << 62)
        self._peers: list[EmulatedContext] = []
        self._broken: DriverError | None = None
        self._lock = fork_safe(threading.RLock())
        self._thread = threading.local()
        self._streams = itertools.count(3)  # 1 and 2 are CUDA's names for the default streams

    @property
    def handle(self) -> int:
        """A number that is this context's alone."""
        return id(self)

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """A block in which `is_current` holds on the calling thread."""
        before = self.is_current
        self._thread.is_current = True
        try:
            yield
        finally:
            self._thread.is_current = before

    @property
    def is_current(self) -> bool:
        """Whether the calling thread is in a block of `current`."""
        return getattr(self._thread, "is_current", False)

    def _check(self, call: str) -> None:
        """After a kernel has failed, every call does."""
        if self._broken is not None:
            raise DriverError(self._broken.code, call, str(self._broken))

    # -- memory

    def alloc(self, nbytes: int, stream: object) -> int:
        self._check("cuMemAllocAsync")
        with self._lock:
            address = self.memory.alloc(nbytes)
        if address is None:
            free, total = self.memory_info()
            message = f"{nbytes} bytes, of {total} there are {free} free"
            raise DriverError("CUDA_ERROR_OUT_OF_MEMORY", "cuMemAllocAsync", message)
        return address

    def free(self, address: int, stream: object) -> None:
        with self._lock:
            found = self.memory.free(address)
        if not found:
            message = f"nothing is allocated at 0x{address:x}"
            raise DriverError("CUDA_ERROR_INVALID_VALUE", "cuMemFreeAsync", message)

    def alloc_pinned(self, nbytes: int) -> int:
        self._check("cuMemHostAlloc")
        with self._lock:
            address = self.pinned.alloc(nbytes)
        if address is None:
            raise DriverError("CUDA_ERROR_OUT_OF_MEMORY", "cuMemHostAlloc", f"{nbytes} bytes")
        return address

    def memory_info(self) -> tuple[int, int]:
        return self.memory.nbytes - self.memory.used, self.memory.nbytes

    def trim(self, keep: int) -> None:
        """There is no pool: what is freed is free at once."""

    def owner_of(self, address: int) -> tuple[int, int, int] | None:
        for context in self.driver.contexts():
            with context._lock:
                region = context.memory.around(address)
            if region is not None:
                return context.index, region.start, region.nbytes
        return None

    def place_variable(self, variable: Variable) -> int:
        """Memory of this device for a module's variable, with its initial value."""
        address = self.alloc(variable.nbytes, None)
        ctypes.memmove(address, variable.initial.ljust(variable.nbytes, b"\0"), variable.nbytes)
        return address

    def _inside(self, call: str, address: int, nbytes: int, peer: EmulatedContext | None) -> None:
        """A copy may touch one allocation only, from its place on."""
        owner = peer or self
        with self._lock:
            region = owner.memory.around(address) or owner.pinned.around(address)
        if nbytes and (region is None or address + nbytes > region.start + region.nbytes):
            message = f"{nbytes} bytes at 0x{address:x} are not inside one allocation"
            raise DriverError("CUDA_ERROR_INVALID_VALUE", call, message)

    def copy_in(self, target: int, host: int, nbytes: int, stream: object) -> None:
        self._check("cuMemcpyHtoDAsync")
        self._inside("cuMemcpyHtoDAsync", target, nbytes, None)
        ctypes.memmove(target, host, nbytes)

    def copy_out(self, host: int, source: int, nbytes: int, stream: object) -> None:
        self._check("cuMemcpyDtoHAsync")
        self._inside("cuMemcpyDtoHAsync", source, nbytes, None)
        ctypes.memmove(host, source, nbytes)

    def copy(self, target: int, source: int, nbytes: int, stream: object) -> None:
        self._check("cuMemcpyDtoDAsync")
        for address in (target, source):
            self._inside("cuMemcpyDtoDAsync", address, nbytes, None)
        ctypes.memmove(target, source, nbytes)

    def copy_peer(
        self, target: int, source: int, source_context: Context, nbytes: int, stream: object
    ) -> None:
        self._check("cuMemcpyPeerAsync")
        if not isinstance(source_context, EmulatedContext):
            raise DriverError("CUDA_ERROR_INVALID_CONTEXT", "cuMemcpyPeerAsync")
        self._inside("cuMemcpyPeerAsync", target, nbytes, None)
        self._inside("cuMemcpyPeerAsync", source, nbytes, source_context)
        ctypes.memmove(target, source, nbytes)

    def reach_peer(self, other: Context) -> bool:
        if not isinstance(other, EmulatedContext):
            return False
        if other is not self and other not in self._peers:
            self._peers.append(other)
        return True

    # -- code

    def load(self, image: bytes) -> EmulatedModule:
        self._check("cuModuleLoadData")
        if image[:4] in (b"\x7fELF", b"\x50\xed\x55\xba"):
            message = "machine code cannot be emulated: compile to PTX"
            raise DriverError("CUDA_ERROR_NO_BINARY_FOR_GPU", "cuModuleLoadData", message)
        try:
            text = image.decode()
            driver = self.driver
            program = Program(text, driver.compile_ir, driver.threads, driver.checks_races)
        except UnicodeDecodeError as error:
            raise DriverError("CUDA_ERROR_INVALID_IMAGE", "cuModuleLoadData") from error
        except PTXError as error:
            raise refused(error) from error
        self._check_target(program.module.target)
        return EmulatedModule(self, program)

    def _check_target(self, target: str) -> None:
        """PTX for an older architecture runs; one with a letter runs on that architecture only."""
        major, minor = self.facts.capability
        number = target.removeprefix("sm_")
        plain = number.rstrip("af")
        fits = plain.isdigit() and int(plain) <= major * 10 + minor
        if fits and number != plain:
            fits = int(plain) == major * 10 + minor
        if not fits:
            message = f"PTX for {target} does not run on {self.driver.arch}"
            raise DriverError("CUDA_ERROR_NO_BINARY_FOR_GPU", "cuModuleLoadData", message)

    def encode_tensor_map(self, tiles: TensorTiles) -> bytes:
        return encoded(tiles, self.facts.capability)

    def launch(
        self,
        kernel: EmulatedKernel,
        grid: Dim,
        block: Dim,
        shared: int,
        stream: object,
        args: Sequence[Argument],
    ) -> None:
        self._check("cuLaunchKernel")
        self._check_launch(kernel, grid, block, shared)
        module = kernel.module
        params = pack_arguments(kernel, args)
        regions = [*self.memory.regions(), *self.pinned.regions()]
        for peer in self._peers:
            regions += peer.memory.regions()
        try:
            module.program.launch(
                kernel.name, grid, block, params, regions, module.variables, shared
            )
        except PTXError as error:
            raise refused(error) from error
        except EmulationFault as fault:
            code = _CODES.get(fault.kind, "CUDA_ERROR_LAUNCH_FAILED")
            self._broken = DriverError(code, "cuLaunchKernel", str(fault))
            raise self._broken from fault

    def _check_launch(self, kernel: EmulatedKernel, grid: Dim, block: Dim, shared: int) -> None:
        threads = block[0] * block[1] * block[2]
        most = kernel.facts.most_threads
        sizes = [*zip(grid, _GRID, strict=True), *zip(block, _BLOCK, strict=True)]
        message = ""
        if any(not 0 < size <= limit for size, limit in sizes):
            message = f"grid {grid} of blocks {block}"
        elif threads > most:
            message = f"{threads} threads in a block; the kernel allows {most}"
        elif shared > kernel.allowed:
            message = f"{shared} bytes of dynamic shared memory; {kernel.allowed} are allowed"
        elif shared + kernel.facts.shared > self.facts.shared_optin:
            message = f"{shared + kernel.facts.shared} bytes of shared memory in a block"
        if message:
            raise DriverError("CUDA_ERROR_INVALID_VALUE", "cuLaunchKernel", message)

    # -- order: everything has happened when a call returns

    def new_stream(self) -> int:
        self._check("cuStreamCreate")
        return next(self._streams)

    def delete_stream(self, stream: object) -> None:
        pass

    def wait_stream(self, stream: object) -> None:
        self._check("cuStreamSynchronize")

    def is_capturing(self, stream: object) -> bool:
        return False

    def new_event(self, timed: bool) -> _Event:
        self._check("cuEventCreate")
        return _Event()

    def delete_event(self, event: object) -> None:
        pass

    def record(self, event: _Event, stream: object) -> None:
        self._check("cuEventRecord")
        event.time = time.perf_counter_ns()

    def wait_event(self, stream: object, event: object) -> None:
        self._check("cuStreamWaitEvent")

    def finish_event(self, event: object) -> None:
        self._check("cuEventSynchronize")

    def has_happened(self, event: object) -> bool:
        self._check("cuEventQuery")
        return True  # work is over when it has been given

    def elapsed(self, start: _Event, end: _Event) -> float:
        return float(end.time - start.time)

    def synchronize(self) -> None:
        self._check("cuCtxSynchronize")

    # -- graphs

    def new_graph(self) -> _Graph:
        return _Graph()

    def add_kernel(
        self,
        graph: _Graph,
        after: Sequence[int],
        kernel: EmulatedKernel,
        grid: Dim,
        block: Dim,
        shared: int,
        args: Sequence[Argument],
    ) -> _Node:
        self._check_launch(kernel, grid, block, shared)
        node = _Node(kernel, grid, block, shared, list(args), frozenset(map(id, after)))
        graph.nodes.append(node)
        return node

    def instantiate(self, graph: _Graph) -> dict[int, _Node]:
        """Copies of the nodes by the number of what add_kernel gave, in the order that they run in.

        That is the least usual one that they allow: of the nodes that may run, the last.
        """
        waiting, order = {id(node): node for node in graph.nodes}, {}
        while waiting:
            number = next(n for n in reversed(waiting) if order.keys() >= waiting[n].after)
            order[number] = replace(waiting.pop(number))
        return order

    def update_kernel(
        self, executable: dict[int, _Node], node: _Node, args: Sequence[Argument]
    ) -> None:
        executable[id(node)].args = list(args)

    def launch_graph(self, executable: dict[int, _Node], stream: object) -> None:
        for node in executable.values():
            self.launch(node.kernel, node.grid, node.block, node.shared, stream, node.args)

    def delete_graph(self, graph: object, executable: object) -> None:
        pass
