"""Linear programs to functions of LLVM IR: what every target of LLVM shares.

Registers are allocas that LLVM promotes; loops are rotated (tested at the bottom), since sizes
known when compiling are never zero. A subclass prints the header, finds its place in the grid, and
says where memory is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ..dtype import DType, dtypes
from ..errors import InternalError
from ..ir.loops import closed_ranges, has_fixed_size
from ..ir.node import Node, behind_after
from ..ir.op import ALU, Op
from ..ir.views import After, Load, Register, Store, Update, bound_of, operand
from ..lower.linearize import Phase
from .llvm_values import Values, literal, mangled, memory_type, type_name

__all__ = ["LLVMFunction"]


class LLVMFunction(Values):
    """One phase on its way to text: `entry` comes before the lines of the program."""

    stack = 0  # the address space of registers

    def __init__(self, name: str, phase: Phase, variables: Sequence[str], contract: bool) -> None:
        super().__init__(contract)
        self.name, self.phase = name, phase
        self.variables = list(variables)
        self.names: dict[Node, str] = {}
        self.entry: list[str] = []
        self.block = "body"
        self.loops: dict[Node, tuple[str, str]] = {}

    # -- what a target says of itself -------------------------------------------------------------

    @abstractmethod
    def header(self) -> str:
        """The line with the function's opening brace."""

    @abstractmethod
    def address(self, node: Node) -> str:
        """The address of a PARAM or LOCAL."""

    def space(self, memory: Node) -> int:
        """The address space of a piece of memory."""
        return 0

    def pointer(self, memory: Node) -> str:
        """The type of addresses in a piece of memory."""
        return _pointer(self.space(memory))

    @abstractmethod
    def _grid(self, node: Node) -> str:
        """A digit of the flat position in the grid."""

    @abstractmethod
    def _variable(self, node: Node) -> str:
        """A launch-time integer."""

    @abstractmethod
    def load_where(self, load: Load) -> str:
        """A load with a gate, and another value where that is false."""

    def alias(self, memory: Node) -> str:
        """What is said of accesses to a piece of memory: that others do not overlap it."""
        return ""

    def finish(self) -> None:
        """Print what closes the body."""

    # -- text -----------------------------------------------------------------------------------

    def text(self) -> str:
        """The whole function."""
        for node in self.phase.program.src:
            self.node(node)
        self.finish()
        lines = [self.header(), "entry:", *self.entry, "  br label %body", "body:", *self.lines]
        return "\n".join([*lines, "  ret void", "}", ""])

    def label(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def start_block(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    # -- values ---------------------------------------------------------------------------------

    def value(self, node: Node) -> str:
        """The operand text of a node printed before, or of a constant."""
        if node.op is Op.CONST:
            return literal(node.dtype, node.arg)
        if node.op is Op.LANES:
            kind = type_name(node.dtype.scalar)
            return "<" + ", ".join(f"{kind} {i}" for i in range(node.dtype.count)) + ">"
        if node.op is Op.BROADCAST and (lane := operand(node)).op is Op.CONST:
            one = f"{type_name(lane.dtype)} {literal(lane.dtype, lane.arg)}"
            return "<" + ", ".join([one] * node.dtype.count) + ">"
        if node.op in (Op.PARAM, Op.LOCAL):
            return self.memory(node)
        return self.names[node]

    def memory(self, node: Node) -> str:
        """The address of a piece of memory."""
        node = behind_after(node)
        if node not in self.names:
            self.names[node] = self.address(node)
        return self.names[node]

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
        size, kind = self.value(bound_of(node)), type_name(node.dtype)
        label = self.label("loop")
        step, done = f"{label}.next", f"{label}.done"
        if not has_fixed_size(node):
            some = self.emit(f"icmp sgt {kind} {size}, 0")
            self.lines.append(f"  br i1 {some}, label %{label}.pre, label %{done}")
            self.start_block(f"{label}.pre")
        before = self.block
        self.lines.append(f"  br label %{label}")
        self.start_block(label)
        name = f"%{label}.i"
        self.lines.append(f"  {name} = phi {kind} [ 0, %{before} ], [ {name}.next, %{step} ]")
        self.loops[node] = (label, size)
        return name

    def _end(self, node: Node) -> None:
        (loop,) = closed_ranges(node)
        label, size = self.loops[loop]
        name, kind = f"%{label}.i", type_name(loop.dtype)
        self.lines.append(f"  br label %{label}.next")
        self.start_block(f"{label}.next")
        self.lines.append(f"  {name}.next = add nuw nsw {kind} {name}, 1")
        more = self.emit(f"icmp ult {kind} {name}.next, {size}")
        hint = self.loop_hint(loop)
        self.lines.append(f"  br i1 {more}, label %{label}, label %{label}.done{hint}")
        self.start_block(f"{label}.done")

    def loop_hint(self, loop: Node) -> str:
        """What LLVM is to know of a loop, as metadata of the branch back."""
        return ""

    # -- memory ---------------------------------------------------------------------------------

    def _register(self, node: Node) -> str:
        name = f"%reg{node.arg.number}"
        kind = type_name(node.dtype)
        space = f", addrspace({self.stack})" if self.stack else ""
        self.entry.append(f"  {name} = alloca {kind}{space}")
        self.names[node] = name
        self.write_register(node, self.value(Register.of(node).start))
        return name

    def read_register(self, register: Node) -> str:
        """What a REGISTER holds."""
        place = f"{_pointer(self.stack)} {self.names[register]}"
        return self.emit(f"load {type_name(register.dtype)}, {place}")

    def write_register(self, register: Node, value: str) -> None:
        """Change what a REGISTER holds."""
        place = f"{_pointer(self.stack)} {self.names[register]}"
        self.lines.append(f"  store {type_name(register.dtype)} {value}, {place}")

    def _update(self, node: Node) -> None:
        update = Update.of(node)
        register = behind_after(update.register)
        new = self.value(update.value)
        if update.op is not None:
            old = self.read_register(register)
            new = self.binary(update.op, register.dtype, old, new, False)
        self.write_register(register, new)

    def _after(self, node: Node) -> str:
        held = After.of(node).value
        if held.op is Op.REGISTER:
            return self.read_register(held)
        return self.memory(held)

    def place(self, memory: Node, dtype: DType, index: str, kind: str = "i64") -> str:
        """The address of one element; `kind` is the type of the index."""
        base = f"{self.pointer(memory)} {self.memory(memory)}"
        return self.emit(f"getelementptr {memory_type(dtype.scalar)}, {base}, {kind} {index}", "p")

    def place_of(self, memory: Node, index: Node, dtype: DType) -> str:
        """The address that an access begins at."""
        return self.place(memory, dtype, self.value(index), type_name(index.dtype))

    def _load(self, node: Node) -> str:
        load = Load.of(node)
        if load.is_gated:
            return self.load_where(load)
        return self.plain_load(load, self.place_of(load.memory, load.index, load.dtype))

    def plain_load(self, load: Load, place: str) -> str:
        """What a LOAD gives from `place`, without looking at a gate."""
        return self.from_memory(load.dtype, self.raw_load(load, place, load.dtype.scalar.itemsize))

    def raw_load(self, load: Load, place: str, align: int) -> str:
        """The same in memory's type, from an address that is a multiple of `align`."""
        code = f"load {memory_type(load.dtype)}, {self.pointer(load.memory)} {place}"
        return self.emit(f"{code}, align {align}{self.alias(load.memory)}")

    def from_memory(self, dtype: DType, loaded: str) -> str:
        """A value in registers; bools are bytes in memory, and all but 0 are true."""
        if not dtype.is_bool:
            return loaded
        zero = "0" if dtype.count == 1 else "zeroinitializer"
        return self.emit(f"icmp ne {memory_type(dtype)} {loaded}, {zero}")

    def to_memory(self, dtype: DType, value: str) -> str:
        """A value as memory holds it."""
        if not dtype.is_bool:
            return value
        return self.emit(f"zext {type_name(dtype)} {value} to {memory_type(dtype)}")

    def masked_load(self, load: Load, place: str, mask: str) -> str:
        """The lanes of a vector where `mask` holds, else those of the other value."""
        memory, dtype = load.memory, load.dtype
        stored = dtypes.uint8.vec(dtype.count) if dtype.is_bool else dtype
        default = self.to_memory(dtype, self.value(load.other))
        loaded = self.call(
            stored,
            f"llvm.masked.load.{mangled(stored)}.p{self.space(memory)}",
            [(self.pointer(memory), place), ("i32", str(dtype.scalar.itemsize)),
             (f"<{dtype.count} x i1>", mask), (type_name(stored), default)],
        )  # fmt: skip
        return self.from_memory(dtype, loaded)

    def _store(self, node: Node) -> None:
        store = Store.of(node)
        dtype = store.value.dtype
        stored = self.to_memory(dtype, self.value(store.value))
        place = self.place_of(store.memory, store.index, dtype)
        if not store.is_gated:
            self.plain_store(store, stored, place)
        elif store.gate.dtype.count > 1:
            self.masked_store(store, stored, place)
        else:
            done = self.open_if(self.value(store.gate))
            self.plain_store(store, stored, place)
            self.close_if(done)

    def _prefetch(self, node: Node) -> None:
        memory, index = node.src
        name, kind = f"llvm.prefetch.p{self.space(memory)}", self.pointer(memory)
        self.declared[f"declare void @{name}({kind}, i32, i32, i32)"] = None
        place = self.place_of(memory, index, memory.dtype)
        # A read, of data; 3 is the first-level cache, 2 the second.
        near = 4 - node.arg
        self.lines.append(f"  call void @{name}({kind} {place}, i32 0, i32 {near}, i32 1)")

    def open_if(self, condition: str) -> str:
        """Start a block that runs where `condition` holds; returns the label of what follows."""
        label = self.label("if")
        self.lines.append(f"  br i1 {condition}, label %{label}, label %{label}.done")
        self.start_block(label)
        return f"{label}.done"

    def close_if(self, done: str) -> None:
        self.lines.append(f"  br label %{done}")
        self.start_block(done)

    def plain_store(self, store: Store, stored: str, place: str) -> None:
        """Store what a STORE has in memory's type, without looking at a gate."""
        self.raw_store(store, stored, place, store.value.dtype.scalar.itemsize)

    def raw_store(self, store: Store, stored: str, place: str, align: int) -> None:
        """The same at an address that is a multiple of `align`."""
        memory, kind = store.memory, memory_type(store.value.dtype)
        at = f"{self.pointer(memory)} {place}, align {align}{self.alias(memory)}"
        self.lines.append(f"  store {kind} {stored}, {at}")

    def masked_store(self, store: Store, stored: str, place: str) -> None:
        memory, dtype = store.memory, store.value.dtype
        wide = dtypes.uint8.vec(dtype.count) if dtype.is_bool else dtype
        kind, mask, pointer = type_name(wide), f"<{dtype.count} x i1>", self.pointer(memory)
        name = f"llvm.masked.store.{mangled(wide)}.p{self.space(memory)}"
        self.declared[f"declare void @{name}({kind}, {pointer}, i32, {mask})"] = None
        self.lines.append(
            f"  call void @{name}({kind} {stored}, {pointer} {place}, i32 "
            f"{dtype.scalar.itemsize}, {mask} {self.value(store.gate)})"
        )


def _pointer(space: int) -> str:
    """The type of addresses in an address space."""
    return f"ptr addrspace({space})" if space else "ptr"
