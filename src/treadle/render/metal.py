"""Linear programs to the Metal Shading Language, for Apple's GPUs.

Each phase becomes `kernel void name(device T *arg0 [[buffer(0)]], ...)` with one buffer for each
piece of memory that it uses, in the order of the slots. Launch-time integers are in one more, the
last buffer that Metal has. A slice of the grid is a threadgroup.

Vectors in memory are of Metal's packed types, which need no alignment beyond their elements'. They
have up to four lanes; more are a struct of such parts, which only copies make. The compiler is told
to keep to the floats as they are written, and sums of products are fused here. Metal has no
float64, which the target says.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from ..dtype import DType, dtypes
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Load, Store, operand
from ..lower.linearize import Phase
from ..target import VARIABLES_AT, MatrixUnit, Target
from .base import PhaseRenderer
from .clike_lanes import WithLanes, extreme
from .clike_workgroups import scalar_operation

__all__ = ["MetalRenderer"]

_SCALARS = {
    "bool": "uchar", "int8": "char", "uint8": "uchar", "int16": "short", "uint16": "ushort",
    "int32": "int", "uint32": "uint", "int64": "long", "uint64": "ulong", "float16": "half",
    "bfloat16": "bfloat", "float32": "float",
}  # fmt: skip
_HEAD = """\
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)"""
_WORK_ITEMS = {"work_item": "thread_index_in_threadgroup", "lane": "thread_index_in_simdgroup"}
_STEPS = (16, 8, 4, 2, 1)
_MEMBERS = "xyzw"
_LANES = len(_MEMBERS)


class MetalRenderer(PhaseRenderer["_MetalFunction"]):
    """Prints programs for one GPU family; `contract` lets multiply and add fuse."""

    name = "METAL"

    def function(self, name: str, phase: Phase, number: int) -> _MetalFunction:
        return _MetalFunction(name, phase, self.target, self.contract)

    def module(self, functions: Sequence[_MetalFunction], bodies: Sequence[str]) -> str:
        wide: set[DType] = set().union(*(function.wide for function in functions))
        used = sorted(set().union(*(function.products for function in functions)))
        units = {unit.name: unit for unit in self.target.matrix_units}
        products = [_product(units[kind]) for kind in used]
        structs = [_struct(dtype) for dtype in sorted(wide, key=_name)]
        return "\n".join([_HEAD, *structs, *products, *bodies])


class _MetalFunction(WithLanes):
    language = "Metal"

    def __init__(self, name: str, phase: Phase, target: Target, contract: bool) -> None:
        super().__init__(name, phase, contract)
        self.target = target
        self.asked: set[str] = set()  # what it asks of its place in the grid
        self.products: set[str] = set()  # the matrix units that it uses
        self.wide: set[DType] = set()  # the vectors that are structs

    def header(self) -> list[str]:
        arguments = [
            f"device {'' if param in self.written else 'const '}{_SCALARS[param.dtype.name]} "
            f"*arg{param.arg.slot} [[buffer({number})]]"
            for number, (param, _) in enumerate(self.phase.params)
        ]
        if self.variables:
            arguments.append(f"constant int *variables [[buffer({VARIABLES_AT})]]")
        arguments += [f"uint {name} [[{name}]]" for name in sorted(self.asked)]
        return [
            f"[[max_total_threads_per_threadgroup({self.phase.launched})]]",
            f"kernel void {self.name}({', '.join(arguments)}) {{",
        ]

    def type(self, dtype: DType) -> str:
        if dtype.count == 1:
            return "bool" if dtype.is_bool else _SCALARS[dtype.name]
        if dtype.count > _LANES:
            self.wide.add(dtype)
        return _name(dtype)

    def literal(self, dtype: DType, value: float) -> str:
        return _literal(dtype, value)

    def declare(self, dtype: DType, name: str, code: str) -> str:
        return f"const {self.type(dtype)} {name} = {code};"

    def declare_register(self, dtype: DType, name: str) -> str:
        return f"  {self.type(dtype)} {name};"

    def declare_memory(self, node: Node) -> tuple[str, list[str]]:
        if node.op is Op.PARAM:
            return f"arg{node.arg.slot}", []
        name, kind = f"local{node.arg.number}", _SCALARS[node.dtype.name]
        aligned = f"alignas({node.arg.alignment})"
        return name, [f"  threadgroup {aligned} {kind} {name}[{node.arg.size}];"]

    # -- the grid -------------------------------------------------------------------------------

    def grid_step(self) -> str:
        return f"int({self._of_grid('threadgroup_position_in_grid')})"

    def work_item(self, name: str) -> str:
        return f"int({self._of_grid(_WORK_ITEMS[name])})"

    def _of_grid(self, name: str) -> str:
        self.asked.add(name)
        return name

    def variable(self, number: int) -> str:
        return f"variables[{number}]"

    # -- memory ---------------------------------------------------------------------------------

    def load(self, node: Node) -> str:
        load, dtype = Load.of(node), node.dtype
        base, place = self.memory(load.memory), self.value(load.index)
        if load.is_gated and load.gate.dtype.count > 1:
            each = zip(
                self.lanes(load.gate, dtype.count),
                self.lanes(load.other, dtype.count),
                strict=True,
            )
            lanes = [
                f"({gate} ? {_element(dtype, f'{base}[{place} + {number}]')} : {other})"
                for number, (gate, other) in enumerate(each)
            ]
            return self.let(dtype, self.vector(dtype, lanes))
        code = self._loaded(load.memory, place, dtype)
        if load.is_gated:
            code = f"{self.value(load.gate)} ? {code} : {self.value(load.other)}"
        return self.let(dtype, code)

    def _loaded(self, memory: Node, place: str, dtype: DType) -> str:
        if dtype.count == 1:
            return _element(dtype, f"{self.memory(memory)}[{place}]")
        base, space = self.memory(memory), self._space(memory)
        parts = [
            f"{_name(part)}(*({space} const packed_{_name(part)} *)({base} + {place} + {first}))"
            for first, part in _parts(dtype)
        ]
        if dtype.is_bool:
            parts = [f"min({code}, uchar(1))" for code in parts]
        return parts[0] if len(parts) == 1 else f"{self.type(dtype)}{{{', '.join(parts)}}}"

    def _space(self, memory: Node) -> str:
        return "device" if self.memory(memory).startswith("arg") else "threadgroup"

    def store(self, node: Node) -> None:
        store = Store.of(node)
        value, gate, dtype = store.value, store.gate, store.value.dtype
        base, place = self.memory(store.memory), self.value(store.index)
        if gate.dtype.count > 1:
            pairs = zip(self.lanes(gate, dtype.count), self.lanes(value, dtype.count), strict=True)
            for number, (held, lane) in enumerate(pairs):
                self.line(f"if ({held}) {base}[{place} + {number}] = {lane};")
            return
        guard = f"if ({self.value(gate)}) " if store.is_gated else ""
        if dtype.count == 1:
            self.line(f"{guard}{base}[{place}] = {self.value(value)};")
            return
        stored = self.value(value)
        for first, part in _parts(dtype):
            kind = f"packed_{_name(part)}"
            lanes = [self.lane(dtype, stored, first + number) for number in range(part.count)]
            at = f"*({self._space(store.memory)} {kind} *)({base} + {place} + {first})"
            self.line(f"{guard}{at} = {kind}({', '.join(lanes)});")

    # -- vectors --------------------------------------------------------------------------------

    def bundle(self, dtype: DType, lanes: Sequence[str]) -> str:
        parts = [
            f"{_name(part)}({', '.join(lanes[first : first + part.count])})"
            for first, part in _parts(dtype)
        ]
        return parts[0] if len(parts) == 1 else f"{self.type(dtype)}{{{', '.join(parts)}}}"

    def member(self, dtype: DType, value: str, number: int) -> str:
        part, number = divmod(number, _LANES)
        place = f"part{part}." if dtype.count > _LANES else ""
        lane = f"{value}.{place}{_MEMBERS[number]}"
        return f"({lane} != 0)" if dtype.is_bool else lane

    # -- arithmetic -----------------------------------------------------------------------------

    def bitcast(self, source: DType, target: DType, value: str) -> str:
        kind = _SCALARS[target.scalar.name]
        return self.each(lambda x: f"as_type<{kind}>({x})", target, (source, value))

    def negate(self, dtype: DType, value: str) -> str:
        kind = _SCALARS[dtype.scalar.name]
        if dtype.is_float:
            return self.each(lambda x: f"(-({x}))", dtype, (dtype, value))
        return self.each(lambda x: f"({kind})(0u - {x})", dtype, (dtype, value))

    def scalar(self, op: Op, dtype: DType, a: str, b: str) -> str:
        if op in (Op.MAX, Op.MIN):
            return extreme(op, dtype, a, b)
        return scalar_operation(op, dtype, a, b, _SCALARS)

    def converted(self, source: DType, target: DType, value: str) -> str:
        if target.is_bool:
            return f"({value} != 0)"
        kind = _SCALARS[target.name]
        if not (source.is_float and target.is_int):
            return f"({kind})({value})"
        # Metal leaves open what becomes of numbers that do not fit.
        low, high = _ends(target)
        fits = f"({value} > {low} ? ({kind})({value}) : {_least(target)})"
        most = f"({value} < {high} ? {fits} : {_most(target)})"
        return f"({value} == {value} ? {most} : {_literal(target, 0)})"

    def _quick_exp2(self, node: Node) -> str:
        return self.let(node.dtype, f"exp2({self.value(operand(node))})")

    def _halves(self, node: Node) -> str:
        kind = _SCALARS[node.arg]
        halves = ", ".join(f"{kind}({value})" for value in self.operands(node))
        return self.let(node.dtype, f"as_type<uint>({kind}2({halves}))")

    # -- work items together --------------------------------------------------------------------

    def _barrier(self, node: Node) -> None:
        self.line("threadgroup_barrier(mem_flags::mem_threadgroup);")

    def steps(self) -> Sequence[int]:
        return _STEPS

    def vote(self, condition: str, is_any: bool) -> str:
        return f"simd_{'any' if is_any else 'all'}({condition})"

    def exchanged(self, dtype: DType, value: str, step: int) -> str:
        if dtype.bits < 64:
            return f"simd_shuffle_xor({value}, {step})"
        kind = self.type(dtype)
        return f"as_type<{kind}>(simd_shuffle_xor(as_type<uint2>({value}), {step}))"

    def _fragment(self, node: Node) -> str:
        """Words of shared memory that a work item reads for itself."""
        memory, index = node.src
        base, count = self.memory(memory), node.dtype.count
        kind = self.type(node.dtype)
        packed = kind if count == 1 else f"packed_{kind}"
        words = f"*(threadgroup const {packed} *)({base} + {self.value(index)})"
        return self.let(node.dtype, words if count == 1 else f"{kind}({words})")

    def multiplied(self, node: Node, sums: str) -> str:
        self.products.add(node.arg)
        return f"product_{node.arg}({', '.join([*self.operands(node), sums])})"


def _name(dtype: DType) -> str:
    """What a vector's type is called."""
    kind = _SCALARS[dtype.scalar.name]
    return f"{kind}{dtype.count}" if dtype.count <= _LANES else f"{kind}x{dtype.count}"


def _parts(dtype: DType) -> list[tuple[int, DType]]:
    """Vectors of Metal that make one: the number of the first lane, and the type."""
    each = min(dtype.count, _LANES)
    return [(first, dtype.scalar.vec(each)) for first in range(0, dtype.count, each)]


def _struct(dtype: DType) -> str:
    members = " ".join(
        f"{_name(part)} part{number};" for number, (_, part) in enumerate(_parts(dtype))
    )
    return f"struct {_name(dtype)} {{ {members} }};"


def _product(unit: MatrixUnit) -> str:
    """A function for a product of `unit`, of a lane's words of x and y, and its sums.

    A word of halves has two steps of the sum: the first ones of all words are one multiplication,
    the second ones another.
    """
    kind, each = _SCALARS[unit.dtype.name], 4 // unit.dtype.itemsize
    words = ", ".join(f"uint {factor}{number}" for factor in "xy" for number in range(2))
    lines = [
        f"static inline float2 product_{unit.name}({words}, float2 sums) {{",
        f"  simdgroup_matrix<{kind}, 8, 8> x, y;",
        "  simdgroup_matrix<float, 8, 8> all;",
        f"  {_held('all', 'float')} = sums;",
    ]
    for step in range(each):
        for factor in "xy":
            halves = (_part(kind, each, f"{factor}{number}", step) for number in range(2))
            lines.append(f"  {_held(factor, kind)} = {kind}2({', '.join(halves)});")
        lines.append(f"  {unit.instruction}(all, x, y, all);")
    return "\n".join([*lines, f"  return {_held('all', 'float')};", "}"])


def _held(matrix: str, kind: str) -> str:
    """The two elements of a matrix that a lane holds."""
    return f"reinterpret_cast<thread {kind}2 &>({matrix}.thread_elements())"


def _part(kind: str, each: int, word: str, number: int) -> str:
    """Element `number` of the word, which has `each`."""
    if each == 1:
        return f"as_type<{kind}>({word})"
    return f"as_type<{kind}{each}>({word}).{_MEMBERS[number]}"


def _element(dtype: DType, code: str) -> str:
    """A scalar of memory in registers; any byte but 0 is true."""
    return f"({code} != 0)" if dtype.is_bool else code


def _ends(target: DType) -> tuple[str, str]:
    """The floats between which everything fits."""
    bits = target.bits - (0 if target.is_unsigned else 1)
    low = -1.0 if target.is_unsigned else -(2.0**bits)
    return f"{low!r}f", f"{2.0**bits!r}f"


def _least(target: DType) -> str:
    return _literal(target, 0 if target.is_unsigned else -(1 << (target.bits - 1)))


def _most(target: DType) -> str:
    return _literal(target, (1 << (target.bits - (0 if target.is_unsigned else 1))) - 1)


def _literal(dtype: DType, value: float) -> str:
    """A scalar constant."""
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_int:
        return _integer(dtype, int(value))
    if not math.isfinite(value):
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        whole = f"as_type<float>(0x{bits:08x}u)"
        return whole if dtype is dtypes.float32 else f"{_SCALARS[dtype.name]}({whole})"
    code = f"{float(value)!r}f"
    code = f"({code})" if code.startswith("-") else code
    return code if dtype is dtypes.float32 else f"{_SCALARS[dtype.name]}({code})"


def _integer(dtype: DType, value: int) -> str:
    if value == -(1 << 63):
        return "(-9223372036854775807L - 1)"
    if value == -(1 << 31) and dtype.bits == 32:
        return "(-2147483647 - 1)"
    suffix = {"int64": "L", "uint64": "UL", "uint32": "u"}.get(dtype.name, "")
    code = f"{value}{suffix}"
    if dtype.bits < 32:
        return f"(({_SCALARS[dtype.name]}){code})"
    return f"({code})" if value < 0 else code
