"""SORT as nodes that have kernels: ranks by counting for short lines, radix sort for long ones.

    16 keys:    rank i = how many keys are before key i         ->  a REDUCE and a SCATTER
    1000 keys:  (key, place) as one integer, moved into the order of 8 bits after 8 bits:
                how many keys are in each bin                   ->  a SCATTER
                where each bin starts                           ->  a SCAN
                every key to the next place of its bin          ->  a DISTRIBUTE

All of it is stable, so that the order of each 8 bits keeps that of the ones below. A line is cut
into blocks that count and move by themselves, where there are too few lines for all workers.
Keys of 64 bits are sorted by their lower half, then by the upper one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..dtype import DType, dtypes
from ..ir.args import GatherArg, ReduceArg, ScanArg, ScatterArg
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rewrite import rewrite_with
from ..target import Target
from .collectives import cut, expanded, padded, reshaped

__all__ = ["expand_sorts"]

SHORT = 128  # lines up to so many elements are sorted by counting
DIGIT = 8  # bits that one pass sorts by
LINES = 16  # so many lines or blocks keep the workers of a processor busy
BLOCK, ITEM_BLOCK = 1 << 13, 1 << 10  # least elements of a block, for workers and for work items
ITEMS = 1 << 10


def expand_sorts(outputs: Sequence[Node], target: Target | None) -> list[Node]:
    """`outputs` with every SORT as nodes that become kernels."""
    sink = Node.sink(outputs)
    if not any(node.op is Op.SORT for node in sink.toposort()):
        return list(outputs)
    grouped = target is not None and target.workgroup is not None
    return list(rewrite_with(sink, lambda n: _order(n, grouped) if n.op is Op.SORT else None).src)


def _order(node: Node, grouped: bool) -> Node:
    (keys,), axis = node.src, node.arg
    last = len(keys.shape) - 1
    turned = (*(at for at in range(last + 1) if at != axis), axis)
    keys = Node(Op.PERMUTE, keys.dtype, (keys,), turned)
    shape = keys.shape
    lines, size = math.prod(shape[:-1]), shape[-1]
    if size < 2 or not lines:
        return expanded(reshaped(_count(size, node.dtype), (*(1,) * last, size)), node.shape)
    keys = reshaped(keys, (lines, size))
    order = _by_rank(keys) if size <= SHORT else _by_digits(keys, grouped)
    back = tuple(turned.index(at) for at in range(last + 1))
    return Node(Op.PERMUTE, node.dtype, (reshaped(order.cast(node.dtype), shape),), back)


def _count(size: int, dtype: DType) -> Node:
    return Node(Op.IOTA, dtype, (), size)


def _filled(value: int, dtype: DType, shape: tuple[int, ...]) -> Node:
    return expanded(reshaped(Node.const(dtype, value), (1,) * len(shape)), shape)


def _numbers(shape: tuple[int, ...], axis: int, dtype: DType) -> Node:
    """0, 1, ... along `axis`."""
    column = tuple(n if at == axis else 1 for at, n in enumerate(shape))
    return expanded(reshaped(_count(shape[axis], dtype), column), shape)


def _by_rank(keys: Node) -> Node:
    """The order of short lines: each element's rank, and the places scattered by rank."""
    lines, size = keys.shape
    square = (lines, size, size)
    mine = expanded(reshaped(keys, (lines, size, 1)), square)
    other = expanded(reshaped(keys, (lines, 1, size)), square)
    earlier = _numbers(square, 2, dtypes.int32) < _numbers(square, 1, dtypes.int32)
    before = (other < mine) | (other.eq(mine) & earlier)
    count = Node(Op.REDUCE, dtypes.int32, (before.cast(dtypes.int32),), ReduceArg(Op.ADD, (2,)))
    rank = reshaped(count, (lines, size))
    sources = (_filled(0, dtypes.int32, keys.shape), rank, _numbers(keys.shape, 1, dtypes.int32))
    return Node(Op.SCATTER, dtypes.int32, sources, ScatterArg(1, None, along=True))


def _by_digits(keys: Node, grouped: bool) -> Node:
    """The order of long lines, in padded blocks; the padding comes last."""
    lines, size = keys.shape
    blocks = _blocks(lines, size, grouped)
    step = -(-size // blocks)
    whole = blocks * step
    if whole > size:
        inside = _numbers((lines, whole), 1, dtypes.int32) < size
        keys = inside.where(padded(keys, 1, 0, whole - size), keys.dtype.max)
    places = _numbers((lines, whole), 1, dtypes.uint32)
    halves = [keys] if keys.dtype.itemsize < 8 else [keys.cast(dtypes.uint32), keys >> 32]
    for half in halves:
        if half is not halves[0]:
            at = GatherArg(1, along=True)
            half = Node(Op.GATHER, half.dtype, (half, places.cast(dtypes.int32)), at)
        places = _sorted_places(half, places, blocks)
    return cut(places, 1, (0, size))


def _blocks(lines: int, size: int, grouped: bool) -> int:
    """How many blocks each line is cut into."""
    wanted, least = (ITEMS, ITEM_BLOCK) if grouped else (LINES, BLOCK)
    return max(1, min(-(-wanted // lines), size // least))


def _sorted_places(keys: Node, places: Node, blocks: int) -> Node:
    """`places` in the order of `keys`, of at most 32 bits, that belong to them."""
    lines, size = keys.shape
    bits, below = min(keys.dtype.bits, 32), (size - 1).bit_length()
    pair = dtypes.uint32 if bits + below <= 32 else dtypes.uint64
    pairs = (keys.cast(pair) << below) | places.cast(pair)
    for first in range(below, below + bits, DIGIT):
        pairs = reshaped(pairs, (lines * blocks, size // blocks))
        bins = ((pairs >> first) & ((1 << DIGIT) - 1)).cast(dtypes.int32)
        starts = _starts(bins, lines)
        pairs = Node(Op.DISTRIBUTE, pair, (pairs, bins, starts), None)
    return reshaped((pairs & ((1 << below) - 1)).cast(dtypes.uint32), (lines, size))


def _starts(bins: Node, lines: int) -> Node:
    """Where the elements of each bin of each block go first: behind lower bins and blocks."""
    (rows, step), count = bins.shape, 1 << DIGIT
    blocks = rows // lines
    sources = (_filled(0, bins.dtype, (rows, count)), bins, _filled(1, bins.dtype, bins.shape))
    sizes = Node(Op.SCATTER, bins.dtype, sources, ScatterArg(1, Op.ADD, along=True))
    turned = Node(Op.PERMUTE, sizes.dtype, (reshaped(sizes, (lines, blocks, count)),), (0, 2, 1))
    turned = reshaped(turned, (lines, count * blocks))
    ends = Node(Op.SCAN, turned.dtype, (turned,), ScanArg(Op.ADD, 1))
    starts = ends - turned + _numbers(ends.shape, 0, ends.dtype) * (blocks * step)
    back = Node(Op.PERMUTE, starts.dtype, (reshaped(starts, (lines, count, blocks)),), (0, 2, 1))
    return reshaped(back, (rows, count))
