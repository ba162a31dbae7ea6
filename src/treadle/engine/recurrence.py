"""RECUR: one program for a step, run once for each step of the loop.

A state's history is one piece of memory, a row for each step; a step reads one row and writes the
next, and which rows these are is a variable of its kernels. Where memory has addresses the program
knows the history under two names, one to read and one to write: no row is both in one step, so
nothing has to be copied out of the way first. Of a state whose history nobody reads there are two
rows, which steps read and write in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..ir.choices import choosing
from ..ir.node import Node
from ..ir.op import Op
from ..ir.recurrence import Loop, siblings
from ..ir.shape import Shape, size_product
from ..ir.views import After, Assign, operand
from .devices import Device
from .launching import run_program
from .memory import Memory, adopt, memory_of, new_memory
from .pipeline import program_of
from .prepacked import expect_replays
from .provenance import origins_of

__all__ = ["run_loop"]

_STEP, _TURN = "recur_step", "recur_turn"
_TURNS = 2  # rows of a history that nobody reads


def run_loop(
    node: Node, operands: Sequence[Node], device: str, unread: Collection[int] = ()
) -> list[Memory]:
    """The histories of all states of the loop that `node` is one of, in new memory.

    `operands`: the sources, in memory of `device` or some rows of what is there. Of the states with
    numbers in `unread` it is the last row alone.
    """
    loop, states = Loop.of(node), siblings(node)
    steps = loop.arg.steps
    turning = [steps >= _TURNS and number in unread for number in range(len(states))]
    shapes = [
        (_TURNS if turns else steps + 1, *state.shape[1:])
        for state, turns in zip(states, turning, strict=True)
    ]
    pairs = zip(states, shapes, strict=True)
    histories = [new_memory(device, state.dtype, size_product(shape)) for state, shape in pairs]
    written = [*map(_shaped, histories, shapes)]
    firsts = [loop.first % _TURNS if turns else loop.first for turns in turning]
    starts = zip(written, firsts, operands, strict=False)
    _run([_set_row(*start) for start in starts], device, [{}], histories)
    if steps:
        read = written
        if Device[device].runtime.has_addresses:
            read = [*map(_shaped, histories, shapes)]
        with choosing(*(["rotating_states"] if any(turning) else [])):
            _run_steps(loop, read, written, turning, operands, device, histories)
    lasts = {n: loop.last % _TURNS if turning[n] else loop.last for n in unread}
    rows = {n: _row(written[n], last) for n, last in lasts.items()}
    ends = {n: new_memory(device, row.dtype, size_product(row.shape)) for n, row in rows.items()}
    copies = [_set_row(_shaped(ends[n], row.shape), 0, row) for n, row in rows.items()]
    if copies:
        _run(copies, device, [{}], [*histories, *ends.values()])
    return [ends.get(n, history) for n, history in enumerate(histories)]


def _run_steps(
    loop: Loop, read: Sequence[Node], written: Sequence[Node], turning: Sequence[bool],
    operands: Sequence[Node], device: str, histories: list[Memory],
) -> None:  # fmt: skip
    """Run all steps: each reads a row of the histories `read` and writes one of `written`."""
    steps = loop.arg.steps
    step, turn = Node.variable(_STEP, 0, steps - 1), Node.variable(_TURN, 0, _TURNS - 1)
    turns = (turn, 1 - turn) if loop.read[0] == 0 else (1 - turn, turn)
    places = [
        turns if is_turning else (step + loop.read[0], step + loop.written[0])
        for is_turning in turning
    ]
    many = len(read) + loop.arg.sequences
    seen = [
        *(_row(history, place) for history, (place, _) in zip(read, places, strict=True)),
        *(_row(rows, step) for rows in operands[len(read) : many]),
        *operands[many:],
    ]
    known = {
        stand: Node(Op.RESHAPE, stand.dtype, (value,), stand.shape)
        for stand, value in zip(loop.stand_ins, seen, strict=True)
    }
    body = [node.substitute(known) for node in loop.arg.body]
    targets = zip(written, places, body, strict=True)
    effects = [_set_row(into, place, value) for into, (_, place), value in targets]
    rounds = [{_STEP: number, _TURN: number % _TURNS} for number in loop.order]
    _run(effects, device, rounds, histories)


def _run(
    effects: list[Node], device: str, rounds: list[dict[str, int]], histories: list[Memory]
) -> None:
    """Run `effects` on `histories` once for each of `rounds`."""
    with expect_replays(histories, (0, 0)):
        program, inputs, values = program_of(effects, device)
    memories = [memory_of(ref) for ref in inputs]
    every = [values | one for one in rounds]
    run_program(program, memories, [], every, histories, origins_of(program, effects))


def _shaped(memory: Memory, shape: Shape) -> Node:
    """The memory of a history, under a name of its own."""
    return Node(Op.RESHAPE, memory.dtype, (adopt(memory),), shape)


def _row(history: Node, number: int | Node) -> Node:
    bounds = ((number, number + 1), *((0, size) for size in history.shape[1:]))
    return Node(Op.SHRINK, history.dtype, (history,), bounds)


def _set_row(history: Node, number: int | Node, value: Node) -> Node:
    """A history with `value` in one row."""
    view = _row(history, number)
    shaped = Node(Op.RESHAPE, view.dtype, (value,), view.shape)
    return After(operand(history), (Assign(view, shaped).node(),)).node()
