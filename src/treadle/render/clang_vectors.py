"""C with clang's vector extensions: what the text for processors and for AMD's GPUs shares.

A vector is a type of its own, with operators that work lane by lane. In memory it is aligned to one
element only, which is a second type: `float32x4` and `float32x4u`. Each is declared where a program
uses it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ..dtype import DType, dtypes
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Load, Store
from ..lower.linearize import Phase
from .clike import BINARY, COMPARISONS, FUNCTIONS, Function

__all__ = ["SCALARS", "ClangFunction", "declarations"]

SCALARS = {
    "bool": "unsigned char", "int8": "signed char", "uint8": "unsigned char", "int16": "short",
    "uint16": "unsigned short", "int32": "int", "uint32": "unsigned", "int64": "long long",
    "uint64": "unsigned long long", "float16": "_Float16", "float32": "float",
    "float64": "double",
}  # fmt: skip
# Float to integer saturates and gives 0 for NaN: C itself leaves both undefined.
_SATURATE = """\
{inline} {to} saturate_{source}_{target}({of} x) {{
  return x != x ? 0 : x >= {above} ? {most} : x < {least_float} ? {least} : ({to})x;
}}
"""
_LIMITS = {
    "int32": ("2147483648.0", "2147483647", "-2147483648.0", "(-2147483647 - 1)"),
    "int64": (
        "9223372036854775808.0", "9223372036854775807LL", "-9223372036854775808.0",
        "(-9223372036854775807LL - 1)",
    ),
}  # fmt: skip


class ClangFunction(Function):
    """One phase as text for clang."""

    scalars: ClassVar[dict[str, str]] = SCALARS
    inline = "static inline"  # what stands before a function that a program brings along

    def __init__(self, name: str, phase: Phase, variables: Sequence[str]) -> None:
        super().__init__(name, phase, variables)
        self.vectors: set[tuple[str, int]] = set()  # the vector types named, as (kind, lanes)
        self.helpers: set[str] = set()

    def function(self, op: Op, dtype: DType) -> str:
        """The name of a function of FUNCTIONS for scalars."""
        return f"__builtin_{FUNCTIONS[op]}{'' if dtype.bits == 64 else 'f'}"

    def place(self, memory: Node, index: Node) -> str:
        """The address of an element."""
        return f"({self.memory(memory)} + {self.value(index)})"

    def type(self, dtype: DType) -> str:
        if dtype.count == 1:
            return self.scalars[dtype.name]
        return self._named("mask" if dtype.is_bool else dtype.name, dtype.count)

    def _memory_type(self, dtype: DType) -> str:
        """The type for loads and stores, aligned to one element only."""
        if dtype.count == 1:
            return self.scalars[dtype.name]
        return f"{self._named('uint8' if dtype.is_bool else dtype.name, dtype.count)}u"

    def _named(self, kind: str, count: int) -> str:
        self.vectors.add((kind, count))
        return f"{kind}x{count}"

    def literal(self, dtype: DType, value: float) -> str:
        if dtype.is_bool:
            return "1" if value else "0"
        kind = self.scalars[dtype.name]
        if not dtype.is_float:
            return _integer(dtype, kind, int(value))
        if math.isnan(value):
            return f'(({kind})__builtin_nan(""))'
        if math.isinf(value):
            return f"(({kind}){'-' if value < 0 else ''}__builtin_inf())"
        return f"(({kind}){float(value).hex()})"

    def declare(self, dtype: DType, name: str, code: str) -> str:
        return f"{self.type(dtype)} {name} = {code};"

    def declare_register(self, dtype: DType, name: str) -> str:
        return f"  {self.type(dtype)} {name};"

    # -- memory ---------------------------------------------------------------------------------

    def load(self, node: Node) -> str:
        load = Load.of(node)
        at = self.place(load.memory, load.index)
        if not load.is_gated:
            return self.let(load.dtype, self._loaded(load.dtype, at))
        gate, other, dtype = self.value(load.gate), self.value(load.other), load.dtype
        if load.gate.dtype.count == 1:
            return self.let(dtype, f"{gate} ? {self._loaded(dtype, at)} : {other}")
        lanes = []
        for i in range(dtype.count):
            lane = f"({at}[{i}] ? -1 : 0)" if dtype.is_bool else f"{at}[{i}]"
            lanes.append(f"{gate}[{i}] ? {lane} : {other}[{i}]")
        return self.let(dtype, f"({self.type(dtype)}){{{', '.join(lanes)}}}")

    def _loaded(self, dtype: DType, at: str) -> str:
        if dtype.count == 1:
            return f"*{at} != 0" if dtype.is_bool else f"*{at}"
        loaded = f"*(const {self._memory_type(dtype)} *){at}"
        if not dtype.is_bool:
            return loaded
        return f"__builtin_convertvector(({loaded}) != 0, {self.type(dtype)})"

    def store(self, node: Node) -> None:
        store = Store.of(node)
        at = self.place(store.memory, store.index)
        stored, dtype = self.value(store.value), store.value.dtype
        if store.gate.dtype.count > 1:
            for i in range(dtype.count):
                lane = self.lane(dtype, stored, i)
                self.line(f"if ({self.value(store.gate)}[{i}]) {at}[{i}] = {lane};")
            return
        guard = f"if ({self.value(store.gate)}) " if store.is_gated else ""
        if dtype.count == 1:
            self.line(f"{guard}*{at} = {stored};")
            return
        kind = self._memory_type(dtype)
        if dtype.is_bool:
            stored = f"({kind})({stored} & 1)"
        self.line(f"{guard}*({kind} *){at} = {stored};")

    # -- vectors --------------------------------------------------------------------------------

    def vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        if dtype.is_bool:
            lanes = [f"({lane} ? -1 : 0)" for lane in lanes]
        return f"(({self.type(dtype)}){{{', '.join(lanes)}}})"

    def lane(self, dtype: DType, value: str, number: int) -> str:
        return f"({value}[{number}] != 0)" if dtype.is_bool else f"{value}[{number}]"

    def splat(self, dtype: DType, value: str) -> str:
        if dtype.is_bool:
            value = f"(signed char)({value} ? -1 : 0)"
        return f"(({self.type(dtype)})({value}))"

    # -- arithmetic -----------------------------------------------------------------------------

    def bitcast(self, source: DType, target: DType, value: str) -> str:
        return (
            f"({{ {self.type(source)} a = {value}; {self.type(target)} b; "
            "__builtin_memcpy(&b, &a, sizeof b); b; })"
        )

    def negate(self, dtype: DType, value: str) -> str:
        return f"(({self.type(dtype)})(-{value}))"

    def select(self, dtype: DType, mask: str, yes: str, no: str) -> str:
        if dtype.count == 1:
            return f"{mask} ? {yes} : {no}"
        if dtype.is_bool:
            return f"({mask} & {yes}) | (~{mask} & {no})"
        bits = getattr(dtypes, f"int{dtype.bits}").vec(dtype.count)
        kind, whole = self.type(bits), self.type(dtype)
        wide = f"__builtin_convertvector({mask}, {kind})"
        return f"({whole})((({kind}){yes} & {wide}) | (({kind}){no} & ~{wide}))"

    def compare(self, op: Op, dtype: DType, a: str, b: str) -> str:
        code = f"{a} {COMPARISONS[op]} {b}"
        if dtype.count == 1:
            return f"({code})"
        if dtype.is_bool and op is Op.CMPLT:  # -1 is true: as numbers the order turns round
            code = f"{b} < {a}"
        return f"__builtin_convertvector({code}, {self.type(dtypes.bool.vec(dtype.count))})"

    def call(self, op: Op, dtype: DType, values: list[str]) -> str:
        return self.lane_by_lane(self.function(op, dtype.scalar), dtype, *values)

    def lane_by_lane(self, name: str, dtype: DType, *values: str) -> str:
        """A function of scalars on each lane."""
        if dtype.count == 1:
            return f"{name}({', '.join(values)})"
        lanes = (
            f"{name}({', '.join(f'{value}[{i}]' for value in values)})" for i in range(dtype.count)
        )
        return f"({self.type(dtype)}){{{', '.join(lanes)}}}"

    def binary(self, op: Op, dtype: DType, a: str, b: str) -> str:
        if op in (Op.MAX, Op.MIN):
            return self._extreme(op, dtype, a, b)
        if dtype.is_bool and op in (Op.ADD, Op.MUL):
            op = Op.OR if op is Op.ADD else Op.AND
        return f"({self.type(dtype)})({a} {BINARY[op]} {b})"

    def _extreme(self, op: Op, dtype: DType, a: str, b: str) -> str:
        """The larger or smaller; a NaN on either side wins."""
        if dtype.is_bool:
            return f"({a} {'|' if op is Op.MAX else '&'} {b})"
        sign = "<" if op is Op.MAX else ">"
        if dtype.count == 1:
            best = f"({a} {sign} {b} ? {b} : {a})"
            return f"({b} != {b} ? {b} : {best})" if dtype.is_float else best
        mask = self.type(dtypes.bool.vec(dtype.count))
        best = self.select(dtype, f"__builtin_convertvector({a} {sign} {b}, {mask})", b, a)
        if not dtype.is_float:
            return best
        broken = f"__builtin_convertvector({b} != {b}, {mask})"
        return self.select(dtype, broken, b, f"({best})")

    def cast(self, source: DType, target: DType, value: str) -> str:
        kind = self.type(target)
        if source.is_float and target.is_int:
            return self._saturating(source, target, value)
        if source.count == 1:
            return f"({value} != 0)" if target.is_bool else f"({kind}){value}"
        if target.is_bool:
            return f"__builtin_convertvector({value} != 0, {kind})"
        converted = f"__builtin_convertvector({value}, {kind})"
        return f"({kind})(-{converted})" if source.is_bool else converted

    def _saturating(self, source: DType, target: DType, value: str) -> str:
        above, most, least_float, least = _LIMITS[target.name]
        function = f"saturate_{source.name}_{target.name}"
        self.helpers.add(
            _SATURATE.format(
                inline=self.inline, to=self.scalars[target.name], of=self.scalars[source.name],
                source=source.name, target=target.name, above=above, most=most,
                least_float=least_float, least=least,
            )
        )  # fmt: skip
        if source.count == 1:
            return f"{function}({value})"
        lanes = ", ".join(f"{function}({value}[{i}])" for i in range(source.count))
        return f"({self.type(target)}){{{lanes}}}"


def _integer(dtype: DType, kind: str, value: int) -> str:
    if value == -(1 << 63):
        return "(-9223372036854775807LL - 1)"
    suffix = "ULL" if dtype.is_unsigned else "LL"
    return f"(({kind}){value}{suffix})"


def declarations(functions: Sequence[ClangFunction]) -> list[str]:
    """The types and the functions that these functions use."""
    scalars = functions[0].scalars | {"mask": "signed char"}
    vectors: set[tuple[str, int]] = set().union(*(function.vectors for function in functions))
    helpers: set[str] = set().union(*(function.helpers for function in functions))
    return [*_typedefs(scalars, vectors), *sorted(helpers)]


def _typedefs(scalars: Mapping[str, str], vectors: set[tuple[str, int]]) -> list[str]:
    """Each type of vector, as it is in registers and as it is in memory."""
    lines = []
    for kind, count in sorted(vectors):
        size = 1 if kind == "mask" else getattr(dtypes, kind).itemsize
        for suffix, aligned in (("", ""), ("u", f", aligned({size})")):
            shape = f"__attribute__((ext_vector_type({count}){aligned}))"
            lines.append(f"typedef {scalars[kind]} {kind}x{count}{suffix} {shape};")
    return lines
