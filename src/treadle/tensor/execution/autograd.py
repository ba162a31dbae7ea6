"""Gradients for users: `loss.backward()` and `loss.gradient(x)`.

w = Tensor([1.0, 2.0], requires_grad=True)
(w * w).sum().backward()          -> w.grad is [2, 4], lazily
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Sequence
from typing import Self

from ...engine.collectives import issue, with_calls
from ...engine.realized import holders, resolve
from ...engine.storages import Storage, base_of, claimed
from ...errors import DTypeError, NoGradientWarning, ShapeError, UserError
from ...ir.args import Mesh
from ...ir.node import Node, toposort
from ...ir.op import Op
from ...ir.shape import Shape
from ...ir.versions import stored_below
from ...transforms.grad import gradient
from ...transforms.shapes import named
from ..basis import Basis
from ..basis.state import State
from ..shapes import expand, reshape

__all__ = ["Autograd"]

_NOTHING_REACHED = (
    "[backward] nothing below this tensor requires gradients, so no .grad is filled; give the "
    "parameters to an optimiser first, make tensors with requires_grad=True, or ask for "
    "loss.gradient(x)"
)


class Autograd(Basis):
    """Differentiation."""

    __slots__ = ()

    def gradient(
        self, *targets: Self, gradient: Self | None = None, materialize_grads: bool = False
    ) -> list[Self]:
        """The gradients of this tensor with respect to `targets`, which may be any tensors below.

        A tensor in between that has been realized is a constant, unless the target has
        `requires_grad`: only then is it kept how values were computed from it. Each gradient has
        its target's shape and dtype, and gradients itself. `gradient`, in this tensor's shape, is
        the one that arrives here, 1 for a single element. A target that does not matter raises
        UserError, or gets zeros with `materialize_grads`. Raises ShapeError or DTypeError.
        """
        for target in targets:
            _check_target(target)
        found = self._gradients(list(targets), gradient)
        missing = [i for i, g in enumerate(found) if g is None]
        if missing and not materialize_grads:
            raise UserError(
                f"[gradient] targets {missing} do not influence the result; give "
                "materialize_grads=True for zeros"
            )
        results = []
        for target, node in zip(targets, found, strict=True):
            zeros = expand(Node.const(target.dtype, 0), target.shape)
            results.append(target._result(zeros if node is None else node, self))
        return results

    def backward(self, gradient: Self | None = None) -> Self:
        """Add this tensor's gradient to `.grad` of every leaf with `requires_grad` below it.

        Each gradient has its leaf's shape and dtype. `gradient`, in this tensor's shape, is the one
        that arrives here, 1 for a single element. Returns self. Raises ShapeError where there are
        more, DTypeError for what is no real float. A NoGradientWarning says that there is no such
        leaf: parameters of layers are leaves once an optimiser has them.
        """
        leaves = [t for t in holders() if t.is_leaf]
        found = self._gradients(leaves, gradient)
        if not any(node is not None for node in found):
            warnings.warn(_NOTHING_REACHED, NoGradientWarning, stacklevel=3)
        for leaf, node in zip(leaves, found, strict=True):
            if node is None:
                continue
            new = type(self)._of(Node(Op.DETACH, node.dtype, (node,)), leaf.device)
            leaf.grad = new if leaf.grad is None else leaf.grad.add(new)
        return self

    def _gradients(self, targets: Sequence[State], seed: Self | None) -> list[Node | None]:
        found = self._gradient_graphs(targets, seed)
        known = [node for node in found if node is not None]
        issue(known)
        if not isinstance(self.device, Mesh):
            return found
        known.reverse()  # what is there first, most often: the gradients of the last layers
        ready = dict(zip(known, with_calls(known, self.device), strict=True))
        return [None if node is None else ready[node] for node in found]

    def _gradient_graphs(self, targets: Sequence[State], seed: Self | None) -> list[Node | None]:
        if not self.dtype.is_inexact:
            raise DTypeError(f"[backward] only floats have gradients, not {self.dtype.name}")
        if seed is None and self.dtype.is_complex:
            raise DTypeError(
                f"[backward] a {self.dtype.name} result is no loss to make smaller; take .real, "
                ".imag or .abs() of it, or give gradient="
            )
        if seed is None and self.numel() != 1:
            raise ShapeError(
                f"[backward] shape {self.shape} is not one value; reduce it with .sum() or "
                ".mean(), or give gradient="
            )
        if seed is not None and seed.shape != self.shape:
            raise ShapeError(f"[backward] gradient has shape {seed.shape}, expected {self.shape}")
        one = expand(Node.const(self.dtype, 1), self.shape)
        start = one if seed is None else seed.node.cast(self.dtype)
        root, nodes = self.node, [t.node for t in targets]
        others = _other_names(root, nodes)
        earlier = _earlier_versions(root, targets)
        if not others and not earlier:
            return gradient(root, nodes, start)
        alike = [
            [*dict.fromkeys([*others.get(node, ()), *earlier.get(id(t), ())])]
            for t, node in zip(targets, nodes, strict=True)
        ]
        names = {name: named(name) for same in alike for name in same}
        back = {alias: name for name, alias in names.items()}
        stay = {node: node for node in nodes}  # with all that is below
        found = gradient(root.substitute(names | stay), [*nodes, *back], start)
        parts = dict(zip([*nodes, *names], found, strict=True))
        return [
            _sum_of([parts[node], *(parts[name] for name in same)], t.shape, back)
            for t, node, same in zip(targets, nodes, alike, strict=True)
        ]


def _other_names(root: Node, targets: list[Node]) -> dict[Node, list[Node]]:
    """What the graph holds in place of a target that has been computed since it was built.

    The graph keeps its nodes: what has been written is known by them.
    """
    memory = {resolve(node): node for node in targets}
    found: dict[Node, list[Node]] = {}
    for node in root.toposort():
        target = memory.get(resolve(node))
        if target is not None and node is not target:
            found.setdefault(target, []).append(node)
    return found


def _earlier_versions(root: Node, targets: Sequence[State]) -> dict[int, list[Node]]:
    """For leaves, by id: what the graph has read of their memory before it was overwritten."""
    leaves = {t._storage: t for t in targets if t.is_leaf and t._storage is not None}
    own = {t.node if _is_sharded(t) else base_of(t.node, is_graded=True) for t in leaves.values()}
    found: dict[int, list[Node]] = {}

    def enter(node: Node) -> bool:
        if node in own:
            return False
        storage = _storage_read(node)
        leaf = None if storage is None else leaves.get(storage)
        if leaf is not None:
            found.setdefault(id(leaf), []).append(node)
        return leaf is None

    toposort([root], enter)
    return {leaf: [*dict.fromkeys(versions)] for leaf, versions in found.items()}


def _is_sharded(tensor: State) -> bool:
    return isinstance(tensor.device, tuple)


def _storage_read(node: Node) -> Storage | None:
    """The storage whose memory `node` is: all of it, on each of its devices."""
    if node.op in (Op.BUFFER, Op.AFTER):
        return claimed(stored_below(node).arg.token)
    if node.op is not Op.MULTI:
        return None
    bases = [base_of(part, is_graded=True) for part in node.src]
    found = {None if base is None else _storage_read(base) for base in bases}
    return found.pop() if len(found) == 1 else None


def _sum_of(parts: list[Node | None], shape: Shape, back: dict[Node, Node]) -> Node | None:
    """What arrives at all versions of a leaf together."""
    known = [reshape(part.substitute(back), shape) for part in parts if part is not None]
    return functools.reduce(operator.add, known) if known else None


def _check_target(target: State) -> None:
    if not target.dtype.is_inexact:
        raise DTypeError(f"[gradient] only floats have gradients, not {target.dtype.name}")
    if not any(n.op in (Op.BUFFER, Op.ALIAS) for n in target.node.toposort()):
        raise UserError(
            "[gradient] a target is a constant, and equal constants are one; create it with "
            "requires_grad=True"
        )
