"""Linear programs to functions of LLVM IR for GPUs: what NVIDIA's and AMD's share.

A kernel has one argument for each piece of memory that it uses, in the order of the slots, then one
for each launch-time integer, of 32 bits. A slice of the grid is a workgroup. Arguments are in
global memory (address space 1), what the work items of a workgroup share is a global of the module
in shared memory (3): both targets number these alike.

A subclass says how the numbers of workgroups and work items are read, how lanes exchange words,
where work items meet, and how matrices are multiplied.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence

from ..dtype import DType
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import Load, Update, bound_of, operand
from ..lower.linearize import Phase, local_places
from ..lower.overflow_analysis import bounds_and_exact
from .llvm_function import LLVMFunction
from .llvm_values import mangled, memory_type, type_name, zero
from .workgroups import IS_ANY, Fused, added_products, fused, only_updated

__all__ = ["GLOBAL", "SHARED", "WorkgroupFunction"]

GLOBAL, SHARED = 1, 3  # address spaces
_UNSIGNED = {Op.IDIV: "udiv", Op.MOD: "urem"}
_NO_WRAP = {Op.ADD: "add nsw", Op.SUB: "sub nsw", Op.MUL: "mul nsw"}


class WorkgroupFunction(LLVMFunction):
    """One phase that workgroups run; `contract` lets multiply and add fuse."""

    def __init__(self, name: str, phase: Phase, contract: bool) -> None:
        super().__init__(name, phase, phase.variables, contract=False)  # see `fused`
        self.fuses = contract
        self.top: list[str] = []  # shared memory
        self.written = {param for param, is_written in phase.params if is_written}
        self.bounds, self.exact = bounds_and_exact(phase.code)
        self.added = added_products(phase.code)
        self.unprinted = self.added | only_updated(phase.code)
        self.digits: dict[str, str] = {}  # what special registers hold, once read
        self.places, _ = local_places(phase.code)

    # -- what a target says of itself -------------------------------------------------------------

    @abstractmethod
    def workgroup(self) -> str:
        """The number of this workgroup, in 32 bits."""

    @abstractmethod
    def work_item(self) -> str:
        """The number of this work item in its workgroup, in 32 bits."""

    @abstractmethod
    def lane(self) -> str:
        """The number of this work item in its subgroup, in 32 bits."""

    @abstractmethod
    def exchanged(self, word: str, step: int) -> str:
        """The word that another lane has, `step` lanes apart.

        That is so for combining values: lanes that hold the same after smaller or larger steps
        stand for each other.
        """

    @abstractmethod
    def vote(self, condition: str, is_any: bool) -> str:
        """Whether a condition holds for any lane of the subgroup, or else for all."""

    @abstractmethod
    def steps(self) -> Sequence[int]:
        """How far apart lanes are that a subgroup combines, step by step: all get the same."""

    @abstractmethod
    def multiplied(self, node: Node, sums: str) -> str:
        """The sums of an MMA, added to what is there already."""

    # -- arguments ------------------------------------------------------------------------------

    def arguments(self) -> list[str]:
        """The kernel's parameters."""
        memory = [self._argument(param) for param, _ in self.phase.params]
        return [*memory, *(f"i32 %n{number}" for number in range(len(self.variables)))]

    def _argument(self, param: Node) -> str:
        access = "" if param in self.written else "readonly "
        return f"ptr addrspace({GLOBAL}) noalias {access}%arg{param.arg.slot}"

    def node(self, node: Node) -> None:
        if node not in self.unprinted:  # printed where they are added, or copied
            super().node(node)

    # -- the grid -------------------------------------------------------------------------------

    def special(self, name: str, function: str, count: int) -> str:
        """A special register that an intrinsic function reads: a number below `count`."""
        if name not in self.digits:
            register = f"@{function}()"
            self.declared[f"declare i32 {register}"] = None
            self.entry.append(f"  %{name} = call range(i32 0, {count}) i32 {register}")
            self.digits[name] = f"%{name}"
        return self.digits[name]

    def _grid(self, node: Node) -> str:
        inner = self.phase.grid[self.phase.grid.index(node) + 1 :]
        position = self.workgroup()
        for r in inner:
            position = self.emit(f"udiv i32 {position}, {self._size(r)}")
        if node is not self.phase.grid[0]:
            position = self.emit(f"urem i32 {position}, {self._size(node)}")
        return self._as(node.dtype, position)

    def _size(self, loop: Node) -> str:
        """The number of a RANGE's steps in 32 bits: there are no more workgroups than that."""
        size = bound_of(loop)
        if size.op is Op.CONST or size.dtype.bits == 32:
            return self.value(size)
        return self.emit(f"trunc {type_name(size.dtype)} {self.value(size)} to i32")

    def _as(self, dtype: DType, value: str) -> str:
        """A natural number of 32 bits as `dtype`."""
        return value if dtype.bits == 32 else self.emit(f"zext i32 {value} to {type_name(dtype)}")

    def _variable(self, node: Node) -> str:
        name = f"%n{self.variables.index(node.arg.name)}"
        return name if node.dtype.bits == 32 else self.emit(f"sext i32 {name} to i64")

    def _work_item(self, node: Node) -> str:
        numbers = {"lane": self.lane, "work_item": self.work_item}  # subgroups have a fixed size
        return self._as(node.dtype, numbers[node.arg.name]())

    # -- memory ---------------------------------------------------------------------------------

    def space(self, memory: Node) -> int:
        return GLOBAL if is_argument(memory) else SHARED

    def address(self, node: Node) -> str:
        if node.op is Op.PARAM:
            return f"%arg{node.arg.slot}"
        name = f"@{self.name}_local{node.arg.number}"
        array = f"[{node.arg.size} x {memory_type(node.dtype)}]"
        self.top.append(
            f"{name} = internal addrspace({SHARED}) global {array} poison, "
            f"align {node.arg.alignment}"
        )
        return name

    def load_where(self, load: Load) -> str:
        place = self.place_of(load.memory, load.index, load.dtype)
        if load.gate.dtype.count > 1:
            return self.masked_load(load, place, self.value(load.gate))
        before, instead = self.block, self.value(load.other)
        done = self.open_if(self.value(load.gate))
        loaded = self.plain_load(load, place)
        inside = self.block
        self.close_if(done)
        kind = type_name(load.dtype)
        return self.emit(f"phi {kind} [ {loaded}, %{inside} ], [ {instead}, %{before} ]")

    # -- arithmetic -----------------------------------------------------------------------------

    def _update(self, node: Node) -> None:
        update = Update.of(node)
        register, value = behind_after(update.register), update.value
        sum_ = fused(node) if self.fuses else None
        if value not in self.added and sum_ is None:
            super()._update(node)
            return
        old = self.read_register(register)
        if sum_ is not None:
            self.write_register(register, self._fused(register.dtype, sum_, old))
        else:
            self.write_register(register, self.multiplied(value, old))

    def _alu(self, node: Node) -> str:
        sum_ = fused(node) if self.fuses else None
        if sum_ is not None:
            return self._fused(node.dtype, sum_)
        kind = type_name(node.dtype)
        if node in self.exact:
            return self.emit(f"{_NO_WRAP[node.op]} {kind} {self._operands(node)}")
        if node.op in _UNSIGNED and all(self.bounds.get(s, (-1,))[0] >= 0 for s in node.src):
            return self.emit(f"{_UNSIGNED[node.op]} {kind} {self._operands(node)}")
        return super()._alu(node)

    def _operands(self, node: Node) -> str:
        return ", ".join(self.value(s) for s in node.src)

    def _fused(self, dtype: DType, sum_: Fused, register: str = "") -> str:
        kind = type_name(dtype)
        x, y = self.value(sum_.x), self.value(sum_.y)
        z = register if sum_.z is None else self.value(sum_.z)
        x = self.emit(f"fneg {kind} {x}") if sum_.is_negative else x
        z = self.emit(f"fneg {kind} {z}") if sum_.is_less else z
        return self.call(dtype, f"llvm.fma.{mangled(dtype)}", [(kind, n) for n in (x, y, z)])

    def _mma(self, node: Node) -> str:
        return self.multiplied(node, zero(node.dtype))

    def lanes(self, dtype: DType, value: str) -> Iterator[str]:
        """The lanes of a vector, one by one."""
        for number in range(dtype.count):
            yield self.emit(f"extractelement {type_name(dtype)} {value}, i64 {number}")

    def vector(self, dtype: DType, lanes: Iterable[str]) -> str:
        """A vector of these lanes."""
        kind, one, total = type_name(dtype), type_name(dtype.scalar), "poison"
        for number, lane in enumerate(lanes):
            total = self.emit(f"insertelement {kind} {total}, {one} {lane}, i64 {number}")
        return total

    # -- subgroups ------------------------------------------------------------------------------

    def do(self, name: str, operands: Sequence[tuple[str, str]] = ()) -> None:
        """A call of an intrinsic function that gives nothing."""
        self.declared[f"declare void @{name}({', '.join(kind for kind, _ in operands)})"] = None
        given = ", ".join(f"{kind} {value}" for kind, value in operands)
        self.lines.append(f"  call void @{name}({given})")

    def _subgroup(self, node: Node) -> str:
        if node.dtype.is_bool:
            return self.vote(self.value(operand(node)), IS_ANY[node.arg])
        return self._combined(node, node.arg, self.steps())

    def _butterfly(self, node: Node) -> str:
        arg = node.arg
        return self._combined(node, arg.op, [step for step in self.steps() if step in arg.steps])

    def _combined(self, node: Node, op: Op, steps: Sequence[int]) -> str:
        """The values of lanes that are `steps` apart, step by step."""
        dtype, value = node.dtype, self.value(operand(node))
        for step in steps:
            other = self._from_word(dtype, self.exchanged(self._to_word(dtype, value), step))
            value = self.binary(op, dtype, value, other, False)
        return value

    def _to_word(self, dtype: DType, value: str) -> str:
        """A value of at most 32 bits as that many."""
        kind = type_name(dtype)
        if dtype.is_float:
            return self.emit(f"bitcast {kind} {value} to i32")
        return value if dtype.bits == 32 else self.emit(f"zext {kind} {value} to i32")

    def _from_word(self, dtype: DType, word: str) -> str:
        kind = type_name(dtype)
        if dtype.is_float:
            return self.emit(f"bitcast i32 {word} to {kind}")
        return word if dtype.bits == 32 else self.emit(f"trunc i32 {word} to {kind}")


def is_argument(memory: Node) -> bool:
    """Whether memory is the caller's."""
    return behind_after(memory).op is Op.PARAM
