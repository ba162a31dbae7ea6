"""A driver whose devices are this processor: it runs PTX text, in order, and checks every access.

    driver = EmulatedDriver("sm_80", devices=2)
    context = driver.open(0)
    kernel = context.load(ptx).function("softmax")

Streams and events are there and mean nothing, since everything has happened when a call returns.
Faults have CUDA's names, and as on hardware a context in which a kernel failed stays broken: each
later call fails with the first error, which says what happened.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import threading
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from treadle.compile.llvm import LLVMCompiler
from treadle.emulate.cuda.chips import chip
from treadle.emulate.cuda.memory import DeviceMemory
from treadle.emulate.ptx.execute import EmulationFault, Program
from treadle.emulate.ptx.machine import Fault
from treadle.emulate.ptx.syntax import WIDTHS, PTXError, Variable
from treadle.runtime.cuda.driver import DriverError, KernelFacts
from treadle.target import available_cores, host_target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from treadle.runtime.cuda.driver import Argument, Context, DeviceFacts, Dim

__all__ = ["EmulatedDriver"]

_VERSION = (13, 0)
# CUDA's names for what stops a kernel on hardware; what only a checker sees is a launch failure.
_CODES = {
    Fault.GLOBAL: "CUDA_ERROR_ILLEGAL_ADDRESS", Fault.SHARED: "CUDA_ERROR_ILLEGAL_ADDRESS",
    Fault.LOCAL: "CUDA_ERROR_ILLEGAL_ADDRESS", Fault.MISALIGNED: "CUDA_ERROR_MISALIGNED_ADDRESS",
    Fault.ASSERT: "CUDA_ERROR_ASSERT", Fault.TRAP: "CUDA_ERROR_LAUNCH_FAILED",
    Fault.RUNAWAY: "CUDA_ERROR_LAUNCH_TIMEOUT",
}  # fmt: skip
_SIZES = {"address": 8, "int64": 8, "int32": 4}
_GRID = (2**31 - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)
_THREADS_PER_MULTIPROCESSOR = 2048
_BLOCKS_PER_MULTIPROCESSOR = 32


class EmulatedDriver:
    """`devices` GPUs of one architecture. Of `CUDA_VISIBLE_DEVICES` the numbers are respected.

    `compile_ir` turns LLVM IR into an object for this machine: a caller that has a cache of
    compiled code hands in a function that goes through it. `threads` run the blocks of a grid.
    """

    is_emulated = True
    version = _VERSION

    def __init__(
        self,
        arch: str = "sm_80",
        devices: int = 1,
        compile_ir: Callable[[str], bytes] | None = None,
        threads: int | None = None,
    ) -> None:
        facts = chip(arch)
        self.arch = arch
        self._facts = [
            replace(facts, pci=f"0000:{number + 1:02x}:00.0") for number in _visible(devices)
        ]
        self.compile_ir = compile_ir or LLVMCompiler(host_target()).compile
        self.threads = available_cores() if threads is None else threads
        self._contexts: dict[int, EmulatedContext] = {}
        self._lock = threading.Lock()

    def devices(self) -> Sequence[DeviceFacts]:
        """The devices, in CUDA's order."""
        return list(self._facts)

    def open(self, index: int) -> EmulatedContext:
        """The primary context of a device. DriverError CUDA_ERROR_INVALID_DEVICE if there is none."""
        if not 0 <= index < len(self._facts):
            raise DriverError("CUDA_ERROR_INVALID_DEVICE", "cuDeviceGet", f"no device {index}")
        with self._lock:
            if index not in self._contexts:
                self._contexts[index] = EmulatedContext(self, index, self._facts[index])
            return self._contexts[index]


def _visible(devices: int) -> list[int]:
    """The devices that CUDA_VISIBLE_DEVICES names, up to the first that does not exist."""
    setting = os.environ.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        return list(range(devices))
    names = [name.strip() for name in setting.split(",")]
    exists = lambda name: name.isdigit() and int(name) < devices  # noqa: E731
    return [int(name) for name in itertools.takewhile(exists, names)]


class EmulatedModule:
    """Loaded PTX. Its variables are part of the device's memory for as long as it lives."""

    def __init__(self, context: EmulatedContext, program: Program) -> None:
        self.context, self.program = context, program
        self.variables = {
            variable.name: context.place_variable(variable)
            for variable in program.module.variables.values()
            if variable.space in ("global", "const")
        }
        for variable in program.module.variables.values():
            self._link(variable)

    def _link(self, variable: Variable) -> None:
        """Fills in addresses of variables that an initialiser names."""
        for place, symbol in variable.pointers:
            target = self.variables.get(symbol.name)
            if target is None:
                message = f"line {variable.line}: {symbol.name} is no variable of the module"
                raise DriverError("CUDA_ERROR_INVALID_PTX", "cuModuleLoadData", message)
            data = (target + symbol.offset).to_bytes(8, "little")
            ctypes.memmove(self.variables[variable.name] + place, data, 8)

    def function(self, name: str) -> EmulatedKernel:
        """The kernel of that name. DriverError CUDA_ERROR_NOT_FOUND if there is none."""
        found = self.program.module.functions.get(name)
        if found is None or not found.is_entry or found.body is None:
            raise DriverError("CUDA_ERROR_NOT_FOUND", "cuModuleGetFunction", f"no kernel {name}")
        return EmulatedKernel(self, name)

    def __del__(self) -> None:
        for address in getattr(self, "variables", {}).values():
            self.context.memory.free(address)


class EmulatedKernel:
    """One kernel of a module."""

    def __init__(self, module: EmulatedModule, name: str) -> None:
        self.module, self.name = module, name
        self.allowed = module.context.facts.shared  # dynamic shared memory, in bytes
        self.entry = module.program.module.functions[name]

    @functools.cached_property
    def facts(self) -> KernelFacts:
        """As ptxas would report them; the registers are those that PTX declares, at most 255."""
        try:
            made = self.module.program.translation(self.name)
        except PTXError as error:
            raise _refused(error) from error
        bits = sum(WIDTHS[kind] for kind in self.entry.registers.values() if kind != "pred")
        most = self.module.context.facts.most_threads
        limit = self.entry.directives.get("maxntid") or self.entry.directives.get("reqntid")
        for size in limit or ():
            most = min(most, size) if limit == (size,) else most
        return KernelFacts(min(255, bits // 32), made.shared_bytes, made.local_bytes, 0, most)

    def blocks_per_multiprocessor(self, threads: int, shared: int) -> int:
        """How many blocks fit, by threads and shared memory."""
        facts = self.module.context.facts
        used = self.facts.shared + shared
        by_memory = facts.shared_per_multiprocessor // used if used else _BLOCKS_PER_MULTIPROCESSOR
        by_threads = _THREADS_PER_MULTIPROCESSOR // max(1, threads)
        return max(0, min(_BLOCKS_PER_MULTIPROCESSOR, by_threads, by_memory))

    def allow_shared(self, nbytes: int) -> None:
        """Lets launches ask for up to `nbytes` of dynamic shared memory."""
        if nbytes > self.module.context.facts.shared_optin - self.facts.shared:
            raise DriverError("CUDA_ERROR_INVALID_VALUE", "cuFuncSetAttribute")
        self.allowed = max(self.allowed, nbytes)


def _refused(error: PTXError) -> DriverError:
    return DriverError("CUDA_ERROR_INVALID_PTX", "cuModuleLoadData", str(error))


@dataclass
class _Node:
    kernel: EmulatedKernel
    grid: Dim
    block: Dim
    shared: int
    args: Sequence[Argument]


@dataclass
class _Graph:
    nodes: list[_Node] = field(default_factory=list)


@dataclass
class _Event:
    time: int = 0


class EmulatedContext:
    """The primary context of one emulated device."""

    def __init__(self, driver: EmulatedDriver, index: int, facts: DeviceFacts) -> None:
        self.driver, self.index, self.facts = driver, index, facts
        self.memory = DeviceMemory(facts.memory)
        self.pinned = DeviceMemory(1 << 62)
        self._peers: list[EmulatedContext] = []
        self._broken: DriverError | None = None
        self._lock = threading.RLock()

    @property
    def handle(self) -> int:
        """A number that is this context's alone."""
        return id(self)

    def _check(self, call: str) -> None:
        """After a kernel has failed, every call does."""
        if self._broken is not None:
            raise DriverError(self._broken.code, call, str(self._broken))

    # -- memory

    def alloc(self, nbytes: int, stream: Any) -> int:
        self._check("cuMemAllocAsync")
        with self._lock:
            address = self.memory.alloc(nbytes)
        if address is None:
            free, total = self.memory_info()
            message = f"{nbytes} bytes, of {total} there are {free} free"
            raise DriverError("CUDA_ERROR_OUT_OF_MEMORY", "cuMemAllocAsync", message)
        return address

    def free(self, address: int, stream: Any) -> None:
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

    def free_pinned(self, address: int) -> None:
        with self._lock:
            found = self.pinned.free(address)
        if not found:
            raise DriverError("CUDA_ERROR_INVALID_VALUE", "cuMemFreeHost")

    def memory_info(self) -> tuple[int, int]:
        return self.memory.nbytes - self.memory.used, self.memory.nbytes

    def trim(self, keep: int) -> None:
        """There is no pool: what is freed is free at once."""

    def owner_of(self, address: int) -> tuple[int, int, int] | None:
        with self._lock:
            region = self.memory.around(address)
        return None if region is None else (self.index, region.start, region.nbytes)

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

    def copy_in(self, target: int, host: int, nbytes: int, stream: Any) -> None:
        self._check("cuMemcpyHtoDAsync")
        self._inside("cuMemcpyHtoDAsync", target, nbytes, None)
        ctypes.memmove(target, host, nbytes)

    def copy_out(self, host: int, source: int, nbytes: int, stream: Any) -> None:
        self._check("cuMemcpyDtoHAsync")
        self._inside("cuMemcpyDtoHAsync", source, nbytes, None)
        ctypes.memmove(host, source, nbytes)

    def copy(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        self._check("cuMemcpyDtoDAsync")
        for address in (target, source):
            self._inside("cuMemcpyDtoDAsync", address, nbytes, None)
        ctypes.memmove(target, source, nbytes)

    def copy_peer(
        self, target: int, source: int, source_context: Context, nbytes: int, stream: Any
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
            program = Program(text, self.driver.compile_ir, self.driver.threads)
        except UnicodeDecodeError as error:
            raise DriverError("CUDA_ERROR_INVALID_IMAGE", "cuModuleLoadData") from error
        except PTXError as error:
            raise _refused(error) from error
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

    def launch(
        self,
        kernel: Any,
        grid: Dim,
        block: Dim,
        shared: int,
        stream: Any,
        args: Sequence[Argument],
    ) -> None:
        self._check("cuLaunchKernel")
        self._check_launch(kernel, grid, block, shared)
        module = kernel.module
        params = _pack(kernel, args)
        regions = [*self.memory.regions(), *self.pinned.regions()]
        for peer in self._peers:
            regions += peer.memory.regions()
        try:
            module.program.launch(
                kernel.name, grid, block, params, regions, module.variables, shared
            )
        except PTXError as error:
            raise _refused(error) from error
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

    def new_stream(self) -> Any:
        self._check("cuStreamCreate")
        return object()

    def delete_stream(self, stream: Any) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        self._check("cuStreamSynchronize")

    def new_event(self, timed: bool) -> _Event:
        self._check("cuEventCreate")
        return _Event()

    def delete_event(self, event: Any) -> None:
        pass

    def record(self, event: _Event, stream: Any) -> None:
        self._check("cuEventRecord")
        event.time = time.perf_counter_ns()

    def wait_event(self, stream: Any, event: Any) -> None:
        self._check("cuStreamWaitEvent")

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
        after: Sequence[Any],
        kernel: Any,
        grid: Dim,
        block: Dim,
        shared: int,
        args: Sequence[Argument],
    ) -> _Node:
        self._check_launch(kernel, grid, block, shared)
        node = _Node(kernel, grid, block, shared, list(args))
        graph.nodes.append(node)
        return node

    def instantiate(self, graph: _Graph) -> dict[int, _Node]:
        """The nodes by the number of what add_kernel gave, each a copy of its own."""
        return {id(node): replace(node) for node in graph.nodes}

    def update_kernel(
        self, executable: dict[int, _Node], node: _Node, args: Sequence[Argument]
    ) -> None:
        executable[id(node)].args = list(args)

    def launch_graph(self, executable: dict[int, _Node], stream: Any) -> None:
        for node in executable.values():
            self.launch(node.kernel, node.grid, node.block, node.shared, stream, node.args)

    def delete_graph(self, graph: Any, executable: Any) -> None:
        pass


def _pack(kernel: EmulatedKernel, args: Sequence[Argument]) -> bytes:
    """The kernel's parameters, each at its place."""
    parameters = kernel.entry.parameters
    if len(args) != len(parameters):
        message = f"{kernel.name} takes {len(parameters)} arguments, not {len(args)}"
        raise DriverError("CUDA_ERROR_INVALID_VALUE", "cuLaunchKernel", message)
    made = kernel.module.program.translation(kernel.name)
    data = bytearray(made.params_bytes)
    for (kind, value), parameter in zip(args, parameters, strict=True):
        nbytes = _SIZES[kind]
        if nbytes != parameter.nbytes:
            message = f"{parameter.name} has {parameter.nbytes} bytes, the argument {nbytes}"
            raise DriverError("CUDA_ERROR_INVALID_VALUE", "cuLaunchKernel", message)
        at = made.params[parameter.name]
        data[at : at + nbytes] = (value & ((1 << (8 * nbytes)) - 1)).to_bytes(nbytes, "little")
    return bytes(data)


