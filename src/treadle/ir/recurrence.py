"""Loops over the steps of a sequence: one graph for a step, however many there are.

    RECUR(h0, xs, w; body (tanh(x + h @ w),), 3 steps)  ->  (4, *h0.shape): h0, h1, h2, h3

A body is a graph of stand-ins, BUFFERs without memory: number i stands for what a step sees of
source i, a state, a row of a sequence, or all of what every step reads. Equal bodies are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from ..dtype import DType
from .args import BufferRef, Placeholder, RecurArg, Token
from .node import Node, toposort
from .op import Op
from .shape import Shape, size_product

__all__ = ["Loop", "extended", "siblings", "stand_in", "without"]

_WHY = (
    "[scan] the values of a step are not known while the step's function runs, for it runs once "
    "for all: .item(), .numpy(), .realize(), conditions on tensors and masks as subscripts cannot "
    "be in it. Use where() for a condition; what the function keeps for later it must return"
)
_tokens: list[Placeholder] = []


def stand_in(number: int | None, dtype: DType, shape: Shape) -> Node:
    """What stands for source `number` of a loop, flat: what a step sees of it has `shape`.

    Without a number it is like no other: for a body that may have another loop in it.
    """
    token = Placeholder(_WHY) if number is None else _token(number)
    return Node(Op.BUFFER, dtype, (), BufferRef(token, size_product(shape), ""))


def _token(number: int) -> Placeholder:
    while len(_tokens) <= number:
        _tokens.append(Placeholder(_WHY))
    return _tokens[number]


def siblings(node: Node) -> list[Node]:
    """All states of the loop that a RECUR is one state of."""
    return [
        Node(Op.RECUR, body.dtype, node.src, replace(node.arg, number=number))
        for number, body in enumerate(node.arg.body)
    ]


def extended(node: Node, values: Sequence[Node], first: Sequence[Node]) -> list[Node]:
    """All states of the loop of `node`, and after them `values` of its stand-ins, of all steps.

    They are states that no step reads, and begin with `first`. The engine runs both loops as one.
    """
    loop = Loop.of(node)
    return _renumbered(loop, (*loop.states, *first), (*node.arg.body, *values))


def without(node: Node, count: int) -> list[Node]:
    """The first `count` states of the loop of `node`, if they need no others, else []."""
    loop = Loop.of(node)
    body, dropped = node.arg.body[:count], set(loop.stand_ins[count : len(loop.states)])
    if not dropped or not dropped.isdisjoint(toposort(body)):
        return []
    return _renumbered(loop, loop.states[:count], body)


def _renumbered(loop: Loop, states: tuple[Node, ...], body: tuple[Node, ...]) -> list[Node]:
    """`loop` with other states: those that it has too come first."""
    count, stands = len(loop.states), loop.stand_ins
    shift = len(states) - count
    moved = {
        stand: Node(Op.BUFFER, stand.dtype, (), replace(stand.arg, token=_token(number + shift)))
        for number, stand in enumerate(stands)
        if number >= count
    }
    arg = replace(loop.arg, body=tuple(one.substitute(moved) for one in body), number=0)
    src = (*states, *loop.sequences, *loop.constants)
    return siblings(Node(Op.RECUR, body[0].dtype, src, arg))


@dataclass(frozen=True)
class Loop:
    """A RECUR's sources by what they are, and the stand-in of each."""

    arg: RecurArg
    states: tuple[Node, ...]
    sequences: tuple[Node, ...]
    constants: tuple[Node, ...]

    @classmethod
    def of(cls, node: Node) -> Self:
        """The loop that `node` is a state of."""
        first, last = len(node.arg.body), len(node.arg.body) + node.arg.sequences
        return cls(node.arg, node.src[:first], node.src[first:last], node.src[last:])

    @cached_property
    def stand_ins(self) -> list[Node]:
        """For each source."""
        shapes = [
            *(s.shape for s in self.states),
            *(s.shape[1:] for s in self.sequences),
            *(s.shape for s in self.constants),
        ]
        sources = (*self.states, *self.sequences, *self.constants)
        pairs = enumerate(zip(sources, shapes, strict=True))
        return [stand_in(number, source.dtype, shape) for number, (source, shape) in pairs]

    @property
    def tokens(self) -> list[Token]:
        """What the stand-ins are known by."""
        return [node.arg.token for node in self.stand_ins]

    @property
    def order(self) -> range:
        """The steps as they are taken, by their rows of the sequences."""
        steps = range(self.arg.steps)
        return steps[::-1] if self.arg.backward else steps

    @property
    def read(self) -> tuple[int, int]:
        """The rows of a history that steps read."""
        return (1, self.arg.steps + 1) if self.arg.backward else (0, self.arg.steps)

    @property
    def written(self) -> tuple[int, int]:
        """The rows of a history that steps write."""
        return (0, self.arg.steps) if self.arg.backward else (1, self.arg.steps + 1)

    @property
    def first(self) -> int:
        """The row of a history that holds the first state."""
        return self.arg.steps if self.arg.backward else 0

    @property
    def last(self) -> int:
        """The row of a history that holds the last state."""
        return self.arg.steps - self.first
