"""A kernel's schedule, made again: from its text alone, without choosing anything.

    ast, schedule = optimize(kernel, target)
    replay(kernel, target, parsed(str(schedule))) is ast

The target says what the processor has, such as its vectors and matrix units; all that was chosen
is in the schedule.
"""

from __future__ import annotations

from ..ir.node import Node
from ..target import Target
from . import heuristic
from .moves import Move, Moves, Schedule
from .records import read

__all__ = ["parsed", "replay"]


def replay(ast: Node, target: Target, moves: Schedule) -> Node:
    """`ast` after `moves`. Raises ValueError where one does not fit the kernel."""
    kernel = Moves(ast, target)
    for move in moves:
        kernel.make(move)
    return kernel.root


def parsed(text: str) -> Schedule:
    """The schedule of which `text` is the text. Raises ValueError for any other text."""
    assert heuristic  # whoever makes moves is imported, so that their words are known
    records = read(text)
    moves = [record for record in records if isinstance(record, Move)]
    if len(moves) < len(records):
        raise ValueError(f"a schedule has a move on each line: {text!r}")
    return Schedule(moves)
