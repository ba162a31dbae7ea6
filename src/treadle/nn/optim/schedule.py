"""Learning-rate schedules: how many steps were taken becomes the rate of the next one.

    warm = LinearLR(opt, start_factor=0.01, total_iters=100)
    schedule = SequentialLR(opt, [warm, CosineAnnealingLR(opt, T_max=900)], milestones=[100])
    opt.step(); schedule.step()

Names, arguments and rates are PyTorch's. A schedule is a closed formula over a tensor that counts
its steps, so it advances when a captured step is replayed, and is saved like any other state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...dtype import dtypes
from ...errors import UserError
from ...explained import explained
from ...tensor import Tensor
from .optimizer import Optimizer

__all__ = [
    "CosineAnnealingLR",
    "LinearLR",
    "OneCycleLR",
    "Schedule",
    "SequentialLR",
    "StepLR",
]


@explained
class Schedule:
    """Base of the schedules: `rate` gives the learning rate after so many steps.

    The rates that the optimiser's groups have when the first schedule is made for it are those
    that the formulas scale. Making a schedule sets the rates of step 0. Raises UserError for a
    number of steps below 1; ShapeError, DTypeError or DeviceError for a tensor that is no rate on
    the device of the parameters; ArgumentError for an argument of another kind.
    """

    steps: Tensor  # how many there were, int32 of shape (1,)

    def __init__(self, optimizer: Optimizer) -> None:
        self._groups = optimizer.param_groups
        for group in self._groups:
            group.setdefault("initial_lr", group["lr"].item())
        self.steps = Tensor([0], dtype=dtypes.int32, device=optimizer.device, requires_grad=False)
        Tensor.realize(*self._assign_rates())

    def rate(self, steps: Tensor, initial: float) -> Tensor:
        """The rate after `steps` (float32, shape (1,)) for a group that began with `initial`."""
        raise NotImplementedError(f"{type(self).__name__} does not define rate")

    def step(self) -> None:
        """Count one step, and set the rates of the next one now."""
        Tensor.realize(*self.schedule_step())

    def schedule_step(self) -> list[Tensor]:
        """Count one step lazily: the tensors whose `realize` does it, float32 of shape (1,)."""
        self.steps.assign(self.steps + 1)
        return [self.steps, *self._assign_rates()]

    def _assign_rates(self) -> list[Tensor]:
        for group in self._groups:
            group["lr"].assign(self.rate(self.steps.float(), group["initial_lr"]))
        return [group["lr"] for group in self._groups]


@explained
class StepLR(Schedule):
    """Times `gamma` every `step_size` steps."""

    step_size: int
    gamma: float

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        _check_steps("StepLR", "step_size", step_size)
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def rate(self, steps: Tensor, initial: float) -> Tensor:
        return initial * self.gamma ** (steps / self.step_size).floor()


@explained
class LinearLR(Schedule):
    """From `start_factor` to `end_factor` of the rate over `total_iters` steps: a warm-up."""

    start_factor: float
    end_factor: float
    total_iters: int

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
    ) -> None:
        _check_steps("LinearLR", "total_iters", total_iters)
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer)

    def rate(self, steps: Tensor, initial: float) -> Tensor:
        done = (steps / self.total_iters).minimum(1.0)
        return initial * (self.start_factor + (self.end_factor - self.start_factor) * done)


@explained
class CosineAnnealingLR(Schedule):
    """Down to `eta_min` along half a cosine of `T_max` steps (arXiv 1608.03983), and up again."""

    T_max: int
    eta_min: float

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        _check_steps("CosineAnnealingLR", "T_max", T_max)
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def rate(self, steps: Tensor, initial: float) -> Tensor:
        return _along_cosine(initial, self.eta_min, steps / self.T_max)


@explained
class OneCycleLR(Schedule):
    """Up to `max_lr` for `pct_start` of `total_steps`, then far down (arXiv 1708.07120).

    It begins at max_lr / `div_factor`, ends at that / `final_div_factor` and stays there. Both ways
    are halves of a cosine. The optimiser's own rates count for nothing; momentum is left alone.
    """

    max_lr: float
    first_lr: float
    last_lr: float
    peak: float  # the step of the highest rate
    end: int

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float,
        total_steps: int,
        pct_start: float = 0.3,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ) -> None:
        _check_steps("OneCycleLR", "total_steps", total_steps)
        self.max_lr, self.first_lr = max_lr, max_lr / div_factor
        self.last_lr = self.first_lr / final_div_factor
        self.peak, self.end = pct_start * total_steps - 1, total_steps - 1
        if not 0 < self.peak < self.end:
            raise UserError(
                f"[OneCycleLR] pct_start={pct_start} of total_steps={total_steps} must leave steps "
                f"for both ways"
            )
        super().__init__(optimizer)

    def rate(self, steps: Tensor, initial: float) -> Tensor:
        up = _along_cosine(self.first_lr, self.max_lr, steps / self.peak)
        after = ((steps - self.peak) / (self.end - self.peak)).minimum(1.0)
        return (steps <= self.peak).where(up, _along_cosine(self.max_lr, self.last_lr, after))


@explained
class SequentialLR(Schedule):
    """One schedule after the other: the next begins anew at each of `milestones`, in steps."""

    milestones: tuple[int, ...]

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[Schedule], milestones: Sequence[int]
    ) -> None:
        if len(schedulers) != len(milestones) + 1 or list(milestones) != sorted(milestones):
            raise UserError(
                f"[SequentialLR] {len(schedulers)} schedules need {len(schedulers) - 1} ascending "
                f"milestones, not {list(milestones)}"
            )
        self._schedulers, self.milestones = tuple(schedulers), tuple(milestones)
        super().__init__(optimizer)

    def rate(self, steps: Tensor, initial: float) -> Tensor:
        first, *rest = self._schedulers
        rate = first.rate(steps, initial)
        for schedule, begin in zip(rest, self.milestones, strict=True):
            later = schedule.rate((steps - begin).maximum(0.0), initial)
            rate = (steps < begin).where(rate, later)
        return rate


def _along_cosine(begin: float, end: float, done: Tensor) -> Tensor:
    """From `begin` where `done` is 0 to `end` where it is 1."""
    return end + (begin - end) * 0.5 * (1 + (done * math.pi).cos())


def _check_steps(schedule: str, name: str, count: int) -> None:
    if count < 1:
        raise UserError(f"[{schedule}] {name} must be at least 1, not {count}")
