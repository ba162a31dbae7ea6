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
from ..ir.views import Load, Store, operand
from ..lower.linearize import Phase, param_bytes
from ..target import Target
from .amdgpu_units import product_of
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
# DPP: what the lanes of a row of 16 read of each other, by how far they are apart. From 4 on rows
# are read backwards, in halves or whole: where smaller steps are combined, that is the same.
_QUAD_PERM_1, _QUAD_PERM_2, _ROW_HALF_MIRROR, _ROW_MIRROR = 0xB1, 0x4E, 0x141, 0x140
_DPP = {1: _QUAD_PERM_1, 2: _QUAD_PERM_2, 4: _ROW_HALF_MIRROR, 8: _ROW_MIRROR}
_SWAP_16 = 0x401F  # of ds_swizzle: the lane whose number differs in bit 4
_IN_ORDER = ("1985229328", "-19088744")  # 0x76543210, 0xFEDCBA98: lanes of the other row
_LOCAL_ONLY = "!0"
_HALF = dtypes.float16
_OFFSETS = 1 << 32


class AMDGPURenderer:
    """Prints modules for one chip; `contract` lets multiply and add fuse."""

    name = "AMDGPU"

    def __init__(self, target: Target, contract: bool = True) -> None:
        self.target, self.contract = target, contract

    def render(self, name: str, phases: Sequence[Phase], variables: Sequence[str]) -> str:
        """A module with one kernel function a phase, called `name_0`, `name_1`, ..."""
        functions = [
            _AMDGPUFunction(f"{name}_{number}", phase, self.target, self.contract, number)
            for number, phase in enumerate(phases)
        ]
        bodies = [function.text() for function in functions]
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
        assert target.workgroup is not None
        assert target.workgroup.subgroup is not None
        self.number, (self.wave, _) = number, target.workgroup.subgroup
        accesses = [Load.of(n) for n in phase.code.src if n.op is Op.LOAD]
        accesses += [Store.of(n) for n in phase.code.src if n.op is Op.STORE]
        self.masked = {one.index for one in accesses if one.is_gated and one.gate.dtype.count > 1}
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
        """The address that an access begins at.

        An offset of 32 bits, and no sign, needs no addition: instructions take it beside the
        address of the memory. All that is accessed in so much memory has one; vectors with a mask
        of their own may begin outside.
        """
        argument = behind_after(memory)
        is_narrow = is_argument(memory) and param_bytes(argument) <= _OFFSETS
        if not is_narrow or index.dtype.bits != 32 or index in self.masked:
            return super().place_of(memory, index, dtype)
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
        if node.op is Op.CAST and node.dtype.scalar is _HALF and operand(node).op is Op.MUL:
            return self._rounded_product(node)
        if not meets_zeros(node):
            return super()._alu(node)
        first, last = (self.value(s) for s in node.src)
        return super()._extreme(node.op, node.dtype, first, last, False)

    def _rounded_product(self, node: Node) -> str:
        """A product of float32, rounded to float16.

        LLVM up to 22 makes a fused product with the sum +0 of that, and loses the sign of -0. It
        does not where something stands between, or where the factors were halves and stay so.
        """
        product = operand(node)
        factors = [operand(f) for f in product.src if f.op is Op.CAST]
        if [f.dtype for f in factors] == [node.dtype] * 2:
            a, b = map(self.value, factors)
            return self.emit(f"fmul {type_name(node.dtype)} {a}, {b}")
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
        return [1 << bit for bit in range(self.wave.bit_length() - 1)]

    def vote(self, condition: str, is_any: bool) -> str:
        """Of a mask of the lanes where the condition holds, or where it does not."""
        mask, word = getattr(dtypes, f"int{self.wave}"), f"i{self.wave}"
        asked = condition if is_any else self.emit(f"xor i1 {condition}, true")
        found = self.call(mask, f"llvm.amdgcn.ballot.{word}", [("i1", asked)])
        return self.emit(f"icmp {'ne' if is_any else 'eq'} {word} {found}, 0")

    def exchanged(self, word: str, step: int) -> str:
        if step in _DPP:
            operands = [
                ("i32", "poison"), ("i32", word), ("i32", str(_DPP[step])), ("i32", "15"),
                ("i32", "15"), ("i1", "true"),
            ]  # fmt: skip
            return self.call(dtypes.int32, "llvm.amdgcn.update.dpp.i32", operands)
        if step == 16 and self.wave == 32:
            operands = [("i32", "poison"), ("i32", word), *(("i32", n) for n in _IN_ORDER)]
            flags = [("i1", "false"), ("i1", "false")]
            return self.call(dtypes.int32, "llvm.amdgcn.permlanex16.i32", [*operands, *flags])
        if step == 16:
            operands = [("i32", word), ("i32", str(_SWAP_16))]
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
        operands = []
        for words in (node.src[: of_x.count], node.src[of_x.count :]):
            operands += [*product.before, f"{product.factor} {self._factor(words, product.factor)}"]
        kind = type_name(node.dtype)
        operands += [f"{kind} {sums}", *product.behind]
        kinds = ", ".join(operand.rpartition(" ")[0] for operand in operands)
        self.declared[f"declare {kind} @{product.function}({kinds})"] = None
        return self.emit(f"call {kind} @{product.function}({', '.join(operands)})")

    def _factor(self, words: Sequence[Node], kind: str) -> str:
        """A work item's words of a factor, as a function takes them."""
        held = dtypes.uint32.vec(len(words))
        values = [self.value(word) for word in words]
        whole = self.vector(held, values) if len(values) > 1 else values[0]
        same = type_name(held)
        return whole if kind == same else self.emit(f"bitcast {same} {whole} to {kind}")
