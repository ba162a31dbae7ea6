"""Adam and its relatives: steps scaled by running means of the gradient and of its square.

One surprise: the bias corrections 1 - b**t are kept as running values of their own,
c = c * b + (1 - b), which a replay can advance and which loses no digits to cancellation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...tensor import Tensor
from .optimizer import Optimizer

__all__ = ["LAMB", "Adam", "AdamW"]


class LAMB(Optimizer):
    """Adam with a layer-wise rate (arXiv 1904.00962); `adam=True` switches that rate off."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        adam: bool = False,
    ) -> None:
        super().__init__(params, lr)
        self.b1, self.b2, self.eps = b1, b2, eps
        self.weight_decay, self.adam = weight_decay, adam
        self.correction1, self.correction2 = self.state_scalar(0.0), self.state_scalar(0.0)
        self.mean, self.square = self.state_zeros(), self.state_zeros()

    def _step(self, params: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[Tensor]:
        one = self.correction1.full_like(1.0)
        _blend(self.correction1, one, self.b1)
        _blend(self.correction2, one, self.b2)
        return [self._stepped(i, p.detach().float(), g)
                for i, (p, g) in enumerate(zip(params, gradients, strict=True))]  # fmt: skip

    def _stepped(self, index: int, param: Tensor, gradient: Tensor) -> Tensor:
        mean, square = self.mean[index], self.square[index]
        _blend(mean, gradient, self.b1)
        _blend(square, gradient * gradient, self.b2)
        deviation = (square / self.correction2).sqrt() + self.eps
        update = mean / self.correction1 / deviation
        if self.weight_decay:
            update = update + self.weight_decay * param
        return param - self.lr * self._trust(param, update) * update

    def _trust(self, param: Tensor, update: Tensor) -> Tensor | float:
        """The ratio of the norms of parameter and update; 1 where either is 0."""
        if self.adam:
            return 1.0
        size, slope = param.square().sum().sqrt(), update.square().sum().sqrt()
        return ((size > 0) & (slope > 0)).where(size / slope, 1.0)

    def state_tensors(self) -> list[Tensor]:
        return [self.correction1, self.correction2, *self.mean, *self.square]


class AdamW(LAMB):
    """Adam with decoupled weight decay (arXiv 1711.05101v3), as in PyTorch."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay, adam=True)


class Adam(AdamW):
    """Adam (arXiv 1412.6980): AdamW without weight decay."""

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay=0.0)


def _blend(average: Tensor, value: Tensor, keep: float) -> None:
    """Move a running average towards `value`, in place."""
    average.assign(average * keep + value * (1 - keep))
