"""A function's arguments under names of their own: how derivatives get a graph to work on.

    given = Arguments("grad", (w, x), argnums=0)
    out = given.call(loss, {})               loss(w', x), where w' is w under a new name
    given.nodes                              the names of the tensors in w'
    given.real(out), given.results(nodes)    what was computed of w', as if it had been of w

A name is an ALIAS node: to what the function computes it is the argument, and no tensor from around
the function can be it. What it uses of its argument from there counts as constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..dtype import DType
from ..engine.collectives import issue
from ..errors import DTypeError, UserError
from ..ir.builders import constant
from ..ir.node import Node
from ..ir.op import Op
from ..ir.shape import Shape
from ..tensor import Tensor
from ..tensor.inplace import leads_to_leaf
from ..tensor.modes import no_grad
from ..tensor.types import Placement
from ..transforms.shapes import named
from . import trees

__all__ = ["Arguments", "check_float", "check_inexact", "check_tensor", "or_zeros", "tensor_of"]


class Arguments:
    """The positional arguments of one call; those that `argnums` names have derivatives.

    Raises UserError for a number that names none, DTypeError for what has no derivatives.
    """

    def __init__(
        self, operation: str, args: Sequence[object], argnums: int | Sequence[int]
    ) -> None:
        self.operation = operation
        self._back: dict[Node, Node] = {}
        self._all = list(args)
        self.inputs: list[Tensor] = []
        numbers = list(argnums) if isinstance(argnums, Iterable) else [argnums]
        places = [_place(operation, number, len(args)) for number in numbers]
        for place in places:
            for path, _, leaf in trees.paired(operation, "args", None, args[place]):
                check_inexact(operation, f"args[{place}]{path}", leaf)
                self.inputs.append(leaf)
            self._all[place] = trees.mapped(self._named, args[place])
        picked = [args[place] for place in places]
        self._form = picked[0] if isinstance(argnums, int) else tuple(picked)

    def _named(self, x: Tensor) -> Tensor:
        alias = named(x.node)
        self._back[alias] = x.node
        return Tensor._of(alias, x.device, True)

    @property
    def nodes(self) -> list[Node]:
        """The names, in the order of `inputs`."""
        return list(self._back)

    def call(self, function: Callable[..., Any], kwargs: Mapping[str, object]) -> Any:
        """What `function` gives for them. It records gradients, unless it asks for none itself."""
        with no_grad(False):
            return function(*self._all, **kwargs)

    def real(self, tree: object) -> Any:
        """The tensors of `tree`, computed of the arguments themselves."""
        return trees.mapped(self._real, tree)

    def _real(self, leaf: object) -> object:
        if not isinstance(leaf, Tensor):
            return leaf
        return tensor_of(leaf.node.substitute(self._back), leaf.device)

    def results(self, nodes: Sequence[Node]) -> Any:
        """A node for each of `inputs` as tensors in the form of the arguments."""
        pairs = zip(nodes, self.inputs, strict=True)
        made = [tensor_of(node.substitute(self._back), x.device) for node, x in pairs]
        return trees.restored(self._form, made)


def _place(operation: str, number: object, count: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise UserError(f"[{operation}] argnums is a number or several, not {number!r}")
    if not -count <= number < count:
        raise UserError(
            f"[{operation}] argnums names argument {number}, but the function was called with "
            f"{count} positional arguments"
        )
    return number % count


def check_tensor(operation: str, what: str, value: object) -> Tensor:
    """`value`. Raises UserError for what is no tensor."""
    if not isinstance(value, Tensor):
        raise UserError(
            f"[{operation}] {what} is {value!r}, a {type(value).__name__}, where a Tensor is needed"
        )
    return value


def check_inexact(operation: str, what: str, value: object) -> Tensor:
    """`value`. Raises UserError for what is no tensor, DTypeError for one of integers or bools."""
    tensor = check_tensor(operation, what, value)
    if not tensor.dtype.is_inexact:
        raise DTypeError(
            f"[{operation}] only floats and complex numbers have derivatives; {what} is "
            f"{tensor.dtype.name} of shape {tensor.shape}"
        )
    return tensor


def check_float(operation: str, what: str, value: object) -> Tensor:
    """As `check_inexact`, where complex numbers will not do either."""
    tensor = check_inexact(operation, what, value)
    if tensor.dtype.is_complex:
        raise DTypeError(
            f"[{operation}] {what} is {tensor.dtype.name} of shape {tensor.shape}, where floats "
            "are needed: take .real, .imag or .abs() of it"
        )
    return tensor


def tensor_of(node: Node, device: Placement) -> Tensor:
    """A result. It leads gradients to the leaves below it, unless Tensor.no_grad() holds."""
    needs = node.dtype.is_inexact and leads_to_leaf(node)
    if needs and no_grad:
        node, needs = Node(Op.DETACH, node.dtype, (node,)), False
    issue([node])
    return Tensor._of(node, device, True if needs else None)


def or_zeros(node: Node | None, dtype: DType, shape: Shape) -> Node:
    """A derivative; where nothing leads from one end to the other it is 0."""
    return constant(dtype, 0, shape) if node is None else node
