"""The PTX of machine code: what a compiler recorded, found again by what lies in a GPU's memory.

    code = pack(cubin, ptx)               # a cubin with the PTX that it was made of behind it
    programs = Programs(compile_ir)
    programs.record(code)                 # when it is loaded
    programs.find(dispatch)               # Kernel, by the bytes at the program's address

A cubin is an ELF file, and whoever reads one does not look at what is behind it. Machine code in
memory is compared byte by byte, its constant banks too, but for the places that a loader fills in
with addresses. From those places the addresses of variables are read back.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from treadle.emulate.machine.memory import MemoryFault, Permission
from treadle.emulate.nv.faults import ChannelFault
from treadle.emulate.ptx.execute import Program
from treadle.runtime.hardware.elf import Object, read_object

if TYPE_CHECKING:
    from treadle.emulate.nv.constant_words import Reads
    from treadle.emulate.nv.dispatch import Dispatch
    from treadle.emulate.simt.execute import CompileIR

__all__ = ["Kernel", "Programs", "pack", "unpack"]

_MAGIC = b"treadle-ptx"
_BANK = re.compile(r"\.nv\.constant(\d+)(?:\.(.+))?$")
_REGISTERS, _STACKS = 0x2F, (0x11, 0x12)  # EIATTR_REGCOUNT; _FRAME_SIZE, _MIN_STACK_SIZE
_PARAMETERS, _BARRIERS = 0x0A, 0x4C  # EIATTR_PARAM_CBANK, _NUM_BARRIERS
_SIZED = 4
_R_64 = 2
# By kind of relocation, the bytes that it changes: (start, bytes) each.
_CHANGED = {
    _R_64: ((0, 8),),
    0x38: ((4, 4),),
    0x39: ((4, 4),),
    0x3A: ((4, 7),),
    0x4B: ((2, 1), (4, 7)),
}
_Holes = tuple[tuple[int, int], ...]  # (start, bytes) that a loader fills in


def pack(cubin: bytes, ptx: bytes) -> bytes:
    """Both in one."""
    return cubin + ptx + struct.pack("<Q", len(ptx)) + _MAGIC


def unpack(code: bytes) -> tuple[bytes, str]:
    """Cubin and PTX. Raises ValueError where no PTX was recorded."""
    if not code.endswith(_MAGIC):
        raise ValueError("machine code whose PTX nobody has recorded")
    end = len(code) - len(_MAGIC) - 8
    (size,) = struct.unpack_from("<Q", code, end)
    return code[: end - size], code[end - size : end].rstrip(b"\0").decode()


@dataclass(frozen=True)
class _Bytes:
    """Bytes of an image, with holes."""

    data: bytes
    holes: _Holes

    def fits(self, found: bytes) -> bool:
        """Whether memory has these bytes, but for the holes."""
        at = 0
        for start, size in self.holes:
            if found[at:start] != self.data[at:start]:
                return False
            at = start + size
        return found[at : len(self.data)] == self.data[at:]


@dataclass
class Kernel:
    """One kernel of a recorded cubin.

    By names of variables, `pointers` are places of their addresses, and `constants` their own
    places: (bank, start) each. `reads` are words of bank 0, where somebody has listed them.
    """

    name: str
    program: Program
    text: _Bytes
    banks: dict[int, _Bytes]
    pointers: dict[str, tuple[int, int]] = field(default_factory=dict)
    constants: dict[str, tuple[int, int]] = field(default_factory=dict)
    registers: int = 0
    barriers: int = 0
    stack: int = 0
    shared: int = 0
    parameters: int = 0
    parameters_bytes: int = 0
    reads: Reads | None = None


class Programs:
    """All that was loaded. `threads` and `checks_races` are as in the PTX emulator's Program.

    `words_read` tells which words of constant bank 0 the kernels of a cubin read, a Disassembler.
    """

    def __init__(
        self,
        compile_ir: CompileIR,
        threads: int = 1,
        checks_races: bool = False,
        words_read: Callable[[bytes], Mapping[str, Reads]] | None = None,
    ) -> None:
        self._compile_ir, self._threads, self._checks_races = compile_ir, threads, checks_races
        self._words_read = words_read
        self._kernels: dict[int, list[Kernel]] = {}  # by the hash of their last bytes
        self._seen: set[bytes] = set()
        self._last: dict[int, Kernel] = {}  # what was at an address

    def record(self, code: bytes) -> None:
        """Code that a program loads. Raises ValueError where no PTX was recorded with it."""
        if code in self._seen:
            return
        cubin, ptx = unpack(code)
        program = Program(ptx, self._compile_ir, self._threads, self._checks_races)
        reads = self._words_read(cubin) if self._words_read is not None else {}
        for kernel in _kernels(read_object(cubin), program):
            kernel.reads = reads.get(kernel.name)
            self._kernels.setdefault(len(kernel.text.data), []).append(kernel)
        self._seen.add(code)

    def find(self, dispatch: Dispatch) -> Kernel:
        """The kernel at the program's address. ChannelFault where none of those recorded is."""
        known = self._last.get(dispatch.program)
        if known is not None and _is_there(known, dispatch):
            return known
        for size, kernels in self._kernels.items():
            found = _code(dispatch, size)
            for kernel in kernels if len(found) == size else ():
                if _is_there(kernel, dispatch):
                    self._last[dispatch.program] = kernel
                    return kernel
        raise ChannelFault(
            "GR_EXCEPTION",
            f"no known kernel is at {dispatch.program:#x}, with the banks that are set",
        )


def _code(dispatch: Dispatch, size: int) -> bytes:
    """So many bytes from the program's address on, or as many as there are."""
    try:
        mapping = dispatch.space.find(dispatch.program, Permission.EXECUTE)
        return dispatch.space.fetch(dispatch.program, min(size, mapping.end - dispatch.program))
    except MemoryFault as fault:
        told = f"code at {dispatch.program:#x}: {fault}"
        raise ChannelFault("FIFO_ERROR_MMU_ERR_FLT", told, dispatch.program) from fault


def _is_there(kernel: Kernel, dispatch: Dispatch) -> bool:
    """Whether memory has a kernel's code and constants."""
    if not kernel.text.fits(_code(dispatch, len(kernel.text.data))):
        return False
    for number, bank in kernel.banks.items():
        address, nbytes = dispatch.banks.get(number, (0, 0))
        if nbytes < len(bank.data) or not bank.fits(dispatch.space.read(address, len(bank.data))):
            return False
    return True


# -- cubins ---------------------------------------------------------------------------------------


def _kernels(found: Object, program: Program) -> Iterator[Kernel]:
    sections = {section.name: section for section in found.sections}
    for section in found.sections:
        if not section.name.startswith(".text."):
            continue
        name = section.name.removeprefix(".text.")
        banks: dict[int, _Bytes] = {}
        pointers: dict[str, tuple[int, int]] = {}
        constants: dict[str, tuple[int, int]] = {}
        for number, other in enumerate(found.sections):
            bank = _BANK.match(other.name)
            if bank is None or bank[1] == "0" or bank[2] not in (None, name):
                continue
            banks[int(bank[1])] = _Bytes(other.data, _holes(other.relocations))
            for one in other.relocations:
                if one.kind == _R_64 and not one.addend:
                    pointers[one.symbol.name] = int(bank[1]), one.offset
            for symbol in found.symbol_table:
                if symbol.section == number:
                    constants[symbol.name] = int(bank[1]), symbol.value
        text = _Bytes(section.data, _holes(section.relocations))
        kernel = Kernel(name, program, text, banks, pointers, constants)
        shared = sections.get(f".nv.shared.{name}")
        kernel.shared = shared.size if shared is not None else 0
        _add_attributes(kernel, found)
        yield kernel


def _holes(relocations: tuple) -> _Holes:
    places = {
        (one.offset + start, size) for one in relocations for start, size in _CHANGED[one.kind]
    }
    return tuple(sorted(places))


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at + 2 : at + 4], "little") if data[at] == _SIZED else 0
        start = at + 4 if data[at] == _SIZED else at + 2
        yield data[at + 1], data[start : start + (size or 2)]
        at += 4 + size


def _add_attributes(kernel: Kernel, found: Object) -> None:
    for section in found.sections:
        if section.name == ".nv.info":
            for name, value in _attributes(section.data):
                if name == _REGISTERS or name in _STACKS:
                    symbol, number = struct.unpack("<II", value)
                    if found.symbol_table[symbol].name != kernel.name:
                        continue
                    if name == _REGISTERS:
                        kernel.registers = number
                    else:
                        kernel.stack = max(kernel.stack, number)
        elif section.name == f".nv.info.{kernel.name}":
            for name, value in _attributes(section.data):
                if name == _PARAMETERS:
                    _, kernel.parameters, kernel.parameters_bytes = struct.unpack("<IHH", value)
                elif name == _BARRIERS:
                    kernel.barriers = value[0]
