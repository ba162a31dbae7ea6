"""scan: a function of one step becomes a loop, one graph however many steps there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..engine.realized import holders
from ..errors import DTypeError, ShapeError, UserError
from ..explained import explained
from ..ir.builders import repeated
from ..ir.node import Node
from ..ir.recurrence import stand_in
from ..ir.shape import Shape
from ..tensor import Tensor
from ..tensor.shapes import reshape
from ..transforms.batch import batch
from ..transforms.recurrence import Given, recur, row, rows
from . import trees
from .arguments import check_tensor, tensor_of

__all__ = ["scan"]


@explained
def scan(
    step: Callable[[Any, Any], tuple[Any, Any]],
    state: object,
    inputs: object,
    *,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Steps along the first axis of `inputs`: `(state, out) = step(state, inputs[t])` for each t.

    `state`, `inputs` and `out` are tensors or trees of them (tuples, lists, dicts); the state keeps
    its form, shapes and dtypes. Gives the last state, and the `out` of all steps, stacked along a
    new first axis in the order of `inputs`. With `reverse`, the last row is the first step.

    `step` is called once, on stand-ins, and scheduled and compiled once for any number of steps.
    What it does without the state (products with the inputs) is done for all steps at once. It can
    be differentiated in both directions, again and again, mapped, and captured by TinyJit. Random
    numbers and values from around it are the same in all steps.

    Raises ShapeError where inputs have no rows, or different numbers of them, or the state changes
    its shape, DTypeError where it changes its dtype, UserError for what is no tensor, for another
    form of the state, and for decompositions, transfers and assignments that depend on the state.

    >>> from treadle import Tensor, func
    >>> last, sums = func.scan(lambda s, x: (s + x, s + x), Tensor(0), Tensor([1, 2, 3]))
    >>> last.item(), sums.tolist()
    (6, [1, 3, 6])
    """
    states, sequences = _tensors("state", state), _tensors("inputs", inputs)
    if not states or not sequences:
        raise UserError("[scan] a loop needs a state and inputs, each at least one tensor")
    steps = _steps(sequences)
    known = [Given(stand_in(None, x.dtype, x.shape), x.node) for x in states]
    over = [Given(stand_in(None, x.dtype, x.shape[1:]), x.node) for x in sequences]
    result = step(
        trees.restored(state, map(_seen, known, states, (x.shape for x in states))),
        trees.restored(inputs, map(_seen, over, sequences, (x.shape[1:] for x in sequences))),
    )
    if not isinstance(result, tuple) or len(result) != 2:
        raise UserError(f"[scan] the step gives a pair (state, out), not {result!r}")
    following = _following(state, result[0])
    outs = _tensors("the step's out", result[1])
    body = [x.node for x in following]
    held = {holder.node for holder in holders()}  # gradients may be asked for any of them
    histories = recur(body, known, over, [], steps, batch, reverse, held)
    read, written, last = (0, steps), (1, steps + 1), steps
    if reverse:
        read, written, last = written, read, 0
    flat = {one.stand: _flat(one.source, steps) for one in over}
    for one, history in zip(known, histories, strict=True):
        flat[one.stand] = _flat(rows(history, read), steps)
    made = {node: rows(history, written) for node, history in zip(body, histories, strict=True)}
    rest = [x.node for x in outs if x.node not in made]
    for node, many in zip(rest, batch(rest, flat, steps), strict=True):
        made[node] = repeated(node, steps) if many is None else many
    ends = [tensor_of(row(h, last), x.device) for h, x in zip(histories, states, strict=True)]
    stacked = [tensor_of(made[x.node], x.device) for x in outs]
    return trees.restored(state, ends), trees.restored(result[1], stacked)


def _tensors(what: str, tree: object) -> list[Tensor]:
    for path, _, leaf in trees.paired("scan", what, None, tree):
        check_tensor("scan", f"{what}{path}", leaf)
    return trees.leaves(tree)


def _steps(sequences: list[Tensor]) -> int:
    sizes = {x.shape[:1] for x in sequences}
    if len(sizes) > 1 or sizes == {()} or not all(isinstance(size, int) for (size,) in sizes):
        shapes = ", ".join(str(x.shape) for x in sequences)
        raise ShapeError(
            f"[scan] the inputs need one known number of steps as their first axis; shapes {shapes}"
        )
    [(steps,)] = sizes
    return steps


def _seen(given: Given, x: Tensor, shape: Shape) -> Tensor:
    """What the step sees of `x`."""
    return Tensor._of(reshape(given.stand, shape), x.device, x.requires_grad or None)


def _flat(x: Node, steps: int) -> Node:
    size = 1
    for one in x.shape[1:]:
        size *= one
    return reshape(x, (steps, size))


def _following(state: object, result: object) -> list[Tensor]:
    """The next state. Raises UserError, ShapeError or DTypeError where it is another kind."""
    pairs = trees.paired("scan", "the next state", result, state, prefix=False)
    for path, new, old in pairs:
        check_tensor("scan", f"the next state{path}", new)
        if new.shape != old.shape:
            raise ShapeError(
                f"[scan] state{path} has shape {old.shape} before a step and {new.shape} after it; "
                "a loop's state keeps its shape"
            )
        if new.dtype is not old.dtype:
            raise DTypeError(
                f"[scan] state{path} is {old.dtype.name} before a step and {new.dtype.name} after "
                "it; cast one of the two"
            )
    return [pair.other for pair in pairs]
