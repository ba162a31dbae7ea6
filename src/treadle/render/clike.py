"""What every language with C's statements shares: names, lines, loops, registers, and the ops.

A subclass of `Function` prints one phase of a kernel. It says how its language spells types,
declarations, vectors, memory accesses, casts and comparisons; everything else is here.

One surprise: a vector of bools is a mask whose lanes are 0 or -1 in the C family, so that it can be
widened; a single bool is 0 or 1. `lane` and `vector` convert between the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..dtype import DType
from ..errors import InternalError
from ..ir.node import Node, behind_after
from ..ir.op import ALU, COMPARE, Op
from ..ir.views import After, Register, Update, bound_of, operand
from ..lower.linearize import Phase

__all__ = ["BINARY", "COMPARISONS", "FUNCTIONS", "Function", "is_promoted"]

BINARY = {
    Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.FDIV: "/", Op.IDIV: "/", Op.MOD: "%", Op.AND: "&",
    Op.OR: "|", Op.XOR: "^", Op.SHL: "<<", Op.SHR: ">>",
}  # fmt: skip
COMPARISONS = {Op.CMPLT: "<", Op.CMPEQ: "==", Op.CMPNE: "!="}
FUNCTIONS = {
    Op.SQRT: "sqrt", Op.FLOOR: "floor", Op.CEIL: "ceil", Op.TRUNC: "trunc", Op.ROUND: "rint",
    Op.FMA: "fma",
}  # fmt: skip


def is_promoted(dtype: DType) -> bool:
    """Whether C computes in int instead, and the result must be cut."""
    return dtype.count == 1 and dtype.bits < 32 and not dtype.is_float


class Function(ABC):
    """One phase on its way to text. Statements go to `lines`, declarations of memory to `top`."""

    language = "C-like"
    name: str
    phase: Phase
    variables: list[str]
    counter: int
    depth: int

    def __init__(self, name: str, phase: Phase, variables: Sequence[str]) -> None:
        self.name, self.phase, self.variables = name, phase, list(variables)
        self.names: dict[Node, str] = {}
        self.top: list[str] = []
        self.lines: list[str] = []
        self.counter = 0
        self.depth = 1
        self.grid_open = False

    def text(self) -> str:
        """The whole function."""
        for node in self.phase.program.src:
            self.node(node)
        if self.grid_open:
            self.close()
        return "\n".join([*self.header(), *self.top, *self.lines, "}", ""])

    # -- what a language says of itself ---------------------------------------------------------

    @abstractmethod
    def header(self) -> list[str]:
        """The lines up to the function's opening brace."""

    @abstractmethod
    def type(self, dtype: DType) -> str:
        """The type of a value in registers."""

    @abstractmethod
    def literal(self, dtype: DType, value: float) -> str:
        """A scalar constant."""

    @abstractmethod
    def declare(self, dtype: DType, name: str, code: str) -> str:
        """The statement that gives `name` the value `code`, for good."""

    @abstractmethod
    def declare_register(self, dtype: DType, name: str) -> str:
        """The statement that makes a variable."""

    @abstractmethod
    def declare_memory(self, node: Node) -> tuple[str, list[str]]:
        """The name of a PARAM or LOCAL, and the lines at the top that it needs."""

    @abstractmethod
    def loop(self, name: str, dtype: DType, count: str) -> str:
        """The head of a loop from 0 to `count`, without its brace."""

    @abstractmethod
    def grid_step(self) -> str:
        """The number of this slice of the grid, or of this workgroup."""

    @abstractmethod
    def variable(self, number: int) -> str:
        """A launch-time integer, by its place among those of the kernel."""

    @abstractmethod
    def vector(self, dtype: DType, lanes: Sequence[str]) -> str:
        """A vector of scalars."""

    @abstractmethod
    def lane(self, dtype: DType, value: str, number: int) -> str:
        """One lane of a vector as a scalar."""

    @abstractmethod
    def splat(self, dtype: DType, value: str) -> str:
        """A vector with the scalar `value` in every lane."""

    @abstractmethod
    def select(self, dtype: DType, mask: str, yes: str, no: str) -> str:
        """`yes` where `mask` holds, else `no`."""

    @abstractmethod
    def compare(self, op: Op, dtype: DType, a: str, b: str) -> str:
        """A comparison of two values of `dtype`."""

    @abstractmethod
    def binary(self, op: Op, dtype: DType, a: str, b: str) -> str:
        """An operation with two operands of one dtype."""

    @abstractmethod
    def negate(self, dtype: DType, value: str) -> str:
        """The negative."""

    @abstractmethod
    def call(self, op: Op, dtype: DType, values: list[str]) -> str:
        """A function of FUNCTIONS."""

    @abstractmethod
    def cast(self, source: DType, target: DType, value: str) -> str:
        """A value converted; float to integer saturates and takes NaN to 0."""

    @abstractmethod
    def bitcast(self, source: DType, target: DType, value: str) -> str:
        """The same bits."""

    @abstractmethod
    def load(self, node: Node) -> str:
        """The name of what is loaded."""

    @abstractmethod
    def store(self, node: Node) -> None:
        """Print a store."""

    # -- text -----------------------------------------------------------------------------------

    def line(self, code: str) -> None:
        self.lines.append("  " * self.depth + code)

    def open(self, code: str) -> None:
        self.line(code + " {")
        self.depth += 1

    def close(self) -> None:
        self.depth -= 1
        self.line("}")

    def let(self, dtype: DType, code: str) -> str:
        """A new name for the value `code`."""
        self.counter += 1
        name = f"v{self.counter}"
        self.line(self.declare(dtype, name, code))
        return name

    def value(self, node: Node) -> str:
        """What a node is called, or its text where it needs no name."""
        if node.op is Op.CONST:
            scalar = self.literal(node.dtype.scalar, node.arg)
            return scalar if node.dtype.count == 1 else self.splat(node.dtype, scalar)
        if node.op is Op.LANES:
            kind = node.dtype.scalar
            return self.vector(node.dtype, [self.literal(kind, i) for i in range(node.dtype.count)])
        if node.op is Op.BROADCAST and node not in self.names:
            return self.splat(node.dtype, self.value(operand(node)))
        if node.op in (Op.PARAM, Op.LOCAL):
            return self.memory(node)
        return self.names[node]

    def memory(self, node: Node) -> str:
        """The name of a piece of memory."""
        node = behind_after(node)
        if node not in self.names:
            self.names[node], lines = self.declare_memory(node)
            self.top += lines
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
            raise InternalError(f"the {self.language} renderer has no {node.op.name}")
        name = method(node)
        if name is not None:
            self.names[node] = name

    # -- loops and registers --------------------------------------------------------------------

    def _range(self, node: Node) -> str:
        if node.arg.kind == "grid":
            return self._grid(node)
        self.counter += 1
        name = f"r{self.counter}"
        self.open(self.loop(name, node.dtype, self.value(bound_of(node))))
        return name

    def _end(self, node: Node) -> None:
        self.close()

    def _grid(self, node: Node) -> str:
        """A digit of the flat position in the grid."""
        inner = self.phase.grid[self.phase.grid.index(node) + 1 :]
        code = " / ".join([self.grid_step(), *(self.value(bound_of(r)) for r in inner)])
        if node is not self.phase.grid[0]:
            code = f"({code}) % {self.value(bound_of(node))}"
        return self.let(node.dtype, code)

    def _variable(self, node: Node) -> str:
        return self.let(node.dtype, self.variable(self.variables.index(node.arg.name)))

    def _register(self, node: Node) -> str:
        name = f"reg{node.arg.number}"
        self.top.append(self.declare_register(node.dtype, name))
        self.line(f"{name} = {self.value(Register.of(node).start)};")
        return name

    def _update(self, node: Node) -> None:
        update = Update.of(node)
        register = behind_after(update.register)
        name, new = self.names[register], self.value(update.value)
        if update.op is not None:
            new = self.binary(update.op, register.dtype, name, new)
        self.line(f"{name} = {new};")

    def _after(self, node: Node) -> str:
        held = After.of(node).value
        if held.op is Op.REGISTER:
            return self.let(node.dtype, self.names[held])
        return self.memory(held)

    def _load(self, node: Node) -> str:
        return self.load(node)

    def _store(self, node: Node) -> None:
        self.store(node)

    # -- vectors --------------------------------------------------------------------------------

    def _broadcast(self, node: Node) -> str:
        return self.let(node.dtype, self.splat(node.dtype, self.value(operand(node))))

    def _stack(self, node: Node) -> str:
        return self.let(node.dtype, self.vector(node.dtype, [self.value(s) for s in node.src]))

    def _shuffle(self, node: Node) -> str:
        a, b = node.src
        values, half = [self.value(a), self.value(b)], a.dtype.count
        lanes = [self.lane(a.dtype, values[n // half], n % half) for n in node.arg]
        return self.let(node.dtype, self.vector(node.dtype, lanes))

    def _extract(self, node: Node) -> str:
        (source,) = node.src
        return self.let(node.dtype, self.lane(source.dtype, self.value(source), node.arg))

    def _hreduce(self, node: Node) -> str:
        """All lanes, halves combined again and again, in the same order as in render/llvm.py."""
        (source,) = node.src
        dtype, (whole,) = source.dtype.scalar, self.operands(node)
        lanes = [self.lane(source.dtype, whole, i) for i in range(source.dtype.count)]
        while len(lanes) > 1:
            half = len(lanes) // 2
            pairs = zip(lanes[:half], lanes[half:], strict=True)
            lanes = [self.let(dtype, self.binary(node.arg, dtype, a, b)) for a, b in pairs]
        return lanes[0]

    # -- arithmetic -----------------------------------------------------------------------------

    def operands(self, node: Node) -> list[str]:
        """What an operation computes with."""
        return [self.value(s) for s in node.src]

    def _alu(self, node: Node) -> str:
        op, dtype = node.op, node.dtype
        values = self.operands(node)
        if op is Op.CAST:
            return self.cast(operand(node).dtype, dtype, values[0])
        if op is Op.BITCAST:
            return self.bitcast(operand(node).dtype, dtype, values[0])
        if op is Op.NEG:
            return self.negate(dtype, values[0])
        if op is Op.WHERE:
            return self.select(dtype, *values)
        if op in FUNCTIONS:
            return self.call(op, dtype, values)
        if op in COMPARE:
            return self.compare(op, operand(node).dtype, *values)
        return self.binary(op, dtype, *values)
