"""What holds parameters can be pickled, and names each of them once."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

from treadle import Tensor, nn

MODELS = {
    "layers": lambda: [nn.Linear(6, 4), Tensor.relu, nn.Embedding(5, 6), nn.RMSNorm(4)],
    "sequential": lambda: nn.Sequential({"first": nn.Linear(6, 4), "last": nn.GELU()}),
    "images": lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm(4), nn.MaxPool2d(2)),
    "sequences": lambda: {"lstm": nn.LSTM(4, 4), "attention": nn.MultiheadAttention(4, 2)},
}
OPTIMIZERS = {
    "SGD": lambda tensors: nn.optim.SGD(tensors, momentum=0.9),
    "Adam": lambda tensors: nn.optim.Adam(tensors),
    "groups": lambda tensors: nn.optim.AdamW([{"params": t, "lr": 0.1} for t in tensors]),
    "several": lambda tensors: nn.optim.OptimizerGroup(*map(nn.optim.LAMB, tensors)),
}
# In a process of its own: nothing is there but what the bytes say.
READ = """
import pickle, sys
from treadle import nn
state = nn.state.get_state_dict(pickle.loads(sys.stdin.buffer.read()))
sys.stdout.buffer.write(pickle.dumps({name: tensor.numpy() for name, tensor in state.items()}))
"""


def values(model):
    return {name: t.numpy() for name, t in nn.state.get_state_dict(model).items()}


def elsewhere(model):
    done = subprocess.run(
        [sys.executable, "-c", READ], input=pickle.dumps(model), capture_output=True, check=True
    )
    return pickle.loads(done.stdout)


def same(found, expected):
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_2_13_models_unpickle(make):
    model = make()
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        same(values(pickle.loads(pickle.dumps(model, protocol))), values(model))
    same(values(copy.deepcopy(model)), values(model))


def test_2_13_models_unpickle_in_another_process():
    models = {name: make() for name, make in MODELS.items()}
    same(elsewhere(models), values(models))


def trained(opt):
    for param in opt.params:
        param.grad = param.detach() * 2 + 1
    opt.step()
    return opt


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_2_13_an_unpickled_optimizer_goes_on_as_the_first(make):
    tensors = [Tensor(np.full(n + 2, n, np.float32), requires_grad=True) for n in range(3)]
    opt = trained(make(tensors))
    again = pickle.loads(pickle.dumps(opt))
    assert values(trained(again)).keys() == values(opt).keys()
    same(values(again), values(trained(opt)))
    assert all(param is tensor for param, tensor in zip(opt.params, tensors, strict=True))


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_2_13_the_state_of_an_optimizer_names_each_tensor_once(make):
    tensors = [Tensor(np.ones(n + 2, np.float32), requires_grad=True) for n in range(3)]
    fixed = Tensor(np.ones(2, np.float32), requires_grad=False)
    opt = make([*tensors, fixed] if make is OPTIMIZERS["SGD"] else tensors)
    found = list(nn.state.get_state_dict(opt).values())
    assert len({id(t) for t in found}) == len(found)
    assert {id(t) for t in tensors} < {id(t) for t in found}
