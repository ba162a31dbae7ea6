"""A kernel as basic blocks: calls expanded, what is live between blocks known.

    flow = kernel_flow(module, "softmax")
    flow.blocks[0].instructions, flow.blocks[0].live_out

A block's number is the program counter of the threads that are at its start. Blocks end where
threads may part or wait (branches, exits, block barriers) and begin at instructions that the
threads of a warp execute together (`shfl.sync` and its kin). Device functions are expanded at
each call, so a thread needs no stack of return addresses; recursion is an error.
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
    Sink,
    Symbol,
    Variable,
    Vector,
)

__all__ = [
    "BUILTIN_CALLS", "Block", "Flow", "VOTED", "is_block_barrier", "is_warp_wide", "kernel_flow",
]  # fmt: skip

VOTED = "%voted"  # not PTX: the result of the bar.red before it

# Functions of CUDA's device runtime that have no body in any module.
BUILTIN_CALLS = {"vprintf", "__assertfail"}

_ENDS = {"bra", "brx", "ret", "exit", "trap"}
# Opcodes whose first operand is not written.
_NO_RESULT = {
    "st", "red", "bra", "brx", "ret", "exit", "trap", "brkpt", "membar", "fence", "prefetch",
    "prefetchu", "cp", "call", "nanosleep", "stmatrix", "discard", "applypriority", "pmevent",
    "griddepcontrol", "setmaxnreg",
}  # fmt: skip
_WARP_WIDE = {"shfl", "vote", "match", "redux", "mma", "ldmatrix", "stmatrix", "movmatrix", "elect"}


@dataclass(slots=True)
class Block:
    """Straight-line code. `targets` are where it may go: of a conditional branch, taken first."""

    index: int
    instructions: list[Instruction]
    targets: tuple[int, ...] = ()
    live_in: frozenset[str] = frozenset()
    live_out: frozenset[str] = frozenset()


@dataclass(slots=True)
class Flow:
    """A kernel with everything that it needs, in one list of blocks."""

    function: Function
    blocks: list[Block]
    registers: dict[str, str]
    variables: list[Variable]
    parameters: dict[str, Variable]
    tables: dict[str, tuple[int, ...]]


@dataclass(slots=True)
class _Expansion:
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
        self.variables += [
            replace(v, name=rename.name(v.name)) for v in function.variables
        ]
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

    def _around(self, item: Instruction, emit) -> None:  # noqa: ANN001
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
                base = base if isinstance(base, Immediate) else self.operand(base)
                return Address(base, offset, tuple(map(self.operand, coordinates)))
            case Vector(items):
                return Vector(tuple(map(self.operand, items)))
            case Pair(first, second):
                return Pair(self.operand(first), self.operand(second))
            case Negated(register):
                return Negated(Register(self.name(register.name)))
        return operand


def is_block_barrier(item: Instruction) -> bool:
    """Whether the threads of a block may wait here for others of their block."""
    return item.opcode in ("bar", "barrier") and "warp" not in item.modifiers


def is_warp_wide(item: Instruction) -> bool:
    """Whether the named threads of a warp execute this together."""
    if item.opcode in _WARP_WIDE:
        return "sync" in item.modifiers
    return (item.opcode == "bar" and "warp" in item.modifiers) or item.opcode == "wgmma"


def kernel_flow(module: Module, name: str) -> Flow:
    """The blocks of one kernel. Raises PTXError for what cannot be expanded or found."""
    function = module.functions[name]
    expansion = _Expansion(module)
    expansion.expand(function, {}, "", [name])
    blocks, labels = _blocks(expansion.body)
    tables = {
        table: tuple(_target(labels, label, function.line) for label in names)
        for table, names in expansion.tables.items()
    }
    _link(blocks, labels, tables)
    _find_live(blocks, expansion.registers)
    parameters = {variable.name: variable for variable in function.parameters}
    return Flow(function, blocks, expansion.registers, expansion.variables, parameters, tables)


def _blocks(body: list[Instruction | Label]) -> tuple[list[Block], dict[str, int]]:
    blocks, labels = [Block(0, [])], {}
    fresh = False
    for item in body:
        starts = isinstance(item, Label) or is_warp_wide(item)
        if (fresh or starts) and blocks[-1].instructions:
            blocks.append(Block(len(blocks), []))
        fresh = False
        if isinstance(item, Label):
            labels[item.name] = len(blocks) - 1
            continue
        if is_block_barrier(item) and "red" in item.modifiers:
            # What was voted is known when the threads go on: in the next block.
            result, barrier = item.operands[:2]
            blocks[-1].instructions.append(replace(item, operands=(Sink(), *item.operands[1:])))
            blocks.append(Block(len(blocks), []))
            item = Instruction(VOTED, item.modifiers, (result, barrier), item.line)
        blocks[-1].instructions.append(item)
        fresh = item.opcode in _ENDS or is_block_barrier(item)
    last = blocks[-1].instructions
    if not last or last[-1].opcode not in ("ret", "exit") or last[-1].guard is not None:
        line = last[-1].line if last else 0
        end = Instruction("ret", (), (), line)
        if fresh:
            blocks.append(Block(len(blocks), [end]))
        else:
            last.append(end)
    return blocks, labels


def _target(labels: dict[str, int], name: str, line: int) -> int:
    if name not in labels:
        raise PTXError(line, f"no label {name}")
    return labels[name]


def _link(
    blocks: list[Block], labels: dict[str, int], tables: dict[str, tuple[int, ...]]
) -> None:
    for block in blocks:
        last = block.instructions[-1]
        after = (block.index + 1,)
        if last.opcode == "bra":
            (label,) = last.operands
            if not isinstance(label, Symbol):
                raise PTXError(last.line, "a branch goes to a label")
            block.targets = (_target(labels, label.name, last.line),)
            block.targets += after if last.guard is not None else ()
        elif last.opcode == "brx":
            table = last.operands[1]
            if not isinstance(table, Symbol) or table.name not in tables:
                raise PTXError(last.line, "brx.idx takes a label of .branchtargets")
            block.targets = tables[table.name]
            block.targets += after if last.guard is not None else ()
        elif last.opcode in ("ret", "exit"):
            block.targets = after if last.guard is not None else ()
        else:
            block.targets = after


def results_of(item: Instruction) -> tuple[str, ...]:
    """The registers that an instruction writes."""
    if item.opcode in _NO_RESULT or not item.operands:
        return ()
    if item.opcode in ("bar", "barrier") and "red" not in item.modifiers:
        return ()
    return tuple(_registers(item.operands[0]))


def sources_of(item: Instruction) -> tuple[str, ...]:
    """The registers that an instruction reads, its guard and partly kept results included."""
    results = results_of(item)
    operands = item.operands[1:] if results or _has_sink(item) else item.operands
    names = [name for operand in operands for name in _registers(operand)]
    if item.operands and isinstance(item.operands[0], Address):
        names += _registers(item.operands[0])
    if item.guard is not None:
        names += [item.guard.name, *results]
    if item.opcode == "wgmma":
        names += results
    return tuple(names)


def _has_sink(item: Instruction) -> bool:
    return bool(item.operands) and isinstance(item.operands[0], Sink)


def _registers(operand: Operand) -> list[str]:
    match operand:
        case Register(name):
            return [name]
        case Negated(register):
            return [register.name]
        case Address(base, _, coordinates):
            return _registers(base) + [n for item in coordinates for n in _registers(item)]
        case Vector(items):
            return [name for item in items for name in _registers(item)]
        case Pair(first, second):
            return _registers(first) + _registers(second)
    return []


def _find_live(blocks: list[Block], registers: dict[str, str]) -> None:
    """Fills in what each block needs from before it and leaves for others."""
    numbers = {name: 1 << i for i, name in enumerate(registers)}
    uses, defines = [], []
    for block in blocks:
        used = defined = 0
        for item in block.instructions:
            for name in sources_of(item):
                used |= numbers.get(name, 0) & ~defined
            for name in results_of(item):
                defined |= numbers.get(name, 0)
        uses.append(used)
        defines.append(defined)
    live_in, live_out = [0] * len(blocks), [0] * len(blocks)
    changed = True
    while changed:
        changed = False
        for i in range(len(blocks) - 1, -1, -1):
            out = 0
            for target in blocks[i].targets:
                if target < len(blocks):
                    out |= live_in[target]
            before = uses[i] | (out & ~defines[i])
            live_out[i] = out
            changed |= before != live_in[i]
            live_in[i] = before
    names = list(registers)
    for i, block in enumerate(blocks):
        block.live_in = _members(names, live_in[i])
        block.live_out = _members(names, live_out[i])


def _members(names: list[str], bits: int) -> frozenset[str]:
    found = []
    while bits:
        low = bits & -bits
        found.append(names[low.bit_length() - 1])
        bits ^= low
    return frozenset(found)
