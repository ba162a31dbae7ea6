"""Linear programs to OpenCL C.

Each phase becomes `kernel void name(global T *arg0, ..., int n)` with one argument for each piece
of memory that it uses, in the order of the slots, then one for each launch-time integer. A slice
of the grid is a workgroup.

Doubles and halves need an extension each, which is asked for where a kernel uses them. On a target
that emulates float64 a double is its 64 bits, and functions of opencl_float64.py compute with it,
each lane of a vector by itself.

Signed integers wrap, which OpenCL C leaves undefined: they are added and multiplied as unsigned
ones, except where nothing can overflow.

Operators are used instead of built-in functions where there is a choice: PoCL builds its library
for another processor than the kernels, and so cannot inline them, nor even compile them for vectors
wider than the kernel's registers: those are handed over in halves.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from ..dtype import DType, dtypes
from ..errors import InternalError
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Load, Store
from ..lower.linearize import Phase
from ..lower.overflow_analysis import bounds_and_exact
from ..target import Target
from .base import PhaseRenderer
from .clike import BINARY, COMPARISONS, FUNCTIONS, is_promoted
from .opencl_float64 import FLOAT64_CALLS, float64_cast, float64_helpers
from .opencl_text import SCALARS, literal
from .opencl_textures import CHANNEL, WithTextures
from .textures import image_of

__all__ = ["OpenCLRenderer"]

_WORK_ITEMS = {"work_item": "get_local_id(0)", "lane": "get_sub_group_local_id()"}
_COMBINED = {Op.ADD: "add", Op.MAX: "max", Op.MIN: "min"}
_ANY_OR_ALL = {Op.ADD: "any", Op.MAX: "any", Op.MUL: "all", Op.MIN: "all"}
_EXTENSIONS = {"float16": "cl_khr_fp16", "float64": "cl_khr_fp64"}
_LANES = "0123456789abcdef"
_CONVERT = """\
#if defined(__clang__)
#define CONVERT(type, value) __builtin_convertvector(value, type)
#else
#define CONVERT(type, value) convert_##type(value)
#endif
"""
_UNALIGNED = "typedef struct __attribute__((packed)) {{ {kind} value; }} {kind}_unaligned;"
# What a comparison of elements of so many bits gives in each lane.
_MASKS = {8: "char", 16: "short", 32: "int", 64: "long"}


class OpenCLRenderer(PhaseRenderer["_OpenCLFunction"]):
    """Prints programs for one device; `contract` lets multiply and add fuse."""

    name = "OPENCL"

    def function(self, name: str, phase: Phase, number: int) -> _OpenCLFunction:
        return _OpenCLFunction(name, phase, self.target)

    def module(self, functions: Sequence[_OpenCLFunction], bodies: Sequence[str]) -> str:
        used = set().union(*(function.used for function in functions))
        lines = [f"#pragma OPENCL EXTENSION {x} : enable" for x in sorted(used)]
        lines.append(f"#pragma OPENCL FP_CONTRACT {'ON' if self.contract else 'OFF'}")
        lines.append(_CONVERT)
        unaligned: set[str] = set().union(*(function.unaligned for function in functions))
        if any("channel(" in body for body in bodies):
            lines.append(CHANNEL)
        lines += [_UNALIGNED.format(kind=kind) for kind in sorted(unaligned)]
        calls: set[str] = set().union(*(function.float64_calls for function in functions))
        lines += float64_helpers(calls)
        return "\n".join([*lines, *bodies])


class _OpenCLFunction(WithTextures):
    language = "OpenCL C"

    def __init__(self, name: str, phase: Phase, target: Target) -> None:
        super().__init__(name, phase, phase.variables)
        self.is_processor = target.workgroup is None
        self.subgroup: int | None = None  # the size that this function relies on
        self.vector_bytes = target.vector_bytes
        self.unaligned: set[str] = set()  # vector types that memory holds at any address
        self.used: set[str] = set()  # extensions
        self.emulates_float64 = target.emulates_float64
        self.float64_calls: set[str] = set()  # the functions that compute with emulated doubles
        self.written = {param for param, is_written in phase.params if is_written}
        self.terms = _single_terms(phase.program)
        _, self.exact = bounds_and_exact(phase.program)

    def node(self, node: Node) -> None:
        if node in self.terms and not self._is_emulated(node.dtype):
            # A product stands where it is added, so that both may become one.
            a, b = (self.value(source) for source in node.src)
            self.names[node] = self.binary(Op.MUL, node.dtype, a, b)
        else:
            super().node(node)

    def header(self) -> list[str]:
        arguments = [self._argument(param) for param, _ in self.phase.params]
        arguments += [f"const int {name}" for name in self._variable_names()]
        attributes = [f"reqd_work_group_size({self.phase.work_items}, 1, 1)"]
        if self.subgroup:
            attributes.append(f"intel_reqd_sub_group_size({self.subgroup})")
        return [
            f"__attribute__(({', '.join(attributes)}))",
            f"kernel void {self.name}({', '.join(arguments)}) {{",
        ]

    def _argument(self, param: Node) -> str:
        name = f"arg{param.arg.slot}"
        if param.arg.image:
            return f"{'write' if param in self.written else 'read'}_only image2d_t {name}"
        access = "" if param in self.written else "const "
        return f"global {access}{self._element(param.dtype)} *restrict {name}"

    def _variable_names(self) -> list[str]:
        return [f"n{number}" for number in range(len(self.variables))]

    def _element(self, dtype: DType) -> str:
        """The type of one element in memory."""
        if self._is_emulated(dtype):
            return "ulong"
        if dtype.name in _EXTENSIONS:
            self.used.add(_EXTENSIONS[dtype.name])
        return SCALARS[dtype.name]

    def type(self, dtype: DType) -> str:
        if dtype.count == 1:
            return self._element(dtype)
        if dtype.count > len(_LANES):
            raise InternalError(f"OpenCL C has no vectors of {dtype.count} lanes")
        return f"{'char' if dtype.is_bool else self._element(dtype)}{dtype.count}"

    def literal(self, dtype: DType, value: float) -> str:
        if self._is_emulated(dtype):
            return f"0x{struct.pack('>d', value).hex()}UL"
        return literal(dtype, value)

    def declare(self, dtype: DType, name: str, code: str) -> str:
        return f"{self.type(dtype)} {name} = {code};"

    def declare_register(self, dtype: DType, name: str) -> str:
        return f"  {self.type(dtype)} {name};"

    def declare_memory(self, node: Node) -> tuple[str, list[str]]:
        if node.op is Op.PARAM:
            return f"arg{node.arg.slot}", []
        name = f"local{node.arg.number}"
        kind = self._element(node.dtype)
        return name, [f"  local {kind} {name}[{node.arg.size}] __attribute__((aligned(64)));"]

    def loop(self, name: str, dtype: DType, count: str) -> str:
        kind = self.type(dtype)
        return f"for ({kind} {name} = 0; {name} < {count}; {name}++)"

    def grid_step(self) -> str:
        return "get_group_id(0)"

    def variable(self, number: int) -> str:
        return f"n{number}"

    def _work_item(self, node: Node) -> str:
        if node.arg.name == "lane":
            self.subgroup = node.arg.high + 1
        return self.let(node.dtype, _WORK_ITEMS[node.arg.name])

    def _subgroup(self, node: Node) -> str:
        dtype, (value,) = node.dtype, self.operands(node)
        if dtype.is_bool:
            return self.let(dtype, f"sub_group_{_ANY_OR_ALL[node.arg]}({value}) != 0")
        wide = f"(int){value}" if is_promoted(dtype) else value
        code = f"sub_group_reduce_{_COMBINED[node.arg]}({wide})"
        if dtype.is_float and node.arg in (Op.MAX, Op.MIN):  # they leave open what NaN gives
            code = f"sub_group_any({value} != {value}) ? {literal(dtype, math.nan)} : {code}"
        return self.let(dtype, code)

    def _barrier(self, node: Node) -> None:
        self.line("barrier(CLK_LOCAL_MEM_FENCE);")

    def _prefetch(self, node: Node) -> None:
        memory, index = node.src
        self.line(f"prefetch({self.memory(memory)} + {self.value(index)}, 1);")

    # -- memory ---------------------------------------------------------------------------------

    def load(self, node: Node) -> str:
        load = Load.of(node)
        image = image_of(load.memory)
        if image is not None:
            return self.texture_load(load, image)
        base, place = self.memory(load.memory), self.value(load.index)
        if load.is_gated:
            return self._gated_load(load, base, place)
        return self.let(node.dtype, self._loaded(node.dtype, base, place))

    def _loaded(self, dtype: DType, base: str, place: str) -> str:
        if dtype.count == 1:
            return f"({base}[{place}] != 0)" if dtype.is_bool else f"{base}[{place}]"
        kind = f"{self._element(dtype)}{dtype.count}"
        loaded = f"vload{dtype.count}(0, {base} + {place})"
        if self.is_processor:
            loaded = self._at_any_address(kind, f"{base} + {place}")
        return f"(as_char{dtype.count}({loaded}) != (char)0)" if dtype.is_bool else loaded

    def _at_any_address(self, kind: str, address: str) -> str:
        """A vector in memory that is aligned to its elements only."""
        self.unaligned.add(kind)
        space = "local" if address.startswith("local") else "global"
        return f"((const {space} {kind}_unaligned *)({address}))->value"

    def _gated_load(self, load: Load, base: str, place: str) -> str:
        dtype, gate, other = load.dtype, self.value(load.gate), self.value(load.other)
        if load.gate.dtype.count == 1:
            return self.let(dtype, f"{gate} ? {self._loaded(dtype, base, place)} : {other}")
        lanes = [
            f"({self.lane(load.gate.dtype, gate, i)} ? "
            f"{self._loaded(dtype.scalar, base, f'{place} + {i}')} : {self.lane(dtype, other, i)})"
            for i in range(dtype.count)
        ]
        return self.let(dtype, self.vector(dtype, lanes))

    def store(self, node: Node) -> None:
        store = Store.of(node)
        base, place = self.memory(store.memory), self.value(store.index)
        stored, dtype, gate = self.value(store.value), store.value.dtype, store.gate
        image = image_of(store.memory)
        if image is not None:
            self.texture_store(store, image)
            return
        if gate.dtype.count > 1:
            for i in range(dtype.count):
                held = self.lane(gate.dtype, self.value(gate), i)
                self.line(f"if ({held}) {base}[{place} + {i}] = {self.lane(dtype, stored, i)};")
            return
        guard = f"if ({self.value(gate)}) " if store.is_gated else ""
        if dtype.count == 1:
            self.line(f"{guard}{base}[{place}] = {stored};")
            return
        if dtype.is_bool:
            stored = f"as_uchar{dtype.count}({stored} & (char)1)"
        if self.is_processor:
            kind = f"{self._element(dtype)}{dtype.count}"
            held = self._at_any_address(kind, f"{base} + {place}").replace("const ", "")
            self.line(f"{guard}{held} = {stored};")
        else:
            self.line(f"{guard}vstore{dtype.count}({stored}, 0, {base} + {place});")

    # -- vectors --------------------------------------------------------------------------------

    def vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        if dtype.is_bool:
            lanes = [f"(char)({lane} ? -1 : 0)" for lane in lanes]
        return f"(({self.type(dtype)})({', '.join(lanes)}))"

    def lane(self, dtype: DType, value: str, number: int) -> str:
        lane = f"{value}.s{_LANES[number]}"
        return f"({lane} != 0)" if dtype.is_bool else lane

    def splat(self, dtype: DType, value: str) -> str:
        if dtype.is_bool:
            value = f"(char)({value} ? -1 : 0)"
        return f"(({self.type(dtype)})({value}))"

    def _mask(self, dtype: DType, mask: str) -> str:
        """A vector of bools with lanes as wide as those of `dtype`."""
        if dtype.is_bool or dtype.bits == 8:
            return mask
        return f"CONVERT({_MASKS[dtype.bits]}{dtype.count}, {mask})"

    # -- arithmetic -----------------------------------------------------------------------------

    def bitcast(self, source: DType, target: DType, value: str) -> str:
        return f"as_{self.type(target)}({value})"

    def negate(self, dtype: DType, value: str) -> str:
        kind = self.type(dtype)
        if dtype.is_float or dtype.is_unsigned:
            return f"({kind})(-{value})" if dtype.count == 1 else f"(-{value})"
        if is_promoted(dtype):
            return f"({kind})(-{value})"
        return f"as_{kind}(-as_u{kind}({value}))"

    def _is_emulated(self, dtype: DType) -> bool:
        return self.emulates_float64 and dtype.scalar is dtypes.float64

    def _emulated(self, name: str, dtype: DType, *operands: tuple[DType, str]) -> str:
        """A function of opencl_float64.py that gives `dtype`, called for each lane."""
        self.float64_calls.add(name)
        if dtype.count == 1:
            return f"{name}({', '.join(value for _, value in operands)})"
        lanes = (
            ", ".join(self.lane(kind, value, number) for kind, value in operands)
            for number in range(dtype.count)
        )
        return self.vector(dtype, [f"{name}({lane})" for lane in lanes])

    def _alu(self, node: Node) -> str:
        *_, last = node.src
        if self._is_emulated(last.dtype) and node.op in FLOAT64_CALLS:
            operands = ((source.dtype, self.value(source)) for source in node.src)
            return self._emulated(FLOAT64_CALLS[node.op], node.dtype, *operands)
        if node in self.exact and not is_promoted(node.dtype):
            a, b = self.operands(node)
            return f"({a} {BINARY[node.op]} {b})"
        return super()._alu(node)

    def select(self, dtype: DType, mask: str, yes: str, no: str) -> str:
        if dtype.count == 1:
            return f"({mask} ? {yes} : {no})"
        return f"({self._mask(dtype, mask)} ? {yes} : {no})"

    def compare(self, op: Op, dtype: DType, a: str, b: str) -> str:
        if dtype.is_bool and dtype.count > 1 and op is Op.CMPLT:
            a, b = b, a  # -1 is true: as numbers the order turns round
        code = f"({a} {COMPARISONS[op]} {b})"
        narrow = dtype.count == 1 or dtype.is_bool or dtype.bits == 8
        return code if narrow else f"CONVERT(char{dtype.count}, {code})"

    def call(self, op: Op, dtype: DType, values: list[str]) -> str:
        def one(dtype: DType, *values: str) -> str:
            return f"{FUNCTIONS[op]}({', '.join(values)})"

        return self._library(dtype, dtype.scalar.itemsize, one, *values)

    def _library(self, dtype: DType, itemsize: int, one: Callable[..., str], *values: str) -> str:
        """A built-in function that gives `dtype`, of vectors no wider than registers.

        `itemsize` is that of the wider of operands and result.
        """
        if dtype.count == 1 or dtype.count * itemsize <= self.vector_bytes:
            return one(dtype, *values)
        half = dtype.scalar.vec(dtype.count // 2)
        parts = (
            self._library(half, itemsize, one, *(f"{value}.{end}" for value in values))
            for end in ("lo", "hi")
        )
        return f"(({self.type(dtype)})({', '.join(parts)}))"

    def binary(self, op: Op, dtype: DType, a: str, b: str) -> str:
        if self._is_emulated(dtype):
            return self._emulated(FLOAT64_CALLS[op], dtype, (dtype, a), (dtype, b))
        if op in (Op.MAX, Op.MIN):
            return self._extreme(op, dtype, a, b)
        if dtype.is_bool and op in (Op.ADD, Op.MUL):
            op = Op.OR if op is Op.ADD else Op.AND
        kind = self.type(dtype)
        if is_promoted(dtype):
            return f"({kind})({'(uint)' if op is Op.MUL else ''}{a} {BINARY[op]} {b})"
        if op in (Op.ADD, Op.SUB, Op.MUL) and dtype.is_int and not dtype.is_unsigned:
            return f"as_{kind}(as_u{kind}({a}) {BINARY[op]} as_u{kind}({b}))"
        return f"({a} {BINARY[op]} {b})"

    def _extreme(self, op: Op, dtype: DType, a: str, b: str) -> str:
        """The larger or smaller; a NaN on either side wins."""
        if dtype.is_bool:
            return f"({a} {'|' if op is Op.MAX else '&'} {b})"
        if not dtype.is_float:
            return f"({a} {'<' if op is Op.MAX else '>'} {b} ? {b} : {a})"
        wins = f"({a} {'<' if op is Op.MAX else '>'} {b})"
        broken = f"({b} != {b})"
        if dtype.count == 1:
            return f"({wins} || {broken} ? {b} : {a})"
        return f"({wins} | {broken} ? {b} : {a})"

    def cast(self, source: DType, target: DType, value: str) -> str:
        if self._is_emulated(source) or self._is_emulated(target):
            return self._emulated(float64_cast(source, target), target, (source, value))
        kind = self.type(target)
        if source.is_float and target.is_int:
            return self._saturating(source, target, value)
        if source.count == 1:
            return f"({value} != 0)" if target.is_bool else f"({kind}){value}"
        if target.is_bool:
            return self.compare(Op.CMPNE, source, value, self.splat(source, "0"))
        if source.is_bool:
            return f"CONVERT({kind}, {value} & (char)1)"
        return f"CONVERT({kind}, {value})"

    def _saturating(self, source: DType, target: DType, value: str) -> str:
        def one(dtype: DType, value: str) -> str:
            return f"convert_{self.type(dtype)}_sat({value})"

        itemsize = max(source.scalar.itemsize, target.scalar.itemsize)
        converted = self._library(target, itemsize, one, value)
        zero = self.literal(target.scalar, 0)
        if source.count == 1:
            return f"({value} == {value} ? {converted} : {zero})"
        real = self.compare(Op.CMPEQ, source, value, value)
        return self.select(target, real, converted, self.splat(target, zero))


def _single_terms(program: Node) -> set[Node]:
    """The float products that are added to something, once, and used for nothing else."""
    uses: dict[Node, int] = {}
    added: set[Node] = set()
    for node in program.src:
        for source in node.src:
            uses[source] = uses.get(source, 0) + 1
        is_sum = node.op in (Op.ADD, Op.SUB) or (node.op is Op.UPDATE and node.arg is Op.ADD)
        if is_sum:
            added.update(s for s in node.src if s.op is Op.MUL and s.dtype.is_float)
    return {node for node in added if uses[node] == 1}
