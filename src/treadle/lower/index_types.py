"""Index arithmetic to machine integers: `dtypes.index` becomes int64 or int32.

    r0 // 4 + n  (index)  ->  r0 / 4 + n  (int64)

32 bits serve where the target has no more, and on targets for which they are quicker, wherever all
memory of the kernel is small enough. Division and remainder truncate already (decompose.py).
"""

from __future__ import annotations

from ..dtype import DType, dtypes
from ..errors import DeviceError
from ..ir.node import Node
from ..ir.op import Op
from ..ir.shape import size_max
from ..target import Target

__all__ = ["lower_index_types"]


def lower_index_types(root: Node, target: Target) -> Node:
    """`root` with no value of dtype index left.

    Raises DeviceError if memory is too large for the target's integers.
    """
    machine = _integer(root, target)
    new: dict[Node, Node] = {}
    for node in root.toposort():
        new[node] = _lower(node, tuple(new[s] for s in node.src), machine)
    return new[root]


def _integer(root: Node, target: Target) -> DType:
    if target.index_bits > 32 and not target.short_indices:
        return dtypes.int64
    largest = max((size_max(n.arg.size) for n in root.toposort() if n.op is Op.PARAM), default=0)
    if largest < 1 << 31:
        return dtypes.int32
    if target.index_bits > 32:
        return dtypes.int64
    raise DeviceError(
        f"{target.name} counts with {target.index_bits} bits and cannot index a tensor of "
        f"{largest} elements: split it along an axis"
    )


def _lower(node: Node, src: tuple[Node, ...], machine: DType) -> Node:
    dtype = machine.vec(node.dtype.count) if node.dtype.kind == "index" else node.dtype
    if node.op is Op.CAST:
        (value,) = src
        return _narrowed(value, dtype) if node.dtype.kind == "index" else value.cast(dtype)
    if node.op is Op.CONST:
        return Node.const(dtype, node.arg)
    return node.replace(dtype=dtype, src=src)


def _narrowed(value: Node, dtype: DType) -> Node:
    """An integer as index: one that does not fit becomes the nearest, which no bound lets pass."""
    source = value.dtype
    if not source.is_int or source.max <= dtype.max:
        return value.cast(dtype)
    value = value.minimum(value.like(dtype.max))
    return (value if source.is_unsigned else value.maximum(value.like(dtype.min))).cast(dtype)
