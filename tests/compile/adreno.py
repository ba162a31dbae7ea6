"""A device that runs Adreno's objects on the emulated shader processors, without any driver.

    with on_adreno("a630"):
        (Tensor([1.0]) + 1).numpy()

It takes the place of the device of NULL, whose toolchain ADRENO compiles.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

from treadle.compile.llvm import LLVMCompiler
from treadle.emulate.ir3.execute import IR3Program
from treadle.emulate.ir3.program import Kernel
from treadle.emulate.kgsl.chips import Chip, chip
from treadle.emulate.simt.machine import Region
from treadle.ir3_object import KernelCode, unpack
from treadle.runtime.base import Entry, Launch
from treadle.runtime.null import NullAllocator, NullDevice
from treadle.target import host_target

WORKGROUP_REGISTER, LOCAL_REGISTER = 4 * 48, 0
_compile_ir = LLVMCompiler(host_target()).compile


class _Buffer:
    def __init__(self, pointer: int, nbytes: int, owner: object) -> None:
        self.pointer, self.nbytes, self.owner = pointer, nbytes, owner

    @property
    def argument(self) -> int:
        return self.pointer

    def view(self) -> memoryview:
        return memoryview((ctypes.c_char * self.nbytes).from_address(self.pointer)).cast("B")

    def slice(self, offset: int, nbytes: int) -> _Buffer:
        return _Buffer(self.pointer + offset, nbytes, self)


class _Allocator(NullAllocator):
    def alloc(self, nbytes: int) -> _Buffer:
        memory = (ctypes.c_char * (nbytes + 64))()
        return _Buffer(-(-ctypes.addressof(memory) // 64) * 64, nbytes, memory)

    def from_pointer(self, pointer: int, nbytes: int, owner: object = None) -> _Buffer:
        return _Buffer(pointer, nbytes, owner)


class Phase:
    """One entry of an object, ready to run."""

    def __init__(self, code: KernelCode, entry: Entry, chip: Chip) -> None:
        assert code.work_items == entry.work_items
        assert code.buffers == len(entry.slots)
        assert code.variables == len(entry.variables)
        self.code, self.entry = code, entry
        kernel = Kernel(
            code.code, code.wave, WORKGROUP_REGISTER, LOCAL_REGISTER, code.shared,
            code.private, 4 * code.constants, 4 * code.registers, lacks=chip.lacks,
            has_scalar_alu=chip.has_scalar_alu, gpu=chip.gpu_id,
        )  # fmt: skip
        self.program = IR3Program(kernel, _compile_ir)

    def run(self, args: Sequence[int], variables: Sequence[int]) -> None:
        """Run all of the grid."""
        words: list[int] = []
        for slot in self.entry.slots:
            address = args[slot.number]
            words += [address & 0xFFFFFFFF, address >> 32]
        words += [variables[number] & 0xFFFFFFFF for number in self.entry.variables]
        words += [0] * (4 * self.code.first_literal - len(words))
        words += self.code.literals
        words += [0] * (4 * self.code.constants - len(words))
        memory = [Region(args[slot.number], slot.nbytes) for slot in self.entry.slots]
        self.program.launch((self.entry.grid, 1, 1), (self.code.work_items, 1, 1), words, memory)


class _Library:
    def __init__(self, code: bytes, entries: Sequence[Entry], chip: Chip) -> None:
        found = {one.name: one for one in unpack(code)}
        self.phases = [Phase(found[entry.symbol], entry, chip) for entry in entries]


class _CallList:
    def __init__(self, launches: Sequence[Launch]) -> None:
        self.calls = [[one.phases, list(one.args), list(one.vars)] for one in launches]

    def __len__(self) -> int:
        return len(self.calls)

    def set_arg(self, call: int, slot: int, pointer: int) -> None:
        self.calls[call][1][slot] = pointer

    def set_var(self, call: int, slot: int, value: int) -> None:
        self.calls[call][2][slot] = value

    def run(self) -> None:
        for phases, args, variables in self.calls:
            for phase in phases:
                phase.run(args, variables)


class AdrenoDevice(NullDevice):
    """Runs what it is given at once."""

    _lock = threading.Lock()

    def __init__(self, name: str, target) -> None:
        super().__init__(name, target)
        self.allocator = _Allocator()
        self._chip = chip(target.cpu)

    def load(self, code: bytes, entries: Sequence[Entry]) -> _Library:
        return _Library(code, entries, self._chip)

    def call_list(self, launches: Sequence[Launch], keep: object = None) -> _CallList:
        return _CallList(launches)

    def run(self, launches: Sequence[Launch]) -> None:
        with self._lock:
            _CallList(launches).run()

    def read(self, buffer: _Buffer, into: memoryview) -> None:
        into.cast("B")[:] = buffer.view()[: into.nbytes]

    def write(self, buffer: _Buffer, data: memoryview) -> None:
        buffer.view()[: data.nbytes] = data.cast("B")
