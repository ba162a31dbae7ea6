"""Linear programs to freestanding C for clang, with its vector extensions.

Each phase becomes `void name(void **args, long long *vars, long long begin, long long end)`, as in
render/llvm.py. No header is included and nothing is linked.

One surprise: a vector of bools is a vector of signed chars, 0 or -1, so that it can be widened to
a mask of any lane width; a single bool is 0 or 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..dtype import DType, dtypes
from ..errors import InternalError
from ..ir.node import Node
from ..ir.op import ALU, COMPARE, Op
from ..lower.linearize import Phase

__all__ = ["CRenderer"]

_SCALARS = {
    "bool": "unsigned char", "int8": "signed char", "uint8": "unsigned char", "int16": "short",
    "uint16": "unsigned short", "int32": "int", "uint32": "unsigned", "int64": "long long",
    "uint64": "unsigned long long", "float16": "_Float16", "float32": "float",
    "float64": "double",
}  # fmt: skip
_BINARY = {
    Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.FDIV: "/", Op.IDIV: "/", Op.MOD: "%", Op.AND: "&",
    Op.OR: "|", Op.XOR: "^", Op.SHL: "<<", Op.SHR: ">>",
}  # fmt: skip
_COMPARE = {Op.CMPLT: "<", Op.CMPEQ: "==", Op.CMPNE: "!="}
_FUNCTIONS = {
    Op.SQRT: "sqrt", Op.FLOOR: "floor", Op.CEIL: "ceil", Op.TRUNC: "trunc", Op.ROUND: "rint",
    Op.FMA: "fma",
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


def type_name(dtype: DType) -> str:
    """The C type of a dtype in registers; vectors are typedefs made by `_typedef`."""
    scalar = _SCALARS[dtype.name]
    if dtype.count == 1:
        return scalar
    return f"{'mask' if dtype.is_bool else dtype.name}x{dtype.count}"


def memory_type(dtype: DType) -> str:
    """The C type for loads and stores, aligned to one element only."""
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
            _Function(f"{name}_{number}", phase, variables) for number, phase in enumerate(phases)
        ]
        bodies = [function.text() for function in functions]
        counts = {f.used for f in functions}
        vectors = sorted({pair for used in counts for pair in used})
        lines = [f"#pragma clang fp contract({'fast' if self.contract else 'off'})"]
        for kind, count in vectors:
            lines += [_typedef(kind, count, True), _typedef(kind, count, False)]
        helpers = {text for function in functions for text in function.helpers}
        return "\n".join([*lines, *sorted(helpers), *bodies])


class _Function:
    def __init__(self, name: str, phase: Phase, variables: Sequence[str]) -> None:
        self.name, self.phase, self.variables = name, phase, list(variables)
        self.names: dict[Node, str] = {}
        self.top: list[str] = []
        self.lines: list[str] = []
        self.vectors: set[tuple[str, int]] = set()
        self.helpers: set[str] = set()
        self.counter = 0
        self.depth = 1
        self.grid_open = False

    @property
    def used(self) -> frozenset[tuple[str, int]]:
        """The vector types that the body names, as (kind, lanes)."""
        return frozenset(self.vectors)

    def text(self) -> str:
        for node in self.phase.program.src:
            self.node(node)
        if self.grid_open:
            self.close()
        header = (
            f"void {self.name}(void **restrict args, const long long *restrict vars, "
            "long long begin, long long end) {"
        )
        return "\n".join([header, *self.top, *self.lines, "}", ""])

    # -- text -----------------------------------------------------------------------------------

    def line(self, code: str) -> None:
        self.lines.append("  " * self.depth + code)

    def open(self, code: str) -> None:
        self.line(code + " {")
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.line("}")

    def type(self, dtype: DType) -> str:
        """The register type, noted down for its typedef."""
        if dtype.count > 1:
            self.vectors.add(("mask" if dtype.is_bool else dtype.name, dtype.count))
        return type_name(dtype)

    def memory(self, dtype: DType) -> str:
        """The memory type, noted down for its typedef."""
        if dtype.count > 1:
            self.vectors.add(("uint8" if dtype.is_bool else dtype.name, dtype.count))
        return memory_type(dtype)

    def let(self, dtype: DType, code: str) -> str:
        """A new variable with the value `code`."""
        self.counter += 1
        name = f"v{self.counter}"
        self.line(f"{self.type(dtype)} {name} = {code};")
        return name

    def value(self, node: Node) -> str:
        if node.op is Op.CONST:
            return literal(node.dtype, node.arg)
        if node.op is Op.LANES:
            lanes = ", ".join(str(i) for i in range(node.dtype.count))
            return f"(({self.type(node.dtype)}){{{lanes}}})"
        if node.op is Op.BROADCAST and node not in self.names:
            return self._splat(node.dtype, self.value(node.src[0]))
        if node.op in (Op.PARAM, Op.LOCAL):
            return self.pointer(node)
        return self.names[node]

    def _splat(self, dtype: DType, value: str) -> str:
        if dtype.is_bool:
            value = f"(signed char)({value} ? -1 : 0)"
        return f"(({self.type(dtype)})({value}))"

    def pointer(self, node: Node) -> str:
        while node.op is Op.AFTER:
            node = node.src[0]
        if node not in self.names:
            kind = _SCALARS[node.dtype.name]
            if node.op is Op.LOCAL:
                name = f"local{node.arg.number}"
                self.top.append(f"  _Alignas(64) {kind} {name}[{node.arg.size}];")
            else:
                name = f"arg{node.arg.slot}"
                self.top.append(f"  {kind} *restrict {name} = args[{node.arg.slot}];")
            self.names[node] = name
        return self.names[node]

    def node(self, node: Node) -> None:
        """Print one node of the program."""
        if node.op in (Op.CONST, Op.LANES, Op.PARAM, Op.LOCAL):
            return
        if node.op in ALU:
            self.names[node] = self.let(node.dtype, self._alu(node))
            return
        method = getattr(self, f"_{node.op.name.lower()}", None)
        if method is None:
            raise InternalError(f"the C renderer has no {node.op.name}")
        name = method(node)
        if name is not None:
            self.names[node] = name

    # -- loops and registers --------------------------------------------------------------------

    def _range(self, node: Node) -> str:
        self.counter += 1
        if node.arg.kind == "grid":
            return self._grid(node)
        name = f"i{self.counter}"
        self.open(f"for (long long {name} = 0; {name} < {self.value(node.src[0])}; {name}++)")
        return name

    def _end(self, node: Node) -> None:
        self.close()

    def _grid(self, node: Node) -> str:
        if not self.grid_open:
            self.grid_open = True
            self.open("for (long long item = begin; item < end; item++)")
        inner = self.phase.grid[self.phase.grid.index(node) + 1 :]
        code = " / ".join(["item", *(self.value(r.src[0]) for r in inner)])
        if node is not self.phase.grid[0]:
            code = f"({code}) % {self.value(node.src[0])}"
        return self.let(dtypes.int64, code)

    def _variable(self, node: Node) -> str:
        return f"vars[{self.variables.index(node.arg.name)}]"

    def _register(self, node: Node) -> str:
        name = f"reg{node.arg.number}"
        self.top.append(f"  {self.type(node.dtype)} {name};")
        self.line(f"{name} = {self.value(node.src[0])};")
        return name

    def _update(self, node: Node) -> None:
        register, value = node.src[:2]
        name = self.names[register]
        code = self._binary(node.arg, register.dtype, name, self.value(value))
        self.line(f"{name} = {code};")

    def _after(self, node: Node) -> str:
        if node.src[0].op is Op.REGISTER:
            return self.let(node.dtype, self.names[node.src[0]])
        return self.pointer(node.src[0])

    # -- memory ---------------------------------------------------------------------------------

    def _load(self, node: Node) -> str:
        memory, index = node.src[:2]
        at = f"({self.pointer(memory)} + {self.value(index)})"
        if len(node.src) == 4:
            return self._gated_load(node, at)
        if node.dtype.count == 1:
            return self.let(node.dtype, f"*{at}")
        loaded = f"*(const {self.memory(node.dtype)} *){at}"
        if node.dtype.is_bool:
            loaded = f"__builtin_convertvector(({loaded}) != 0, {self.type(node.dtype)})"
        return self.let(node.dtype, loaded)

    def _gated_load(self, node: Node, at: str) -> str:
        gate, other = self.value(node.src[2]), self.value(node.src[3])
        if node.dtype.count == 1:
            return self.let(node.dtype, f"{gate} ? *{at} : {other}")
        vector_gate = node.src[2].dtype.count > 1
        lanes = []
        for i in range(node.dtype.count):
            lane = f"{at}[{i}]"
            if node.dtype.is_bool:
                lane = f"({lane} ? -1 : 0)"
            held = f"{gate}[{i}]" if vector_gate else gate
            lanes.append(f"{held} ? {lane} : {other}[{i}]")
        return self.let(node.dtype, f"({self.type(node.dtype)}){{{', '.join(lanes)}}}")

    def _store(self, node: Node) -> None:
        memory, index, value = node.src[:3]
        at = f"({self.pointer(memory)} + {self.value(index)})"
        stored, dtype = self.value(value), value.dtype
        gate = node.src[3] if len(node.src) == 4 else None
        if gate is not None and gate.dtype.count > 1:
            for i in range(dtype.count):
                lane = f"({stored}[{i}] != 0)" if dtype.is_bool else f"{stored}[{i}]"
                self.line(f"if ({self.value(gate)}[{i}]) {at}[{i}] = {lane};")
            return
        guard = "" if gate is None else f"if ({self.value(gate)}) "
        if dtype.count == 1:
            self.line(f"{guard}*{at} = {stored};")
            return
        kind = self.memory(dtype)
        if dtype.is_bool:
            stored = f"({kind})({stored} & 1)"
        self.line(f"{guard}*({kind} *){at} = {stored};")

    # -- vectors --------------------------------------------------------------------------------

    def _broadcast(self, node: Node) -> str:
        return self.let(node.dtype, self._splat(node.dtype, self.value(node.src[0])))

    def _stack(self, node: Node) -> str:
        lanes = [self.value(s) for s in node.src]
        if node.dtype.is_bool:
            lanes = [f"({lane} ? -1 : 0)" for lane in lanes]
        return self.let(node.dtype, f"({self.type(node.dtype)}){{{', '.join(lanes)}}}")

    def _extract(self, node: Node) -> str:
        lane = f"{self.value(node.src[0])}[{node.arg}]"
        return self.let(node.dtype, f"({lane} != 0)" if node.dtype.is_bool else lane)

    def _hreduce(self, node: Node) -> str:
        """All lanes, halves combined again and again, in the same order as in render/llvm.py."""
        source = node.src[0]
        dtype = source.dtype.scalar
        lanes = []
        for i in range(source.dtype.count):
            lane = f"{self.value(source)}[{i}]"
            lanes.append(f"({lane} != 0)" if dtype.is_bool else lane)
        while len(lanes) > 1:
            half = len(lanes) // 2
            pairs = zip(lanes[:half], lanes[half:], strict=True)
            lanes = [self.let(dtype, self._binary(node.arg, dtype, a, b)) for a, b in pairs]
        return lanes[0]

    # -- arithmetic -----------------------------------------------------------------------------

    def _alu(self, node: Node) -> str:
        op, dtype = node.op, node.dtype
        values = [self.value(s) for s in node.src]
        if op is Op.CAST:
            return self._cast(node.src[0].dtype, dtype, values[0])
        if op is Op.BITCAST:
            source, target = self.type(node.src[0].dtype), self.type(dtype)
            return (
                f"({{ {source} a = {values[0]}; {target} b; "
                "__builtin_memcpy(&b, &a, sizeof b); b; })"
            )
        if op is Op.NEG:
            return f"({self.type(dtype)})(-{values[0]})"
        if op is Op.WHERE:
            return self._select(dtype, *values)
        if op in _FUNCTIONS:
            return self._call(op, dtype, values)
        if op in COMPARE:
            return self._compare(op, node.src[0].dtype, values)
        return self._binary(op, dtype, *values)

    def _select(self, dtype: DType, mask: str, yes: str, no: str) -> str:
        if dtype.count == 1:
            return f"{mask} ? {yes} : {no}"
        if dtype.is_bool:
            return f"({mask} & {yes}) | (~{mask} & {no})"
        bits = getattr(dtypes, f"int{dtype.bits}").vec(dtype.count)
        kind, whole = self.type(bits), self.type(dtype)
        wide = f"__builtin_convertvector({mask}, {kind})"
        return f"({whole})((({kind}){yes} & {wide}) | (({kind}){no} & ~{wide}))"

    def _compare(self, op: Op, dtype: DType, values: list[str]) -> str:
        code = f"{values[0]} {_COMPARE[op]} {values[1]}"
        if dtype.count == 1:
            return f"({code})"
        if dtype.is_bool and op is Op.CMPLT:  # -1 is true: as numbers the order turns round
            code = f"{values[1]} < {values[0]}"
        return f"__builtin_convertvector({code}, {self.type(dtypes.bool.vec(dtype.count))})"

    def _call(self, op: Op, dtype: DType, values: list[str]) -> str:
        name = f"__builtin_{_FUNCTIONS[op]}{'' if dtype.bits == 64 else 'f'}"
        if dtype.count == 1:
            return f"{name}({', '.join(values)})"
        lanes = (
            f"{name}({', '.join(f'{value}[{i}]' for value in values)})" for i in range(dtype.count)
        )
        return f"({self.type(dtype)}){{{', '.join(lanes)}}}"

    def _binary(self, op: Op, dtype: DType, a: str, b: str) -> str:
        if op in (Op.MAX, Op.MIN):
            return self._extreme(op, dtype, a, b)
        if dtype.is_bool and op in (Op.ADD, Op.MUL):
            op = Op.OR if op is Op.ADD else Op.AND
        return f"({self.type(dtype)})({a} {_BINARY[op]} {b})"

    def _extreme(self, op: Op, dtype: DType, a: str, b: str) -> str:
        """The larger or smaller; a NaN on either side wins."""
        if dtype.is_bool:
            return f"({a} {'|' if op is Op.MAX else '&'} {b})"
        sign = "<" if op is Op.MAX else ">"
        if dtype.count == 1:
            best = f"({a} {sign} {b} ? {b} : {a})"
            return f"({b} != {b} ? {b} : {best})" if dtype.is_float else best
        mask = self.type(dtypes.bool.vec(dtype.count))
        best = self._select(dtype, f"__builtin_convertvector({a} {sign} {b}, {mask})", b, a)
        if not dtype.is_float:
            return best
        broken = f"__builtin_convertvector({b} != {b}, {mask})"
        return self._select(dtype, broken, b, f"({best})")

    def _cast(self, source: DType, target: DType, value: str) -> str:
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


def literal(dtype: DType, value: Any) -> str:
    """A scalar constant as C writes it."""
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
