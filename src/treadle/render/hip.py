"""Linear programs to HIP for AMD's GPUs, which clang compiles.

Each phase becomes `extern "C" void name(T *arg0, ..., int n0, ...)` with the attributes of a
kernel, as render/clike_workgroups says. No header is included: what HIP's headers name are
attributes and built-in functions of clang's.

Two surprises: clang 15 takes the hardware's instruction for a square root, which is not rounded
correctly, so that comes from AMD's device libraries; and an access of memory of at most 4 GiB has
an offset in bytes, of 32 bits, which needs no addition to the address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from ..dtype import DType, dtypes
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import factors_of, operand
from ..lower.linearize import Phase
from ..target import MatrixUnit, Target
from .amd import (
    ALL_ROWS,
    DPP,
    LANES_OF_OTHER_ROW,
    SWAP_16,
    has_narrow_offset,
    is_rounded_product,
    masked_indices,
    steps_of,
    wave_of,
)
from .amdgpu_units import product_of
from .base import PhaseRenderer
from .clang_vectors import SCALARS, ClangFunction, declarations
from .clike_workgroups import WorkgroupFunction, scalar_operation

__all__ = ["HIPRenderer"]

_ON_DEVICE = "__attribute__((device))"
_INLINE = f"static inline {_ON_DEVICE}"
_OF_OTHER_ROW = ", ".join(("word", "word", *map(str, LANES_OF_OTHER_ROW)))
_NOT_EQUAL = 33  # as LLVM numbers comparisons
_TYPES_IN_NAME = re.compile(r"(\.v\d+[if]\d+)+$")
# Fences that guard shared memory say so where clang knows how to: others wait for stores to global
# memory as well, which nothing reads inside of a phase.
_FENCE = """\
#if __clang_major__ >= 20
#define FENCE(order) __builtin_amdgcn_fence(order, "workgroup", "local")
#else
#define FENCE(order) __builtin_amdgcn_fence(order, "workgroup")
#endif"""

# clang 15 moves permlanex16 into branches, where not all lanes take part. What has effects stays.
_OTHER_ROW = f"""\
{_INLINE} int other_row(int word) {{
  int other = __builtin_amdgcn_permlanex16({_OF_OTHER_ROW}, false, false);
  asm volatile("" : "+v"(other));
  return other;
}}"""

# clang 15 has no name for the instruction.
_QUICK_EXP2 = f"""\
#if __has_builtin(__builtin_amdgcn_exp2f)
#define quick_exp2 __builtin_amdgcn_exp2f
#else
extern "C" {_ON_DEVICE} float __ocml_exp2_f32(float);
#define quick_exp2 __ocml_exp2_f32
#endif"""

# The bits of a float32 that is rounded to 16 bits. clang 15 cannot convert to bfloat16.
_HALF = {
    "float16": f"""\
{_INLINE} unsigned short half(float x) {{
  return __builtin_bit_cast(unsigned short, (_Float16)x);
}}""",
    "bfloat16": f"""\
{_INLINE} unsigned short half(float x) {{
  unsigned bits = __builtin_bit_cast(unsigned, x);
  return x == x ? (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16 : 0x7FC0u;
}}""",
}


class HIPRenderer(PhaseRenderer["_HIPFunction"]):
    """Prints programs for one chip; `contract` lets multiply and add fuse."""

    name = "HIP"

    def function(self, name: str, phase: Phase, number: int) -> _HIPFunction:
        return _HIPFunction(name, phase, self.target, self.contract)

    def module(self, functions: Sequence[_HIPFunction], bodies: Sequence[str]) -> str:
        return "\n".join([*declarations(functions), *bodies])


class _HIPFunction(WorkgroupFunction, ClangFunction):
    language = "HIP"
    scalars: ClassVar[dict[str, str]] = SCALARS | {"bfloat16": "__bf16"}
    inline = _INLINE

    def __init__(self, name: str, phase: Phase, target: Target, contract: bool) -> None:
        super().__init__(name, phase, contract)
        self.target, self.wave = target, wave_of(target)
        self.masked = masked_indices(phase)
        self.units = {unit.name: unit for unit in (*target.matrix_units, *target.rounding_units)}

    def header(self) -> list[str]:
        launched = self.phase.launched
        attributes = f"global, amdgpu_flat_work_group_size({launched}, {launched})"
        return [
            f'extern "C" __attribute__(({attributes}))',
            f"void {self.name}({', '.join(self.arguments(self.scalars))}) {{",
        ]

    def declare_memory(self, node: Node) -> tuple[str, list[str]]:
        if node.op is Op.PARAM:
            return f"arg{node.arg.slot}", []
        name, kind = f"local{node.arg.number}", self.scalars[node.dtype.name]
        attributes = f"__attribute__((shared, aligned({node.arg.alignment})))"
        return name, [f"  {attributes} {kind} {name}[{node.arg.size}];"]

    # -- the grid -------------------------------------------------------------------------------

    def grid_step(self) -> str:
        return "__builtin_amdgcn_workgroup_id_x()"

    def work_item(self, name: str) -> str:
        number = "__builtin_amdgcn_workitem_id_x()"
        return f"({number} & {self.wave - 1})" if name == "lane" else number

    # -- memory ---------------------------------------------------------------------------------

    def place(self, memory: Node, index: Node) -> str:
        if not has_narrow_offset(memory, index, self.masked):
            return super().place(memory, index)
        argument = behind_after(memory)
        access = "" if argument in self.written else "const "
        offset = f"(unsigned){self.value(index)} * {argument.dtype.itemsize}"
        at = f"(({access}char *){self.memory(memory)} + ({offset}))"
        return f"(({access}{self.scalars[argument.dtype.name]} *){at})"

    # -- arithmetic -----------------------------------------------------------------------------

    def _alu(self, node: Node) -> str:
        if not is_rounded_product(node):
            return super()._alu(node)
        product = operand(node)
        apart = self.lane_by_lane("__builtin_canonicalizef", product.dtype, self.value(product))
        return self.cast(product.dtype, node.dtype, apart)

    def function(self, op: Op, dtype: DType) -> str:
        if op is not Op.SQRT:
            return super().function(op, dtype)
        name, kind = f"__ocml_sqrt_f{dtype.bits}", self.scalars[dtype.name]
        self.helpers.add(f'extern "C" {_ON_DEVICE} {kind} {name}({kind});')
        return name

    def binary(self, op: Op, dtype: DType, a: str, b: str) -> str:
        if dtype.count > 1 or op in (Op.MAX, Op.MIN):
            return super().binary(op, dtype, a, b)
        return scalar_operation(op, dtype, a, b, self.scalars)

    def negate(self, dtype: DType, value: str) -> str:
        if dtype.is_float or dtype.count > 1:
            return super().negate(dtype, value)
        return f"(({self.type(dtype)})(-({self.scalars[f'uint{dtype.bits}']}){value}))"

    def _quick_exp2(self, node: Node) -> str:
        self.helpers.add(_QUICK_EXP2)
        return self.let(node.dtype, f"quick_exp2({self.value(operand(node))})")

    def _halves(self, node: Node) -> str:
        self.helpers.add(_HALF[node.arg])
        low, high = (f"(unsigned)half({value})" for value in self.operands(node))
        return self.let(node.dtype, f"{low} | {high} << 16")

    # -- work items together --------------------------------------------------------------------

    def _barrier(self, node: Node) -> None:
        self.helpers.add(_FENCE)
        self.line("FENCE(__ATOMIC_RELEASE);")
        self.line("__builtin_amdgcn_s_barrier();")
        self.line("FENCE(__ATOMIC_ACQUIRE);")

    def steps(self) -> Sequence[int]:
        return steps_of(self.wave)

    def vote(self, condition: str, is_any: bool) -> str:
        """Of a mask of the lanes where the condition holds, or where it does not."""
        asked = condition if is_any else f"!{condition}"
        found = f"__builtin_amdgcn_uicmp((unsigned)({asked}), 0u, {_NOT_EQUAL})"
        return f"({found} {'!=' if is_any else '=='} 0)"

    def exchanged(self, dtype: DType, value: str, step: int) -> str:
        if dtype.is_float:
            word = self._exchanged(f"__builtin_bit_cast(int, {value})", step)
            return f"__builtin_bit_cast({self.type(dtype)}, {word})"
        return f"({self.type(dtype)}){self._exchanged(f'(int){value}', step)}"

    def _exchanged(self, word: str, step: int) -> str:
        if step in DPP:
            numbers = f"{DPP[step]}, {ALL_ROWS}, {ALL_ROWS}"
            return f"__builtin_amdgcn_mov_dpp({word}, {numbers}, true)"
        if step == 16 and self.wave == 32:
            self.helpers.add(_OTHER_ROW)
            return f"other_row({word})"
        if step == 16:
            return f"__builtin_amdgcn_ds_swizzle({word}, {SWAP_16})"
        other = f"({self.work_item('lane')} ^ {step}) << 2"
        return f"__builtin_amdgcn_ds_bpermute({other}, {word})"

    def _fragment(self, node: Node) -> str:
        """Words of shared memory that a work item reads for itself."""
        memory, index = node.src
        at = self.place(memory, index)
        return self.let(node.dtype, f"*(const {self.type(node.dtype)} *){at}")

    def multiplied(self, node: Node, sums: str) -> str:
        unit = self.units[node.arg]
        product, (of_x, _, _) = product_of(unit), unit.held
        before = [_without_type(one) for one in product.before]
        operands = []
        for words in factors_of(node, of_x.count):
            operands += [*before, self._factor(words, product.factor)]
        operands += [sums, *map(_without_type, product.behind)]
        return f"{self._builtin(unit)}({', '.join(operands)})"

    def _builtin(self, unit: MatrixUnit) -> str:
        """clang's name of a product: LLVM's, but for the types and the size of a wave."""
        name = _TYPES_IN_NAME.sub("", product_of(unit).function).removeprefix("llvm.amdgcn.")
        ending = ""
        if name.startswith("wmma"):
            ending = f"_w{self.wave}{'_gfx12' if self.target.cpu.startswith('gfx12') else ''}"
        return f"__builtin_amdgcn_{name.replace('.', '_')}{ending}"

    def _factor(self, words: Sequence[Node], dtype: DType) -> str:
        """A work item's words of a factor, as a function takes them."""
        held = dtypes.uint32.vec(len(words))
        values = [self.value(word) for word in words]
        whole = self.vector(held, values) if len(values) > 1 else values[0]
        return f"__builtin_bit_cast({self.type(dtype)}, {whole})"


def _without_type(operand: str) -> str:
    """An operand as it is in LLVM IR, "i32 0", without its type."""
    return operand.rpartition(" ")[2]
