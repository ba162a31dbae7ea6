"""`x[...]` and `x[...] = v`.

    x[1], x[..., ::2], x[None]       -> views: no copy
    x[[0, 2]], x[rows, columns]      -> gathered; integer tensors work without computing them
    x[mask]                          -> computes the mask now, because it decides the shape
    x[1:3] = v                       -> x has new values; a view y = x[0:4] taken earlier has not

Negative places count from the end. Host-known places out of range raise; in a tensor they read 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Self, cast

from ...dtype import dtypes, to_dtype
from ...engine.memory import from_host
from ...errors import DTypeError, ShapeError
from ...ir.args import GatherArg, ScatterArg
from ...ir.node import Node
from ...ir.op import Op
from ...ir.shape import Shape, size_product, strides_of
from ..inplace import check_leaf, check_writable
from ..operands import Operand, check_device, is_scalar, scalar_node
from ..shapes import broadcast_shapes, expand, move_axes, reshape, resolve_axis
from ..subscript import Subscript, as_subscript, check_places, parse
from .assignment import Assignment
from .gathering import Gathering

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Indexing"]


class Indexing(Gathering, Assignment):
    """Subscripts on top of gather and scatter."""

    __slots__ = ()

    def __getitem__(self, indices: object) -> Self:
        """A part of the tensor, by NumPy's rules. Raises IndexOutOfRange, SubscriptError."""
        if isinstance(indices, Gathering) and indices.dtype.is_bool and not indices.ndim:
            return self.unsqueeze(0)[indices.reshape((1,))]
        plan = parse(self.shape, indices, self._to_index)
        view = self._view(plan.view(self.node))
        if not plan.advanced:
            return view
        places = view._places_of(plan)
        return view._result(_gathered(view.node, plan, places))

    def select(self, dim: int, index: int) -> Self:
        """One place of an axis, which vanishes; the dtype stays. Raises IndexOutOfRange."""
        axis = resolve_axis("select", dim, self.ndim)
        return self[(*(slice(None) for _ in range(axis)), index)]

    def __iter__(self) -> Iterator[Self]:
        """The parts along the first axis. Raises ArgumentError, a TypeError, for shape ()."""
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: object) -> bool:
        """Whether any element equals `value`, a scalar or a tensor that broadcasts."""
        if isinstance(value, (Gathering, int, float, complex)) or type(value).__module__ == "numpy":
            return bool(self.eq(cast("Operand", value)).any().item())
        raise DTypeError(
            f"[in] elements of a {self.dtype.name} tensor compare with numbers and tensors, not "
            f"with a {type(value).__name__}"
        )

    def __setitem__(self, indices: object, v: Operand) -> None:
        """Write `v`, broadcast and converted, into a part. Views taken earlier keep their values.

        Of equal places, the last written stays. Raises IndexOutOfRange, SubscriptError, and
        ShapeError where `v` does not fit.
        """
        check_leaf("setitem", self)
        check_writable("setitem", self)
        value = self._operand("setitem", v)
        if not is_scalar(value):
            check_device("setitem", self, value)
        elif isinstance(value, complex):
            scalar_node("setitem", value, self.dtype)
        if isinstance(indices, Gathering) and indices.dtype.is_bool and self._fill(indices, value):
            return
        plan = parse(self.shape, indices, self._to_index)
        new = self._result(plan.view(self._latest()))
        part, value = new._value_for(plan, value)
        self._write(value, part(value.node), tuple(plan.moves), is_partial=bool(plan.advanced))

    def _fill(self, mask: Gathering, value: Self | complex) -> bool:
        """`x[mask] = scalar` needs no places, and neither does a mask of one element."""
        if not is_scalar(value) and value.ndim:
            if mask.ndim:
                return False
            if mask.item():
                self[...] = value
            return True
        if mask.ndim and mask.shape != self.shape:
            return False
        self.assign(mask.where(value, self).cast(self.dtype))
        return True

    def _value_for(
        self, plan: Subscript, value: Self | complex
    ) -> tuple[Callable[[Node], Node], Self]:
        """How `value` (second result) becomes what the view (this tensor) shall hold."""
        if is_scalar(value):
            value = self._filled(value)
        value = value.cast(self.dtype)
        if not plan.advanced:
            _check_fits(value.shape, self.shape)
            return lambda node: expand(_trim(node, self.shape), self.shape), value
        places = self._places_of(plan)
        wanted = _gathered(self.node, plan, places).shape
        _check_fits(value.shape, wanted)
        view = self.node
        return lambda node: _scattered(
            view, plan, places, expand(_trim(node, wanted), wanted)
        ), value

    # -- indices ------------------------------------------------------------------------------

    def _to_index(self, item: object) -> int | Gathering | np.ndarray | tuple[np.ndarray, ...]:
        """A tensor, an int, an array, or a tuple of arrays for a mask."""
        import numpy as np

        if isinstance(item, Gathering):
            if not item.dtype.is_bool:
                return item
            item = item.numpy()
        array = np.asarray(item)
        if array.dtype == bool:
            return np.nonzero(array)
        if array.size == 0:
            array = array.astype(np.int64)
        if array.dtype.kind not in "iu":
            raise DTypeError(
                f"[getitem] {item!r} is no index; expected integers, slices, None, ..., or "
                "tensors, arrays and lists of integers or bools"
            )
        return int(array) if array.ndim == 0 else array

    def _places_of(self, plan: Subscript) -> Node:
        """One index into the advanced axes taken together, -1 where one is out of range."""
        axes = [axis for axis, _ in plan.advanced]
        sizes = tuple(self.shape[axis] for axis in axes)
        tensors = [
            self._wrapped(cast("Self | np.ndarray", index), axis, n)
            for (axis, index), n in zip(plan.advanced, sizes, strict=True)
        ]
        check_device("getitem", self, *tensors)
        if len(tensors) == 1:
            return tensors[0].node
        with as_subscript():
            shape = broadcast_shapes("getitem", *(t.shape for t in tensors))
        wide = dtypes.int64 if size_product(sizes) >= 1 << 31 else dtypes.int32
        total = self._filled(0).cast(wide)
        inside = self._filled(1).cast(dtypes.bool)
        for tensor, size, stride in zip(tensors, sizes, strides_of(sizes), strict=True):
            inside = inside.bitwise_and(tensor.ge(0).bitwise_and(tensor.lt(size)))
            total = total.add(tensor.cast(wide).mul(stride))
        return expand(inside.where(total, -1).node, shape)

    def _wrapped(self, index: Self | np.ndarray, axis: int, size: int) -> Self:
        """An index as a tensor, negative places counted from the end."""
        if isinstance(index, Gathering):
            index = index._result(check_places("getitem", index, axis, size, -size))
            if index.dtype.is_unsigned:
                return type(self)._of(index.node, index.device)
            wide = index if index.dtype.itemsize >= 4 else index.cast(dtypes.int32)
            wrapped = wide.lt(0).where(wide.add(size), wide)
            return type(self)._of(wrapped.node, index.device)
        dtype = dtypes.int32 if size < 1 << 31 else dtypes.int64
        node = from_host(self.device, to_dtype(dtype), index)
        return type(self)._of(reshape(node, index.shape), self.device)

    def masked_select(self, mask: Self) -> Self:
        """The elements where `mask` is true, as a vector, in their dtype; both broadcast.

        Computes the mask now. Raises ShapeError.
        """
        shape = broadcast_shapes("masked_select", self.shape, mask.shape)
        return self.expand(shape).flatten()[mask.expand(shape).flatten()]


def _check_fits(shape: Shape, wanted: Shape) -> None:
    extra = len(shape) - len(wanted)
    trimmed = shape[extra:] if extra > 0 and all(n == 1 for n in shape[:extra]) else shape
    if broadcast_shapes("setitem", trimmed, wanted) != wanted:
        raise ShapeError(
            f"[setitem] a value of shape {shape} does not fit a part of shape {wanted}, which it "
            "would have to broadcast to"
        )


def _trim(node: Node, wanted: Shape) -> Node:
    extra = len(node.shape) - len(wanted)
    return reshape(node, node.shape[extra:]) if extra > 0 else node


def _merged(view: Node, plan: Subscript) -> tuple[Node, list[int], Shape]:
    """The advanced axes as one axis in front; the order of axes that did it."""
    axes = [axis for axis, _ in plan.advanced]
    rest = [axis for axis in range(len(view.shape)) if axis not in axes]
    order = [*axes, *rest]
    moved = move_axes(view, order)
    others = moved.shape[len(axes) :]
    merged = reshape(moved, (size_product(moved.shape[: len(axes)]), *others))
    return merged, order, others


def _gathered(view: Node, plan: Subscript, places: Node) -> Node:
    if len(plan.advanced) == 1 and plan.place == plan.advanced[0][0]:
        return Node(Op.GATHER, view.dtype, (view, places), GatherArg(plan.place))
    merged, _, others = _merged(view, plan)
    node = Node(Op.GATHER, view.dtype, (merged, places), GatherArg(0))
    return move_axes(node, _block_order(len(places.shape), len(others), plan.place))


def _block_order(block: int, others: int, place: int) -> list[int]:
    """The axis order that moves the first `block` axes to `place` among the others."""
    rest = list(range(block, block + others))
    return [*rest[:place], *range(block), *rest[place:]]


def _scattered(view: Node, plan: Subscript, places: Node, value: Node) -> Node:
    """The view with `value` (shaped as `_gathered`) at the places."""
    merged, order, others = _merged(view, plan)
    block = _block_order(len(places.shape), len(others), plan.place)
    rows = move_axes(value, [block.index(i) for i in range(len(block))])
    new = Node(Op.SCATTER, view.dtype, (merged, places, rows), ScatterArg(0, None))
    moved = reshape(new, tuple(view.shape[axis] for axis in order))
    return move_axes(moved, [order.index(i) for i in range(len(order))])
