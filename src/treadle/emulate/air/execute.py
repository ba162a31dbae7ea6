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


class Program:
    """A module that can be run. `threads` and `checks_races` are those of the core's Program."""

    def __init__(
        self, module: Module, compile_ir: CompileIR, threads: int = 1, checks_races: bool = False
    ) -> None:
        self.module = module
        make = functools.partial(translate, module)
        self._program = execute.Program(AIR, make, compile_ir, threads, checks_races)
        self._constants: dict[str, ctypes.Array[ctypes.c_char]] = {}

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
        held = {
            index: ctypes.create_string_buffer(data, max(1, len(data)))
            for index, data in buffers.items()
            if isinstance(data, bytes)
        }
        regions = [*memory]
        for data in held.values():
            regions.append(_readable(data))
        constants = self._constants_of(name)
        if len(constants):
            regions.append(_readable(constants))

        def bound(argument: Argument) -> int:
            if argument.kind != "buffer":
                return 0
            if argument.space == THREADGROUP:
                return shared[argument.index]
            if argument.index in held:
                return ctypes.addressof(held[argument.index])
            if argument.index not in buffers and not argument.is_optional:
                raise ValueError(
                    f"kernel {name}: nothing is bound at buffer {argument.index}, {argument.name}"
                )
            address = buffers.get(argument.index, 0)
            return address if isinstance(address, int) else 0

        params = b"".join(bound(argument).to_bytes(8, "little") for argument in kernel.arguments)
        fields = {"constants": ctypes.addressof(constants)}
        self._program.launch(name, grid, block, params, regions, dynamic, fields)

    def _constants_of(self, name: str) -> ctypes.Array[ctypes.c_char]:
        """The kernel's constant variables in memory."""
        if name not in self._constants:
            variables = self.module.variables(name, CONSTANT)
            places, nbytes = place_all(variables)
            data = (ctypes.c_char * (nbytes + _ALIGN))()
            base = ctypes.addressof(data)
            addresses = {variable: base + place for variable, place in places.items()}
            for variable in variables:
                made = bytes_of(variable, addresses)
                ctypes.memmove(addresses[variable.name], made, len(made))
            self._constants[name] = data
        return self._constants[name]


def _readable(data: ctypes.Array[ctypes.c_char]) -> Region:
    return Region(ctypes.addressof(data), len(data), access=Access.READ)


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
