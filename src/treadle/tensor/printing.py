"""What `print` shows of a tensor: its values where they are in memory, and never computes any.

<Tensor [1., 2.] shape=(2,), dtype=float32, device=CPU>
<Tensor [0., 1., ..., 4998., 4999.] shape=(5000,), dtype=float32, device=CPU>
<Tensor lazy shape=(2,), dtype=float32, device=CPU>
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..engine.memory import memory_of, read
from ..engine.realized import resolve
from ..ir.node import Node
from ..ir.op import Op
from ..ir.symbolic import bound_size
from ..ir.views import operand

if TYPE_CHECKING:
    import numpy as np

    from .basis.state import State

__all__ = ["printed"]

_MOST_BYTES = 1 << 20  # that are copied from a device to show a few of them


def printed(tensor: State) -> str:
    """The text of a tensor, by which a user knows it again."""
    head = f"shape={tensor.shape}, dtype={tensor.dtype.name}, device={tensor.device}"
    grad = ", requires_grad=True" if tensor._requires_grad else ""
    values = _values(tensor) if tensor.is_realized else "lazy"
    return f"<Tensor {values} {head}{grad}>"


def _values(tensor: State) -> str:
    """The first and last values in memory; of very many that the host does not see, how many."""
    import numpy as np

    shape, node = tuple(bound_size(size) for size in tensor.shape), resolve(tensor.node)
    nbytes = math.prod(shape) * tensor.dtype.itemsize
    if nbytes > _MOST_BYTES and not _is_at_hand(node):
        return f"({math.prod(shape)} values)"
    values = _in_memory(node).reshape(shape)
    with np.printoptions(threshold=20, edgeitems=2, precision=4):
        return np.array2string(values, separator=", ").replace("\n", "\n        ")


def _is_at_hand(node: Node) -> bool:
    """Whether the host sees the values where they are, in one piece."""
    while node.op is Op.RESHAPE:
        node = operand(node)
    return node.op is Op.BUFFER and memory_of(node.arg).is_shared


def _in_memory(node: Node) -> np.ndarray:
    """The values of a node that is in memory, which computes and copies nothing on devices."""
    import numpy as np

    if node.op is Op.RESHAPE:
        return _in_memory(operand(node)).reshape([bound_size(size) for size in node.shape])
    if node.op is not Op.MULTI:
        return read(node.arg)
    parts = [_in_memory(part) for part in node.src]
    return parts[0] if node.arg.axis is None else np.concatenate(parts, node.arg.axis)
