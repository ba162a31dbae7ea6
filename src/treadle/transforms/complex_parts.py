"""A complex value in a graph of reals: two nodes, or one that holds both parts.

    Pair((re, im)).whole    ->  one node with a last axis of 2
    Pair(None, whole).re    ->  a view of the first half

What it becomes is made when it is asked for, and once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..dtype import dtypes
from ..ir.builders import expand, reshape
from ..ir.node import Node
from ..ir.op import MOVEMENT, Op
from ..ir.shape import Shape
from ..ir.views import operand

__all__ = ["Pair", "behind", "side_by_side"]


class Pair:
    """A complex value: the parts `re` and `im`, or the `whole` that has them on its last axis."""

    is_whole: bool

    def __init__(self, parts: tuple[Node, ...] | None, whole: Node | None = None) -> None:
        self._parts = parts
        self._whole = whole
        self.is_whole = parts is None

    @property
    def nodes(self) -> tuple[Node, ...]:
        """What is known of it."""
        return (*(self._parts or ()), *([self._whole] if self._whole is not None else []))

    @property
    def is_real(self) -> bool:
        """Whether the imaginary part is known to be 0."""
        return not self.is_whole and behind(self.im).value == 0

    @property
    def parts(self) -> tuple[Node, ...]:
        if self._parts is None:
            self._parts = self._part(0), self._part(1)
        return self._parts

    @property
    def re(self) -> Node:
        return self.parts[0]

    @property
    def im(self) -> Node:
        return self.parts[1]

    @property
    def whole(self) -> Node:
        if self._whole is None:
            self._whole = side_by_side(self.re, self.im, len(self.re.shape))
        return self._whole

    def _part(self, number: int) -> Node:
        whole = self.whole
        shape = whole.shape[:-1]
        bounds = (*((0, n) for n in shape), (number, number + 1))
        return reshape(Node(Op.SHRINK, whole.dtype, (whole,), bounds), shape)

    def of_shape(self, shape: Shape) -> Pair:
        """This value, repeated to `shape` where it is a constant."""
        if self.is_whole or self.re.shape == shape:
            return self
        return Pair(tuple(expand(part, shape) for part in self.parts))

    def map(self, change: Callable[[Node], Node]) -> Pair:
        """`change` of both parts, which keeps their last axis where they are whole."""
        if self.is_whole:
            return Pair(None, change(self.whole))
        return Pair((change(self.re), change(self.im)))


def behind(node: Node, below: Collection[Op] = MOVEMENT) -> Node:
    """What movements look at."""
    while node.op in below:
        node = operand(node)
    return node


def side_by_side(first: Node, second: Node, axis: int) -> Node:
    """Two nodes of one shape on a new axis."""
    single = (*first.shape[:axis], 1, *first.shape[axis:])
    shape = (*first.shape[:axis], 2, *first.shape[axis:])
    column = tuple(2 if i == axis else 1 for i in range(len(shape)))
    place = expand(reshape(Node(Op.IOTA, dtypes.int32, (), 2), column), shape)
    a, b = (expand(reshape(expand(n, first.shape), single), shape) for n in (first, second))
    return (place < 1).where(a, b)
