"""Movements of memory as NumPy has them: a view of an array for a tensor's reshapes and slices.

moves, memory = memory_below(tensor, lambda moves, base: True)   # [PERMUTE, SHRINK], Memory
viewed(array_of_memory, moves)               ->  the array's view, with its strides
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...engine.memory import Memory, memory_of
from ...engine.realized import resolve
from ...engine.run import realize
from ...ir.node import Node
from ...ir.op import Op
from ...ir.views import operand

if TYPE_CHECKING:
    import numpy as np

    from ..basis.core import Core

    Array = np.ndarray

__all__ = ["memory_below", "moved", "viewed"]


def memory_below(
    tensor: Core, will_do: Callable[[list[Node], Node], bool]
) -> tuple[list[Node], Memory]:
    """The movements that a tensor is, and the memory that is moved, for others to use.

    Pending work is started. What the others write there is not noticed from then on.

    Where `will_do(movements, BUFFER)` is false, the tensor gets memory of its own.
    """
    moves, base = _moves_below(tensor.node)
    if base.op is Op.AFTER:
        realize([(base, tensor.device)])
        moves, base = _moves_below(tensor.node)
    if base.op is not Op.BUFFER or not will_do(moves, base):
        node = realize([(tensor.node, tensor.device)])[0]
        tensor._computed(node)
        moves, base = _moves_below(node)
    memory = memory_of(base.arg)
    memory.expose()
    return moves, memory


def _moves_below(node: Node) -> tuple[list[Node], Node]:
    """The movements from `node` down to what they move."""
    moves, node = [], resolve(node)
    while node.op in _MOVES:
        moves.append(node)
        node = resolve(operand(node))
    return moves, node


def _windows(array: Array, node: Node) -> Array:
    import numpy as np

    arg = node.arg
    span = (arg.size - 1) * arg.dilation + 1
    windows = np.lib.stride_tricks.sliding_window_view(array, span, arg.axis, writeable=True)
    strided = (*(slice(None),) * arg.axis, slice(None, None, arg.stride), ...)
    return windows[strided][..., :: arg.dilation]


def _expanded(array: Array, node: Node) -> Array:
    import numpy as np

    return np.broadcast_to(array, node.shape)


def _flipped(array: Array, node: Node) -> Array:
    flips = (slice(None, None, -1 if axis in node.arg else 1) for axis in range(array.ndim))
    return array[(*flips, ...)]


# The movements of the IR as those of NumPy.
_MOVES: dict[Op, Callable[[Array, Node], Array]] = {
    Op.RESHAPE: lambda array, node: array.reshape(node.shape),
    Op.PERMUTE: lambda array, node: array.transpose(node.arg),
    Op.SHRINK: lambda array, node: array[(*(slice(*pair) for pair in node.arg), ...)],
    Op.FLIP: _flipped,
    Op.EXPAND: _expanded,
    Op.WINDOW: _windows,
    Op.DETACH: lambda array, node: array,
}


def moved(array: Array, moves: list[Node]) -> Array:
    """`array` after `moves`, the outermost first; copied where NumPy has no strides for them."""
    for move in reversed(moves):
        array = _MOVES[move.op](array, move)
    return array


def viewed(array: Array, moves: list[Node]) -> Array | None:
    """`array` after `moves` without a look at its elements; None where strides cannot say so."""
    for move in reversed(moves):
        if move.op is Op.RESHAPE and not array.flags.c_contiguous:
            return None
        array = _MOVES[move.op](array, move)
    return array
