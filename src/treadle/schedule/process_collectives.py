"""Communication between the processes of a mesh: COLLECTIVE nodes on this process's part.

    all_reduce(part, mesh, ADD)                        ->  the sum of all parts
    moved(part, split along 0, copies)                 ->  an all-gather
    moved(part, copies, split along 0)                 ->  a piece of it, no call
    moved(part, split along 1, split along 0)          ->  an all-to-all
    reduce_scatter(summand, split along 0)             ->  this process's piece of a sum

All processes make the same calls with tensors of equal shapes: pieces that are shorter than others
are padded. With REPRODUCIBLE=1 sums are in the order of the processes.
"""

from __future__ import annotations

from functools import partial
from functools import reduce as fold

from ..config import settings
from ..dtype import DType, dtypes
from ..errors import ShapeError
from ..ir.args import CollectiveArg, Mesh, ShardArg
from ..ir.builders import cut, padded, permute, reshape, with_size
from ..ir.node import Node, alu
from ..ir.op import Op
from ..ir.shape import Shape, all_known
from .collectives import bounds_of, joined

__all__ = ["all_reduce", "moved", "reduce_scatter"]


def all_reduce(part: Node, mesh: Mesh, op: Op) -> Node:
    """The combination of all processes' parts, on each of them."""
    if mesh.size == 1:
        return part
    dtype, op = part.dtype, _ON_BOOLS.get(op, op) if part.dtype is dtypes.bool else op
    given = part.cast(_exchanged_as(dtype))
    if settings.REPRODUCIBLE:
        total = _in_order(_call("all_gather", given, mesh, (mesh.size, *part.shape)), op)
    else:
        total = _call("all_reduce", given, mesh, part.shape, op)
    return total.cast(dtype)


def reduce_scatter(summand: Node, to: ShardArg) -> Node:
    """This process's piece, as `to` says, of the sum of all processes' `summand`."""
    mesh, axis, sizes = _split(to)
    if mesh.size == 1:
        return summand
    given = _stacked(summand.cast(_exchanged_as(summand.dtype)), axis, sizes)
    if settings.REPRODUCIBLE:
        piece = _in_order(_call("all_to_all", given, mesh, given.shape), Op.ADD)
    else:
        piece = _call("reduce_scatter", given, mesh, given.shape[1:], Op.ADD)
    return cut(piece, axis, (0, sizes[mesh.rank])).cast(summand.dtype)


def moved(part: Node, have: ShardArg, to: ShardArg | None) -> Node:
    """This process's part of a tensor that lies as `have` and is to lie as `to`: None is copies."""
    if to is None or to.axis is None:
        return part if have.axis is None else _gathered(part, have)
    if to == have:
        return part
    mesh, axis, sizes = _split(to)
    if have.axis is None:
        return cut(part, axis, bounds_of(sizes)[mesh.rank])
    if have.axis == axis or mesh.size == 1:
        return moved(_gathered(part, have), ShardArg(mesh, None), to)
    return _exchanged(part, have, to)


def _gathered(part: Node, have: ShardArg) -> Node:
    mesh, axis, sizes = _split(have)
    if mesh.size == 1:
        return part
    part = padded(part, axis, 0, max(sizes) - sizes[mesh.rank])
    return _joined(_call("all_gather", part, mesh, (mesh.size, *part.shape)), axis, sizes)


def _exchanged(part: Node, have: ShardArg, to: ShardArg) -> Node:
    """Each process gives a piece of its part to each other one."""
    mesh, old, old_sizes = _split(have)
    _, new, new_sizes = _split(to)
    given = padded(part, old, 0, max(old_sizes) - old_sizes[mesh.rank])
    given = _stacked(given, new, new_sizes)
    found = _joined(_call("all_to_all", given, mesh, given.shape), old, old_sizes)
    return cut(found, new, (0, new_sizes[mesh.rank]))


def _split(arg: ShardArg) -> tuple[Mesh, int, tuple[int, ...]]:
    """The mesh of what is split over one, the axis, and the sizes of its pieces."""
    assert isinstance(arg.devices, Mesh)
    assert arg.axis is not None
    assert arg.sizes is not None
    return arg.devices, arg.axis, arg.sizes


def _stacked(x: Node, axis: int, sizes: tuple[int, ...]) -> Node:
    """(pieces, *shape of one), all as long along `axis` as the longest one."""
    longest, count = max(sizes), len(sizes)
    if min(sizes) < longest:
        parts = [cut(x, axis, piece) for piece in bounds_of(sizes)]
        x = joined([padded(p, axis, 0, longest - p.shape[axis]) for p in parts], axis)
    split = reshape(x, (*x.shape[:axis], count, longest, *x.shape[axis + 1 :]))
    return permute(split, (axis, *(at for at in range(len(split.shape)) if at != axis)))


def _joined(stacked: Node, axis: int, sizes: tuple[int, ...]) -> Node:
    """Pieces, each padded to the longest one's size, one behind the other along `axis`."""
    if min(sizes) < max(sizes):
        return joined([cut(_row(stacked, i), axis, (0, n)) for i, n in enumerate(sizes)], axis)
    order = (*range(1, axis + 1), 0, *range(axis + 1, len(stacked.shape)))
    return reshape(permute(stacked, order), with_size(stacked.shape[1:], axis, sum(sizes)))


def _row(stacked: Node, number: int) -> Node:
    return reshape(cut(stacked, 0, (number, number + 1)), stacked.shape[1:])


def _in_order(stacked: Node, op: Op) -> Node:
    return fold(partial(alu, op), (_row(stacked, number) for number in range(stacked.shape[0])))


_ON_BOOLS = {Op.ADD: Op.MAX, Op.MUL: Op.MIN}  # or, and


def _exchanged_as(dtype: DType) -> DType:
    """The dtype that processes combine in: narrow floats are rounded once."""
    if dtype is dtypes.bool:
        return dtypes.uint8
    return dtypes.float32 if dtype.is_float and dtype.itemsize < 4 else dtype


def _call(kind: str, given: Node, mesh: Mesh, shape: Shape, op: Op | None = None) -> Node:
    if not all_known(shape):
        raise ShapeError(f"[shard] processes exchange sizes that are numbers, not {shape}")
    arg = CollectiveArg(kind, mesh.group, mesh.size, mesh.rank, tuple(shape), op, device=mesh[0])
    return Node(Op.COLLECTIVE, given.dtype, (given,), arg)
