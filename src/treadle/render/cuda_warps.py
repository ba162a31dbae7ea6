"""CUDA C for what the work items of a warp or a workgroup do together.

Barriers, values that lanes exchange, fragments and products of matrix units, and asynchronous
copies into shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtype import DType
from ..ir.node import Node
from ..ir.views import Load, Store
from ..lower.linearize import Phase
from .cuda_warpgroups import WithWarpgroups
from .nvidia import BUTTERFLY, WHOLE_WARP, copied
from .wgmma import FENCE, reads_shared

__all__ = ["WithWarps"]

_FULL = f"{WHOLE_WARP:#x}u"


class WithWarps(WithWarpgroups):
    """A phase whose work items work together."""

    def __init__(self, name: str, phase: Phase, contract: bool) -> None:
        super().__init__(name, phase, contract)
        self.fences = reads_shared(phase.code)
        self.copied = copied(phase.code)
        self.copies: list[Node] = []  # those of the next group

    def _barrier(self, node: Node) -> None:
        if self.fences:
            self.line(f'asm volatile("{FENCE}" ::: "memory");')
        self.line("__syncthreads();")

    def _commit(self, node: Node) -> None:
        """The asynchronous copies since the group before."""
        for copy in self.copies:
            self._copy(copy)
        self.copies = []
        self.line('asm volatile("cp.async.commit_group;" ::: "memory");')

    def _wait(self, node: Node) -> None:
        self.line(f'asm volatile("cp.async.wait_group {node.arg};" ::: "memory");')

    def vote(self, condition: str, is_any: bool) -> str:
        return f"__{'any' if is_any else 'all'}_sync({_FULL}, {condition})"

    def steps(self) -> Sequence[int]:
        return BUTTERFLY

    def exchanged(self, dtype: DType, value: str, step: int) -> str:
        return f"__shfl_xor_sync({_FULL}, {value}, {step})"

    def _halves(self, node: Node) -> str:
        name = f"to_{node.arg}_pair"
        self.helpers.add(name)
        return self.let(node.dtype, f"{name}({', '.join(self.operands(node))})")

    def _fragment(self, node: Node) -> str:
        memory, place = node.src
        name = f"load_{node.dtype.count}_{'columns' if node.arg else 'lines'}"
        self.helpers.add(name)
        return self.let(node.dtype, f"{name}({self.memory(memory)} + {self.value(place)})")

    def multiplied(self, node: Node, sums: str) -> str:
        name = f"mma_{node.arg}"
        self.helpers.add(name)
        return f"{name}({', '.join(self.operands(node))}, {sums})"

    def _copy(self, node: Node) -> None:
        """An asynchronous copy."""
        store, load = Store.of(node), Load.of(self.copied[node])
        name = f"copy_{load.dtype.count * load.dtype.scalar.itemsize}"
        self.helpers.add(name)
        places = (f"{self.memory(a.memory)} + {self.value(a.index)}" for a in (store, load))
        held = self.value(load.gate) if load.is_gated else "true"
        guard = f"if ({self.value(store.gate)}) " if store.is_gated else ""
        self.line(f"{guard}{name}({', '.join(places)}, {held});")
