"""Training over several devices gives what training on one gives."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Device, GlobalCounters, Tensor, TinyJit, nn
from treadle.errors import DeviceError

TWO = ("CPU", "CPU:1")
STEPS = 10


class Net:
    """Two matrices with a relu between."""

    def __init__(self):
        Tensor.manual_seed(3)
        self.first, self.second = nn.Linear(12, 16), nn.Linear(16, 4)

    def __call__(self, x):
        return self.second(self.first(x).relu())


def batches():
    random = np.random.default_rng(5)
    for _ in range(STEPS):
        x = random.standard_normal((8, 12)).astype(np.float32)
        yield x, random.integers(0, 4, 8)


def copied(array):
    return Tensor(array)


def split(array):
    return Tensor(array).shard(TWO, 0)


def on_both(array):
    return Tensor(array).shard(TWO)


def train(net, place, make_optimizer, jit=False):
    optimizer = make_optimizer(nn.state.get_parameters(net))

    def step(x, labels):
        optimizer.zero_grad()
        loss = net(x).sparse_categorical_crossentropy(labels).backward()
        return loss.realize(*optimizer.schedule_step())

    run = TinyJit(step) if jit else step
    with Tensor.train():
        losses = [run(*(place(a).realize() for a in batch)).item() for batch in batches()]
    return losses, [p.numpy() for p in nn.state.get_parameters(net)]


OPTIMIZERS = {
    "sgd": lambda params: nn.optim.SGD(params, lr=0.1, momentum=0.9),
    "adam": lambda params: nn.optim.Adam(params, lr=0.01),
}


def agree(found, expected):
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("jit", [False, True], ids=["plain", "captured"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_data_parallel_training(name, jit):
    expected = train(Net(), copied, OPTIMIZERS[name])
    net = Net()
    for parameter in nn.state.get_parameters(net):
        parameter.shard_(TWO)
    agree(train(net, split, OPTIMIZERS[name], jit), expected)


@pytest.mark.parametrize("jit", [False, True], ids=["plain", "captured"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_tensor_parallel_training(name, jit):
    expected = train(Net(), copied, OPTIMIZERS[name])
    net = Net()
    net.first.weight.shard_(TWO, 0)
    net.first.bias.shard_(TWO, 0)
    net.second.weight.shard_(TWO, 1)
    net.second.bias.shard_(TWO)
    agree(train(net, on_both, OPTIMIZERS[name], jit), expected)
    assert net.first.weight.node.arg.axis == 0


@pytest.mark.parametrize("other", ["CL", "WEBGPU"])
@pytest.mark.parametrize("jit", [False, True], ids=["plain", "captured"])
def test_training_over_two_runtimes(other, jit):
    try:
        Device[other].synchronize()
    except DeviceError as error:
        pytest.skip(str(error))
    devices = ("CPU", other)
    expected = train(Net(), copied, OPTIMIZERS["adam"])
    net = Net()
    for parameter in nn.state.get_parameters(net):
        parameter.shard_(devices)
    place = lambda array: Tensor(array).shard(devices, 0)
    agree(train(net, place, OPTIMIZERS["adam"], jit), expected)


class Words:
    """A table of words, whose means are classified."""

    def __init__(self):
        Tensor.manual_seed(4)
        self.table, self.classify = nn.Embedding(9, 6), nn.Linear(6, 4)

    def __call__(self, words):
        return self.classify(self.table((words.abs() * 4).int().clip(0, 8)).mean(1))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_an_embedding_is_trained(axis):
    expected = train(Words(), copied, OPTIMIZERS["adam"])
    net = Words()
    for parameter in nn.state.get_parameters(net):
        parameter.shard_(TWO, axis if parameter is net.table.weight else None)
    agree(train(net, split, OPTIMIZERS["adam"], jit=True), expected)


def test_several_devices_compute_no_part_of_a_step_twice():
    def operations(devices: tuple[str, ...] | None) -> int:
        """Those of all kernels of one step of four layers."""
        net = [nn.Linear(64, 64) for _ in range(4)]
        x = Tensor.rand(32, 64)
        parameters = nn.state.get_parameters(net)
        for p in parameters:
            p.requires_grad_()
            if devices:
                p.shard_(devices)
        x = x.shard(devices, axis=0) if devices else x
        Tensor.realize(x, *parameters)
        before = GlobalCounters.global_ops
        loss = x.sequential(net).square().mean().backward()
        Tensor.realize(loss, *(p.grad for p in parameters))
        return GlobalCounters.global_ops - before

    alone = operations(None)
    assert operations(("CPU", "CPU:1")) < 1.1 * alone
    assert operations(("CPU", "CPU:1", "CPU:2")) < 1.2 * alone
