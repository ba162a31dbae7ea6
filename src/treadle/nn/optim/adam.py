"""Adam and its relatives: steps scaled by running means of the gradient and of its square.

One surprise: the bias corrections 1 - b**t are kept as running values of their own,
c = c * b + (1 - b), which a replay can advance and which loses no digits to cancellation.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...explained import explained
from ...tensor import Tensor
from .optimizer import Optimizer, ParameterGroup, Params

__all__ = ["LAMB", "Adam", "AdamW"]


@explained
class LAMB(Optimizer):
    """Adam with a layer-wise rate (arXiv 1904.00962); `adam=True` switches that rate off.

    Two float32 tensors of state in the shape of each parameter, which keeps its dtype. Raises as
    `Optimizer`.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        adam: bool = False,
    ) -> None:
        super().__init__(params, lr, b1=b1, b2=b2, eps=eps, weight_decay=weight_decay, adam=adam)
        for group in self.param_groups:
            group.keep_scalar("correction1", 0.0)
            group.keep_scalar("correction2", 0.0)
            group.keep_zeros("mean")
            group.keep_zeros("square")

    def _step(self, group: ParameterGroup, gradients: Sequence[Tensor]) -> list[Tensor]:
        for correction, keep in (("correction1", "b1"), ("correction2", "b2")):
            _blend(group[correction], group[correction].full_like(1.0), group[keep])
        return [
            _stepped(group, index, param.detach().float(), gradient)
            for index, (param, gradient) in enumerate(zip(group["params"], gradients, strict=True))
        ]


@explained
class AdamW(LAMB):
    """Adam with decoupled weight decay (arXiv 1711.05101v3), as in PyTorch.

    Two float32 tensors of state in the shape of each parameter, which keeps its dtype. Raises as
    `Optimizer`.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay, adam=True)


@explained
class Adam(AdamW):
    """Adam (arXiv 1412.6980): AdamW without weight decay.

    Two float32 tensors of state in the shape of each parameter, which keeps its dtype. Raises as
    `Optimizer`.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay=0.0)


def _stepped(group: ParameterGroup, index: int, param: Tensor, gradient: Tensor) -> Tensor:
    mean, square = group["mean"][index], group["square"][index]
    _blend(mean, gradient, group["b1"])
    _blend(square, gradient * gradient, group["b2"])
    # One division an element: the others are by what all elements share.
    deviation = (square * group["correction2"].reciprocal()).sqrt() + group["eps"]
    update = mean * group["correction1"].reciprocal() / deviation
    if group["weight_decay"]:
        update = update + group["weight_decay"] * param
    trust = 1.0 if group["adam"] else _trust(param, update)
    return param - group["lr"] * trust * update


def _trust(param: Tensor, update: Tensor) -> Tensor:
    """The ratio of the norms of parameter and update; 1 where either is 0."""
    size, slope = param.square().sum().sqrt(), update.square().sum().sqrt()
    return ((size > 0) & (slope > 0)).where(size / slope, 1.0)


def _blend(average: Tensor, value: Tensor, keep: float) -> None:
    """Move a running average towards `value`, in place."""
    average.assign(average * keep + value * (1 - keep))
