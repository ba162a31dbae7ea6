"""A program of machine code to a kernel of the core: basic blocks from the first word on.

    translation = translate(Kernel(words, wave=64, workgroup_register=192, local_register=0))

Each lane has a program counter: lanes that part at a branch meet again where the least counter is
served first. What has no meaning, and what uses a register too early, is a fault when a wave comes
there, and not before.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from treadle.emulate.ir3 import arithmetic, convert, images, memory, special
from treadle.emulate.ir3.decode import GPU, DecodeError, decode
from treadle.emulate.ir3.machine import ILLEGAL, NOT_WAITED, front_end, places
from treadle.emulate.ir3.meanings import MEANINGS
from treadle.emulate.ir3.operands import SHARED, Instruction, Unsupported
from treadle.emulate.ir3.waits import Block, too_early
from treadle.emulate.ir3.wave import Bound, Wave
from treadle.emulate.kgsl.images import Format
from treadle.emulate.simt.emit import Emitter
from treadle.emulate.simt.front_end import Translation
from treadle.emulate.simt.lane_counters import LaneCounters
from treadle.emulate.simt.registers import Registers

__all__ = ["Kernel", "image_place", "translate"]

_MODULES = (arithmetic, convert, images, memory, special)  # which give instructions their meanings
_JUMPS = ("jump",)
_BRANCHES = ("br", "brao", "braa", "bany", "ball")
_PREDICATION = ("predt", "predf", "prede")
_NOTHING = ("nop", "sleep", "icinv", "dccln", "dcinv", "dcflu", "tcinv")  # no results, no waits


@dataclass(frozen=True)
class Kernel:
    """What translation depends on. `words` are the program.

    `workgroup_register` is the first of three registers that hold the workgroup's numbers,
    `local_register` that of those which hold the work item's, by components; None is none.
    `constants` is how many 32-bit constants are loaded, `registers` how many components of full
    registers a work item has. With `has_demotion` a half constant is a whole one that is made
    smaller, else a half of one. `lacks` are instructions that the chip does not have.
    `has_scalar_alu` is a unit of its own for what is computed once for all lanes. `textures` and
    `images` are the formats of what it reads, by one of so many `samplers`, and of what it writes
    as well.
    """

    words: tuple[int, ...]
    wave: int
    workgroup_register: int | None = None
    local_register: int | None = None
    shared_bytes: int = 0
    private_bytes: int = 0
    constants: int = 0
    registers: int = 192
    has_demotion: bool = True
    lacks: frozenset[str] = frozenset()
    has_scalar_alu: bool = False
    gpu: int = GPU
    textures: tuple[Format, ...] = ()
    images: tuple[Format, ...] = ()
    samplers: int = 16


def image_place(kernel: Kernel, number: int) -> int:
    """Where in a launch's parameters an image's address, pitch, width and height are."""
    return (4 * kernel.constants + 7 & -8) + 32 * number


@dataclass
class _Code:
    """Words that are reached, what is wrong with some, and where basic blocks begin."""

    items: dict[int, Instruction] = field(default_factory=dict)
    broken: dict[int, str] = field(default_factory=dict)
    starts: set[int] = field(default_factory=lambda: {0})


def translate(kernel: Kernel) -> Translation:
    """The kernel as LLVM IR."""
    return _Translator(kernel).translation()


def _target(place: int, item: Instruction) -> int:
    return place + item.number("IMMED")


def _ends_block(item: Instruction) -> bool:
    return item.name in (*_BRANCHES, *_JUMPS, "end", "bar")


def _read(kernel: Kernel) -> _Code:
    code, left = _Code(), [0]
    while left:
        place = left.pop()
        while place not in code.items and place not in code.broken:
            try:
                if not 0 <= place < len(kernel.words):
                    raise DecodeError(f"the program has {len(kernel.words)} words")
                item = Instruction(decode(kernel.words[place], kernel.gpu))
            except DecodeError as error:
                code.broken[place] = str(error)
                code.starts.add(place)
                break
            code.items[place] = item
            if item.name in (*_BRANCHES, *_JUMPS):
                left.append(_target(place, item))
                code.starts.add(_target(place, item))
            if _ends_block(item):
                code.starts.add(place + 1)
            if item.name in (*_JUMPS, "end"):
                break
            place += 1
    return code


def _following(place: int, item: Instruction) -> list[int]:
    """Where a basic block that ends with an instruction goes on."""
    found = [] if item.name in (*_JUMPS, "end") else [place + 1]
    return [*found, _target(place, item)] if item.name in (*_JUMPS, *_BRANCHES) else found


class _Translator:
    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        code = self._code = _read(kernel)
        starts = sorted(s for s in code.starts if s in code.items or s in code.broken)
        self._blocks: dict[int, list[int]] = {}
        for start in starts:
            block = self._blocks[start] = []
            place = start
            while place in code.items and (place == start or place not in code.starts):
                block.append(place)
                place += 1
        self._numbers = {start: number for number, start in enumerate(self._blocks, 1)}
        ways = {
            start: Block(
                [(place, code.items[place]) for place in block],
                _following(block[-1], code.items[block[-1]]) if block else [],
            )
            for start, block in self._blocks.items()
        }
        self._early = too_early(ways, kernel.has_scalar_alu)
        self._sites: list[int] = []
        self._faults: dict[int, str] = {}

    def translation(self) -> Translation:
        kernel = self._kernel
        machine = front_end(kernel.wave).machine
        e = self._e = Emitter(machine)
        registers = Registers(e, places(kernel.wave))
        self._w = Wave(e, registers, kernel.constants, kernel.registers, kernel.has_demotion)
        formats = (*kernel.textures, *kernel.images)
        bound = [Bound(image_place(kernel, n), one) for n, one in enumerate(formats)]
        self._w.textures = bound[: len(kernel.textures)]
        self._w.images = bound[len(kernel.textures) :]
        self._w.samplers = kernel.samplers
        self._flow = LaneCounters(e, len(self._blocks) + 1, takes_turns=False)
        self._flow.write_dispatcher()
        self._enter(0)
        self._begin()
        self._leave()
        self._flow.go(0, 1)
        for start, block in self._blocks.items():
            self._enter(self._numbers[start])
            self._write(self._numbers[start], start, block)
        symbol = "ir3_" + hashlib.sha256("\n".join(e.lines).encode()).hexdigest()[:16]
        return Translation(
            "ir3", symbol, e.definition(symbol), kernel.shared_bytes, kernel.private_bytes,
            machine.warp_bytes, self._place,
        )  # fmt: skip

    def _place(self, site: int) -> str:
        if not 0 < site <= len(self._sites):
            return "nowhere in the program"
        place = self._sites[site - 1]
        item = self._code.items.get(place)
        why = f": {self._faults[site]}" if site in self._faults else ""
        return f"{item or 'no instruction'} at word {place}{why}"

    # -- writing

    def _enter(self, number: int) -> None:
        e, flow = self._e, self._flow
        flow.begin(number)
        flow.enter()
        e.mask, e.mask_bits = flow.mask, flow.mask_bits
        self._w.enter()

    def _leave(self) -> None:
        self._w.registers.leave(None, self._flow.mask, self._flow.mask_bits)

    def _site(self, place: int) -> int:
        self._sites.append(place)
        self._e.site = str(len(self._sites))
        return len(self._sites)

    def _begin(self) -> None:
        """The numbers of the workgroup and of the work item."""
        e, kernel, registers = self._e, self._kernel, self._w.registers
        if kernel.workgroup_register is not None:
            for i, axis in enumerate("xyz"):
                number, value = kernel.workgroup_register + i, e.block_value(f"index_{axis}")
                is_shared = number >= SHARED
                registers.write(f"r{number}", value if is_shared else e.spread_scalar("i32", value))
        if kernel.local_register is not None:
            for i, axis in enumerate("xyz"):
                field = e.warp_field(f"tid_{axis}")
                value = e.op(f"load {e.lanes('i32')}, ptr {field}, align 64")
                registers.write(f"r{kernel.local_register + i}", value)

    def _write(self, number: int, start: int, block: list[int]) -> None:
        if not block:
            self._fault(number, ILLEGAL, self._site(start), self._code.broken[start])
            return
        for place in block:
            item, site = self._code.items[place], self._site(place)
            if place in self._early:
                self._fault(number, NOT_WAITED, site, self._early[place])
                return
            try:
                if _ends_block(item):
                    self._end(number, place, item)
                    return
                self._instruction(item)
            except (Unsupported, KeyError) as error:
                self._fault(number, ILLEGAL, site, str(error))
                return
        self._check_predication()
        self._leave()
        self._flow.go(number, self._numbers[block[-1] + 1])

    def _instruction(self, item: Instruction) -> None:
        w = self._w
        if item.name in _NOTHING:
            return
        if item.name in _PREDICATION:
            w.predicate(item.name)
            return
        if item.name in self._kernel.lacks:
            raise Unsupported(f"this chip has no {item.name}")
        meaning = MEANINGS.find(item.name)
        if meaning is None:
            raise Unsupported(f"{item.name} has no meaning here")
        for step in range(item.repeat + 1):
            w.begin(item, step)
            meaning(w)

    def _fault(self, number: int, kind: int, site: int, why: str) -> None:
        """The lanes end here with a fault."""
        self._faults[site] = why
        self._e.fault(kind)
        self._flow.exit(number, self._flow.mask_bits)

    # -- how basic blocks end

    def _check_predication(self) -> None:
        if self._w.lanes:
            raise Unsupported("a basic block ends between predt and prede")

    def _end(self, number: int, place: int, item: Instruction) -> None:
        self._check_predication()
        if item.name == "end":
            self._flow.exit(number, self._flow.mask_bits)
            return
        if item.name == "bar":
            self._barrier(number, place)
            return
        target = self._numbers[_target(place, item)]
        if item.name == "jump":
            self._leave()
            self._flow.go(number, target)
            return
        taken = self._w.x.both(self._condition(item), self._flow.mask)
        self._leave()
        following = self._numbers[place + 1]
        self._flow.branch(number, self._e.as_mask(taken), taken, target, following)

    def _condition(self, item: Instruction) -> str:
        """Which lanes take a branch."""
        w, x = self._w, self._w.x
        flag = w.flag(item, 1)
        if item.name in ("br", "bany", "ball"):
            return flag if item.name == "br" else self._vote(item.name, flag)
        other = w.flag(item, 2)
        return x.either(flag, other) if item.name == "brao" else x.both(flag, other)

    def _vote(self, name: str, flag: str) -> str:
        """All lanes go where any has the flag, or where all have."""
        e, x, mask = self._e, self._w.x, self._e.machine.mask
        counted = flag if name == "bany" else x.no(flag)
        bits = e.as_mask(x.both(counted, self._flow.mask))
        how = "ne" if name == "bany" else "eq"
        one = e.op(f"icmp {how} {mask} {bits}, 0")
        return e.spread_scalar("i1", one)

    def _barrier(self, number: int, place: int) -> None:
        following = self._numbers[place + 1]
        if following != number + 1:
            raise Unsupported("a barrier that another block follows")
        self._leave()
        self._flow.barrier(number, self._flow.mask_bits, "0")
