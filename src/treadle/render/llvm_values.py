"""Values of linear programs in LLVM IR: what every target of LLVM computes alike.

Types and literals, arithmetic, casts, and vectors. `Values` prints them into the lines of a
function, which `llvm_function` builds around them.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..dtype import DType, dtypes
from ..ir.float_ranges import clamped
from ..ir.node import Node
from ..ir.op import COMPARE, Op
from ..ir.views import behind_broadcast, operand

__all__ = ["Values", "literal", "mangled", "memory_type", "type_name", "zero"]

_TYPES = {
    "float16": "half",
    "bfloat16": "bfloat",
    "float32": "float",
    "float64": "double",
    "bool": "i1",
}
_FLOAT_BINARY = {
    Op.ADD: "fadd{c}", Op.SUB: "fsub{c}", Op.MUL: "fmul{c}", Op.FDIV: "fdiv{c}", Op.MOD: "frem",
}  # fmt: skip
_INT_BINARY = {
    Op.ADD: "add", Op.SUB: "sub", Op.MUL: "mul", Op.AND: "and", Op.OR: "or", Op.XOR: "xor",
    Op.SHL: "shl",
}  # fmt: skip
_SIGNED_BINARY = {
    Op.IDIV: ("sdiv", "udiv"), Op.MOD: ("srem", "urem"), Op.SHR: ("ashr", "lshr"),
}  # fmt: skip
_INTRINSIC = {
    Op.SQRT: "sqrt", Op.FLOOR: "floor", Op.CEIL: "ceil", Op.TRUNC: "trunc", Op.ROUND: "roundeven",
    Op.FMA: "fma",
}  # fmt: skip
_COMPARE = {
    Op.CMPLT: ("olt", "slt", "ult"),
    Op.CMPEQ: ("oeq", "eq", "eq"),
    Op.CMPNE: ("une", "ne", "ne"),
}


def type_name(dtype: DType) -> str:
    """The LLVM type of a dtype; bool is i1 in registers."""
    scalar = _TYPES.get(dtype.name) or f"i{dtype.bits}"
    return scalar if dtype.count == 1 else f"<{dtype.count} x {scalar}>"


def memory_type(dtype: DType) -> str:
    """The LLVM type of a dtype in memory; bool takes a byte there."""
    if not dtype.is_bool:
        return type_name(dtype)
    return "i8" if dtype.count == 1 else f"<{dtype.count} x i8>"


def mangled(dtype: DType) -> str:
    """What LLVM appends to the name of an intrinsic for a type: "v4f32"."""
    prefix = f"v{dtype.count}" if dtype.count > 1 else ""
    kind = "bf" if dtype.scalar.name == "bfloat16" else "f" if dtype.is_float else "i"
    return f"{prefix}{kind}{dtype.bits}"


def _is_inside(bounds: tuple[float, float], dtype: DType) -> bool:
    """Whether a signed integer type has all that lies in `bounds`."""
    limit = 2.0 ** (dtype.scalar.bits - 1)
    return -limit <= bounds[0] and bounds[1] < limit


def zero(dtype: DType) -> str:
    """The constant 0, false, or a vector of them."""
    if dtype.count > 1:
        return "zeroinitializer"
    return literal(dtype, 0)


def literal(dtype: DType, value: float) -> str:
    """A scalar constant as LLVM writes it."""
    if dtype.is_bool:
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    if dtype.name == "bfloat16":
        return f"0xR{struct.unpack('>H', struct.pack('>f', value)[:2])[0]:04X}"
    if dtype.name == "float16":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"


class Values(ABC):
    """The lines of a function, as values are printed into them."""

    def __init__(self, contract: bool) -> None:
        self.flags = " contract" if contract else ""
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}
        self.counter = 0

    def emit(self, code: str, prefix: str = "v") -> str:
        """Append `%name = code`; returns the name."""
        self.counter += 1
        name = f"%{prefix}{self.counter}"
        self.lines.append(f"  {name} = {code}")
        return name

    def call(self, dtype: DType, name: str, arguments: Sequence[tuple[str, str]]) -> str:
        """Call the function `name` on (type, value) pairs and declare it."""
        types = ", ".join(kind for kind, _ in arguments)
        self.declared[f"declare {type_name(dtype)} @{name}({types})"] = None
        values = ", ".join(f"{kind} {value}" for kind, value in arguments)
        return self.emit(f"call {type_name(dtype)} @{name}({values})")

    @abstractmethod
    def value(self, node: Node) -> str:
        """The operand text of a node printed before, or of a constant."""

    @abstractmethod
    def to_integer(self, source: DType, target: DType, value: str) -> str:
        """A float truncated and saturated; a NaN is 0.

        Lowering has left signed integers of 32 and 64 bits only.
        """

    # -- vectors --------------------------------------------------------------------------------

    def _broadcast(self, node: Node) -> str:
        (lane,) = node.src
        if lane.op is Op.CONST:
            return self.value(node)
        return self.splat(node.dtype.scalar, self.value(lane), node.dtype.count)

    def splat(self, scalar: DType, value: str, count: int) -> str:
        """A vector with the scalar `value` in every lane."""
        kind = type_name(scalar.vec(count))
        first = self.emit(f"insertelement {kind} poison, {type_name(scalar)} {value}, i64 0")
        return self.emit(
            f"shufflevector {kind} {first}, {kind} poison, <{count} x i32> zeroinitializer"
        )

    def _stack(self, node: Node) -> str:
        kind, current = type_name(node.dtype), "poison"
        for number, lane in enumerate(node.src):
            current = self.emit(
                f"insertelement {kind} {current}, {type_name(lane.dtype)} {self.value(lane)}, "
                f"i64 {number}"
            )
        return current

    def _shuffle(self, node: Node) -> str:
        a, b = node.src
        lanes = ", ".join(f"i32 {n}" for n in node.arg)
        return self.emit(
            f"shufflevector {type_name(a.dtype)} {self.value(a)}, {type_name(b.dtype)} "
            f"{self.value(b)}, <{len(node.arg)} x i32> <{lanes}>"
        )

    def _extract(self, node: Node) -> str:
        (source,) = node.src
        return self.emit(
            f"extractelement {type_name(source.dtype)} {self.value(source)}, i64 {node.arg}"
        )

    def _hreduce(self, node: Node) -> str:
        (source,) = node.src
        dtype, value = source.dtype, self.value(source)
        count = dtype.count
        while count > 1:
            half = count // 2
            wide, narrow = type_name(dtype.scalar.vec(count)), dtype.scalar.vec(half)
            parts = []
            for start in (0, half):
                lanes = ", ".join(f"i32 {start + i}" for i in range(half))
                parts.append(
                    self.emit(
                        f"shufflevector {wide} {value}, {wide} poison, <{half} x i32> <{lanes}>"
                    )
                )
            if half == 1:
                parts = [
                    self.emit(f"extractelement <1 x {type_name(dtype.scalar)}> {part}, i64 0")
                    for part in parts
                ]
            value = self.binary(node.arg, narrow, parts[0], parts[1], False)
            count = half
        return value

    # -- arithmetic -----------------------------------------------------------------------------

    def _alu(self, node: Node) -> str:
        op, dtype = node.op, node.dtype
        values = [self.value(s) for s in node.src]
        first = operand(node)
        kind = type_name(first.dtype)
        if op is Op.CAST:
            bounds = clamped(first) if dtype.is_int and first.dtype.is_float else None
            if bounds is not None and _is_inside(bounds, dtype):
                return self.emit(f"fptosi {kind} {values[0]} to {type_name(dtype)}")
            return self._cast(first.dtype, dtype, values[0])
        if op is Op.BITCAST:
            return self.emit(f"bitcast {kind} {values[0]} to {type_name(dtype)}")
        if op is Op.NEG:
            code = (
                f"fneg {kind} {values[0]}"
                if dtype.is_float
                else f"sub {kind} {zero(dtype)}, {values[0]}"
            )
            return self.emit(code)
        if op is Op.WHERE:
            result = type_name(dtype)
            return self.emit(
                f"select {kind} {values[0]}, {result} {values[1]}, {result} {values[2]}"
            )
        if op in _INTRINSIC:
            name = f"llvm.{_INTRINSIC[op]}.{mangled(dtype)}"
            return self.call(dtype, name, [(type_name(dtype), v) for v in values])
        if op in COMPARE:
            return self._compare(op, first.dtype, values)
        _, second = node.src
        constant = behind_broadcast(second).value
        known = constant is not None and constant == constant
        return self.binary(op, dtype, values[0], values[1], known)

    def _compare(self, op: Op, dtype: DType, values: list[str]) -> str:
        floats, signed, unsigned = _COMPARE[op]
        kind = type_name(dtype)
        if dtype.is_float:
            return self.emit(f"fcmp {floats} {kind} {values[0]}, {values[1]}")
        predicate = unsigned if dtype.is_unsigned or dtype.is_bool else signed
        return self.emit(f"icmp {predicate} {kind} {values[0]}, {values[1]}")

    def binary(self, op: Op, dtype: DType, a: str, b: str, b_is_number: bool) -> str:
        """An operation with two operands of one dtype; `b_is_number`: `b` is surely no NaN."""
        kind = type_name(dtype)
        if op in (Op.MAX, Op.MIN):
            return self._extreme(op, dtype, a, b, b_is_number)
        if dtype.is_float:
            return self.emit(f"{_FLOAT_BINARY[op].format(c=self.flags)} {kind} {a}, {b}")
        if dtype.is_bool and op in (Op.ADD, Op.MUL):
            return self.emit(f"{'or' if op is Op.ADD else 'and'} {kind} {a}, {b}")
        if op in _SIGNED_BINARY:
            signed, unsigned = _SIGNED_BINARY[op]
            return self.emit(f"{unsigned if dtype.is_unsigned else signed} {kind} {a}, {b}")
        return self.emit(f"{_INT_BINARY[op]} {kind} {a}, {b}")

    def _extreme(self, op: Op, dtype: DType, a: str, b: str, b_is_number: bool) -> str:
        """The larger or smaller; a NaN on either side wins."""
        kind = type_name(dtype)
        mask = type_name(dtypes.bool.vec(dtype.count) if dtype.count > 1 else dtypes.bool)
        if dtype.is_bool:
            return self.emit(f"{'or' if op is Op.MAX else 'and'} {kind} {a}, {b}")
        if not dtype.is_float:
            sign = "u" if dtype.is_unsigned else "s"
            predicate = f"{sign}{'lt' if op is Op.MAX else 'gt'}"
            better = self.emit(f"icmp {predicate} {kind} {a}, {b}")
            return self.emit(f"select {mask} {better}, {kind} {b}, {kind} {a}")
        better = self.emit(f"fcmp {'olt' if op is Op.MAX else 'ogt'} {kind} {a}, {b}")
        best = self.emit(f"select {mask} {better}, {kind} {b}, {kind} {a}")
        if b_is_number:
            return best
        # Not `b` itself: LLVM would take it where one of both holds, and find no vmaxps in that.
        nan = literal(dtype.scalar, math.nan)
        if dtype.count > 1:
            nan = self.splat(dtype.scalar, nan, dtype.count)
        broken = self.emit(f"fcmp uno {kind} {b}, {b}")
        return self.emit(f"select {mask} {broken}, {kind} {nan}, {kind} {best}")

    def _cast(self, source: DType, target: DType, value: str) -> str:
        have, want = type_name(source), type_name(target)
        if have == want:
            return value
        if target.is_bool:
            code = (
                f"fcmp une {have} {value}, {zero(source)}"
                if source.is_float
                else f"icmp ne {have} {value}, {zero(source)}"
            )
            return self.emit(code)
        if source.is_float and target.is_float:
            op = "fpext" if target.bits > source.bits else "fptrunc"
            return self.emit(f"{op} {have} {value} to {want}")
        if source.is_float:
            return self.to_integer(source, target, value)
        if target.is_float:
            op = "uitofp" if source.is_unsigned or source.is_bool else "sitofp"
            return self.emit(f"{op} {have} {value} to {want}")
        if target.bits < source.bits:
            return self.emit(f"trunc {have} {value} to {want}")
        op = "zext" if source.is_unsigned or source.is_bool else "sext"
        return self.emit(f"{op} {have} {value} to {want}")
