"""A program of machine code to a kernel of the core: basic blocks from an entry on.

    translation = translate(Kernel("gfx1100", 32, read, entry, rsrc1, rsrc2, 8, 0, 0))

Code is read where branches and calls lead (see targets). A block of code ends with one of them, a
barrier or the end, and where another begins. Before the first stands one that sets the registers
which the descriptor asks for. What has no meaning, and what uses the result of a load without a
wait for it, is a fault when a wave comes there, and not before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from treadle.emulate.amd import (
    atomics,
    dot,
    floating,
    indexed,
    matrix,
    media,
    memory,
    scalar,
    scalar_floating,
    small_floats,
    vector,
    waits,
)
from treadle.emulate.amd.chips import chip
from treadle.emulate.amd.decode import DecodeError, Instruction, decode
from treadle.emulate.amd.machine import ILLEGAL, NOT_WAITED, TTMP7, TTMP8, TTMP9, front_end, places
from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.amd.mode import Mode
from treadle.emulate.amd.names import canonical
from treadle.emulate.amd.operands import Kind, Operand
from treadle.emulate.amd.targets import Constants
from treadle.emulate.amd.waits import unwaited
from treadle.emulate.amd.wave import Unsupported, Wave
from treadle.emulate.kfd.dispatch import KernelFault
from treadle.emulate.simt.emit import Emitter
from treadle.emulate.simt.front_end import Translation
from treadle.emulate.simt.registers import Registers
from treadle.emulate.simt.scalar_counter import ScalarCounter

__all__ = ["Kernel", "translate"]

_MODULES = (
    atomics,
    dot,
    floating,
    indexed,
    matrix,
    media,
    memory,
    scalar,
    scalar_floating,
    small_floats,
    vector,
)  # which give instructions their meanings
_LONGEST = 24  # bytes of an instruction
_MOST_LISTED = 1024  # functions in a table
_VCC = 106
# What a way out of a block depends on: a test, and whether it must hold.
_CONDITIONS = {
    "s_cbranch_scc0": ("scc", False), "s_cbranch_scc1": ("scc", True),
    "s_cbranch_vccz": ("vcc", False), "s_cbranch_vccnz": ("vcc", True),
    "s_cbranch_execz": ("exec", False), "s_cbranch_execnz": ("exec", True),
}  # fmt: skip
_ENDS = ("s_endpgm", "s_endpgm_saved")
_INDIRECT = ("s_setpc_b64", "s_swappc_b64")  # to an address that registers hold
_CALLS = ("s_call_b64", "s_swappc_b64")
_JUMPS = ("s_branch", "s_call_b64", *_INDIRECT)  # what does not go on behind itself
_LASTING_MODE = "a mode that the kernel's first basic block does not have and the next one would"
_BARRIERS = ("s_barrier", "s_barrier_wait")


@dataclass(frozen=True)
class Kernel:
    """What translation depends on. `read(address)` gives up to 24 bytes of code there.

    `user_sgprs` is how many scalar registers are set at the start. Of scratch memory, a work item
    has `local_bytes`, a wave `scratch_wave` bytes, and `scratch_waves` have some at a time.
    """

    chip: str
    wave: int
    read: Callable[[int], bytes]
    entry: int
    rsrc1: int
    rsrc2: int
    user_sgprs: int
    shared_bytes: int
    scratch_wave: int
    scratch_waves: int

    @property
    def local_bytes(self) -> int:
        """What the core gives a work item: nothing where code finds its memory itself."""
        has_register = chip(self.chip).has_scratch_register
        return self.scratch_wave // self.wave if has_register else 0


@dataclass
class _Block:
    """Instructions from `start` on, with their addresses, and where the block goes on."""

    start: int
    items: list[tuple[int, Instruction]] = field(default_factory=list)
    end: int = 0


def translate(kernel: Kernel) -> Translation:
    """The kernel as LLVM IR."""
    return _Translator(kernel).translation()


def _target(address: int, item: Instruction) -> int:
    """Where a branch leads: a number of words behind it."""
    words = item.modifiers["simm16"] & 0xFFFF
    return address + item.size + 4 * (words - ((words & 0x8000) << 1))


class _Translator:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self._chip = kernel, chip(kernel.chip)
        self._items: dict[int, Instruction] = {}
        self._broken: dict[int, str] = {}  # where no instruction is, and why
        self._starts = {kernel.entry}
        self._indirect: set[int] = set()  # where registers may lead
        self._returns: set[int] = set()  # those of them that are behind a call
        self._sites: list[int] = []
        self._faults: dict[int, str] = {}  # a site's fault
        self._follow()
        self._blocks = self._split()
        self._unwaited = unwaited(self._ways(), kernel.entry, self._chip.generation)

    # -- reading

    def _follow(self) -> None:
        left = [(self._kernel.entry, Constants(self._read_address))]
        while left:
            address, constants = left.pop()
            while address not in self._items and address not in self._broken:
                try:
                    code = self._kernel.read(address)
                    item = decode(code, 0, self._kernel.chip, self._kernel.wave)
                except (DecodeError, KernelFault) as error:
                    self._broken[address] = str(error)
                    self._starts.add(address)
                    break
                self._items[address] = item
                name = canonical(item.operation)
                behind = address + item.size
                targets = self._targets(name, address, item, constants)
                left += [(target, constants.copy()) for target in targets]
                self._starts |= targets
                if targets or name in _BARRIERS or name in _JUMPS or name in _ENDS:
                    self._starts.add(behind)
                if name in _JUMPS or name in _ENDS:
                    break
                constants.see(name, address, item)
                address = behind

    def _targets(
        self, name: str, address: int, item: Instruction, constants: Constants
    ) -> set[int]:
        """Where an instruction may lead other than behind itself, or lead back to from a call."""
        if name in _CONDITIONS or name == "s_branch":
            return {_target(address, item)}
        found = {_target(address, item)} if name == "s_call_b64" else set()
        if name in _INDIRECT:
            found |= constants.pair(item.operands["src0"])
        if name == "s_swappc_b64" and not found:
            found |= constants.seen
            for place in constants.seen:
                found |= self._listed(place)
        if name in _CALLS:
            self._returns.add(address + item.size)
            found.add(address + item.size)
        self._indirect |= found
        return found

    def _listed(self, at: int) -> set[int]:
        """The addresses of a table of functions: of all words there, until one is none of code."""
        found: set[int] = set()
        for place in range(at, at + 8 * _MOST_LISTED, 8):
            address = self._read_address(place)
            if address is None or address % 4 or self._read_address(address) is None:
                break
            found.add(address)
        return found

    def _read_address(self, at: int) -> int | None:
        """64 bits of memory that code may lie in."""
        try:
            return int.from_bytes(self._kernel.read(at)[:8], "little")
        except KernelFault:
            return None

    def _split(self) -> list[_Block]:
        known = sorted(a for a in self._starts if a in self._items or a in self._broken)
        # The entry's block comes first, whatever lies before it.
        blocks = []
        for start in [self._kernel.entry, *(a for a in known if a != self._kernel.entry)]:
            block, address = _Block(start), start
            while address in self._items and (address == start or address not in self._starts):
                block.items.append((address, self._items[address]))
                address += self._items[address].size
            block.end = address
            blocks.append(block)
        return blocks

    def _ways(self) -> dict[int, waits.Block]:
        """The blocks by where they begin, and which may follow each."""
        return {
            block.start: waits.Block(block.items, self._following(block)) for block in self._blocks
        }

    def _following(self, block: _Block) -> list[int]:
        if not block.items:
            return []
        address, item = block.items[-1]
        name = canonical(item.operation)
        if name in _INDIRECT:
            # What comes behind a call follows the return.
            return sorted(self._indirect - self._returns if name in _CALLS else self._indirect)
        found = [] if name in _JUMPS or name in _ENDS else [block.end]
        if name in _CONDITIONS or name in ("s_branch", "s_call_b64"):
            found.append(_target(address, item))
        return found

    # -- writing

    def translation(self) -> Translation:
        kernel = self._kernel
        machine = front_end(kernel.wave).machine
        e = self._e = Emitter(machine)
        registers = Registers(e, places(kernel.wave))
        self._mode = Mode.of(kernel.rsrc1)
        self._w = Wave(self._chip, e, registers, self._mode)
        # Number 0 is what comes before the program.
        self._numbers = {block.start: i for i, block in enumerate(self._blocks, 1)}
        self._flow = ScalarCounter(e, len(self._blocks) + 1)
        self._flow.write_dispatcher()
        self._flow.begin(0)
        self._w.enter()
        self._begin()
        registers.leave()
        self._flow.go(0, 1)
        for number, block in enumerate(self._blocks, 1):
            self._flow.begin(number)
            self._w.enter()
            self._w.mode, self._w.index_mode = self._mode, 0
            self._write(number, block)
        symbol = "amd_" + hashlib.sha256("\n".join(e.lines).encode()).hexdigest()[:16]
        return Translation(
            f"{kernel.entry:#x}", symbol, e.definition(symbol), kernel.shared_bytes,
            kernel.local_bytes, machine.warp_bytes, self._place,
        )  # fmt: skip

    def _place(self, site: int) -> str:
        if not 0 < site <= len(self._sites):
            return "nowhere in the program"
        address = self._sites[site - 1]
        item = self._items.get(address)
        what = item.mnemonic if item else "no instruction"
        why = f": {self._faults[site]}" if site in self._faults else ""
        return f"{what} at {address:#x}{why}"

    def _site(self, address: int) -> int:
        self._sites.append(address)
        self._e.site = str(len(self._sites))
        return len(self._sites)

    def _begin(self) -> None:
        """Registers at the start: user SGPRs, the workgroup's numbers, the work item's."""
        w, e, kernel = self._w, self._e, self._kernel
        params = e.op(f"inttoptr i64 {e.launch_value('params', 64)} to ptr")
        for i in range(kernel.user_sgprs):
            at = e.op(f"getelementptr i32, ptr {params}, i64 {i}")
            w.set_scalar(i, e.op(f"load i32, ptr {at}"))
        number = kernel.rsrc2 >> 1 & 0x1F  # user SGPRs, those included that nothing is put into
        x, y, z = (e.block_value(f"index_{axis}") for axis in "xyz")
        if self._chip.has_trap_ids:
            w.set_scalar(TTMP9, x)
            high = w.s.op("u32", "shl", z, "16")
            w.set_scalar(TTMP7, w.s.op("u32", "or", w.s.op("u32", "and", y, "65535"), high))
            # Bits 25 to 29 are the wave's number in its workgroup.
            wave = e.op(f"load i32, ptr {e.warp_field('number')}")
            w.set_scalar(TTMP8, w.s.op("u32", "shl", wave, "25"))
        else:
            for bit, value in ((7, x), (8, y), (9, z)):
                if kernel.rsrc2 >> bit & 1:
                    w.set_scalar(number, value)
                    number += 1
            if kernel.rsrc2 >> 10 & 1:
                w.set_scalar(number, e.block_value("warp_count"))
                number += 1
        if kernel.rsrc2 & 1 and not self._chip.has_scratch_register:
            w.set_scalar(number, self._scratch_offset())
        self._set_ids()
        self._mode = Mode.of(kernel.rsrc1)

    def _scratch_offset(self) -> str:
        """Where a wave's scratch memory begins, of that of all: waves take the places in turn."""
        s, e, kernel = self._w.s, self._e, self._kernel
        warps = s.resize("u32", "u64", e.block_value("warp_count"))
        before = s.op("u64", "mul", e.block_value("number", 64), warps)
        mine = e.op(f"load i32, ptr {e.warp_field('number')}")
        wave = s.op("u64", "add", before, s.resize("u32", "u64", mine))
        place = s.op("u64", "urem", wave, str(max(1, kernel.scratch_waves)))
        return s.resize("u64", "u32", s.op("u64", "mul", place, str(kernel.scratch_wave)))

    def _set_ids(self) -> None:
        w, e = self._w, self._e
        axes = [
            e.op(f"load {e.lanes('i32')}, ptr {e.warp_field(f'tid_{axis}')}, align 64")
            for axis in "xyz"
        ]
        if self._chip.packs_ids:
            packed = axes[0]
            for shift, value in ((10, axes[1]), (20, axes[2])):
                moved = w.x.op("u32", "shl", value, w.x.const("u32", shift))
                packed = w.x.op("u32", "or", packed, moved)
            axes = [packed]
        w.lanes = e.mask
        for i, value in enumerate(axes):
            w.set_vector(Operand(Kind.VGPR, i, 32), value)

    def _write(self, number: int, block: _Block) -> None:
        if not block.items:
            self._illegal(self._site(block.start), self._broken[block.start])
            return
        for address, item in block.items:
            site = self._site(address)
            if address in self._unwaited:
                self._fault(NOT_WAITED, site, self._unwaited[address])
                return
            name = canonical(item.operation)
            ends_block = name in _CONDITIONS or name in _JUMPS or name in _BARRIERS
            if ends_block and self._has_lasting_mode():
                self._illegal(site, _LASTING_MODE)
                return
            if name in _CONDITIONS or name == "s_branch":
                self._branch(number, address, item, name)
                return
            if name in _JUMPS:
                self._jump(number, address, item, name)
                return
            if name in _ENDS:
                self._w.registers.leave()
                self._flow.exit()
                return
            if name in _BARRIERS:
                self._w.registers.leave()
                self._go_to_barrier(number, block.end, name)
                return
            if name == "s_barrier_signal":
                self._flow.signal()
                continue
            try:
                self._instruction(address, item)
            except (Unsupported, KeyError, ValueError) as error:
                why = str(error) if isinstance(error, Unsupported) else f"{error!r}"
                self._illegal(site, why)
                return
        if self._has_lasting_mode():
            self._illegal(self._site(block.end), _LASTING_MODE)
            return
        self._w.registers.leave()
        self._flow.go(number, self._numbers[block.end])

    def _has_lasting_mode(self) -> bool:
        return self._w.mode != self._mode or bool(self._w.index_mode)

    def _instruction(self, address: int, item: Instruction) -> None:
        w = self._w
        if item.pair:
            with w.together():
                for half in item.pair:
                    self._single(address, half)
            return
        self._single(address, item)

    def _single(self, address: int, item: Instruction) -> None:
        meaning = MEANINGS.find(indexed.indexed_name(item.operation, self._w.index_mode))
        if meaning is None:
            raise Unsupported(f"{item.operation} has no meaning here")
        self._w.begin(item, address)
        meaning(self._w)

    def _illegal(self, site: int, why: str) -> None:
        """The wave ends here with a fault."""
        self._fault(ILLEGAL, site, why)

    def _fault(self, kind: int, site: int, why: str) -> None:
        self._faults[site] = why
        e = self._e
        e.report(kind, "0")
        self._w.registers.leave()
        self._flow.exit()

    def _branch(self, number: int, address: int, item: Instruction, name: str) -> None:
        w, target = self._w, self._numbers[_target(address, item)]
        condition = ""
        if name != "s_branch":
            what, holds = _CONDITIONS[name]
            if what == "scc":
                condition = w.scc()
            else:
                mask = w.e.mask_bits if what == "exec" else w.mask(_VCC)
                condition = w.s.truth(w.mask_kind, mask)
            if not holds:
                condition = w.s.no(condition)
        w.registers.leave()
        if name == "s_branch":
            self._flow.go(number, target)
        else:
            self._flow.branch(number, condition, target, self._numbers[address + item.size])

    def _jump(self, number: int, address: int, item: Instruction, name: str) -> None:
        """A call, or a jump to an address that registers hold."""
        w = self._w
        aim = w.scalar(item.operands["src0"], "u64") if name in _INDIRECT else ""
        if "sdst" in item.operands:
            w.set_scalar(item.operands["sdst"], str(address + item.size), "u64")
        w.registers.leave()
        if not aim:
            self._flow.go(number, self._numbers[_target(address, item)])
            return
        cases = " ".join(f"i64 {at}, label %b{self._numbers[at]}" for at in sorted(self._indirect))
        found = "\n".join(
            f"b{n}:\n  ret i32 {n}" for n in sorted(self._numbers[at] for at in self._indirect)
        )
        function = w.e.need(
            "amd_block_of",
            f"define internal i32 @amd_block_of(i64 %at) {{\n  switch i64 %at, label %none "
            f"[{cases}]\nnone:\n  ret i32 -1\n{found}\n}}",
        )
        self._flow.jump(number, w.e.op(f"call i32 {function}(i64 {aim})"), aim)

    def _go_to_barrier(self, number: int, behind: int, name: str) -> None:
        """Arrives and waits, or waits alone: gfx12 has an instruction of its own that arrives."""
        following = self._numbers[behind]
        if following != number + 1:
            raise Unsupported("a barrier that another block follows")
        meet = self._flow.wait if name == "s_barrier_wait" else self._flow.barrier
        meet(number)
