"""Learning-rate schedules give PyTorch's rates, eagerly and in captured steps."""

import warnings

import numpy as np
import pytest

from treadle import Tensor, TinyJit, nn
from treadle.errors import UserError

SCHEDULES = [
    ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("LinearLR", {"start_factor": 0.1, "total_iters": 4}),
    ("CosineAnnealingLR", {"T_max": 6, "eta_min": 0.01}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 10}),
]
STEPS = 9


def optimizer():
    groups = [
        {"params": [Tensor([1.0], requires_grad=True)], "lr": 0.2},
        {"params": [Tensor([2.0], requires_grad=True)]},
    ]
    return nn.optim.SGD(groups, lr=0.4)


def rates(opt, schedule, steps=STEPS):
    found = [[group["lr"].item() for group in opt.param_groups]]
    for _ in range(steps):
        schedule.step()
        found.append([group["lr"].item() for group in opt.param_groups])
    return found


def expected_rates(make):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")
    groups = [{"params": [torch.ones(1, requires_grad=True)], "lr": 0.2},
              {"params": [torch.ones(1, requires_grad=True)]}]  # fmt: skip
    opt = torch.optim.SGD(groups, lr=0.4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it asks for a step of the optimiser in between
        schedule = make(torch.optim.lr_scheduler, opt)
        found = [[group["lr"] for group in opt.param_groups]]
        for _ in range(STEPS):
            schedule.step()
            found.append([group["lr"] for group in opt.param_groups])
    return found


@pytest.mark.parametrize(("name", "options"), SCHEDULES, ids=[s[0] for s in SCHEDULES])
def test_the_rates_of_every_group_are_pytorchs(name, options):
    opt = optimizer()
    ours = rates(opt, getattr(nn.optim, name)(opt, **options))
    extra = {"cycle_momentum": False} if name == "OneCycleLR" else {}
    expected = expected_rates(lambda module, o: getattr(module, name)(o, **options, **extra))
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-7)


def test_a_warm_up_before_a_cosine():
    def make(module, opt):
        warm = module.LinearLR(opt, start_factor=0.1, total_iters=3)
        return module.SequentialLR(opt, [warm, module.CosineAnnealingLR(opt, T_max=6)], [3])

    opt = optimizer()
    np.testing.assert_allclose(rates(opt, make(nn.optim, opt)), expected_rates(make), rtol=1e-5)


def test_a_schedule_inside_of_a_captured_step_advances_at_every_replay():
    w = Tensor([8.0], requires_grad=True)
    opt = nn.optim.SGD([w], lr=1.0)
    schedule = nn.optim.StepLR(opt, step_size=2, gamma=0.5)

    @TinyJit
    def step():
        opt.zero_grad()
        w.sum().backward()
        return w.realize(*opt.schedule_step(), *schedule.schedule_step())

    for _ in range(6):
        step()
    assert w.item() == 8.0 - (1 + 1 + 0.5 + 0.5 + 0.25 + 0.25)
    assert (opt.lr.item(), schedule.steps.item()) == (0.125, 6)


def test_a_schedule_over_a_group_of_optimizers():
    opts = [nn.optim.SGD([Tensor([1.0], requires_grad=True)], lr=lr) for lr in (0.5, 0.25)]
    group = nn.optim.OptimizerGroup(*opts)
    nn.optim.StepLR(group, step_size=1, gamma=0.5).step()
    assert [opt.lr.item() for opt in opts] == [0.25, 0.125]


def test_schedules_that_cannot_be_are_refused():
    opt = optimizer()
    with pytest.raises(UserError, match=r"\[StepLR\] step_size must be at least 1, not 0"):
        nn.optim.StepLR(opt, step_size=0)
    with pytest.raises(UserError, match="must leave steps for both ways"):
        nn.optim.OneCycleLR(opt, max_lr=1.0, total_steps=2)
    with pytest.raises(UserError, match="1 schedules need 0 ascending milestones"):
        nn.optim.SequentialLR(opt, [nn.optim.StepLR(opt, 1)], [3])
