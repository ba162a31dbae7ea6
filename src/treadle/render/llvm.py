"""Linear programs to LLVM IR text for processors, with explicit vectors.

Each phase becomes `void name(ptr args, ptr vars, i64 begin, i64 end)`: args holds the buffers'
addresses, vars the launch-time integers, and begin..end the slice of the grid to compute.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtype import DType, dtypes
from ..ir.loops import closed_ranges
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import Load, Register, Store, Update, bound_of, operand
from ..lower.linearize import Phase
from ..lower.streams import CACHE_LINE, STREAM
from ..target import FEW_REGISTERS
from .llvm_function import LLVMFunction
from .llvm_values import literal, mangled, memory_type, type_name, zero

__all__ = ["LLVMRenderer"]

MOST_SCOPES = 64  # with more arguments, lists of all others would be longer than the kernel
_REGISTERS = {"x86_64": "xmm", "aarch64": "v"}  # what vector registers are called
_STREAMED = "!999"  # metadata of stores that go around the caches


class LLVMRenderer:
    """Prints modules for a target with so many vector `registers`; 0 says nothing of them.

    `contract` lets multiply and add fuse.
    """

    name = "LLVM"

    def __init__(
        self, *, triple: str, vector_bits: int, registers: int = 0, contract: bool = True
    ) -> None:
        self.triple = triple
        self.vector_bits, self.registers = vector_bits, registers
        self.contract = contract
        self.streams = triple.startswith("x86_64")  # elsewhere nobody has measured them

    def render(self, name: str, phases: Sequence[Phase], variables: Sequence[str]) -> str:
        """A module with one function a phase, called `name_0`, `name_1`, ..."""
        functions, declared, has_streamed = [], {}, False
        slots = (param.arg.slot for phase in phases for param, _ in phase.params)
        scopes = 1 + max(slots, default=-1)
        for number, phase in enumerate(phases):
            body = _CPUFunction(f"{name}_{number}", phase, variables, self, scopes <= MOST_SCOPES)
            functions.append(body.text())
            declared.update(body.declared)
            has_streamed |= body.has_streamed
        lines = [f'target triple = "{self.triple}"', "", *functions, *sorted(declared)]
        lines.append(
            f'attributes #0 = {{ nounwind "prefer-vector-width"="{self.vector_bits}" '
            '"no-trapping-math"="true" }'
        )
        streamed = [f"{_STREAMED} = !{{i32 1}}"] if has_streamed else []
        scoped = _alias_metadata(scopes) if scopes <= MOST_SCOPES else []
        return "\n".join([*lines, *scoped, *streamed]) + "\n"


def _full_loops(phase: Phase, registers: int, nbytes: int) -> set[Node]:
    """The loops whose accumulators leave few of the vector registers, of so many bytes, or none.

    They all begin as constants, so that none is in a register before the loop.
    """
    around: dict[Node, int] = {}  # how many loops a register is in
    taken: dict[Node, set[Node]] = {}
    loops: list[Node] = []
    for node in phase.program.src:
        if node.op is Op.REGISTER:
            around[node] = len(loops)
        elif node.op is Op.RANGE:
            loops.append(node)
        elif node.op is Op.END:
            loops = [loop for loop in loops if loop not in closed_ranges(node)]
        elif node.op is Op.UPDATE:
            register = behind_after(Update.of(node).register)
            for loop in loops[around[register] :][:1]:
                taken.setdefault(loop, set()).add(register)
    return {
        loop for loop, each in taken.items()
        if sum(_vectors(r.dtype, nbytes) for r in each) >= registers - FEW_REGISTERS > 0
        and all(_is_constant(Register.of(r).start) for r in each)
    }  # fmt: skip


def _vectors(dtype: DType, nbytes: int) -> int:
    """How many vector registers a value takes."""
    is_vector = dtype.count > 1 or dtype.kind == "float"
    return -(-dtype.count * dtype.scalar.itemsize // nbytes) if is_vector else 0


def _is_constant(value: Node) -> bool:
    return (operand(value) if value.op is Op.BROADCAST else value).op is Op.CONST


def _alias_metadata(count: int) -> list[str]:
    """One alias scope a kernel argument: distinct arguments never overlap.

    Scope i is !3i+1, the list of it alone !3i+2, and that of all others !3i+3.
    """
    scopes = [f"!{3 * i + 1}" for i in range(count)]
    lines = ["!0 = distinct !{!0}"]
    for i, scope in enumerate(scopes):
        others = ", ".join(scopes[:i] + scopes[i + 1 :])
        lines.append(f"{scope} = distinct !{{{scope}, !0}}")
        lines.append(f"!{3 * i + 2} = !{{{scope}}}")
        lines.append(f"!{3 * i + 3} = !{{{others}}}")
    return lines


class _CPUFunction(LLVMFunction):
    def __init__(
        self,
        name: str,
        phase: Phase,
        variables: Sequence[str],
        renderer: LLVMRenderer,
        has_scopes: bool,
    ) -> None:
        super().__init__(name, phase, variables, renderer.contract)
        self.has_scopes = has_scopes
        self.grid_open = False
        self.streams, self.has_streamed = renderer.streams, False
        self.full = _full_loops(phase, renderer.registers, renderer.vector_bits // 8)
        prefix = _REGISTERS.get(renderer.triple.partition("-")[0])
        names = [f"~{{{prefix}{n}}}" for n in range(renderer.registers)] if prefix else []
        self.freed = ",".join(names)

    def header(self) -> str:
        return (
            f"define void @{self.name}(ptr noalias %args, ptr noalias %vars, "
            "i64 %begin, i64 %end) #0 {"
        )

    def finish(self) -> None:
        if self.grid_open:
            self._close_grid()
        if self.has_streamed:  # before anybody hears that this slice is done
            self.lines.append("  call void @llvm.x86.sse.sfence()")
            self.declared["declare void @llvm.x86.sse.sfence()"] = None

    def masked_store(self, store: Store, stored: str, place: str) -> None:
        held = self._held_by_all(store.gate)
        # Even a store of no lanes is slow where there is no memory.
        done = self.open_if(held) if held else ""
        super().masked_store(store, self._apart(store.value.dtype, stored), place)
        if done:
            self.close_if(done)

    def _apart(self, dtype: DType, stored: str) -> str:
        """Integers behind a fence.

        LLVM joins a narrowing cast and the masked store of its result. Where it then knows that the
        mask holds one lane, it stores that lane as wide as it was before (LLVM 22.1, AVX-512).
        """
        nbytes = dtype.count * dtype.scalar.itemsize
        if dtype.is_float or nbytes % 4:
            return stored
        floats = dtypes.float32.vec(nbytes // 4)
        kind, wide = memory_type(dtype), type_name(floats)
        value = self.emit(f"bitcast {kind} {stored} to {wide}")
        fenced = self.call(floats, f"llvm.arithmetic.fence.{mangled(floats)}", [(wide, value)])
        return self.emit(f"bitcast {wide} {fenced} to {kind}")

    def _held_by_all(self, gate: Node) -> str:
        """What all lanes of a gate ask for alike; empty where that is nothing."""
        if gate.op is Op.AND and gate.dtype.count > 1:
            parts = [held for side in gate.src if (held := self._held_by_all(side))]
            return " ".join(parts) if len(parts) < 2 else self.emit(f"and i1 {', '.join(parts)}")
        if gate.op is Op.BROADCAST:
            return self.value(operand(gate))
        return self.value(gate) if gate.dtype.count == 1 else ""

    # -- arithmetic -----------------------------------------------------------------------------

    def _scale(self, node: Node) -> str:
        """Whole vectors of AVX-512: all lanes, rounded as everything else is."""
        kind = type_name(node.dtype)
        values = [self.value(source) for source in node.src]
        name = f"llvm.x86.avx512.mask.scalef.{'ps' if node.dtype.bits == 32 else 'pd'}.512"
        mask = f"i{node.dtype.count}"
        self.declared[f"declare {kind} @{name}({kind}, {kind}, {kind}, {mask}, i32)"] = None
        return self.emit(
            f"call {kind} @{name}({kind} {values[0]}, {kind} {values[1]}, {kind} {values[0]}, "
            f"{mask} -1, i32 4)"
        )

    # -- the grid -------------------------------------------------------------------------------

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
        return self.emit(f"urem i64 {position}, {self.value(bound_of(node))}")

    def _product(self, ranges: Sequence[Node]) -> str | None:
        total: str | None = None
        for r in ranges:
            size = self.value(bound_of(r))
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

    def _range(self, node: Node) -> str:
        # What is computed before and used behind the loop, a constant of masks say, would have a
        # register in it as well, and LLVM stores accumulators in each step in place of that.
        if node in self.full and self.freed:
            self.lines.append(f'  call void asm sideeffect "", "{self.freed}"()')
        return super()._range(node)

    # -- memory ---------------------------------------------------------------------------------

    def address(self, node: Node) -> str:
        if node.op is Op.LOCAL:
            name = f"%local{node.arg.number}"
            kind = memory_type(node.dtype)
            self.entry.append(f"  {name} = alloca {kind}, i64 {node.arg.size}, align 64")
            return name
        slot = node.arg.slot
        self.entry.append(f"  %at{slot} = getelementptr inbounds ptr, ptr %args, i64 {slot}")
        self.entry.append(f"  %arg{slot} = load ptr, ptr %at{slot}")
        return f"%arg{slot}"

    def plain_store(self, store: Store, stored: str, place: str) -> None:
        if store.how != STREAM or not self.streams:
            super().plain_store(store, stored, place)
            return
        self.has_streamed = True
        dtype = store.value.dtype
        at = f"ptr {place}, align {min(dtype.itemsize, CACHE_LINE)}{self.alias(store.memory)}"
        self.lines.append(f"  store {memory_type(dtype)} {stored}, {at}, !nontemporal {_STREAMED}")

    def _line(self, node: Node) -> str:
        memory, index, gate = node.src
        kind = memory_type(node.dtype)
        zeros = f"@zeros.{kind}.{node.arg}"
        array = f"[{node.arg} x {kind}] zeroinitializer, align {CACHE_LINE}"
        self.declared[f"{zeros} = private unnamed_addr constant {array}"] = None
        start = self.place_of(memory, index, node.dtype)
        return self.emit(f"select i1 {self.value(gate)}, ptr {start}, ptr {zeros}", "p")

    def alias(self, memory: Node) -> str:
        memory = behind_after(memory)
        if memory.op is not Op.PARAM or not self.has_scopes:
            return ""
        slot = memory.arg.slot
        return f", !alias.scope !{3 * slot + 2}, !noalias !{3 * slot + 3}"

    def _variable(self, node: Node) -> str:
        number = self.variables.index(node.arg.name)
        self.entry.append(f"  %varat{number} = getelementptr inbounds i64, ptr %vars, i64 {number}")
        self.entry.append(f"  %var{number} = load i64, ptr %varat{number}")
        return f"%var{number}"

    def load_where(self, load: Load) -> str:
        memory, gate, dtype = load.memory, load.gate, load.dtype
        place, held = self.value(load.index), self._held_by_all(gate)
        if held:
            # Even a load of no lanes is slow where there is no memory.
            place = self.emit(f"select i1 {held}, i64 {place}, i64 0")
        if dtype.count == 1:
            loaded = self.plain_load(load, self.place(memory, dtype, place))
            kind = type_name(dtype)
            return self.emit(
                f"select i1 {self.value(gate)}, {kind} {loaded}, {kind} {self.value(load.other)}"
            )
        mask = self.value(gate)
        if gate.dtype.count == 1:
            mask = self.splat(dtypes.bool, mask, dtype.count)
        return self.masked_load(load, self.place(memory, dtype, place), mask)

    # -- arithmetic -----------------------------------------------------------------------------

    def _cast(self, source: DType, target: DType, value: str) -> str:
        made = super()._cast(source, target, value)
        if source.scalar is not dtypes.float16 or target.scalar is not dtypes.float32:
            return made
        # LLVM would choose among halves, and convert what it compares, its choice and the masks.
        name = f"llvm.arithmetic.fence.{mangled(target)}"
        return self.call(target, name, [(type_name(target), made)])

    def to_integer(self, source: DType, target: DType, value: str) -> str:
        # LLVM's own intrinsic takes lanes one by one.
        have, want = type_name(source), type_name(target)
        digits = {32: 24, 64: 53}.get(source.scalar.bits)
        if digits is None:
            name = f"llvm.fptosi.sat.{mangled(target)}.{mangled(source)}"
            return self.call(target, name, [(have, value)])
        mask = type_name(dtypes.bool.vec(source.count) if source.count > 1 else dtypes.bool)

        def number(dtype: DType, n: int) -> str:
            scalar = literal(dtype.scalar, n)
            return self.splat(dtype.scalar, scalar, dtype.count) if dtype.count > 1 else scalar

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
