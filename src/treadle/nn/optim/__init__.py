"""Optimisers: parameters and their gradients become new parameters, in place.

    opt = nn.optim.Adam(nn.state.get_parameters(net), lr=1e-3)
    schedule = nn.optim.CosineAnnealingLR(opt, T_max=1000)
    opt.zero_grad(); loss.backward(); opt.step(); schedule.step()

All state (learning rates, moments, step counts) lives in tensors that are updated by assignment,
so a step that TinyJit captured advances at every replay, and `nn.state.get_state_dict(opt)` is a
checkpoint of it.
"""

from .adam import LAMB, Adam, AdamW
from .optimizer import Optimizer, OptimizerGroup, ParameterGroup
from .schedule import (
    CosineAnnealingLR,
    LinearLR,
    OneCycleLR,
    Schedule,
    SequentialLR,
    StepLR,
)
from .sgd import LARS, SGD, Muon

__all__ = [
    "LAMB",
    "LARS",
    "SGD",
    "Adam",
    "AdamW",
    "CosineAnnealingLR",
    "LinearLR",
    "Muon",
    "OneCycleLR",
    "Optimizer",
    "OptimizerGroup",
    "ParameterGroup",
    "Schedule",
    "SequentialLR",
    "StepLR",
]
