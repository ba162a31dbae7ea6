"""Runs kernels of a module on this processor.

program = Program(Module(ir), compile_ir)
program.launch("add", (4, 1, 1), (256, 1, 1), {0: a, 1: b}, memory=regions)
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

from treadle.emulate.air.front_end import AIR
from treadle.emulate.air.kernels import bytes_of, place_all
from treadle.emulate.air.syntax import CONSTANT, THREADGROUP
from treadle.emulate.air.translate import translate
from treadle.emulate.simt import execute
from treadle.emulate.simt.machine import Access, Region

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treadle.emulate.air.kernels import Argument, Kernel, Module
    from treadle.emulate.simt.execute import CompileIR
    from treadle.emulate.simt.front_end import Dim, Translation

__all__ = ["Program"]

_ALIGN = 16  # of threadgroup memory that a launch gives
_LINE = 64


class Program:
    """A module that can be run. `threads` and `checks_races` are those of the core's Program.

    Without `checks_fences` a barrier orders all memory, whatever it names: programs of others rely
    on that Apple's GPUs do so, as MLX's products of a matrix and a vector.
    """

    def __init__(
        self, module: Module, compile_ir: CompileIR, threads: int = 1, checks_races: bool = False,
        checks_fences: bool = True,
    ) -> None:  # fmt: skip
        self.module = module
        make = functools.partial(translate, module, checks_fences=checks_fences)
        self._program = execute.Program(AIR, make, compile_ir, threads, checks_races)
        self._constants: dict[str, _Bytes] = {}

    def translation(self, name: str) -> Translation:
        """A kernel's translation; raises AIRError for what is not emulated."""
        return self._program.translation(name)

    def launch(
        self,
        name: str,
        grid: Dim,
        block: Dim,
        buffers: Mapping[int, int | bytes],
        memory: Sequence[Region],
        threadgroup_memory: Mapping[int, int] | None = None,
    ) -> None:
        """Runs `grid` threadgroups of `block` threads and returns when they have finished.

        `buffers` are what is bound at each index: an address in one of the regions of `memory`,
        or bytes, as setBytes gives them. `threadgroup_memory` says how many bytes an index has.
        Raises EmulationFault for what a thread does wrong, AIRError for what is not emulated,
        ValueError for a buffer that is not bound.
        """
        kernel = self.module.kernels[name]
        shared, dynamic = _threadgroup_places(kernel, threadgroup_memory or {})
        held = {index: _Bytes(data) for index, data in buffers.items() if isinstance(data, bytes)}
        constants = self._constants_of(name)
        regions = [*memory, *(data.region for data in (*held.values(), constants))]

        def bound(argument: Argument) -> int:
            if argument.kind != "buffer":
                return 0
            if argument.space == THREADGROUP:
                return shared[argument.index]
            if argument.index in held:
                return held[argument.index].address
            if argument.index not in buffers and not argument.is_optional:
                raise ValueError(
                    f"kernel {name}: nothing is bound at buffer {argument.index}, {argument.name}"
                )
            address = buffers.get(argument.index, 0)
            return address if isinstance(address, int) else 0

        params = b"".join(bound(argument).to_bytes(8, "little") for argument in kernel.arguments)
        fields = {"constants": constants.address}
        self._program.launch(name, grid, block, params, regions, dynamic, fields)

    def _constants_of(self, name: str) -> _Bytes:
        """The kernel's constant variables in memory."""
        if name not in self._constants:
            variables = self.module.variables(name, CONSTANT)
            places, nbytes = place_all(variables)
            held = _Bytes(bytes(nbytes))
            addresses = {variable: held.address + place for variable, place in places.items()}
            for variable in variables:
                made = bytes_of(variable, addresses)
                ctypes.memmove(addresses[variable.name], made, len(made))
            self._constants[name] = held
        return self._constants[name]


class _Bytes:
    """Bytes that kernels may read, on a cache line, for as long as somebody holds this."""

    def __init__(self, data: bytes) -> None:
        self._held = (ctypes.c_char * (len(data) + _LINE))()
        self.address = -(-ctypes.addressof(self._held) // _LINE) * _LINE
        ctypes.memmove(self.address, data, len(data))
        self.region = Region(self.address, len(data), access=Access.READ)


def _threadgroup_places(kernel: Kernel, sizes: Mapping[int, int]) -> tuple[dict[int, int], int]:
    """Where each index of threadgroup memory begins, and the bytes of all."""
    first = -(-kernel.static_threadgroup_bytes // _ALIGN) * _ALIGN
    places, at = {}, 0
    for argument in kernel.arguments:
        if argument.space == THREADGROUP:
            if argument.index not in sizes:
                raise ValueError(
                    f"kernel {kernel.name}: threadgroup memory {argument.index}, "
                    f"{argument.name}, has no size"
                )
            places[argument.index] = first + at
            at += -(-sizes[argument.index] // _ALIGN) * _ALIGN
    return places, at
