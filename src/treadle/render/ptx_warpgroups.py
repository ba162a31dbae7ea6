"""LLVM IR for units of warpgroups: inline assembly, since LLVM has no intrinsics for most of it.

A producer's program stands before that of the work items, behind a branch that one work item of one
more warpgroup takes and that the whole warpgroup returns from.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ..dtype import DType, dtypes
from ..ir.args import MatrixLayout
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import After, Box, Store
from ..lower.linearize import Phase
from . import mbarrier
from .llvm_values import type_name, zero
from .llvm_workgroups import SHARED, WorkgroupFunction
from .wgmma import (
    ADDRESS_BITS,
    DONE,
    UNIT,
    descriptor_fields,
    halves,
    instructions,
    is_left,
    keep,
    moved_registers,
    sources,
)

__all__ = ["WithWarpgroups"]


class WithWarpgroups(WorkgroupFunction):
    """A phase that may have WGMMAs, and a producer."""

    def __init__(self, name: str, phase: Phase, contract: bool) -> None:
        super().__init__(name, phase, contract)
        self.boxes = phase.boxes

    @abstractmethod
    def _barrier(self, node: Node) -> None:
        """All work items of the workgroup meet."""

    def text(self) -> str:
        """The whole function."""
        self.begin()
        return super().text()

    def begin(self) -> None:
        """Set up what a producer and the work items meet at, and print its program."""
        producer = self.phase.producer
        if producer is None:
            return
        work_item = self.work_item()
        done = self.open_if(self.emit(f"icmp eq i32 {work_item}, 0"))
        for barriers in mbarrier.mbarriers_of(self.phase.code):
            for number, arrivals in enumerate(barriers.arg.arrivals):
                at = self._shared_word(barriers, Node.const(dtypes.int32, number))
                self.asm(mbarrier.init("$"), at, f"i32 {arrivals}")
        self.asm(mbarrier.READY)
        self.close_if(done)
        self._barrier(producer)
        moved = moved_registers(self.phase)
        consumers = self.open_if(self.emit(f"icmp uge i32 {work_item}, {self.phase.work_items}"))
        if moved is not None:
            self.asm(keep(moved[0], "dec"))
        done = self.open_if(self.emit(f"icmp eq i32 {work_item}, {self.phase.work_items}"))
        for node in producer.src:
            self.node(node)
        self.close_if(done)
        self.lines.append("  ret void")
        self.start_block(consumers)
        if moved is not None:
            self.asm(keep(moved[1], "inc"))
        # What was named in there is not known outside.
        self.names = {n: name for n, name in self.names.items() if n.op in (Op.PARAM, Op.LOCAL)}

    def asm(self, text: str, *operands: str) -> None:
        """Inline assembly that is for its effects."""
        constraints = ",".join((*_kinds(operands), "~{memory}"))
        given = ", ".join(operands)
        self.lines.append(
            f'  call void asm sideeffect "{text}", "{constraints}"({given}) convergent'
        )

    def _shared_word(self, memory: Node, index: Node) -> str:
        """An address in shared memory, as an operand of 32 bits."""
        at = self.place_of(memory, index, memory.dtype)
        return f"i32 {self.emit(f'ptrtoint ptr addrspace({SHARED}) {at} to i32')}"

    def _await(self, node: Node) -> None:
        barriers, slot, parity = node.src
        at = self._shared_word(barriers, slot)
        self.asm(mbarrier.await_phase("$"), at, f"{type_name(parity.dtype)} {self.value(parity)}")

    def _expect(self, node: Node) -> None:
        self.asm(mbarrier.expect("$"), self._shared_word(*node.src), f"i32 {node.arg}")

    def _box(self, node: Node) -> None:
        """Printed where it is stored."""

    def _copy_box(self, store: Store) -> None:
        box = Box.of(store.value)
        number = self.boxes.index((behind_after(box.memory), box.arg))
        self.asm(
            mbarrier.copy_box("$", len(box.place)), self._shared_word(store.memory, store.index),
            f"ptr %map{number}", self._shared_word(*box.mbarrier),
            *(f"i32 {self.value(axis)}" for axis in box.place),
        )  # fmt: skip

    def _wgmma(self, node: Node) -> str:
        return self.added_product(node, zero(node.dtype))

    def added_product(self, node: Node, sums: str) -> str:
        """A product of units of warpgroups, added to sums that are there already."""
        of_x, of_y, arrival = sources(node)
        text = " ".join(instructions(node, "$", 2 * node.dtype.count))
        y, layout = self._at(*of_y), node.arg.y
        if node.arg.words:
            words = [f"i32 {self.value(word)}" for word in of_x]
            return self._on_sums(
                node.dtype, sums, text, [*words, f"i64 {self._descriptor(y, layout)}"]
            )
        memory, *places = of_x
        if node.arg.x is not None:
            x = self._descriptor(self._at(memory, places[0]), node.arg.x)
            factors = [f"i64 {x}", f"i64 {self._descriptor(y, layout)}"]
            sums = self._on_sums(node.dtype, sums, text, factors)
            self._arrive(arrival)
            return sums
        whole = self._descriptor(y, layout)
        for half, turn in halves(node):
            words = [word for place in half for word in self._pair(memory, place)]
            part = self.emit(f"add i64 {whole}, {turn * layout.advance // UNIT}")
            sums = self._on_sums(node.dtype, sums, text, [*words, f"i64 {part}"])
            if turn == 0:
                self._arrive(arrival)
        return sums

    def _at(self, memory: Node, index: Node) -> str:
        return self.place_of(memory, index, memory.dtype)

    def _pair(self, memory: Node, index: Node) -> list[str]:
        """Two neighbouring words of shared memory, as operands."""
        at = self._at(memory, index)
        both = self.emit(f"load <2 x i32>, ptr addrspace({SHARED}) {at}, align 8")
        return [f"i32 {self.emit(f'extractelement <2 x i32> {both}, i64 {n}')}" for n in range(2)]

    def _arrive(self, arrival: Sequence[Node]) -> None:
        if arrival:
            *place, is_read = arrival
            word = self.emit(f"zext i1 {self.value(is_read)} to i32")
            self.asm(mbarrier.arrive("$", "%"), self._shared_word(*place), f"i32 {word}")

    def _after(self, node: Node) -> str:
        is_awaited = After.of(node).value.op is Op.REGISTER and is_left(node)
        if is_awaited:
            self.asm(DONE)
        sums = super()._after(node)
        return self._on_sums(node.dtype, sums, "", []) if is_awaited else sums

    def _on_sums(self, dtype: DType, sums: str, text: str, factors: Sequence[str]) -> str:
        """Inline assembly that takes sums and gives them back; behind those it has `factors`."""
        one, count = type_name(dtype.scalar), dtype.count
        operands = [*(f"{one} {lane}" for lane in self.lanes(dtype, sums)), *factors]
        ties = [str(n) for n in range(count)]
        register = "=f" if dtype.is_float else "=r"
        constraints = [*[register] * count, *ties, *_kinds(factors), "~{memory}"]
        fields = f"{{ {', '.join([one] * count)} }}"
        found = self.emit(
            f'call {fields} asm sideeffect "{text}", "{",".join(constraints)}"'
            f"({', '.join(operands)}) convergent"
        )
        return self.stacked(dtype, fields, found)

    def _descriptor(self, at: str, layout: MatrixLayout) -> str:
        """What names a matrix in shared memory."""
        address = self.emit(f"ptrtoint ptr addrspace({SHARED}) {at} to i64")
        units = self.emit(f"and i64 {self.emit(f'udiv i64 {address}, {UNIT}')}, {ADDRESS_BITS}")
        return self.emit(f"or i64 {units}, {descriptor_fields(layout)}")

    def stacked(self, dtype: DType, fields: str, found: str) -> str:
        """The fields of a structure as the lanes of a vector."""
        each = range(dtype.count)
        return self.vector(dtype, (self.emit(f"extractvalue {fields} {found}, {n}") for n in each))


def _kinds(operands: Sequence[str]) -> list[str]:
    """The constraints of operands: words of 64 or 32 bits."""
    return ["l" if operand.startswith(("ptr", "i64")) else "r" for operand in operands]
