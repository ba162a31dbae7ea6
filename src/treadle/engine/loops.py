"""RECUR: one program for a step, run once for each step of the loop.

A state's history is one piece of memory, a row for each step; a step reads one row and writes the
next, and which rows these are is a variable of its kernels. Where memory has addresses the program
knows the history under two names, one to read and one to write: no row is both in one step, so
nothing has to be copied out of the way first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.node import Node
from ..ir.op import Op
from ..ir.recurrence import Loop, siblings
from ..ir.shape import size_product
from .backends import Device
from .lasting import expect_replays
from .launching import run_program
from .memory import Memory, adopt, memory_of, new_memory
from .pipeline import program_of

__all__ = ["run_loop"]

_STEP = "recur_step"


def run_loop(node: Node, operands: Sequence[Node], device: str) -> list[Memory]:
    """The histories of all states of the loop that `node` is one of, in new memory.

    `operands`: the sources, in memory of `device` or some rows of what is there.
    """
    loop, states = Loop.of(node), siblings(node)
    histories = [new_memory(device, s.dtype, size_product(s.shape)) for s in states]
    written = [_shaped(memory, state) for memory, state in zip(histories, states, strict=True)]
    pairs = zip(written, operands, strict=False)
    _run([_set_row(into, loop.first, value) for into, value in pairs], device, [{}], histories)
    if not loop.arg.steps:
        return histories
    read = written
    if Device[device].runtime.has_addresses:
        read = [_shaped(memory, state) for memory, state in zip(histories, states, strict=True)]
    step = Node.variable(_STEP, 0, loop.arg.steps - 1)
    many = len(states) + loop.arg.sequences
    seen = [
        *(_row(history, step + loop.read[0]) for history in read),
        *(_row(rows, step) for rows in operands[len(states) : many]),
        *operands[many:],
    ]
    known = {
        stand: Node(Op.RESHAPE, stand.dtype, (value,), stand.shape)
        for stand, value in zip(loop.stand_ins, seen, strict=True)
    }
    body = [node.substitute(known) for node in loop.arg.body]
    targets = zip(written, body, strict=True)
    effects = [_set_row(into, step + loop.written[0], value) for into, value in targets]
    _run(effects, device, [{_STEP: number} for number in loop.order], histories)
    return histories


def _run(
    effects: list[Node], device: str, rounds: list[dict[str, int]], histories: list[Memory]
) -> None:
    """Run `effects` on `histories` once for each of `rounds`."""
    with expect_replays(histories, (0, 0)):
        program, inputs, values = program_of(effects, device)
    memories = [memory_of(ref) for ref in inputs]
    run_program(program, memories, [], [values | one for one in rounds], histories)


def _shaped(memory: Memory, state: Node) -> Node:
    """The memory of a history, under a name of its own."""
    return Node(Op.RESHAPE, memory.dtype, (adopt(memory),), state.shape)


def _row(history: Node, number: int | Node) -> Node:
    bounds = ((number, number + 1), *((0, size) for size in history.shape[1:]))
    return Node(Op.SHRINK, history.dtype, (history,), bounds)


def _set_row(history: Node, number: int | Node, value: Node) -> Node:
    """A history with `value` in one row."""
    view = _row(history, number)
    shaped = Node(Op.RESHAPE, view.dtype, (value,), view.shape)
    assign = Node(Op.ASSIGN, view.dtype, (view, shaped))
    return Node(Op.AFTER, view.dtype, (history.src[0], assign))
