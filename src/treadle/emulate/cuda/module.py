"""Loaded PTX, its kernels, and what a launch hands to one of them."""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING, Protocol

from treadle.emulate.ptx.machine import TENSOR_MAP_BYTES
from treadle.emulate.ptx.syntax import WIDTHS, PTXError, Variable
from treadle.runtime.cuda.driver import DriverError, KernelFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.ptx.execute import Program
    from treadle.runtime.cuda.driver import Argument, DeviceFacts

__all__ = ["EmulatedKernel", "EmulatedModule", "pack_arguments", "refused"]

_SIZES = {"address": 8, "int64": 8, "int32": 4, "tensor_map": TENSOR_MAP_BYTES}
_THREADS_PER_MULTIPROCESSOR = 2048
_BLOCKS_PER_MULTIPROCESSOR = 32


class _Context(Protocol):
    """What a module asks of its device, an EmulatedContext."""

    facts: DeviceFacts

    def place_variable(self, variable: Variable) -> int: ...
    def free(self, address: int, stream: object) -> None: ...


class EmulatedModule:
    """Loaded PTX. Its variables are part of the device's memory for as long as it lives."""

    def __init__(self, context: _Context, program: Program) -> None:
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
                what = "no variable of the module"
                if symbol.name in self.program.module.functions:
                    what = "a function, and calls through pointers are not emulated"
                message = f"line {variable.line}: {symbol.name} is {what}"
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
            self.context.free(address, None)


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
            raise refused(error) from error
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


def refused(error: PTXError) -> DriverError:
    return DriverError("CUDA_ERROR_INVALID_PTX", "cuModuleLoadData", str(error))


def pack_arguments(kernel: EmulatedKernel, args: Sequence[Argument]) -> bytes:
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
        if kind != "tensor_map":
            value = (value & ((1 << (8 * nbytes)) - 1)).to_bytes(nbytes, "little")
        data[at : at + nbytes] = value
    return bytes(data)
