"""One kernel of a module becomes LLVM IR that runs a warp.

    translation = translate(module, "softmax")
    translation.ir                     # define void @ptx_softmax(ptr %block, ptr %warp) ...

The threads of a warp have program counters of their own (see simt/lane_counters), which are the
numbers of basic blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.emulate.ptx import (
    approximate,
    bits,
    convert,
    floating,
    integer,
    matrix,
    mbarrier,
    memory,
    signs,
    special,
    warp,
    warpgroup,
)
from treadle.emulate.ptx.emit import Emitter, Handlers, Modifiers, lanes
from treadle.emulate.ptx.expand import is_block_barrier, is_warp_wide
from treadle.emulate.ptx.flow import Block, Flow, kernel_flow
from treadle.emulate.ptx.layout import Layout
from treadle.emulate.ptx.syntax import Immediate, Instruction, Operand, PTXError
from treadle.emulate.simt import front_end as simt
from treadle.emulate.simt.lane_counters import LaneCounters
from treadle.emulate.simt.machine import Fault

if TYPE_CHECKING:
    from treadle.emulate.ptx.syntax import Module

__all__ = ["Translation", "translate"]

_HANDLERS = Handlers()
for _family in (
    integer, bits, floating, approximate, signs, convert, memory, mbarrier, warp,
    matrix, warpgroup, special,
):  # fmt: skip
    _HANDLERS.update(_family.HANDLERS)


@dataclass(frozen=True)
class Translation(simt.Translation):
    """A kernel as LLVM IR, with the places of its parameters and the bytes of all."""

    params: dict[str, int]
    params_bytes: int


def translate(module: Module, name: str) -> Translation:
    """The translation of an entry. Raises PTXError for what is wrong or not emulated."""
    flow = kernel_flow(module, name)
    layout = Layout(module, flow)
    symbol = "ptx_" + "".join(c if c.isalnum() else "_" for c in name)
    e = Emitter(layout)
    _Kernel(e, flow).write()
    return Translation(
        name, symbol, e.definition(symbol), layout.shared_bytes, layout.local_bytes,
        layout.warp_bytes, "PTX line {}".format, layout.params, layout.params_bytes,
    )  # fmt: skip


class _Kernel:
    """Writes the dispatcher and the blocks of a kernel."""

    def __init__(self, e: Emitter, flow: Flow) -> None:
        self.e, self.flow = e, flow
        self.counters = LaneCounters(e, len(flow.blocks))

    def write(self) -> None:
        self.counters.write_dispatcher()
        for block in self.flow.blocks:
            self._block(block)

    # -- blocks

    def _block(self, block: Block) -> None:
        e = self.e
        self.counters.begin(block.index)
        first = block.instructions[0]
        e.at(first.line)
        self._enter()
        if is_warp_wide(first):
            self.counters.gather(block.index, warp.member_mask(e, first))
            self._enter()
        for item in block.instructions[:-1]:
            self._instruction(item)
        last = block.instructions[-1]
        e.at(last.line)
        if is_block_barrier(last):
            self._barrier(block, last)
        elif last.opcode in _ENDINGS:
            _ENDINGS[last.opcode](self, block, last)
        else:
            self._instruction(last)
            e.leave(block.live_out)
            self.counters.go(block.index, block.index + 1)

    def _enter(self) -> None:
        self.counters.enter()
        self.e.enter(self.counters.mask, self.counters.mask_bits)

    def _instruction(self, item: Instruction) -> None:
        e = self.e
        e.at(item.line)
        handler = _HANDLERS.get(item.opcode)
        if handler is None:
            raise PTXError(item.line, f"{item.text} is not emulated")
        modifiers = Modifiers(item)
        e.begin(item)
        try:
            handler(e, item, modifiers)
        except (ValueError, IndexError) as error:
            raise PTXError(item.line, f"{item.text} does not take these operands") from error
        modifiers.end()

    # -- endings

    def _branch(self, block: Block, item: Instruction) -> None:
        e = self.e
        modifiers = Modifiers(item)
        modifiers.flag("uni")
        modifiers.end()
        e.begin(item)
        taken, lanes = e.mask_bits, e.mask
        e.leave(block.live_out)
        if item.guard is None:
            self.counters.go(block.index, block.targets[0])
        else:
            self.counters.branch(block.index, taken, lanes, *block.targets)

    def _table_branch(self, block: Block, item: Instruction) -> None:
        """brx.idx: each lane takes the target of its number."""
        e = self.e
        modifiers = Modifiers(item)
        if not modifiers.flag("idx"):
            raise modifiers.fail()
        modifiers.flag("uni")
        modifiers.end()
        e.begin(item)
        number = e.read(item.operands[0], 32)
        e.leave(block.live_out)
        count = len(block.targets) - (item.guard is not None)
        if item.guard is not None:
            self.counters.park(block.targets[-1])
        self.counters.table_branch(number, e.mask, block.targets[:count])

    def _exit(self, block: Block, item: Instruction) -> None:
        e = self.e
        modifiers = Modifiers(item)
        modifiers.flag("uni")
        modifiers.end()
        e.begin(item)
        e.leave(block.live_out)
        otherwise = None if item.guard is None else block.targets[0]
        self.counters.exit(block.index, e.mask_bits, otherwise)

    def _trap(self, block: Block, item: Instruction) -> None:
        e = self.e
        Modifiers(item).end()
        e.begin(item)
        e.fault(Fault.TRAP)
        e.leave(block.live_out)
        self.counters.go(block.index, block.index + 1)

    def _barrier(self, block: Block, item: Instruction) -> None:
        e, m = self.e, Modifiers(item)
        e.begin(item)
        m.flag("cta")
        how = m.one_of(("sync", "arrive", "red"))
        # bar.X is barrier.X.aligned.
        aligned = m.flag("aligned") or item.opcode == "bar"
        operands: list[Operand] = list(item.operands)
        votes = "0"
        if how == "red":
            m.one_of(("popc", "and", "or"))
            m.one_of(("u32", "pred"))
            operands.pop(0)
            predicate = e.read_predicate(operands.pop())
            votes = e.as_mask(e.op(f"and {lanes(1)} {predicate}, {e.block_mask}"))
        elif how not in ("sync", "arrive"):
            raise m.fail()
        m.end()
        operands += [Immediate(0)] * (2 - len(operands))
        id, count = (e.first(operand, 32) for operand in operands)
        e.leave(block.live_out)
        wait = 0 if how == "arrive" else 1 if aligned else 2
        self.counters.barrier(block.index, e.mask_bits, id, count, votes, wait)


_ENDINGS = {
    "bra": _Kernel._branch, "brx": _Kernel._table_branch, "ret": _Kernel._exit,
    "exit": _Kernel._exit, "trap": _Kernel._trap,
}  # fmt: skip
