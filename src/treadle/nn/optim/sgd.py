"""Gradient descent with momentum, and its relatives LARS (layer-wise rates) and Muon.

All three are one step with different parts switched on: decay, layer-wise rate, momentum,
orthogonalisation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import UserError
from ...tensor import Tensor
from .optimizer import Optimizer

__all__ = ["LARS", "SGD", "Muon"]


class LARS(Optimizer):
    """Layer-wise adaptive rate scaling (arXiv 1708.03888v3).

    `tcoef` is the trust coefficient (0 turns the layer-wise rate off); `classic` multiplies by
    the learning rate before momentum instead of after; `pre_wd` adds the decay to the gradient
    instead of shrinking the parameter; `ns_steps` orthogonalises matrices as Muon does.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        ns_steps: int = 0,
        ns_params: tuple[float, float, float] | None = None,
        nesterov: bool = False,
        classic: bool = True,
        pre_wd: bool = True,
        tcoef: float = 0.001,
    ) -> None:
        super().__init__(params, lr)
        if nesterov and not momentum:
            raise UserError(f"[{type(self).__name__}] nesterov=True needs a momentum above 0")
        self.momentum, self.weight_decay, self.nesterov = momentum, weight_decay, nesterov
        self.ns_steps, self.ns_params = ns_steps, ns_params
        self.classic, self.pre_wd, self.tcoef = classic, pre_wd, tcoef
        self.velocity = self.state_zeros() if momentum else []

    def _step(self, params: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[Tensor]:
        return [self._stepped(i, p.detach().float(), g)
                for i, (p, g) in enumerate(zip(params, gradients, strict=True))]  # fmt: skip

    def _stepped(self, index: int, param: Tensor, gradient: Tensor) -> Tensor:
        rate = self._trust(param, gradient)
        if self.weight_decay and self.pre_wd:
            gradient = gradient + self.weight_decay * param
        gradient = gradient * rate
        if self.classic:
            gradient = gradient * self.lr
        gradient = self._orthogonal(self._with_momentum(index, gradient))
        if self.weight_decay and not self.pre_wd:
            param = param * (1 - self.lr * self.weight_decay)
        return param - (gradient if self.classic else gradient * self.lr)

    def _trust(self, param: Tensor, gradient: Tensor) -> Tensor | float:
        """The ratio of the norms of parameter and gradient; 1 where either is 0."""
        if not self.tcoef:
            return 1.0
        size, slope = param.square().sum().sqrt(), gradient.square().sum().sqrt()
        ratio = self.tcoef * size / (slope + self.weight_decay * size)
        return ((size > 0) & (slope > 0)).where(ratio, 1.0)

    def _with_momentum(self, index: int, gradient: Tensor) -> Tensor:
        if not self.momentum:
            return gradient
        velocity = self.velocity[index]
        velocity.assign(velocity * self.momentum + gradient)
        return gradient + velocity * self.momentum if self.nesterov else velocity

    def _orthogonal(self, update: Tensor) -> Tensor:
        if not self.ns_steps or self.ns_params is None or update.ndim < 2:
            return update
        matrix = update.reshape(update.shape[0], -1)
        return _orthogonalised(matrix, self.ns_steps, self.ns_params).reshape(update.shape)

    def state_tensors(self) -> list[Tensor]:
        return self.velocity


class SGD(LARS):
    """Stochastic gradient descent with optional momentum and weight decay, as in PyTorch.

    `classic` multiplies by the learning rate before momentum instead of after.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        classic: bool = False,
    ) -> None:
        super().__init__(
            params, lr, momentum, weight_decay, nesterov=nesterov, classic=classic, tcoef=0.0
        )


class Muon(LARS):
    """Momentum orthogonalised by Newton-Schulz steps (kellerjordan.github.io/posts/muon).

    For matrices; parameters of one axis take a plain momentum step.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        ns_steps: int = 5,
        ns_params: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        nesterov: bool = True,
    ) -> None:
        super().__init__(
            params, lr, momentum, weight_decay, ns_steps, ns_params, nesterov,
            classic=False, pre_wd=False, tcoef=0.0,
        )  # fmt: skip


def _orthogonalised(matrix: Tensor, steps: int, params: tuple[float, float, float]) -> Tensor:
    """About the nearest matrix with orthonormal rows or columns, whichever are fewer.

    Each step applies an odd polynomial with coefficients `params` to the singular values, which
    the first scaling has put between 0 and 1, and moves them towards 1.
    """
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.transpose() if tall else matrix
    x = x / (x.square().sum().sqrt() + 1e-7)
    linear, cubic, quintic = params
    for _ in range(steps):
        gram = x @ x.transpose()
        x = x * linear + (gram * cubic + (gram @ gram) * quintic) @ x
    return x.transpose() if tall else x
