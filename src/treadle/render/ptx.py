"""Linear programs to LLVM IR for NVIDIA GPUs, which LLVM makes PTX of.

Each phase becomes `ptx_kernel void name(T *arg0, ..., i32 n0, ...)` with one argument for each
piece of memory that it uses, in the order of the slots, then one for each launch-time integer, as
in render/cuda.py. A slice of the grid is a block. Arguments are in global memory (address space
1), what work items share is a global of the module in shared memory (3).

Memory of somebody else's may begin anywhere, and a vector at an address that is no multiple of its
size is a fault: a kernel looks at its arguments once, and accesses them element by element where
they are not aligned.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtype import DType, dtypes
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import Load, Store, behind_broadcast
from ..lower.linearize import Phase
from ..target import Target
from .base import PhaseRenderer
from .llvm_values import mangled, memory_type, type_name
from .llvm_workgroups import GLOBAL, SHARED, is_argument
from .nvidia import UNROLLED, WARP, is_since_ampere, least_workgroups, long_updates, only_copied
from .ptx_warps import WithWarps
from .workgroups import WIDEST, alignment, is_whole, meets_zeros, most_aligned

__all__ = ["PTXRenderer"]

TENSOR_MAP_BYTES = 128
MOST_HINTS = 1 << 12  # numbers of metadata for the loops of one function
_MOST_BLOCKS = 0x7FFFFFFF  # along x
# What truncates and saturates, by the types of float and integer.
_TO_INTEGER = {
    ("float32", "int32"): "f2i", ("float32", "int64"): "f2ll",
    ("float64", "int32"): "d2i", ("float64", "int64"): "d2ll",
}  # fmt: skip


class PTXRenderer(PhaseRenderer["_PTXFunction"]):
    """Prints modules for one device; `contract` lets multiply and add fuse."""

    name = "PTX"

    def function(self, name: str, phase: Phase, number: int) -> _PTXFunction:
        return _PTXFunction(name, phase, self.target, self.contract, number)

    def module(self, functions: Sequence[_PTXFunction], bodies: Sequence[str]) -> str:
        lines = [f'target triple = "{self.target.triple}"', ""]
        lines += [line for function in functions for line in function.top]
        declared = {line for function in functions for line in function.declared}
        lines += [*bodies, *sorted(declared), *_annotations(functions)]
        lines += [line for function in functions for line in function.hints]
        return "\n".join(lines) + "\n"


class _PTXFunction(WithWarps):
    def __init__(
        self, name: str, phase: Phase, target: Target, contract: bool, number: int
    ) -> None:
        super().__init__(name, phase, contract)
        self.has_nan_extremes = is_since_ampere(target)
        self.aligned = phase.aligned
        self.in_vectors: set[str] = set()  # the other arguments that are accessed so
        self.unprinted |= only_copied(phase.code, self.copied)
        self.first_hint = (number + 1) * MOST_HINTS  # behind the numbers of annotations
        self.hints: list[str] = []
        self.unrolled = long_updates(phase.program)
        self.maps_from = 0  # the first of the arguments that are tensor maps
        if phase.asked:
            aligned = f"align {most_aligned(self.places)}"
            kind = f"external addrspace({SHARED}) global [0 x i8]"
            self.top.append(f"@{name}_shared = {kind}, {aligned}")

    def header(self) -> str:
        arguments = self.arguments()
        self.maps_from = len(arguments)
        arguments += [
            f"ptr byval([{TENSOR_MAP_BYTES} x i8]) align 64 %map{number}"
            for number in range(len(self.boxes))
        ]
        return f"define ptx_kernel void @{self.name}({', '.join(arguments)}) {{"

    def finish(self) -> None:
        if not self.in_vectors:
            return
        total = "0"
        for number, name in enumerate(sorted(self.in_vectors)):
            self.entry.append(f"  %at{number} = ptrtoint ptr addrspace({GLOBAL}) {name} to i64")
            self.entry.append(f"  %all{number} = or i64 {total}, %at{number}")
            total = f"%all{number}"
        self.entry.append(f"  %rest = and i64 {total}, {WIDEST - 1}")
        self.entry.append("  %aligned = icmp eq i64 %rest, 0")

    def loop_hint(self, loop: Node) -> str:
        if loop not in self.unrolled:
            return ""
        mine, count = self.first_hint + len(self.hints), self.first_hint + len(self.hints) + 1
        self.hints += [
            f"!{mine} = distinct !{{!{mine}, !{count}}}",
            f'!{count} = !{{!"llvm.loop.unroll.count", i32 {UNROLLED}}}',
        ]
        return f", !llvm.loop !{mine}"

    # -- the grid -------------------------------------------------------------------------------

    def workgroup(self) -> str:
        return self._register_of("ctaid.x", _MOST_BLOCKS)

    def work_item(self) -> str:
        return self._register_of("tid.x", self.phase.launched)

    def _register_of(self, name: str, count: int) -> str:
        return self.special(name, f"llvm.nvvm.read.ptx.sreg.{name}", count)

    def lane(self) -> str:
        return self.emit(f"and i32 {self.work_item()}, {WARP - 1}")

    # -- arithmetic -----------------------------------------------------------------------------

    def _extreme(self, op: Op, dtype: DType, a: str, b: str, b_is_number: bool) -> str:
        if dtype.scalar is not dtypes.float32 or not self.has_nan_extremes:
            return super()._extreme(op, dtype, a, b, b_is_number)
        name = "maximum" if op is Op.MAX else "minimum"
        kind = type_name(dtype)
        return self.call(dtype, f"llvm.{name}.{mangled(dtype)}", [(kind, a), (kind, b)])

    def _extreme_of_zeros(self, node: Node, operands: Sequence[str]) -> str:
        """The larger or smaller, the first of two zeros.

        Lane by lane: of a vector that is rounded to bfloat16 LLVM would choose among packed pairs,
        and the assembler packs sums of warpgroups before it has waited for them.
        """
        _, last = node.src
        is_number = behind_broadcast(last).op is Op.CONST
        kind, one, result = type_name(node.dtype), type_name(node.dtype.scalar), "poison"
        if node.dtype.count == 1:
            return super()._extreme(node.op, node.dtype, operands[0], operands[1], is_number)
        for lane in range(node.dtype.count):
            a, b = (self.emit(f"extractelement {kind} {o}, i64 {lane}") for o in operands)
            best = super()._extreme(node.op, node.dtype.scalar, a, b, is_number)
            result = self.emit(f"insertelement {kind} {result}, {one} {best}, i64 {lane}")
        return result

    # -- memory ---------------------------------------------------------------------------------

    def address(self, node: Node) -> str:
        if node.op is Op.PARAM or not self.phase.asked:
            return super().address(node)
        whole = f"@{self.name}_shared"
        return f"getelementptr (i8, ptr addrspace({SHARED}) {whole}, i64 {self.places[node]})"

    def raw_load(self, load: Load, place: str, align: int) -> str:
        memory, dtype = behind_after(load.memory), load.dtype
        if memory.op is not Op.PARAM or memory in self.aligned:
            # Neighbours become one access where LLVM knows this.
            known = alignment(load.index, dtype.scalar.itemsize)
            return super().raw_load(load, place, known)
        if not is_whole(load.index, dtype):
            return super().raw_load(load, place, align)
        whole = dtype.count * dtype.scalar.itemsize
        aligned, unaligned, done = self._by_alignment(memory)
        self.start_block(aligned)
        fast = super().raw_load(load, place, whole)
        self.lines.append(f"  br label %{done}")
        self.start_block(unaligned)
        slow = self._single_loads(load, place)
        self.lines.append(f"  br label %{done}")
        self.start_block(done)
        kind = memory_type(dtype)
        return self.emit(f"phi {kind} [ {fast}, %{aligned} ], [ {slow}, %{unaligned} ]")

    def _single_loads(self, load: Load, place: str) -> str:
        """A vector put together from its elements: LLVM would make one of two whole loads."""
        memory, dtype = load.memory, load.dtype
        one, total = memory_type(dtype.scalar), "poison"
        for number in range(dtype.count):
            base = f"{self.pointer(memory)} {place}"
            at = self.emit(f"getelementptr {one}, {base}, i64 {number}", "p")
            lane = self.emit(f"load {one}, {self.pointer(memory)} {at}")
            part = f"{one} {lane}, i64 {number}"
            total = self.emit(f"insertelement {memory_type(dtype)} {total}, {part}")
        return total

    def raw_store(self, store: Store, stored: str, place: str, align: int) -> None:
        dtype = store.value.dtype
        if not is_argument(store.memory):
            super().raw_store(store, stored, place, alignment(store.index, dtype.scalar.itemsize))
            return
        if not is_whole(store.index, dtype):
            super().raw_store(store, stored, place, align)
            return
        whole = dtype.count * dtype.scalar.itemsize
        aligned, unaligned, done = self._by_alignment(store.memory)
        for label, known in ((aligned, whole), (unaligned, align)):
            self.start_block(label)
            super().raw_store(store, stored, place, known)
            self.lines.append(f"  br label %{done}")
        self.start_block(done)

    def _store(self, node: Node) -> None:
        if node in self.copied:
            self.copies.append(node)
        elif (store := Store.of(node)).value.op is Op.BOX:
            self._copy_box(store)
        else:
            super()._store(node)

    def _by_alignment(self, memory: Node) -> tuple[str, str, str]:
        """Branch on whether arguments are aligned: the labels of both ways and of what follows."""
        self.in_vectors.add(self.memory(memory))
        label = self.label("whole")
        names = label, f"{label}.single", f"{label}.done"
        self.lines.append(f"  br i1 %aligned, label %{names[0]}, label %{names[1]}")
        return names

    # -- casts and functions ----------------------------------------------------------------------

    def _quick_exp2(self, node: Node) -> str:
        (exponent,) = node.src
        return self.call(
            node.dtype, "llvm.nvvm.ex2.approx.ftz.f", [("float", self.value(exponent))]
        )

    def _alu(self, node: Node) -> str:
        if meets_zeros(node):
            return self._extreme_of_zeros(node, [self.value(s) for s in node.src])
        return super()._alu(node)

    def to_integer(self, source: DType, target: DType, value: str) -> str:
        if source.count == 1:
            return self._lane_to_integer(source, target, value)
        whole, lanes = (source.scalar, target.scalar), self.lanes(source, value)
        return self.vector(target, [self._lane_to_integer(*whole, lane) for lane in lanes])

    def _lane_to_integer(self, source: DType, target: DType, value: str) -> str:
        have, want = type_name(source), type_name(target)
        name = f"llvm.nvvm.{_TO_INTEGER[source.name, target.name]}.rz"
        found = self.call(target, name, [(have, value)])
        is_nan = self.emit(f"fcmp uno {have} {value}, {value}")
        return self.emit(f"select i1 {is_nan}, {want} 0, {want} {found}")


def _annotations(functions: Sequence[_PTXFunction]) -> list[str]:
    """What LLVM is told of kernels: how many work items and workgroups run, what nobody changes."""
    notes: list[str] = []
    lists = [function for function in functions if function.boxes]
    for function in functions:
        notes.append(f'ptr @{function.name}, !"maxntidx", i32 {function.phase.launched}')
        least = least_workgroups(function.phase)
        if least is not None:
            notes.append(f'ptr @{function.name}, !"minctasm", i32 {least}')
        if function.boxes:
            notes.append(f'ptr @{function.name}, !"grid_constant", !{lists.index(function)}')
    constants = []
    for function in lists:  # they are counted from 1
        arguments = range(function.maps_from + 1, function.maps_from + 1 + len(function.boxes))
        constants.append(", ".join(f"i32 {number}" for number in arguments))
    nodes = [f"!{number} = !{{{note}}}" for number, note in enumerate((*constants, *notes))]
    numbers = ", ".join(f"!{number}" for number in range(len(lists), len(nodes)))
    return [f"!nvvm.annotations = !{{{numbers}}}", *nodes]
