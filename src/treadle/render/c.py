"""Linear programs to freestanding C for clang, with its vector extensions.

Each phase becomes `void name(void **args, long long *vars, long long begin, long long end)`, as in
render/llvm.py. No header is included and nothing is linked.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtype import DType
from ..ir.node import Node
from ..ir.op import Op
from ..lower.linearize import Phase
from .clang_vectors import ClangFunction, declarations

__all__ = ["CRenderer"]


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
        contract = f"#pragma clang fp contract({'fast' if self.contract else 'off'})"
        return "\n".join([contract, *declarations(functions), *bodies])


class _CFunction(ClangFunction):
    language = "C"

    def header(self) -> list[str]:
        arguments = "void **restrict args, const long long *restrict vars"
        return [f"void {self.name}({arguments}, long long begin, long long end) {{"]

    def declare_memory(self, node: Node) -> tuple[str, list[str]]:
        kind = self.scalars[node.dtype.name]
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

    def _line(self, node: Node) -> str:
        memory, index, gate = node.src
        kind = self.type(node.dtype)
        zeros = f"zeros_{node.dtype.name}_{node.arg}"
        self.helpers.add(f"static const {kind} {zeros}[{node.arg}];")
        self.counter += 1
        name, start = f"line{self.counter}", f"{self.memory(memory)} + {self.value(index)}"
        self.line(f"const {kind} *{name} = {self.value(gate)} ? {start} : {zeros};")
        return name

    def _prefetch(self, node: Node) -> None:
        memory, index = node.src
        place = f"{self.memory(memory)} + {self.value(index)}"
        self.line(f"__builtin_prefetch({place}, 0, {4 - node.arg});")

    def _scale(self, node: Node) -> str:
        value, exponent = (self.value(source) for source in node.src)
        name = f"__builtin_ia32_scalef{'ps' if node.dtype.bits == 32 else 'pd'}512_mask"
        return self.let(node.dtype, f"{name}({value}, {exponent}, {value}, -1, 4)")
