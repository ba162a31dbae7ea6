"""Gradients for users: `loss.backward()` and `loss.gradient(x)`.

w = Tensor([1.0, 2.0], requires_grad=True)
(w * w).sum().backward()          -> w.grad is [2, 4], lazily
"""

from __future__ import annotations

from typing import Any, Self

from ..engine.known import holders, resolve
from ..errors import DTypeError, ShapeError, UserError
from ..ir.node import Node
from ..ir.op import Op
from ..transforms.grad import gradient
from .functional import Functional
from .shapes import expand

__all__ = ["Autograd"]


class Autograd(Functional):
    """Differentiation of everything below."""

    __slots__ = ()

    def gradient(
        self, *targets: Self, gradient: Self | None = None, materialize_grads: bool = False
    ) -> list[Self]:
        """The gradients of this tensor with respect to `targets`, which may be any tensors below.

        Each has its target's shape and dtype, and gradients itself. `gradient`, in this tensor's
        shape, is the one that arrives here, 1 for a single element. A target that does not matter
        raises UserError, or gets zeros with `materialize_grads`. Raises ShapeError or DTypeError.
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
        more, DTypeError for what is no real float.
        """
        leaves = [t for t in holders() if t.is_leaf]
        found = self._gradients(leaves, gradient)
        for leaf, node in zip(leaves, found, strict=True):
            if node is None:
                continue
            new = type(self)._of(node, leaf.device)
            leaf.grad = new if leaf.grad is None else leaf.grad.add(new)
        return self

    def _gradients(self, targets: list[Any], seed: Self | None) -> list[Node | None]:
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
        root, nodes = _one_name(self.node, [t.node for t in targets])
        return gradient(root, nodes, start)


def _one_name(root: Node, targets: list[Node]) -> tuple[Node, list[Node]]:
    """The graph with each target under one name.

    A target may have been computed since the graph was built: the graph then holds what it was,
    the tensor its memory.
    """
    memory = {resolve(node): node for node in targets}
    order = root.toposort()
    old = {n: memory[resolve(n)] for n in order if resolve(n) in memory}
    changed = {n: target for n, target in old.items() if n is not target}
    return root.substitute(changed), targets


def _check_target(target: Any) -> None:
    if not target.dtype.is_inexact:
        raise DTypeError(f"[gradient] only floats have gradients, not {target.dtype.name}")
    if not any(n.op is Op.BUFFER for n in target.node.toposort()):
        raise UserError(
            "[gradient] a target is a constant, and equal constants are one; create it with "
            "requires_grad=True"
        )
