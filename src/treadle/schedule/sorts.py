"""SORT as nodes that have kernels: short lines by counting, long ones by radix sort.

    16 keys:    rank i = how many keys are before key i         ->  a REDUCE and a SCATTER
    1000 keys:  (place, key) as one integer, moved into the order of some bits after the other:
                how many keys are in each bin                   ->  a SCATTER
                where each bin starts                           ->  a SCAN
                every key to the next place of its bin          ->  a DISTRIBUTE
    8 of 1000:  only the 8 groups with the least elements hold them, so that these are sorted

All of it is stable, so that the order of some bits keeps that of the ones below. A line is cut
into blocks that count and move by themselves, where there are too few lines for all workers.
Keys of 64 bits are sorted by their lower half, then by the upper one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..dtype import DType, dtypes
from ..ir.args import GatherArg, ReduceArg, ScatterArg
from ..ir.builders import constant, cut, expand, iota_along, padded, permute, reshape, scan
from ..ir.choices import take
from ..ir.node import Node, rebuild
from ..ir.op import ALU, Op

__all__ = ["sorted_order"]

SHORT = 128  # lines up to so many elements are sorted by counting
DIGIT, LONG_DIGIT = 8, 11  # bits that one pass sorts by, and for blocks of more elements than bins
# So many lines or blocks keep all workers busy, or all work items; and a block's least elements.
LINES, BLOCK = 16, 1 << 13
WORK_ITEMS, WORK_ITEM_BLOCK = 1 << 10, 1 << 10
MAX_KEY_OPS = 60  # keys that are longer expressions are computed once


def sorted_order(node: Node, has_workgroups: bool) -> Node:
    """What a SORT gives, of nodes that become kernels."""
    (keys,), axis, count = node.src, node.arg.axis, node.arg.count
    last = len(keys.shape) - 1
    turned = (*(at for at in range(last + 1) if at != axis), axis)
    others = tuple(keys.shape[at] for at in turned[:-1])
    lines, size = math.prod(others), keys.shape[axis]
    if size < 2 or not lines or not count:
        return iota_along(node.shape, axis, node.dtype)
    if len(keys.toposort(lambda n: n.op in ALU)) > MAX_KEY_OPS:
        keys = Node(Op.CONTIGUOUS, keys.dtype, (keys,))
    keys = _on_leaves(keys, lambda leaf: reshape(_turned(leaf, turned), (lines, size)))
    order = reshape(_first(keys, count, has_workgroups), (*others, count))
    return _turned(order, tuple(turned.index(at) for at in range(last + 1)))


# -- small graphs ---------------------------------------------------------------------------------


def _turned(node: Node, order: tuple[int, ...]) -> Node:
    return node if order == tuple(range(len(order))) else permute(node, order)


def _taken(node: Node, places: Node) -> Node:
    """The elements at `places` of each line."""
    return Node(Op.GATHER, node.dtype, (node, places), GatherArg(1, along=True))


def _on_leaves(node: Node, change: Callable[[Node], Node]) -> Node:
    """An elementwise expression of other views of what it reads."""
    new: dict[Node, Node] = {}
    for item in node.toposort(lambda n: n.op in ALU):
        if item.op in ALU:
            new[item] = rebuild(item, tuple(new[s] for s in item.src))
        else:
            new[item] = change(item) if item.shape else item
    return new[node]


# -- the algorithms, for keys of (lines, size) ----------------------------------------------------


def _first(keys: Node, count: int, has_workgroups: bool) -> Node:
    """The int32 places of the first `count` of each line in order."""
    size = keys.shape[1]
    if size <= SHORT:
        return cut(_by_rank(keys), 1, (0, count))
    groups = max(SHORT, 4 * count)
    if 2 * groups > size:
        return cut(_by_digits(keys, has_workgroups), 1, (0, count))
    return _of_groups(keys, count, groups, has_workgroups)


def _of_groups(keys: Node, count: int, groups: int, has_workgroups: bool) -> Node:
    """Neighbours as about `groups` groups: only the `count` with the least elements are needed.

    These are taken in the order of their places, so that equal elements stay in order.
    """
    lines, size = keys.shape
    take("grouped_top_k")
    width = 1 << (-(-size // groups) - 1).bit_length()
    groups = -(-size // width)
    shape, rest = (lines, groups, width), groups * width - size
    keys = _on_leaves(keys, lambda leaf: reshape(padded(leaf, 1, 0, rest), shape))
    places = iota_along(shape, 1) * width + iota_along(shape, 2)
    whole = (places < size).where(keys, keys.dtype.max) if rest else keys
    least = Node(Op.REDUCE, keys.dtype, (whole,), ReduceArg(Op.MIN, (2,)))
    best = _first(reshape(least, (lines, groups)), count, has_workgroups)
    best = _taken(best, _first(best.cast(dtypes.uint32), count, has_workgroups))
    shape = (lines, count, width)
    chosen = expand(reshape(best, (lines, count, 1)), shape)
    taken = _on_leaves(keys, lambda leaf: _taken(leaf, chosen))
    if rest:
        places = chosen * width + iota_along(shape, 2)
        taken = (places < size).where(taken, keys.dtype.max)
    taken = _on_leaves(taken, lambda leaf: reshape(leaf, (lines, count * width)))
    found = _first(taken, count, has_workgroups)
    return _taken(best, found >> (width.bit_length() - 1)) * width + (found & (width - 1))


def _by_rank(keys: Node) -> Node:
    """The order of short lines: each element's rank, and the places scattered by rank."""
    lines, size = keys.shape
    take("counting_sort")
    keys = Node(Op.CONTIGUOUS, keys.dtype, (keys,))  # each is compared with all others
    square = (lines, size, size)
    mine = expand(reshape(keys, (lines, size, 1)), square)
    other = expand(reshape(keys, (lines, 1, size)), square)
    earlier = iota_along(square, 2) < iota_along(square, 1)
    before = (other < mine) | (other.eq(mine) & earlier)
    count = Node(Op.REDUCE, dtypes.int32, (before.cast(dtypes.int32),), ReduceArg(Op.ADD, (2,)))
    rank = reshape(count, (lines, size))
    sources = (constant(dtypes.int32, 0, keys.shape), rank, iota_along(keys.shape, 1))
    return Node(Op.SCATTER, dtypes.int32, sources, ScatterArg(1, None, along=True))


def _by_digits(keys: Node, has_workgroups: bool) -> Node:
    """The order of long lines, in padded blocks; the padding comes last."""
    lines, size = keys.shape
    take("radix_sort")
    blocks = _blocks(lines, size, has_workgroups)
    whole = blocks * -(-size // blocks)
    if whole > size:
        inside = iota_along((lines, whole), 1) < size
        longer = _on_leaves(keys, lambda leaf: padded(leaf, 1, 0, whole - size))
        keys = inside.where(longer, keys.dtype.max)
    keys = Node(Op.CONTIGUOUS, keys.dtype, (keys,))  # every pass reads them twice
    places = iota_along((lines, whole), 1)
    halves = [keys] if keys.dtype.itemsize < 8 else [keys.cast(dtypes.uint32), keys >> 32]
    for half in halves:
        part = half if half is halves[0] else _on_leaves(half, lambda k, at=places: _taken(k, at))
        places = _sorted_places(part, places, blocks)
    return cut(places, 1, (0, size))


def _blocks(lines: int, size: int, has_workgroups: bool) -> int:
    """How many blocks each line is cut into."""
    wanted, least = (WORK_ITEMS, WORK_ITEM_BLOCK) if has_workgroups else (LINES, BLOCK)
    return max(1, min(-(-wanted // lines), size // least))


def _sorted_places(keys: Node, places: Node, blocks: int) -> Node:
    """`places` in the order of `keys`, by 32 bits or less, that belong to them.

    Bits that are sorted by are dropped: what is left of a key stands below the place.
    """
    lines, size = keys.shape
    bits, above = min(keys.dtype.bits, 32), (size - 1).bit_length()
    step = size // blocks
    most = LONG_DIGIT if step >= 1 << LONG_DIGIT else DIGIT
    digit = -(-bits // -(-bits // most))
    kind = _unsigned(above + bits)
    pairs = (places.cast(kind) << bits) | keys.cast(kind)
    while bits:
        digit = min(digit, bits)
        bits -= digit
        pairs = reshape(pairs, (lines * blocks, step))
        bins = (pairs & ((1 << digit) - 1)).cast(dtypes.int32)
        rest = (pairs >> digit).cast(_unsigned(above + bits) if bits else dtypes.int32)
        sources = (rest, bins, _starts(bins, 1 << digit, lines))
        pairs = Node(Op.DISTRIBUTE, rest.dtype, sources, (lines, size))
    return pairs


def _unsigned(bits: int) -> DType:
    return dtypes.uint32 if bits <= 32 else dtypes.uint64


def _starts(bins: Node, count: int, lines: int) -> Node:
    """Where the elements of each bin of each block go first: behind lower bins and blocks."""
    rows, step = bins.shape
    blocks = rows // lines
    sources = (constant(bins.dtype, 0, (rows, count)), bins, constant(bins.dtype, 1, bins.shape))
    sizes = Node(Op.SCATTER, bins.dtype, sources, ScatterArg(1, Op.ADD, along=True))
    turned = permute(reshape(sizes, (lines, blocks, count)), (0, 2, 1))
    turned = reshape(turned, (lines, count * blocks))
    ends = scan(turned, Op.ADD, 1)
    starts = ends - turned + iota_along(ends.shape, 0, ends.dtype) * (blocks * step)
    back = permute(reshape(starts, (lines, count, blocks)), (0, 2, 1))
    return reshape(back, (rows, count))
