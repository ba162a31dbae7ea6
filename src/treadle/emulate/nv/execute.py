"""Runs a launch by the PTX of its machine code: what an emulated GPU is built with.

    execute = Executor(programs)
    execute(dispatch)                  # returns when all blocks have finished

What machine code would read of its launch is checked: registers, barriers, shared and local memory,
and the words of constant bank 0. Parameters come from there, too.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from treadle.emulate.machine.memory import UNWRITTEN
from treadle.emulate.nv.faults import ChannelFault
from treadle.emulate.ptx.syntax import PTXError
from treadle.emulate.simt.faults import EmulationFault
from treadle.emulate.simt.machine import Fault
from treadle.emulate.simt.watched import Watched

if TYPE_CHECKING:
    from treadle.emulate.nv.dispatch import Dispatch
    from treadle.emulate.nv.programs import Kernel, Programs

__all__ = ["Executor"]

_STACK_END = 0xFFFDC0  # where stacks begin in the window of local memory
_RESERVED_LOCAL = 0x1000000 - _STACK_END


class Executor:
    """Runs dispatches. Raises ChannelFault."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._watched = Watched()

    def __call__(self, dispatch: Dispatch) -> None:
        kernel = self._programs.find(dispatch)
        _check_resources(kernel, dispatch)
        _check_bank(kernel, dispatch)
        _check_words(kernel, dispatch)
        params = _parameters(kernel, dispatch)
        variables = {
            name: dispatch.banks[bank][0] + start
            for name, (bank, start) in kernel.constants.items()
        }
        for name, (bank, start) in kernel.pointers.items():
            variables[name] = dispatch.space.read64(dispatch.banks[bank][0] + start)
        try:
            with self._watched.regions(dispatch.space) as regions:
                kernel.program.launch(
                    kernel.name, dispatch.grid, dispatch.block, params, regions, variables,
                    _dynamic(kernel, dispatch),
                )  # fmt: skip
        except PTXError as error:
            raise ChannelFault("GR_EXCEPTION", str(error)) from error
        except EmulationFault as fault:
            if fault.kind in (Fault.GLOBAL, Fault.FORBIDDEN):
                kind = "FIFO_ERROR_MMU_ERR_FLT"
                raise ChannelFault(kind, str(fault), fault.address) from fault
            raise ChannelFault("GR_EXCEPTION", str(fault)) from fault


def _dynamic(kernel: Kernel, dispatch: Dispatch) -> int:
    """Shared memory beyond what the code declares."""
    return dispatch.shared - kernel.shared - dispatch.chip.reserved_shared


def _check_resources(kernel: Kernel, dispatch: Dispatch) -> None:
    wanted = (
        ("registers", kernel.registers, dispatch.registers),
        ("barriers", kernel.barriers, dispatch.barriers),
        ("bytes of shared memory", kernel.shared + dispatch.chip.reserved_shared, dispatch.shared),
        ("bytes of local memory", kernel.stack and kernel.stack + _RESERVED_LOCAL, dispatch.local),
    )
    for what, needed, given in wanted:
        if given < needed:
            told = f"{kernel.name} needs {needed} {what}, and has {given}"
            raise ChannelFault("GR_EXCEPTION", told)


def _check_bank(kernel: Kernel, dispatch: Dispatch) -> None:
    """The words of bank 0 that machine code reads have to say what the launch is."""
    layout = dispatch.chip.bank0
    if kernel.parameters not in (0, layout.parameters):
        told = f"parameters of {kernel.name} at {kernel.parameters:#x} of constant bank 0"
        raise ChannelFault("GR_EXCEPTION", told)
    address, nbytes = dispatch.banks.get(0, (0, 0))
    if nbytes < layout.parameters + kernel.parameters_bytes:
        raise ChannelFault("GR_EXCEPTION", f"constant bank 0 of {nbytes} bytes")
    bank = dispatch.space.read(address, layout.parameters)
    wanted = [
        ("the size of a block", "<3I", layout.block, dispatch.block),
        ("the size of the grid", "<3I", layout.grid, dispatch.grid),
        ("the window of local memory", "<Q", layout.local, (dispatch.local_window,)),
        ("the end of the stack", "<I", layout.stack, (_STACK_END,)),
    ]
    if layout.shared is not None:
        window = (dispatch.shared_window,)
        wanted.append(("the window of shared memory", "<Q", layout.shared, window))
    for what, form, at, value in wanted:
        found = struct.unpack_from(form, bank, at)
        if found != value:
            told = f"{what} in constant bank 0 is {found}, and the launch's is {value}"
            raise ChannelFault("GR_EXCEPTION", told)
    if not dispatch.local_window or not dispatch.shared_window:
        raise ChannelFault("GR_EXCEPTION", "a launch before the windows of memory were set")


def _check_words(kernel: Kernel, dispatch: Dispatch) -> None:
    """Each word of bank 0 that machine code is known to read is one that a launch has, and was
    written: what the driver gives is full of UNWRITTEN.
    """
    if kernel.reads is None:
        return
    layout = dispatch.chip.bank0
    start, nbytes = layout.parameters, kernel.parameters_bytes
    parameters = range(start, start + nbytes, 4)
    bank = dispatch.space.read(dispatch.banks[0][0], start + nbytes)
    indexed = parameters if kernel.reads.is_indexed else ()
    for at in sorted({*kernel.reads.words, *indexed}):
        if at not in layout.words and at not in parameters:
            told = f"{kernel.name} reads the word {at:#x} of constant bank 0, which no launch has"
        elif bank[at : at + 4] == bytes([UNWRITTEN]) * 4:
            told = f"{kernel.name} reads the word {at:#x} of constant bank 0, never written"
        else:
            continue
        raise ChannelFault("GR_EXCEPTION", told)


def _parameters(kernel: Kernel, dispatch: Dispatch) -> bytes:
    address, _ = dispatch.banks[0]
    start = address + dispatch.chip.bank0.parameters
    return dispatch.space.read(start, kernel.parameters_bytes) if kernel.parameters_bytes else b""
