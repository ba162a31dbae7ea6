"""One kernel of a module becomes LLVM IR that runs a simdgroup.

    translation = translate(module, "softmax")
    translation.ir                     # define void @air_softmax(ptr %block, ptr %warp) ...

The threads of a simdgroup have program counters of their own (see simt/lane_counters), which are
the numbers of basic blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.air import arithmetic, atomics, functions, matrix, memory, simdgroup
from treadle.emulate.air.emit import Emitter
from treadle.emulate.air.flow import flow_of
from treadle.emulate.air.handlers import Handlers
from treadle.emulate.air.layout import Layout
from treadle.emulate.air.machine import splat
from treadle.emulate.air.names import called
from treadle.emulate.air.positions import argument_values
from treadle.emulate.air.syntax import AIRError, Constant, bits_of
from treadle.emulate.simt.accesses import barrier_orders
from treadle.emulate.simt.front_end import Translation
from treadle.emulate.simt.lane_counters import LaneCounters
from treadle.emulate.simt.machine import Fault

if TYPE_CHECKING:
    from treadle.emulate.air.flow import Block, Flow
    from treadle.emulate.air.kernels import Module
    from treadle.emulate.air.syntax import Function, Instruction

__all__ = ["translate"]

_OPCODES, _FUNCTIONS = Handlers(), Handlers()
for _family in (arithmetic, memory):
    _OPCODES.update(_family.HANDLERS)
for _family in (atomics, functions, matrix, simdgroup):
    _FUNCTIONS.update(_family.HANDLERS)


def translate(module: Module, name: str, checks_fences: bool = True) -> Translation:
    """The translation of a kernel. Raises AIRError for what is wrong or not emulated.

    With `checks_fences` a barrier orders the memory that its mem_flags name, else all.
    """
    function = module.function(name)
    flow = flow_of(function)
    layout = Layout(module, function, flow, checks_fences)
    e = Emitter(layout)
    for number, parameter in enumerate(function.parameters):
        argument = module.kernels[name].arguments[number]
        layout.arguments[parameter.name] = lambda n=number, a=argument, p=parameter: (
            argument_values(e, n, a, p)
        )
    _Kernel(e, flow, function).write()
    symbol = "air_" + "".join(c if c.isalnum() else "_" for c in name)
    return Translation(
        name, symbol, e.definition(symbol), layout.static_bytes, layout.local_bytes,
        layout.warp_bytes, module.places(name),
    )  # fmt: skip


class _Kernel:
    """Writes the dispatcher and the blocks of a kernel."""

    def __init__(self, e: Emitter, flow: Flow, function: Function) -> None:
        self.e, self.flow, self.function = e, flow, function
        # A thread of a simdgroup does not wait for another in a loop: none has to be let through.
        self.counters = LaneCounters(e, len(flow.blocks), takes_turns=False)

    def write(self) -> None:
        self.counters.write_dispatcher()
        for block in self.flow.blocks:
            self._block(block)

    def _block(self, block: Block) -> None:
        e = self.e
        self.counters.begin(block.index)
        self._enter()
        if block.gathered:
            self.counters.gather(block.index, "-1")
            self._enter()
        items = block.items if block.ends == "next" else block.items[:-1]
        for item in items:
            self._instruction(item)
        if block.ends == "next":
            e.leave(block.live_out)
            self.counters.go(block.index, block.index + 1)
            return
        last = block.items[-1]
        e.site = str(last.number)
        _ENDINGS[last.opcode](self, block, last)

    def _enter(self) -> None:
        self.counters.enter()
        self.e.enter(self.counters.mask, self.counters.mask_bits)

    def _instruction(self, item: Instruction) -> None:
        e = self.e
        e.site = str(item.number)
        if item.opcode == "call":
            handler = _FUNCTIONS.get(called(item.words[0]).name)
            what = item.words[0]
            if what == "llvm.trap":
                e.fault(Fault.TRAP)
                return
        else:
            handler, what = _OPCODES.get(item.opcode), item.opcode
        if handler is None:
            raise AIRError(f"{self.function.name}: {what} is not emulated")
        try:
            handler(e, item)
        except (ValueError, IndexError) as error:
            raise AIRError(
                f"{self.function.name}: {what} does not take these operands: {error}"
            ) from error

    # -- endings

    def _move(self, block: Block, ways: dict[int, str]) -> None:
        """Gives phis of the next blocks their values; `ways` are the lanes of each ("": all)."""
        e, moves = self.e, []
        for target, lanes in ways.items():
            for phi, place in block.moves.get(target, ()):
                moves.append((phi, e.read(phi.operands[place]), lanes))
        # All are read before any is written: phis take their values at once.
        for phi, values, lanes in moves:
            for name, value in zip(e.layout.names[phi.result], values, strict=True):
                e.registers.write(name, value, lanes)

    def _branch(self, block: Block, item: Instruction) -> None:
        e, counters = self.e, self.counters
        if len(set(block.targets)) == 1:
            self._move(block, {block.targets[0]: ""})
            e.leave(block.live_out)
            counters.go(block.index, block.targets[0])
            return
        flags = e.lanes("i1")
        condition = e.one(item.operands[0])
        taken = e.op(f"and {flags} {condition}, {e.mask}")
        others = e.op(f"and {flags} {e.op(f'xor {flags} {condition}, {splat(1, 1)}')}, {e.mask}")
        yes, no = block.targets
        self._move(block, {yes: taken, no: others})
        e.leave(block.live_out)
        counters.branch(block.index, e.as_mask(taken), taken, yes, no)

    def _switch(self, block: Block, item: Instruction) -> None:
        e = self.e
        flags = e.lanes("i1")
        value, *cases = item.operands
        number, bits = e.one(value), bits_of(value.type)
        rest = e.mask
        ways: dict[int, str] = {}
        for case, target in zip(cases, block.targets[1:], strict=True):
            if not isinstance(case, Constant):
                raise AIRError("a case of a switch is no constant")
            here = e.op(f"icmp eq {e.lanes(f'i{bits}')} {number}, {e.one(case)}")
            here = e.op(f"and {flags} {here}, {e.mask}")
            ways[target] = e.op(f"or {flags} {ways[target]}, {here}") if target in ways else here
            rest = e.op(f"and {flags} {rest}, {e.op(f'xor {flags} {here}, {splat(1, 1)}')}")
        default = block.targets[0]
        ways[default] = e.op(f"or {flags} {ways[default]}, {rest}") if default in ways else rest
        self._move(block, ways)
        e.leave(block.live_out)
        for target, lanes in ways.items():
            self.counters.park(target, lanes)
        self.counters.dispatch()

    def _return(self, block: Block, item: Instruction) -> None:
        e = self.e
        e.leave(block.live_out)
        self.counters.exit(block.index, e.mask_bits)

    def _unreachable(self, block: Block, item: Instruction) -> None:
        self.e.fault(Fault.TRAP)
        self._return(block, item)

    def _barrier(self, block: Block, item: Instruction) -> None:
        e = self.e
        e.leave(block.live_out)
        barrier_orders(e, simdgroup.ordered_memory(e, item))
        self.counters.barrier(block.index, e.mask_bits, "0")


_ENDINGS = {
    "br": _Kernel._branch, "switch": _Kernel._switch, "ret": _Kernel._return,
    "unreachable": _Kernel._unreachable, "call": _Kernel._barrier,
}  # fmt: skip
