"""Runs kernels of a module on this processor.

program = Program(text, compile_ir)
program.launch("add", grid=(4, 1, 1), block=(256, 1, 1), params=data, memory=regions)
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

from treadle.emulate.ptx.front_end import PTX
from treadle.emulate.ptx.layout import module_globals
from treadle.emulate.ptx.reader import read_module
from treadle.emulate.ptx.translate import translate
from treadle.emulate.simt import execute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.ptx.translate import Translation
    from treadle.emulate.simt.execute import CompileIR
    from treadle.emulate.simt.front_end import Dim
    from treadle.emulate.simt.machine import Region

__all__ = ["Program"]


class Program:
    """A module that can be run. Raises PTXError if the text is not PTX.

    `threads` and `checks_races` are those of the core's Program.
    """

    def __init__(
        self, text: str, compile_ir: CompileIR, threads: int = 1, checks_races: bool = False
    ) -> None:
        self.module = read_module(text)
        make = functools.partial(translate, self.module)
        self._program = execute.Program(PTX, make, compile_ir, threads, checks_races)

    def translation(self, name: str) -> Translation:
        """A kernel's translation; raises PTXError for what is not emulated."""
        return self._program.translation(name)

    def launch(
        self,
        name: str,
        grid: Dim,
        block: Dim,
        params: bytes,
        memory: Sequence[Region],
        variables: dict[str, int] | None = None,
        dynamic_shared: int = 0,
    ) -> None:
        """Runs a grid and returns when it has finished.

        `params` is laid out as the kernel's parameters are, `memory` lists the live allocations
        and `variables` the addresses of the module's own. Raises EmulationFault.
        """
        numbers = module_globals(self.module)
        addresses = (ctypes.c_int64 * (len(numbers) + 1))()
        for variable, number in numbers.items():
            addresses[number] = (variables or {}).get(variable, 0)
        fields = {"globals": ctypes.addressof(addresses)}
        self._program.launch(name, grid, block, params, memory, dynamic_shared, fields)
