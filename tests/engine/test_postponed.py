"""What a function reads from before is computed while its own graph is scheduled, or not at all."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit, nn
from treadle.engine import kernels, pipeline, postponed, run
from treadle.errors import InternalError


class Step:
    """A captured training step whose parameters are lazy when it is called first."""

    def __init__(self):
        self.base = Tensor(np.arange(256, dtype=np.float32), device="CPU").realize()
        self.slopes = self.base[:16] * 3
        self.weights = [
            (self.base[: 16 * (8 + n)].reshape(-1, 16) / (3 + n)).requires_grad_() for n in range(8)
        ]
        self.optimiser = nn.optim.SGD(self.weights, lr=2.0)
        self.call = TinyJit(self._call)

    def _call(self):
        self.optimiser.zero_grad()
        loss = sum((w * self.slopes).sum() for w in self.weights)
        loss.backward()
        self.optimiser.step()
        return loss.realize()

    def values(self):
        """What is around the function."""
        return [self.base.numpy(), self.slopes.numpy(), *(w.numpy() for w in self.weights)]


@pytest.fixture
def step(nothing_compiled):
    with Tensor.train():
        yield Step()


@pytest.fixture
def expected():
    """What the second call gives, by NumPy, and what it leaves."""
    base = np.arange(256, dtype=np.float32)
    weights = [base[: 16 * (8 + n)].reshape(-1, 16) / (3 + n) for n in range(8)]
    slopes = 3 * base[:16]
    loss = sum(((w - 2 * slopes) * slopes).sum() for w in weights)
    return [loss, base, slopes, *(w - 4 * slopes for w in weights)]


def check(step, expected):
    """Call it once more: whatever became of the first call, its writes count."""
    found = [step.call().numpy(), *step.values()]
    for array, value in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, value, rtol=1e-5)
    assert not postponed._waiting


class Spy:
    """Counts the calls of a function, and does something before one of them."""

    def __init__(self, monkeypatch, module, name, events):
        self.act = {}
        original = getattr(module, name)

        def called(*args, **kwargs):
            events.append(name)
            if act := self.act.pop(events.count(name), None):
                act()
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, called)


def test_a_graph_is_scheduled_before_what_it_reads_has_run(expected, step, monkeypatch):
    events = []
    Spy(monkeypatch, pipeline, "schedule", events)
    Spy(monkeypatch, run, "run_program", events)
    step.call()
    assert events == ["schedule", "schedule", "run_program", "run_program"]
    check(step, expected)


@pytest.mark.parametrize("error", [InternalError, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize(
    ("module", "name", "number"),
    [
        (pipeline, "schedule", 2), (run, "new_memory", 1), (run, "new_memory", 2),
        (kernels, "_compile", 1), (kernels, "_compile", 3), (run, "run_program", 1),
        (run, "run_program", 2), (run, "put_off", 1), (run, "adopt", 1),
    ],
)  # fmt: skip
def test_what_has_not_run_is_computed_later(
    module, name, number, error, expected, step, monkeypatch
):
    def fail():
        raise error("not now")

    events = []
    Spy(monkeypatch, module, name, events).act[number] = fail
    with Context(COMPILE_PROCESSES=0), pytest.raises(error, match="not now"):
        step.call()
    assert not postponed._waiting
    check(step, expected)


def test_whoever_asks_for_its_memory_has_it_run(expected, step, monkeypatch):
    events, found = [], []
    Spy(monkeypatch, run, "run_program", events)

    def ask():
        [waiting] = postponed._waiting
        found.extend(memory.array() for memory, _ in (*waiting._new, *waiting._written))
        events.append("asked")

    Spy(monkeypatch, pipeline, "schedule", []).act[2] = ask
    step.call()
    assert events == ["run_program", "asked", "run_program"]
    assert {array.size for array in found} >= {w.numel() for w in step.weights}
    check(step, expected)


def test_another_thread_waits_for_its_memory(expected, step, monkeypatch):
    started, found = [], []

    def ask():
        [waiting] = postponed._waiting
        memories = [memory for memory, _ in (*waiting._new, *waiting._written)]
        thread = threading.Thread(target=lambda: found.extend(m.array() for m in memories))
        thread.start()
        started.append(thread)
        time.sleep(0.05)
        assert not found

    Spy(monkeypatch, pipeline, "schedule", []).act[2] = ask
    step.call()
    started[0].join()
    assert {array.size for array in found} >= {w.numel() for w in step.weights}
    check(step, expected)


def test_memory_that_could_not_be_computed_says_so(expected, step, monkeypatch):
    memories = []

    def fail():
        [waiting] = postponed._waiting
        memories.extend(memory for memory, _ in waiting._new)
        raise InternalError("not now")

    Spy(monkeypatch, pipeline, "schedule", []).act[2] = fail
    with pytest.raises(InternalError, match="not now"):
        step.call()
    for memory in memories:
        with pytest.raises(InternalError, match="could not be computed"):
            memory.array()
    check(step, expected)


def test_memory_is_freed_apart_from_the_rest(step, monkeypatch):
    memories = []

    def note():
        [waiting] = postponed._waiting
        memories.extend(weakref.ref(memory) for memory, _ in waiting._written)

    Spy(monkeypatch, pipeline, "schedule", []).act[2] = note
    step.call()
    step.call.reset()
    gc.collect()
    assert [ref() is None for ref in memories] == [False] * len(step.weights)
    del step.optimiser, step.weights[3]
    gc.collect()
    assert sum(ref() is None for ref in memories) == 1
