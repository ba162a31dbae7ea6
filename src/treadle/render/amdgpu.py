"""Linear programs to LLVM IR for AMD GPUs, which LLVM makes machine code of.

Each phase becomes `amdgpu_kernel void name(ptr arg0, ..., i32 n0, ...)`, as render/llvm_workgroups
says; LLVM reads the arguments from the kernarg segment, in this order and aligned to their sizes.
Registers of the program are in private memory (address space 5) until LLVM promotes them.

Memory may begin anywhere: the hardware loads vectors from any address, as its drivers set it up.
Three surprises: without the attributes that say what a kernel does not use it is given more scalar
registers at its start; fences that guard shared memory say so, since otherwise a barrier waits for
stores to global memory as well; and what is not known here, such as inline assembly, ends the
process instead of an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtype import DType, dtypes
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import Load, Store, factors_of, operand
from ..lower.linearize import Phase
from ..target import Target
from .amd import (
    ALL_ROWS,
    DPP,
    LANES_OF_OTHER_ROW,
    SWAP_16,
    factors_of_halves,
    has_narrow_offset,
    is_rounded_product,
    masked_indices,
    steps_of,
    wave_of,
)
from .amdgpu_units import product_of
from .base import PhaseRenderer
from .llvm_values import mangled, type_name
from .llvm_workgroups import WorkgroupFunction, is_argument
from .workgroups import alignment, meets_zeros

__all__ = ["AMDGPURenderer"]

_PRIVATE = 5  # the address space of allocas
_ALL = 0xFFFFFFFF  # workgroups along x, and one more
# What a kernel could ask for at its start, and does not.
_UNUSED = (
    "workgroup-id-y", "workgroup-id-z", "workitem-id-y", "workitem-id-z", "dispatch-ptr",
    "dispatch-id", "queue-ptr", "implicitarg-ptr", "hostcall-ptr", "heap-ptr", "default-queue",
    "completion-action", "multigrid-sync-arg", "lds-kernel-id", "flat-scratch-init",
)  # fmt: skip
_LOCAL_ONLY = "!0"


class AMDGPURenderer(PhaseRenderer["_AMDGPUFunction"]):
    """Prints modules for one chip; `contract` lets multiply and add fuse."""

    name = "AMDGPU"

    def function(self, name: str, phase: Phase, number: int) -> _AMDGPUFunction:
        return _AMDGPUFunction(name, phase, self.target, self.contract, number)

    def module(self, functions: Sequence[_AMDGPUFunction], bodies: Sequence[str]) -> str:
        lines = [f'target triple = "{self.target.triple}"', ""]
        lines += [line for function in functions for line in function.top]
        declared = {line for function in functions for line in function.declared}
        lines += [*bodies, *sorted(declared), *(f.attributes() for f in functions)]
        lines += [f'{_LOCAL_ONLY} = !{{!"amdgpu-synchronize-as", !"local"}}']
        lines += [f"!{f.number + 1} = !{{i32 {f.phase.launched}, i32 1, i32 1}}" for f in functions]
        return "\n".join(lines) + "\n"


class _AMDGPUFunction(WorkgroupFunction):
    stack = _PRIVATE

    def __init__(
        self, name: str, phase: Phase, target: Target, contract: bool, number: int
    ) -> None:
        super().__init__(name, phase, contract)
        self.number, self.wave = number, wave_of(target)
        self.masked = masked_indices(phase)
        self.units = {unit.name: unit for unit in (*target.matrix_units, *target.rounding_units)}

    def header(self) -> str:
        end = f"#{self.number} !reqd_work_group_size !{self.number + 1} {{"
        return f"define amdgpu_kernel void @{self.name}({', '.join(self.arguments())}) {end}"

    def attributes(self) -> str:
        """What LLVM is told of the kernel: its work items, and what it does not ask for."""
        launched = self.phase.launched
        unused = " ".join(f'"amdgpu-no-{name}"' for name in _UNUSED)
        return (
            f'attributes #{self.number} = {{ nounwind "uniform-work-group-size"="true" '
            f'"amdgpu-flat-work-group-size"="{launched},{launched}" {unused} }}'
        )

    # -- the grid -------------------------------------------------------------------------------

    def workgroup(self) -> str:
        return self.special("workgroup.x", "llvm.amdgcn.workgroup.id.x", _ALL)

    def work_item(self) -> str:
        return self.special("workitem.x", "llvm.amdgcn.workitem.id.x", self.phase.launched)

    def lane(self) -> str:
        return self.emit(f"and i32 {self.work_item()}, {self.wave - 1}")

    # -- memory ---------------------------------------------------------------------------------

    def place_of(self, memory: Node, index: Node, dtype: DType) -> str:
        if not has_narrow_offset(memory, index, self.masked):
            return super().place_of(memory, index, dtype)
        argument = behind_after(memory)
        size = f"i32 {self.value(index)}, {argument.dtype.itemsize}"
        offset = self.emit(f"zext i32 {self.emit(f'mul nuw {size}')} to i64")
        base = f"{self.pointer(memory)} {self.memory(memory)}"
        return self.emit(f"getelementptr i8, {base}, i64 {offset}", "p")

    def raw_load(self, load: Load, place: str, align: int) -> str:
        return super().raw_load(load, place, self._known(load.memory, load.index, align))

    def raw_store(self, store: Store, stored: str, place: str, align: int) -> None:
        super().raw_store(store, stored, place, self._known(store.memory, store.index, align))

    def _known(self, memory: Node, index: Node, align: int) -> int:
        """What the address of an access is known to be a multiple of."""
        if is_argument(memory):
            return align
        return min(alignment(index, align), behind_after(memory).arg.alignment)

    # -- arithmetic -----------------------------------------------------------------------------

    def _alu(self, node: Node) -> str:
        if is_rounded_product(node):
            return self._rounded_product(node)
        if halves := factors_of_halves(node):
            a, b = map(self.value, halves)
            return self.emit(f"fmul {type_name(node.dtype)} {a}, {b}")
        if not meets_zeros(node):
            return super()._alu(node)
        first, last = (self.value(s) for s in node.src)
        return super()._extreme(node.op, node.dtype, first, last, False)

    def _rounded_product(self, node: Node) -> str:
        product = operand(node)
        kind = type_name(product.dtype)
        name = f"llvm.canonicalize.{mangled(product.dtype)}"
        value = self.call(product.dtype, name, [(kind, self.value(product))])
        return self.emit(f"fptrunc {kind} {value} to {type_name(node.dtype)}")

    def _extreme(self, op: Op, dtype: DType, a: str, b: str, b_is_number: bool) -> str:
        if not dtype.is_float:
            return super()._extreme(op, dtype, a, b, b_is_number)
        name = "maximum" if op is Op.MAX else "minimum"
        kind = type_name(dtype)
        return self.call(dtype, f"llvm.{name}.{mangled(dtype)}", [(kind, a), (kind, b)])

    def to_integer(self, source: DType, target: DType, value: str) -> str:
        name = f"llvm.fptosi.sat.{mangled(target)}.{mangled(source)}"
        return self.call(target, name, [(type_name(source), value)])

    def _quick_exp2(self, node: Node) -> str:
        exponent = ("float", self.value(operand(node)))
        return self.call(node.dtype, "llvm.amdgcn.exp2.f32", [exponent])

    def _halves(self, node: Node) -> str:
        pair = getattr(dtypes, node.arg).vec(2)
        one = type_name(pair.scalar)
        halves = [self.emit(f"fptrunc float {self.value(s)} to {one}") for s in node.src]
        return self.emit(f"bitcast {type_name(pair)} {self.vector(pair, halves)} to i32")

    # -- work items together --------------------------------------------------------------------

    def _barrier(self, node: Node) -> None:
        for order in ("release", "acquire"):
            if order == "acquire":
                self.do("llvm.amdgcn.s.barrier")
            self.lines.append(f'  fence syncscope("workgroup") {order}, !mmra {_LOCAL_ONLY}')

    def steps(self) -> Sequence[int]:
        return steps_of(self.wave)

    def vote(self, condition: str, is_any: bool) -> str:
        """Of a mask of the lanes where the condition holds, or where it does not."""
        mask, word = getattr(dtypes, f"int{self.wave}"), f"i{self.wave}"
        asked = condition if is_any else self.emit(f"xor i1 {condition}, true")
        found = self.call(mask, f"llvm.amdgcn.ballot.{word}", [("i1", asked)])
        return self.emit(f"icmp {'ne' if is_any else 'eq'} {word} {found}, 0")

    def exchanged(self, word: str, step: int) -> str:
        if step in DPP:
            numbers = (("i32", str(n)) for n in (DPP[step], ALL_ROWS, ALL_ROWS))
            operands = [("i32", "poison"), ("i32", word), *numbers, ("i1", "true")]
            return self.call(dtypes.int32, "llvm.amdgcn.update.dpp.i32", operands)
        if step == 16 and self.wave == 32:
            numbers = (("i32", str(n)) for n in LANES_OF_OTHER_ROW)
            operands = [("i32", "poison"), ("i32", word), *numbers, *[("i1", "false")] * 2]
            return self.call(dtypes.int32, "llvm.amdgcn.permlanex16.i32", operands)
        if step == 16:
            operands = [("i32", word), ("i32", str(SWAP_16))]
            return self.call(dtypes.int32, "llvm.amdgcn.ds.swizzle", operands)
        other = self.emit(f"xor i32 {self.lane()}, {step}")
        place = self.emit(f"shl i32 {other}, 2")
        return self.call(dtypes.int32, "llvm.amdgcn.ds.bpermute", [("i32", place), ("i32", word)])

    def _fragment(self, node: Node) -> str:
        """Words of shared memory that a work item reads for itself."""
        memory, index = node.src
        place, kind = self.place_of(memory, index, memory.dtype), type_name(node.dtype)
        at = f"{self.pointer(memory)} {place}"
        return self.emit(f"load {kind}, {at}, align {node.dtype.itemsize}")

    def multiplied(self, node: Node, sums: str) -> str:
        unit = self.units[node.arg]
        product, (of_x, _, _) = product_of(unit), unit.held
        factor = type_name(product.factor)
        operands = []
        for words in factors_of(node, of_x.count):
            operands += [*product.before, f"{factor} {self._factor(words, product.factor)}"]
        kind = type_name(node.dtype)
        operands += [f"{kind} {sums}", *product.behind]
        kinds = ", ".join(operand.rpartition(" ")[0] for operand in operands)
        self.declared[f"declare {kind} @{product.function}({kinds})"] = None
        return self.emit(f"call {kind} @{product.function}({', '.join(operands)})")

    def _factor(self, words: Sequence[Node], dtype: DType) -> str:
        """A work item's words of a factor, as a function takes them."""
        held = dtypes.uint32.vec(len(words))
        values = [self.value(word) for word in words]
        whole = self.vector(held, values) if len(values) > 1 else values[0]
        same, kind = type_name(held), type_name(dtype)
        return whole if kind == same else self.emit(f"bitcast {same} {whole} to {kind}")
