"""Runs a Dispatch of the command processor on the core: what an emulated device is built with.

    execute = Executor(compile_ir)
    execute(dispatch)                       # returns when all workgroups have finished

Programs are translated when they are first launched; what is alike in its words and in all that
translation depends on is translated once.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import TYPE_CHECKING

from treadle.emulate.ir3.machine import front_end
from treadle.emulate.ir3.program import Kernel, image_place, translate
from treadle.emulate.kgsl.faults import KernelFault
from treadle.emulate.machine.memory import MemoryFault, Permission
from treadle.emulate.simt.execute import EmulationFault, Program
from treadle.emulate.simt.machine import Fault
from treadle.emulate.simt.watched import Watched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.kgsl.dispatch import Dispatch
    from treadle.emulate.kgsl.images import Image
    from treadle.emulate.simt.execute import CompileIR
    from treadle.emulate.simt.front_end import Dim
    from treadle.emulate.simt.machine import Region

__all__ = ["Executor", "IR3Program"]

_NAME = "ir3"
_REFUSED: dict[int, str] = {Fault.GLOBAL: "unmapped", Fault.FORBIDDEN: "read-only"}
_MOST_PROGRAMS = 512


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
        self,
        workgroups: Dim,
        workgroup: Dim,
        constants: Sequence[int],
        memory: Sequence[Region],
        images: Sequence[Image] = (),
    ) -> None:
        """Runs all workgroups and returns when they have finished.

        `constants` are 32 bits each, from c0.x on, `images` first those that are only read. Raises
        EmulationFault for what a work item does wrong, ValueError for fewer constants or images
        than the kernel has.
        """
        kernel = self.kernel
        if len(constants) < kernel.constants:
            raise ValueError(f"{len(constants)} constants for {kernel.constants}")
        formats = tuple(image.format for image in images)
        if formats != kernel.textures + kernel.images:
            raise ValueError(f"images of {formats} for {kernel.textures + kernel.images}")
        params = struct.pack(f"<{kernel.constants}I", *constants[: kernel.constants])
        params = params.ljust(image_place(kernel, 0), b"\0")
        for image in images:
            params += struct.pack("<4Q", image.address, image.pitch, image.width, image.height)
        self._program.launch(_NAME, workgroups, workgroup, params, memory)


class Executor:
    """Runs dispatches. `threads` and `checks_races` are as in simt.execute.Program."""

    def __init__(self, compile_ir: CompileIR, threads: int = 1, checks_races: bool = False) -> None:
        self._compile_ir, self._threads, self._checks_races = compile_ir, threads, checks_races
        self._programs: OrderedDict[Kernel, IR3Program] = OrderedDict()
        self._watched = Watched()

    def __call__(self, dispatch: Dispatch) -> None:
        """Raises MemoryFault for what page tables refuse, KernelFault for all else."""
        program = self._program(_kernel(dispatch))
        try:
            with self._watched.regions(dispatch.space) as regions:
                program.launch(
                    dispatch.workgroups,
                    dispatch.workgroup,
                    dispatch.constants,
                    regions,
                    (*dispatch.textures, *dispatch.images),
                )
        except EmulationFault as fault:
            reason = _REFUSED.get(fault.kind)
            if reason is not None:
                raise MemoryFault(fault.address, reason, str(fault)) from fault
            raise KernelFault(str(fault)) from fault

    def _program(self, kernel: Kernel) -> IR3Program:
        found = self._programs.pop(kernel, None)
        if found is None:
            found = IR3Program(kernel, self._compile_ir, self._threads, self._checks_races)
        self._programs[kernel] = found
        if len(self._programs) > _MOST_PROGRAMS:
            self._programs.popitem(last=False)
        return found


def _kernel(dispatch: Dispatch) -> Kernel:
    return Kernel(
        _words(dispatch), dispatch.wave, dispatch.workgroup_register, dispatch.local_register,
        dispatch.shared_bytes, dispatch.private_bytes, len(dispatch.constants),
        4 * dispatch.registers, dispatch.has_demotion, dispatch.chip.lacks,
        dispatch.chip.has_scalar_alu, dispatch.chip.gpu_id,
        tuple(image.format for image in dispatch.textures),
        tuple(image.format for image in dispatch.images), dispatch.samplers,
    )  # fmt: skip


def _words(dispatch: Dispatch) -> tuple[int, ...]:
    """The words of a program: fewer than were announced where the memory ends."""
    start, space = dispatch.program, dispatch.space
    mapping = space.find(start, Permission.EXECUTE)
    nbytes = min(8 * dispatch.instructions, mapping.end - start) & ~7
    return tuple(memoryview(space.fetch(start, nbytes)).cast("Q"))
