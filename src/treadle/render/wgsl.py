"""Linear programs to WGSL.

Each phase becomes a compute entry point with bindings of its own, numbered from 0: one for each
piece of memory that it uses (wgsl_memory.py), in the order of the slots, then one uniform with the
launch-time integers. A slice of the grid is a workgroup.

WGSL has 32-bit numbers and perhaps halves. Smaller integers are kept wrapped in 32 bits. 64-bit
integers are pairs of words: wgsl_int64.py computes with them. A vector of them is an
array, and each lane is computed by itself.

One surprise: an expression of constants may not overflow, divide by zero, or be infinite or NaN. So
one of the constants gets a name, which makes it a running shader's business; infinity and NaN come
from bits; and NaN is recognised by its bits, since `x != x` may be optimised away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from ..dtype import DType, dtypes
from ..errors import InternalError
from ..ir.loops import loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import operand
from ..lower.linearize import Phase
from ..target import Target
from .base import PhaseRenderer
from .clike import BINARY, COMPARISONS, FUNCTIONS
from .wgsl_int64 import int64_helpers
from .wgsl_memory import WORD_BITS, WGSLMemory, is_pair

__all__ = ["WGSLRenderer"]

_LANES = "xyzw"
# Work items of a subgroup are counted: there may be fewer than its size says.
_WORK_ITEMS = {
    "work_item": "i32(work_item)",
    "lane": "i32(subgroupExclusiveAdd(1u))",
    "lanes": "i32(subgroupAdd(1u))",
}
_COMBINED = {Op.ADD: "Add", Op.MAX: "Max", Op.MIN: "Min"}
_ANY_OR_ALL = {Op.ADD: "Any", Op.MAX: "Any", Op.MUL: "All", Op.MIN: "All"}
_CALLS = {**FUNCTIONS, Op.ROUND: "round"}
_HELPERS = {
    "is_nan": """\
fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }
""",
    "saturate_int32": """\
fn saturate_int32(x: f32) -> i32 {
  if ((bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u) { return 0i; }
  if (x >= 2147483648.0f) { return 2147483647i; }
  if (x <= -2147483648.0f) { return i32(-2147483648); }
  return i32(x);
}
""",
    "from_bits": """\
var<private> infinity_bits: u32 = 0x7f800000u;
fn from_bits(offset: u32) -> f32 { return bitcast<f32>(infinity_bits + offset); }
""",
}
# Added to the bits of infinity; the sum wraps.
_NEGATIVE, _NAN, _NEGATIVE_ZERO = "0x80000000u", "0x00400000u", "0x00800000u"


class WGSLRenderer(PhaseRenderer["_WGSLFunction"]):
    """Prints modules for one adapter; `contract` is the driver's choice, whatever is asked for."""

    name = "WGSL"

    def function(self, name: str, phase: Phase, number: int) -> _WGSLFunction:
        return _WGSLFunction(name, phase, self.target, f"p{number}_")

    def module(self, functions: Sequence[_WGSLFunction], bodies: Sequence[str]) -> str:
        helpers: set[str] = set().union(*(function.helpers for function in functions))
        lines = ["enable f16;"] if any(function.uses_half for function in functions) else []
        lines += ["enable subgroups;"] if any(f.uses_subgroups for f in functions) else []
        lines += [_HELPERS[key] for key in sorted(helpers & _HELPERS.keys())]
        lines += int64_helpers(helpers - _HELPERS.keys())
        for function in functions:
            lines += function.module
        return "\n".join([*lines, *bodies])


def _register(dtype: DType) -> str:
    """The type of one value in registers."""
    if dtype.is_bool:
        return "bool"
    if is_pair(dtype):
        return "vec2<u32>"
    if dtype.is_int:
        return "u32" if dtype.is_unsigned else "i32"
    if dtype.bits == 64:
        raise InternalError("WGSL has no float64")
    return f"f{dtype.bits}"


class _WGSLFunction(WGSLMemory):
    language = "WGSL"

    def __init__(self, name: str, phase: Phase, target: Target, prefix: str) -> None:
        self.helpers: set[str] = set()
        self.uses_half = self.uses_subgroups = False
        super().__init__(name, phase, target, prefix)
        if self.variables:
            count = -(-len(self.variables) // 4)
            kind = f"array<vec4<i32>, {count}>"
            self.module.append(
                f"@group(0) @binding({self.bindings}) var<uniform> {prefix}vars: {kind};"
            )

    def header(self) -> list[str]:
        workgroups = loop_size(*self.phase.grid)
        arguments = (
            "@builtin(workgroup_id) workgroup_id: vec3<u32>",
            "@builtin(num_workgroups) workgroup_counts: vec3<u32>",
            "@builtin(local_invocation_index) work_item: u32",
        )
        return [
            f"@compute @workgroup_size({self.phase.work_items})",
            f"fn {self.name}({', '.join(arguments)}) {{",
            "  let grid_step = i32(workgroup_id.x + workgroup_id.y * workgroup_counts.x);",
            f"  if (grid_step >= {workgroups}i) {{ return; }}",
        ]

    # -- types ----------------------------------------------------------------------------------

    def type(self, dtype: DType) -> str:
        self.uses_half |= dtype.is_float and dtype.bits == 16
        scalar = _register(dtype.scalar)
        if dtype.count == 1:
            return scalar
        if dtype.count > len(_LANES):
            raise InternalError(f"WGSL has no vectors of {dtype.count} lanes")
        if is_pair(dtype):
            return f"array<{scalar}, {dtype.count}>"
        return f"vec{dtype.count}<{scalar}>"

    def literal(self, dtype: DType, value: float) -> str:
        if dtype.is_bool:
            return "true" if value else "false"
        if dtype.is_float:
            return self._float(dtype, float(value))
        value = int(value)
        if dtype.bits == 64:
            return f"vec2<u32>({value & 0xFFFFFFFF}u, {value >> 32 & 0xFFFFFFFF}u)"
        if dtype.is_unsigned:
            return f"{value}u"
        return f"{value}i" if value >= 0 else f"i32({value})"

    def _float(self, dtype: DType, value: float) -> str:
        self.type(dtype)
        is_negative_zero = value == 0 and math.copysign(1, value) < 0  # its sign gets lost
        if math.isfinite(value) and not is_negative_zero:
            code = f"{value.hex()}{'f' if dtype.bits == 32 else 'h'}"
            return f"({code})" if code.startswith("-") else code
        offset = _NAN if math.isnan(value) else _NEGATIVE if value < 0 else "0u"
        code = f"{self._help('from_bits')}({_NEGATIVE_ZERO if is_negative_zero else offset})"
        return code if dtype.bits == 32 else f"f16({code})"

    def declare(self, dtype: DType, name: str, code: str) -> str:
        return f"let {name}: {self.type(dtype)} = {code};"

    def declare_register(self, dtype: DType, name: str) -> str:
        return f"  var {name}: {self.type(dtype)};"

    def loop(self, name: str, dtype: DType, count: str) -> str:
        return f"for (var {name}: {self.type(dtype)} = 0; {name} < {count}; {name}++)"

    def grid_step(self) -> str:
        return "grid_step"

    def variable(self, number: int) -> str:
        return f"{self.prefix}vars[{number // 4}].{_LANES[number % 4]}"

    def _work_item(self, node: Node) -> str:
        self.uses_subgroups |= node.arg.name != "work_item"
        return self.let(node.dtype, _WORK_ITEMS[node.arg.name])

    def _subgroup(self, node: Node) -> str:
        dtype, (value,) = node.dtype, self.operands(node)
        if dtype.is_bool:
            return self.let(dtype, f"subgroup{_ANY_OR_ALL[node.arg]}({value})")
        code = f"subgroup{_COMBINED[node.arg]}({value})"
        if dtype.is_float and node.arg in (Op.MAX, Op.MIN):  # they leave open what NaN gives
            broken = f"subgroupAny({self._is_nan(dtype, value)})"
            code = self.select(dtype, broken, self.literal(dtype, math.nan), code)
        return self.let(dtype, self._wrapped(dtype, code))

    def _barrier(self, node: Node) -> None:
        self.line("workgroupBarrier();")

    # -- vectors --------------------------------------------------------------------------------

    def vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        return f"{self.type(dtype)}({', '.join(lanes)})"

    def lane(self, dtype: DType, value: str, number: int) -> str:
        return f"{value}[{number}]" if is_pair(dtype) else f"{value}.{_LANES[number]}"

    def splat(self, dtype: DType, value: str) -> str:
        if is_pair(dtype):
            return self.vector(dtype, [value] * dtype.count)
        return f"{self.type(dtype)}({value})"

    def _by_lane(self, dtype: DType, one: Callable[..., str], *operands: tuple[DType, str]) -> str:
        """A vector of `dtype` whose lanes `one` makes from the lanes of the operands."""
        return self.vector(
            dtype,
            [one(*(self.lane(t, v, i) for t, v in operands)) for i in range(dtype.count)],
        )

    # -- arithmetic -----------------------------------------------------------------------------

    def operands(self, node: Node) -> list[str]:
        values = super().operands(node)
        if all(s.op is Op.CONST for s in node.src):
            values[0] = self.let(operand(node).dtype, values[0])
        return values

    def _help(self, name: str) -> str:
        self.helpers.add(name)
        return name

    def _wrapped(self, dtype: DType, code: str) -> str:
        """A result cut to its width, where that is less than a word's."""
        if not dtype.is_int or dtype.bits >= WORD_BITS:
            return code
        return f"extractBits({code}, 0u, {dtype.bits}u)"

    def select(self, dtype: DType, mask: str, yes: str, no: str) -> str:
        if is_pair(dtype) and dtype.count > 1:
            masks = (dtypes.bool.vec(dtype.count), mask)
            one = partial(self.select, dtype.scalar)
            return self._by_lane(dtype, one, masks, (dtype, yes), (dtype, no))
        return f"select({no}, {yes}, {mask})"

    def _is_nan(self, dtype: DType, value: str) -> str:
        if dtype.count > 1:
            one = partial(self._is_nan, dtype.scalar)
            return self._by_lane(dtypes.bool.vec(dtype.count), one, (dtype, value))
        return f"{self._help('is_nan')}({value if dtype.bits == 32 else f'f32({value})'})"

    def compare(self, op: Op, dtype: DType, a: str, b: str) -> str:
        if is_pair(dtype):
            return self._compare_pairs(op, dtype, a, b)
        if dtype.is_float and a == b and op is not Op.CMPLT:
            broken = self._is_nan(dtype, a)
            return broken if op is Op.CMPNE else f"(!{broken})"
        if dtype.is_float and op is Op.CMPNE:  # `!=` may be false where an operand is NaN
            return f"(!({a} == {b}))"
        return f"({a} {COMPARISONS[op]} {b})"

    def _compare_pairs(self, op: Op, dtype: DType, a: str, b: str) -> str:
        if dtype.count > 1:
            one = partial(self._compare_pairs, op, dtype.scalar)
            return self._by_lane(dtypes.bool.vec(dtype.count), one, (dtype, a), (dtype, b))
        if op is Op.CMPLT:
            return f"{self._help('lt_u64' if dtype.is_unsigned else 'lt_i64')}({a}, {b})"
        return f"all({a} == {b})" if op is Op.CMPEQ else f"any({a} != {b})"

    def call(self, op: Op, dtype: DType, values: list[str]) -> str:
        return f"{_CALLS[op]}({', '.join(values)})"

    def negate(self, dtype: DType, value: str) -> str:
        if is_pair(dtype):
            return self._int64(Op.SUB, dtype, self.splat(dtype, "vec2<u32>(0u, 0u)"), value)
        if dtype.is_unsigned:
            return self._wrapped(dtype, f"(~{value} + {self.splat(dtype, '1u')})")
        return self._wrapped(dtype, f"(-{value})")

    def binary(self, op: Op, dtype: DType, a: str, b: str) -> str:
        if dtype.is_bool:
            return self._logic(op, a, b)
        if is_pair(dtype):
            return self._int64(op, dtype, a, b)
        if op in (Op.MAX, Op.MIN):
            return self._extreme(op, dtype, a, b)
        if op in (Op.SHL, Op.SHR):
            amount = b if dtype.is_unsigned else self._as_unsigned(dtype, b)
            return self._wrapped(dtype, f"({a} {BINARY[op]} {amount})")
        code = f"({a} {BINARY[op]} {b})"
        return self._wrapped(dtype, code) if op in (Op.ADD, Op.SUB, Op.MUL) else code

    def _as_unsigned(self, dtype: DType, value: str) -> str:
        return f"u32({value})" if dtype.count == 1 else f"vec{dtype.count}<u32>({value})"

    def _logic(self, op: Op, a: str, b: str) -> str:
        if op in (Op.AND, Op.MUL, Op.MIN):
            return f"({a} & {b})"
        return f"({a} | {b})" if op in (Op.OR, Op.ADD, Op.MAX) else f"({a} != {b})"

    def _int64(self, op: Op, dtype: DType, a: str, b: str) -> str:
        if dtype.count > 1:
            one = partial(self._int64, op, dtype.scalar)
            return self._by_lane(dtype, one, (dtype, a), (dtype, b))
        if op in (Op.AND, Op.OR, Op.XOR):
            return f"({a} {BINARY[op]} {b})"
        sign = "u64" if dtype.is_unsigned else "i64"
        if op in (Op.MAX, Op.MIN):
            less = f"{self._help(f'lt_{sign}')}({a}, {b})"
            return f"select({a}, {b}, {less})" if op is Op.MAX else f"select({b}, {a}, {less})"
        names = {
            Op.ADD: "add_i64", Op.SUB: "sub_i64", Op.MUL: "mul_i64", Op.SHL: "shl_i64",
            Op.SHR: f"shr_{sign}", Op.IDIV: f"div_{sign}", Op.MOD: f"mod_{sign}",
        }  # fmt: skip
        return f"{self._help(names[op])}({a}, {b})"

    def _extreme(self, op: Op, dtype: DType, a: str, b: str) -> str:
        """The larger or smaller; a NaN on either side wins."""
        if not dtype.is_float:
            return f"{'max' if op is Op.MAX else 'min'}({a}, {b})"
        wins = f"({a} {'<' if op is Op.MAX else '>'} {b})"
        return f"select({a}, {b}, {wins} | {self._is_nan(dtype, b)})"

    # -- conversions ----------------------------------------------------------------------------

    def cast(self, source: DType, target: DType, value: str) -> str:
        if is_pair(source) or is_pair(target):
            return self._cast_int64(source, target, value)
        if source.is_float and target.is_int:
            return self._saturating(source, target, value)
        code = f"{self.type(target)}({value})"
        narrows = source.is_int and (
            source.bits > target.bits or source.is_unsigned != target.is_unsigned
        )
        return self._wrapped(target, code) if narrows else code

    def _saturating(self, source: DType, target: DType, value: str) -> str:
        name = self._help("saturate_int32")
        if source.count == 1:
            return f"{name}({value if source.bits == 32 else f'f32({value})'})"
        one = partial(self._saturating, source.scalar, target.scalar)
        return self._by_lane(target, one, (source, value))

    def _cast_int64(self, source: DType, target: DType, value: str) -> str:
        if is_pair(source) and is_pair(target):
            return value
        if source.count > 1:
            one = partial(self._cast_int64, source.scalar, target.scalar)
            return self._by_lane(target, one, (source, value))
        if is_pair(source):
            if target.is_int:
                kind = "u32" if target.is_unsigned else "i32"
                return self._wrapped(target, f"{kind}({value}.x)")
            name = "f32_from_u64" if source.is_unsigned else "f32_from_i64"
            code = f"{self._help(name)}({value})"
            return code if target.bits == 32 else f"{self.type(target)}({code})"
        if source.is_bool or source.is_unsigned:
            return f"vec2<u32>(u32({value}), 0u)"
        if source.is_int:
            return f"vec2<u32>(bitcast<u32>({value}), bitcast<u32>({value} >> 31u))"
        return f"{self._help('i64_from_f32')}(f32({value}))"

    def bitcast(self, source: DType, target: DType, value: str) -> str:
        if source.bits == 64 or (source.is_bool and target.is_bool):
            return value
        if 16 in (source.bits, target.bits) and source.is_float != target.is_float:
            return self._half_bits(source, target, value)
        code = f"bitcast<{self.type(target)}>({value})"
        return self._wrapped(target, code) if source.is_int and target.is_int else code

    def _half_bits(self, source: DType, target: DType, value: str) -> str:
        if source.count > 1:
            one = partial(self._half_bits, source.scalar, target.scalar)
            return self._by_lane(target, one, (source, value))
        self.uses_half = True
        if source.is_float:
            word = f"bitcast<u32>(vec2<f16>({value}, 0.0h))"
            word = word if target.is_unsigned else f"bitcast<i32>({word})"
            return f"extractBits({word}, 0u, 16u)"
        return f"bitcast<vec2<f16>>({self.type(source)}({value})).x"
