"""Linear programs to LLVM IR text, with explicit vectors.

Each phase becomes `void name(ptr args, ptr vars, i64 begin, i64 end)`: args holds the buffers'
addresses, vars the launch-time integers, and begin..end the slice of the grid to compute.

Registers are allocas that LLVM promotes; loops are rotated (tested at the bottom), since sizes
known when compiling are never zero.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from ..dtype import DType, dtypes
from ..errors import InternalError
from ..ir.node import Node
from ..ir.op import ALU, COMPARE, Op
from ..lower.linearize import Phase
from ..lower.streams import LINE, STREAM

__all__ = ["LLVMRenderer"]

_TYPES = {"float16": "half", "float32": "float", "float64": "double", "bool": "i1"}
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
_STREAMED = "!999"  # metadata of stores that go around the caches
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


def _mangled(dtype: DType) -> str:
    prefix = f"v{dtype.count}" if dtype.count > 1 else ""
    return f"{prefix}{'f' if dtype.is_float else 'i'}{dtype.bits}"


class LLVMRenderer:
    """Prints modules for a target; `contract` lets multiply and add fuse."""

    name = "LLVM"

    def __init__(self, *, triple: str, vector_bits: int, contract: bool = True) -> None:
        self.triple = triple
        self.vector_bits = vector_bits
        self.contract = contract
        self.streams = triple.startswith("x86_64")  # elsewhere nobody has measured them

    def render(self, name: str, phases: Sequence[Phase], variables: Sequence[str]) -> str:
        """A module with one function a phase, called `name_0`, `name_1`, ..."""
        functions, declared, scopes = [], {}, 0
        for number, phase in enumerate(phases):
            body = _Function(self, f"{name}_{number}", phase, variables)
            functions.append(body.text())
            declared.update(body.declared)
            scopes = max(scopes, body.scopes)
        lines = [f'target triple = "{self.triple}"', "", *functions, *sorted(declared)]
        lines.append(
            f'attributes #0 = {{ nounwind "prefer-vector-width"="{self.vector_bits}" '
            '"no-trapping-math"="true" }'
        )
        return "\n".join([*lines, *_alias_metadata(scopes)]) + "\n"


def _alias_metadata(count: int) -> list[str]:
    """One alias scope a kernel argument: distinct arguments never overlap."""
    lines = ["!0 = distinct !{!0}", f"{_STREAMED} = !{{i32 1}}"]
    lines += [f"!{i + 1} = distinct !{{!{i + 1}, !0}}" for i in range(count)]
    for i in range(count):
        others = ", ".join(f"!{j + 1}" for j in range(count) if j != i)
        lines.append(f"!{1000 + 2 * i} = !{{!{i + 1}}}")
        lines.append(f"!{1001 + 2 * i} = !{{{others}}}")
    return lines


class _Function:
    def __init__(
        self, renderer: LLVMRenderer, name: str, phase: Phase, variables: Sequence[str]
    ) -> None:
        self.flags = " contract" if renderer.contract else ""
        self.name, self.phase = name, phase
        self.variables = list(variables)
        self.names: dict[Node, str] = {}
        self.entry: list[str] = []
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}
        self.block = "body"
        self.loops: dict[Node, tuple[str, str]] = {}
        self.counter = 0
        self.slots: dict[int, int] = {}
        self.scopes = 0
        self.grid_open = False
        self.streams, self.has_streamed = renderer.streams, False

    # -- text -----------------------------------------------------------------------------------

    def text(self) -> str:
        for node in self.phase.program.src:
            self.node(node)
        if self.grid_open:
            self._close_grid()
        header = (
            f"define void @{self.name}(ptr noalias %args, ptr noalias %vars, "
            "i64 %begin, i64 %end) #0 {"
        )
        lines = [header, "entry:", *self.entry, "  br label %body", "body:", *self.lines]
        if self.has_streamed:  # before anybody hears that this slice is done
            lines.append("  call void @llvm.x86.sse.sfence()")
            self.declared["declare void @llvm.x86.sse.sfence()"] = None
        return "\n".join([*lines, "  ret void", "}", ""])

    def emit(self, code: str, prefix: str = "v") -> str:
        """Append `%name = code`; returns the name."""
        self.counter += 1
        name = f"%{prefix}{self.counter}"
        self.lines.append(f"  {name} = {code}")
        return name

    def label(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def start_block(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def call(self, dtype: DType, name: str, arguments: Sequence[tuple[str, str]]) -> str:
        """Call the function `name` on (type, value) pairs and declare it."""
        types = ", ".join(kind for kind, _ in arguments)
        self.declared[f"declare {type_name(dtype)} @{name}({types})"] = None
        values = ", ".join(f"{kind} {value}" for kind, value in arguments)
        return self.emit(f"call {type_name(dtype)} @{name}({values})")

    # -- values ---------------------------------------------------------------------------------

    def value(self, node: Node) -> str:
        """The operand text of a node printed before, or of a constant."""
        if node.op is Op.CONST:
            return literal(node.dtype, node.arg)
        if node.op is Op.LANES:
            kind = type_name(node.dtype.scalar)
            return "<" + ", ".join(f"{kind} {i}" for i in range(node.dtype.count)) + ">"
        if node.op is Op.BROADCAST and node.src[0].op is Op.CONST:
            one = f"{type_name(node.dtype.scalar)} {literal(node.dtype.scalar, node.src[0].arg)}"
            return "<" + ", ".join([one] * node.dtype.count) + ">"
        if node.op in (Op.PARAM, Op.LOCAL):
            return self.memory(node)
        return self.names[node]

    def memory(self, node: Node) -> str:
        while node.op is Op.AFTER:
            node = node.src[0]
        if node not in self.names:
            self.names[node] = self._address(node)
        return self.names[node]

    def _address(self, node: Node) -> str:
        if node.op is Op.LOCAL:
            name = f"%local{node.arg.number}"
            kind = memory_type(node.dtype)
            self.entry.append(f"  {name} = alloca {kind}, i64 {node.arg.size}, align 64")
            return name
        slot = node.arg.slot
        self.entry.append(f"  %at{slot} = getelementptr inbounds ptr, ptr %args, i64 {slot}")
        self.entry.append(f"  %arg{slot} = load ptr, ptr %at{slot}")
        self.slots[slot] = len(self.slots)
        self.scopes = max(self.scopes, slot + 1)
        return f"%arg{slot}"

    def node(self, node: Node) -> None:
        """Print one node of the program."""
        op = node.op
        if op in (Op.CONST, Op.LANES, Op.PARAM, Op.LOCAL):
            return
        if op in ALU:
            self.names[node] = self._alu(node)
            return
        method = getattr(self, f"_{op.name.lower()}", None)
        if method is None:
            raise InternalError(f"the LLVM renderer has no {op.name}")
        name = method(node)
        if name is not None:
            self.names[node] = name

    # -- loops ----------------------------------------------------------------------------------

    def _range(self, node: Node) -> str:
        if node.arg.kind == "grid":
            return self._grid(node)
        size = self.value(node.src[0])
        label = self.label("loop")
        step, done = f"{label}.next", f"{label}.done"
        if node.src[0].op is not Op.CONST:
            some = self.emit(f"icmp sgt i64 {size}, 0")
            self.lines.append(f"  br i1 {some}, label %{label}.pre, label %{done}")
            self.start_block(f"{label}.pre")
        before = self.block
        self.lines.append(f"  br label %{label}")
        self.start_block(label)
        name = f"%{label}.i"
        self.lines.append(f"  {name} = phi i64 [ 0, %{before} ], [ {name}.next, %{step} ]")
        self.loops[node] = (label, size)
        return name

    def _end(self, node: Node) -> None:
        label, size = self.loops[node.src[0]]
        name = f"%{label}.i"
        self.lines.append(f"  br label %{label}.next")
        self.start_block(f"{label}.next")
        self.lines.append(f"  {name}.next = add nuw nsw i64 {name}, 1")
        more = self.emit(f"icmp ult i64 {name}.next, {size}")
        self.lines.append(f"  br i1 {more}, label %{label}, label %{label}.done")
        self.start_block(f"{label}.done")

    def _grid(self, node: Node) -> str:
        if not self.grid_open:
            self._open_grid()
        inner = self.phase.grid[self.phase.grid.index(node) + 1 :]
        position = "%grid.i"
        stride = self._product(inner)
        if stride is not None:
            position = self.emit(f"udiv i64 {position}, {stride}")
        if node is self.phase.grid[0]:
            return position if stride is not None else self.emit(f"add i64 {position}, 0")
        return self.emit(f"urem i64 {position}, {self.value(node.src[0])}")

    def _product(self, ranges: Sequence[Node]) -> str | None:
        total: str | None = None
        for r in ranges:
            size = self.value(r.src[0])
            total = size if total is None else self.emit(f"mul i64 {total}, {size}")
        return total

    def _open_grid(self) -> None:
        self.grid_open = True
        some = self.emit("icmp slt i64 %begin, %end")
        before = self.block
        self.lines.append(f"  br i1 {some}, label %grid, label %grid.done")
        self.start_block("grid")
        self.lines.append(
            f"  %grid.i = phi i64 [ %begin, %{before} ], [ %grid.i.next, %grid.next ]"
        )

    def _close_grid(self) -> None:
        self.lines.append("  br label %grid.next")
        self.start_block("grid.next")
        self.lines.append("  %grid.i.next = add nuw nsw i64 %grid.i, 1")
        more = self.emit("icmp slt i64 %grid.i.next, %end")
        self.lines.append(f"  br i1 {more}, label %grid, label %grid.done")
        self.start_block("grid.done")

    # -- memory ---------------------------------------------------------------------------------

    def _variable(self, node: Node) -> str:
        number = self.variables.index(node.arg.name)
        self.entry.append(f"  %varat{number} = getelementptr inbounds i64, ptr %vars, i64 {number}")
        self.entry.append(f"  %var{number} = load i64, ptr %varat{number}")
        return f"%var{number}"

    def _register(self, node: Node) -> str:
        name = f"%reg{node.arg.number}"
        kind = type_name(node.dtype)
        self.entry.append(f"  {name} = alloca {kind}")
        self.lines.append(f"  store {kind} {self.value(node.src[0])}, ptr {name}")
        return name

    def _update(self, node: Node) -> None:
        register, value = node.src[:2]
        kind = type_name(register.dtype)
        old = self.emit(f"load {kind}, ptr {self.names[register]}")
        new = self._binary(node.arg, register.dtype, old, self.value(value), False)
        self.lines.append(f"  store {kind} {new}, ptr {self.names[register]}")

    def _after(self, node: Node) -> str:
        if node.src[0].op is Op.REGISTER:
            return self.emit(f"load {type_name(node.dtype)}, ptr {self.names[node.src[0]]}")
        return self.memory(node.src[0])

    def _pointer(self, node: Node, dtype: DType, index: str) -> str:
        kind = memory_type(dtype.scalar)
        return self.emit(f"getelementptr {kind}, ptr {self.memory(node)}, i64 {index}", "p")

    def _alias(self, node: Node) -> str:
        while node.op is Op.AFTER:
            node = node.src[0]
        if node.op is not Op.PARAM:
            return ""
        slot = node.arg.slot
        return f", !alias.scope !{1000 + 2 * slot}, !noalias !{1001 + 2 * slot}"

    def _load(self, node: Node) -> str:
        memory, index = node.src[:2]
        if len(node.src) == 4:
            return self._gated_load(node)
        pointer = self._pointer(memory, node.dtype, self.value(index))
        return self._plain_load(node.dtype, pointer, self._alias(memory))

    def _plain_load(self, dtype: DType, pointer: str, alias: str) -> str:
        align = dtype.scalar.itemsize
        loaded = self.emit(f"load {memory_type(dtype)}, ptr {pointer}, align {align}{alias}")
        return self._from_memory(dtype, loaded)

    def _from_memory(self, dtype: DType, loaded: str) -> str:
        if not dtype.is_bool:
            return loaded
        return self.emit(f"trunc {memory_type(dtype)} {loaded} to {type_name(dtype)}")

    def _gated_load(self, node: Node) -> str:
        memory, index, gate, other = node.src
        dtype = node.dtype
        place = self.value(index)
        if gate.dtype.count == 1:
            # Even a load of no lanes is slow where there is no memory.
            place = self.emit(f"select i1 {self.value(gate)}, i64 {place}, i64 0")
        if dtype.count == 1:
            loaded = self._plain_load(
                dtype, self._pointer(memory, dtype, place), self._alias(memory)
            )
            kind = type_name(dtype)
            return self.emit(
                f"select i1 {self.value(gate)}, {kind} {loaded}, {kind} {self.value(other)}"
            )
        stored = dtypes.uint8.vec(dtype.count) if dtype.is_bool else dtype
        kind = type_name(stored)
        pointer = self._pointer(memory, dtype, place)
        default = self._to_memory(dtype, self.value(other))
        loaded = self.call(
            stored,
            f"llvm.masked.load.{_mangled(stored)}.p0",
            [("ptr", pointer), ("i32", str(dtype.scalar.itemsize)),
             (f"<{dtype.count} x i1>", self._mask(gate, dtype.count)), (kind, default)],
        )  # fmt: skip
        return self._from_memory(dtype, loaded)

    def _mask(self, gate: Node, count: int) -> str:
        if gate.dtype.count == count:
            return self.value(gate)
        return self._splat(dtypes.bool, self.value(gate), count)

    def _store(self, node: Node) -> None:
        memory, index, value = node.src[:3]
        dtype = value.dtype
        if len(node.src) == 4:
            self._gated_store(node)
            return
        stored = self._to_memory(dtype, self.value(value))
        pointer = self._pointer(memory, dtype, self.value(index))
        if node.arg == STREAM and self.streams:
            self.has_streamed = True
            kind, align = memory_type(dtype), min(dtype.itemsize, LINE)
            tail = f"align {align}{self._alias(memory)}, !nontemporal {_STREAMED}"
            self.lines.append(f"  store {kind} {stored}, ptr {pointer}, {tail}")
            return
        self._plain_store(dtype, stored, pointer, self._alias(memory))

    def _plain_store(self, dtype: DType, stored: str, pointer: str, alias: str) -> None:
        align = dtype.scalar.itemsize
        self.lines.append(
            f"  store {memory_type(dtype)} {stored}, ptr {pointer}, align {align}{alias}"
        )

    def _to_memory(self, dtype: DType, value: str) -> str:
        if not dtype.is_bool:
            return value
        return self.emit(f"zext {type_name(dtype)} {value} to {memory_type(dtype)}")

    def _gated_store(self, node: Node) -> None:
        memory, index, value, gate = node.src
        dtype = value.dtype
        stored = self._to_memory(dtype, self.value(value))
        pointer = self._pointer(memory, dtype, self.value(index))
        if gate.dtype.count == 1:
            label = self.label("if")
            self.lines.append(f"  br i1 {self.value(gate)}, label %{label}, label %{label}.done")
            self.start_block(label)
            self._plain_store(dtype, stored, pointer, self._alias(memory))
            self.lines.append(f"  br label %{label}.done")
            self.start_block(f"{label}.done")
            return
        wide = dtypes.uint8.vec(dtype.count) if dtype.is_bool else dtype
        kind, mask = type_name(wide), f"<{dtype.count} x i1>"
        name = f"llvm.masked.store.{_mangled(wide)}.p0"
        self.declared[f"declare void @{name}({kind}, ptr, i32, {mask})"] = None
        self.lines.append(
            f"  call void @{name}({kind} {stored}, ptr {pointer}, i32 {dtype.scalar.itemsize}, "
            f"{mask} {self.value(gate)})"
        )

    # -- vectors --------------------------------------------------------------------------------

    def _broadcast(self, node: Node) -> str:
        if node.src[0].op is Op.CONST:
            return self.value(node)
        return self._splat(node.dtype.scalar, self.value(node.src[0]), node.dtype.count)

    def _splat(self, scalar: DType, value: str, count: int) -> str:
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
        source = node.src[0]
        return self.emit(
            f"extractelement {type_name(source.dtype)} {self.value(source)}, i64 {node.arg}"
        )

    def _hreduce(self, node: Node) -> str:
        dtype, value = node.src[0].dtype, self.value(node.src[0])
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
            value = self._binary(node.arg, narrow, parts[0], parts[1], False)
            count = half
        return value

    # -- arithmetic -----------------------------------------------------------------------------

    def _alu(self, node: Node) -> str:
        op, dtype = node.op, node.dtype
        values = [self.value(s) for s in node.src]
        kind = type_name(node.src[0].dtype)
        if op is Op.CAST:
            return self._cast(node.src[0].dtype, dtype, values[0])
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
            name = f"llvm.{_INTRINSIC[op]}.{_mangled(dtype)}"
            return self.call(dtype, name, [(type_name(dtype), v) for v in values])
        if op in COMPARE:
            return self._compare(op, node.src[0].dtype, values)
        constant = (
            node.src[1].value if node.src[1].op is not Op.BROADCAST else node.src[1].src[0].value
        )
        known = constant is not None and constant == constant
        return self._binary(op, dtype, values[0], values[1], known)

    def _compare(self, op: Op, dtype: DType, values: list[str]) -> str:
        floats, signed, unsigned = _COMPARE[op]
        kind = type_name(dtype)
        if dtype.is_float:
            return self.emit(f"fcmp {floats} {kind} {values[0]}, {values[1]}")
        predicate = unsigned if dtype.is_unsigned or dtype.is_bool else signed
        return self.emit(f"icmp {predicate} {kind} {values[0]}, {values[1]}")

    def _binary(self, op: Op, dtype: DType, a: str, b: str, b_is_number: bool) -> str:
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
        broken = self.emit(f"fcmp uno {kind} {b}, {b}")
        return self.emit(f"select {mask} {broken}, {kind} {b}, {kind} {best}")

    def _to_integer(self, source: DType, target: DType, value: str) -> str:
        """Truncated and saturated; a NaN is 0. LLVM's own intrinsic takes lanes one by one.

        Lowering has left signed integers of 32 and 64 bits only.
        """
        have, want = type_name(source), type_name(target)
        digits = {32: 24, 64: 53}.get(source.scalar.bits)
        if digits is None:
            name = f"llvm.fptosi.sat.{_mangled(target)}.{_mangled(source)}"
            return self.call(target, name, [(have, value)])
        mask = type_name(dtypes.bool.vec(source.count) if source.count > 1 else dtypes.bool)

        def number(dtype: DType, n: int) -> str:
            scalar = literal(dtype.scalar, n)
            return self._splat(dtype.scalar, scalar, dtype.count) if dtype.count > 1 else scalar

        def choose(test: str, kind: str, yes: str, no: str) -> str:
            is_so = self.emit(f"fcmp {test}")
            return self.emit(f"select {mask} {is_so}, {kind} {yes}, {kind} {no}")

        least, most = target.scalar.min, target.scalar.max
        above = max(0, target.scalar.bits - 1 - digits)
        top = most >> above << above  # the largest integer in range that `source` has
        low, high = number(source, least), number(source, top)
        clamped = choose(f"oge {have} {value}, {low}", have, value, low)
        clamped = choose(f"ole {have} {clamped}, {high}", have, clamped, high)
        found = self.emit(f"fptosi {have} {clamped} to {want}")
        if top != most:
            found = choose(f"ogt {have} {value}, {high}", want, number(target, most), found)
        return choose(f"uno {have} {value}, {value}", want, zero(target), found)

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
            return self._to_integer(source, target, value)
        if target.is_float:
            op = "uitofp" if source.is_unsigned or source.is_bool else "sitofp"
            return self.emit(f"{op} {have} {value} to {want}")
        if target.bits < source.bits:
            return self.emit(f"trunc {have} {value} to {want}")
        op = "zext" if source.is_unsigned or source.is_bool else "sext"
        return self.emit(f"{op} {have} {value} to {want}")


def zero(dtype: DType) -> str:
    if dtype.count > 1:
        return "zeroinitializer"
    return literal(dtype, 0)


def literal(dtype: DType, value: Any) -> str:
    """A scalar constant as LLVM writes it."""
    if dtype.is_bool:
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    if dtype.name == "float16":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
