"""LLVM IR for what the work items of a warp or a workgroup do together on NVIDIA GPUs.

Barriers, values that lanes exchange, fragments and products of matrix units, and asynchronous
copies into shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtype import dtypes
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Load, Store
from ..lower.linearize import Phase
from .llvm_values import type_name
from .llvm_workgroups import SHARED
from .nvidia import BUTTERFLY, TO_TF32, WARP, WHOLE_WARP, copied, mma_text
from .ptx_warpgroups import WithWarpgroups
from .wgmma import FENCE, reads_shared
from .workgroups import WIDEST

__all__ = ["WithWarps"]


class WithWarps(WithWarpgroups):
    """A phase whose work items work together."""

    def __init__(self, name: str, phase: Phase, contract: bool) -> None:
        super().__init__(name, phase, contract)
        self.fences = reads_shared(phase.code)
        self.copied = copied(phase.code)
        self.copies: list[Node] = []  # those of the next group

    def _barrier(self, node: Node) -> None:
        if self.fences:
            self.asm(FENCE)
        self.do("llvm.nvvm.barrier0")

    def _commit(self, node: Node) -> None:
        """The asynchronous copies since the group before."""
        for copy in self.copies:
            self._copy(copy)
        self.copies = []
        self.do("llvm.nvvm.cp.async.commit.group")

    def _wait(self, node: Node) -> None:
        self.do("llvm.nvvm.cp.async.wait.group", [("i32", str(node.arg))])

    def steps(self) -> Sequence[int]:
        return BUTTERFLY

    def vote(self, condition: str, is_any: bool) -> str:
        name = f"llvm.nvvm.vote.{'any' if is_any else 'all'}.sync"
        return self.call(dtypes.bool, name, [("i32", _mask()), ("i1", condition)])

    def exchanged(self, word: str, step: int) -> str:
        operands = [("i32", _mask()), ("i32", word), ("i32", str(step)), ("i32", str(WARP - 1))]
        return self.call(dtypes.int32, "llvm.nvvm.shfl.sync.bfly.i32", operands)

    def _halves(self, node: Node) -> str:
        short = "bf16" if node.arg == "bfloat16" else "f16"
        name, kind = f"llvm.nvvm.ff2{short}x2.rn", f"<2 x {type_name(getattr(dtypes, node.arg))}>"
        self.declared[f"declare {kind} @{name}(float, float)"] = None
        low, high = (self.value(s) for s in node.src)
        pair = self.emit(f"call {kind} @{name}(float {high}, float {low})")
        return self.emit(f"bitcast {kind} {pair} to i32")

    def _fragment(self, node: Node) -> str:
        count, (memory, index) = node.dtype.count, node.src
        place = self.place_of(memory, index, memory.dtype)
        name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if node.arg else ''}.b16"
        fields, pointer = f"{{ {', '.join(['i32'] * count)} }}", self.pointer(memory)
        self.declared[f"declare {fields} @{name}.p{SHARED}({pointer})"] = None
        found = self.emit(f"call {fields} @{name}.p{SHARED}({pointer} {place})")
        return self.stacked(node.dtype, fields, found)

    def multiplied(self, node: Node, sums: str) -> str:
        if node.op is Op.WGMMA:
            return self.added_product(node, sums)
        dtype, kind = node.dtype, type_name(node.dtype.scalar)
        words = [self.value(piece) for piece in node.src]
        if node.arg == "tf32":
            words = [self._inline("i32", f"{TO_TF32} $0, $1;", "=r,r", [("i32", w)]) for w in words]
        lanes = list(self.lanes(dtype, sums))
        letter = "f" if dtype.is_float else "r"
        code = mma_text(node.arg, "$", len(words) + len(lanes))
        operands = [*(("i32", word) for word in words), *((kind, lane) for lane in lanes)]
        fields = f"{{ {', '.join([kind] * dtype.count)} }}"
        added = [letter] * len(lanes)
        constraints = ",".join([*(f"={each}" for each in added), *["r"] * len(words), *added])
        found = self._inline(fields, code, constraints, operands)
        return self.stacked(dtype, fields, found)

    def _inline(
        self, kind: str, code: str, constraints: str, operands: list[tuple[str, str]]
    ) -> str:
        """Inline PTX of all lanes together that reads and writes no memory."""
        given = ", ".join(f"{kind} {value}" for kind, value in operands)
        attributes = "convergent nounwind memory(none)"
        return self.emit(f'call {kind} asm "{code}", "{constraints}"({given}) {attributes}')

    def _copy(self, node: Node) -> None:
        """An asynchronous copy: zeros where the gate of the LOAD is false."""
        store, load = Store.of(node), Load.of(self.copied[node])
        done = self.open_if(self.value(store.gate)) if store.is_gated else None
        size = load.dtype.count * load.dtype.scalar.itemsize
        name = f"llvm.nvvm.cp.async.{'cg' if size == WIDEST else 'ca'}.shared.global.{size}"
        operands = [
            (self.pointer(access.memory), self.place_of(access.memory, access.index, load.dtype))
            for access in (store, load)
        ]
        if load.is_gated:
            held = self.emit(f"select i1 {self.value(load.gate)}, i32 {size}, i32 0")
            name, operands = f"{name}.s", [*operands, ("i32", held)]
        self.do(name, operands)
        if done is not None:
            self.close_if(done)


def _mask() -> str:
    """All lanes of a warp, as LLVM writes an i32."""
    return str(WHOLE_WARP - (1 << 32))
