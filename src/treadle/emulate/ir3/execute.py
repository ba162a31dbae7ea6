"""Runs programs of machine code on the core.

program = IR3Program(kernel, compile_ir)
program.launch(workgroups, workgroup, constants, memory)
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from treadle.emulate.ir3.machine import front_end
from treadle.emulate.ir3.program import translate
from treadle.emulate.simt.execute import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.ir3.program import Kernel
    from treadle.emulate.simt.execute import CompileIR
    from treadle.emulate.simt.front_end import Dim
    from treadle.emulate.simt.machine import Region

__all__ = ["IR3Program"]

_NAME = "ir3"


class IR3Program:
    """A kernel that can be run. `threads` and `checks_races` are those of the core's Program."""

    def __init__(
        self, kernel: Kernel, compile_ir: CompileIR, threads: int = 1, checks_races: bool = False
    ) -> None:
        self.kernel = kernel
        self._program = Program(
            front_end(kernel.wave), lambda _: translate(kernel), compile_ir, threads, checks_races
        )

    def launch(
        self, workgroups: Dim, workgroup: Dim, constants: Sequence[int], memory: Sequence[Region]
    ) -> None:
        """Runs all workgroups and returns when they have finished.

        `constants` are 32 bits each, from c0.x on. Raises EmulationFault for what a work item does
        wrong, ValueError for fewer constants than the kernel has.
        """
        if len(constants) < self.kernel.constants:
            raise ValueError(f"{len(constants)} constants for {self.kernel.constants}")
        params = struct.pack(f"<{len(constants)}I", *constants)
        self._program.launch(_NAME, workgroups, workgroup, params, memory)
