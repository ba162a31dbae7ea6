"""Movement ops as index arithmetic: where an element of a view lives in its source.

    source_index(PERMUTE (1, 0), (i, j))  ->  (j, i), always valid

A view is never computed: reading element `index` of it is reading `source_index(...)` of what it
views, where the second result (PAD alone gives one) says whether there is such an element.
"""

from __future__ import annotations

from collections.abc import Callable

from ..dtype import dtypes
from ..ir.args import WindowArg
from ..ir.node import Node, as_index
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify, size_factors
from ..ir.shape import Shape, same_size, size_product, strides_of
from ..ir.views import operand, places_of

__all__ = [
    "Index", "flat_index", "gathered_index", "places_index", "reduce_index", "source_index",
    "unwindow_index", "unwindow_steps",
]  # fmt: skip

Index = tuple[Node, ...]
TRUE = Node.const(dtypes.bool, True)


def flat_index(index: Index, shape: Shape) -> Node:
    """The row-major element number of `index` in `shape`; axes of one element count for nothing."""
    total = Node.index(0)
    for position, size, stride in zip(index, shape, strides_of(shape), strict=True):
        if not same_size(size, 1):
            total = total + position * as_index(stride)
    return total


def places_index(node: Node, index: Index) -> Index:
    """For element `index` of a GATHER or of a SCATTER's values: where its place stands."""
    if node.arg.along:
        return index
    return index[node.arg.axis : node.arg.axis + len(places_of(node).shape)]


def gathered_index(node: Node, index: Index, place: Node) -> Index:
    """For element `index` of a GATHER or of a SCATTER's values: where it is read or written."""
    axis = node.arg.axis
    count = 1 if node.arg.along else len(places_of(node).shape)
    return (*index[:axis], place, *index[axis + count :])


def source_index(view: Node, index: Index) -> tuple[Index, Node]:
    """For element `index` of the movement op `view`: (index in its source, whether it exists)."""
    return _MOVES[view.op](view, index)


def _reshape(view: Node, index: Index) -> tuple[Index, Node]:
    found: list[Node] = []
    for old, new, first in _groups(operand(view).shape, view.arg):
        positions = index[first : first + len(new)]
        if len(old) == len(new) == 1:
            found.extend(positions)
            continue
        flat = simplify(flat_index(positions, new)) if new else Node.index(0)
        found.extend(_unflatten(flat, old))
    return tuple(found), TRUE


def _unflatten(flat: Node, shape: Shape) -> list[Node]:
    found = []
    for axis, (size, stride) in enumerate(zip(shape, strides_of(shape), strict=True)):
        position = flat if same_size(stride, 1) else flat // as_index(stride)
        found.append(simplify(position if axis == 0 else position % as_index(size)))
    return found


def _groups(old: Shape, new: Shape) -> list[tuple[Shape, Shape, int]]:
    """Runs of old and new axes with the same number of elements: (old sizes, new sizes, start)."""
    groups: list[tuple[Shape, Shape, int]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        count, more = _run(old[i:], new[j:])
        groups.append((old[i : i + count], new[j : j + more], j))
        i, j = i + count, j + more
    return groups


def _run(old: Shape, new: Shape) -> tuple[int, int]:
    """How many of the first axes of both have as many elements, whatever the symbolic sizes are.

    As few as can be: an axis of one element has as many as no axis at all.
    """
    if old and new and same_size(old[0], new[0]):
        return 1, 1
    lefts, rights = (
        [_factors(size_product(sizes[:end])) for end in range(len(sizes) + 1)]
        for sizes in (old, new)
    )
    alike = [
        (a + b, a, b) for a, x in enumerate(lefts) for b, y in enumerate(rights) if x == y and a + b
    ]
    _, a, b = min(alike, default=(0, len(old), len(new)))
    return a, b


def _factors(size: int | Node) -> object:
    return size if isinstance(size, int) else size_factors(size)


def _expand(view: Node, index: Index) -> tuple[Index, Node]:
    sizes = zip(operand(view).shape, view.arg, index, strict=True)
    zero = Node.index(0)
    return tuple(i if same_size(old, new) else zero for old, new, i in sizes), TRUE


def _permute(view: Node, index: Index) -> tuple[Index, Node]:
    found = list(index)
    for position, axis in zip(index, view.arg, strict=True):
        found[axis] = position
    return tuple(found), TRUE


def _pad(view: Node, index: Index) -> tuple[Index, Node]:
    valid, found = TRUE, []
    for position, (before, after), size in zip(index, view.arg, operand(view).shape, strict=True):
        moved = simplify(position - as_index(before))
        if not same_size(before, 0):
            valid = valid & (moved >= 0)
        if not same_size(after, 0):
            valid = valid & (moved < as_index(size))
        found.append(moved)
    return tuple(found), simplify(valid)


def _shrink(view: Node, index: Index) -> tuple[Index, Node]:
    pairs = zip(index, view.arg, strict=True)
    return tuple(simplify(position + as_index(begin)) for position, (begin, _) in pairs), TRUE


def _flip(view: Node, index: Index) -> tuple[Index, Node]:
    found = list(index)
    for axis in view.arg:
        found[axis] = simplify(as_index(view.shape[axis]) - 1 - index[axis])
    return tuple(found), TRUE


def _window(view: Node, index: Index) -> tuple[Index, Node]:
    arg, found = view.arg, list(index[:-1])
    found[arg.axis] = simplify(index[arg.axis] * arg.stride + index[-1] * arg.dilation)
    return tuple(found), TRUE


def unwindow_steps(arg: WindowArg) -> int:
    """How many offsets into a window can lie at one place of what an UNWINDOW gives."""
    return -(-arg.size // arg.stride)


def unwindow_index(arg: WindowArg, place: Node, step: Node) -> tuple[Node, Node]:
    """(number of the window, offset into it) that step `step` of an UNWINDOW adds to `place`.

    Either may lie outside of its range. Stride and dilation have no factor in common (see
    spread_windows.py). Steps go through the offsets of one residue class alone:

        out[2 q + p] = sum over j of in[q - j, 2 j + p]             stride 2
        out[2 q + p] = sum over j of in[q - p - 3 j, 2 j + p]       stride 2, dilation 3

    Without dilation the window does not depend on p, so the places between two strides share what
    they read. The constant of `place` is divided by itself then if that takes no more steps: the
    rest is even to split.
    """
    stride, gap, constant = arg.stride, arg.dilation, linear_terms(place)[1]
    ahead = -(-constant // stride)
    shift = constant - ahead * stride
    if gap > 1 or (arg.size - 1 - shift) // stride >= unwindow_steps(arg):
        constant = ahead = shift = 0
    window = (place - constant) // stride + ahead - step * gap
    residue = (place - constant) % stride + shift
    if gap == 1:
        return window, residue + step * stride
    first = residue * pow(gap, -1, stride) % stride
    return window + (residue - first * gap) // stride, first + step * stride


def reduce_index(node: Node, index: Index, loops: tuple[Node, ...]) -> tuple[Index, Node]:
    """The index of a reduction's source for element `index` and loop positions `loops`.

    The second result says whether there is such an element (UNWINDOW's windows may not reach).
    """
    if node.op is Op.REDUCE:
        inner = list(index)
        for axis, loop in zip(node.arg.axes, loops, strict=True):
            inner[axis] = loop
        return tuple(inner), TRUE
    arg = node.arg
    position, offset = unwindow_index(arg, index[arg.axis], loops[0])
    position, offset = simplify(position), simplify(offset)
    inside = (position >= 0) & (position < operand(node).shape[arg.axis])
    inside = inside & (offset >= 0) & (offset < arg.size)
    inner = [*index[: arg.axis], position, *index[arg.axis + 1 :], offset]
    return tuple(inner), simplify(inside)


_MOVES: dict[Op, Callable[[Node, Index], tuple[Index, Node]]] = {
    Op.RESHAPE: _reshape,
    Op.EXPAND: _expand,
    Op.PERMUTE: _permute,
    Op.PAD: _pad,
    Op.SHRINK: _shrink,
    Op.FLIP: _flip,
    Op.WINDOW: _window,
}
