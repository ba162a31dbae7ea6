"""Linear programs to freestanding C for clang, with its vector extensions.

Each phase becomes `void name(void **args, long long *vars, long long begin, long long end)`, as in
render/llvm.py. No header is included and nothing is linked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..dtype import DType, dtypes
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Load, Store
from ..lower.linearize import Phase
from .clike import BINARY, COMPARISONS, FUNCTIONS, Function

__all__ = ["CRenderer"]

_SCALARS = {
    "bool": "unsigned char", "int8": "signed char", "uint8": "unsigned char", "int16": "short",
    "uint16": "unsigned short", "int32": "int", "uint32": "unsigned", "int64": "long long",
    "uint64": "unsigned long long", "float16": "_Float16", "float32": "float",
    "float64": "double",
}  # fmt: skip
# Float to integer saturates and gives 0 for NaN: C itself leaves both undefined.
_SATURATE = """\
static inline {to} saturate_{source}_{target}({of} x) {{
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


def _type_name(dtype: DType) -> str:
    if dtype.count == 1:
        return _SCALARS[dtype.name]
    return f"{'mask' if dtype.is_bool else dtype.name}x{dtype.count}"


def _memory_type(dtype: DType) -> str:
    """The type for loads and stores, aligned to one element only."""
    if dtype.count == 1:
        return _SCALARS[dtype.name]
    return f"{'uint8' if dtype.is_bool else dtype.name}x{dtype.count}u"


def _typedef(name: str, count: int, aligned: bool) -> str:
    scalar = "signed char" if name == "mask" else _SCALARS[name]
    size = dtypes.int8.itemsize if name == "mask" else getattr(dtypes, name).itemsize
    extra = "" if aligned else f", aligned({size})"
    suffix = "" if aligned else "u"
    return (
        f"typedef {scalar} {name}x{count}{suffix} __attribute__((ext_vector_type({count}){extra}));"
    )


class CRenderer:
    """Prints translation units for clang; `contract` lets multiply and add fuse."""

    name = "C"

    def __init__(self, contract: bool = True) -> None:
        self.contract = contract

    def render(self, name: str, phases: Sequence[Phase], variables: Sequence[str]) -> str:
        """A translation unit with one function a phase, called `name_0`, `name_1`, ..."""
        functions = [
            _CFunction(f"{name}_{number}", phase, variables) for number, phase in enumerate(phases)
        ]
        bodies = [function.text() for function in functions]
        vectors = sorted(set().union(*(function.vectors for function in functions)))
        lines = [f"#pragma clang fp contract({'fast' if self.contract else 'off'})"]
        for kind, count in vectors:
            lines += [_typedef(kind, count, True), _typedef(kind, count, False)]
        helpers = {text for function in functions for text in function.helpers}
        return "\n".join([*lines, *sorted(helpers), *bodies])


class _CFunction(Function):
    language = "C"

    def __init__(self, name: str, phase: Phase, variables: Sequence[str]) -> None:
        super().__init__(name, phase, variables)
        self.vectors: set[tuple[str, int]] = set()  # the vector types named, as (kind, lanes)
        self.helpers: set[str] = set()

    def header(self) -> list[str]:
        arguments = "void **restrict args, const long long *restrict vars"
        return [f"void {self.name}({arguments}, long long begin, long long end) {{"]

    def type(self, dtype: DType) -> str:
        if dtype.count > 1:
            self.vectors.add(("mask" if dtype.is_bool else dtype.name, dtype.count))
        return _type_name(dtype)

    def _memory_type(self, dtype: DType) -> str:
        if dtype.count > 1:
            self.vectors.add(("uint8" if dtype.is_bool else dtype.name, dtype.count))
        return _memory_type(dtype)

    def literal(self, dtype: DType, value: float) -> str:
        return _literal(dtype, value)

    def declare(self, dtype: DType, name: str, code: str) -> str:
        return f"{self.type(dtype)} {name} = {code};"

    def declare_register(self, dtype: DType, name: str) -> str:
        return f"  {self.type(dtype)} {name};"

    def declare_memory(self, node: Node) -> tuple[str, list[str]]:
        kind = _SCALARS[node.dtype.name]
        if node.op is Op.LOCAL:
            name = f"local{node.arg.number}"
            return name, [f"  _Alignas(64) {kind} {name}[{node.arg.size}];"]
        name = f"arg{node.arg.slot}"
        return name, [f"  {kind} *restrict {name} = args[{node.arg.slot}];"]

    def loop(self, name: str, dtype: DType, count: str) -> str:
        return f"for (long long {name} = 0; {name} < {count}; {name}++)"

    def grid_step(self) -> str:
        if not self.grid_open:
            self.grid_open = True
            self.open("for (long long item = begin; item < end; item++)")
        return "item"

    def variable(self, number: int) -> str:
        return f"vars[{number}]"

    # -- memory ---------------------------------------------------------------------------------

    def load(self, node: Node) -> str:
        load = Load.of(node)
        at = f"({self.memory(load.memory)} + {self.value(load.index)})"
        if load.is_gated:
            return self._gated_load(load, at)
        if node.dtype.count == 1:
            return self.let(node.dtype, f"*{at} != 0" if node.dtype.is_bool else f"*{at}")
        loaded = f"*(const {self._memory_type(node.dtype)} *){at}"
        if node.dtype.is_bool:
            loaded = f"__builtin_convertvector(({loaded}) != 0, {self.type(node.dtype)})"
        return self.let(node.dtype, loaded)

    def _line(self, node: Node) -> str:
        memory, index, gate = node.src
        kind = self.type(node.dtype)
        zeros = f"zeros_{node.dtype.name}_{node.arg}"
        self.helpers.add(f"static const {kind} {zeros}[{node.arg}];")
        self.counter += 1
        name, start = f"line{self.counter}", f"{self.memory(memory)} + {self.value(index)}"
        self.line(f"const {kind} *{name} = {self.value(gate)} ? {start} : {zeros};")
        return name

    def _gated_load(self, load: Load, at: str) -> str:
        gate, other, dtype = self.value(load.gate), self.value(load.other), load.dtype
        if dtype.count == 1:
            loaded = f"*{at} != 0" if dtype.is_bool else f"*{at}"
            return self.let(dtype, f"{gate} ? {loaded} : {other}")
        vector_gate = load.gate.dtype.count > 1
        lanes = []
        for i in range(dtype.count):
            lane = f"{at}[{i}]"
            if dtype.is_bool:
                lane = f"({lane} ? -1 : 0)"
            held = f"{gate}[{i}]" if vector_gate else gate
            lanes.append(f"{held} ? {lane} : {other}[{i}]")
        return self.let(dtype, f"({self.type(dtype)}){{{', '.join(lanes)}}}")

    def _prefetch(self, node: Node) -> None:
        memory, index = node.src
        place = f"{self.memory(memory)} + {self.value(index)}"
        self.line(f"__builtin_prefetch({place}, 0, {4 - node.arg});")

    def store(self, node: Node) -> None:
        store = Store.of(node)
        at = f"({self.memory(store.memory)} + {self.value(store.index)})"
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
        return f"({self.type(dtype)})(-{value})"

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
        name = f"__builtin_{FUNCTIONS[op]}{'' if dtype.bits == 64 else 'f'}"
        if dtype.count == 1:
            return f"{name}({', '.join(values)})"
        lanes = (
            f"{name}({', '.join(f'{value}[{i}]' for value in values)})" for i in range(dtype.count)
        )
        return f"({self.type(dtype)}){{{', '.join(lanes)}}}"

    def _scale(self, node: Node) -> str:
        value, exponent = (self.value(source) for source in node.src)
        name = f"__builtin_ia32_scalef{'ps' if node.dtype.bits == 32 else 'pd'}512_mask"
        return self.let(node.dtype, f"{name}({value}, {exponent}, {value}, -1, 4)")

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
                to=_SCALARS[target.name], of=_SCALARS[source.name], source=source.name,
                target=target.name, above=above, most=most, least_float=least_float, least=least,
            )
        )  # fmt: skip
        if source.count == 1:
            return f"{function}({value})"
        lanes = ", ".join(f"{function}({value}[{i}])" for i in range(source.count))
        return f"({self.type(target)}){{{lanes}}}"


def _literal(dtype: DType, value: float) -> str:
    if dtype.is_bool:
        return "1" if value else "0"
    if not dtype.is_float:
        return _integer(dtype, int(value))
    kind = _SCALARS[dtype.name]
    if math.isnan(value):
        return f'(({kind})__builtin_nan(""))'
    if math.isinf(value):
        return f"(({kind}){'-' if value < 0 else ''}__builtin_inf())"
    return f"(({kind}){float(value).hex()})"


def _integer(dtype: DType, value: int) -> str:
    if value == -(1 << 63):
        return "(-9223372036854775807LL - 1)"
    suffix = "ULL" if dtype.is_unsigned else "LL"
    return f"(({_SCALARS[dtype.name]}){value}{suffix})"
