"""Shapes: how each op's shape follows from its sources', and arithmetic on sizes.

A size is a Python int or an index Node (a symbolic size, built from a `Variable`). Shape mistakes
are found here, when the node is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from ..errors import ShapeError
from .args import GatherArg, Mesh, PartArg, ReduceArg, ScatterArg, ShardArg, SortArg, WindowArg
from .graph import AnyNode
from .interval import bounds
from .op import ALU, SAME, Op

__all__ = [
    "Shape",
    "all_known",
    "infer_shape",
    "same_size",
    "simple_shape",
    "simple_size",
    "simplify_sizes_by",
    "size_max",
    "size_product",
    "strides_of",
]

Shape: TypeAlias = "tuple[Any, ...]"
N = TypeVar("N", bound=AnyNode)

_simplify: Callable[[Any], Any]


def same_size(a: int | AnyNode, b: int | AnyNode) -> bool:
    """Whether two sizes are known to be equal."""
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def all_known(shape: Sequence[object]) -> bool:
    """Whether all sizes are numbers, and none is symbolic."""
    return all(isinstance(size, int) for size in shape)


def simplify_sizes_by(simplify: Callable[[Any], Any]) -> None:
    """How symbolic sizes are simplified: by rules, which are made of nodes, which have shapes."""
    global _simplify
    _simplify = simplify


def simple_size(size: int | N) -> int | N:
    """The same size in the one form that equal sums have; a number where that is known."""
    if isinstance(size, int):
        return size
    found = _simplify(size)
    return int(found.value) if found.is_const else found


def simple_shape(shape: Shape) -> Shape:
    """A shape whose sizes have the one form of `simple_size`."""
    return shape if all_known(shape) else tuple(map(simple_size, shape))


def size_max(size: int | AnyNode) -> int:
    """The largest value a size can take."""
    if isinstance(size, int):
        return size
    return cast(int, bounds(size)[1])


def size_product(sizes: Iterable[int | AnyNode]) -> Any:
    """The product of sizes in the one form of `simple_size`: an int where all are."""
    total: Any = 1
    for size in sizes:
        total = size * total if not isinstance(size, int) else total * size
    return simple_size(total)


def strides_of(shape: Shape) -> Shape:
    """Row-major strides, in elements."""
    strides: list[object] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * size
    return tuple(reversed(strides))


def _elementwise(op: Op, src: tuple[AnyNode, ...]) -> Shape:
    shape: Shape = ()
    known = False
    for source in src:
        if source.op is Op.CONST:
            continue
        if known and source.shape != shape:
            shapes = ", ".join(str(s.shape) for s in src)
            raise ShapeError(f"[{op.name.lower()}] sources have different shapes: {shapes}")
        shape, known = source.shape, True
    return shape


def _reshape(source: Shape, new: Shape) -> Shape:
    old_count, new_count = math.prod(source), math.prod(new)
    if isinstance(old_count, int) and isinstance(new_count, int) and old_count != new_count:
        raise ShapeError(
            f"[reshape] shape {source} has {old_count} elements, {new} would have {new_count}"
        )
    for size in new:
        if isinstance(size, int) and size < 0:
            raise ShapeError(f"[reshape] sizes must not be negative: {new}")
    return simple_shape(tuple(new))


def _expand(source: Shape, new: Shape) -> Shape:
    if len(source) != len(new):
        raise ShapeError(f"[expand] shape {source} has {len(source)} axes, {new} has {len(new)}")
    for axis, (old, size) in enumerate(zip(source, new, strict=True)):
        if not same_size(old, size) and not same_size(old, 1):
            raise ShapeError(
                f"[expand] axis {axis} of {source} has size {old}; only size 1 expands, to {size}"
            )
    return simple_shape(tuple(new))


def _permute(source: Shape, order: tuple[int, ...]) -> Shape:
    if sorted(order) != list(range(len(source))):
        raise ShapeError(
            f"[permute] {order} is no order of the {len(source)} axes of shape {source}"
        )
    return tuple(source[axis] for axis in order)


def _pad(source: Shape, padding: tuple[Shape, ...]) -> Shape:
    if len(padding) != len(source):
        raise ShapeError(f"[pad] {len(padding)} pairs for the {len(source)} axes of {source}")
    if any(isinstance(p, int) and p < 0 for pair in padding for p in pair):
        raise ShapeError(f"[pad] padding must not be negative: {padding}")
    return tuple(
        simple_size(size + (before + after))
        for size, (before, after) in zip(source, padding, strict=True)
    )


def _shrink(source: Shape, bounds: tuple[Shape, ...]) -> Shape:
    if len(bounds) != len(source):
        raise ShapeError(f"[shrink] {len(bounds)} pairs for the {len(source)} axes of {source}")
    for axis, (size, (begin, end)) in enumerate(zip(source, bounds, strict=True)):
        numbers = all(isinstance(n, int) for n in (size, begin, end))
        if numbers and not 0 <= begin <= end <= size:
            raise ShapeError(
                f"[shrink] {begin}:{end} does not lie within axis {axis} of shape {source}"
            )
    return tuple(_between(*pair) for pair in bounds)


def _between(begin: Any, end: Any) -> int | AnyNode:
    """A number wherever that is known: x[t:t + 2] has two rows for every t."""
    if isinstance(begin, int) and isinstance(end, int):
        return end - begin
    return simple_size(end - begin)


def _flip(source: Shape, axes: tuple[int, ...]) -> Shape:
    if any(not 0 <= axis < len(source) for axis in axes):
        raise ShapeError(f"[flip] axes {axes} do not all lie within shape {source}")
    return source


def _window(source: Shape, arg: WindowArg) -> Shape:
    span = (arg.size - 1) * arg.dilation + 1
    size = source[arg.axis]
    if min(arg.size, arg.stride, arg.dilation) < 1 or (isinstance(size, int) and span > size):
        raise ShapeError(
            f"[window] size {arg.size}, stride {arg.stride}, dilation {arg.dilation} does not fit "
            f"axis {arg.axis} of shape {source}"
        )
    count = simple_size((size - span) // arg.stride + 1)
    return (*source[: arg.axis], count, *source[arg.axis + 1 :], arg.size)


def _unwindow(source: Shape, arg: WindowArg) -> Shape:
    return (*source[: arg.axis], simple_size(arg.extent), *source[arg.axis + 1 : -1])


def _reduce(src: tuple[AnyNode, ...], arg: ReduceArg) -> Shape:
    shape = src[0].shape
    if any(not 0 <= axis < len(shape) for axis in arg.axes):
        raise ShapeError(f"[reduce] axes {arg.axes} do not all lie within shape {shape}")
    return tuple(1 if axis in arg.axes else size for axis, size in enumerate(shape))


def _placed(name: str, shape: Shape, index: Shape, arg: GatherArg | ScatterArg) -> Shape:
    """The shape of what lies at the places of `index` on an axis, or along it."""
    axis = arg.axis
    if not 0 <= axis < len(shape):
        raise ShapeError(f"[{name}] axis {axis} does not lie within shape {shape}")
    if not arg.along:
        return (*shape[:axis], *index, *shape[axis + 1 :])
    if len(index) != len(shape) or (*index[:axis], *index[axis + 1 :]) != (
        *shape[:axis],
        *shape[axis + 1 :],
    ):
        raise ShapeError(f"[{name}] places of {index} along axis {axis} do not fit {shape}")
    return index


def _scatter(src: tuple[AnyNode, ...], arg: ScatterArg) -> Shape:
    wanted = _placed("scatter", src[0].shape, src[1].shape, arg)
    if src[2].shape != wanted:
        raise ShapeError(f"[scatter] values have shape {src[2].shape}, expected {wanted}")
    return src[0].shape


def _sort(source: Shape, arg: SortArg) -> Shape:
    if not 0 <= arg.axis < len(source) or not 0 <= arg.count <= source[arg.axis]:
        raise ShapeError(f"[sort] {arg.count} of axis {arg.axis} do not lie within shape {source}")
    return (*source[: arg.axis], arg.count, *source[arg.axis + 1 :])


def _distribute(src: tuple[AnyNode, ...], shape: Shape) -> Shape:
    values, bins, starts = (s.shape for s in src)
    lines = len(values) == 2 and bins == values and len(starts) == 2 and starts[0] == values[0]
    if not lines or size_product(values) != size_product(shape):
        raise ShapeError(
            f"[distribute] values of {values}, bins of {bins} and starts of {starts} do not fit "
            f"into {shape}"
        )
    return shape


def _assign(src: tuple[AnyNode, ...]) -> Shape:
    if src[0].shape != src[1].shape and src[1].op is not Op.CONST:
        raise ShapeError(
            f"[assign] a value of shape {src[1].shape} does not fit a target of {src[0].shape}"
        )
    return src[0].shape


def _multi(src: tuple[AnyNode, ...], arg: ShardArg) -> Shape:
    shape = src[0].shape
    if arg.axis is None:
        return shape
    sizes = arg.sizes or [part.shape[arg.axis] for part in src]
    total = simple_size(sum(sizes))
    return (*shape[: arg.axis], total, *shape[arg.axis + 1 :])


def _part(shape: Shape, arg: PartArg) -> Shape:
    axis, sizes, mesh = arg.to.axis, arg.to.sizes, arg.to.devices
    if axis is None:
        return shape
    assert sizes is not None
    assert isinstance(mesh, Mesh)
    if shape[axis] != sum(sizes):
        raise ShapeError(f"[shard] axis {axis} of shape {shape} has no pieces of sizes {sizes}")
    return (*shape[:axis], sizes[mesh.rank], *shape[axis + 1 :])


_Rule: TypeAlias = "Callable[[tuple[AnyNode, ...], Any], Shape]"


def _first(rule: Callable[[Shape, Any], Shape]) -> _Rule:
    """`rule` of the first source's shape."""
    return lambda src, arg: rule(src[0].shape, arg)


_RULES: dict[Op, _Rule] = {
    Op.BUFFER: lambda src, arg: (simple_size(arg.size),),
    Op.IOTA: lambda src, arg: (simple_size(arg),),
    Op.RESHAPE: _first(_reshape),
    Op.EXPAND: _first(_expand),
    Op.PERMUTE: _first(_permute),
    Op.PAD: _first(_pad),
    Op.SHRINK: _first(_shrink),
    Op.FLIP: _first(_flip),
    Op.WINDOW: _first(_window),
    Op.UNWINDOW: _first(_unwindow),
    Op.REDUCE: _reduce,
    Op.GATHER: lambda src, arg: _placed("gather", src[0].shape, src[1].shape, arg),
    Op.SCATTER: _scatter,
    Op.DISTRIBUTE: _distribute,
    Op.SORT: _first(_sort),
    Op.ASSIGN: lambda src, arg: _assign(src),
    Op.HOST: lambda src, arg: simple_shape(arg.shapes[arg.number]),
    Op.COLLECTIVE: lambda src, arg: simple_shape(arg.shape),
    Op.RECUR: lambda src, arg: (simple_size(arg.steps + 1), *src[arg.number].shape),
    Op.MULTI: _multi,
    Op.PART: _first(_part),
    **dict.fromkeys(
        SAME | {Op.CONTIGUOUS, Op.COPY, Op.AFTER, Op.SCAN}, lambda src, arg: src[0].shape
    ),
}


def infer_shape(op: Op, src: tuple[AnyNode, ...], arg: object) -> Shape:
    """The shape of `op` on `src`; () for everything inside kernels.

    Raises ShapeError where shapes, axes or sizes do not fit.
    """
    if op in ALU:
        return _elementwise(op, src)
    rule = _RULES.get(op)
    return () if rule is None else rule(src, arg)
