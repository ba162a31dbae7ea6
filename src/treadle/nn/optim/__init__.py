"""Optimisers: parameters and their gradients become new parameters, in place.

    opt = nn.optim.Adam(nn.state.get_parameters(net), lr=1e-3)
    opt.zero_grad(); loss.backward(); opt.step()

All state (learning rate, moments, step corrections) lives in tensors that are updated by
assignment, so a step that TinyJit captured advances at every replay.
"""

from .adam import LAMB, Adam, AdamW
from .optimizer import Optimizer, OptimizerGroup
from .sgd import LARS, SGD, Muon

__all__ = ["LAMB", "LARS", "SGD", "Adam", "AdamW", "Muon", "Optimizer", "OptimizerGroup"]
