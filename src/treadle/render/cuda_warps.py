"""CUDA C for what the items of a warp or a group do together.

Barriers, values that lanes exchange, fragments and products of matrix units, and asynchronous
copies into shared memory.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ..ir.node import Node
from ..lower.linearize import Phase
from .cuda_text import literal, places
from .cuda_warpgroups import WithWarpgroups
from .nvidia import BUTTERFLY, BUTTERFLY_OF_QUADS, IS_ANY, WHOLE_WARP, copied
from .wgmma import FENCE, reads_shared

__all__ = ["WithWarps"]

_FULL = f"{WHOLE_WARP:#x}u"


class WithWarps(WithWarpgroups):
    """A phase whose items work together."""

    def __init__(self, name: str, phase: Phase, variables: Sequence[str]) -> None:
        super().__init__(name, phase, variables)
        self.fences = reads_shared(phase.code)
        self.copied = copied(phase.code)
        self.copies: list[Node] = []  # those of the next group

    @abstractmethod
    def _may_be_unaligned(self, base: str) -> bool:
        """Whether vectors in this memory may be unaligned: it is an argument."""

    def _barrier(self, node: Node) -> None:
        if self.fences:
            self.line(f'asm volatile("{FENCE}" ::: "memory");')
        self.line("__syncthreads();")

    def _commit(self, node: Node) -> None:
        """The asynchronous copies since the group before, element by element if not aligned."""
        copies, self.copies = self.copies, []
        vectors = (self.copied[n] for n in copies if self.copied[n].dtype.count > 1)
        unaligned = [self._may_be_unaligned(self.memory(load.src[0])) for load in vectors]
        if any(unaligned):
            self.open("if (aligned)")
        for copy in copies:
            self._copy(copy)
        if any(unaligned):
            self.close()
            self.open("else")
            for copy in copies:
                self._copy_single(copy)
            self.close()
        self.line('asm volatile("cp.async.commit_group;" ::: "memory");')

    def _wait(self, node: Node) -> None:
        self.line(f'asm volatile("cp.async.wait_group {node.arg};" ::: "memory");')

    def _subgroup(self, node: Node) -> str:
        if not node.dtype.is_bool:
            return self._combined(node, BUTTERFLY)
        vote, (value,) = "any" if IS_ANY[node.arg] else "all", self.operands(node)
        return self.let(node.dtype, f"__{vote}_sync({_FULL}, {value})")

    def _quad(self, node: Node) -> str:
        return self._combined(node, BUTTERFLY_OF_QUADS)

    def _combined(self, node: Node, steps: Sequence[int]) -> str:
        """The values of lanes that are `steps` apart, step by step."""
        dtype, (value,) = node.dtype, self.operands(node)
        for apart in steps:
            other = self.let(dtype, f"__shfl_xor_sync({_FULL}, {value}, {apart})")
            value = self.let(dtype, self.binary(node.arg, dtype, value, other))
        return value

    def _fragment(self, node: Node) -> str:
        memory, place = node.src
        name = f"load_{node.dtype.count}_{'columns' if node.arg else 'lines'}"
        self.helpers.add(name)
        return self.let(node.dtype, f"{name}({self.memory(memory)} + {self.value(place)})")

    def _mma(self, node: Node) -> str:
        return self.let(
            node.dtype,
            self._multiplied(node, self.splat(node.dtype, literal(node.dtype.scalar, 0))),
        )

    def _multiplied(self, node: Node, sums: str) -> str:
        """The sums of a product of matrices and what is there already."""
        name = f"mma_{node.arg}"
        self.helpers.add(name)
        return f"{name}({', '.join(self.operands(node))}, {sums})"

    def _copy(self, node: Node) -> None:
        """An asynchronous copy."""
        load, gates = self.copied[node], node.src[3:]
        name = f"copy_{load.dtype.count * load.dtype.scalar.itemsize}"
        self.helpers.add(name)
        places = (f"{self.memory(n.src[0])} + {self.value(n.src[1])}" for n in (node, load))
        held = self.value(load.src[2]) if len(load.src) > 2 else "true"
        guard = f"if ({self.value(gates[0])}) " if gates else ""
        self.line(f"{guard}{name}({', '.join(places)}, {held});")

    def _copy_single(self, node: Node) -> None:
        """The same element by element, through registers."""
        load, gates, count = self.copied[node], node.src[3:], self.copied[node].dtype.count
        to, base = (
            places(self.memory(n.src[0]), self.value(n.src[1]), count) for n in (node, load)
        )
        if len(load.src) > 2:
            other = literal(load.dtype.scalar, 0)
            base = [f"{self.value(load.src[2])} ? {one} : {other}" for one in base]
        stores = " ".join(f"{a} = {b};" for a, b in zip(to, base, strict=True))
        self.line(f"if ({self.value(gates[0])}) {{ {stores} }}" if gates else stores)
