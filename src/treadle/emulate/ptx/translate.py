"""One kernel of a module becomes LLVM IR that runs a warp.

    translation = translate(module, "softmax")
    translation.ir                     # define void @softmax(ptr %block, ptr %warp) ...

The function is a machine that steps through basic blocks: `dispatch` looks at the program counters
of the lanes that can go on, takes the least, and runs its block under the mask of the lanes that
are there; they part at a branch by getting different counters and meet again because the least is
always served first. While no other lane is at or before the target, a block goes straight to the
next one. A lane that waits at a block barrier keeps its counter and the function returns; all
state is in the Warp, so it goes on where it was when it is called again.
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
from treadle.emulate.ptx.emit import Emitter, Handlers, Modifiers, splat
from treadle.emulate.ptx.expand import is_block_barrier, is_warp_wide
from treadle.emulate.ptx.flow import Block, Flow, kernel_flow
from treadle.emulate.ptx.layout import Layout
from treadle.emulate.ptx.machine import Fault
from treadle.emulate.ptx.syntax import Immediate, Instruction, Operand, PTXError

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
class Translation:
    """A kernel as LLVM IR, and the memory that it asks for."""

    name: str
    symbol: str
    ir: str
    shared_bytes: int
    local_bytes: int
    warp_bytes: int
    params: dict[str, int]
    params_bytes: int


def translate(module: Module, name: str) -> Translation:
    """The translation of an entry. Raises PTXError for what is wrong or not emulated."""
    flow = kernel_flow(module, name)
    layout = Layout(module, flow)
    symbol = "ptx_" + "".join(c if c.isalnum() else "_" for c in name)
    e = Emitter(layout)
    _Kernel(e, flow).write()
    body = "\n".join(e.lines)
    helpers = "\n".join(e.helpers.values())
    ir = (
        f'{helpers}\ndefine void @{symbol}(ptr %block, ptr %warp) "prefer-vector-width"="512" '
        f"{{\n{body}\n}}\n"
    )
    return Translation(
        name, symbol, ir, layout.shared_bytes, layout.local_bytes, layout.warp_bytes,
        layout.params, layout.params_bytes,
    )  # fmt: skip


_PCS = "<32 x i32>"


class _Kernel:
    """Writes the dispatcher and the blocks of a kernel."""

    def __init__(self, e: Emitter, flow: Flow) -> None:
        self.e, self.flow, self.parks = e, flow, 0

    def write(self) -> None:
        e = self.e
        e.label("entry")
        e.do("%mask = alloca i32")
        e.do("%others = alloca i32")  # the least counter of the lanes that are elsewhere
        e.do(f"%flip = load i32, ptr {e.warp_field('flip')}")
        e.do("%backwards = icmp ne i32 %flip, 0")
        e.do("br label %dispatch")
        self._dispatch()
        for block in self.flow.blocks:
            self._block(block)

    # -- the dispatcher

    def _dispatch(self) -> None:
        e = self.e
        e.label("dispatch")
        left = e.op(f"load i32, ptr {e.warp_field('slice')}")
        e.do(f"br i1 {e.op(f'icmp sgt i32 {left}, 0')}, label %pick, label %pause")
        e.label("pause")
        e.do(f"store i32 {e.op('xor i32 %flip, 1')}, ptr {e.warp_field('flip')}")
        e.do("ret void")
        e.label("leave")
        e.do("ret void")
        e.label("pick")
        e.do(f"store i32 {e.op(f'add i32 {left}, -1')}, ptr {e.warp_field('slice')}")
        names = ("live", "waiting", "held")
        live, waiting, held = (e.op(f"load i32, ptr {e.warp_field(name)}") for name in names)
        stuck = e.op(f"xor i32 {e.op(f'or i32 {waiting}, {held}')}, -1")
        ready = e.op(f"and i32 {live}, {stuck}")
        e.do(f"br i1 {e.op(f'icmp eq i32 {ready}, 0')}, label %leave, label %choose")
        e.label("choose")
        pcs = e.op(f"load {_PCS}, ptr {e.warp_field('pc')}, align 64")
        lanes = e.op(f"bitcast i32 {ready} to <32 x i1>")
        least = self._extreme("umin", lanes, pcs, "splat (i32 -1)")
        most = self._extreme("umax", lanes, pcs, "zeroinitializer")
        pc = e.op(f"select i1 %backwards, i32 {most}, i32 {least}")
        here = e.op(f"icmp eq {_PCS} {pcs}, {e.spread(pc)}")
        here = e.op(f"and <32 x i1> {here}, {lanes}")
        e.do(f"store i32 {e.op(f'bitcast <32 x i1> {here} to i32')}, ptr %mask")
        elsewhere = e.op(f"and <32 x i1> {lanes}, "
                         f"{e.op(f'xor <32 x i1> {here}, splat (i1 true)')}")  # fmt: skip
        others = self._extreme("umin", elsewhere, pcs, "splat (i32 -1)")
        e.do(f"store i32 {others}, ptr %others")
        cases = " ".join(f"i32 {b.index}, label %b{b.index}" for b in self.flow.blocks)
        e.do(f"switch i32 {pc}, label %leave [{cases}]")

    def _extreme(self, how: str, lanes: str, pcs: str, otherwise: str) -> str:
        e = self.e
        chosen = e.op(f"select <32 x i1> {lanes}, {_PCS} {pcs}, {_PCS} {otherwise}")
        return e.intrinsic(f"llvm.vector.reduce.{how}.v32i32", "i32", f"{_PCS} {chosen}")

    # -- blocks

    def _block(self, block: Block) -> None:
        e = self.e
        e.label(f"b{block.index}")
        first = block.instructions[0]
        e.layout.line = first.line
        if is_warp_wide(first):
            self._gather(block, first)
        e.enter(e.op("load i32, ptr %mask"))
        for item in block.instructions[:-1]:
            self._instruction(item)
        last = block.instructions[-1]
        e.layout.line = last.line
        if is_block_barrier(last):
            self._barrier(block, last)
        elif last.opcode in _ENDINGS:
            _ENDINGS[last.opcode](self, block, last)
        else:
            self._instruction(last)
            e.leave(block.live_out)
            self._go(block, block.index + 1)

    def _instruction(self, item: Instruction) -> None:
        e = self.e
        e.layout.line = item.line
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

    def _gather(self, block: Block, first: Instruction) -> None:
        """Lanes wait here until all that the instruction names are here."""
        e, i = self.e, block.index
        e.enter(e.op("load i32, ptr %mask"))
        mask = e.mask_bits
        member = warp.member_mask(e, first)
        live = e.op(f"load i32, ptr {e.warp_field('live')}")
        wanted = e.op(f"and i32 {member}, {live}")
        missing = e.op(f"and i32 {wanted}, {e.op(f'xor i32 {mask}, -1')}")
        e.do(f"br i1 {e.op(f'icmp eq i32 {missing}, 0')}, label %together{i}, label %look{i}")
        e.label(f"look{i}")
        held = e.op(f"load i32, ptr {e.warp_field('held')}")
        pcs = e.op(f"load {_PCS}, ptr {e.warp_field('pc')}, align 64")
        at = (
            e.op(f"icmp eq {_PCS} {pcs}, splat (i32 {i})")
            if i
            else e.op(f"icmp eq {_PCS} {pcs}, zeroinitializer")
        )
        joined = e.op(f"and i32 {held}, {e.op(f'bitcast <32 x i1> {at} to i32')}")
        everyone = e.op(f"or i32 {joined}, {mask}")
        absent = e.op(f"and i32 {wanted}, {e.op(f'xor i32 {everyone}, -1')}")
        e.do(f"br i1 {e.op(f'icmp eq i32 {absent}, 0')}, label %join{i}, label %hold{i}")
        e.label(f"hold{i}")
        e.do(f"store i32 {e.op(f'or i32 {held}, {mask}')}, ptr {e.warp_field('held')}")
        self._park(i)
        e.do("br label %dispatch")
        e.label(f"join{i}")
        e.do(f"store i32 {e.op(f'xor i32 {held}, {joined}')}, ptr {e.warp_field('held')}")
        e.do(f"store i32 {everyone}, ptr %mask")
        e.do(f"br label %together{i}")
        e.label(f"together{i}")

    # -- where lanes go

    def _park(self, target: int, mask: str | None = None) -> None:
        """Sets the program counter of the block's lanes."""
        e = self.e
        place = e.warp_field("pc")
        pcs = e.op(f"load {_PCS}, ptr {place}, align 64")
        lanes = mask or e.block_mask
        where = splat(32, target)
        new = e.op(f"select <32 x i1> {lanes}, {_PCS} {where}, {_PCS} {pcs}")
        e.do(f"store {_PCS} {new}, ptr {place}, align 64")

    def _go(self, block: Block, target: int) -> None:
        """All lanes of the block go to one place."""
        e = self.e
        if target >= len(self.flow.blocks):
            e.do("br label %leave")
            return
        others = e.op("load i32, ptr %others")
        direct = e.op(f"icmp ugt i32 {others}, {target}")
        direct = e.op(f"select i1 %backwards, i1 false, i1 {direct}")
        if target <= block.index:
            place = e.warp_field("slice")
            left = e.op(f"add i32 {e.op(f'load i32, ptr {place}')}, -1")
            e.do(f"store i32 {left}, ptr {place}")
            direct = e.op(f"and i1 {direct}, {e.op(f'icmp sgt i32 {left}, 0')}")
        self.parks += 1
        park = f"park{self.parks}"
        e.do(f"br i1 {direct}, label %b{target}, label %{park}")
        e.label(park)
        self._park(target)
        e.do("br label %dispatch")

    def _branch(self, block: Block, item: Instruction) -> None:
        e, i = self.e, block.index
        modifiers = Modifiers(item)
        modifiers.flag("uni")
        modifiers.end()
        e.begin(item)
        taken = e.mask_bits
        e.leave(block.live_out)
        if item.guard is None:
            self._go(block, block.targets[0])
            return
        all_taken = e.op(f"icmp eq i32 {taken}, {e.block_mask_bits}")
        e.do(f"br i1 {all_taken}, label %taken{i}, label %some{i}")
        e.label(f"some{i}")
        e.do(f"br i1 {e.op(f'icmp eq i32 {taken}, 0')}, label %passed{i}, label %part{i}")
        e.label(f"taken{i}")
        self._go(block, block.targets[0])
        e.label(f"passed{i}")
        self._go(block, block.targets[1])
        e.label(f"part{i}")
        self._park(block.targets[1])
        self._park(block.targets[0], e.mask)
        e.do("br label %dispatch")

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
            self._park(block.targets[-1])
        place = e.warp_field("pc")
        pcs = e.op(f"load {_PCS}, ptr {place}, align 64")
        for n, target in enumerate(block.targets[:count]):
            here = e.op(f"icmp eq {_PCS} {number}, {splat(32, n)}")
            here = e.op(f"and <32 x i1> {here}, {e.mask}")
            pcs = e.op(f"select <32 x i1> {here}, {_PCS} {splat(32, target)}, {_PCS} {pcs}")
        e.do(f"store {_PCS} {pcs}, ptr {place}, align 64")
        e.do("br label %dispatch")

    def _exit(self, block: Block, item: Instruction) -> None:
        e = self.e
        modifiers = Modifiers(item)
        modifiers.flag("uni")
        modifiers.end()
        e.begin(item)
        e.leave(block.live_out)
        e.intrinsic("treadle_ptx_exit", "void", "ptr %block", "ptr %warp", f"i32 {e.mask_bits}")
        if item.guard is None:
            e.do("br label %dispatch")
            return
        rest = e.op(f"xor i32 {e.block_mask_bits}, {e.mask_bits}")
        e.do(f"store i32 {rest}, ptr %mask")
        go = f"stay{block.index}"
        e.do(f"br i1 {e.op(f'icmp eq i32 {rest}, 0')}, label %dispatch, label %{go}")
        e.label(go)
        e.block_mask = e.op(f"bitcast i32 {rest} to <32 x i1>")
        self._go(block, block.targets[0])

    def _trap(self, block: Block, item: Instruction) -> None:
        e = self.e
        Modifiers(item).end()
        e.begin(item)
        special.fault(e, Fault.TRAP)
        e.leave(block.live_out)
        self._go(block, block.index + 1)

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
            mine = e.op(f"and <32 x i1> {predicate}, {e.block_mask}")
            votes = e.op(f"bitcast <32 x i1> {mine} to i32")
        elif how not in ("sync", "arrive"):
            raise m.fail()
        m.end()
        operands += [Immediate(0)] * (2 - len(operands))
        id, count = (e.first(operand, 32) for operand in operands)
        e.leave(block.live_out)
        self._park(block.index + 1)
        wait = 0 if how == "arrive" else 1 if aligned else 2
        e.intrinsic(
            "treadle_ptx_arrive", "void", "ptr %block", "ptr %warp", f"i32 {e.mask_bits}",
            f"i32 {item.line}", f"i32 {id}", f"i32 {count}", f"i32 {wait}", f"i32 {votes}",
        )  # fmt: skip
        e.do("br label %dispatch")


_ENDINGS = {
    "bra": _Kernel._branch, "brx": _Kernel._table_branch, "ret": _Kernel._exit,
    "exit": _Kernel._exit, "trap": _Kernel._trap,
}  # fmt: skip
