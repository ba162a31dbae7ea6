"""The first call of a captured function runs the kernels that all later calls run."""

import threading

import numpy as np
import pytest

from treadle import GlobalCounters, Tensor, TinyJit, nn
from treadle.bench.cold_start.programs import PROGRAMS
from treadle.engine import memory, steps
from treadle.engine.storages import capturing, first_call


class Classifier:
    """A convolution with batch norm, dropout and a matrix."""

    def __init__(self, device):
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm(8)
        self.scores = nn.Linear(8 * 8 * 8, 10)
        for tensor in nn.state.get_state_dict(self).values():
            tensor.to_(device)

    def __call__(self, x):
        x = self.norm(self.conv(x)).relu().flatten(1).dropout(0.1)
        return self.scores(x)


def training(device, optimiser, clip, realized):
    """A training step of a classifier."""
    model = Classifier(device)
    opt = optimiser(nn.state.get_parameters(model), lr=1e-2)
    x = Tensor.rand(4, 3, 8, 8, device=device).realize()
    labels = Tensor([1, 2, 3, 4], device=device)

    @TinyJit
    def step():
        opt.zero_grad()
        loss = model(x).cross_entropy(labels)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(opt.params, 1.0)
        opt.step()
        return loss.realize() if realized else loss

    def run():
        with Tensor.train():
            return step().item()

    return run


def counted(call):
    """What `call` scheduled, compiled, and loaded from disk."""
    GlobalCounters.reset()
    call()
    return GlobalCounters.schedule_count, GlobalCounters.compile_count, GlobalCounters.cache_hits


@pytest.mark.parametrize("realized", [True, False])
@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("optimiser", [nn.optim.SGD, nn.optim.AdamW])
def test_the_second_call_of_a_training_step_adds_nothing(optimiser, clip, realized):
    step = training("CPU", optimiser, clip, realized)
    losses = [step()]
    assert counted(lambda: losses.append(step())) == (0, 0, 0)
    assert counted(lambda: losses.append(step())) == (0, 0, 0)
    assert len({*losses}) == 3  # each has trained


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_second_call_of_each_program_of_the_benchmark_adds_nothing(name):
    step = PROGRAMS[name].make()
    step()
    assert counted(step) == (0, 0, 0)


def test_state_that_only_the_function_writes_is_there_after_the_first_call():
    total = Tensor([0.0]).realize()

    @TinyJit
    def add(x):
        total.assign(total + x.sum())
        return x + 1

    for number in range(1, 5):
        found = add(Tensor.ones(3).realize())
        assert found.tolist() == [2.0] * 3
        assert total.tolist() == [3.0 * number]


def test_graphs_from_before_are_computed_once():
    data = Tensor(np.arange(6, dtype=np.float32)).realize() * 2

    @TinyJit
    def scaled(x):
        return (data * x).realize()

    first = counted(lambda: scaled(Tensor([3.0]).realize()))
    assert first[0] > 0
    assert counted(lambda: scaled(Tensor([4.0]).realize())) == (0, 0, 0)
    np.testing.assert_equal(scaled(Tensor([5.0]).realize()).numpy(), np.arange(6) * 10.0)


def test_weights_that_last_are_packed_from_the_first_call_on():
    weight = Tensor.rand(112, 96).realize()
    multiply = TinyJit(lambda x: (x @ weight.T).realize())
    inputs = [Tensor.rand(21, 96).realize() for _ in range(3)]
    assert counted(lambda: multiply(inputs[0]))[0] > 0
    assert counted(lambda: multiply(inputs[1])) == (0, 0, 0)
    found = multiply(inputs[2]).numpy()
    np.testing.assert_allclose(found, inputs[2].numpy() @ weight.numpy().T, rtol=1e-5)


def test_an_interrupted_first_call_leaves_the_next_one_a_first_call():
    told = [KeyboardInterrupt]

    @TinyJit
    def add(x):
        if told:
            raise told.pop()
        return (x + 1).realize()

    with pytest.raises(KeyboardInterrupt):
        add(Tensor([1.0]).realize())
    assert first_call.value is None
    for _ in range(3):
        assert add(Tensor([1.0]).realize()).tolist() == [2.0]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_states_that_begin_as_one_constant_are_captured_at_once(count):
    states = [Tensor(0.0) for _ in range(count)]

    @TinyJit
    def step(x):
        for number, state in enumerate(states):
            state.assign(state + number)
        return (x + 1).realize()

    for _ in range(3):
        step(Tensor([1.0]).realize())
    capture = step._capture
    assert capture is not None
    step(Tensor([1.0]).realize())
    assert step._capture is capture
    assert [state.item() for state in states] == [4.0 * number for number in range(count)]


def test_a_first_call_is_one_of_its_thread_alone():
    entered, left, seen = threading.Event(), threading.Event(), []

    @TinyJit
    def slow(x):
        entered.set()
        left.wait(60)
        return (x * 3).realize()

    thread = threading.Thread(target=lambda: seen.append(slow(Tensor([2.0]).realize()).tolist()))
    thread.start()
    assert entered.wait(60)
    assert not capturing.is_repeated
    data = Tensor([1.0, 2.0]).realize() + 1
    quick = TinyJit(lambda x: (x + data).realize())
    assert [quick(Tensor([1.0]).realize()).tolist() for _ in range(3)] == [[3.0, 4.0]] * 3
    left.set()
    thread.join()
    assert seen == [[6.0]]
    assert not capturing.is_repeated


@pytest.mark.parametrize("optimiser", [nn.optim.SGD, nn.optim.AdamW])
def test_no_call_copies_parameters(optimiser, monkeypatch):
    """Nobody can read their old values: not the loss, whose gradients end with the step."""
    sizes = []
    original = memory.transfer

    def transfer(source, target):
        sizes.append(source.size)
        original(source, target)

    monkeypatch.setattr(steps, "transfer", transfer)
    run = training("CPU", optimiser, clip=False, realized=True)
    for _ in range(4):
        run()
    assert [size for size in sizes if size > 3] == []  # 3: a random counter
