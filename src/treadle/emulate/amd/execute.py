"""Runs a Dispatch of the command processor on the core: what an emulated device is built with.

    execute = Executor(compile_ir)
    execute(dispatch)                       # returns when all workgroups have finished

Programs are translated when they are first launched, and again when their bytes have changed: what
was at their address before is forgotten.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.emulate.amd.machine import front_end
from treadle.emulate.amd.mode import Mode
from treadle.emulate.amd.program import Kernel, translate
from treadle.emulate.kfd.dispatch import KernelFault
from treadle.emulate.machine.memory import MemoryFault, Permission
from treadle.emulate.simt.execute import EmulationFault, Program
from treadle.emulate.simt.machine import Fault
from treadle.emulate.simt.watched import Watched

if TYPE_CHECKING:
    from treadle.emulate.kfd.dispatch import Dispatch
    from treadle.emulate.machine.memory import AddressSpace
    from treadle.emulate.simt.execute import CompileIR
    from treadle.emulate.simt.front_end import Translation

__all__ = ["Executor"]

_LONGEST = 24
_KERNEL = "kernel"  # the name of a Program's only kernel
_MOST_CODE = 1 << 20  # bytes from the entry on that tell programs apart


_REFUSED: dict[int, str] = {Fault.GLOBAL: "unmapped", Fault.FORBIDDEN: "read-only"}


@dataclass(frozen=True)
class _Known:
    """What was made of the code at an address, by what else translation depends on."""

    code: bytes  # a hash of it
    programs: dict[tuple[int, ...], Program[Translation]]


class Executor:
    """Runs dispatches. `threads` and `checks_races` are as in simt.execute.Program."""

    def __init__(self, compile_ir: CompileIR, threads: int = 1, checks_races: bool = False) -> None:
        self._compile_ir, self._threads, self._checks_races = compile_ir, threads, checks_races
        self._programs: dict[tuple[AddressSpace, int], _Known] = {}
        self._watched = Watched()

    def __call__(self, dispatch: Dispatch) -> None:
        """Raises MemoryFault for what page tables refuse, KernelFault for all else."""
        for size, items in zip(dispatch.workgroup, dispatch.work_items, strict=True):
            if items % size:
                raise KernelFault(
                    f"a grid of {dispatch.work_items} work items in workgroups of "
                    f"{dispatch.workgroup}: smaller last workgroups are not emulated"
                )
        if not Mode.rounds_to_nearest(dispatch.rsrc1):
            raise KernelFault("floats that are not rounded to the nearest are not emulated")
        program = self._program(dispatch)
        params = struct.pack(f"<{len(dispatch.user_sgprs)}I", *dispatch.user_sgprs)
        try:
            with self._watched.regions(dispatch.space) as regions:
                program.launch(_KERNEL, dispatch.workgroups, dispatch.workgroup, params, regions)
        except EmulationFault as fault:
            reason = _REFUSED.get(fault.kind)
            if reason is not None:
                raise MemoryFault(fault.address, reason, str(fault)) from fault
            raise KernelFault(str(fault)) from fault

    def _program(self, dispatch: Dispatch) -> Program[Translation]:
        scratch = dispatch.scratch_wave, dispatch.scratch_waves
        space, user = dispatch.space, len(dispatch.user_sgprs)
        code = _fingerprint(dispatch)
        known = self._programs.get((space, dispatch.program))
        if known is None or known.code != code:
            known = self._programs[space, dispatch.program] = _Known(code, {})
        key = dispatch.wave, dispatch.rsrc1, dispatch.rsrc2, user, dispatch.lds, *scratch
        found = known.programs.get(key)
        if found is None:
            kernel = Kernel(
                dispatch.chip, dispatch.wave, lambda address: _code(space, address),
                dispatch.program, dispatch.rsrc1, dispatch.rsrc2, user, dispatch.lds, *scratch,
            )  # fmt: skip
            found = known.programs[key] = Program(
                front_end(dispatch.wave), lambda _: translate(kernel), self._compile_ir,
                self._threads, self._checks_races,
            )  # fmt: skip
        return found


def _code(space: AddressSpace, address: int, nbytes: int = _LONGEST) -> bytes:
    """Up to so many bytes of code at an address: fewer where the memory ends."""
    try:
        mapping = space.find(address, Permission.EXECUTE)
    except MemoryFault as fault:
        raise KernelFault(f"code at {address:#x}: {fault}") from fault
    return space.fetch(address, min(nbytes, mapping.end - address))


def _fingerprint(dispatch: Dispatch) -> bytes:
    return hashlib.sha256(_code(dispatch.space, dispatch.program, _MOST_CODE)).digest()
