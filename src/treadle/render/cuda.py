"""Linear programs to CUDA C for NVRTC.

Each phase becomes `extern "C" __global__ void name(T *arg0, ..., int n0, ...)`, as
render/clike_workgroups says.

No header is included, since NVRTC finds them only where a CUDA toolkit is: halves and bfloat16 are
their 16 bits, converted by one instruction of inline PTX each.

CUDA C has no operators on vectors. They are structs, so that memory is read in whole ones, and
everything else is written lane by lane. Memory of somebody else's may begin anywhere, and a vector
at an address that is no multiple of its size is a fault: a kernel looks at its arguments once, and
accesses them element by element where they are not aligned.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..dtype import DType, dtypes
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import Load, Store, Update, operand
from ..lower.linearize import Phase, local_places
from ..target import Target
from .base import PhaseRenderer
from .clike import FUNCTIONS
from .clike_lanes import WithLanes, extreme
from .clike_workgroups import scalar_operation
from .cuda_text import (
    HALVES,
    SCALARS,
    helper_texts,
    literal,
    places,
    struct_name,
    struct_text,
)
from .cuda_warps import WithWarps
from .nvidia import WARP, is_since_ampere, least_workgroups, only_copied
from .workgroups import WIDEST, is_whole, meets_zeros, most_aligned

__all__ = ["CUDARenderer"]

_WORK_ITEMS = {"work_item": "threadIdx.x", "lane": f"threadIdx.x % {WARP}"}
_TO_INTEGER = {
    ("float32", "int32"): "__float2int_rz", ("float32", "int64"): "__float2ll_rz",
    ("float64", "int32"): "__double2int_rz", ("float64", "int64"): "__double2ll_rz",
}  # fmt: skip


class CUDARenderer(PhaseRenderer["_CUDAFunction"]):
    """Prints programs for one device; `contract` lets multiply and add fuse."""

    name = "CUDA"

    def function(self, name: str, phase: Phase, number: int) -> _CUDAFunction:
        return _CUDAFunction(name, phase, self.target, self.contract)

    def module(self, functions: Sequence[_CUDAFunction], bodies: Sequence[str]) -> str:
        structs: set[DType] = set().union(*(function.structs for function in functions))
        helpers: set[str] = set().union(*(function.helpers for function in functions))
        lines = [struct_text(dtype) for dtype in sorted(structs, key=struct_name)]
        lines += helper_texts(helpers)
        products = {name: text for one in functions for name, text in one.products.items()}
        lines += [products[name] for name in sorted(products)]
        return "\n".join([*lines, *bodies])


class _CUDAFunction(WithLanes, WithWarps):
    language = "CUDA C"

    def __init__(self, name: str, phase: Phase, target: Target, contract: bool) -> None:
        super().__init__(name, phase, contract)
        self.has_nan_extremes = self.has_pairs = is_since_ampere(target)
        self.structs: set[DType] = set()
        self.helpers: set[str] = set()
        self.aligned = {f"arg{param.arg.slot}" for param in phase.aligned}
        self.in_vectors: set[str] = set()  # the other arguments that are accessed so
        self.unprinted |= only_copied(phase.code, self.copied)
        self.places, _ = local_places(phase.code)

    def header(self) -> list[str]:
        arguments = self.arguments(SCALARS)
        arguments += [
            f"const __grid_constant__ tensor_map map{number}" for number in range(len(self.boxes))
        ]
        lines = [
            f'extern "C" __global__ void __launch_bounds__({self._bounds()})',
            f"{self.name}({', '.join(arguments)}) {{",
        ]
        if self.phase.asked:
            aligned = f"__align__({most_aligned(self.places)})"
            lines.append(f"  extern __shared__ {aligned} unsigned char shared[];")
        if self.in_vectors:
            addresses = " | ".join(f"(size_t){name}" for name in sorted(self.in_vectors))
            lines.append(f"  const bool aligned = (({addresses}) & {WIDEST - 1}) == 0;")
        return lines

    def _bounds(self) -> str:
        """The work items of a workgroup, and how many workgroups there are to be at a time."""
        least = least_workgroups(self.phase)
        return f"{self.phase.launched}" if least is None else f"{self.phase.launched}, {least}"

    def type(self, dtype: DType) -> str:
        if dtype.count == 1:
            return SCALARS[dtype.name]
        self.structs.add(dtype)
        return struct_name(dtype)

    def literal(self, dtype: DType, value: float) -> str:
        return literal(dtype, value)

    def declare(self, dtype: DType, name: str, code: str) -> str:
        return f"const {self.type(dtype)} {name} = {code};"

    def declare_register(self, dtype: DType, name: str) -> str:
        return f"  {self.type(dtype)} {name};"

    def declare_memory(self, node: Node) -> tuple[str, list[str]]:
        if node.op is Op.PARAM:
            return f"arg{node.arg.slot}", []
        name, kind = f"local{node.arg.number}", SCALARS[node.dtype.name]
        if self.phase.asked:
            return name, [f"  {kind} *const {name} = ({kind} *)(shared + {self.places[node]});"]
        aligned = f"__align__({node.arg.alignment})"
        return name, [f"  __shared__ {aligned} {kind} {name}[{node.arg.size}];"]

    def grid_step(self) -> str:
        return "blockIdx.x"

    def work_item(self, name: str) -> str:
        return _WORK_ITEMS[name]

    def _update(self, node: Node) -> None:
        update = Update.of(node)
        if update.value.op is Op.WGMMA:
            self._add_product(update.value, self.names[behind_after(update.register)])
        else:
            super()._update(node)

    # -- memory ---------------------------------------------------------------------------------

    def load(self, node: Node) -> str:
        load, dtype = Load.of(node), node.dtype
        base, place = self.memory(load.memory), self.value(load.index)
        if dtype.is_bool and is_whole(load.index, dtype) and not load.is_gated:
            return self._loaded_bools(load.memory, load.index, dtype)
        lanes = places(base, place, dtype.count)
        if dtype.is_bool:  # any byte but 0 is true
            lanes = [f"(*(const unsigned char *)&{lane} != 0)" for lane in lanes]
        by_lane = load.is_gated and (load.gate.dtype.count > 1 or dtype.count == 1)
        if by_lane:
            gates, others = (self.lanes(one, dtype.count) for one in (load.gate, load.other))
            chosen = zip(gates, lanes, others, strict=True)
            lanes = [f"({gate} ? {lane} : {other})" for gate, lane, other in chosen]
        code = lanes[0] if dtype.count == 1 else self.vector(dtype, lanes)
        if is_whole(load.index, dtype) and not dtype.is_bool and not by_lane:
            whole = f"*(const {self.type(dtype)} *)({base} + {place})"
            code = f"aligned ? {whole} : {code}" if self._may_be_unaligned(base) else whole
        if load.is_gated and not by_lane:
            code = f"{self.value(load.gate)} ? {code} : {self.value(load.other)}"
        return self.let(dtype, code)

    def _loaded_bools(self, memory: Node, index: Node, dtype: DType) -> str:
        """Bools as one vector of bytes, of which all but 0 are true."""
        base, place = self.memory(memory), self.value(index)
        kind = dtypes.uint8.vec(dtype.count)
        code = f"*(const {self.type(kind)} *)({base} + {place})"
        if self._may_be_unaligned(base):
            places_ = places(f"((const unsigned char *){base})", place, dtype.count)
            code = f"aligned ? {code} : {self.vector(kind, places_)}"
        loaded = self.let(kind, code)
        lanes = [f"({self.lane(kind, loaded, n)} != 0)" for n in range(dtype.count)]
        return self.let(dtype, self.vector(dtype, lanes))

    def _may_be_unaligned(self, base: str) -> bool:
        """Whether vectors in this memory may be unaligned: it is an argument like any other."""
        if base.startswith("arg") and base not in self.aligned:
            self.in_vectors.add(base)
        return base in self.in_vectors

    def store(self, node: Node) -> None:
        if node in self.copied:
            self.copies.append(node)
            return
        store = Store.of(node)
        value, gate, dtype = store.value, store.gate, store.value.dtype
        if value.op is Op.BOX:
            self._copy_box(store)
            return
        base, place = self.memory(store.memory), self.value(store.index)
        lanes = zip(places(base, place, dtype.count), self.lanes(value, dtype.count), strict=True)
        stores = [f"{at} = {lane};" for at, lane in lanes]
        if gate.dtype.count > 1:
            gates = self.lanes(gate, dtype.count)
            stores = [f"if ({held}) {one}" for held, one in zip(gates, stores, strict=True)]
        elif is_whole(store.index, dtype):
            whole = f"*({self.type(dtype)} *)({base} + {place}) = {self.value(value)};"
            single = [f"if (aligned) {whole}", f"else {{ {' '.join(stores)} }}"]
            stores = single if self._may_be_unaligned(base) else [whole]
        is_guarded = store.is_gated and gate.dtype.count == 1
        if is_guarded:
            self.open(f"if ({self.value(gate)})")
        for code in stores:
            self.line(code)
        if is_guarded:
            self.close()

    # -- vectors --------------------------------------------------------------------------------

    def bundle(self, dtype: DType, lanes: Sequence[str]) -> str:
        return f"{self.type(dtype)}{{{', '.join(lanes)}}}"

    def member(self, dtype: DType, value: str, number: int) -> str:
        return f"{value}.s{number}"

    # -- arithmetic -----------------------------------------------------------------------------

    def function(self, op: Op, dtype: DType) -> str:
        return f"{FUNCTIONS[op]}{'f' if dtype is dtypes.float32 else ''}"

    def bitcast(self, source: DType, target: DType, value: str) -> str:
        kind = SCALARS[target.scalar.name]
        if kind == SCALARS[source.scalar.name]:
            return self.each(lambda x: x, target, (source, value))
        self.helpers.add("bits_to")
        return self.each(lambda x: f"bits_to<{kind}>({x})", target, (source, value))

    def negate(self, dtype: DType, value: str) -> str:
        kind = SCALARS[dtype.scalar.name]
        if dtype.is_float:
            return self.each(lambda x: f"(-({x}))", dtype, (dtype, value))
        return self.each(lambda x: f"({kind})(0u - {x})", dtype, (dtype, value))

    def _quick_exp2(self, node: Node) -> str:
        self.helpers.add("quick_exp2")
        return self.let(node.dtype, f"quick_exp2({self.value(operand(node))})")

    def _alu(self, node: Node) -> str:
        if meets_zeros(node):
            pair = [(node.dtype, value) for value in self.operands(node)]
            return self.each(partial(extreme, node.op, node.dtype.scalar), node.dtype, *pair)
        return super()._alu(node)

    def scalar(self, op: Op, dtype: DType, a: str, b: str) -> str:
        if op in (Op.MAX, Op.MIN):
            if dtype is dtypes.float32 and self.has_nan_extremes:
                name = f"{op.name.lower()}_nan"
                self.helpers.add(name)
                return f"{name}({a}, {b})"
            return extreme(op, dtype, a, b)
        return scalar_operation(op, dtype, a, b, SCALARS)

    def cast(self, source: DType, target: DType, value: str) -> str:
        is_narrowed = source.scalar is dtypes.float32 and target.scalar.name in HALVES
        if is_narrowed and self.has_pairs and target.count > 1:
            return self._pairs(source, target, value)
        return super().cast(source, target, value)

    def _pairs(self, source: DType, target: DType, value: str) -> str:
        """float32 to halves, two by one instruction."""
        name = f"to_{target.scalar.name}_pair"
        self.helpers.add(name)
        lanes = []
        for number in range(0, target.count, 2):
            both = ", ".join(self.lane(source, value, number + n) for n in range(2))
            word = self.let(dtypes.uint32, f"{name}({both})")
            lanes += [f"((unsigned short){word})", f"((unsigned short)({word} >> 16))"]
        return self.vector(target, lanes)

    def converted(self, source: DType, target: DType, value: str) -> str:
        if source.name in HALVES or target.name in HALVES:
            name = f"from_{source.name}" if source.name in HALVES else f"to_{target.name}"
            self.helpers.add(name)
            return f"{name}({value})"
        if target.is_bool:
            return f"({value} != 0)"
        if not (source.is_float and target.is_int):
            return f"({SCALARS[target.name]}){value}"
        converted = f"{_TO_INTEGER[source.name, target.name]}({value})"  # saturates
        return f"({value} == {value} ? {converted} : {literal(target, 0)})"
