"""What vmap's function sees while it runs: one example, whose values are not known.

    calls = Examples(size=8, randomness="error")
    with calls: ...                 -> sampling asks `running()` what to draw
    one = calls.stand_in(batch)     -> a BUFFER without memory, of shape batch.shape[1:]

`calls.known` says what each stand-in stands for, for `transforms.batch`.
"""

from __future__ import annotations

import contextvars
from dataclasses import dataclass, field
from typing import Self

from ..errors import UserError
from ..ir.args import BufferRef, Placeholder
from ..ir.node import Node
from ..ir.op import Op
from ..ir.shape import size_product
from .shapes import reshape

__all__ = ["Examples", "running"]

_WHY = (
    "[vmap] the values of one example are not known while vmap's function runs, for it runs once "
    "for all: .item(), .numpy(), .realize(), conditions on tensors, masks as subscripts and "
    "results as large as their values say (unique, nonzero) cannot be in it. Use where() for a "
    "condition; what the function keeps for later it must return"
)
_RANDOM = (
    "[vmap] the function draws random numbers: say with randomness= whether each example gets its "
    'own ("different") or all get the "same"'
)
_stack: contextvars.ContextVar[tuple[Examples, ...]] = contextvars.ContextVar("vmap", default=())


@dataclass
class Examples:
    """One call of vmap: the number of its examples, and the batch behind each stand-in."""

    size: int
    randomness: str
    known: dict[Node, Node] = field(default_factory=dict)
    _tokens: list[contextvars.Token[tuple[Examples, ...]]] = field(default_factory=list)

    def stand_in(self, batch: Node, device: str) -> Node:
        """One example of `batch`, whose first axis they are."""
        shape = batch.shape[1:]
        size = size_product(shape)
        buffer = Node(Op.BUFFER, batch.dtype, (), BufferRef(Placeholder(_WHY), size, device))
        one = reshape(buffer, shape)
        self.known[buffer] = reshape(batch, (self.size, size))
        self.known[one] = batch
        return one

    def __enter__(self) -> Self:
        self._tokens.append(_stack.set((*_stack.get(), self)))
        return self

    def __exit__(self, *exc_info: object) -> None:
        _stack.reset(self._tokens.pop())


def running() -> tuple[Examples, ...]:
    """The calls of vmap that are running, the outermost first; all of them let numbers be drawn.

    Raises UserError where one does not.
    """
    calls = _stack.get()
    if any(call.randomness == "error" for call in calls):
        raise UserError(_RANDOM)
    return calls
