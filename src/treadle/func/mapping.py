"""vmap: a function of one example becomes a function of a batch of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, ParamSpec, TypeVar

from ..errors import ShapeError, UserError
from ..explained import explained
from ..ir.builders import repeated
from ..ir.node import Node
from ..tensor import Tensor
from ..tensor.examples import Examples
from ..tensor.shapes import move_axes, resolve_axis
from ..transforms.batch import batch
from . import trees
from .arguments import check_tensor, tensor_of

__all__ = ["vmap"]

P = ParamSpec("P")
R = TypeVar("R")


@explained
def vmap(
    func: Callable[P, R], in_dims: object = 0, out_dims: object = 0,
    randomness: Literal["error", "different", "same"] = "error",
) -> Callable[P, R]:  # fmt: skip
    """`func` for every example of a batch, in one graph: it is called once, on one of them.

    `in_dims`: the axis of each positional argument along which examples lie, None where all get the
    same; one number for all, or a tree in the form of the arguments, of which a leaf stands for all
    below it. `out_dims`: likewise the axis along which they lie in the result; None for what is the
    same for all. Dtypes stay. Keyword arguments go to all examples as they are.

    Random numbers inside are an error, unless `randomness` says whether each example draws its own
    ("different") or all get the "same".

    Raises ShapeError where the axes have different sizes, UserError for what is no tensor, and,
    inside of `func`, for what would need an example's values: item(), conditions, unique.
    """
    if randomness not in ("error", "different", "same"):
        raise UserError(f'[vmap] randomness is "error", "different" or "same", not {randomness!r}')

    @functools.wraps(func)
    def batched(*args: P.args, **kwargs: P.kwargs) -> Any:
        axes = [_Axis(*pair) for pair in trees.paired("vmap", "in_dims", in_dims, args)]
        examples = Examples(_size(axes), randomness)
        inputs = trees.restored(args, [axis.example(examples) for axis in axes])
        with examples:
            result = func(*inputs, **kwargs)
        pairs = trees.paired("vmap", "out_dims", out_dims, result)
        for path, _, leaf in pairs:
            check_tensor("vmap", f"the function's result{path}", leaf)
        nodes = batch([pair.leaf.node for pair in pairs], examples.known, examples.size)
        rows = zip(pairs, nodes, strict=True)
        return trees.restored(result, [_output(*pair, node, examples.size) for pair, node in rows])

    return batched


class _Axis:
    """One leaf of the arguments and its axis of examples, if it has one."""

    def __init__(self, path: str, dim: object, leaf: Any) -> None:
        self.path, self.leaf, self.axis = path, leaf, None
        if dim is None:
            return
        axis = _checked_dim("in_dims", path, dim)
        check_tensor("vmap", f"args{path}, mapped by in_dims {dim},", leaf)
        if not leaf.ndim:
            raise ShapeError(
                f"[vmap] args{path} has shape (), and no axis of examples: give it the in_dims None"
            )
        self.axis = resolve_axis("vmap", axis, leaf.ndim)

    def example(self, examples: Examples) -> object:
        """What the function sees."""
        x = self.leaf
        if self.axis is None:
            return x
        rest = (axis for axis in range(x.ndim) if axis != self.axis)
        one = examples.stand_in(move_axes(x.node, (self.axis, *rest)), x.device)
        return Tensor._of(one, x.device, x.requires_grad)


def _checked_dim(what: str, path: str, dim: object) -> int:
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise UserError(f"[vmap] {what}{path} is an axis or None, not {dim!r}")
    return dim


def _size(axes: list[_Axis]) -> int:
    """How many examples there are. Raises ShapeError where that is not one number."""
    mapped = [(item, item.leaf.shape[item.axis]) for item in axes if item.axis is not None]
    if not mapped:
        raise UserError("[vmap] no argument has an axis of examples: in_dims is None for all")
    sizes = {size for _, size in mapped}
    if len(sizes) > 1 or not isinstance(mapped[0][1], int):
        shown = ", ".join(
            f"args{item.path} of {item.leaf.shape} has {size} along axis {item.axis}"
            for item, size in mapped
        )
        raise ShapeError(f"[vmap] the number of examples has to be one known number: {shown}")
    return mapped[0][1]


def _output(path: str, dim: object, leaf: Tensor, node: Node | None, size: int) -> Tensor:
    """A result of all examples, its axis of them at `dim`."""
    if dim is None:
        if node is not None:
            raise UserError(
                f"[vmap] out_dims{path} is None, but the result{path} differs between examples"
            )
        return leaf
    axis = resolve_axis("vmap", _checked_dim("out_dims", path, dim), leaf.ndim + 1)
    node = repeated(leaf.node, size) if node is None else node
    order = list(range(1, leaf.ndim + 1))
    return tensor_of(move_axes(node, (*order[:axis], 0, *order[axis:])), leaf.device)
