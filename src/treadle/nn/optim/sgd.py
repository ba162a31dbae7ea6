"""Gradient descent with momentum, and its relatives LARS (layer-wise rates) and Muon.

All three are one step with different parts switched on: decay, layer-wise rate, momentum,
orthogonalisation.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import UserError
from ...explained import explained
from ...tensor import Tensor
from .optimizer import Optimizer, ParameterGroup, Params

__all__ = ["LARS", "SGD", "Muon"]


@explained
class LARS(Optimizer):
    """Layer-wise adaptive rate scaling (arXiv 1708.03888v3).

    `tcoef` is the trust coefficient (0 turns the layer-wise rate off); `classic` multiplies by the
    learning rate before momentum instead of after; `pre_wd` adds the decay to the gradient instead
    of shrinking the parameter; `ns_steps` orthogonalises matrices as Muon does. With momentum a
    float32 tensor of state in the shape of each parameter, which keeps its dtype. Raises as
    `Optimizer`.
    """

    def __init__(
        self,
        params: Params,
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
        super().__init__(
            params, lr, momentum=momentum, weight_decay=weight_decay, ns_steps=ns_steps,
            ns_params=ns_params, nesterov=nesterov, classic=classic, pre_wd=pre_wd, tcoef=tcoef,
        )  # fmt: skip
        for group in self.param_groups:
            if group["nesterov"] and not group["momentum"]:
                raise UserError(f"[{type(self).__name__}] nesterov=True needs a momentum above 0")
            if group["momentum"]:
                group.keep_zeros("velocity")

    def _step(self, group: ParameterGroup, gradients: Sequence[Tensor]) -> list[Tensor]:
        return [
            _stepped(group, index, param.detach().float(), gradient)
            for index, (param, gradient) in enumerate(zip(group["params"], gradients, strict=True))
        ]


@explained
class SGD(LARS):
    """Stochastic gradient descent with optional momentum and weight decay, as in PyTorch.

    `classic` multiplies by the learning rate before momentum instead of after. With momentum a
    float32 tensor of state in the shape of each parameter, which keeps its dtype. Raises as
    `Optimizer`.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        classic: bool = False,
    ) -> None:
        super().__init__(
            params, lr, momentum, weight_decay, nesterov=nesterov, classic=classic, tcoef=0.0
        )


@explained
class Muon(LARS):
    """Momentum orthogonalised by Newton-Schulz steps (kellerjordan.github.io/posts/muon).

    For matrices; parameters of one axis take a plain momentum step. A float32 tensor of state in
    the shape of each parameter, which keeps its dtype. Raises as `Optimizer`.
    """

    def __init__(
        self,
        params: Params,
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


def _stepped(group: ParameterGroup, index: int, param: Tensor, gradient: Tensor) -> Tensor:
    rate, decay, lr = _trust(group, param, gradient), group["weight_decay"], group["lr"]
    if decay and group["pre_wd"]:
        gradient = gradient + decay * param
    gradient = gradient * rate
    if group["classic"]:
        gradient = gradient * lr
    gradient = _orthogonal(group, _with_momentum(group, index, gradient))
    if decay and not group["pre_wd"]:
        param = param * (1 - lr * decay)
    return param - (gradient if group["classic"] else gradient * lr)


def _trust(group: ParameterGroup, param: Tensor, gradient: Tensor) -> Tensor | float:
    """The ratio of the norms of parameter and gradient; 1 where either is 0."""
    if not group["tcoef"]:
        return 1.0
    size, slope = param.square().sum().sqrt(), gradient.square().sum().sqrt()
    ratio = group["tcoef"] * size / (slope + group["weight_decay"] * size)
    return ((size > 0) & (slope > 0)).where(ratio, 1.0)


def _with_momentum(group: ParameterGroup, index: int, gradient: Tensor) -> Tensor:
    momentum = group["momentum"]
    if not momentum:
        return gradient
    velocity = group["velocity"][index]
    velocity.assign(velocity * momentum + gradient)
    return gradient + velocity * momentum if group["nesterov"] else velocity


def _orthogonal(group: ParameterGroup, update: Tensor) -> Tensor:
    if not group["ns_steps"] or group["ns_params"] is None or update.ndim < 2:
        return update
    matrix = update.reshape(update.shape[0], -1)
    return _orthogonalised(matrix, group["ns_steps"], group["ns_params"]).reshape(update.shape)


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
