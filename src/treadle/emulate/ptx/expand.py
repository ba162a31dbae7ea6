"""A kernel's body with the device functions that it calls put in place of the calls.

Each expansion has registers, labels and variables of its own, and the parameters of a function are
the variables of the call. So a thread needs no stack of return addresses; recursion is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from treadle.emulate.ptx.syntax import (
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    PTXError,
    Register,
    Symbol,
    Variable,
    Vector,
)

__all__ = ["BUILTIN_CALLS", "Expansion", "is_block_barrier", "is_warp_wide"]

# Functions of CUDA's device runtime that have no body in any module.
BUILTIN_CALLS = {"vprintf", "__assertfail"}
_WARP_WIDE = {"shfl", "vote", "match", "redux", "mma", "ldmatrix", "stmatrix", "movmatrix", "elect"}


def is_block_barrier(item: Instruction) -> bool:
    """Whether the threads of a block may wait here for others of their block."""
    return item.opcode in ("bar", "barrier") and "warp" not in item.modifiers


def is_warp_wide(item: Instruction) -> bool:
    """Whether the named threads of a warp execute this together."""
    if item.opcode in _WARP_WIDE:
        return "sync" in item.modifiers
    return (item.opcode == "bar" and "warp" in item.modifiers) or item.opcode == "wgmma"


@dataclass(slots=True)
class Expansion:
    """What a kernel's body has become so far."""

    module: Module
    body: list[Instruction | Label] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    calls: int = 0

    def expand(self, function: Function, names: dict[str, str], prefix: str, stack: list[str]):
        """Adds the body of `function`; `names` says what its parameters are called here."""
        end = f"{prefix}return"
        rename = _Renamer(function, names, prefix)
        self.registers |= {rename.name(name): kind for name, kind in function.registers.items()}
        self.variables += [replace(v, name=rename.name(v.name)) for v in function.variables]
        for name, labels in function.tables.items():
            self.tables[rename.name(name)] = tuple(map(rename.name, labels))
        for item in function.body or ():
            if isinstance(item, Label):
                self.body.append(Label(rename.name(item.name), item.line))
                continue
            item = rename.instruction(item)
            if item.opcode == "ret" and stack[1:]:
                item = replace(item, opcode="bra", modifiers=(), operands=(Symbol(end),))
            if item.opcode == "call":
                self._call(item, stack)
            elif item.guard is not None and (is_warp_wide(item) or is_block_barrier(item)):
                self._around(item, lambda plain: self.body.append(plain))
            else:
                self.body.append(item)
        if stack[1:]:
            self.body.append(Label(end, function.line))

    def _around(self, item: Instruction, emit) -> None:
        """A guarded instruction of this kind is a branch around it."""
        self.calls += 1
        over = f"over@{self.calls}"
        self.body.append(
            replace(item, opcode="bra", modifiers=(), operands=(Symbol(over),),
                    guard_negated=not item.guard_negated)
        )  # fmt: skip
        emit(replace(item, guard=None, guard_negated=False))
        self.body.append(Label(over, item.line))

    def _call(self, item: Instruction, stack: list[str]) -> None:
        if item.guard is not None:
            self._around(item, lambda plain: self._call(plain, stack))
            return
        results, callee, arguments = item.operands
        if not isinstance(callee, Symbol) or callee.name not in self.module.functions:
            raise PTXError(item.line, "calls through a register are not emulated")
        function = self.module.functions[callee.name]
        if callee.name in BUILTIN_CALLS:
            self.body.append(item)
            return
        if function.body is None:
            raise PTXError(item.line, f"{callee.name} is declared and never defined")
        if callee.name in stack:
            raise PTXError(item.line, f"{callee.name} calls itself, which is not emulated")
        names = {}
        for formal, actual in zip(
            [*function.results, *function.parameters],
            [*_items(results), *_items(arguments)],
            strict=False,
        ):
            names[formal.name] = self._argument(item, formal, actual)
        self.calls += 1
        self.expand(function, names, f"{callee.name}#{self.calls}:", [*stack, callee.name])

    def _argument(self, item: Instruction, formal: Variable, actual: Operand) -> str:
        if not isinstance(actual, Symbol):
            raise PTXError(item.line, f"the argument for {formal.name} is no .param variable")
        return actual.name


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


class _Renamer:
    """Gives what belongs to one expansion of a function names of its own."""

    def __init__(self, function: Function, names: dict[str, str], prefix: str) -> None:
        own = {*function.registers, *function.tables, *(v.name for v in function.variables)}
        own |= {item.name for item in function.body or () if isinstance(item, Label)}
        own |= {label for labels in function.tables.values() for label in labels}
        self.names = {name: prefix + name for name in own} if prefix else {}
        self.names |= names

    def name(self, name: str) -> str:
        return self.names.get(name, name)

    def instruction(self, item: Instruction) -> Instruction:
        if not self.names:
            return item
        guard = None if item.guard is None else Register(self.name(item.guard.name))
        return replace(item, operands=tuple(map(self.operand, item.operands)), guard=guard)

    def operand(self, operand: Operand) -> Operand:
        match operand:
            case Register(name):
                return Register(self.name(name))
            case Symbol(name, offset):
                return Symbol(self.name(name), offset)
            case Address(base, offset, coordinates):
                renamed = base
                if not isinstance(base, Immediate):
                    renamed = replace(base, name=self.name(base.name))
                return Address(renamed, offset, tuple(map(self.operand, coordinates)))
            case Vector(items):
                return Vector(tuple(map(self.operand, items)))
            case Pair(first, second):
                return Pair(self.operand(first), self.operand(second))
            case Negated(register):
                return Negated(Register(self.name(register.name)))
        return operand
