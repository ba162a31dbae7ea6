"""A kernel as basic blocks: calls expanded, what is live between blocks known.

    flow = kernel_flow(module, "softmax")
    flow.blocks[0].instructions, flow.blocks[0].live_out

A block's number is the program counter of the threads that are at its start. Blocks end where
threads may part or wait (branches, exits, block barriers) and begin at instructions that the
threads of a warp execute together (`shfl.sync` and its kin).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from treadle.emulate.ptx.expand import Expansion, is_block_barrier, is_warp_wide
from treadle.emulate.ptx.syntax import (
    Address,
    Function,
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
from treadle.emulate.simt.liveness import live_values, members

__all__ = ["VOTED", "Block", "Flow", "kernel_flow"]

VOTED = "%voted"  # not PTX: the result of the bar.red before it


_ENDS = {"bra", "brx", "ret", "exit", "trap"}
# Opcodes whose first operand is not written.
_NO_RESULT = {
    "st", "red", "bra", "brx", "ret", "exit", "trap", "brkpt", "membar", "fence", "prefetch",
    "prefetchu", "cp", "call", "nanosleep", "stmatrix", "discard", "applypriority", "pmevent",
    "griddepcontrol", "setmaxnreg",
}  # fmt: skip


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


def kernel_flow(module: Module, name: str) -> Flow:
    """The blocks of one kernel. Raises PTXError for what cannot be expanded or found."""
    function = module.functions[name]
    expansion = Expansion(module)
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


def _link(blocks: list[Block], labels: dict[str, int], tables: dict[str, tuple[int, ...]]) -> None:
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
    live_in, live_out = live_values(uses, defines, [block.targets for block in blocks])
    names = list(registers)
    for i, block in enumerate(blocks):
        block.live_in = frozenset(members(names, live_in[i]))
        block.live_out = frozenset(members(names, live_out[i]))
