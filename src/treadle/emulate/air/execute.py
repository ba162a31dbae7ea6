"""Runs kernels of a module on this processor.

program = Program(Module(ir), compile_ir)
program.launch("add", (4, 1, 1), (256, 1, 1), {0: a, 1: b}, memory=regions)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treadle.emulate.air.kernels import Module
    from treadle.emulate.simt.execute import CompileIR
    from treadle.emulate.simt.front_end import Dim
    from treadle.emulate.simt.machine import Region

__all__ = ["Program"]


class Program:
    """A module that can be run. `threads` and `checks_races` are those of the core's Program."""

    def __init__(
        self, module: Module, compile_ir: CompileIR, threads: int = 1, checks_races: bool = False
    ) -> None:
        self.module = module

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
