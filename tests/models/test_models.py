"""Whole small models, written once for both libraries: values and all gradients are right."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, TinyJit
from treadle import nn as layers

torch = pytest.importorskip("torch", reason="the judge is PyTorch: pip install treadle[oracle]")

from .definitions import MODELS, TREADLE, torch_library  # noqa: E402
from .judge import check, steady  # noqa: E402


class Twin:
    """A model in PyTorch, its parameters and buffers by treadle's names."""

    def __init__(self, make):
        self.model = make(torch_library())
        self.parts = layers.state.get_state_dict(self.model, tensor_type=torch.nn.Module)

    def named(self, what):
        found = {part: getattr(module, what)() for part, module in self.parts.items()}
        return {f"{part}.{name}": t for part, given in found.items() for name, t in given}

    def state(self):
        state = {**self.named("named_parameters"), **self.named("named_buffers")}
        return {
            name: t.detach().numpy().copy() for name, t in state.items() if t.is_floating_point()
        }

    def to(self, dtype):
        for module in self.parts.values():
            module.to(dtype)
        return self

    def run(self, inputs, weights):
        dtype = next(iter(self.named("named_parameters").values())).dtype
        tensors = [torch.from_numpy(x) for x in inputs]
        out = self.model(*[t.to(dtype) if t.is_floating_point() else t for t in tensors])
        if out.requires_grad:
            (out * torch.from_numpy(weights(out.shape)).to(dtype)).sum().backward()
        gradients = {
            n: p.grad.numpy()
            for n, p in self.named("named_parameters").items()
            if p.grad is not None
        }
        return {"result": out.detach().numpy(), **gradients}


def prepared(make, draw):
    """Twins in float64 and float32 of the same state, with inputs that stay away from kinks."""
    torch.manual_seed(0)
    exact = Twin(make).to(torch.float64)
    inputs_of = lambda seed: draw(np.random.default_rng(seed))
    seed = steady(lambda seed: exact.run(inputs_of(seed), None))
    torch.manual_seed(0)
    return exact, Twin(make), inputs_of(seed)


def weights(shape):
    return np.random.default_rng(9).standard_normal(tuple(shape))


@pytest.mark.parametrize(("make", "draw"), MODELS.values(), ids=MODELS)
def test_values_and_gradients_of_models_are_right(make, draw):
    exact, eager, inputs = prepared(make, draw)
    model = make(TREADLE)
    state = layers.state.get_state_dict(model)
    values = {name: Tensor(value.astype(np.float32)) for name, value in eager.state().items()}
    layers.state.load_state_dict(model, values, strict=False, verbose=False)
    trained = {name: state[name].requires_grad_() for name in eager.named("named_parameters")}

    @TinyJit
    def step(*inputs):
        out = model(*inputs)
        loss = (out * Tensor(weights(out.shape).astype(np.float32))).sum()
        found = loss.gradient(*trained.values())
        Tensor.realize(out, *found)
        return out, found

    wanted, theirs = exact.run(inputs, weights), eager.run(inputs, weights)
    given = [Tensor(x.astype(np.float32) if x.dtype == np.float64 else x) for x in inputs]
    with Tensor.train():
        for _ in range(2):
            out, found = step(*given)
            named = dict(zip(trained, (t.numpy() for t in found), strict=True))
            check({"result": out.numpy(), **named}, theirs, wanted)
