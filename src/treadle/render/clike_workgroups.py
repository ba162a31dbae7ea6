"""Languages with C's statements for GPUs: what CUDA C and HIP share.

Each phase is a function with one argument for each piece of memory that it uses, in the order of
the slots, then one for each launch-time integer. A slice of the grid is a workgroup.

Signed integers wrap, which C++ leaves undefined: they are added and multiplied as unsigned ones,
except where nothing can overflow. Sums of products are fused here, not by the compiler, which is
told not to.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from ..dtype import DType
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import Update, operand
from ..lower.linearize import Phase
from ..lower.overflow_analysis import bounds_and_exact
from .clike import BINARY, Function, is_promoted
from .workgroups import IS_ANY, Fused, added_products, fused, only_updated

__all__ = ["WorkgroupFunction", "scalar_operation"]


class WorkgroupFunction(Function):
    """One phase that workgroups run; `contract` lets multiply and add fuse."""

    def __init__(self, name: str, phase: Phase, contract: bool) -> None:
        super().__init__(name, phase, phase.variables)
        self.contract = contract
        self.written = {param for param, is_written in phase.params if is_written}
        _, self.exact = bounds_and_exact(phase.code)
        self.added = added_products(phase.code)
        self.unprinted = self.added | only_updated(phase.code)

    # -- what a language says of itself ---------------------------------------------------------

    @abstractmethod
    def work_item(self, name: str) -> str:
        """The number of this work item in its workgroup, or in its subgroup: its "lane"."""

    @abstractmethod
    def exchanged(self, dtype: DType, value: str, step: int) -> str:
        """The value that another lane has, `step` lanes apart.

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

    # -- text -----------------------------------------------------------------------------------

    def node(self, node: Node) -> None:
        if node not in self.unprinted:  # printed where they are added, or copied
            super().node(node)

    def arguments(self, scalars: Mapping[str, str]) -> list[str]:
        """The function's parameters."""
        memory = [
            f"{'' if param in self.written else 'const '}{scalars[param.dtype.name]} "
            f"*__restrict__ arg{param.arg.slot}"
            for param, _ in self.phase.params
        ]
        return [*memory, *(f"const int n{number}" for number in range(len(self.variables)))]

    def loop(self, name: str, dtype: DType, count: str) -> str:
        return f"for ({self.type(dtype)} {name} = 0; {name} < {count}; {name}++)"

    def variable(self, number: int) -> str:
        return f"n{number}"

    def _work_item(self, node: Node) -> str:
        return self.let(node.dtype, self.work_item(node.arg.name))

    # -- arithmetic -----------------------------------------------------------------------------

    def _update(self, node: Node) -> None:
        update = Update.of(node)
        register, value = behind_after(update.register), update.value
        name, sum_ = self.names[register], fused(node) if self.contract else None
        if value in self.added:
            self.line(f"{name} = {self.multiplied(value, name)};")
        elif sum_ is not None:
            self.line(f"{name} = {self._fused(register.dtype, sum_, name)};")
        else:
            super()._update(node)

    def _alu(self, node: Node) -> str:
        sum_ = fused(node) if self.contract else None
        if sum_ is not None:
            return self._fused(node.dtype, sum_)
        if node in self.exact and not is_promoted(node.dtype):
            a, b = self.operands(node)
            return f"({a} {BINARY[node.op]} {b})"
        return super()._alu(node)

    def _fused(self, dtype: DType, sum_: Fused, register: str = "") -> str:
        z = register if sum_.z is None else self.value(sum_.z)
        x, y = self.value(sum_.x), self.value(sum_.y)
        x = self.negate(dtype, x) if sum_.is_negative else x
        z = self.negate(dtype, z) if sum_.is_less else z
        return self.call(Op.FMA, dtype, [x, y, z])

    def _mma(self, node: Node) -> str:
        zeros = self.splat(node.dtype, self.literal(node.dtype.scalar, 0))
        return self.let(node.dtype, self.multiplied(node, zeros))

    # -- subgroups ------------------------------------------------------------------------------

    def _subgroup(self, node: Node) -> str:
        if node.dtype.is_bool:
            return self.let(node.dtype, self.vote(self.value(operand(node)), IS_ANY[node.arg]))
        return self._combined(node, node.arg, self.steps())

    def _butterfly(self, node: Node) -> str:
        arg = node.arg
        return self._combined(node, arg.op, [step for step in self.steps() if step in arg.steps])

    def _combined(self, node: Node, op: Op, steps: Sequence[int]) -> str:
        """The values of lanes that are `steps` apart, step by step."""
        dtype, value = node.dtype, self.value(operand(node))
        for step in steps:
            other = self.let(dtype, self.exchanged(dtype, value, step))
            value = self.let(dtype, self.binary(op, dtype, value, other))
        return value


def scalar_operation(op: Op, dtype: DType, a: str, b: str, scalars: Mapping[str, str]) -> str:
    """An operation of BINARY on two scalars; `scalars` says how their types are spelled."""
    if dtype.is_bool and op in (Op.ADD, Op.MUL):
        op = Op.OR if op is Op.ADD else Op.AND
    kind = scalars[dtype.name]
    if is_promoted(dtype):
        return f"({kind})({'(unsigned)' if op is Op.MUL else ''}{a} {BINARY[op]} {b})"
    if op in (Op.ADD, Op.SUB, Op.MUL) and dtype.is_int and not dtype.is_unsigned:
        wraps = scalars[f"u{dtype.name}"]
        return f"({kind})(({wraps}){a} {BINARY[op]} ({wraps}){b})"
    return f"({a} {BINARY[op]} {b})"
