"""Loops over the steps of a sequence: one graph for a step, however many there are.

    RECUR(h0, xs, w; body (tanh(x + h @ w),), 3 steps)  ->  (4, *h0.shape): h0, h1, h2, h3

A body is a graph of stand-ins, BUFFERs without memory: number i stands for what a step sees of
source i, a state, a row of a sequence, or all of what every step reads. Equal bodies are one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from ..dtype import DType
from .args import BufferRef, Placeholder, RecurArg, Token
from .node import Node
from .op import Op
from .shape import Shape, size_product

__all__ = ["Loop", "siblings", "stand_in"]

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
    while number is not None and len(_tokens) <= number:
        _tokens.append(Placeholder(_WHY))
    token = Placeholder(_WHY) if number is None else _tokens[number]
    return Node(Op.BUFFER, dtype, (), BufferRef(token, size_product(shape), ""))


def siblings(node: Node) -> list[Node]:
    """All states of the loop that a RECUR is one state of."""
    return [
        Node(Op.RECUR, body.dtype, node.src, replace(node.arg, number=number))
        for number, body in enumerate(node.arg.body)
    ]


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
