"""Kernel expressions on given values: `evaluate`, the oracle for index and value arithmetic.

r = Node.range(8, 0); evaluate(r * 4 + 3, {r: np.arange(8)}) -> [3, 7, ...]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..dtype import dtypes
from ..errors import InternalError
from .elementwise import apply_alu, cast_array, constant_array, numpy_dtype
from .node import Node
from .op import ALU, Op

__all__ = ["evaluate"]

Array = np.ndarray


def evaluate(node: Node, values: Mapping[Node, Array | int]) -> Array:
    """The value of a kernel expression over the leaves (RANGE, WILDCARD, LOAD...) in `values`.

    Scalars may be arrays of any shape, which broadcast; a vector of `count` lanes has them as its
    last axis, and a value that SUBGROUP or BUTTERFLY combines has the work items of each subgroup
    there.
    Raises InternalError for a node without a value or an elementwise meaning.
    """
    known: dict[Node, Array] = {
        leaf: np.asarray(value).astype(numpy_dtype(leaf.dtype), copy=False)
        for leaf, value in values.items()
    }
    for item in node.toposort(lambda n: n not in known):
        if item not in known:
            known[item] = _evaluate_one(item, [known[s] for s in item.src])
    return known[node]


def _evaluate_one(node: Node, source: list[Array]) -> Array:
    if node.op is Op.CONST:
        return constant_array(node.dtype, node.arg)
    if node.op is Op.BIND:
        return source[1]
    if node.op in ALU:
        lanes = [
            x[..., None] if node.dtype.count > 1 and s.dtype.count == 1 else x
            for x, s in zip(source, node.src, strict=True)
        ]
        return apply_alu(node.op, node.dtype, [s.dtype for s in node.src], lanes)
    if node.op not in _LANES:
        raise InternalError(f"{node!r} has no value and none can be computed")
    return _LANES[node.op](node, source)


def _tree(node: Node, source: list[Array]) -> Array:
    """The last axis combined. Narrow floats add up in float32 and round once, as in a REDUCE."""
    wide = dtypes.float32 if node.dtype.is_float and node.dtype.bits < 32 else node.dtype
    lanes = cast_array(source[0], wide)
    parts = [lanes[..., i] for i in range(lanes.shape[-1])]
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        rest = parts[-1:] if len(parts) % 2 else []
        parts = [apply_alu(node.arg, wide, (wide, wide), pair) for pair in pairs] + rest
    return cast_array(parts[0], node.dtype)


def _butterfly(node: Node, value: Array) -> Array:
    """The last axis is of work items, each combined with those of the numbers that differ."""
    lanes = np.arange(value.shape[-1])
    for step in node.arg.steps:
        other = value[..., lanes ^ step]
        value = apply_alu(node.arg.op, node.dtype, (node.dtype, node.dtype), (value, other))
    return value


_LANES: dict[Op, Callable[[Node, list[Array]], Array]] = {
    Op.BROADCAST: lambda node, source: np.repeat(source[0][..., None], node.dtype.count, -1),
    Op.LANES: lambda node, source: np.arange(node.dtype.count).astype(numpy_dtype(node.dtype)),
    Op.EXTRACT: lambda node, source: source[0][..., node.arg],
    Op.STACK: lambda node, source: np.stack(np.broadcast_arrays(*source), -1),
    Op.SHUFFLE: lambda node, source: np.concatenate(source, -1)[..., list(node.arg)],
    Op.HREDUCE: _tree,
    Op.SUBGROUP: lambda node, source: np.broadcast_to(
        _tree(node, source)[..., None], source[0].shape
    ),
    Op.QUICK_EXP2: lambda node, source: np.exp2(source[0]),
    Op.SCALE: lambda node, source: np.ldexp(source[0], np.nan_to_num(source[1]).astype(np.int32)),
    Op.BUTTERFLY: lambda node, source: _butterfly(node, *source),
}
