"""What all optimisers share: the parameter list, the learning rate, and one step.

An optimiser is a function from (parameter, gradient) to a new value; this base reads the
gradients, casts, and assigns, so that subclasses hold the formula alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...dtype import dtypes
from ...errors import UserError
from ...tensor import Tensor

__all__ = ["Optimizer", "OptimizerGroup"]


class Optimizer:
    """Base of the optimisers over `params`, a list of tensors; `lr` is the learning rate.

    Tensors with `requires_grad=False` among `params` are kept in `buffers` and left alone.
    Setting `opt.lr = 0.01` writes the learning-rate tensor, so captured steps see the new rate.
    Raises UserError if no parameter is left to train or they are on several devices.
    """

    def __init__(self, params: Iterable[Tensor], lr: float) -> None:
        tensors = _unique(params)
        for tensor in tensors:
            if tensor.requires_grad is None:
                tensor.requires_grad = True
        self.params = [t for t in tensors if t.requires_grad]
        self.buffers = [t for t in tensors if not t.requires_grad]
        self._check_params()
        self.device = self.params[0].device
        self._lr = self.state_scalar(lr)

    def _check_params(self) -> None:
        name = type(self).__name__
        if not self.params:
            raise UserError(f"[{name}] needs at least one tensor that requires a gradient")
        devices = {str(t.device) for t in self.params}
        if len(devices) > 1:
            raise UserError(
                f"[{name}] parameters are on several devices: {', '.join(sorted(devices))}; "
                f"use one optimiser a device in an OptimizerGroup"
            )

    @property
    def lr(self) -> Any:
        """The learning rate, a float32 Tensor of shape (1,)."""
        return self._lr

    @lr.setter
    def lr(self, value: Any) -> None:
        rate = value if isinstance(value, Tensor) else self.state_scalar(value)
        self._lr.assign(rate.reshape(1).cast(self._lr.dtype)).realize()

    def state_scalar(self, value: float) -> Tensor:
        """A float32 tensor of shape (1,) that lives across steps."""
        return self._state([value], (1,))

    def state_zeros(self) -> list[Tensor]:
        """A float32 tensor of zeros for each parameter, that lives across steps."""
        return [self._state(0.0, t.shape) for t in self.params]

    def _state(self, value: Any, shape: tuple[Any, ...]) -> Tensor:
        import numpy as np

        # From host memory: a buffer of its own to assign to, with no kernel to compile.
        data = np.broadcast_to(np.asarray(value, np.float32), shape).copy()
        return Tensor(data, dtype=dtypes.float32, device=self.device, requires_grad=False)

    def zero_grad(self) -> None:
        """Forget the gradients, so that the next `backward` does not add to them."""
        for param in self.params:
            param.grad = None

    def step(self) -> None:
        """Update every parameter from its gradient, and compute the new values now."""
        Tensor.realize(*self.schedule_step())

    def schedule_step(self) -> list[Tensor]:
        """Update lazily: the tensors whose `realize` performs the step.

            loss.realize(*opt.schedule_step())     # one schedule for the loss and the step

        Raises UserError naming the first parameter that has no gradient.
        """
        gradients = [self._gradient(index) for index in range(len(self.params))]
        updated = self._step(self.params, gradients)
        for param, value in zip(self.params, updated, strict=True):
            param.assign(value.cast(param.dtype))
        return [*self.params, *self.buffers, *self.state_tensors()]

    def _gradient(self, index: int) -> Tensor:
        param = self.params[index]
        if param.grad is None:
            raise UserError(
                f"[{type(self).__name__}.step] parameter {index} of shape {param.shape} has no "
                f"gradient: call backward() on a loss that depends on it before step()"
            )
        return param.grad.detach().to(param.device).cast(dtypes.float32)

    def _step(self, params: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[Tensor]:
        """The new values of `params`; assigns to the optimiser's own state on the way."""
        raise NotImplementedError(f"{type(self).__name__} does not define _step")

    def state_tensors(self) -> list[Tensor]:
        """The tensors that a step updates besides the parameters."""
        return []


class OptimizerGroup(Optimizer):
    """Several optimisers that step as one, such as one for the matrices and one for the rest."""

    def __init__(self, *optimizers: Optimizer) -> None:
        if not optimizers:
            raise UserError("[OptimizerGroup] needs at least one optimiser")
        self.optimizers = optimizers
        self.params = [t for opt in optimizers for t in opt.params]
        self.buffers = [t for opt in optimizers for t in opt.buffers]
        self.device = optimizers[0].device

    def __getitem__(self, index: int) -> Optimizer:
        return self.optimizers[index]

    def __len__(self) -> int:
        return len(self.optimizers)

    @property
    def lr(self) -> Any:
        """The first's learning rate; set each by itself, as in `group[1].lr = 0.1`."""
        return self.optimizers[0].lr

    @lr.setter
    def lr(self, value: Any) -> None:
        raise UserError("[OptimizerGroup] has no one learning rate; set group[i].lr instead")

    def zero_grad(self) -> None:
        for opt in self.optimizers:
            opt.zero_grad()

    def schedule_step(self) -> list[Tensor]:
        return [t for opt in self.optimizers for t in opt.schedule_step()]


def _unique(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Each tensor object once, in order: a tied weight must not be stepped twice."""
    return list({id(t): t for t in tensors}.values())
